/*
 * Shared by the tests of the engine: nodes, each with an engine, whose events wake whoever waits
 * for them; connections between two nodes, or between a node and a bare socket that plays the other
 * peer by hand.
 */
#ifndef PCCL_TESTS_UNIT_ENGINE_NODE_H
#define PCCL_TESTS_UNIT_ENGINE_NODE_H

#include "data/engine.h"
#include "kernels/kernels.h"
#include "loopback.h"

enum { NODE_COUNT_MAX = 4 };

/* One operation at one node. */
struct work {
    struct pccl_engine_job job;
    struct node *node;
    struct pccl_id ring[NODE_COUNT_MAX];
    /* under the lock of the node */
    bool done, at_rest, failed, released;
    enum pccl_class class;
    struct pccl_text reason;
};

/* The events of a node so far, and what the last one that ended said. */
struct node_events {
    uint32_t ended, announced;
    struct pccl_id ended_peer;
    bool ended_outgoing, ended_purposely, ended_rejected;
    uint32_t ended_slot;
    enum pccl_link_end ended_how;
};

struct node {
    struct pccl_engine *engine;
    struct pccl_id id;
    uv_mutex_t lock;
    uv_cond_t changed;
    struct node_events now;  /* under the lock */
    struct node_events seen; /* by the test's thread, when it last waited for something */
};

/* ---- events ---- */

static inline void node_note(struct node *node, bool *flag)
{
    uv_mutex_lock(&node->lock);
    *flag = true;
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
}

static void node_done(void *context, struct pccl_engine_job *job, bool at_rest)
{
    struct work *work = PCCL_CONTAINER_OF(job, struct work, job);
    struct node *node = context;
    uv_mutex_lock(&node->lock);
    work->done = true;
    work->at_rest = at_rest;
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
}

static void node_at_rest(void *context, struct pccl_engine_job *job)
{
    node_note(context, &PCCL_CONTAINER_OF(job, struct work, job)->at_rest);
}

static void node_failed(void *context, struct pccl_engine_job *job, enum pccl_class class,
                        const struct pccl_text *reason)
{
    struct work *work = PCCL_CONTAINER_OF(job, struct work, job);
    struct node *node = context;
    uv_mutex_lock(&node->lock);
    work->failed = true;
    work->class = class;
    work->reason = *reason;
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
}

static void node_released(void *context, struct pccl_engine_job *job)
{
    node_note(context, &PCCL_CONTAINER_OF(job, struct work, job)->released);
}

static void node_announced(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready)
{
    struct node *node = context;
    (void)from;
    (void)ready;
    uv_mutex_lock(&node->lock);
    node->now.announced++;
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
}

static void node_ended(void *context, const struct pccl_id *peer, bool outgoing, uint32_t slot, enum pccl_link_end how,
                       bool purposely, const struct pccl_text *rejected)
{
    struct node *node = context;
    uv_mutex_lock(&node->lock);
    node->now.ended++;
    node->now.ended_peer = *peer;
    node->now.ended_outgoing = outgoing;
    node->now.ended_slot = slot;
    node->now.ended_how = how;
    node->now.ended_purposely = purposely;
    node->now.ended_rejected = rejected != NULL;
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
}

/* ---- nodes ---- */

static inline struct pccl_id node_id(uint8_t number)
{
    struct pccl_id id = {{0}};
    id.bytes[0] = number;
    id.bytes[15] = 1;
    return id;
}

static inline void node_begin_with(struct node *node, uint8_t number, uint32_t linger_ms)
{
    struct pccl_text reason;
    memset(node, 0, sizeof *node);
    node->id = node_id(number);
    assert_int_equal(uv_mutex_init(&node->lock), 0);
    assert_int_equal(uv_cond_init(&node->changed), 0);
    struct pccl_engine_config config = {.self = node->id,
                                        .kernels = pccl_kernels_for(0),
                                        .scratch_bytes_max = 32 << 20,
                                        .window_bytes = 4 << 20,
                                        .linger_ms = linger_ms};
    struct pccl_engine_events events = {.context = node,
                                        .done = node_done,
                                        .at_rest = node_at_rest,
                                        .failed = node_failed,
                                        .released = node_released,
                                        .announced = node_announced,
                                        .ended = node_ended};
    assert_int_equal(pccl_engine_create(&config, &events, &node->engine, &reason), 0);
}

static inline void node_begin(struct node *node, uint8_t number) { node_begin_with(node, number, 5000); }

static inline void node_end(struct node *node)
{
    pccl_engine_destroy(node->engine);
    uv_cond_destroy(&node->changed);
    uv_mutex_destroy(&node->lock);
}

/* Waits for the next event. The time limit only ends tests that hang. */
static inline void node_wait(struct node *node)
{
    if (uv_cond_timedwait(&node->changed, &node->lock, LOOPBACK_HANG_MS * UINT64_C(1000000)) != 0)
        fail_msg("nothing happened");
}

static inline void node_until(struct node *node, const bool *flag)
{
    uv_mutex_lock(&node->lock);
    while (!*flag)
        node_wait(node);
    node->seen = node->now;
    uv_mutex_unlock(&node->lock);
}

/* `count` is one of node->seen. */
static inline void node_until_count(struct node *node, const uint32_t *count, uint32_t wanted)
{
    uv_mutex_lock(&node->lock);
    for (node->seen = node->now; *count < wanted; node->seen = node->now)
        node_wait(node);
    uv_mutex_unlock(&node->lock);
}

/* ---- connections ---- */

/* Both ends as the library's sockets are. */
static inline void node_sockets(uv_os_sock_t *dialed, uv_os_sock_t *accepted)
{
    uv_os_sock_t listening;
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, 0), from;
    assert_int_equal(pccl_socket_listen(&address, &listening), 0);
    assert_true(pccl_socket_local(listening, &address));
    assert_int_equal(pccl_socket_dial(&address, dialed), 0);
    struct pollfd readable = {.fd = listening, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, LOOPBACK_HANG_MS), 1);
    assert_int_equal(pccl_socket_accept(listening, accepted, &from), 0);
    pccl_socket_close(listening);
}

static inline void node_add(struct node *node, const struct pccl_id *peer, bool outgoing, uint32_t slot,
                            uv_os_sock_t ours)
{
    struct pccl_handover handover = loopback_handover(ours, NULL, 0);
    assert_int_equal(pccl_engine_add(node->engine, peer, outgoing, slot, &handover), PCCL_OK);
}

static inline void node_connect(struct node *from, struct node *to, uint32_t slot)
{
    uv_os_sock_t dialed, accepted;
    node_sockets(&dialed, &accepted);
    node_add(from, &to->id, true, slot, dialed);
    node_add(to, &from->id, false, slot, accepted);
}

/* A bare, blocking socket to the node, which believes it to be `peer`. */
static inline int node_connect_bare(struct node *node, const struct pccl_id *peer, bool outgoing, uint32_t slot,
                                    const uint8_t *rest, size_t rest_length)
{
    uv_os_sock_t ours;
    int bare, small = 16 << 10;
    loopback_pair(&ours, &bare);
    /* Small buffers: a segment does not fit into them, so one can be caught in the middle. */
    assert_int_equal(setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    assert_int_equal(setsockopt(bare, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    struct pccl_handover handover = loopback_handover(ours, rest, rest_length);
    assert_int_equal(pccl_engine_add(node->engine, peer, outgoing, slot, &handover), PCCL_OK);
    return bare;
}

/* ---- operations ---- */

/* An f32 sum of `count` elements among the nodes 1 .. ranks. */
static inline void work_prepare(struct work *work, struct node *node, uint64_t tag, uint32_t ranks, uint64_t count,
                                const void *input, void *result)
{
    memset(work, 0, sizeof *work);
    for (uint32_t i = 0; i < ranks; i++)
        work->ring[i] = node_id((uint8_t)(i + 1));
    work->node = node;
    work->job.config = (struct pccl_transfer_config){
        .instance = {.tag = tag},
        .view = {.inc = 1, .number = 1},
        .descriptor = {.datatype = PCCL_F32, .operation = PCCL_SUM, .codec_datatype = PCCL_F32, .count = count},
        .ring = work->ring,
        .ranks = ranks,
        .buffers = {pccl_extents_of(input), pccl_extents_of(result), NULL, 0}};
}

static inline void work_start(struct work *work) { pccl_engine_start(work->node->engine, &work->job); }

static inline void work_stop(struct work *work, enum pccl_job_end end)
{
    pccl_engine_stop(work->node->engine, &work->job, end);
    node_until(work->node, &work->released);
}

#endif
