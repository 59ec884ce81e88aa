/* The state of topology: the tests of members, and the search of a group. Part of state.h. */
#ifndef PCCL_MASTER_TOPOLOGY_STATE_H
#define PCCL_MASTER_TOPOLOGY_STATE_H

#include "core/text.h"
#include "topology/matrix.h"

/* A member's part in the tests of an optimization. */
struct pccl_master_test {
    bool running;  /* it loads the path to another member, and its report is awaited */
    bool loaded;   /* another member loads the path to it */
    bool looks;    /* it has become free to load or be loaded */
    bool sits_out; /* it did not report in time, and takes no part in the rest of this optimization */
    uint64_t number, begun_us, until_us;
    struct pccl_id to;
};

/* The phase of a group in the optimization under way. */
enum pccl_tuning_phase { PCCL_TUNING_NONE, PCCL_TUNING_TESTS, PCCL_TUNING_SEARCH, PCCL_TUNING_LINKS, PCCL_TUNING_OVER };

/* The search for better rings of a group. */
struct pccl_tuning {
    enum pccl_tuning_phase phase;
    uint32_t attempts;     /* searches in this optimization */
    uint64_t patience_us;  /* LINKS: wait for them until then */
    bool known;            /* an optimization has filled the matrix of estimates */
    uint64_t assumed_rate; /* ... and none has; but since a link is slow others count as this; 0: as unknown */
    bool moved;            /* figures have changed since the last search */
    uint32_t share;        /* how much operations achieve of what tests promise, in thousandths */
    bool unproven;         /* the ring that was found may not be the best */
    bool failed;           /* this optimization has failed, as `reason` says */
    struct pccl_text reason;
    uint64_t ticket;       /* of the search under way; 0: none */
    bool background;       /* ... and no call waits for it */
    uint32_t ring_version; /* ... and the version of the ring that it is about */
    uint64_t searched_for; /* 1 + the number of joint rounds decided when an update last asked for one */
    uint64_t seed, steps;  /* of the last search */
    bool replans;          /* a slow link is to leave the ring, and nobody has looked at a better one yet */
    uint64_t replanned_us; /* when operations under way were last interrupted for it; 0: never */
    uint32_t *better;      /* owned, better_count positions: the ring to adopt; NULL: none */
    uint32_t better_count, better_version;
    char *text; /* owned, text_bytes: the last topology report; NULL: none */
    size_t text_bytes;
    uint64_t text_us; /* when it was made; text_version: of which ring */
    uint32_t text_version;
};

#endif
