/*
 * What the files of src/state share: state.c keeps a peer's own tensors as digests, serve.c answers
 * requests from them, fetch.c and fetch_ask.c decide what a requester asks of whom.
 */
#ifndef PCCL_STATE_INTERNAL_H
#define PCCL_STATE_INTERNAL_H

#include "core/list.h"
#include "state/fetch.h"

static inline uint64_t pccl_chunks_of(uint64_t bytes)
{
    return bytes / PCCL_STATE_CHUNK_BYTES + (bytes % PCCL_STATE_CHUNK_BYTES > 0);
}
/* The proof of the content for these roots, one for each tensor; NULL: the state's own. */
struct pccl_proof pccl_proof_content(const struct pccl_state *state, const struct pccl_proof *roots);

/* ---- fetch ---- */

enum {
    PCCL_FETCH_NOBODY = UINT8_MAX, /* no donor */
    PCCL_FETCH_WINDOW = 4,         /* whole chunks in flight on a donor */
    PCCL_FETCH_WINDOW_LONG = 16,   /* ... over a long path */
    PCCL_FETCH_OWED_MAX = 1024,    /* outstanding answers of a donor, where chunks are small; a power of two */
    PCCL_FETCH_PATIENCE_MS = 100,  /* a chunk that was requested so long ago may be requested from an idle donor too */
    PCCL_FETCH_GRACE_MS =
        50, /* time to be heard before a suspected donor is dropped, at the end of PCCL_FETCH_STALL_MS */
};
_Static_assert(PCCL_FETCH_DONORS <= 32, "a bit for each donor");

/* A chunk that differs, or did. */
struct pccl_fetch_chunk {
    struct pccl_list_node node; /* in open or asked; in neither while it is written, asked of several, or done */
    uint32_t tensor;
    uint64_t index;          /* in the tensor */
    struct pccl_proof proof; /* not known for the only chunk of its tensor, where the root decides */
    uint64_t asked_us;
    uint32_t askers; /* donors that were asked for it and have not begun to deliver: a bit for each */
    uint8_t writer;  /* who delivers it now, or NOBODY */
    bool done;
};

/* What is to be done for one tensor. */
struct pccl_fetch_task {
    struct pccl_list_node node;      /* in `unlisted` while its list is to be requested */
    struct pccl_proof *list;         /* owned; the proofs that its chunks should have, while they are coming */
    uint64_t listed;                 /* how many of these have come */
    struct pccl_fetch_chunk *chunks; /* owned */
    uint64_t chunk_count;
    uint64_t missing; /* of these */
    bool torn;
};

/* An outstanding answer of a donor. */
struct pccl_fetch_owed {
    uint8_t what;   /* enum pccl_want_what */
    uint32_t count; /* of proofs */
    uint32_t tensor;
    uint32_t bytes;
    uint64_t first;
    struct pccl_fetch_chunk *chunk; /* DATA */
};

struct pccl_fetch_donor {
    bool up, holds_unequal;
    bool arriving;                /* the bytes of the first outstanding chunk are coming in... */
    bool writes;                  /* ... and are written to the tensor */
    bool idle;                    /* no answer was outstanding when a round of requests began */
    bool suspected;               /* it has been silent, and is dropped at expires_us if another one can take over */
    uint32_t window;              /* bytes */
    struct pccl_fetch_owed *owed; /* owned; OWED_MAX, a ring */
    uint32_t owed_first, owed_count;
    uint64_t owed_bytes;
    uint64_t heard_us, expires_us;
    struct pccl_fetch_task *listing; /* pages of its list are still to be requested */
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

    /* For tensors that are equal everywhere [0] and those that are not [1]. */
    bool wanted[2];
    bool known[2]; /* their law is known, or they are complete */
    uint32_t missing[2];
    struct pccl_list_node unlisted[2]; /* tasks */
    struct pccl_list_node open[2];     /* chunks that are requested from nobody */
    struct pccl_list_node asked;       /* chunks equal everywhere that one donor was asked for, the oldest first */
    struct pccl_proof *law;            /* owned; roots */
    struct pccl_fetch_task *tasks;     /* owned; one for each tensor */
    uint8_t source;                    /* the donor whose unequal tensors are the law */

    struct pccl_proof *roots; /* owned; from root_donor */
    uint32_t roots_asked, roots_heard;
    uint8_t root_donor;

    struct pccl_fetch_donor donors[PCCL_FETCH_DONORS];
};

static inline uint32_t pccl_fetch_bit(uint32_t donor) { return UINT32_C(1) << donor; }
static inline struct pccl_fetch_owed *pccl_fetch_owed_at(const struct pccl_fetch_donor *donor, uint32_t i)
{
    return &donor->owed[(donor->owed_first + i) & (PCCL_FETCH_OWED_MAX - 1)];
}
static inline const struct pccl_tensor *pccl_fetch_tensor(const struct pccl_fetch *fetch, uint32_t tensor)
{
    return &fetch->state->tensors[tensor];
}

/* ---- fetch_work.c: what differs, and what of it is missing ---- */
void pccl_fetch_fail(struct pccl_fetch *fetch, const char *reason);
/* Forgets all tasks, but not which tensors are torn. */
void pccl_fetch_forget_tasks(struct pccl_fetch *fetch);
/* The tensors that are not equal need another source. */
void pccl_fetch_source_lost(struct pccl_fetch *fetch);
/* All roots of the root donor have come. MALFORMED: they are not what was elected. */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_take_roots(struct pccl_fetch *fetch, struct pccl_text *reason);
/* Nobody is asked for its list any more. */
void pccl_fetch_unlist(struct pccl_fetch *fetch, struct pccl_fetch_task *task);
/* The list of a tensor has come. */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_take_list(struct pccl_fetch *fetch, uint32_t tensor,
                                                      struct pccl_text *reason);
/* Moves the chunk to the list where it belongs, after its askers or its writer have changed. */
void pccl_fetch_place(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk);
void pccl_fetch_write(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk, uint32_t donor);
/* The chunk has been written. MALFORMED: its bytes are not the ones that were elected. */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_written(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk,
                                                    const struct pccl_proof *proof, struct pccl_text *reason);
/* COMPLETE if nothing is missing. */
void pccl_fetch_finish(struct pccl_fetch *fetch);

/* ---- fetch_ask.c: which donor is asked for what ---- */
/* Asks donors for as much as may be outstanding. */
void pccl_fetch_ask(struct pccl_fetch *fetch);

#endif
