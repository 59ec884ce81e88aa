/* The library's topology report (topology/report.h), as tables and as JSON. */
#ifndef PCCL_TOOLS_PERF_TOPOLOGY_REPORT_H
#define PCCL_TOOLS_PERF_TOPOLOGY_REPORT_H

#include "ops/json.h"
#include "topology/report.h"

#include "pccl.h"

#include <stdio.h>

/* Requests the text of a report from the master. The caller frees it after success. */
pcclResult_t perf_report_fetch(pcclComm_t *comm, char **text);
/* Calls perf_report_parse, and then sorts the links as perf_report_link requires. */
enum pccl_status perf_report_read(const char *text, size_t length, struct pccl_topology_report *report,
                                  struct pccl_text *words);
/* Returns the link, or NULL if it is unknown. */
const struct pccl_topology_link *perf_report_link(const struct pccl_topology_report *report, uint32_t from,
                                                  uint32_t to);
/* Returns true if both rings are the same, regardless of the peer with which they begin. */
bool perf_ring_same(const uint32_t *ring, const uint32_t *other, uint32_t count);

/* Known figures of a ring's links. */
struct perf_ring_worth {
    uint32_t unknown;                         /* number of links without known figures */
    const struct pccl_topology_link *slowest; /* slowest known link; NULL if all are unknown */
    uint64_t latency_us;                      /* sum of the known round trips */
};
struct perf_ring_worth perf_ring_worth_of(const struct pccl_topology_report *report, const uint32_t *ring);

/*
 * Shows the peers, and the rates and round trips between all of them, or only along the ring if there are more than
 * PERF_MATRIX_MOST peers.
 */
enum { PERF_MATRIX_MOST = 64 };
void perf_report_show(FILE *out, const struct pccl_topology_report *report);
/* Shows a ring, for example "ring: 0 -> 2 -> 1 -> 0", and its figures. */
void perf_ring_show(FILE *out, const struct pccl_topology_report *report, const char *title, const uint32_t *ring);

/* Shows the promise of the report: rates of an all-reduce, the line that limits it, and trees. Nothing if unknown. */
void perf_promise_show(FILE *out, const struct pccl_topology_report *report);
/* Adds "all_reduce": {...}, or null if the promise is unknown. */
void perf_promise_json(struct pccl_json *json, const struct pccl_topology_report *report);

/* Adds "peers": [...]. */
void perf_report_json_peers(struct pccl_json *json, const struct pccl_topology_report *report);
/* Adds "ways": [...]. */
void perf_report_json_links(struct pccl_json *json, const struct pccl_topology_report *report);
/* Adds "ring": [...] and its figures. "slowest_mbit" is null if some of its links are unknown. */
void perf_ring_json(struct pccl_json *json, const struct pccl_topology_report *report, const uint32_t *ring);

#endif
