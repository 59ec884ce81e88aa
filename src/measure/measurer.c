/* Creation and end of a measurer, and its inbox for orders. */
#include "core/prng.h"
#include "measure/internal.h"

#include <string.h>

void pccl_measurer_order(struct pccl_worker *worker, const struct pccl_measure_order *order)
{
    struct pccl_measurer *measurer = pccl_measurer_of(worker);
    PCCL_ASSERT(order->candidate_count <= PCCL_CANDIDATES_MAX);
    uv_mutex_lock(&worker->lock);
    measurer->ordered = true;
    measurer->order = *order;
    pccl_worker_post(worker);
}

static void on_woken(struct pccl_worker *worker)
{
    struct pccl_measurer *measurer = pccl_measurer_of(worker);
    uv_mutex_lock(&worker->lock);
    bool ordered = measurer->ordered;
    struct pccl_measure_order order = measurer->order;
    measurer->ordered = false;
    uv_mutex_unlock(&worker->lock);
    if (ordered && !worker->ended)
        pccl_measure_test_begin(measurer, &order);
}

static void on_ticked(struct pccl_worker *worker) { pccl_measure_test_tick(pccl_measurer_of(worker)); }

static void release(struct pccl_worker *worker) { pccl_measure_test_stop(pccl_measurer_of(worker)); }

static const struct pccl_worker_kind kind = {.bytes = sizeof(struct pccl_measurer),
                                             .link = PCCL_LINK_MEASURE,
                                             .accepts = &pccl_measure_answering,
                                             .accepts_max = PCCL_POOL_MAX,
                                             .woken = on_woken,
                                             .ticked = on_ticked,
                                             .release = release};

/* Creates a complete frame of load. It is incompressible, in case the path compresses. */
static void make_flood(struct pccl_measurer *measurer)
{
    uint8_t *filler = measurer->worker.sink; /* unused, because nothing has arrived yet */
    struct pccl_msg msg = {.type = PCCL_MSG_flood,
                           .as.flood = {.filler = {.data = filler, .length = PCCL_FLOOD_BYTES_MAX}}};
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 1);
    for (size_t i = 0; i < PCCL_FLOOD_BYTES_MAX; i += 8) {
        uint64_t word = pccl_prng_u64(&prng);
        memcpy(filler + i, &word, sizeof word);
    }
    PCCL_ASSERT(pccl_frame_size(&msg) == PCCL_MEASURE_FLOOD_BYTES);
    pccl_frame_encode(&msg, 0, 0, measurer->flood);
}
_Static_assert((int)PCCL_FLOOD_BYTES_MAX <= (int)PCCL_WORKER_SINK_BYTES, "the load is made in the sink");

static uint32_t streams(uint32_t asked) { return (uint32_t)pccl_min_u64(pccl_max_u64(asked, 1), PCCL_POOL_MAX); }

enum pccl_status pccl_measurer_create(const struct pccl_measure_config *config, struct pccl_worker **worker,
                                      struct pccl_text *reason)
{
    enum pccl_status status = pccl_worker_create(&kind, &config->worker, worker, reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_measurer *measurer = pccl_measurer_of(*worker);
    measurer->config = *config;
    measurer->config.streams_long = streams(config->streams_long);
    measurer->config.streams_short = streams(config->streams_short);
    make_flood(measurer);
    return PCCL_OK;
}
