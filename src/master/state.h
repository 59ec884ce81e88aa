/*
 * State of the master. Read only by src/master and the simulator's checkers. The other headers define the permitted
 * changes; tests/tidy/layers.txt lists the order of these files.
 */
#ifndef PCCL_MASTER_STATE_H
#define PCCL_MASTER_STATE_H

#include "core/names.h"
#include "master/diagnosis_state.h"
#include "master/group.h"
#include "master/recovery_state.h"
#include "master/remote.h"
#include "master/tally.h"

/*
 * Stages of a step (pccl_master_step): decisions that affect more peers than the sender of a message, in the order in
 * which they run (see master.c for the reasons). Events record facts and mark the dependent stages as due.
 */
enum pccl_master_stage {
    PCCL_STAGE_ERAS,      /* drops the operations of ended eras */
    PCCL_STAGE_STRANGERS, /* refuses connections that sent no hello in time */
    PCCL_STAGE_SILENCE,   /* makes silent peers depart; sends heartbeats */
    /* commits operations that the others have finished, then creates a view without the departing peers */
    PCCL_STAGE_DEPARTURES,
    PCCL_STAGE_RECOVERY,   /* continues a run after a restart, when the reports suffice */
    PCCL_STAGE_FOUNDING,   /* founds a run if none exists */
    PCCL_STAGE_LINKS,      /* decides on failed links: another ring, or one end is removed */
    PCCL_STAGE_OPERATIONS, /* executes held aborts */
    PCCL_STAGE_WARM_UP,    /* requests links for newcomers; refuses those that take too long */
    PCCL_STAGE_TESTS,      /* ends overdue link tests */
    PCCL_STAGE_ROUNDS,     /* decides joint rounds in which all have voted, which admit newcomers and adopt rings */
    PCCL_STAGE_SYNCS,      /* decides synchronizations of shared state */
    PCCL_STAGE_SEARCHES,   /* searches for better rings in the background */
    PCCL_STAGE_VERDICTS,   /* finds slow or hanging peers and links in the reports */
    PCCL_STAGE_WAITING,    /* logs newcomers that are not admitted */
    PCCL_STAGES
};

struct pccl_master {
    struct pccl_master_config config;
    struct pccl_memory memory;
    struct pccl_master_effects effects;
    struct pccl_prng prng;
    uint64_t now_us, started_us, deadline_us;
    bool shut;
    uint32_t due; /* due stages, as a bit set */

    bool founded;                            /* true if a run exists */
    bool founded_by_newcomer;                /* true if the run was founded in this boot */
    uint64_t found_us;                       /* earliest time at which a newcomer may found a run */
    bool hold_logged;                        /* true if the wait of newcomers for found_us has been logged */
    struct pccl_id run_key;                  /* secret of the run's members, which proves membership */
    struct pccl_id lineage;                  /* public digest of run_key, which is the name of the run */
    struct pccl_id over[PCCL_RUNS_OVER_MAX]; /* runs that ended in this boot; their members are not readmitted */
    uint32_t over_count;
    struct pccl_epoch epoch;
    uint64_t rounds[PCCL_ROUND_KINDS]; /* numbers of the open rounds; SYNC is unused, see the groups */
    uint8_t last_outcome[PCCL_ROUND_KINDS];
    /* time since which only untried members are missing; 0 if others are missing */
    uint64_t untried_since_us[PCCL_ROUND_KINDS];

    bool optimizing;         /* true if an optimization for which all have voted is under way */
    uint64_t tests_begin_us; /* estimates made since this time are fresh */
    uint64_t tests_end_us;   /* last time at which a test may begin */
    uint64_t last_test, last_ticket, last_verdict;

    bool recovering;
    uint64_t recovering_since_us;

    struct pccl_remote **remotes; /* in order of arrival */
    uint32_t remote_count, remote_capacity, member_count, departing_count;
    uint64_t arrivals;
    uint64_t admissions;       /* highest admission number of this run */
    struct pccl_hash_key hash; /* key of all tables */
    struct pccl_table by_id, by_conn, strangers_by_conn;
    struct pccl_table groups_by_number;
    struct pccl_table queues, sites; /* newcomers by group, and by address */
    struct pccl_list_node stale_queues;
    uint32_t newcomer_count;    /* newcomers in queues */
    uint64_t newcomers_due_us;  /* lower bound of due_us of all queues */
    uint64_t newcomers_visited; /* total steps through queues, a measure of the cost of waiting newcomers */
    struct pccl_names names;    /* names of the remotes */
    struct pccl_stranger *oldest_stranger, *newest_stranger;
    struct pccl_peer_group **groups;
    uint32_t group_count, group_capacity;
    struct pccl_edge *edges;
    uint32_t edge_count, edge_capacity;
    struct pccl_removed *gone; /* the latest PCCL_REMOVED_MAX of gone_count, as a circular buffer */
    uint32_t gone_capacity;
    uint64_t gone_count;
    struct pccl_cool_down *cooling; /* unordered */
    uint32_t cooling_count, cooling_capacity;
    struct pccl_claim *claims; /* the latest PCCL_CLAIMS_MAX of claim_count, as a circular buffer */
    uint32_t claim_capacity;
    uint64_t claim_count;
    uint64_t created_us;
    struct pccl_tally tally;
};

/* Marks a stage as due, because its input has changed. */
static inline void pccl_master_mark(struct pccl_master *m, enum pccl_master_stage stage) { m->due |= 1U << stage; }

/* Returns the first half of the era: the number of decided joint rounds (PROTOCOL 1.4). */
static inline uint64_t pccl_master_joint(const struct pccl_master *m)
{
    return m->rounds[PCCL_ROUND_UPDATE] + m->rounds[PCCL_ROUND_OPTIMIZE];
}

/* Returns true if `round` is the one before the open round, which has an answer. Round 0 has no predecessor. */
static inline bool pccl_master_is_last_round(uint64_t round, uint64_t open) { return open > 0 && round == open - 1; }

/* Returns true for a member that is not departing. */
static inline bool pccl_master_is_living_member(const struct pccl_remote *remote)
{
    return remote->state == PCCL_REMOTE_MEMBER && !remote->departing;
}

#endif
