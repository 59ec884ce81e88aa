/*
 * What is wrong with a group, concluded from what its members report (PROTOCOL 9.8): who or what the others wait for
 * when an operation stands, and which link, peer or computation slows them all. Pure and by itself: it knows nothing
 * of the rest of the master, and the simulator runs it with reports of modeled groups.
 *
 * Each peer's figures are durations on its own clock, so no two clocks are compared. A peer or a link is judged by
 * comparison with the others at the same time. What one comparison shows is a suspicion; only if several in a row
 * show the same is it a verdict, and it ends when several in a row do not show it any more.
 */
#ifndef PCCL_MASTER_VERDICTS_H
#define PCCL_MASTER_VERDICTS_H

#include "core/memory.h"
#include "core/text.h"
#include "topology/matrix.h"
#include "wire/wire.h"

enum {
    PCCL_WITNESS_WINDOWS = 8, /* the latest reports of a peer that are compared */
    PCCL_OPEN_LINKS_MAX = 8,
    PCCL_SUSPICIONS_MAX = 32,         /* of a group at one time; what comes then is not looked into */
    PCCL_VERDICTS_EVERY_US = 1000000, /* a group is judged at most so often */
};

/* One report's figures of operations. */
struct pccl_witness_window {
    uint32_t window_ms, stalled_ms, operations;
    uint64_t took_us, took_squares;
};

/* What one peer has reported. */
struct pccl_witness {
    struct pccl_id id;
    uint64_t heard_us;                                        /* the latest report; 0: none */
    bool judged;                                              /* the latest report has been compared with others */
    uint64_t count;                                           /* of reports ever */
    struct pccl_witness_window windows[PCCL_WITNESS_WINDOWS]; /* the n-th is at n modulo this */
    /* What links showed lately: each report counts twice as much as the one before. And of how long that is. */
    struct pccl_seen_link links[PCCL_SIGHT_LINKS_MAX];
    uint32_t link_count;
    uint64_t time_us;
    /* Of the latest report, and in the same order: */
    struct pccl_seen_link told[PCCL_SIGHT_LINKS_MAX];
    uint64_t ring_bytes, ring_left; /* of what is under way: all that it sends along the ring, and what is left */
    struct pccl_instance instance;
    struct pccl_seen_wait waits[PCCL_SIGHT_WAITS_MAX];
    uint32_t wait_count;
};

/* The members of a group that have reported. */
struct pccl_witnesses {
    struct pccl_witness **all; /* NULL: this one has not */
    uint32_t count;
    /* Which of them has this id; `count`: none. */
    uint32_t (*find)(const void *context, const struct pccl_id *id);
    /* Does this one take part in the operation? */
    bool (*takes_part)(const void *context, uint32_t i, const struct pccl_instance *instance);
    /* Returns true if operations use the link from `from` to `to`. Reports about other links do not count. */
    bool (*uses)(const void *context, uint32_t from, uint32_t to);
    const void *context;
};

/* A suspicion, which becomes a verdict. */
struct pccl_verdict_entry {
    enum pccl_verdict_class class;
    struct pccl_id peer, other; /* other: of a link; else zero */
    bool holds;                 /* it is a verdict */
    bool over;                  /* it was one, which pccl_verdicts_take_over has not given out yet */
    bool told;                  /* the caller's: those whom it concerns know of it */
    bool seen;                  /* by the comparison under way, or the last one */
    bool alone;                 /* a link, as seen last: neither of the two uses another one */
    bool enough;                /* in the last comparison: sufficient to expel the peer (PROTOCOL 9.11) */
    uint32_t hits, misses;      /* in a row */
    uint64_t number;            /* of a verdict */
    uint64_t since_us;
    uint64_t enough_us;        /* time since when it is a verdict with `enough`; 0: it is not */
    uint64_t rate, usual_rate; /* of a link that is slow, as seen last: bytes per second, its own and usual; or 0 */
    /* The caller's, of a slow link (diagnosis_slow_links.c): */
    uint32_t left_version;            /* the latest version of the ring that is to leave it; 0: none yet */
    struct pccl_figure left_known[2]; /* what was known of it before, and of the opposite direction */
    struct pccl_text evidence, action;
};

/*
 * A link that was slow, while no other one of the two was in use. Once one is and is slow, too, it is the sender or the
 * receiver that is slow; once one is and is not, it was the link.
 */
struct pccl_open_link {
    struct pccl_id from, to;
    bool sender, receiver; /* it may be this one */
};

struct pccl_verdicts {
    struct pccl_verdict_entry *entries; /* owned, room for PCCL_SUSPICIONS_MAX; NULL: nothing has been suspected yet */
    uint32_t count;
    struct pccl_open_link open[PCCL_OPEN_LINKS_MAX]; /* the latest, as a circular buffer */
    uint64_t open_count;
    uint64_t judged_us; /* the caller's: when they were compared */
};

/* Takes a report, which names each peer once (wire/invalid.c). Cuts figures to values that a peer can have measured. */
void pccl_witness_take(struct pccl_witness *witness, uint64_t now_us, const struct pccl_msg_sight *sight);

/*
 * Compares what the witnesses have said lately. true: a verdict has come or gone. Without memory nothing is compared.
 * last_number: the number of the latest verdict of all groups, which it raises.
 */
PCCL_MUST_CHECK bool pccl_verdicts_judge(struct pccl_verdicts *verdicts, const struct pccl_memory *memory,
                                         const struct pccl_witnesses *witnesses, uint64_t now_us,
                                         uint64_t *last_number);
/* The peer has left the group: what was concluded of it ends. true: a verdict has gone. */
PCCL_MUST_CHECK bool pccl_verdicts_forget(struct pccl_verdicts *verdicts, const struct pccl_id *peer);
void pccl_verdicts_free(struct pccl_verdicts *verdicts, const struct pccl_memory *memory);

/* The n-th of those that hold, at most PCCL_VERDICTS_MAX, in the order in which they came; NULL: no more. */
struct pccl_verdict_entry *pccl_verdicts_at(const struct pccl_verdicts *verdicts, uint32_t n);
/* One of those that hold no more, which is forgotten with that. false: there is none. */
bool pccl_verdicts_take_over(struct pccl_verdicts *verdicts, struct pccl_verdict_entry *entry);
/* NULL, or the rule that is broken. */
const char *pccl_verdicts_broken_rule(const struct pccl_verdicts *verdicts);

#endif
