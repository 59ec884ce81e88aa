/* State of topology: the tests of members, and the search of a group. Part of state.h. */
#ifndef PCCL_MASTER_TOPOLOGY_STATE_H
#define PCCL_MASTER_TOPOLOGY_STATE_H

#include "core/text.h"
#include "topology/matrix.h"

/* A member's part in the tests of an optimization. */
struct pccl_master_test {
    bool running;     /* true if it loads the path to another member, and its report is awaited */
    bool loaded;      /* true if another member loads the path to it */
    bool became_free; /* true if it is available again, as either end of a test */
    bool excluded;    /* true if it did not report in time, so that this optimization skips it */
    uint64_t number, begun_us, until_us;
    struct pccl_id to;
};

/* Phase of a group in the optimization under way. */
enum pccl_tuning_phase { PCCL_TUNING_NONE, PCCL_TUNING_TESTS, PCCL_TUNING_SEARCH, PCCL_TUNING_LINKS, PCCL_TUNING_OVER };

/* A group's search for better rings. */
struct pccl_tuning {
    enum pccl_tuning_phase phase;
    uint32_t attempts;     /* number of searches in this optimization */
    uint64_t patience_us;  /* LINKS: end of the wait for the links */
    bool known;            /* true if an optimization has filled the matrix of estimates */
    uint64_t assumed_rate; /* rate assumed for untested links after a slow link was found; 0: none */
    bool moved;            /* true if figures have changed since the last search */
    uint32_t share;        /* fraction of the tested rates that operations achieve, in thousandths */
    bool unproven;         /* true if the ring that was found may not be the best */
    bool failed;           /* true if this optimization has failed; `reason` says why */
    struct pccl_text reason;
    uint64_t ticket;       /* number of the search under way; 0: none */
    bool background;       /* true if no call waits for that search */
    uint32_t ring_version; /* version of the ring from which that search started */
    uint64_t searched_for; /* 1 + number of decided joint rounds when an update last requested a search; 0: never */
    uint64_t seed, steps;  /* seed and steps of the last search */
    /* true if the ring should leave a slow link, and no better ring has been examined for that */
    bool replans;
    uint64_t replanned_us; /* time of the last re-plan; 0: never */
    uint64_t finding_us;   /* time of the last search because of a finding; 0: never */
    uint32_t *better;      /* owned, better_count positions: the ring to adopt; NULL if none exists */
    uint32_t better_count, better_version;
    char *text; /* owned, text_bytes: the last topology report; NULL if none exists */
    size_t text_bytes;
    uint64_t text_us; /* time of that report; version of the ring in it */
    uint32_t text_version;
};

#endif
