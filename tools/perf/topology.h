/*
 * --topology: the cost of pcclOptimizeTopology, its effect on an all-reduce, and the known figures of the links after
 * it. All peers do the same; one of them, the first of the spawned ones or any one of a cluster, reports for all.
 */
#ifndef PCCL_TOOLS_PERF_TOPOLOGY_H
#define PCCL_TOOLS_PERF_TOPOLOGY_H

#include "options.h"

/* Runs a master and peers on this machine. */
int perf_topology_run(const struct perf_options *options, int count, char **arguments);
/* Runs one of the peers, spawned or in a cluster. */
int perf_topology_peer(const struct perf_options *options);

/* One call, over all peers. */
struct perf_call {
    double before_s, after_s; /* time of one all-reduce, of the slowest peer */
    double optimize_s;        /* time of the slowest peer */
    double cpu_s, cpu_mean_s; /* CPU time of the peer that needed most; mean over all peers */
    double master_s;          /* the master's processor time; 0: unknown */
    double wrong;             /* wrong elements of all peers */
    double failed;            /* number of peers for which it failed */
};

/*
 * Report tables, the text, JSON and goals. `text`: from pcclGetTopology. The last returns false after a message, or if
 * goals are missed.
 */
void perf_topology_header(const struct perf_options *options);
void perf_topology_row(const struct perf_options *options, uint32_t number, const struct perf_call *call);
bool perf_topology_report(const struct perf_options *options, const struct perf_call *calls, uint32_t count,
                          const char *text);

#endif
