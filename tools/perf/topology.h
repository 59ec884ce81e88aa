/*
 * --topology: what pcclOptimizeTopology takes, what it is worth to an all-reduce, and what is known
 * of the links then. All peers do the same; one of them, the first of those that were spawned or
 * any one of a cluster, says it for all.
 */
#ifndef PCCL_TOOLS_PERF_TOPOLOGY_H
#define PCCL_TOOLS_PERF_TOPOLOGY_H

#include "options.h"

/* A master and peers on this machine. */
int perf_topology_run(const struct perf_options *options, int count, char **arguments);
/* One of the peers, spawned or of a cluster. */
int perf_topology_peer(const struct perf_options *options);

/* One call, over all peers. */
struct perf_call {
    double before_s, after_s; /* of one all-reduce, the slowest peer */
    double optimize_s;        /* of the slowest peer */
    double cpu_s, cpu_mean_s; /* of the peer that needed most; of all of them, divided by how many they are */
    double master_s;          /* the master's processor time; 0: not known */
    double wrong;             /* elements, of all peers */
    double failed;            /* for how many peers */
};

/*
 * Tables, the text, JSON and goals; text: as pcclGetTopology has written it. false: words, or goals
 * that are missed.
 */
void perf_topology_header(const struct perf_options *options);
void perf_topology_row(const struct perf_options *options, uint32_t number, const struct perf_call *call);
bool perf_topology_report(const struct perf_options *options, const struct perf_call *calls, uint32_t count,
                          const char *text);

#endif
