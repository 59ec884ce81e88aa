/*
 * Verdicts on a group, derived from its members' reports (PROTOCOL 9.8): the cause of an operation that hangs, and the
 * link, peer or computation that slows the group. Pure and self-contained: independent of the rest of the master, and
 * the simulator runs it with reports of modeled groups.
 *
 * Each peer's figures are durations on its own clock, so no two clocks are compared. A peer or a link is judged by
 * comparison with the others at the same time. A comparison yields suspicions; a suspicion becomes a verdict when
 * several comparisons in a row confirm it, and ends when several in a row do not.
 */
#ifndef PCCL_MASTER_VERDICTS_H
#define PCCL_MASTER_VERDICTS_H

#include "core/memory.h"
#include "core/text.h"
#include "topology/matrix.h"
#include "wire/wire.h"

enum {
    PCCL_WITNESS_WINDOWS = 8, /* latest reports of a peer that are compared */
    PCCL_OPEN_LINKS_MAX = 8,
    PCCL_SUSPICIONS_MAX = 32,         /* of a group at one time; further ones are ignored */
    PCCL_VERDICTS_EVERY_US = 1000000, /* minimum time between comparisons of a group */
};

/* One report's figures of operations. */
struct pccl_witness_window {
    uint32_t window_ms, stalled_ms, operations;
    uint64_t took_us, took_squares;
};

/* Reports of one peer. */
struct pccl_witness {
    struct pccl_id id;
    uint64_t received_us;                                     /* time of the latest report; 0: none */
    bool judged;                                              /* the latest report has been compared with others */
    uint64_t count;                                           /* reports so far */
    struct pccl_witness_window windows[PCCL_WITNESS_WINDOWS]; /* report n is at n modulo this */
    /* Recent figures of links, and the time that they cover: each report has twice the weight of the one before. */
    struct pccl_seen_link links[PCCL_TELEMETRY_LINKS_MAX];
    uint32_t link_count;
    uint64_t time_us;
    /* Figures of the latest report, in the same order: */
    struct pccl_seen_link told[PCCL_TELEMETRY_LINKS_MAX];
    uint64_t ring_bytes, ring_left; /* operations under way: bytes sent along the ring in total, and bytes left */
    struct pccl_instance instance;
    struct pccl_seen_wait waits[PCCL_TELEMETRY_WAITS_MAX];
    uint32_t wait_count;
};

/* Members of a group that have reported. */
struct pccl_witnesses {
    struct pccl_witness **all; /* NULL: no report */
    uint32_t count;
    /* Returns the index of the member with this id; `count`: none. */
    uint32_t (*find)(const void *context, const struct pccl_id *id);
    /* Returns true if the member takes part in the operation. */
    bool (*takes_part)(const void *context, uint32_t i, const struct pccl_instance *instance);
    /* Returns true if operations use the link from `from` to `to`. Reports about other links are ignored. */
    bool (*uses)(const void *context, uint32_t from, uint32_t to);
    const void *context;
};

/* A suspicion or verdict. */
struct pccl_verdict_entry {
    enum pccl_verdict_class class;
    struct pccl_id peer, other; /* other: the receiver of a link; zero for a peer */
    bool holds;                 /* is a verdict */
    bool over;                  /* was a verdict; not returned by pccl_verdicts_take_over yet */
    bool told;                  /* for the caller: the affected members have received it */
    bool seen;                  /* confirmed by the comparison under way, or by the last one */
    bool alone;                 /* slow link, as last seen: neither end uses another link */
    bool enough;                /* last comparison: sufficient to expel the peer (PROTOCOL 9.11) */
    uint32_t hits, misses;      /* comparisons in a row */
    uint64_t number;            /* of a verdict */
    uint64_t since_us;
    uint64_t enough_us;        /* time since when it is a verdict with `enough`; 0: it is not */
    uint64_t rate, usual_rate; /* slow link, as last seen: its rate and the usual rate in bytes per second, or 0 */
    /* For the caller (slow links, diagnosis_slow_links.c): */
    uint32_t left_version;            /* version of the last ring that was asked to leave the link; 0: none */
    struct pccl_figure left_known[2]; /* figures of the link and of the opposite direction before the verdict */
    struct pccl_text evidence, action;
};

/*
 * A slow link while neither of its ends used another link. If another link of an end is slow, too, that end is the
 * cause; if it is not, the link was.
 */
struct pccl_open_link {
    struct pccl_id from, to;
    bool sender, receiver; /* this end may be the cause */
};

struct pccl_verdicts {
    struct pccl_verdict_entry *entries; /* owned, room for PCCL_SUSPICIONS_MAX; NULL: no suspicion yet */
    uint32_t count;
    struct pccl_open_link open[PCCL_OPEN_LINKS_MAX]; /* the latest, as a circular buffer */
    uint64_t open_count;
    uint64_t judged_us; /* for the caller: time of the last comparison */
};

/*
 * Stores a report, which names each peer once (wire/invalid.c). Limits figures to values that a peer can have measured.
 */
void pccl_witness_take(struct pccl_witness *witness, uint64_t now_us, const struct pccl_msg_sight *sight);

/*
 * Compares the latest reports. Returns true if a verdict began or ended. If out of memory, slow peers and links are not
 * examined and count as not confirmed. last_number: number of the latest verdict in all groups, incremented for each
 * new one.
 */
PCCL_MUST_CHECK bool pccl_verdicts_judge(struct pccl_verdicts *verdicts, const struct pccl_memory *memory,
                                         const struct pccl_witnesses *witnesses, uint64_t now_us,
                                         uint64_t *last_number);
/* Ends the suspicions and verdicts about a peer that has left the group. Returns true if a verdict ended. */
PCCL_MUST_CHECK bool pccl_verdicts_forget(struct pccl_verdicts *verdicts, const struct pccl_id *peer);
void pccl_verdicts_free(struct pccl_verdicts *verdicts, const struct pccl_memory *memory);

/* Returns the n-th active verdict, at most PCCL_VERDICTS_MAX, in order of their beginning; NULL: no more. */
struct pccl_verdict_entry *pccl_verdicts_at(const struct pccl_verdicts *verdicts, uint32_t n);
/* Returns an ended verdict in `entry` and forgets it. Returns false if there is no ended verdict. */
bool pccl_verdicts_take_over(struct pccl_verdicts *verdicts, struct pccl_verdict_entry *entry);
/* Returns NULL, or the invariant that is broken. */
const char *pccl_verdicts_broken_rule(const struct pccl_verdicts *verdicts);

#endif
