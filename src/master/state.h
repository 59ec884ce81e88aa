/*
 * State of the master. Only src/master and the checkers of the simulator read it. The headers of the other files say
 * which changes are legal, and when; tests/tidy/layers.txt has the order of these files.
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
 * The decisions that concern more than the sender of a message, in this order (master.c has the
 * reasons). Events note facts and mark the stages that depend on them as due.
 */
enum pccl_master_stage {
    PCCL_STAGE_ERAS,       /* forgets the operations of eras that have ended */
    PCCL_STAGE_STRANGERS,  /* refuses connections without a hello in time */
    PCCL_STAGE_SILENCE,    /* makes peers depart that were silent too long; sends heartbeats */
    PCCL_STAGE_DEPARTURES, /* commits what the others have finished, then makes a view without the departing */
    PCCL_STAGE_RECOVERY,   /* continues a run after a restart, when the reports suffice */
    PCCL_STAGE_FOUNDING,   /* begins a run if there is none */
    PCCL_STAGE_LINKS,      /* judges links that have failed too long: another ring, or one end is removed */
    PCCL_STAGE_OPERATIONS, /* decides held aborts */
    PCCL_STAGE_WARM_UP,    /* asks for links for newcomers; refuses those that take too long */
    PCCL_STAGE_TESTS,      /* ends overdue tests of links */
    PCCL_STAGE_ROUNDS,     /* decides joint rounds in which all have voted: admits newcomers, adopts rings */
    PCCL_STAGE_SYNCS,      /* decides synchronizations of shared state */
    PCCL_STAGE_SEARCHES,   /* searches for better rings, in the background */
    PCCL_STAGE_VERDICTS,   /* concludes from reports who or what is slow or stands still */
    PCCL_STAGE_WAITING,    /* logs newcomers that nobody admits */
    PCCL_STAGES
};

struct pccl_master {
    struct pccl_master_config config;
    struct pccl_memory memory;
    struct pccl_master_effects effects;
    struct pccl_prng prng;
    uint64_t now_us, started_us, deadline_us;
    bool shut;
    uint32_t due; /* the stages that are due, as bits */

    bool founded;                            /* a run exists */
    bool founded_by_newcomer;                /* ... which was founded in this boot */
    uint64_t found_us;                       /* earliest time at which a newcomer founds a run */
    bool hold_told;                          /* the log says that newcomers wait for found_us */
    struct pccl_id run_key;                  /* secret of the members: a peer that shows it was one */
    struct pccl_id lineage;                  /* its digest: the name of the run, which anybody may know */
    struct pccl_id over[PCCL_RUNS_OVER_MAX]; /* lineages that ended in this boot: their members are not taken back */
    uint32_t over_count;
    struct pccl_epoch epoch;
    uint64_t rounds[PCCL_ROUND_KINDS]; /* numbers of the open rounds; those of SYNC are in the groups */
    uint8_t last_outcome[PCCL_ROUND_KINDS];
    uint64_t untried_since_us[PCCL_ROUND_KINDS]; /* since when only untried members are missing; 0: others are */

    bool optimizing;         /* an optimization is under way: all have voted for it */
    uint64_t tests_begin_us; /* estimates since then are fresh */
    uint64_t tests_end_us;   /* no test begins later */
    uint64_t last_test, last_ticket, last_verdict;

    bool recovering;
    uint64_t recovering_since_us;

    struct pccl_remote **remotes; /* in order of arrival */
    uint32_t remote_count, remote_capacity, member_count, departing_count;
    uint64_t arrivals;
    uint64_t admissions;       /* of this run: the highest number that was given */
    struct pccl_hash_key hash; /* of all tables */
    struct pccl_table by_id, by_conn, strangers_by_conn;
    struct pccl_table groups_by_number;
    struct pccl_table queues, sites; /* of newcomers */
    struct pccl_list_node stale_queues;
    uint32_t newcomer_count;    /* in queues */
    uint64_t newcomers_due_us;  /* no queue is due before this */
    uint64_t newcomers_visited; /* how many steps through queues were made ever: the cost of newcomers that wait */
    struct pccl_names names;    /* of the remotes */
    struct pccl_stranger *oldest_stranger, *newest_stranger;
    struct pccl_peer_group **groups;
    uint32_t group_count, group_capacity;
    struct pccl_edge *edges;
    uint32_t edge_count, edge_capacity;
    struct pccl_gone *gone; /* the latest PCCL_GONE_MAX of gone_count, as a circular buffer */
    uint32_t gone_capacity;
    uint64_t gone_count;
    struct pccl_cooling *cooling; /* in no order */
    uint32_t cooling_count, cooling_capacity;
    struct pccl_claim *claims; /* the latest PCCL_CLAIMS_MAX of claim_count, as a circular buffer */
    uint32_t claim_capacity;
    uint64_t claim_count;
    uint64_t created_us;
    struct pccl_tally tally;
};

/* Marks a stage as due: something has changed that it depends on. */
static inline void pccl_master_mark(struct pccl_master *m, enum pccl_master_stage stage) { m->due |= 1U << stage; }

/* The first half of the era: how many joint rounds have been decided (PROTOCOL 1.4). */
static inline uint64_t pccl_master_joint(const struct pccl_master *m)
{
    return m->rounds[PCCL_ROUND_UPDATE] + m->rounds[PCCL_ROUND_OPTIMIZE];
}

/* Returns true for the round before the open one, which has an answer. Round 0 has no round before it. */
static inline bool pccl_master_is_last_round(uint64_t round, uint64_t open) { return open > 0 && round == open - 1; }

/* A member that is not departing. */
static inline bool pccl_master_is_living_member(const struct pccl_remote *remote)
{
    return remote->state == PCCL_REMOTE_MEMBER && !remote->departing;
}

#endif
