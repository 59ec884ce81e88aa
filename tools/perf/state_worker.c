#include "state.h"

#include "os/cpu.h"
#include "kernels/kernels.h"
#include "net/heap.h"
#include "sync/digests.h"
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 4 }; /* number of tensors into which the bytes are divided */

struct holder {
    const struct perf_options *options;
    pcclComm_t *comm;
    uint8_t *content;
};

/* ---- content ---- */

static uint64_t word_of(uint64_t seed, uint64_t index)
{
    uint64_t word = (index + 1) * UINT64_C(0x9E3779B97F4A7C15) + seed * UINT64_C(0xBF58476D1CE4E5B9);
    return word ^ word >> 29;
}

static void fill(const struct holder *holder, uint64_t seed, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = word_of(seed, at / sizeof word);
        memcpy(holder->content + at, &word, bytes - at < sizeof word ? bytes - at : sizeof word);
    }
}

static uint64_t count_wrong(const struct holder *holder, uint64_t seed, size_t bytes)
{
    uint64_t wrong = 0;
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = word_of(seed, at / sizeof word);
        wrong += memcmp(holder->content + at, &word, bytes - at < sizeof word ? bytes - at : sizeof word) != 0;
    }
    return wrong;
}

/* Changes one byte in each of `chunks` chunks, evenly distributed over the content. */
static void spoil(const struct holder *holder, uint64_t chunks, size_t bytes)
{
    for (uint64_t i = 0; i < chunks; i++)
        holder->content[(size_t)(i * (bytes / chunks))] ^= 0x55;
}

/* ---- the state in two forms: for the public functions, and for computing digests ---- */

static const char *const names[TENSORS] = {"first", "second", "third", "fourth"};

static size_t tensor_begin(size_t bytes, int index) { return bytes / TENSORS * (size_t)index; }

static size_t tensor_bytes(size_t bytes, int index)
{
    return index + 1 < TENSORS ? bytes / TENSORS : bytes - tensor_begin(bytes, index);
}

/* Returns false if out of memory. */
static bool digest(const struct holder *holder, size_t bytes)
{
    struct pccl_sync_tensor tensors[TENSORS];
    struct pccl_tensor shapes[TENSORS];
    struct pccl_state state;
    struct pccl_text words = {0};
    for (int i = 0; i < TENSORS; i++) {
        size_t own = tensor_bytes(bytes, i);
        tensors[i] = (struct pccl_sync_tensor){.name = names[i],
                                               .data = holder->content + tensor_begin(bytes, i),
                                               .count = own,
                                               .bytes = own,
                                               .datatype = pcclUint8};
        shapes[i] = (struct pccl_tensor){.name = names[i], .count = own, .bytes = own, .datatype = pcclUint8};
    }
    if (pccl_state_init(&state, pccl_kernels_for(pccl_cpu_features()), pccl_heap(), shapes, TENSORS) != PCCL_OK)
        return false;
    bool good = pccl_sync_digest(&state, tensors, 0, &words) == PCCL_OK;
    if (good)
        pccl_state_seal(&state);
    pccl_state_fini(&state);
    return good;
}

static pcclResult_t synchronize(const struct holder *holder, const struct perf_state_request *request,
                                struct perf_state_report *report)
{
    pcclTensorInfo_t infos[TENSORS];
    pcclSharedStateSyncInfo_t moved = {0};
    size_t bytes = (size_t)request->bytes;
    for (int i = 0; i < TENSORS; i++)
        infos[i] = (pcclTensorInfo_t){.name = names[i],
                                      .data = holder->content + tensor_begin(bytes, i),
                                      .count = tensor_bytes(bytes, i),
                                      .datatype = pcclUint8};
    pcclSharedState_t state = {.revision = request->argument, .count = TENSORS, .infos = infos};
    pcclResult_t result =
        pcclSynchronizeSharedState(holder->comm, &state, PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR, &moved);
    report->sent = moved.tx_bytes;
    report->received = moved.rx_bytes;
    return result;
}

/* ---- orders ---- */

/* Updates the topology at least once, which also removes dead members. */
static pcclResult_t admit(const struct holder *holder)
{
    pcclResult_t result = pcclUpdateTopology(holder->comm);
    return result == pcclSuccess ? perf_worker_await(holder->comm, holder->options->peers) : result;
}

static struct perf_state_report obey(const struct holder *holder, const struct perf_state_request *request)
{
    size_t bytes = (size_t)request->bytes;
    pcclResult_t result = pcclSuccess;
    struct perf_state_report report = {.start_s = perf_now_s()};
    switch ((enum perf_state_order)request->order) {
    case PERF_STATE_NOTHING: break;
    case PERF_STATE_FILL: fill(holder, request->argument, bytes); break;
    case PERF_STATE_SPOIL: spoil(holder, request->argument, bytes); break;
    case PERF_STATE_DIGEST: result = digest(holder, bytes) ? pcclSuccess : pcclOutOfMemory; break;
    case PERF_STATE_SYNC: result = synchronize(holder, request, &report); break;
    case PERF_STATE_CHECK: report.wrong = count_wrong(holder, request->argument, bytes); break;
    case PERF_STATE_ADMIT: result = admit(holder); break;
    }
    report.end_s = perf_now_s();
    report.result = (int32_t)result;
    if (result != pcclSuccess)
        (void)fprintf(stderr, "pccl-perf: peer %u: %s (%s)\n", holder->options->index, pcclGetErrorString(result),
                      pcclGetLastError(holder->comm));
    return report;
}

int perf_state_worker(const struct perf_options *options)
{
    struct holder holder = {.options = options, .content = malloc(options->max_bytes)};
    struct perf_state_request request;
    if (!holder.content) {
        (void)fprintf(stderr, "pccl-perf: out of memory for %zu bytes\n", options->max_bytes);
        return 1;
    }
    fill(&holder, 0, options->max_bytes);
    holder.comm = perf_worker_join(options);
    bool good = holder.comm != NULL;
    while (good && process_read_all(options->go_descriptor, &request, sizeof request)) {
        struct perf_state_report report = obey(&holder, &request);
        good = process_write_all(options->result_descriptor, &report, sizeof report);
    }
    if (holder.comm)
        perf_worker_leave(holder.comm);
    free(holder.content);
    return good ? 0 : 1;
}
