/*
 * Exchanges of several peers in memory: every lane has some connections, whose bytes are moved in random pieces and in
 * a random order. Messages overtake one another, wait in a connection after they were sent, and are cut at any byte.
 */
#ifndef PCCL_TESTS_EXCHANGE_WORLD_H
#define PCCL_TESTS_EXCHANGE_WORLD_H

#include "collective/exchange.h"
#include "core/prng.h"
#include "unit/support.h"

enum { RANKS_MOST = 16, PIPES_MOST = RANKS_MOST * RANKS_MOST * 2 * 4, PIPE_MESSAGES = 3 };

struct message {
    struct pccl_msg msg;
    uint8_t *bytes;
    uint32_t length, copied;
};

/* One direction of one connection. */
struct pipe_end {
    uint32_t from, to;
    bool data; /* DATA from `from`; else READY, against the direction of the lane */
    bool broken;
    struct pccl_lane *lanes[2]; /* lanes of `from` and of `to` */
    struct pccl_departure departure;
    bool departing;
    struct pccl_arrival arrival;
    bool arriving;
    uint32_t taken; /* bytes of the arrival */
    struct message messages[PIPE_MESSAGES];
    uint32_t message_count;
};

struct job {
    struct pccl_transfer *transfer;
    struct pccl_transfer_config config;
    uint8_t *block, *other_block; /* the caller's memory: one block in place */
    uint8_t *input, *before, *result;
    size_t bytes, result_bytes;            /* sizes of the input and of the result */
    struct pccl_extent inputs[RANKS_MOST]; /* of blobs for each: where they are, the last one first */
    bool gives, in_place;                  /* its input is read; its result is written to the same block */
    uint32_t arrived;                      /* a bit for each position whose blob was reported as present */
    bool done, at_rest, failed, stopped;
    enum pccl_class class;
    struct pccl_text reason;
};

struct world;
struct world_peer {
    struct world *world;
    struct pccl_id id;
    struct test_memory memory;
    struct pccl_exchange *exchange;
    uint32_t announced;
    void *writable; /* the last one named by the exchange */
    bool rests;
};

struct world {
    struct pccl_prng prng;
    uint32_t ranks, connections;
    struct world_peer peers[RANKS_MOST];
    struct pccl_id ring[RANKS_MOST];
    uint32_t positions[RANKS_MOST], root;
    const uint64_t *starts; /* starts of parts of given lengths, or NULL */
    struct pipe_end pipes[PIPES_MOST];
    uint32_t pipe_count;
    uint32_t readies;     /* number sent */
    bool expects_trouble; /* failures of transfers are part of the test */
};

static inline uint64_t world_below(struct world *w, uint64_t bound) { return pccl_prng_below(&w->prng, bound); }

static inline void world_done(void *context, struct pccl_transfer *transfer)
{
    (void)context;
    struct job *job = pccl_transfer_user(transfer);
    PCCL_ASSERT(!job->done && !job->failed && !job->at_rest);
    job->done = true;
}

static inline void world_at_rest(void *context, struct pccl_transfer *transfer)
{
    struct job *job = pccl_transfer_user(transfer);
    PCCL_ASSERT(job->done && !job->failed && !job->at_rest && pccl_transfer_is_at_rest(transfer));
    const struct world *w = ((struct world_peer *)context)->world;
    for (uint32_t i = 0; i < w->pipe_count; i++)
        PCCL_ASSERT(w->pipes[i].departure.transfer != transfer && w->pipes[i].arrival.transfer != transfer);
    job->at_rest = true;
}

static inline void world_failed(void *context, struct pccl_transfer *transfer, enum pccl_class class,
                                const struct pccl_text *reason)
{
    struct world_peer *peer = context;
    struct job *job = pccl_transfer_user(transfer);
    if (!peer->world->expects_trouble)
        fprintf(stderr, "failed: %s\n", reason->bytes);
    PCCL_ASSERT(peer->world->expects_trouble && !job->failed && reason->length > 0);
    job->failed = true;
    job->class = class;
    job->reason = *reason;
}

static inline void world_announced(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready)
{
    (void)from;
    (void)ready;
    struct world_peer *peer = context;
    peer->announced++;
}

static inline void world_arrived(void *context, struct pccl_transfer *transfer, uint32_t position)
{
    (void)context;
    struct job *job = pccl_transfer_user(transfer);
    PCCL_ASSERT(!job->done && !job->failed && (job->arrived >> position & 1) == 0);
    job->arrived |= UINT32_C(1) << position;
}

static inline void world_writable(void *context, void *user)
{
    struct world_peer *peer = context;
    peer->writable = user; /* every pipe is asked again and again */
}

static inline void world_rests(void *context) { ((struct world_peer *)context)->rests = true; }

static inline void world_connect(struct world *w, uint32_t from, uint32_t to)
{
    struct pccl_lane *out = pccl_exchange_connected(w->peers[from].exchange, &w->ring[to], true, NULL);
    struct pccl_lane *in = pccl_exchange_connected(w->peers[to].exchange, &w->ring[from], false, NULL);
    PCCL_ASSERT(out != NULL && in != NULL);
    PCCL_ASSERT(w->pipe_count + 2 <= PIPES_MOST);
    w->pipes[w->pipe_count++] = (struct pipe_end){.from = from, .to = to, .data = true, .lanes = {out, in}};
    w->pipes[w->pipe_count++] = (struct pipe_end){.from = to, .to = from, .data = false, .lanes = {in, out}};
}

/* Not in the order of the ring. */
static inline uint32_t world_position(uint32_t ranks, uint32_t rank) { return ranks - 1 - (rank + ranks / 2) % ranks; }

static inline void world_init(struct world *w, uint64_t seed, uint32_t ranks, uint32_t connections, bool mesh,
                              const struct pccl_exchange_config *config)
{
    memset(w, 0, sizeof *w);
    pccl_prng_seed(&w->prng, seed);
    w->ranks = ranks;
    w->connections = connections;
    for (uint32_t i = 0; i < ranks; i++) {
        struct world_peer *peer = &w->peers[i];
        peer->world = w;
        peer->id = w->ring[i] = pccl_prng_id(&w->prng);
        w->positions[i] = world_position(ranks, i);
        test_memory_init(&peer->memory);
        struct pccl_exchange_config mine = *config;
        mine.self = peer->id;
        if (mine.kernels == NULL)
            mine.kernels = pccl_kernels_for(0);
        if (mine.kept_bytes_most == 0) /* all, or little, or a segment at a time */
            mine.kept_bytes_most = seed % 3 == 2 ? SIZE_MAX : seed % 3 * 4096;
        struct pccl_exchange_effects effects = {
            peer, world_done, world_at_rest, world_failed, world_announced, world_writable, world_arrived, world_rests};
        peer->exchange = pccl_exchange_create(&mine, &peer->memory.memory, &effects);
        PCCL_ASSERT(peer->exchange != NULL);
    }
    for (uint32_t from = 0; from < ranks; from++)
        for (uint32_t to = 0; to < ranks; to++)
            for (uint32_t k = 0; from != to && (mesh || to == (from + 1) % ranks) && k < connections; k++)
                world_connect(w, from, to);
}

static inline void pipe_forget(struct pipe_end *pipe)
{
    for (uint32_t i = 0; i < pipe->message_count; i++)
        free(pipe->messages[i].bytes);
    pipe->message_count = 0;
    pipe->departing = pipe->arriving = false;
}

static inline struct pccl_exchange *exchange_of(struct world *w, uint32_t rank) { return w->peers[rank].exchange; }

/* Ends the world. No transfer may be left. */
static inline void world_fini(struct world *w)
{
    for (uint32_t i = 0; i < w->pipe_count; i++) {
        struct pipe_end *pipe = &w->pipes[i];
        pccl_exchange_dropped(exchange_of(w, pipe->from), &pipe->departure, NULL);
        pccl_exchange_dropped(exchange_of(w, pipe->to), NULL, &pipe->arrival);
        pipe_forget(pipe);
    }
    for (uint32_t i = 0; i < w->ranks; i++) {
        PCCL_ASSERT(pccl_exchange_scratch_bytes(exchange_of(w, i), NULL) ==
                    pccl_exchange_early_bytes(exchange_of(w, i)));
        pccl_exchange_destroy(exchange_of(w, i));
        PCCL_ASSERT(w->peers[i].memory.live_blocks == 0);
    }
}

/* One of the two directions of a connection has ended; so has the other. Both ends learn of it. */
static inline void world_break(struct world *w, uint32_t index)
{
    index &= ~UINT32_C(1);
    if (w->pipes[index].broken)
        return;
    for (uint32_t i = index; i < index + 2; i++) {
        struct pipe_end *pipe = &w->pipes[i];
        pccl_exchange_dropped(exchange_of(w, pipe->from), &pipe->departure, NULL);
        pccl_exchange_dropped(exchange_of(w, pipe->to), NULL, &pipe->arrival);
        pipe_forget(pipe);
        pipe->broken = true;
        pccl_exchange_disconnected(pipe->lanes[0], false);
    }
}

/* ---- moving bytes ---- */

static inline uint32_t world_piece(struct world *w, uint32_t rest)
{
    return world_below(w, 3) == 0 ? (uint32_t)world_below(w, rest + 1) : rest;
}

/* lazy: may do nothing this time. */
static inline bool pipe_send(struct world *w, struct pipe_end *pipe, bool lazy)
{
    struct pccl_exchange *exchange = exchange_of(w, pipe->from);
    if (!pipe->departing) {
        if (pipe->message_count == PIPE_MESSAGES || (lazy && world_below(w, 4) == 0))
            return false;
        if (!pccl_exchange_next(pipe->lanes[0], &pipe->departure))
            return false;
        pipe->departing = true;
        struct message *message = &pipe->messages[pipe->message_count++];
        *message = (struct message){.msg = pipe->departure.msg, .length = pipe->departure.length};
        PCCL_ASSERT(pipe->data == (message->msg.type == PCCL_MSG_data) || message->msg.as.ready.instance.pair != 0);
        w->readies += !pipe->data;
        const struct pccl_transfer *transfer = pipe->departure.transfer;
        PCCL_ASSERT(transfer == NULL || !pccl_transfer_is_at_rest(transfer));
        message->bytes = malloc(message->length + 1);
        return true;
    }
    struct message *message = &pipe->messages[pipe->message_count - 1];
    if (message->copied < message->length) {
        uint32_t piece = world_piece(w, message->length - message->copied);
        if (pipe->departure.payload != NULL)
            memcpy(message->bytes + message->copied, pipe->departure.payload + message->copied, piece);
        else
            memset(message->bytes + message->copied, 0, piece);
        message->copied += piece;
        return true;
    }
    pccl_exchange_sent(exchange, &pipe->departure);
    pipe->departing = false;
    return true;
}

static inline bool pipe_receive(struct world *w, struct pipe_end *pipe)
{
    if (pipe->message_count == 0)
        return false;
    struct message *message = &pipe->messages[0];
    struct pccl_exchange *exchange = exchange_of(w, pipe->to);
    if (!pipe->arriving) {
        struct pccl_text reason;
        enum pccl_status status = pccl_exchange_receive(pipe->lanes[1], &message->msg, &pipe->arrival, &reason);
        if (status == PCCL_MEMORY && w->expects_trouble) {
            world_break(w, (uint32_t)(pipe - w->pipes));
            return true;
        }
        if (status != PCCL_OK)
            fprintf(stderr, "%s\n", reason.bytes);
        PCCL_ASSERT(status == PCCL_OK && pipe->arrival.length == (pipe->data ? message->length : 0));
        pipe->arriving = true;
        pipe->taken = 0;
        return true;
    }
    if (pipe->taken < message->copied) {
        uint32_t piece = world_piece(w, message->copied - pipe->taken);
        if (pipe->arrival.payload != NULL)
            memcpy(pipe->arrival.payload + pipe->taken, message->bytes + pipe->taken, piece);
        pipe->taken += piece;
        return true;
    }
    if (message->copied < message->length || (pipe->message_count == 1 && pipe->departing))
        return false; /* the sender has not reported that the message is complete */
    if (message->length > 0)
        pccl_exchange_received(exchange, &pipe->arrival);
    pipe->arriving = false;
    free(message->bytes);
    pipe->message_count--;
    memmove(pipe->messages, pipe->messages + 1, pipe->message_count * sizeof *pipe->messages);
    return true;
}

static inline bool world_step(struct world *w, uint32_t index, bool lazy)
{
    struct pipe_end *pipe = &w->pipes[index];
    if (pipe->broken)
        return false;
    bool sends_first = world_below(w, 2) == 0;
    bool one = sends_first ? pipe_send(w, pipe, lazy) : pipe_receive(w, pipe);
    bool other = sends_first ? pipe_receive(w, pipe) : pipe_send(w, pipe, lazy);
    return one || other;
}

static inline bool world_go_on(struct world *w)
{
    bool moved = false;
    for (uint32_t i = 0; i < w->ranks; i++) {
        struct world_peer *peer = &w->peers[i];
        if (!peer->rests)
            continue;
        moved = true;
        peer->rests = false;
        pccl_exchange_continue(peer->exchange);
    }
    return moved;
}

/* Sweeps until no byte moves, or, with `steps` > 0, for `steps` steps. */
static inline void world_run(struct world *w, uint64_t steps)
{
    bool moved = true;
    for (uint64_t step = 0; moved;) {
        moved = false;
        uint32_t first = (uint32_t)world_below(w, w->pipe_count);
        uint32_t stride = (uint32_t)(1 + world_below(w, 7));
        while (w->pipe_count % stride == 0 && stride > 1)
            stride--; /* not a permutation, which is enough: the second loop moves the remaining pipes */
        for (uint32_t i = 0; i < w->pipe_count; i++) {
            moved |= world_step(w, (first + i * stride) % w->pipe_count, true);
            if (steps > 0 && ++step >= steps)
                return;
        }
        for (uint32_t i = 0; i < w->pipe_count && !moved; i++)
            moved |= world_step(w, i, false);
        if (!moved || world_below(w, 16) == 0)
            moved |= world_go_on(w);
    }
}

/* ---- operations ---- */

/* Bytes of the first `parts` parts. */
static inline size_t world_parts(const struct world *w, const struct pccl_descriptor *descriptor, uint32_t parts)
{
    const uint64_t elements = w->starts != NULL ? w->starts[parts] : parts * descriptor->count;
    return (size_t)elements * pccl_datatype_bytes((enum pccl_datatype)descriptor->datatype);
}

/* Allocates each blob that a rank gets from the others, or from the root, separately. */
static inline void job_allocate_blobs(const struct world *w, struct job *job, uint32_t rank, bool exchanges)
{
    const uint32_t position = w->positions[rank];
    const uint64_t *own = exchanges ? w->starts + position * w->ranks : w->starts;
    job->gives = exchanges || rank == w->root;
    job->bytes = job->gives ? (size_t)(own[w->ranks] - own[0]) : 0;
    for (uint32_t i = position; exchanges && i < w->ranks * w->ranks; i += w->ranks)
        job->result_bytes += (size_t)(w->starts[i + 1] - w->starts[i]);
    if (!exchanges)
        job->result_bytes = (size_t)(own[position + 1] - own[position]);
    job->block = job->input = malloc(job->bytes + 1);
    job->other_block = job->result = malloc(job->result_bytes + 1);
    job->before = malloc(job->bytes + 1);
    for (uint32_t i = 0; i < w->ranks; i++)
        job->inputs[i] =
            (struct pccl_extent){(size_t)(own[i] - own[0]), job->input + (job->gives ? own[w->ranks] - own[i + 1] : 0)};
}

/* The caller's memory: `count` elements on each side, or all parts on one of them, or on both. */
static inline void job_allocate(const struct world *w, struct job *job, uint32_t rank,
                                const struct pccl_descriptor *descriptor, bool in_place)
{
    const enum pccl_collective collective = (enum pccl_collective)descriptor->collective;
    const bool is_root = !pccl_collective_has_root(descriptor->collective) || rank == w->root;
    const bool exchanges = collective == PCCL_ALL_TO_ALL;
    const bool gathers = collective == PCCL_ALL_GATHER || collective == PCCL_ALL_GATHER_V ||
                         collective == PCCL_GATHER || collective == PCCL_GATHER_V;
    const bool scatters = collective == PCCL_REDUCE_SCATTER || collective == PCCL_SCATTER;
    const uint32_t position = gathers || scatters ? w->positions[rank] : 0;
    const size_t own = world_parts(w, descriptor, position), part = world_parts(w, descriptor, position + 1) - own;
    const size_t all = world_parts(w, descriptor, w->ranks);
    const bool gets =
        is_root || (collective != PCCL_REDUCE && collective != PCCL_GATHER && collective != PCCL_GATHER_V);
    job->gives = is_root || (collective != PCCL_BROADCAST && collective != PCCL_SCATTER);
    job->bytes = collective == PCCL_SCATTER && !is_root ? 0 : scatters || exchanges ? all : part;
    job->result_bytes = !gets ? 0 : gathers || exchanges ? all : part;
    job->in_place = in_place && !exchanges && gets && job->bytes > 0;
    job->block = malloc(job->bytes > job->result_bytes ? job->bytes : job->result_bytes);
    job->other_block = job->in_place ? NULL : malloc(job->result_bytes);
    job->input = job->block + (job->in_place && gathers ? own : 0);
    job->result = job->in_place ? job->block + (scatters ? own : 0) : job->other_block;
    job->before = malloc(job->bytes);
}

static inline void job_init(struct world *w, struct job *job, uint32_t rank, uint64_t tag,
                            const struct pccl_descriptor *descriptor, const struct pccl_cost *cost, bool in_place)
{
    memset(job, 0, sizeof *job);
    const bool for_each = descriptor->collective == PCCL_SCATTER_V || descriptor->collective == PCCL_ALL_TO_ALL_V;
    if (for_each)
        job_allocate_blobs(w, job, rank, descriptor->collective == PCCL_ALL_TO_ALL_V);
    else
        job_allocate(w, job, rank, descriptor, in_place);
    job->config =
        (struct pccl_transfer_config){.instance = {.joint = 1, .tag = tag, .use = 1},
                                      .view = {1, 5},
                                      .descriptor = *descriptor,
                                      .cost = *cost,
                                      .ring = w->ring,
                                      .ranks = w->ranks,
                                      .root = w->root,
                                      .positions = w->positions,
                                      .starts = w->starts,
                                      .buffers = {pccl_extents_of(job->input), pccl_extents_of(job->result), NULL, 0},
                                      .tells_arrivals = pccl_collective_is_of_blobs(descriptor->collective),
                                      .factor = 1.75 - 0.75 * rank,
                                      .user = job};
    if (for_each && job->gives) {
        job->config.buffers.input.list = job->inputs;
        job->config.buffers.input.count = w->ranks;
    }
    if (pccl_collective_has_root(descriptor->collective))
        job->config.descriptor.root = w->ring[w->root];
}

static inline void job_keep_input(struct job *job) { memcpy(job->before, job->input, job->bytes); }

static inline enum pccl_status job_start(struct world *w, struct job *job, uint32_t rank, struct pccl_text *reason)
{
    return pccl_exchange_start(exchange_of(w, rank), &job->config, &job->transfer, reason);
}

static inline void job_stop(struct world *w, struct job *job, uint32_t rank, bool committed)
{
    pccl_exchange_stop(exchange_of(w, rank), job->transfer, committed);
    job->stopped = true;
    if (!committed && job->gives)
        PCCL_ASSERT(memcmp(job->input, job->before, job->bytes) == 0);
}

static inline void job_fini(struct job *job)
{
    free(job->block);
    free(job->other_block);
    free(job->before);
}

#endif
