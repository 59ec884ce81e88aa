/* What the library tells of the links of a group (topology/report.h), as tables and as JSON. */
#ifndef PCCL_TOOLS_PERF_TOPOLOGY_REPORT_H
#define PCCL_TOOLS_PERF_TOPOLOGY_REPORT_H

#include "ops/json.h"
#include "topology/report.h"

#include <stdio.h>

/* Calls perf_report_parse, and sorts the links as perf_report_link expects them. */
enum pccl_status perf_report_read(const char *text, size_t length, struct pccl_topology_report *report,
                                  struct pccl_text *words);
/* NULL: nothing is known of it. */
const struct pccl_topology_link *perf_report_link(const struct pccl_topology_report *report, uint32_t from,
                                                  uint32_t to);
/* Do they send to the same peers, wherever they begin? */
bool perf_ring_same(const uint32_t *ring, const uint32_t *other, uint32_t count);

/* What is known of a ring's links. */
struct perf_ring_worth {
    uint32_t unknown;                         /* of how many of them nothing is known */
    const struct pccl_topology_link *slowest; /* of the others; NULL: there are none */
    uint64_t latency_us;                      /* the sum of their round trips */
};
struct perf_ring_worth perf_ring_worth_of(const struct pccl_topology_report *report, const uint32_t *ring);

/*
 * Peers, and rates and round trips from each to each; of more than PERF_MATRIX_MOST peers only the
 * links of the ring.
 */
enum { PERF_MATRIX_MOST = 64 };
void perf_report_show(FILE *out, const struct pccl_topology_report *report);
/* "ring: 0 -> 2 -> 1 -> 0", and what it is worth. */
void perf_ring_show(FILE *out, const struct pccl_topology_report *report, const char *title, const uint32_t *ring);

/* "peers": [...] */
void perf_report_json_peers(struct pccl_json *json, const struct pccl_topology_report *report);
/* "ways": [...] */
void perf_report_json_links(struct pccl_json *json, const struct pccl_topology_report *report);
/* "ring": [...], and what it is worth: "slowest_mbit" is null if not all of its links are known. */
void perf_ring_json(struct pccl_json *json, const struct pccl_topology_report *report, const uint32_t *ring);

#endif
