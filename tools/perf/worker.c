#include "worker.h"

#include "system/telemetry.h"
#include "values.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { MESH_PEERS_MAX = 16 }; /* in larger groups, only operations that need all links open them */

double perf_now_s(void) { return 1e-9 * (double)uv_hrtime(); }

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double perf_median_s(double *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

int perf_worker_complain(const pcclComm_t *comm, const char *what, pcclResult_t result)
{
    (void)fprintf(stderr, "pccl-perf: %s: %s (%s)\n", what, pcclGetErrorString(result), pcclGetLastError(comm));
    return 1;
}

/* ---- joining the run ---- */

static pcclResult_t create(const struct perf_options *options, pcclComm_t **comm)
{
    pcclOptions_t *set = perf_library_options(options);
    if (!set)
        return pcclInvalidArgument;
    pcclResult_t result = pcclCreateCommunicatorWithOptions(options->master, set, comm);
    (void)pcclDestroyOptions(set);
    return result;
}

pcclResult_t perf_worker_await(pcclComm_t *comm, uint32_t peers)
{
    int world = 0;
    for (;;) {
        pcclResult_t result = pcclGetAttribute(comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &world);
        if (result != pcclSuccess || (uint32_t)world >= peers)
            return result;
        result = pcclUpdateTopology(comm);
        if (result != pcclSuccess)
            return result;
        process_sleep_s(2e-3);
    }
}

/*
 * Connects with retries, because the programs of a cluster, including the master, may be started in any order. Makes as
 * many attempts, over the same time, as the Python package.
 */
static pcclResult_t connect_patiently(pcclComm_t *comm)
{
    pcclResult_t result = pcclConnect(comm);
    for (int attempt = 1; attempt < 5 && result == pcclMasterConnectionFailed; attempt++) {
        process_sleep_s(1);
        result = pcclConnect(comm);
    }
    return result;
}

pcclComm_t *perf_worker_join(const struct perf_options *options)
{
    pcclComm_t *comm = NULL;
    const char *what = "cannot start";
    pcclResult_t result = pcclInit();
    if (result == pcclSuccess)
        result = create(options, &comm);
    if (result == pcclSuccess) {
        perf_sight_watch(comm);
        what = "cannot connect";
        result = connect_patiently(comm);
    }
    if (result == pcclSuccess) {
        what = "cannot wait for the other peers";
        result = perf_worker_await(comm, options->peers);
    }
    if (result == pcclSuccess)
        return comm;
    (void)perf_worker_complain(comm, what, result);
    if (comm)
        perf_worker_leave(comm);
    return NULL;
}

void perf_worker_leave(pcclComm_t *comm)
{
    perf_sight_end();
    (void)pcclDestroyCommunicator(comm);
}

/* ---- memory ---- */

/* Returns a value from /proc/self/status in bytes, or 0 if it is unknown. */
static uint64_t status_bytes(const char *name)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            (void)sscanf(line + strlen(name), ": %llu", &kib);
    if (file)
        (void)fclose(file);
    return (uint64_t)kib << 10;
}

/* Resets VmHWM, the peak resident size of this process. */
static bool forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    bool good = file && fputs("5", file) >= 0;
    return file && fclose(file) == 0 && good;
}

/* ---- one measurement ---- */

struct bench {
    const struct perf_options *options;
    pcclComm_t *comm;
    uint32_t rank;              /* 0 for an all-reduce, which has no ranks */
    struct perf_options values; /* index: source of this peer's values, its rank or else its number */
    char *input, *output;
    uint64_t resident_bytes; /* resident size with all buffers touched and the library unused; 0: unknown */
    pcclAsyncReduceOp_t *handles;
    pcclBlobs_t *blobs;        /* most recent result of each operation */
    pcclPart_t *parts;         /* parts for all peers, for the operation being launched */
    pcclOperationInfo_t *info; /* info of the last operation, for reductions only */
};

static pcclResult_t meet(const struct bench *bench)
{
    int64_t one = 1, all;
    pcclReduceDescriptor_t descriptor = {
        .count = 1, .op = pcclSum, .tag = UINT64_MAX, .src_descriptor = {.datatype = pcclInt64}};
    return pcclAllReduce(&one, &all, &descriptor, bench->comm, NULL);
}

static pcclResult_t transfer(const struct bench *bench, void *buffer, size_t count,
                             const pcclCollectiveOptions_t *options, pcclAsyncReduceOp_t *handle)
{
    pcclDataType_t datatype = bench->options->datatype;
    uint32_t other = bench->rank ^ 1;
    if (bench->rank < other)
        return handle ? pcclSendAsync(buffer, count, datatype, other, options, bench->comm, handle)
                      : pcclSend(buffer, count, datatype, other, options, bench->comm, NULL);
    return handle ? pcclRecvAsync(buffer, count, datatype, other, options, bench->comm, handle)
                  : pcclRecv(buffer, count, datatype, other, options, bench->comm, NULL);
}

/* Returns the size of the next tensor. Sizes grow exponentially, up to 256 times the smallest. */
static size_t tensor_share(uint32_t number, uint32_t tensors, size_t left)
{
    double all = 0;
    for (uint32_t i = number; i < tensors; i++)
        all += exp2(8.0 * i / (tensors - 1));
    size_t share = (size_t)((double)left * exp2(8.0 * number / (tensors - 1)) / all);
    return number + 1 == tensors || share > left ? left : share;
}

/* Lists one part for each peer, one after another in memory. */
static void list_parts(const struct bench *bench, const char *first, size_t bytes)
{
    for (uint32_t i = 0; i < bench->options->peers; i++)
        bench->parts[i] = (pcclPart_t){first + i * bytes, bytes};
}

/* Reduces the elements as several tensors, or as fewer than requested if there are not enough elements. */
static pcclResult_t reduce_together(const struct bench *bench, const char *input, char *output, size_t count,
                                    const pcclCollectiveOptions_t *more, pcclAsyncReduceOp_t *handle)
{
    const struct perf_options *options = bench->options;
    pcclCoalescedTensor_t tensors[PERF_TENSORS_MAX];
    uint32_t made = 0;
    size_t at = 0, bytes = perf_datatype_bytes(options->datatype);
    for (uint32_t i = 0; i < options->tensors; i++) {
        size_t share = tensor_share(i, options->tensors, count - at);
        if (share > 0)
            tensors[made++] = (pcclCoalescedTensor_t){input + at * bytes, output + at * bytes, share, options->datatype,
                                                      options->operation};
        at += share;
    }
    return handle ? pcclAllReduceCoalescedAsync(tensors, made, more, bench->comm, handle)
                  : pcclAllReduceCoalesced(tensors, made, more, bench->comm, bench->info);
}

/*
 * Performs an operation on `count` elements of each part, beginning with `first`. Waits for it if `handle` is NULL.
 * Concurrent operations use separate ranges of both buffers; the parts of an operation are adjacent.
 */
static pcclResult_t operate_on(const struct bench *bench, size_t first, size_t count, bool in_place, uint32_t tag,
                               pcclAsyncReduceOp_t *handle)
{
    const struct perf_options *options = bench->options;
    const pcclDataType_t datatype = options->datatype;
    size_t bytes = perf_datatype_bytes(datatype), parts = perf_parts(options);
    size_t whole = first * parts * bytes, own = whole + bench->rank * count * bytes;
    pcclComm_t *comm = bench->comm;
    char *output = bench->output;
    pcclCollectiveOptions_t more = PCCL_COLLECTIVE_OPTIONS_INIT;
    more.tag = tag;
    more.quantization = options->codec;
    more.factor = options->operation == pcclPremulSum && perf_reduces(options) ? PERF_FACTOR : 1;
    const char *input = in_place ? output : bench->input;
    const char *part = in_place ? output + own : bench->input + whole;
    char *share = in_place ? output + own : output + first * bytes;
    pcclBlobs_t *blobs = &bench->blobs[tag];
    if (perf_gives_blobs(options)) {
        more.max_bytes = UINT64_MAX;
        (void)pcclFreeBlobs(blobs);
    }
    switch (options->collective) {
    case PCCL_ALL_REDUCE:
        if (options->tensors > 1)
            return reduce_together(bench, input + whole, output + whole, count, &more, handle);
        return handle ? pcclAllReduceWithOptionsAsync(input + whole, output + whole, count, datatype,
                                                      options->operation, &more, comm, handle)
                      : pcclAllReduceWithOptions(input + whole, output + whole, count, datatype, options->operation,
                                                 &more, comm, bench->info);
    case PCCL_BROADCAST:
        return handle ? pcclBroadcastAsync(output + whole, count, datatype, 0, &more, comm, handle)
                      : pcclBroadcast(output + whole, count, datatype, 0, &more, comm, NULL);
    case PCCL_ALL_GATHER:
        return handle ? pcclAllGatherAsync(part, output + whole, count, datatype, &more, comm, handle)
                      : pcclAllGather(part, output + whole, count, datatype, &more, comm, NULL);
    case PCCL_ALL_GATHER_V:
        return handle ? pcclAllGatherVAsync(part, count * bytes, &more, comm, blobs, handle)
                      : pcclAllGatherV(part, count * bytes, &more, comm, blobs, NULL);
    case PCCL_GATHER_V:
        return handle ? pcclGatherVAsync(part, count * bytes, 0, &more, comm, blobs, handle)
                      : pcclGatherV(part, count * bytes, 0, &more, comm, blobs, NULL);
    case PCCL_SCATTER_V:
        list_parts(bench, input + whole, count * bytes);
        return handle ? pcclScatterVAsync(bench->parts, options->peers, 0, &more, comm, blobs, handle)
                      : pcclScatterV(bench->parts, options->peers, 0, &more, comm, blobs, NULL);
    case PCCL_ALL_TO_ALL_V:
        list_parts(bench, input + whole, count * bytes);
        return handle ? pcclAllToAllVAsync(bench->parts, options->peers, &more, comm, blobs, handle)
                      : pcclAllToAllV(bench->parts, options->peers, &more, comm, blobs, NULL);
    case PCCL_REDUCE_SCATTER:
        return handle ? pcclReduceScatterAsync(input + whole, share, count, datatype, options->operation, &more, comm,
                                               handle)
                      : pcclReduceScatter(input + whole, share, count, datatype, options->operation, &more, comm,
                                          bench->info);
    case PCCL_REDUCE:
        return handle ? pcclReduceAsync(input + whole, output + whole, count, datatype, options->operation, 0, &more,
                                        comm, handle)
                      : pcclReduce(input + whole, output + whole, count, datatype, options->operation, 0, &more, comm,
                                   NULL);
    case PCCL_EXCLUSIVE_SCAN:
        return handle ? pcclExclusiveScanAsync(input + whole, output + whole, count, datatype, options->operation,
                                               &more, comm, handle)
                      : pcclExclusiveScan(input + whole, output + whole, count, datatype, options->operation, &more,
                                          comm, NULL);
    case PCCL_INCLUSIVE_SCAN:
        return handle ? pcclInclusiveScanAsync(input + whole, output + whole, count, datatype, options->operation,
                                               &more, comm, handle)
                      : pcclInclusiveScan(input + whole, output + whole, count, datatype, options->operation, &more,
                                          comm, NULL);
    case PCCL_GATHER:
        return handle ? pcclGatherAsync(part, output + whole, count, datatype, 0, &more, comm, handle)
                      : pcclGather(part, output + whole, count, datatype, 0, &more, comm, NULL);
    case PCCL_SCATTER:
        return handle ? pcclScatterAsync(input + whole, share, count, datatype, 0, &more, comm, handle)
                      : pcclScatter(input + whole, share, count, datatype, 0, &more, comm, NULL);
    case PCCL_ALL_TO_ALL:
        return handle ? pcclAllToAllAsync(input + whole, output + whole, count, datatype, &more, comm, handle)
                      : pcclAllToAll(input + whole, output + whole, count, datatype, &more, comm, NULL);
    case PCCL_SEND: return transfer(bench, output + whole, count, &more, handle);
    case PCCL_BARRIER:
    default: break;
    }
    return handle ? pcclBarrierAsync(&more, comm, handle) : pcclBarrier(&more, comm, NULL);
}

/* Returns the number of elements in each part for operation `number`. The operations divide the elements equally. */
static size_t share_of(const struct bench *bench, size_t count, uint32_t number)
{
    uint32_t operations = bench->options->concurrent;
    return count / operations + (number < count % operations);
}

/* Performs the concurrent operations on the elements. */
static pcclResult_t operate(const struct bench *bench, size_t count, bool in_place)
{
    uint32_t operations = bench->options->concurrent;
    if (operations == 1)
        return operate_on(bench, 0, count, in_place, 0, NULL);
    pcclResult_t result = pcclSuccess;
    uint32_t launched = 0;
    size_t first = 0;
    for (uint32_t i = 0; i < operations && result == pcclSuccess; i++) {
        size_t some = share_of(bench, count, i);
        if (some == 0)
            break;
        result = operate_on(bench, first, some, in_place, i, &bench->handles[i]);
        launched += result == pcclSuccess;
        first += some;
    }
    for (uint32_t i = 0; i < launched; i++) {
        pcclResult_t awaited = pcclAwaitOperation(&bench->handles[i], UINT32_MAX, bench->info);
        result = result == pcclSuccess ? awaited : result;
    }
    return result;
}

uint32_t perf_iterations(const struct perf_options *options, size_t bytes)
{
    uint64_t fit = (UINT64_C(1) << 31) / bytes;
    uint64_t most = fit < 5 ? 5 : fit;
    return options->iterations < most ? options->iterations : (uint32_t)most;
}

/* Returns the index that determines the values that `giver` sends to this rank, different if ranks get parts. */
static uint32_t values_for(const struct bench *bench, uint32_t giver, uint32_t rank)
{
    const struct pccl_collective_row *row = perf_row(bench->options);
    bool differ = !row->reduces && row->input.amount == PCCL_PART_FOR_EACH;
    return giver + (differ ? 3 * rank : 0);
}

/* Fills in this peer's input for one operation. The values start over in each part. */
static void fill(const struct bench *bench, char *buffer, size_t first, size_t count)
{
    size_t bytes = perf_datatype_bytes(bench->options->datatype);
    uint32_t parts = perf_parts(bench->options);
    struct perf_options values = bench->values;
    for (uint32_t part = 0; part < parts; part++) {
        values.index = values_for(bench, bench->values.index, part);
        perf_values_fill(buffer + (first * parts + part * count) * bytes, count, &values);
    }
}

/* Returns the number of wrong elements in the blobs of this operation. */
static uint64_t wrong_blobs(const struct bench *bench, uint32_t number, size_t count)
{
    const pcclBlobs_t *blobs = &bench->blobs[number];
    struct perf_options giver = bench->values;
    const struct pccl_collective_row *row = perf_row(bench->options);
    uint32_t givers = pccl_parts_of(&row->result, bench->options->peers, bench->rank == 0); /* rank 0 is the root */
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < givers; i++) {
        bool there = i < blobs->count && blobs->blobs[i].length == count * perf_datatype_bytes(giver.datatype);
        giver.index = values_for(bench, i, bench->rank);
        wrong += there ? perf_values_differ(blobs->blobs[i].data, count, &giver) : count;
    }
    return wrong;
}

/* Returns the number of elements that differ from the reduction over the first `peers` peers. */
static uint64_t wrong_in_scan(const struct bench *bench, const char *result, size_t count, uint32_t peers)
{
    struct perf_options values = bench->values;
    const size_t bytes = perf_datatype_bytes(values.datatype);
    char identity[sizeof(uint64_t)];
    uint64_t wrong = 0;
    values.peers = peers;
    if (peers > 0)
        return perf_values_wrong(result, count, &values);
    pccl_fill_identity((enum pccl_datatype)values.datatype, (enum pccl_reduce_op)values.operation, 1, identity);
    for (size_t i = 0; i < count; i++)
        wrong += memcmp(result + i * bytes, identity, bytes) != 0;
    return wrong;
}

static uint64_t wrong_in(const struct bench *bench, uint32_t number, size_t first, size_t count, bool in_place)
{
    const struct perf_options *options = bench->options;
    size_t bytes = perf_datatype_bytes(options->datatype);
    uint32_t parts = perf_parts(options), first_giver = 0, givers = parts;
    const char *whole = bench->output + first * parts * bytes;
    const char *share = in_place ? whole + bench->rank * count * bytes : bench->output + first * bytes;
    struct perf_options giver = bench->values;
    uint64_t wrong = 0;
    if (perf_gives_blobs(options))
        return wrong_blobs(bench, number, count);
    switch (options->collective) {
    case PCCL_BARRIER: return 0;
    case PCCL_ALL_REDUCE: return perf_values_wrong(whole, count, options);
    case PCCL_REDUCE_SCATTER: return perf_values_wrong(share, count, &bench->values);
    case PCCL_REDUCE: return bench->rank == 0 ? perf_values_wrong(whole, count, &bench->values) : 0;
    case PCCL_EXCLUSIVE_SCAN: return wrong_in_scan(bench, whole, count, bench->rank);
    case PCCL_INCLUSIVE_SCAN: return wrong_in_scan(bench, whole, count, bench->rank + 1);
    case PCCL_GATHER: givers = bench->rank == 0 ? parts : 0; break;
    case PCCL_SCATTER:
        whole = share;
        givers = 1;
        break;
    case PCCL_SEND: first_giver = bench->rank & ~UINT32_C(1); break;
    case PCCL_BROADCAST:
    case PCCL_ALL_GATHER:
    case PCCL_ALL_TO_ALL:
    default: break;
    }
    for (uint32_t i = 0; i < givers; i++) { /* the first peer is also the root */
        giver.index = values_for(bench, first_giver + i, bench->rank);
        wrong += perf_values_differ(whole + i * count * bytes, count, &giver);
    }
    return wrong;
}

static pcclResult_t check(const struct bench *bench, size_t count, bool in_place, uint64_t *wrong)
{
    size_t bytes = perf_parts(bench->options) * count * perf_datatype_bytes(bench->options->datatype);
    if (!bench->options->check)
        return pcclSuccess;
    memset(bench->output, 0xa5, bytes);
    size_t first = 0;
    for (uint32_t i = 0; i < bench->options->concurrent; first += share_of(bench, count, i++))
        fill(bench, in_place ? bench->output : bench->input, first, share_of(bench, count, i));
    pcclResult_t result = operate(bench, count, in_place);
    *wrong = first = 0;
    for (uint32_t i = 0; i < bench->options->concurrent; first += share_of(bench, count, i++))
        *wrong += result == pcclSuccess ? wrong_in(bench, i, first, share_of(bench, count, i), in_place) : 0;
    return result;
}

/* Measures the same number of operations without the codec, and adds their duration to *seconds. */
static pcclResult_t measure_exact(const struct bench *bench, size_t count, bool in_place, uint32_t iterations,
                                  double *seconds)
{
    struct perf_options options = *bench->options;
    struct bench exact = *bench;
    if (!options.exact || options.codec.algorithm == pcclQuantNone)
        return pcclSuccess;
    options.codec.algorithm = pcclQuantNone;
    exact.options = &options;
    pcclResult_t result = operate(&exact, count, in_place);
    if (result == pcclSuccess)
        result = meet(bench);
    double start = perf_now_s();
    for (uint32_t i = 0; i < iterations && result == pcclSuccess; i++)
        result = operate(&exact, count, in_place);
    *seconds += perf_now_s() - start;
    return result;
}

/* Measures the codec's error on this peer's input. */
static pcclResult_t measure_error(const struct bench *bench, size_t count, struct perf_worker_report *report)
{
    pcclCodecError_t error = PCCL_CODEC_ERROR_INIT;
    if (bench->options->codec.algorithm == pcclQuantNone || bench->options->codec.algorithm == pcclQuantAuto)
        return pcclSuccess;
    pcclResult_t result =
        pcclMeasureCodec(&bench->options->codec, bench->input, count, bench->options->datatype, &error);
    report->error_largest = error.largest;
    report->error_rms = error.rms;
    return result;
}

static pcclResult_t measure(const struct bench *bench, size_t count, bool in_place, struct perf_worker_report *report,
                            double *times)
{
    pcclResult_t result = measure_error(bench, count, report);
    bool is_clear = forget_peak();
    if (result == pcclSuccess)
        result = check(bench, count, in_place, &report->wrong);
    for (uint32_t i = 0; i < bench->options->warm_up && result == pcclSuccess; i++)
        result = operate(bench, count, in_place);
    if (result == pcclSuccess && bench->options->warm_up > 0 && bench->options->peers > MESH_PEERS_MAX)
        result = pcclUpdateTopology(bench->comm); /* from then on, operations use the requested links */
    uint32_t before_it = report->iterations / 2;
    if (result == pcclSuccess)
        result = measure_exact(bench, count, in_place, before_it, &report->exact_s);
    if (result == pcclSuccess)
        result = meet(bench);
    long master = bench->options->index == 0 ? bench->options->master_process : 0;
    double cpu = process_cpu_s(), master_cpu = process_cpu_of_s(master), start = perf_now_s(), before = start;
    for (uint32_t i = 0; i < report->iterations && result == pcclSuccess; i++) {
        result = operate(bench, count, in_place);
        double now = perf_now_s();
        times[i] = now - before;
        before = now;
    }
    report->total_s = before - start;
    report->cpu_s = process_cpu_s() - cpu;
    report->master_s = process_cpu_of_s(master) - master_cpu;
    uint64_t peak_bytes = status_bytes("VmHWM");
    if (is_clear && bench->resident_bytes > 0 && peak_bytes > bench->resident_bytes)
        report->memory_bytes = peak_bytes - bench->resident_bytes;
    if (result == pcclSuccess)
        result = measure_exact(bench, count, in_place, report->iterations - before_it, &report->exact_s);
    return result;
}

/* Waits for the launcher, which measures the limit between rows. Returns false if it has died. */
static bool may_go(const struct perf_options *options)
{
    char byte;
    return options->go_descriptor < 0 || process_read_all(options->go_descriptor, &byte, 1);
}

static pcclResult_t measure_size(const struct bench *bench, size_t bytes, bool in_place, perf_sink sink, void *context)
{
    size_t element = perf_datatype_bytes(bench->options->datatype) * perf_parts(bench->options);
    size_t count = bytes < element ? 1 : bytes / element; /* number of elements in each part */
    struct perf_worker_report report = {.bytes = bench->options->collective == PCCL_BARRIER ? 0 : count * element,
                                        .iterations = perf_iterations(bench->options, bytes),
                                        .in_place = in_place};
    double *times = calloc(report.iterations, sizeof *times);
    if (!times)
        return pcclOutOfMemory;
    if (!may_go(bench->options))
        _Exit(1); /* the launcher has died */
    pcclResult_t result = measure(bench, count, in_place, &report, times);
    report.chosen = bench->info->codec;
    memcpy(report.why, bench->info->why, sizeof report.why);
    if (result == pcclSuccess)
        sink(context, &report, times);
    else
        free(times);
    return result;
}

static pcclResult_t measure_all(const struct bench *bench, perf_sink sink, void *context)
{
    const struct perf_options *options = bench->options;
    pcclResult_t result = pcclSuccess;
    for (size_t bytes = options->min_bytes; bytes && result == pcclSuccess; bytes = perf_next_size(options, bytes)) {
        if (options->out_of_place)
            result = measure_size(bench, bytes, false, sink, context);
        if (options->in_place && result == pcclSuccess)
            result = measure_size(bench, bytes, true, sink, context);
    }
    return result;
}

/* Determines this peer's rank, which is the same in all measurements. */
static pcclResult_t find_rank(struct bench *bench)
{
    size_t count;
    if (bench->options->collective == PCCL_ALL_REDUCE)
        return pcclSuccess;
    pcclResult_t result = pcclGetMembers(bench->comm, NULL, 0, &count, &bench->rank);
    bench->values.index = bench->rank;
    bench->values.alike = false;
    return result;
}

int perf_worker_run(const struct perf_options *options, perf_sink sink, void *context)
{
    size_t bytes = options->max_bytes + perf_parts(options) * perf_datatype_bytes(options->datatype);
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    struct bench bench = {.options = options,
                          .info = &info,
                          .values = *options,
                          .input = malloc(bytes),
                          .output = malloc(bytes),
                          .handles = calloc(options->concurrent, sizeof *bench.handles),
                          .blobs = calloc(options->concurrent, sizeof *bench.blobs),
                          .parts = calloc(options->peers, sizeof *bench.parts)};
    int code = 1;
    if (!bench.input || !bench.output || !bench.handles || !bench.blobs || !bench.parts) {
        (void)fprintf(stderr, "pccl-perf: out of memory for two buffers of %zu bytes\n", bytes);
        goto out;
    }
    for (uint32_t i = 0; i < options->concurrent; i++)
        bench.blobs[i] = (pcclBlobs_t)PCCL_BLOBS_INIT;
    perf_values_fill(bench.input, bytes / perf_datatype_bytes(options->datatype), options);
    memset(bench.output, 1, bytes); /* touches the pages, which would otherwise be counted as the library's memory */
    bench.resident_bytes = status_bytes("VmRSS");
    bench.comm = perf_worker_join(options);
    if (!bench.comm)
        goto out;
    pcclResult_t result = find_rank(&bench);
    if (result == pcclSuccess)
        result = measure_all(&bench, sink, context);
    if (result == pcclSuccess)
        result = meet(&bench); /* waits for all peers, because leaving early would change the ranks of the others */
    code = result == pcclSuccess ? 0 : perf_worker_complain(bench.comm, "an operation failed", result);
    for (uint32_t i = 0; i < options->concurrent; i++)
        (void)pcclFreeBlobs(&bench.blobs[i]);
    perf_worker_leave(bench.comm);
out:
    free(bench.blobs);
    free(bench.parts);
    free(bench.handles);
    free(bench.output);
    free(bench.input);
    return code;
}

static void send_report(void *context, const struct perf_worker_report *report, double *times)
{
    const struct perf_options *options = context;
    if (!process_write_all(options->result_descriptor, report, sizeof *report) ||
        !process_write_all(options->result_descriptor, times, report->iterations * sizeof *times))
        _Exit(1); /* the launcher has died */
    free(times);
}

int perf_worker_main(const struct perf_options *options)
{
    return perf_worker_run(options, send_report, (void *)(uintptr_t)options);
}
