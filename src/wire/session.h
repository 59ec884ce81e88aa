/*
 * One end of a control session (PROTOCOL 3): numbers what is sent, keeps it until it is
 * acknowledged, and drops duplicates of what is received. It outlives its connections: after a
 * reconnect whatever is unacknowledged is sent again, so the machines above see one reliable FIFO.
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
/* Forgets everything; for a master of another boot. */
void pccl_session_reset(struct pccl_session *session);

/*
 * Encodes, numbers and keeps a message. *frame is a view of it, valid until it is acknowledged, to
 * be sent now if there is a connection. `mark` is any increasing number of the caller (0: none).
 * LIMIT: the queue is full; MEMORY; nothing has changed then.
 */
PCCL_MUST_CHECK enum pccl_status pccl_session_push(struct pccl_session *session, const struct pccl_msg *msg,
                                                   uint64_t mark, struct pccl_bytes *frame);
/*
 * A numbered frame has come. true: process it; false: it is a duplicate or, with *gap, the stream
 * is broken.
 */
bool pccl_session_accept(struct pccl_session *session, uint64_t sequence, bool *gap);
/*
 * The other side has everything up to `acknowledged`. Returns the highest mark among the released
 * messages, 0 if none. *invalid: that number was never sent.
 */
uint64_t pccl_session_acknowledge(struct pccl_session *session, uint64_t acknowledged, bool *invalid);
/* Walks the unacknowledged frames, oldest first: pass NULL to begin. NULL: no more. */
const struct pccl_session_entry *pccl_session_unacknowledged(const struct pccl_session *session,
                                                             const struct pccl_session_entry *after,
                                                             struct pccl_bytes *frame);
/* Whether so much was received since the last acknowledgment that one should be sent now. */
bool pccl_session_owes_acknowledgment(const struct pccl_session *session);
/*
 * For tests: it keeps exactly what is not acknowledged, within bounds, and has acknowledged no more
 * than it received.
 */
bool pccl_session_is_sound(const struct pccl_session *session);

#endif
