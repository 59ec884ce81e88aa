/*
 * One end of a control session (PROTOCOL 3): numbers outgoing messages, keeps them until they are acknowledged, and
 * drops incoming duplicates. It outlives its connections: after a reconnect all unacknowledged messages are sent again,
 * so the machines above see one reliable FIFO.
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
    struct pccl_session_entry *oldest, *newest; /* owned; sent or not, but not acknowledged */
    uint32_t queued_count;
    size_t queued_bytes;
    uint64_t sent;         /* last number assigned */
    uint64_t acknowledged; /* by the other side */
    uint64_t received;     /* last number taken from the other side */
    uint64_t told;         /* last number acknowledged to the other side */
};

void pccl_session_init(struct pccl_session *session, const struct pccl_memory *memory);
void pccl_session_fini(struct pccl_session *session);
/* Clears the session for a master of another boot. */
void pccl_session_reset(struct pccl_session *session);

/*
 * Encodes, numbers and keeps a message. *frame is a view of it, valid until it is acknowledged, to send now if there is
 * a connection. `mark` is any increasing number of the caller (0: none). Returns LIMIT if the queue is full, or MEMORY;
 * nothing has changed then.
 */
PCCL_MUST_CHECK enum pccl_status pccl_session_push(struct pccl_session *session, const struct pccl_msg *msg,
                                                   uint64_t mark, struct pccl_bytes *frame);
/*
 * Returns true if a received frame must be processed; false if it is a duplicate or, with *gap, the stream is broken.
 */
bool pccl_session_accept(struct pccl_session *session, uint64_t sequence, bool *gap);
/*
 * Releases the messages up to `acknowledged`, which the other side has received. Returns the highest mark among them,
 * or 0. *invalid: that number was never sent.
 */
uint64_t pccl_session_acknowledge(struct pccl_session *session, uint64_t acknowledged, bool *invalid);
/* Returns the next unacknowledged frame, oldest first; pass NULL to begin. Returns NULL at the end. */
const struct pccl_session_entry *pccl_session_unacknowledged(const struct pccl_session *session,
                                                             const struct pccl_session_entry *after,
                                                             struct pccl_bytes *frame);
/* Returns true if enough was received since the last acknowledgment that one should be sent now. */
bool pccl_session_owes_acknowledgment(const struct pccl_session *session);
/*
 * Returns true if the session keeps exactly the unacknowledged messages, within bounds, and has acknowledged no more
 * than it received. For tests.
 */
bool pccl_session_is_sound(const struct pccl_session *session);

#endif
