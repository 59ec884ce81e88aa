/*
 * All that the master knows. Its files share this and nothing else; besides them, only the simulator's checkers look at
 * it. What may be done to it, and when, is said in the headers of its concerns: output, admission, newcomers,
 * membership, links, operations, rounds, sync, tuning, recovery, where.
 */
#ifndef PCCL_MASTER_STATE_H
#define PCCL_MASTER_STATE_H

#include "core/names.h"
#include "master/group.h"
#include "master/remote.h"

/* A connection without an accepted hello. */
struct pccl_stranger {
    struct pccl_node by_conn;
    struct pccl_stranger *older, *newer;
    pccl_conn conn;
    struct pccl_address address;
    uint64_t opened_us;
};

/* One who was removed, for when it comes back and asks why. */
struct pccl_gone {
    struct pccl_id id, token;
    struct pccl_text words;
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

struct pccl_master {
    struct pccl_master_config config;
    struct pccl_memory memory;
    struct pccl_master_effects effects;
    struct pccl_prng prng;
    uint64_t now_us, started_us, deadline_us;
    bool shut;

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
    struct pccl_link stale_queues;
    uint32_t newcomer_count;    /* in queues */
    uint64_t newcomers_due_us;  /* no queue is due before */
    uint64_t newcomers_visited; /* in queues, from the beginning: what waiting newcomers cost */
    struct pccl_names names;    /* of the remotes */
    struct pccl_stranger *oldest_stranger, *newest_stranger;
    struct pccl_group **groups;
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
