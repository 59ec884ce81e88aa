/* The library's report on the links of a group (topology/report.h), as tables and as JSON. */
#ifndef PCCL_TOOLS_PERF_TOPOLOGY_REPORT_H
#define PCCL_TOOLS_PERF_TOPOLOGY_REPORT_H

#include "ops/json.h"
#include "topology/report.h"

#include <stdio.h>

/* Calls perf_report_parse, and sorts the links as perf_report_link expects them. */
enum pccl_status perf_report_read(const char *text, size_t length, struct pccl_topology_report *report,
                                  struct pccl_text *words);
/* Returns the link, or NULL if it is unknown. */
const struct pccl_topology_link *perf_report_link(const struct pccl_topology_report *report, uint32_t from,
                                                  uint32_t to);
/* Returns true if both rings send to the same peers, from any first peer. */
bool perf_ring_same(const uint32_t *ring, const uint32_t *other, uint32_t count);

/* The known figures of a ring's links. */
struct perf_ring_worth {
    uint32_t unknown;                         /* number of unknown links */
    const struct pccl_topology_link *slowest; /* slowest of the others; NULL: all are unknown */
    uint64_t latency_us;                      /* sum of their round trips */
};
struct perf_ring_worth perf_ring_worth_of(const struct pccl_topology_report *report, const uint32_t *ring);

/*
 * Shows the peers, and rates and round trips between all of them; for more than PERF_MATRIX_MOST peers only the links
 * of the ring.
 */
enum { PERF_MATRIX_MOST = 64 };
void perf_report_show(FILE *out, const struct pccl_topology_report *report);
/* Shows "ring: 0 -> 2 -> 1 -> 0", and its figures. */
void perf_ring_show(FILE *out, const struct pccl_topology_report *report, const char *title, const uint32_t *ring);

/* Adds "peers": [...]. */
void perf_report_json_peers(struct pccl_json *json, const struct pccl_topology_report *report);
/* Adds "ways": [...]. */
void perf_report_json_links(struct pccl_json *json, const struct pccl_topology_report *report);
/* Adds "ring": [...], and its figures: "slowest_mbit" is null if some of its links are unknown. */
void perf_ring_json(struct pccl_json *json, const struct pccl_topology_report *report, const uint32_t *ring);

#endif
