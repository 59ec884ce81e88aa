/*
 * Work whose instructions gate.py counts, so that a change shows where times are noise:
 *   bench_segments combine:VARIANT N    N times 64 KiB of f32 are added
 *   bench_segments encode:VARIANT N     N times 64 KiB of f32 are packed as u8
 *   bench_segments decode:VARIANT N     and unpacked
 *   bench_segments encode-int4:VARIANT N, decode-e3m0:VARIANT N...
 *                                       the same with a scaled codec, in blocks of 256
 *   bench_segments digest:VARIANT N     N chunks of a shared state, of 1 MiB, are digested, 64 of
 *                                       them by turns
 *   bench_segments prove:VARIANT N      and have their proofs made
 *   bench_segments frame N              N frames of DATA are encoded, read and decoded
 *   bench_segments exchange N           N all-reduces of 16 MiB between two exchanges in memory,
 *                                       with kernels that do nothing and bytes that stay where they
 *                                       are: what remains is bookkeeping
 * Prints how many units were done: pieces of 64 KiB, chunks, frames, messages of DATA.
 */
#include "collective/exchange.h"
#include "kernels/codec.h"
#include "kernels/scaled.h"
#include "kernels/variant.h"
#include "state/state.h"
#include "wire/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_ELEMENTS = 16384, JOB_ELEMENTS = 4 << 20, RANKS = 2, CHUNKS = 64 /* more than a cache has room for */ };

static void *resize(void *context, void *block, size_t old_bytes, size_t new_bytes)
{
    (void)context;
    (void)old_bytes;
    if (new_bytes > 0)
        return realloc(block, new_bytes);
    free(block);
    return NULL;
}

static const struct pccl_memory memory = {.resize = resize};

static int fail(const char *reason)
{
    (void)fprintf(stderr, "bench_segments: %s\n", reason);
    return 1;
}

/* ---- kernels and codecs ---- */

static const struct pccl_kernels *find_kernels(const char *name)
{
    const struct pccl_kernels *kernels;
    uint32_t features;
    for (uint32_t i = 0; (kernels = pccl_kernels_variant(i, &features)) != NULL; i++)
        if (strcmp(pccl_kernels_name(kernels), name) == 0)
            return kernels;
    return NULL;
}

static int run_kernel(char kind, const struct pccl_kernels *kernels, unsigned long count)
{
    static float one[PIECE_ELEMENTS], other[PIECE_ELEMENTS];
    static uint8_t packed[PIECE_ELEMENTS * 2];
    struct pccl_text reason;
    const struct pccl_codec *codec = pccl_codec_find(PCCL_CODEC_MIN_MAX, PCCL_F32, PCCL_U8, PCCL_SUM, &reason);
    if (!codec || !kernels || pccl_codec_bytes(codec, PIECE_ELEMENTS) > sizeof packed)
        return fail("no such kernels, or no codec");
    for (size_t i = 0; i < PIECE_ELEMENTS; i++)
        one[i] = (float)(i % 1000) * 0.001f;
    pccl_codec_encode(codec, kernels, one, PIECE_ELEMENTS, packed);
    for (unsigned long i = 0; i < count; i++) {
        if (kind == 'c')
            pccl_combine(kernels, PCCL_F32, PCCL_SUM, other, other, one, PIECE_ELEMENTS);
        else if (kind == 'e')
            pccl_codec_encode(codec, kernels, one, PIECE_ELEMENTS, packed);
        else
            pccl_codec_decode(codec, kernels, packed, PIECE_ELEMENTS, other);
    }
    (void)printf("%lu\n", count);
    return 0;
}

/* `name` is that of a format, followed by something. */
static int run_scaled(bool decodes, const char *name, const struct pccl_kernels *kernels, unsigned long count)
{
    static float values[PIECE_ELEMENTS];
    static uint8_t packed[PIECE_ELEMENTS * 2];
    struct pccl_scaled codec = {.datatype = PCCL_F32, .block = PCCL_SCALED_BLOCK_MAX};
    while (codec.format < PCCL_SCALED_FORMATS && strncmp(name, pccl_scaled_format_name(codec.format), 4) != 0)
        codec.format++;
    if (codec.format == PCCL_SCALED_FORMATS || !kernels)
        return fail("no such kernels, or no such format");
    for (size_t i = 0; i < PIECE_ELEMENTS; i++)
        values[i] = (float)(i % 1000) * 0.001f;
    pccl_scaled_encode(&codec, kernels, values, PIECE_ELEMENTS, 0, 0, packed);
    for (unsigned long i = 0; i < count; i++)
        if (decodes)
            pccl_scaled_decode(&codec, kernels, packed, PIECE_ELEMENTS, values);
        else
            pccl_scaled_encode(&codec, kernels, values, PIECE_ELEMENTS, 0, 0, packed);
    (void)printf("%lu\n", count);
    return 0;
}

/* ---- shared state ---- */

static int run_hash(bool proves, const struct pccl_kernels *kernels, unsigned long count)
{
    uint8_t *chunks = malloc((size_t)CHUNKS * PCCL_STATE_CHUNK_BYTES);
    if (!chunks || !kernels)
        return fail("no such kernels, or out of memory");
    memset(chunks, 1, (size_t)CHUNKS * PCCL_STATE_CHUNK_BYTES);
    for (unsigned long i = 0; i < count; i++) {
        const uint8_t *chunk = chunks + i % CHUNKS * PCCL_STATE_CHUNK_BYTES;
        if (proves)
            (void)pccl_proof_bytes(kernels, chunk, PCCL_STATE_CHUNK_BYTES);
        else
            (void)pccl_digest_bytes(kernels, chunk, PCCL_STATE_CHUNK_BYTES);
    }
    free(chunks);
    (void)printf("%lu\n", count);
    return 0;
}

/* ---- frames ---- */

static int run_frames(unsigned long count)
{
    static struct pccl_wire_scratch scratch;
    static uint8_t bytes[1024];
    struct pccl_msg sent = {.type = PCCL_MSG_data}, got;
    struct pccl_frame_reader reader;
    struct pccl_text reason;
    sent.as.data = (struct pccl_msg_data){
        .instance = {.joint = 1, .tag = 1, .use = 1}, .view = {1, 5}, .stripe = 3, .step = 1, .length = 65536};
    pccl_frame_reader_init(&reader, &memory);
    size_t length = pccl_frame_size(&sent);
    for (unsigned long i = 0; i < count; i++) {
        struct pccl_frame frame;
        size_t room;
        pccl_frame_encode(&sent, 0, 0, bytes);
        uint8_t *space = pccl_frame_reader_space(&reader, &room);
        if (!space || room < length)
            return fail("no room for a frame");
        memcpy(space, bytes, length);
        pccl_frame_reader_filled(&reader, length);
        if (pccl_frame_reader_next(&reader, &frame, &reason) != 1 ||
            pccl_wire_decode(frame.type, frame.body, frame.length, &scratch, &got, &reason) != PCCL_OK ||
            pccl_frame_reader_next(&reader, &frame, &reason) != 0)
            return fail("a frame was lost");
    }
    pccl_frame_reader_fini(&reader);
    (void)printf("%lu\n", count);
    return 0;
}

/* ---- exchanges ---- */

static void no_combine(void *result, const void *a, const void *b, size_t count)
{
    (void)result;
    (void)a;
    (void)b;
    (void)count;
}

static void no_step(const struct pccl_kernels *kernels, const struct pccl_step *step, void *result, const void *folded,
                    const void *part, size_t count)
{
    (void)kernels;
    (void)step;
    (void)result;
    (void)folded;
    (void)part;
    (void)count;
}

static void no_copy(void *to, const void *from, size_t bytes)
{
    (void)to;
    (void)from;
    (void)bytes;
}

static void no_fence(void) {}

struct world {
    struct pccl_id ids[RANKS];
    struct pccl_exchange *exchanges[RANKS];
    struct pccl_lane *lanes[RANKS][2]; /* incoming, outgoing */
    struct pccl_transfer_config configs[RANKS];
    struct pccl_transfer *transfers[RANKS];
    uint32_t done;
    bool failed;
    unsigned long messages;
};

static void on_done(void *context, struct pccl_transfer *transfer)
{
    (void)transfer;
    ((struct world *)context)->done++;
}

static void on_at_rest(void *context, struct pccl_transfer *transfer)
{
    (void)context;
    (void)transfer;
}

static void on_failed(void *context, struct pccl_transfer *transfer, enum pccl_class class,
                      const struct pccl_text *reason)
{
    (void)transfer;
    (void)class;
    (void)reason;
    ((struct world *)context)->failed = true;
}

static void on_announced(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready)
{
    (void)context;
    (void)from;
    (void)ready;
}

static void on_writable(void *context, void *user)
{
    (void)context; /* all are asked again and again */
    (void)user;
}

/* One message of this rank, if it has one: DATA on its outgoing lane, or READY on the other one. */
static bool move_message(struct world *world, uint32_t from, bool outgoing)
{
    uint32_t to = 1 - from;
    struct pccl_departure departure = {0};
    struct pccl_arrival arrival = {0};
    struct pccl_text reason;
    if (!pccl_exchange_next(world->lanes[from][outgoing], &departure))
        return false;
    if (pccl_exchange_receive(world->lanes[to][!outgoing], &departure.msg, &arrival, &reason) != PCCL_OK) {
        world->failed = true;
        return false;
    }
    pccl_exchange_sent(world->exchanges[from], &departure);
    if (arrival.length > 0)
        pccl_exchange_received(world->exchanges[to], &arrival);
    world->messages += outgoing;
    return true;
}

static bool connect_all(struct world *world, const struct pccl_kernels *kernels)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        world->ids[i] = (struct pccl_id){.bytes = {(uint8_t)(i + 1)}};
        struct pccl_exchange_config config = {
            .self = world->ids[i], .kernels = kernels, .scratch_bytes_max = 32 << 20, .window_bytes = 8 << 20};
        struct pccl_exchange_effects effects = {.context = world,
                                                .done = on_done,
                                                .at_rest = on_at_rest,
                                                .failed = on_failed,
                                                .announced = on_announced,
                                                .writable = on_writable};
        world->exchanges[i] = pccl_exchange_create(&config, &memory, &effects);
        if (!world->exchanges[i])
            return false;
    }
    for (uint32_t i = 0; i < RANKS; i++)
        for (uint32_t outgoing = 0; outgoing < 2; outgoing++) {
            world->lanes[i][outgoing] =
                pccl_exchange_connected(world->exchanges[i], &world->ids[1 - i], outgoing, NULL);
            if (!world->lanes[i][outgoing])
                return false;
        }
    return true;
}

static bool reduce_once(struct world *world, uint32_t use, float *const *buffers)
{
    struct pccl_text reason;
    world->done = 0;
    for (uint32_t i = 0; i < RANKS; i++) {
        world->configs[i] = (struct pccl_transfer_config){
            .instance = {.joint = 1, .tag = 1, .use = use},
            .view = {1, 5},
            .descriptor = {.datatype = PCCL_F32, .operation = PCCL_SUM, .count = JOB_ELEMENTS},
            .ring = world->ids,
            .ranks = RANKS,
            .buffers = {pccl_extents_of(buffers[2 * i]), pccl_extents_of(buffers[2 * i + 1]), NULL, 0}};
        if (pccl_exchange_start(world->exchanges[i], &world->configs[i], &world->transfers[i], &reason) != PCCL_OK)
            return false;
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < RANKS; i++) {
            bool one_way = move_message(world, i, true), other_way = move_message(world, i, false);
            moved = moved || one_way || other_way;
        }
    }
    for (uint32_t i = 0; i < RANKS; i++)
        pccl_exchange_stop(world->exchanges[i], world->transfers[i], true);
    return world->done == RANKS && !world->failed;
}

static int run_exchange(unsigned long count)
{
    struct pccl_kernels kernels = {
        .name = "none", .step = no_step, .copy_streaming = no_copy, .copied_streaming = no_fence};
    struct world world = {0};
    float *buffers[2 * RANKS];
    kernels.combine[PCCL_F32][PCCL_SUM] = no_combine;
    for (size_t i = 0; i < 2 * RANKS; i++)
        if ((buffers[i] = calloc(JOB_ELEMENTS, sizeof **buffers)) == NULL)
            return fail("out of memory");
    if (!connect_all(&world, &kernels))
        return fail("the exchanges do not start");
    for (unsigned long i = 0; i < count; i++)
        if (!reduce_once(&world, (uint32_t)i + 1, buffers))
            return fail("an all-reduce does not end");
    for (uint32_t i = 0; i < RANKS; i++)
        pccl_exchange_destroy(world.exchanges[i]);
    for (size_t i = 0; i < 2 * RANKS; i++)
        free(buffers[i]);
    (void)printf("%lu\n", world.messages);
    return 0;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return fail("two arguments are expected: what, and how often");
    unsigned long times = strtoul(arguments[2], NULL, 10);
    const char *colon = strchr(arguments[1], ':');
    if (strncmp(arguments[1], "digest:", 7) == 0 || strncmp(arguments[1], "prove:", 6) == 0)
        return run_hash(arguments[1][0] == 'p', find_kernels(colon + 1), times);
    const char *dash = strchr(arguments[1], '-');
    if (colon && dash)
        return run_scaled(arguments[1][0] == 'd', dash + 1, find_kernels(colon + 1), times);
    if (colon)
        return run_kernel(arguments[1][0], find_kernels(colon + 1), times);
    if (strcmp(arguments[1], "frame") == 0)
        return run_frames(times);
    return strcmp(arguments[1], "exchange") == 0 ? run_exchange(times) : fail("there is no such work");
}
