/*
 * pccl-perf: measures speed, cost and robustness of collectives, shared state and topology optimization, on this
 * machine or in a cluster.
 */
#include "chaos.h"
#include "commands.h"
#include "local.h"
#include "options.h"
#include "system/telemetry.h"
#include "system/signals.h"
#include "solve.h"
#include "spawn.h"
#include "state.h"
#include "topology.h"
#include "worker.h"

int perf_main(int count, char **arguments)
{
    struct perf_options options;
    bool answered;
    if (!perf_options_read(count, arguments, &options, &answered))
        return 2;
    if (answered)
        return 0;
    perf_sight_prepare();
    signals_ignore_broken_pipes(); /* the launcher detects a worker's death at its pipe */
    if (options.solve)
        return perf_solve_run(&options);
    switch (options.mode) {
    case PERF_LOCAL:
        if (options.state)
            return perf_state_run(&options, count, arguments);
        if (options.topology)
            return perf_topology_run(&options, count, arguments);
        return options.chaos != PERF_NO_CHAOS ? perf_chaos_run(&options, count, arguments)
                                              : perf_local_run(&options, count, arguments);
    case PERF_PEER: return options.topology ? perf_topology_peer(&options) : perf_peer_run(&options);
    case PERF_LIMIT: return perf_limit_run(&options);
    case PERF_WORKER:
        if (options.state)
            return perf_state_worker(&options);
        if (options.topology)
            return perf_topology_peer(&options);
        return options.chaos != PERF_NO_CHAOS ? perf_chaos_worker(&options) : perf_worker_main(&options);
    case PERF_MASTER: return perf_master_main(&options);
    }
    return 2;
}
