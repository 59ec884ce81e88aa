/*
 * Types and functions shared by the files of src/state: state.c computes the digests of a peer's tensors, serve.c
 * answers requests for them, and fetch*.c choose the requests and their donors.
 */
#ifndef PCCL_STATE_INTERNAL_H
#define PCCL_STATE_INTERNAL_H

#include "core/list.h"
#include "state/fetch.h"

static inline uint64_t pccl_chunks_of(uint64_t bytes)
{
    return bytes / PCCL_STATE_CHUNK_BYTES + (bytes % PCCL_STATE_CHUNK_BYTES > 0);
}
/* Returns the proof of the content for these roots, one per tensor; NULL: the state's own roots. */
struct pccl_proof pccl_proof_content(const struct pccl_state *state, const struct pccl_proof *roots);

/* ---- fetch ---- */

enum {
    PCCL_FETCH_NO_DONOR = UINT8_MAX, /* no donor */
    PCCL_FETCH_WINDOW = 4,           /* maximum number of whole chunks in flight per donor */
    PCCL_FETCH_WINDOW_LONG = 16,     /* the same over a long path */
    /* maximum number of outstanding answers of a donor, for small chunks; a power of two */
    PCCL_FETCH_OUTSTANDING_MAX = 1024,
    PCCL_FETCH_PATIENCE_MS = 100, /* time after which a requested chunk may also be requested from an idle donor */
    /* time that a suspected donor still has to send something, at the end of PCCL_FETCH_STALL_MS */
    PCCL_FETCH_GRACE_MS = 50,
};
_Static_assert(PCCL_FETCH_DONORS <= 32, "a bit for each donor");

/* A chunk that differs or differed. */
struct pccl_fetch_chunk {
    /* in `open` or `asked`; in neither while it is written, requested from several donors, or done */
    struct pccl_list_node node;
    uint32_t tensor;
    uint64_t index;          /* index in the tensor */
    struct pccl_proof proof; /* expected proof; unknown for the only chunk of a tensor, which is checked by the root */
    uint64_t asked_us;
    uint32_t askers; /* bit set of the donors that have received a request for it and have not begun to deliver it */
    uint8_t writer;  /* donor that is delivering it, or PCCL_FETCH_NO_DONOR */
    bool done;
};

/* Work on one tensor. */
struct pccl_fetch_task {
    struct pccl_list_node node;      /* in `unlisted` while its list must be requested */
    struct pccl_proof *list;         /* owned; expected proofs of its chunks, while the list arrives */
    uint64_t listed;                 /* number of proofs in the list that have arrived */
    struct pccl_fetch_chunk *chunks; /* owned */
    uint64_t chunk_count;
    uint64_t missing; /* number of missing chunks */
    bool torn;
};

/* An outstanding answer of a donor. */
struct pccl_fetch_outstanding {
    uint8_t what;   /* enum pccl_want_kind */
    uint32_t count; /* number of proofs */
    uint32_t tensor;
    uint32_t bytes;
    uint64_t first;
    struct pccl_fetch_chunk *chunk; /* DATA */
};

struct pccl_fetch_donor {
    bool up, holds_unequal;
    bool arriving;   /* the bytes of the first outstanding chunk are arriving */
    bool writes;     /* these bytes are written to the tensor */
    bool idle;       /* no answer was outstanding when the current distribution of requests began */
    bool suspected;  /* it has been silent, and will be dropped at expires_us if another donor can replace it */
    uint32_t window; /* maximum number of outstanding bytes */
    struct pccl_fetch_outstanding *outstanding; /* owned; circular buffer of PCCL_FETCH_OUTSTANDING_MAX */
    uint32_t outstanding_first, outstanding_count;
    uint64_t outstanding_bytes;
    uint64_t received_us, expires_us;
    struct pccl_fetch_task *listing; /* task whose list has not been requested completely */
    uint64_t listing_asked;
};

struct pccl_fetch {
    struct pccl_memory memory;
    struct pccl_fetch_effects effects;
    struct pccl_state *state;
    bool begun;
    enum pccl_fetch_status status;
    struct pccl_text reason;
    uint64_t now_us, round, bytes;
    struct pccl_proof proof; /* proof of the wanted content */

    /* For tensors that are equal everywhere [0], and tensors that may differ [1]. */
    bool wanted[2];
    bool known[2]; /* true if their expected roots are known or they are complete */
    uint32_t missing[2];
    struct pccl_list_node unlisted[2]; /* tasks whose list must be requested */
    struct pccl_list_node open[2];     /* chunks without a request */
    struct pccl_list_node asked;       /* chunks of equal tensors that one donor was asked for, oldest first */
    struct pccl_proof *expected;       /* owned; expected roots */
    struct pccl_fetch_task *tasks;     /* owned; one for each tensor */
    uint8_t source;                    /* donor whose roots are binding for tensors that may differ */

    struct pccl_proof *roots; /* owned; roots from root_donor */
    uint32_t roots_asked, roots_received;
    uint8_t root_donor;

    struct pccl_fetch_donor donors[PCCL_FETCH_DONORS];
};

static inline uint32_t pccl_fetch_bit(uint32_t donor) { return UINT32_C(1) << donor; }
static inline struct pccl_fetch_outstanding *pccl_fetch_outstanding_at(const struct pccl_fetch_donor *donor, uint32_t i)
{
    return &donor->outstanding[(donor->outstanding_first + i) & (PCCL_FETCH_OUTSTANDING_MAX - 1)];
}
static inline const struct pccl_tensor *pccl_fetch_tensor(const struct pccl_fetch *fetch, uint32_t tensor)
{
    return &fetch->state->tensors[tensor];
}

/* ---- fetch_work.c: the differences and their completion ---- */
void pccl_fetch_fail(struct pccl_fetch *fetch, const char *reason);
/* Drops all tasks, but not the record of torn tensors. */
void pccl_fetch_forget_tasks(struct pccl_fetch *fetch);
/* Makes another donor the source of the tensors that may differ. */
void pccl_fetch_source_lost(struct pccl_fetch *fetch);
/* Handles the complete roots of the root donor. Returns MALFORMED if they are not the elected ones. */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_take_roots(struct pccl_fetch *fetch, struct pccl_text *reason);
/* Puts the tensor back among those whose list must be requested. */
void pccl_fetch_unlist(struct pccl_fetch *fetch, struct pccl_fetch_task *task);
/* Handles the complete list of a tensor. Returns MALFORMED if it does not match the root. */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_take_list(struct pccl_fetch *fetch, uint32_t tensor,
                                                      struct pccl_text *reason);
/* Moves the chunk to the right list after a change of its askers or its writer. */
void pccl_fetch_place(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk);
void pccl_fetch_write(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk, uint32_t donor);
/* Completes a written chunk. Returns MALFORMED if its bytes are not the elected ones. */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_written(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk,
                                                    const struct pccl_proof *proof, struct pccl_text *reason);
/* Sets COMPLETE if nothing is missing. */
void pccl_fetch_finish(struct pccl_fetch *fetch);

/* ---- fetch_ask.c: requests and their donors ---- */
/* Sends donors as many requests as may be outstanding. */
void pccl_fetch_ask(struct pccl_fetch *fetch);

#endif
