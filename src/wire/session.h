/*
 * One direction pair of a control session (PROTOCOL 3): numbers what is sent, keeps it until it is acknowledged, drops
 * duplicates of what is received. Survives its connections: after a reconnect the unacknowledged tail is sent again, so
 * the machines above see one reliable FIFO.
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
    struct pccl_session_entry *oldest, *newest; /* owned, sent or to be sent, not acknowledged */
    uint32_t queued_count;
    size_t queued_bytes;
    uint64_t sent;         /* last number given out */
    uint64_t acknowledged; /* by the other side */
    uint64_t received;     /* last number taken from the other side */
    uint64_t told;         /* last number the other side was told we have */
};

void pccl_session_init(struct pccl_session *session, const struct pccl_memory *memory);
void pccl_session_fini(struct pccl_session *session);
/* Forgets everything: for a master of another boot. */
void pccl_session_reset(struct pccl_session *session);

/*
 * Encodes, numbers and keeps a message. *frame is the view to send now if there is a connection; it stays valid until
 * it is acknowledged. `mark` is any rising number of the caller (0: none). LIMIT: the queue is full; MEMORY; nothing
 * changed then.
 */
PCCL_MUST_CHECK enum pccl_status pccl_session_push(struct pccl_session *session, const struct pccl_msg *msg,
                                                   uint64_t mark, struct pccl_bytes *frame);
/* A numbered frame has come: true = take it; false = a duplicate, or a gap (then *gap: the stream is broken). */
bool pccl_session_accept(struct pccl_session *session, uint64_t sequence, bool *gap);
/*
 * The other side has everything up to `acknowledged`. Returns the highest mark released, 0 if none. *invalid: never
 * sent.
 */
uint64_t pccl_session_acknowledge(struct pccl_session *session, uint64_t acknowledged, bool *invalid);
/* Walks the unacknowledged frames, oldest first: pass NULL to begin. NULL: no more. */
const struct pccl_session_entry *pccl_session_unacknowledged(const struct pccl_session *session,
                                                             const struct pccl_session_entry *after,
                                                             struct pccl_bytes *frame);
/* True when enough was received since the last acknowledgment that one should be sent now. */
bool pccl_session_owes_acknowledgment(const struct pccl_session *session);
/* For tests: it keeps what is not acknowledged and nothing else, within bounds, and has told no more than it has. */
bool pccl_session_is_sound(const struct pccl_session *session);

#endif
