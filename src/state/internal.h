/* Inside of src/state. */
#ifndef PCCL_STATE_INTERNAL_H
#define PCCL_STATE_INTERNAL_H

#include "core/list.h"
#include "state/fetch.h"

static inline uint64_t pccl_chunks_of(uint64_t bytes)
{
    return bytes / PCCL_STATE_CHUNK_BYTES + (bytes % PCCL_STATE_CHUNK_BYTES > 0);
}
/* The content that these roots give, one for each tensor; NULL: the state's own. */
struct pccl_proof pccl_proof_content(const struct pccl_state *state, const struct pccl_proof *roots);

/* ---- fetch ---- */

enum {
    PCCL_FETCH_NOBODY = UINT8_MAX, /* no donor */
    PCCL_FETCH_WINDOW = 4,         /* whole chunks in flight on a donor */
    PCCL_FETCH_WINDOW_LONG = 16,   /* ... over a long way */
    PCCL_FETCH_OWED_MAX = 1024,    /* answers of a donor, where chunks are small; a power of two */
    PCCL_FETCH_PATIENCE_MS = 100,  /* a chunk that was asked for so long ago may be asked of an idle donor too */
    PCCL_FETCH_GRACE_MS = 50,      /* the last part of PCCL_FETCH_STALL_MS */
};
_Static_assert(PCCL_FETCH_DONORS <= 32, "a bit for each donor");

/* A chunk that differs, or did. */
struct pccl_fetch_chunk {
    struct pccl_list_node link; /* in open or asked; in neither while it is written, asked of several, or done */
    uint32_t tensor;
    uint64_t index;          /* in the tensor */
    struct pccl_proof proof; /* the only chunk of its tensor: not known, the root tells */
    uint64_t asked_us;
    uint32_t askers; /* donors that owe it and have not begun to deliver: a bit for each */
    uint8_t writer;  /* who delivers it now, or NOBODY */
    bool done;
};

/* What is to be done for one tensor. */
struct pccl_fetch_task {
    struct pccl_list_node link;      /* in unlisted: its list is to be asked for */
    struct pccl_proof *list;         /* owned; what its chunks should be, while that is on its way */
    uint64_t listed;                 /* proofs that have come */
    struct pccl_fetch_chunk *chunks; /* owned */
    uint64_t chunk_count;
    uint64_t missing; /* of these */
    bool torn;
};

/* An answer that a donor owes. */
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
    bool arriving;                /* the bytes of the first chunk it owes... */
    bool writes;                  /* ... go into the tensor */
    bool idle;                    /* owes nothing, when a round of asking begins */
    bool suspected;               /* it has been silent; dropped at expires_us if another one can do what it does */
    uint32_t window;              /* bytes */
    struct pccl_fetch_owed *owed; /* owned; OWED_MAX, a ring */
    uint32_t owed_first, owed_count;
    uint64_t owed_bytes;
    uint64_t heard_us, expires_us;
    struct pccl_fetch_task *listing; /* pages of its list are still to be asked for */
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
    bool known[2]; /* law says what they are to be, or they are it */
    uint32_t missing[2];
    struct pccl_list_node unlisted[2]; /* tasks */
    struct pccl_list_node open[2];     /* chunks that nobody is asked for */
    struct pccl_list_node asked;       /* chunks that are equal everywhere: one donor is asked for, the oldest first */
    struct pccl_proof *law;            /* owned; roots */
    struct pccl_fetch_task *tasks;     /* owned; one for each tensor */
    uint8_t source;                    /* whose tensors that are not equal are law */

    struct pccl_proof *roots; /* owned; as root_donor says */
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

/* ---- fetch_work.c: what differs, and what is left of it ---- */
void pccl_fetch_fail(struct pccl_fetch *fetch, const char *reason);
/* Forgets all tasks, but not which tensors are torn. */
void pccl_fetch_forget_tasks(struct pccl_fetch *fetch);
/* The tensors that are not equal need another source. */
void pccl_fetch_source_lost(struct pccl_fetch *fetch);
/* All roots of the root donor are there. MALFORMED: they are not what was elected. */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_take_roots(struct pccl_fetch *fetch, struct pccl_text *reason);
/* Nobody is asked for its list any more. */
void pccl_fetch_unlist(struct pccl_fetch *fetch, struct pccl_fetch_task *task);
/* The list of a tensor has come. */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_take_list(struct pccl_fetch *fetch, uint32_t tensor,
                                                      struct pccl_text *reason);
/* Into the list where it belongs, after its askers or its writer have changed. */
void pccl_fetch_place(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk);
void pccl_fetch_write(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk, uint32_t donor);
/* The chunk is in place. MALFORMED: it is another one. */
PCCL_MUST_CHECK enum pccl_status pccl_fetch_written(struct pccl_fetch *fetch, struct pccl_fetch_chunk *chunk,
                                                    const struct pccl_proof *proof, struct pccl_text *reason);
/* COMPLETE if nothing is missing. */
void pccl_fetch_finish(struct pccl_fetch *fetch);

/* ---- fetch_ask.c: who is asked for what ---- */
/* Asks donors for as much as they may owe. */
void pccl_fetch_ask(struct pccl_fetch *fetch);

#endif
