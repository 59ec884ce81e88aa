/*
 * All that the master knows. Its files share this and nothing else; besides them, only the simulator's checkers look at
 * it. What may be done to it, and when, is said in the headers of its concerns: output, roster, queues,
 * newcomers, admission, eligibility, rings, membership, views, edges, links, operations, rounds, sync, tuning,
 * recovery, where.
 */
#ifndef PCCL_MASTER_STATE_H
#define PCCL_MASTER_STATE_H

#include "core/names.h"
#include "master/group.h"
#include "master/remote.h"

/* A connection without an accepted hello. */
struct pccl_stranger {
    struct pccl_table_node by_conn;
    struct pccl_stranger *older, *newer;
    pccl_conn conn;
    struct pccl_address address;
    uint64_t opened_us;
};

/* One who was removed, for when it comes back and asks why. */
struct pccl_gone {
    struct pccl_id id, token;
    struct pccl_text reason;
};

/* One who says that it is of an older run than the one that is here. */
struct pccl_claim {
    struct pccl_id lineage, peer;
};

/* What was reported of a link that is not as it should be. */
struct pccl_edge {
    struct pccl_id from, to; /* `from` reports */
    bool incoming;
    enum pccl_link_end how;
    uint64_t since_us;  /* it was last said; 0: mended */
    uint64_t failed_us; /* it was said for the first time in this ring, if it is to be decided at ... */
    uint64_t act_us;    /* ... when the ring changes if it is not mended; 0: never */
    uint64_t bad_until_us;
};

/*
 * What is decided for all, in this order (master.c has the reasons). Events note facts, and mark the stages that these
 * bear on as due; whatever else is decided concerns the sender of a message alone.
 */
enum pccl_master_stage {
    PCCL_STAGE_STRANGERS,  /* connections without a hello in time are closed */
    PCCL_STAGE_SILENCE,    /* who has not been heard of for too long is to depart; heartbeats */
    PCCL_STAGE_DEPARTURES, /* commits what the others have finished, then a view without those who depart */
    PCCL_STAGE_RECOVERY,   /* the run of before goes on */
    PCCL_STAGE_FOUNDING,   /* nobody is in: a new run begins */
    PCCL_STAGE_LINKS,      /* another ring, or one end goes, where a failed link was not mended in time */
    PCCL_STAGE_OPERATIONS, /* aborts that have waited for their cause */
    PCCL_STAGE_WARM_UP,    /* links for newcomers; who takes too long for them is rejected */
    PCCL_STAGE_TESTS,      /* tests of links that are overdue end */
    PCCL_STAGE_ROUNDS,     /* joint calls that all have come to: newcomers are admitted, rings adopted */
    PCCL_STAGE_SYNCS,      /* synchronizations of shared state */
    PCCL_STAGE_SEARCHES,   /* better rings, in the background */
    PCCL_STAGE_WAITING,    /* newcomers that nobody admits are spoken of */
    PCCL_STAGES
};

struct pccl_master {
    struct pccl_master_config config;
    struct pccl_memory memory;
    struct pccl_master_effects effects;
    struct pccl_prng prng;
    uint64_t now_us, started_us, deadline_us;
    bool shut;
    uint32_t due; /* stages, as bits: what is to be decided anew */

    bool founded;                            /* a run exists */
    bool founded_by_newcomer;                /* ... and was born in this boot */
    bool older_run_expected;                 /* a newcomer has waited at an earlier boot */
    struct pccl_id run_key;                  /* known to the members: who shows it was one */
    struct pccl_id lineage;                  /* its digest: the name of the run, which strangers may know */
    struct pccl_id over[PCCL_RUNS_OVER_MAX]; /* runs that ended in this boot: their members are not taken back */
    uint32_t over_count;
    struct pccl_epoch epoch;
    uint64_t rounds[PCCL_ROUND_KINDS]; /* J and Q: numbers of the rounds that are open; those of SYNC are the groups' */
    uint8_t last_outcome[PCCL_ROUND_KINDS];
    uint64_t untried_since_us[PCCL_ROUND_KINDS]; /* only members that are untried are missing; 0: it is not so */

    bool optimizing;         /* all have voted for it */
    uint64_t tests_begin_us; /* what is known since then is not tested again */
    uint64_t tests_end_us;   /* no test begins after that */
    uint64_t last_test, last_ticket;

    bool recovering;
    uint64_t recovering_since_us;

    struct pccl_remote **remotes; /* in order of arrival */
    uint32_t remote_count, remote_capacity, member_count, departing_count;
    uint64_t arrivals;
    struct pccl_hash_key hash; /* of all tables */
    struct pccl_table by_id, by_conn, strangers_by_conn;
    struct pccl_table groups_by_number;
    struct pccl_table queues, sites; /* of newcomers */
    struct pccl_list_node stale_queues;
    uint32_t newcomer_count;    /* in queues */
    uint64_t newcomers_due_us;  /* no queue is due before */
    uint64_t newcomers_visited; /* in queues, from the beginning: what waiting newcomers cost */
    struct pccl_names names;    /* of the remotes */
    struct pccl_stranger *oldest_stranger, *newest_stranger;
    struct pccl_peer_group **groups;
    uint32_t group_count, group_capacity;
    struct pccl_edge *edges;
    uint32_t edge_count, edge_capacity;
    struct pccl_gone *gone; /* the latest PCCL_GONE_MAX of gone_count, in a circle */
    uint32_t gone_capacity;
    uint64_t gone_count;
    struct pccl_claim *claims; /* the latest PCCL_CLAIMS_MAX of claim_count, in a circle */
    uint32_t claim_capacity;
    uint64_t claim_count;
    uint64_t committed, aborted, departures;
};

/* Something has changed that this stage decides on. */
static inline void pccl_master_mark(struct pccl_master *m, enum pccl_master_stage stage) { m->due |= 1U << stage; }

/* Of the era: the joint rounds that have been decided (PROTOCOL 1.4). */
static inline uint64_t pccl_master_joint(const struct pccl_master *m)
{
    return m->rounds[PCCL_ROUND_UPDATE] + m->rounds[PCCL_ROUND_OPTIMIZE];
}

/* true: walk master->remotes for members that are not leaving */
static inline bool pccl_master_is_living_member(const struct pccl_remote *remote)
{
    return remote->state == PCCL_REMOTE_MEMBER && !remote->departing;
}

#endif
