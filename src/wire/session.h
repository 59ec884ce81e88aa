/*
 * One end of a control session (PROTOCOL 3). Numbers outgoing messages, keeps them until they are acknowledged, and
 * drops incoming duplicates. It outlives its connections: after a reconnect, all unacknowledged messages are sent
 * again, so the state machines that use it see a reliable FIFO.
 */
#ifndef PCCL_WIRE_SESSION_H
#define PCCL_WIRE_SESSION_H

#include "core/base.h"
#include "core/memory.h"
#include "core/status.h"
#include "wire/wire.h"

struct pccl_session_entry; /* one encoded frame */

struct pccl_session {
    const struct pccl_memory *memory;
    struct pccl_session_entry *oldest, *newest; /* owned; not acknowledged, whether sent or not */
    uint32_t queued_count;
    size_t queued_bytes;
    uint64_t sent;         /* last number assigned */
    uint64_t acknowledged; /* last number acknowledged by the other side */
    uint64_t received;     /* last number received from the other side */
    uint64_t acked;        /* last number acknowledged to the other side */
};

void pccl_session_init(struct pccl_session *session, const struct pccl_memory *memory);
void pccl_session_fini(struct pccl_session *session);
/* Clears the session, for use with a restarted master. */
void pccl_session_reset(struct pccl_session *session);

/*
 * Encodes a message, numbers it and keeps it. *frame is a view of it that is valid until it is acknowledged; the caller
 * sends it if there is a connection. `mark` is any increasing number (0: none). Returns LIMIT if the queue is full, or
 * MEMORY, without any change.
 */
PCCL_MUST_CHECK enum pccl_status pccl_session_push(struct pccl_session *session, const struct pccl_msg *msg,
                                                   uint64_t mark, struct pccl_bytes *frame);
/*
 * Returns true if a received frame must be processed, and false if it is a duplicate. If a frame is missing before it,
 * also sets *gap.
 */
bool pccl_session_accept(struct pccl_session *session, uint64_t sequence, bool *gap);
/*
 * Releases the messages up to `acknowledged`, which the other side has received. Returns the highest mark among them,
 * or 0. Sets *invalid if that number was never sent.
 */
uint64_t pccl_session_acknowledge(struct pccl_session *session, uint64_t acknowledged, bool *invalid);
/* Iterates over the unacknowledged frames, oldest first. Pass NULL to begin. Returns NULL at the end. */
const struct pccl_session_entry *pccl_session_unacknowledged(const struct pccl_session *session,
                                                             const struct pccl_session_entry *after,
                                                             struct pccl_bytes *frame);
/* Returns true if enough has been received since the last acknowledgment to send another one now. */
bool pccl_session_needs_acknowledgment(const struct pccl_session *session);
/*
 * Checks the session's invariants, for tests: it keeps exactly the unacknowledged messages, within its limits, and has
 * acknowledged no more than it has received.
 */
bool pccl_session_is_sound(const struct pccl_session *session);

#endif
