#include "topology.h"

#include "topology_report.h"
#include "values.h"
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    REDUCTIONS = 5,  /* number of timed reductions before and after each call */
    COMBINE_TAG = 1, /* tag for combining the results of the peers */
};

struct peer {
    const struct perf_options *options;
    pcclComm_t *comm;
    size_t count; /* number of elements in the reductions */
    void *input, *output;
    bool speaks; /* true if this peer reports for all */
};

/* ---- combining results of the peers ---- */

static pcclResult_t combine(const struct peer *peer, double *values, size_t count, pcclRedOp_t operation)
{
    pcclReduceDescriptor_t descriptor = {
        .count = count, .op = operation, .tag = COMBINE_TAG, .src_descriptor = {.datatype = pcclDouble}};
    return pcclAllReduce(values, values, &descriptor, peer->comm, NULL);
}

static pcclResult_t meet(const struct peer *peer)
{
    double nothing = 0;
    return combine(peer, &nothing, 1, pcclSum);
}

/*
 * Selects the peer that reports. Peers of a cluster have no numbers, so each draws a random one, and the highest wins.
 */
static pcclResult_t choose_speaker(struct peer *peer)
{
    uint64_t own = UINT64_MAX - peer->options->index, highest;
    if (peer->options->mode == PERF_PEER && uv_random(NULL, NULL, &own, sizeof own, 0, NULL) != 0)
        return pcclInternalError;
    pcclReduceDescriptor_t descriptor = {
        .count = 1, .op = pcclMax, .tag = COMBINE_TAG, .src_descriptor = {.datatype = pcclUint64}};
    pcclResult_t result = pcclAllReduce(&own, &highest, &descriptor, peer->comm, NULL);
    peer->speaks = result == pcclSuccess && own == highest;
    return result;
}

/* ---- one call ---- */

static pcclResult_t reduce(const struct peer *peer)
{
    pcclReduceDescriptor_t descriptor = {.count = peer->count,
                                         .op = peer->options->operation,
                                         .src_descriptor = {.datatype = peer->options->datatype},
                                         .quantization_options = peer->options->codec};
    return pcclAllReduce(peer->input, peer->output, &descriptor, peer->comm, NULL);
}

static pcclResult_t time_reductions(const struct peer *peer, double *seconds, double *wrong)
{
    const struct perf_options *options = peer->options;
    memset(peer->output, 0xa5, peer->count * perf_datatype_bytes(options->datatype));
    pcclResult_t result = reduce(peer);
    if (result == pcclSuccess && options->check)
        *wrong += (double)perf_values_wrong(peer->output, peer->count, options);
    for (uint32_t i = 0; i < options->warm_up && result == pcclSuccess; i++)
        result = reduce(peer);
    if (result == pcclSuccess)
        result = meet(peer);
    double begin_s = perf_now_s();
    for (uint32_t i = 0; i < REDUCTIONS && result == pcclSuccess; i++)
        result = reduce(peer);
    *seconds = (perf_now_s() - begin_s) / (int)REDUCTIONS;
    return result;
}

/*
 * Optimizes the topology. If a failure leaves the group unchanged, only records it, because the known figures of the
 * links can still be shown.
 */
static pcclResult_t optimize(const struct peer *peer, struct perf_call *call)
{
    int world;
    long master = peer->speaks ? peer->options->master_process : 0;
    double cpu_s = process_cpu_s(), master_s = process_cpu_of_s(master), begin_s = perf_now_s();
    pcclResult_t result = pcclOptimizeTopology(peer->comm);
    call->optimize_s = perf_now_s() - begin_s;
    call->cpu_s = call->cpu_mean_s = process_cpu_s() - cpu_s;
    call->master_s = process_cpu_of_s(master) - master_s;
    if (result != pcclTopologyOptimizationFailed)
        return result;
    if (peer->speaks)
        (void)perf_worker_complain(peer->comm, "the optimization failed", result);
    call->failed = 1;
    return pcclGetAttribute(peer->comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &world);
}

/* Combines the figures of all peers. */
static pcclResult_t share(const struct peer *peer, struct perf_call *call)
{
    double most[] = {call->before_s, call->optimize_s, call->after_s, call->cpu_s};
    double sums[] = {call->cpu_mean_s / peer->options->peers, call->master_s, call->wrong, call->failed};
    pcclResult_t result = combine(peer, most, sizeof most / sizeof *most, pcclMax);
    if (result == pcclSuccess)
        result = combine(peer, sums, sizeof sums / sizeof *sums, pcclSum);
    *call = (struct perf_call){.before_s = most[0],
                               .optimize_s = most[1],
                               .after_s = most[2],
                               .cpu_s = most[3],
                               .cpu_mean_s = sums[0],
                               .master_s = sums[1],
                               .wrong = sums[2],
                               .failed = sums[3]};
    return result;
}

static int make_call(const struct peer *peer, struct perf_call *call)
{
    const char *what = "a reduction failed";
    pcclResult_t result = time_reductions(peer, &call->before_s, &call->wrong);
    if (result == pcclSuccess) {
        what = "the optimization failed";
        result = optimize(peer, call);
    }
    if (result == pcclSuccess) {
        what = "a reduction after the optimization failed";
        result = time_reductions(peer, &call->after_s, &call->wrong);
    }
    if (result == pcclSuccess)
        result = share(peer, call);
    return result == pcclSuccess ? 0 : perf_worker_complain(peer->comm, what, result);
}

/* ---- all calls ---- */

/* Returns false after a message. */
static bool make_calls(struct peer *peer, struct perf_call *calls)
{
    const struct perf_options *options = peer->options;
    pcclResult_t result = choose_speaker(peer);
    if (result != pcclSuccess)
        return perf_worker_complain(peer->comm, "a reduction failed", result) == 0;
    if (peer->speaks)
        perf_topology_header(options);
    for (uint32_t i = 0; i < options->iterations; i++) {
        if (make_call(peer, &calls[i]) != 0)
            return false;
        if (peer->speaks)
            perf_topology_row(options, i + 1, &calls[i]);
    }
    return true;
}

static bool is_good(const struct peer *peer, const struct perf_call *calls)
{
    double wrong = 0, failed = 0;
    for (uint32_t i = 0; i < peer->options->iterations; i++) {
        wrong += calls[i].wrong;
        failed += calls[i].failed;
    }
    if (wrong > 0 && peer->speaks)
        (void)fprintf(stderr, "pccl-perf: %.0f elements are wrong\n", wrong);
    return wrong <= 0 && failed <= 0;
}

/* Returns the exit code. The other peers wait until the peer that reports has obtained all its figures. */
static int run(struct peer *peer, struct perf_call *calls)
{
    char *text = NULL;
    if (!make_calls(peer, calls))
        return 1;
    pcclResult_t result = peer->speaks ? perf_report_fetch(peer->comm, &text) : pcclSuccess;
    if (result != pcclSuccess)
        (void)perf_worker_complain(peer->comm, "cannot get the topology", result);
    bool good = is_good(peer, calls);
    result = meet(peer);
    if (result != pcclSuccess)
        good = perf_worker_complain(peer->comm, "a reduction failed", result) == 0;
    if (peer->speaks)
        good = text && perf_topology_report(peer->options, calls, peer->options->iterations, text) && good;
    free(text);
    return good ? 0 : 1;
}

int perf_topology_peer(const struct perf_options *options)
{
    size_t element = perf_datatype_bytes(options->datatype);
    struct peer peer = {.options = options, .count = options->max_bytes < element ? 1 : options->max_bytes / element};
    struct perf_call *calls = calloc(options->iterations, sizeof *calls);
    int code = 1;
    peer.input = malloc(peer.count * element);
    peer.output = malloc(peer.count * element);
    if (!calls || !peer.input || !peer.output) {
        (void)fprintf(stderr, "pccl-perf: out of memory for two buffers of %zu bytes\n", peer.count * element);
        goto out;
    }
    perf_values_fill(peer.input, peer.count, options);
    peer.comm = perf_worker_join(options);
    if (!peer.comm)
        goto out;
    code = run(&peer, calls);
    perf_worker_leave(peer.comm);
    if (options->result_descriptor >= 0 && !process_write_all(options->result_descriptor, "", 1))
        code = 1; /* the launcher has died */
out:
    free(calls);
    free(peer.output);
    free(peer.input);
    return code;
}
