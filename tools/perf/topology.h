/*
 * --topology: measures the cost of pcclOptimizeTopology and its effect on an all-reduce, and shows the resulting
 * figures of the links. All peers do the same, and one of them reports for all: the first spawned peer, or any peer of
 * a cluster.
 */
#ifndef PCCL_TOOLS_PERF_TOPOLOGY_H
#define PCCL_TOOLS_PERF_TOPOLOGY_H

#include "options.h"

/* Runs a master and peers on this machine. */
int perf_topology_run(const struct perf_options *options, int count, char **arguments);
/* Runs as one of the peers, spawned or in a cluster. */
int perf_topology_peer(const struct perf_options *options);

/* Results of one call, over all peers. */
struct perf_call {
    double before_s, after_s; /* duration of an all-reduce at the slowest peer */
    double optimize_s;        /* duration at the slowest peer */
    double cpu_s, cpu_mean_s; /* maximum and mean CPU time over all peers */
    double master_s;          /* CPU time of the master; 0: unknown */
    double wrong;             /* number of wrong elements on all peers */
    double failed;            /* number of peers on which the call failed */
};

/*
 * Report tables, the text from pcclGetTopology, JSON and goals. perf_topology_report returns false after a message, or
 * if goals are missed.
 */
void perf_topology_header(const struct perf_options *options);
void perf_topology_row(const struct perf_options *options, uint32_t number, const struct perf_call *call);
bool perf_topology_report(const struct perf_options *options, const struct perf_call *calls, uint32_t count,
                          const char *text);

#endif
