/*
 * The requester's side of a transfer: finds the tensors and chunks that differ, and chooses the donor of each request.
 * Pure: the driver owns the connections, moves the bytes, and passes in the time.
 *
 * Everything is verified, starting from the proof of the content, which the master receives from the holders: a donor's
 * roots must hash to that proof, a tensor's chunk proofs to the tensor's root, and a chunk's bytes to the chunk's
 * proof. A donor that sends other data is dropped, and the requests go to others. Tensors that may differ between peers
 * are fetched from a single donor, the source, whose roots are binding for them. When the source is lost, another donor
 * becomes the source, and these tensors are compared again.
 *
 * Chunks are requested from all donors at once, with several in flight per donor (more over a long path), so faster
 * donors receive more requests. When all chunks have been requested, idle donors receive requests for chunks that
 * slower donors have not begun to deliver for a while. The first donor to begin writes the chunk, and later copies are
 * discarded. A donor that is silent for PCCL_FETCH_STALL_MS while answers are outstanding is dropped and others take
 * over its requests, unless no other responding donor could replace it.
 *
 * The state's chunk proofs always match the memory: a chunk that is being written has the proof 0, and so do the root
 * of its tensor and the content that includes it, until they are computed again.
 */
#ifndef PCCL_STATE_FETCH_H
#define PCCL_STATE_FETCH_H

#include "state/state.h"

enum { PCCL_FETCH_STALL_MS = 500, PCCL_FETCH_DONORS = PCCL_STATE_DONORS_MAX * 4 };

struct pccl_fetch;

enum pccl_fetch_status {
    PCCL_FETCH_RUNNING,
    PCCL_FETCH_COMPLETE, /* the state equals the elected content; its roots and content are proven */
    PCCL_FETCH_FAILED,   /* memory ran out, or pccl_fetch_give_up was called */
};

/* Effects must not call the fetch. */
struct pccl_fetch_effects {
    void *context;
    void (*send)(void *context, uint32_t donor, const struct pccl_msg *msg);
    /*
     * Closes this donor's connection, because it stalls or memory for it ran out; `reason` is for the log. Implies
     * pccl_fetch_donor_down.
     */
    void (*drop)(void *context, uint32_t donor, const char *reason);
};

/* Destination of the bytes of a state_data. */
struct pccl_fetch_arrival {
    bool wanted; /* if false, discard the bytes */
    uint32_t tensor;
    uint64_t chunk;
    uint32_t length;
};

/*
 * Creates a fetch into `state`, whose proofs must have been computed, and which must outlive the fetch. Returns NULL if
 * out of memory.
 */
struct pccl_fetch *pccl_fetch_create(struct pccl_state *state, const struct pccl_memory *memory,
                                     const struct pccl_fetch_effects *effects);
void pccl_fetch_destroy(struct pccl_fetch *fetch);
/*
 * Sets the round and the wanted content. Call it again after a restart of the master, which may elect other content:
 * all donors are dropped and must be added again. Tensors that may differ between peers are also fetched if they are
 * torn, regardless of takes_unequal.
 */
void pccl_fetch_begin(struct pccl_fetch *fetch, uint64_t now_us, uint64_t round, const struct pccl_proof *content,
                      bool takes_unequal);
/*
 * Adds a connected donor. `donor` is an unused number below PCCL_FETCH_DONORS; rtt_us is 0 if unknown. Drops the donor
 * if memory runs out.
 */
void pccl_fetch_donor_up(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor, bool holds_unequal,
                         uint32_t rtt_us);
/*
 * Removes a donor whose connection is closed. None of its data is written after this call. Does nothing if the donor is
 * not up.
 */
void pccl_fetch_donor_down(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor);
/*
 * Handles a state_proofs or state_data message. For data, *arrival is the destination, whose tensor may be written from
 * then on. Returns MALFORMED with a reason if the donor must be dropped (then call pccl_fetch_donor_down).
 */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_received(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor,
                                                     const struct pccl_msg *msg, struct pccl_fetch_arrival *arrival,
                                                     struct pccl_text *reason);
/* Records that some bytes of an arrival or of a frame have arrived, which shows that the donor is alive. */
void pccl_fetch_progress(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor);
/*
 * Completes an arrival whose bytes are in place, with their proof. If the bytes were discarded, the proof is ignored.
 * Returns MALFORMED if they are not the elected bytes, as above.
 */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_arrived(struct pccl_fetch *fetch, uint64_t now_us, uint32_t donor,
                                                    const struct pccl_proof *proof, struct pccl_text *reason);
void pccl_fetch_tick(struct pccl_fetch *fetch, uint64_t now_us);
uint64_t pccl_fetch_deadline(const struct pccl_fetch *fetch); /* UINT64_MAX if none exists */
/*
 * Returns true if the fetch has not ended and no connected donor can help. Unless another donor is added, call
 * pccl_fetch_give_up.
 */
bool pccl_fetch_is_starved(const struct pccl_fetch *fetch);
/* Fails a starved fetch for which no further donor can be expected. */
void pccl_fetch_give_up(struct pccl_fetch *fetch, const char *reason);
enum pccl_fetch_status pccl_fetch_status(const struct pccl_fetch *fetch);
const struct pccl_text *pccl_fetch_reason(const struct pccl_fetch *fetch); /* FAILED: the reason for the failure */
/* Returns true if this tensor has been written to and is not complete. */
bool pccl_fetch_is_torn(const struct pccl_fetch *fetch, uint32_t tensor);
uint64_t pccl_fetch_bytes(const struct pccl_fetch *fetch); /* number of bytes in verified chunks */
/*
 * Returns the number of missing bytes, as far as known. All bytes of a tensor count until its differing chunks are
 * known.
 */
uint64_t pccl_fetch_left(const struct pccl_fetch *fetch);

#endif
