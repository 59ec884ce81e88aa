/*
 * The state of a run as plain figures, for those who watch it: a copy that says no secrets and that nothing changes
 * any more. Pages are made of it (metrics.h, pages.h).
 */
#ifndef PCCL_MASTER_FIGURES_H
#define PCCL_MASTER_FIGURES_H

#include "core/limits.h"
#include "master/master.h"
#include "master/tally.h"
#include "master/where.h"

/* As a page shows them: NEWCOMER waits for admission, RETURNING resumes after a restart of the master. */
enum pccl_standing { PCCL_STANDING_MEMBER, PCCL_STANDING_NEWCOMER, PCCL_STANDING_RETURNING, PCCL_STANDING_LEAVING };

struct pccl_peer_figure {
    struct pccl_id id;
    char name[PCCL_NAME_MAX + 1]; /* "": none */
    enum pccl_standing standing;
    uint32_t group, rank, position;
    struct pccl_address address; /* as the master sees it, with its listening port */
    uint64_t heard_us;           /* how long ago */
    struct pccl_place place;
    bool draining;
    /* The link to the next in the ring, as the master predicts it; 0: unknown, or alone. */
    uint64_t rate;
    uint32_t rtt_us;
    uint64_t predicted, achieved; /* its rate by the last test; by what operations showed since; 0: unknown */
    bool fetching;                /* shared state, of so many donors */
    uint32_t donors;
    uint64_t told_us, told_step; /* the last that it told of its training, so long ago; UINT64_MAX: nothing */
    double told_loss;
};

/* The links from a member to the members of its group, by their ranks. */
struct pccl_link_row {
    uint32_t group, rank, count;
    const struct pccl_figure *links; /* in pccl_figures */
};

struct pccl_group_figure {
    uint32_t number, members;
    struct pccl_epoch view;
    uint64_t sync_round, revision;
};

/* Who was removed lately. */
struct pccl_gone_figure {
    struct pccl_id id;
    char name[PCCL_NAME_MAX + 1];
    uint64_t since_us; /* how long ago */
    struct pccl_text reason;
};
enum {
    PCCL_FIGURES_GONE_MAX = 8,
    PCCL_FIGURES_LINKS_MAX = 64 * 64, /* of groups that fit as a whole, in their order */
    PCCL_VERDICTS_SHOWN_MAX = 64,
};

struct pccl_verdict_figure {
    uint32_t group;
    struct pccl_verdict_entry entry;
};

/* What only the driver knows. It fills this in. */
struct pccl_driver_figures {
    const char *version; /* "1.2.3" */
    bool takes_commands; /* by HTTP, from whoever has the token */
    uint64_t connections, accepted, turned_away;
    uint64_t requests, requests_refused, visitors_dropped; /* of HTTP */
    uint64_t busy_us, longest_us;                          /* of the loop */
};

struct pccl_figures {
    const struct pccl_memory *memory; /* borrowed */
    struct pccl_driver_figures driver;
    uint64_t uptime_us;
    struct pccl_id lineage; /* zero: there is no run */
    bool recovering, optimizing;
    struct pccl_epoch epoch;
    struct pccl_master_counts counts;
    struct pccl_tally tally;
    uint64_t rounds[PCCL_ROUND_KINDS]; /* that are open; of SYNC: in the groups */
    uint32_t update_votes;             /* of members, for the open topology update */
    struct pccl_peer_figure *peers;    /* owned, in the order of arrival */
    uint32_t peer_count;
    struct pccl_group_figure *groups; /* owned */
    uint32_t group_count;
    struct pccl_link_row *rows; /* owned, one for each peer at most */
    uint32_t row_count;
    struct pccl_figure *links;                           /* owned, PCCL_FIGURES_LINKS_MAX */
    struct pccl_gone_figure gone[PCCL_FIGURES_GONE_MAX]; /* the latest first */
    uint32_t gone_count;
    struct pccl_wait *waits; /* owned, PCCL_WAITS_MAX */
    uint32_t wait_count;
    bool waits_left_out;
    uint64_t verdict_counts[PCCL_VERDICT_CLASSES]; /* that hold, by enum pccl_verdict_class */
    struct pccl_verdict_figure *verdicts;          /* owned, PCCL_VERDICTS_SHOWN_MAX */
    uint32_t verdict_count;
    uint64_t now_us; /* of the copy */
};

/*
 * Copies the state as of the machine's last step, in a time that is bounded whatever goes on. all: peers, groups and
 * waits, too. false: out of memory, and nothing is to be freed.
 */
PCCL_MUST_CHECK bool pccl_figures_take(struct pccl_master *master, bool all, const struct pccl_memory *memory,
                                       struct pccl_figures *figures);
void pccl_figures_fini(struct pccl_figures *figures);

#endif
