/*
 * The requester's side of a transfer: the tensors that differ, their chunks that differ, and the donor of each request.
 * Pure: the driver owns the connections, moves the bytes, and passes in the time.
 *
 * Everything is verified from the proof of the content down, which the master gets from the holders: a donor's roots
 * must hash to it, a tensor's chunk proofs to its root, and a chunk's bytes to its proof. A donor that sends anything
 * else is dropped, and others are asked instead. Tensors that need not be equal are fetched from a single donor, the
 * source, whose roots are binding for them; when it is lost another one becomes the source, and they are compared
 * again.
 *
 * Chunks are requested from all donors at once, several in flight for each (more over a long path), so faster donors
 * get more requests. When all chunks have been requested, idle donors are asked for chunks that slower ones have not
 * begun to deliver for a while; the first donor to begin writes the chunk, and later copies are discarded. A donor that
 * is silent for PCCL_FETCH_STALL_MS while answers are outstanding is dropped and others take over its requests, unless
 * no other donor that is not silent could: it is the only one, or the only one with tensors that are missing.
 *
 * The state's chunk proofs always match the memory: a chunk that is being written has the proof 0, and so have the root
 * of its tensor and the content that includes it, until they are sealed.
 */
#ifndef PCCL_STATE_FETCH_H
#define PCCL_STATE_FETCH_H

#include "state/state.h"

enum { PCCL_FETCH_STALL_MS = 500, PCCL_FETCH_DONORS = PCCL_STATE_DONORS_MAX * 4 };

struct pccl_fetch;

enum pccl_fetch_status {
    PCCL_FETCH_RUNNING,
    PCCL_FETCH_COMPLETE, /* the state equals the elected content; its roots and content are proven */
    PCCL_FETCH_FAILED,   /* memory is short, which no other donor can compensate; or pccl_fetch_give_up was called */
};

/* Must not call back. */
struct pccl_fetch_effects {
    void *context;
    void (*send)(void *context, uint32_t donor, const struct pccl_msg *msg);
    /*
     * Closes this donor's connection: it stalls, or memory for it is short; `reason` is for the log. Implies
     * pccl_fetch_donor_down.
     */
    void (*drop)(void *context, uint32_t donor, const char *reason);
};

/* Destination of the bytes of a state_data. */
struct pccl_fetch_arrival {
    bool wanted; /* false: discard them */
    uint32_t tensor;
    uint64_t chunk;
    uint32_t length;
};

/* Creates a fetch into `state`, which must be proven and outlive the fetch. Returns NULL if out of memory. */
struct pccl_fetch *pccl_fetch_create(struct pccl_state *state, const struct pccl_memory *memory,
                                     const struct pccl_fetch_effects *effects);
void pccl_fetch_destroy(struct pccl_fetch *fetch);
/*
 * Sets the round and the wanted content. Call it again after a restart of the master, which may want other content: all
 * donors are forgotten and must be added again. Tensors that need not be equal and are torn then are fetched regardless
 * of takes_unequal.
 */
void pccl_fetch_begin(struct pccl_fetch *fetch, uint64_t now_us, uint64_t round, const struct pccl_proof *content,
                      bool takes_unequal);
/*
 * Adds a connected donor; `donor` is any unused number below PCCL_FETCH_DONORS. rtt_us 0: unknown. If memory is short
 * this donor is dropped.
 */
void pccl_fetch_donor_up(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor, bool holds_unequal,
                         uint32_t rtt_us);
/* Removes a donor whose connection is closed: none of its data is written from now on. No effect if it is not up. */
void pccl_fetch_donor_down(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor);
/*
 * Takes a state_proofs or state_data message. For data *arrival is the destination; its tensor may be written from now
 * on. Returns MALFORMED with a reason: drop the donor (and call pccl_fetch_donor_down).
 */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_received(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor,
                                                     const struct pccl_msg *msg, struct pccl_fetch_arrival *arrival,
                                                     struct pccl_text *reason);
/* Records that some bytes of an arrival or of a frame have arrived, so the donor is alive. */
void pccl_fetch_progress(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor);
/*
 * Completes an arrival whose bytes are in place, with their proof; or were discarded, and then the proof is ignored.
 * Returns MALFORMED if they are not the elected ones; as above.
 */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_arrived(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor,
                                                    const struct pccl_proof *proof, struct pccl_text *reason);
void pccl_fetch_tick(struct pccl_fetch *fetch, uint64_t now_us);
uint64_t pccl_fetch_deadline(const struct pccl_fetch *fetch); /* UINT64_MAX: never */
/*
 * Returns true if the fetch has not ended and no donor that is up can help: unless another one is added, call
 * pccl_fetch_give_up.
 */
bool pccl_fetch_is_starved(const struct pccl_fetch *fetch);
/* Fails a starved fetch for which no further donor can be expected. */
void pccl_fetch_give_up(struct pccl_fetch *fetch, const char *reason);
enum pccl_fetch_status pccl_fetch_status(const struct pccl_fetch *fetch);
const struct pccl_text *pccl_fetch_reason(const struct pccl_fetch *fetch); /* FAILED: the reason */
/* Returns true if this tensor has been written to and is not complete. */
bool pccl_fetch_is_torn(const struct pccl_fetch *fetch, uint32_t tensor);
uint64_t pccl_fetch_bytes(const struct pccl_fetch *fetch); /* verified chunks so far */
/* Returns the missing bytes, as far as known: all bytes of a tensor whose differing chunks are not known yet. */
uint64_t pccl_fetch_left(const struct pccl_fetch *fetch);

#endif
