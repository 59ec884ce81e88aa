/*
 * Verdicts on a group, derived from its members' reports (PROTOCOL 9.8): the cause of a hanging operation, and the
 * link, peer or computation that slows the group. Pure, and independent of the rest of the master: the simulator runs
 * it with the reports of modeled groups.
 *
 * Each peer measures durations on its own clock, so no two clocks are compared. A peer or a link is judged by
 * comparison with the others at the same time. A comparison yields suspicions. A suspicion becomes a verdict when
 * several consecutive comparisons confirm it, and ends when several do not.
 */
#ifndef PCCL_MASTER_VERDICTS_H
#define PCCL_MASTER_VERDICTS_H

#include "core/memory.h"
#include "core/text.h"
#include "topology/matrix.h"
#include "wire/wire.h"

enum {
    PCCL_WITNESS_ROUNDS = 32, /* latest operations of a peer that are compared */
    PCCL_LINK_PAST_LEAST = 3, /* reports after which the usual figures of a link are known */
    PCCL_OPEN_LINKS_MAX = 8,
    PCCL_OPEN_REPORTS = 3,            /* a single report is inexact while the hosts are busy */
    PCCL_SUSPICIONS_MAX = 32,         /* maximum per group; further ones are ignored */
    PCCL_VERDICTS_EVERY_US = 1000000, /* minimum time between comparisons of a group */
};

/* An operation in a peer's report. */
struct pccl_witness_round {
    uint64_t key, received_us;
    uint32_t took_us;
};

/* Usual figures of a link, while the same number of links shares the lines of its ends. */
struct pccl_link_past {
    struct pccl_id peer;
    uint64_t pace;    /* busy microseconds per MiB */
    uint64_t rate;    /* bytes for each millisecond of operations */
    uint32_t loss;    /* resent bytes, in thousandths */
    uint32_t out, in; /* number of links in use from its sender, and to its receiver */
    uint32_t reports; /* number of reports that these figures come from, at most PCCL_LINK_PAST_LEAST */
};

/* Reports of one peer. */
struct pccl_witness {
    struct pccl_id id;
    uint64_t received_us;                                  /* time of the latest report; 0: none */
    bool judged;                                           /* true if the latest report has been compared */
    uint32_t window_ms, stalled_ms;                        /* of the latest report */
    uint64_t round_count;                                  /* number of operations in all reports so far */
    struct pccl_witness_round rounds[PCCL_WITNESS_ROUNDS]; /* circular buffer: the n-th is at n modulo its size */
    struct pccl_link_past past[PCCL_TELEMETRY_LINKS_MAX];  /* unordered; an unused place has no reports */
    /*
     * Recent figures of links, and the time that they cover. Each report has twice the weight of the previous one, and
     * `lately_us` is the highest value weighted like this.
     */
    struct pccl_seen_link links[PCCL_TELEMETRY_LINKS_MAX];
    uint32_t link_count;
    uint64_t time_us;
    /* Figures of the latest report, in the same order. */
    struct pccl_seen_link latest_links[PCCL_TELEMETRY_LINKS_MAX];
    uint64_t ring_bytes, ring_left; /* operations under way: total bytes to send along the ring, and bytes left */
    struct pccl_instance instance;
    struct pccl_seen_wait waits[PCCL_TELEMETRY_WAITS_MAX];
    uint32_t wait_count;
};

/* Members of a group, with their reports. */
struct pccl_witnesses {
    struct pccl_witness **all; /* NULL for a member without a report */
    uint32_t count;
    /* Returns the index of the member with this id; `count` if none exists. */
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
    struct pccl_id peer, other; /* other: the receiver of a link; zero if the entry is about a peer */
    bool holds;                 /* true for a verdict or a finding that several comparisons have confirmed */
    bool finding;               /* true if it has been so from the start: shown, and avoided by rings, but no verdict */
    bool over;                  /* true for an ended verdict that pccl_verdicts_take_over has not returned yet */
    bool sent;                  /* for the caller: true once the members have received it */
    bool seen;                  /* true if the comparison in progress, or otherwise the last one, confirms it */
    bool alone;                 /* slow link, last confirmation: neither end uses another link */
    bool enough;                /* true if the last comparison suffices to expel the peer (PROTOCOL 9.11) */
    uint32_t hits, misses;      /* numbers of consecutive comparisons that confirmed it, and that did not */
    uint64_t number;            /* number of a verdict */
    uint64_t since_us;
    uint64_t confirmed_us;     /* time of the last confirmation by a new report */
    uint64_t enough_us;        /* time since which it has been a verdict with `enough`; 0 if it is not one */
    uint64_t rate, usual_rate; /* slow link, last confirmation: its rate and the usual rate in bytes per second, or 0 */
    /* For the caller (slow links, diagnosis_slow_links.c). */
    /* version of the last ring for which a search without the link was requested; 0: none */
    uint32_t left_version;
    struct pccl_figure left_known[2]; /* figures of the link and of the opposite direction before the verdict */
    struct pccl_text evidence, action;
};

/*
 * A link that was slow while neither end used another link. If another link of one end is slow later, that end is the
 * cause; if it is not slow, the link was the cause.
 */
struct pccl_open_link {
    struct pccl_id from, to;
    /* number of further reports with the usual rate, in sequence, after which this end is not the cause; 0: it is not
     */
    uint8_t sender, receiver;
};

struct pccl_verdicts {
    struct pccl_verdict_entry *entries; /* owned, room for PCCL_SUSPICIONS_MAX; NULL before the first suspicion */
    uint32_t count;
    struct pccl_open_link open[PCCL_OPEN_LINKS_MAX]; /* circular buffer of the latest */
    uint64_t open_count;
    uint64_t judged_us; /* for the caller: time of the last comparison */
};

/* Stores a report, in which each peer occurs once (wire/invalid.c). Limits its figures to plausible values. */
void pccl_witness_take(struct pccl_witness *witness, uint64_t now_us, const struct pccl_msg_sight *telemetry);

/*
 * Compares the latest reports. Returns true if a verdict began or ended. If out of memory, slow peers and links are not
 * examined, and count as not confirmed. `last_number` is the number of the latest verdict in all groups; it is
 * incremented for each new one.
 */
PCCL_MUST_CHECK bool pccl_verdicts_judge(struct pccl_verdicts *verdicts, const struct pccl_memory *memory,
                                         const struct pccl_witnesses *witnesses, uint64_t now_us,
                                         uint64_t *last_number);
/* Ends the suspicions and verdicts about a peer that has left the group. Returns true if a verdict ended. */
PCCL_MUST_CHECK bool pccl_verdicts_forget(struct pccl_verdicts *verdicts, const struct pccl_id *peer);
void pccl_verdicts_free(struct pccl_verdicts *verdicts, const struct pccl_memory *memory);

/*
 * Return the n-th active verdict, or the n-th active verdict or finding, in order of their beginning; NULL if there are
 * fewer. There are at most PCCL_VERDICTS_MAX of each.
 */
struct pccl_verdict_entry *pccl_verdicts_at(const struct pccl_verdicts *verdicts, uint32_t n);
struct pccl_verdict_entry *pccl_verdicts_or_finding_at(const struct pccl_verdicts *verdicts, uint32_t n);
/* Moves an ended verdict to `entry`. Returns false if none has ended. */
bool pccl_verdicts_take_over(struct pccl_verdicts *verdicts, struct pccl_verdict_entry *entry);
/* Returns the broken invariant, or NULL if all hold. */
const char *pccl_verdicts_broken_rule(const struct pccl_verdicts *verdicts);

#endif
