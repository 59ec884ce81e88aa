/*
 * A requester's side of a transfer: which tensors differ, which of their chunks, and who is asked for what. Pure: the
 * driver holds the connections, moves the bytes, and hands in time.
 *
 * Everything is verified downwards from the proof of the content, which the master has of those who hold it: the roots
 * of a donor must give it, a tensor's chunk proofs must give its root, a chunk's bytes its proof. A donor that says
 * anything else is dropped, and what it was asked for is asked of others. Tensors that need not be equal come from one
 * donor alone, the source, whose roots are their law; when it is lost another one becomes the source, and they are
 * compared anew.
 *
 * Chunks are asked of all donors at once, several in flight on each (more over a long way). Who is faster is asked for
 * more. When none is left to be asked for, idle donors are asked for what slower ones have not begun to deliver for a
 * while; the first to begin gets to write, later copies are thrown away. A donor that is silent for
 * PCCL_FETCH_STALL_MS while it owes something is passed over (its claims are taken away: dropped), unless no other one
 * that is not silent can do what it does: if it is the only one, or the only one that holds tensors that are missing.
 *
 * The state's chunk proofs always tell what is in memory: a chunk that is being written has the proof 0, and so
 * have, until they are sealed, the root of its tensor and the content that the tensor is part of.
 */
#ifndef PCCL_STATE_FETCH_H
#define PCCL_STATE_FETCH_H

#include "state/state.h"

enum { PCCL_FETCH_STALL_MS = 500, PCCL_FETCH_DONORS = PCCL_STATE_DONORS_MAX * 4 };

struct pccl_fetch;

enum pccl_fetch_status {
    PCCL_FETCH_RUNNING,
    PCCL_FETCH_COMPLETE, /* the state is as elected; its roots and content are proven */
    PCCL_FETCH_FAILED,   /* memory that no donor's loss makes up for; or pccl_fetch_give_up was called */
};

/* They do not call back. */
struct pccl_fetch_effects {
    void *context;
    void (*send)(void *context, uint32_t donor, const struct pccl_msg *msg);
    /* Close its connection: it stalls, or has no memory; `words` for the log. pccl_fetch_donor_down is implied. */
    void (*drop)(void *context, uint32_t donor, const char *reason);
};

/* Where the bytes of a state_data go. */
struct pccl_fetch_arrival {
    bool wanted; /* false: throw them away */
    uint32_t tensor;
    uint64_t chunk;
    uint32_t length;
};

/* `state` must be proven, outlives the fetch, and is changed by it. NULL: out of memory. */
struct pccl_fetch *pccl_fetch_create(struct pccl_state *state, const struct pccl_memory *memory,
                                     const struct pccl_fetch_effects *effects);
void pccl_fetch_destroy(struct pccl_fetch *fetch);
/*
 * What is wanted, of which round. Again after a restart of the master: maybe other content, and donors must be added
 * anew, for all are gone. If tensors that need not be equal are torn then, they are taken whatever takes_unequal says.
 */
void pccl_fetch_begin(struct pccl_fetch *fetch, uint64_t now_us, uint64_t round, const struct pccl_proof *content,
                      bool takes_unequal);
/*
 * A connection to a donor stands; donor is any number below PCCL_FETCH_DONORS that is not up. rtt_us 0: unknown. Out of
 * memory: this one is dropped.
 */
void pccl_fetch_donor_up(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor, bool holds_unequal,
                         uint32_t rtt_us);
/* Its connection is closed: nothing of it is written any more. Nothing happens if it is not up. */
void pccl_fetch_donor_down(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor);
/*
 * state_proofs or state_data came. For data *arrival says where the bytes go; its tensor may be written from now on.
 * MALFORMED with words: the donor is to be dropped (and pccl_fetch_donor_down called).
 */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_received(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor,
                                                     const struct pccl_msg *msg, struct pccl_fetch_arrival *arrival,
                                                     struct pccl_text *reason);
/* Some bytes of an arrival or of a frame have come: the donor is alive. */
void pccl_fetch_progress(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor);
/*
 * All of them are in place, and this is their proof; or thrown away (the proof does not matter). MALFORMED: not what
 * was elected; as above.
 */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_arrived(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor,
                                                    const struct pccl_proof *proof, struct pccl_text *reason);
void pccl_fetch_tick(struct pccl_fetch *fetch, uint64_t now_us);
uint64_t pccl_fetch_deadline(const struct pccl_fetch *fetch); /* UINT64_MAX: never */
/* It is not over, and no donor that is up can help: without another one there is only pccl_fetch_give_up. */
bool pccl_fetch_is_starved(const struct pccl_fetch *fetch);
/* It is starved, and no donor is to be expected: fails. */
void pccl_fetch_give_up(struct pccl_fetch *fetch, const char *reason);
enum pccl_fetch_status pccl_fetch_status(const struct pccl_fetch *fetch);
const struct pccl_text *pccl_fetch_reason(const struct pccl_fetch *fetch); /* FAILED: why */
/* Memory of this tensor has been written to, and it is not complete. */
bool pccl_fetch_is_torn(const struct pccl_fetch *fetch, uint32_t tensor);
uint64_t pccl_fetch_bytes(const struct pccl_fetch *fetch); /* verified chunks so far */

#endif
