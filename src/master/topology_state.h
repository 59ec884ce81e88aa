/* State of topology: the tests of members and the search of a group. Part of state.h. */
#ifndef PCCL_MASTER_TOPOLOGY_STATE_H
#define PCCL_MASTER_TOPOLOGY_STATE_H

#include "core/text.h"
#include "topology/matrix.h"

/* A member's part in the tests of an optimization. */
struct pccl_master_test {
    bool running;  /* loads the path to another member; its report is awaited */
    bool loaded;   /* another member loads the path to it */
    bool looks;    /* has become free to load or be loaded */
    bool sits_out; /* did not report in time and takes no part in the rest of this optimization */
    uint64_t number, begun_us, until_us;
    struct pccl_id to;
};

/* Phase of a group in the optimization under way. */
enum pccl_tuning_phase { PCCL_TUNING_NONE, PCCL_TUNING_TESTS, PCCL_TUNING_SEARCH, PCCL_TUNING_LINKS, PCCL_TUNING_OVER };

/* A group's search for better rings. */
struct pccl_tuning {
    enum pccl_tuning_phase phase;
    uint32_t attempts;     /* searches in this optimization */
    uint64_t patience_us;  /* LINKS: end of the wait for them */
    bool known;            /* an optimization has filled the matrix of estimates */
    uint64_t assumed_rate; /* if no optimization has: rate assumed for untested links once a link is slow; 0: unknown */
    bool moved;            /* figures have changed since the last search */
    uint32_t share;        /* fraction of the tested rates that operations achieve, in thousandths */
    bool unproven;         /* the ring that was found may not be the best */
    bool failed;           /* this optimization has failed, as `reason` says */
    struct pccl_text reason;
    uint64_t ticket;       /* of the search under way; 0: none */
    bool background;       /* ... which no call waits for */
    uint32_t ring_version; /* ... and the version of the ring that it starts from */
    uint64_t searched_for; /* 1 + the number of decided joint rounds when an update last requested a search; 0: never */
    uint64_t seed, steps;  /* seed and steps of the last search */
    bool replans;          /* the ring should leave a slow link, and a better one is not examined yet */
    uint64_t replanned_us; /* time of the last re-plan; 0: never */
    uint32_t *better;      /* owned, better_count positions: the ring to adopt; NULL: none */
    uint32_t better_count, better_version;
    char *text; /* owned, text_bytes: the last topology report; NULL: none */
    size_t text_bytes;
    uint64_t text_us; /* time of the report; text_version: version of its ring */
    uint32_t text_version;
};

#endif
