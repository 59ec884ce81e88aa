/* A snapshot of a run as plain figures, without secrets, for operators' pages and metrics (ops/metrics.h, pages.h). */
#ifndef PCCL_MASTER_FIGURES_H
#define PCCL_MASTER_FIGURES_H

#include "core/limits.h"
#include "master/link_blocks.h"
#include "master/master.h"
#include "master/tally.h"
#include "master/where.h"

/* State of a peer. NEWCOMER: waits for admission. RETURNING: resumes after a restart of the master. */
enum pccl_standing { PCCL_STANDING_MEMBER, PCCL_STANDING_NEWCOMER, PCCL_STANDING_RETURNING, PCCL_STANDING_LEAVING };

/* Result of the master's dials to a peer's port. */
enum pccl_reach { PCCL_REACH_UNKNOWN, PCCL_REACH_OPEN, PCCL_REACH_CLOSED };
/* End that dialed a link. NONE: the link is down. DIRECT: the sender of the data. REVERSED: the receiver. */
enum pccl_way { PCCL_WAY_NONE, PCCL_WAY_DIRECT, PCCL_WAY_REVERSED };

struct pccl_peer_figure {
    struct pccl_id id;
    uint64_t number;              /* in order of arrival */
    char name[PCCL_NAME_MAX + 1]; /* empty if it has no name */
    enum pccl_standing standing;
    uint32_t group, rank, position;
    struct pccl_address address; /* address seen by the master, with the peer's listening port */
    enum pccl_reach reach;       /* of that port */
    uint64_t received_us;        /* time since its last message */
    struct pccl_place place;
    bool draining;
    /* Predicted figures of the link to the ring successor; 0 if unknown or the peer is alone. */
    uint64_t rate;
    uint32_t rtt_us;
    enum pccl_way way;            /* of that link */
    uint64_t predicted, achieved; /* rates of that link in the last test and in later operations; 0 if unknown */
    bool fetching;                /* true while it fetches shared state from `donors` donors, or computes its proof */
    uint32_t donors;
    /* time since its last training report (UINT64_MAX: none), and the reported step */
    uint64_t training_us, training_step;
    double training_loss;
    /* microseconds by enum pccl_time_use, 0 before its first report; member for which it recently waited most, or 0 */
    uint64_t recent_us[PCCL_TIME_USES], whole_us[PCCL_TIME_USES];
    struct pccl_id delayed_by;
};

/* A member for which others have recently waited. */
struct pccl_delay_figure {
    struct pccl_id peer;
    uint64_t us; /* of all waiting members together */
};
enum { PCCL_FIGURES_DELAYS_MAX = 3 };

/* Links from one member to the members of its group, by rank. */
struct pccl_link_row {
    uint32_t group, rank, count;
    /* borrowed from pccl_figures: the figures, and enum pccl_way of each link */
    const struct pccl_figure *links;
    const uint8_t *ways;
};

struct pccl_group_figure {
    uint32_t number, members;
    struct pccl_epoch view;
    uint64_t sync_round, revision;
};

/* A peer that was removed recently. */
struct pccl_removed_figure {
    struct pccl_id id;
    char name[PCCL_NAME_MAX + 1];
    uint64_t since_us; /* time since the removal */
    struct pccl_text reason;
};
enum {
    PCCL_FIGURES_REMOVED_MAX = 8,
    PCCL_FIGURES_ROWS_MAX = 64,
    PCCL_FIGURES_LINKS_MAX =
        PCCL_FIGURES_ROWS_MAX *
        PCCL_FIGURES_ROWS_MAX, /* capacity for links; a group whose links do not all fit is left out */
    PCCL_VERDICTS_SHOWN_MAX = 64,
};

struct pccl_verdict_figure {
    uint32_t group;
    struct pccl_verdict_entry entry;
};

/* Figures that the driver fills in. */
struct pccl_driver_figures {
    const char *version; /* "1.2.3" */
    bool takes_commands; /* true if operators with the token may send commands over HTTP */
    uint64_t connections, accepted, turned_away;
    uint64_t requests, requests_refused, visitors_dropped; /* HTTP counters */
    uint64_t busy_us, longest_us;                          /* event loop: total and longest busy time */
};

struct pccl_figures {
    const struct pccl_memory *memory; /* borrowed */
    struct pccl_driver_figures driver;
    uint64_t uptime_us;
    struct pccl_id lineage; /* zero if there is no run */
    bool recovering, optimizing;
    struct pccl_epoch epoch;
    struct pccl_master_counts counts;
    struct pccl_tally tally;
    uint64_t recent_us[PCCL_TIME_USES];                       /* of all members together, by enum pccl_time_use */
    struct pccl_delay_figure delays[PCCL_FIGURES_DELAYS_MAX]; /* longest first */
    uint32_t delay_count;
    uint64_t rounds[PCCL_ROUND_KINDS]; /* numbers of the open rounds; SYNC is unused, see the groups */
    uint32_t update_votes;             /* members that have voted for the open topology update */
    struct pccl_peer_figure *peers;    /* owned, in order of arrival */
    uint32_t peer_count;
    struct pccl_group_figure *groups; /* owned */
    uint32_t group_count;
    struct pccl_link_row *rows; /* owned; at most one for each peer */
    uint32_t row_count;
    const struct pccl_link_blocks_row *blocks; /* borrowed from the caller, who sets them */
    uint32_t block_count;
    struct pccl_figure *links;                                 /* owned, PCCL_FIGURES_LINKS_MAX */
    uint8_t *ways;                                             /* the same */
    struct pccl_removed_figure gone[PCCL_FIGURES_REMOVED_MAX]; /* latest first */
    uint32_t gone_count;
    struct pccl_wait *waits; /* owned, PCCL_WAITS_MAX */
    uint32_t wait_count;
    bool waits_left_out;
    uint64_t verdict_counts[PCCL_VERDICT_CLASSES]; /* active verdicts by enum pccl_verdict_class */
    struct pccl_verdict_figure *verdicts;          /* owned, PCCL_VERDICTS_SHOWN_MAX */
    uint32_t verdict_count;
    uint64_t now_us; /* time of the snapshot */
};

/*
 * Copies the state as of the machine's last step, in bounded time. With `all`, also copies peers, groups and waits.
 * Returns false if out of memory, with nothing to free.
 */
PCCL_MUST_CHECK bool pccl_figures_take(struct pccl_master *master, bool all, const struct pccl_memory *memory,
                                       struct pccl_figures *figures);
void pccl_figures_fini(struct pccl_figures *figures);

#endif
