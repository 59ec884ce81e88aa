/*
 * Shared by the files of src/state: state.c keeps a peer's own tensors as digests, serve.c answers requests from them,
 * fetch.c and fetch_ask.c choose a requester's requests and donors.
 */
#ifndef PCCL_STATE_INTERNAL_H
#define PCCL_STATE_INTERNAL_H

#include "core/list.h"
#include "state/fetch.h"

static inline uint64_t pccl_chunks_of(uint64_t bytes)
{
    return bytes / PCCL_STATE_CHUNK_BYTES + (bytes % PCCL_STATE_CHUNK_BYTES > 0);
}
/* Returns the proof of the content for these roots, one for each tensor; NULL: the state's own. */
struct pccl_proof pccl_proof_content(const struct pccl_state *state, const struct pccl_proof *roots);

/* ---- fetch ---- */

enum {
    PCCL_FETCH_NO_DONOR = UINT8_MAX,   /* no donor */
    PCCL_FETCH_WINDOW = 4,             /* whole chunks in flight on a donor */
    PCCL_FETCH_WINDOW_LONG = 16,       /* ... over a long path */
    PCCL_FETCH_OUTSTANDING_MAX = 1024, /* outstanding answers of a donor with small chunks; a power of two */
    PCCL_FETCH_PATIENCE_MS = 100,      /* time after which a requested chunk may be requested from an idle donor, too */
    PCCL_FETCH_GRACE_MS =
        50, /* time to be heard before a suspected donor is dropped, at the end of PCCL_FETCH_STALL_MS */
};
_Static_assert(PCCL_FETCH_DONORS <= 32, "a bit for each donor");

/* A chunk that differs, or did. */
struct pccl_fetch_chunk {
    struct pccl_list_node node; /* in open or asked; in neither while it is written, asked of several, or done */
    uint32_t tensor;
    uint64_t index;          /* in the tensor */
    struct pccl_proof proof; /* unknown for the only chunk of its tensor, where the root decides */
    uint64_t asked_us;
    uint32_t askers; /* donors that were asked for it and have not begun to deliver: a bit for each */
    uint8_t writer;  /* donor that delivers it now, or NOBODY */
    bool done;
};

/* Work on one tensor. */
struct pccl_fetch_task {
    struct pccl_list_node node;      /* in `unlisted` while its list must be requested */
    struct pccl_proof *list;         /* owned; expected proofs of its chunks, while they arrive */
    uint64_t listed;                 /* number of these that have arrived */
    struct pccl_fetch_chunk *chunks; /* owned */
    uint64_t chunk_count;
    uint64_t missing; /* number of missing chunks */
    bool torn;
};

/* An outstanding answer of a donor. */
struct pccl_fetch_outstanding {
    uint8_t what;   /* enum pccl_want_kind */
    uint32_t count; /* of proofs */
    uint32_t tensor;
    uint32_t bytes;
    uint64_t first;
    struct pccl_fetch_chunk *chunk; /* DATA */
};

struct pccl_fetch_donor {
    bool up, holds_unequal;
    bool arriving;   /* the bytes of the first outstanding chunk are arriving ... */
    bool writes;     /* ... and are written to the tensor */
    bool idle;       /* no answer was outstanding when a round of requests began */
    bool suspected;  /* has been silent, and is dropped at expires_us if another one can take over */
    uint32_t window; /* bytes */
    struct pccl_fetch_outstanding *owed; /* owned; OWED_MAX, a ring */
    uint32_t owed_first, owed_count;
    uint64_t owed_bytes;
    uint64_t received_us, expires_us;
    struct pccl_fetch_task *listing; /* task with unrequested pages of its list */
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
    struct pccl_proof proof; /* wanted */

    /* Tensors that are equal everywhere [0] and others [1]: */
    bool wanted[2];
    bool known[2]; /* their expected roots are known, or they are complete */
    uint32_t missing[2];
    struct pccl_list_node unlisted[2]; /* tasks */
    struct pccl_list_node open[2];     /* chunks without a request */
    struct pccl_list_node asked;       /* chunks equal everywhere that one donor was asked for, the oldest first */
    struct pccl_proof *law;            /* owned; expected roots */
    struct pccl_fetch_task *tasks;     /* owned; one for each tensor */
    uint8_t source;                    /* donor whose roots are binding for unequal tensors */

    struct pccl_proof *roots; /* owned; from root_donor */
    uint32_t roots_asked, roots_received;
    uint8_t root_donor;

    struct pccl_fetch_donor donors[PCCL_FETCH_DONORS];
};

static inline uint32_t pccl_fetch_bit(uint32_t donor) { return UINT32_C(1) << donor; }
static inline struct pccl_fetch_outstanding *pccl_fetch_outstanding_at(const struct pccl_fetch_donor *donor, uint32_t i)
{
    return &donor->owed[(donor->owed_first + i) & (PCCL_FETCH_OUTSTANDING_MAX - 1)];
}
static inline const struct pccl_tensor *pccl_fetch_tensor(const struct pccl_fetch *fetch, uint32_t tensor)
{
    return &fetch->state->tensors[tensor];
}

/* ---- fetch_work.c: the difference, and its missing part ---- */
void pccl_fetch_fail(struct pccl_fetch *fetch, const char *reason);
/* Forgets all tasks, except which tensors are torn. */
void pccl_fetch_forget_tasks(struct pccl_fetch *fetch);
/* Requires another source for the tensors that are not equal. */
void pccl_fetch_source_lost(struct pccl_fetch *fetch);
/* Takes the complete roots of the root donor. Returns MALFORMED if they are not the elected ones. */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_take_roots(struct pccl_fetch *fetch, struct pccl_text *reason);
/* Stops requesting the tensor's list. */
void pccl_fetch_unlist(struct pccl_fetch *fetch, struct pccl_fetch_task *task);
/* Takes the complete list of a tensor. */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_take_list(struct pccl_fetch *fetch, uint32_t tensor,
                                                      struct pccl_text *reason);
/* Moves the chunk to the right list, after its askers or its writer have changed. */
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
