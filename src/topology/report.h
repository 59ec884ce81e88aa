/*
 * A group's members, its ring and the figures of their links, as text for people, and as input for another search
 * (pccl-perf --solve FILE). Pure.
 *
 *     pccl topology 1
 *     group 0
 *     peers 3
 *     peer 0 1f0c...e2 10.0.0.1:48149 name
 *     peer 1 ...
 *     ring 0 2 1
 *     search seed 42 steps 1000000
 *     way 0 1 rate 50000000 rtt 25100 age 1200 tested
 *     way 0 2 unreachable age 1200
 *     way 1 0 rate 40000000 rtt 25100 age 1200 traffic reversed
 *     # all-reduce, bytes of the tensor per second: at most 30000000, uplink of peer 1
 *     # around the ring 22500000, over trees 30000000
 *     # tree 192 of 256: 0 0 0
 *     # tree 64 of 256: 2 0 2
 *     end
 *
 * rate: bytes per second; rtt: microseconds; age: milliseconds; `tested` or `traffic`; `reversed` if the receiver has
 * dialed the link, because the sender cannot reach its port. Links without figures are omitted. `name` is the rest of
 * the line and may be empty. Lines that begin with # and empty lines are skipped. The others are in this order, peers
 * by number, links in any order. The comments follow from the links: the rate that no schedule can exceed and the line
 * that limits it, the rates of the ring and of weighted trees, and the parent of each peer in each tree.
 */
#ifndef PCCL_TOPOLOGY_REPORT_H
#define PCCL_TOPOLOGY_REPORT_H

#include "core/address.h"
#include "core/base.h"
#include "core/id.h"
#include "core/limits.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/text.h"
#include "topology/lines.h"
#include "topology/matrix.h"
#include "topology/trees.h"

struct pccl_topology_peer {
    struct pccl_id id;
    struct pccl_address address;
    char name[PCCL_NAME_MAX + 1];
};

struct pccl_topology_link {
    uint64_t rate, age_ms; /* rate and rtt_us: 0 unless TESTED or TRAFFIC */
    uint32_t from, to, rtt_us;
    uint8_t source; /* enum pccl_figure_source, not NONE */
    bool reversed;  /* true if the receiver of the data has dialed the link */
};

/* Rates of an all-reduce on the lines of the group (topology/lines.h), in bytes of the tensor per second. */
struct pccl_topology_promise {
    struct pccl_bound bound; /* of any schedule; rate 0: unknown, and so are the others */
    uint64_t ring;
    struct pccl_trees trees;
};

struct pccl_topology_report {
    struct pccl_memory memory; /* allocator of its arrays */
    uint32_t group, count;
    struct pccl_topology_peer *peers;
    uint32_t *ring;                   /* `count` peer numbers */
    struct pccl_topology_link *links; /* known links, each once, in any order */
    uint32_t link_count, link_capacity;
    uint64_t seed, steps; /* seed and steps of the search that found the ring; steps 0: no search */
    struct pccl_topology_promise promise;
};

/*
 * Initializes the report with room for `count` peers, the ring 0 1 2 ... and no links. Returns false if memory is
 * short, or count is 0 or too large, with nothing to free.
 */
PCCL_MUST_CHECK bool pccl_topology_report_init(struct pccl_topology_report *report, const struct pccl_memory *memory,
                                               uint32_t count);
void pccl_topology_report_fini(struct pccl_topology_report *report);
/*
 * Adds a link, from != to, which must not have been added before. Ignores source NONE. Returns false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_topology_report_add(struct pccl_topology_report *report,
                                              const struct pccl_topology_link *link);

/*
 * Computes the promise from all links, for this ring of the peers. A group of more than PCCL_TREES_PEERS_MAX peers, or
 * with a peer without a known link, has none. Returns false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_topology_report_promise(struct pccl_topology_report *report, const uint32_t *ring);
/* Writes the line that limits an all-reduce: "uplink of peer 4", "downlinks of all sites". */
void pccl_topology_limit_text(const struct pccl_bound *bound, struct pccl_text *text);

/*
 * Writes at most `size` bytes, without a terminating zero, and returns the length of the complete text. `ring_only`
 * omits links that are not in the ring. Unprintable bytes of a name become '?'.
 */
size_t pccl_topology_report_print(const struct pccl_topology_report *report, bool ring_only, char *text, size_t size);

#endif
