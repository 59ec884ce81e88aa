/*
 * The world of tests with real nodes: each has a worker on a separate thread (an engine, a synchronizer or a measurer),
 * notes its events, and wakes the test that waits for them. Nodes are linked over the loopback, or accept connections
 * and do the handshake like a communicator; a bare socket is a peer that the test plays by hand.
 */
#ifndef PCCL_TESTS_UNIT_WORLD_H
#define PCCL_TESTS_UNIT_WORLD_H

#include "loopback.h"
#include "data/engine.h"
#include "kernels/kernels.h"
#include "measure/measurer.h"
#include "net/build.h"
#include "sync/copiers.h"
#include "wire/frame.h"

enum { WORLD_NODES_MAX = 4, NODE_FRAME_MAX = 1024, NODE_TENSORS_MAX = 8, NODE_RESULTS_MAX = 16 };

/* The events of an engine until now, and the last end of a connection. */
struct node_events {
    uint32_t ended, announced;
    struct pccl_id ended_peer;
    bool ended_outgoing, ended_purposely, ended_rejected;
    uint32_t ended_slot;
    enum pccl_link_end ended_how;
};

struct node;

/* The functions of a node's worker: of a synchronizer or a measurer. */
struct node_work {
    enum pccl_link_kind kind; /* of the connections that it accepts */
    enum pccl_status (*create)(struct node *node, struct pccl_worker **worker, struct pccl_text *reason);
    void (*ran)(struct node *node); /* NULL, or takes notes under the lock */
};

struct node {
    struct pccl_id id, lineage;
    const struct node_work *work;
    uv_thread_t thread, accepting;
    struct pccl_socket_wait wait; /* of the accepting thread */
    uv_os_sock_t listening;
    struct pccl_address address;
    uv_mutex_t lock;
    uv_cond_t changed;

    /* under the lock */
    bool created, ran, leave, stop_accepting;
    enum pccl_status status; /* result of create, and its reason */
    struct pccl_text failure;
    struct pccl_text reason; /* of the last event that has one */
    uint32_t accepted;

    struct pccl_engine *engine;
    struct node_events now, seen; /* under the lock; as it was when the test last waited for something */

    struct pccl_worker *worker; /* a synchronizer or a measurer */
    uint64_t round;
    struct pccl_sync_tensor tensors[NODE_TENSORS_MAX];
    struct pccl_sync_tensor *many; /* instead of these */
    uint32_t tensor_count, threads, silence_ms, patience_ms;
    bool hold_touching, touching;      /* waits inside `touching` until the hold ends */
    uint32_t touched, proven, fetched; /* numbers of events */
    bool complete;                     /* the last fetch was complete */
    struct pccl_text torn;
    struct pccl_proof proof;
    uint64_t sent, received;

    uint32_t streams_long, streams_short, dial_ms;
    bool hold, held; /* hold: the measurer's thread stays inside the log line about a connection's end */
    struct pccl_measure_result results[NODE_RESULTS_MAX];
    uint32_t measured, warned, over; /* over: connections of others that have ended */
    struct pccl_text warning;
};

static inline struct pccl_id node_id(uint8_t number) { return (struct pccl_id){{[0] = number, [15] = 1}}; }

static inline void node_init(struct node *node, uint8_t number)
{
    memset(node, 0, sizeof *node);
    node->id = node_id(number);
    node->lineage = node_id(77);
    assert_int_equal(uv_mutex_init(&node->lock), 0);
    assert_int_equal(uv_cond_init(&node->changed), 0);
}

static inline void node_free(struct node *node)
{
    uv_cond_destroy(&node->changed);
    uv_mutex_destroy(&node->lock);
}

/* ---- events ---- */

static inline void node_lock(struct node *node) { uv_mutex_lock(&node->lock); }

/* After a change under the lock. */
static inline void node_unlock(struct node *node)
{
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
}

static inline void node_set(struct node *node, bool *flag, bool value)
{
    node_lock(node);
    *flag = value;
    node_unlock(node);
}

/* Waits for the next event. The time limit only ends tests that hang. */
static inline void node_wait(struct node *node)
{
    if (uv_cond_timedwait(&node->changed, &node->lock, LOOPBACK_HANG_MS * UINT64_C(1000000)) == 0)
        return;
    uv_mutex_unlock(&node->lock);
    fail_msg("node %u: nothing happened (%s)", node->id.bytes[0], node->reason.bytes);
}

static inline void node_until(struct node *node, const bool *flag)
{
    node_lock(node);
    while (!*flag)
        node_wait(node);
    node->seen = node->now;
    uv_mutex_unlock(&node->lock);
}

/* `count` is one of the node's, of an engine's one of node->seen. */
static inline void node_until_count(struct node *node, const uint32_t *count, uint32_t least)
{
    node_lock(node);
    for (node->seen = node->now; *count < least; node->seen = node->now)
        node_wait(node);
    uv_mutex_unlock(&node->lock);
}

/* ---- frames ---- */

/* Reads one whole frame from a socket that does not block. 0: the other side has closed it. */
static inline size_t node_read_frame(uv_os_sock_t socket, uint8_t *frame)
{
    size_t have = 0, want = PCCL_FRAME_HEADER_BYTES;
    while (have < want) {
        struct pollfd readable = {.fd = socket, .events = POLLIN};
        (void)poll(&readable, 1, LOOPBACK_HANG_MS);
        ptrdiff_t got = pccl_socket_read(socket, frame + have, want - have);
        if (got <= 0)
            return 0;
        have += (size_t)got;
        if (have == PCCL_FRAME_HEADER_BYTES)
            want += (size_t)frame[0] | (size_t)frame[1] << 8;
        if (want > NODE_FRAME_MAX)
            return 0;
    }
    return have;
}

static inline bool node_decode(const uint8_t *frame, size_t length, struct pccl_wire_scratch *scratch,
                               struct pccl_msg *msg)
{
    struct pccl_text reason;
    uint16_t type = (uint16_t)(frame[4] | frame[5] << 8);
    return length > 0 && pccl_wire_decode(type, frame + PCCL_FRAME_HEADER_BYTES, length - PCCL_FRAME_HEADER_BYTES,
                                          scratch, msg, &reason) == PCCL_OK;
}

/* ---- the thread that accepts ---- */

/*
 * Takes the hello of a connection and welcomes it. Returns false if it is no hello of this kind to this peer of this
 * run.
 */
static inline bool node_answer_hello(const struct node *node, uv_os_sock_t socket, struct pccl_wire_scratch *scratch,
                                     struct pccl_id *from)
{
    uint8_t frame[NODE_FRAME_MAX];
    struct pccl_msg hello;
    struct pccl_msg ok = {.type = PCCL_MSG_link_ok, .as.link_ok = {.version = PCCL_PROTOCOL_VERSION, .peer = node->id}};
    bool good = node_decode(frame, node_read_frame(socket, frame), scratch, &hello) &&
                hello.type == PCCL_MSG_link_hello && hello.as.link_hello.kind == node->work->kind &&
                pccl_id_equal(&hello.as.link_hello.to, &node->id) &&
                pccl_id_equal(&hello.as.link_hello.lineage, &node->lineage);
    if (!good)
        return false;
    *from = hello.as.link_hello.from;
    pccl_frame_encode(&ok, 0, 0, frame);
    (void)pccl_socket_write(socket, frame, pccl_frame_size(&ok));
    return true;
}

static inline void node_greet(struct node *node, uv_os_sock_t socket, struct pccl_wire_scratch *scratch)
{
    struct pccl_id from;
    if (!node_answer_hello(node, socket, scratch, &from)) {
        pccl_socket_close(socket);
        return;
    }
    struct pccl_handover handover = loopback_handover(socket, NULL, 0);
    if (pccl_worker_accept(node->worker, &from, &handover) != PCCL_OK)
        pccl_socket_close(socket);
    node_lock(node);
    node->accepted++;
    node_unlock(node);
}

static inline void node_accept(void *argument)
{
    struct node *node = argument;
    struct pccl_wire_scratch *scratch = malloc(sizeof *scratch);
    for (bool stop = false; !stop && scratch;) {
        uv_os_sock_t socket;
        struct pccl_address from;
        pccl_socket_wait_for(&node->wait, -1);
        node_lock(node);
        stop = node->stop_accepting;
        uv_mutex_unlock(&node->lock);
        while (!stop && pccl_socket_accept(node->listening, &socket, &from) == 0)
            node_greet(node, socket, scratch);
    }
    free(scratch);
}

static inline void node_listen(struct node *node)
{
    struct pccl_address any = pccl_address_v4(127, 0, 0, 1, 0);
    assert_int_equal(pccl_socket_wait_open(&node->wait), 0);
    assert_int_equal(pccl_socket_listen(&any, &node->listening), 0);
    assert_true(pccl_socket_share_input(&node->wait, node->listening, -1, true));
    assert_true(pccl_socket_local(node->listening, &node->address));
    assert_int_equal(uv_thread_create(&node->accepting, node_accept, node), 0);
}

static inline void node_stop_listening(struct node *node)
{
    node_set(node, &node->stop_accepting, true);
    pccl_socket_wake(&node->wait);
    assert_int_equal(uv_thread_join(&node->accepting), 0);
    pccl_socket_close(node->listening);
    pccl_socket_wait_close(&node->wait);
}

/* ---- the worker's thread ---- */

static inline void node_main(void *argument)
{
    struct node *node = argument;
    struct pccl_text failure;
    pccl_text_clear(&failure);
    struct pccl_worker *worker = NULL;
    enum pccl_status status = node->work->create(node, &worker, &failure);
    node_lock(node);
    node->status = status;
    node->worker = worker;
    node->failure = failure;
    node->created = true;
    node_unlock(node);
    if (status != PCCL_OK)
        return;
    pccl_worker_run(worker);
    node_lock(node);
    if (node->work->ran)
        node->work->ran(node);
    node->ran = true;
    uv_cond_broadcast(&node->changed);
    while (!node->leave)
        uv_cond_wait(&node->changed, &node->lock);
    uv_mutex_unlock(&node->lock);
    pccl_worker_destroy(worker);
}

/* Tries to create the worker; the node's status has the result. */
static inline void node_try(struct node *node)
{
    assert_int_equal(uv_thread_create(&node->thread, node_main, node), 0);
    node_until(node, &node->created);
}

static inline void node_run(struct node *node)
{
    node_try(node);
    if (node->status != PCCL_OK)
        fail_msg("%s", node->failure.bytes);
    node_listen(node);
}

/* Ends the node's run, whose result is known then. */
static inline void node_stop(struct node *node)
{
    pccl_worker_end(node->worker);
    node_until(node, &node->ran);
}

/* Stops listening, ends its run and closes its connections. */
static inline void node_end(struct node *node)
{
    node_stop_listening(node);
    pccl_worker_end(node->worker);
    node_set(node, &node->leave, true);
    assert_int_equal(uv_thread_join(&node->thread), 0);
}

static inline void node_finish(struct node *node)
{
    node_end(node);
    node_free(node);
}

/* ---- peers by hand ---- */

static inline void bare_write(int bare, const void *bytes, size_t length)
{
    const uint8_t *next = bytes;
    while (length > 0) {
        ssize_t moved = send(bare, next, length, MSG_NOSIGNAL);
        assert_true(moved > 0);
        next += moved;
        length -= (size_t)moved;
    }
}

static inline void bare_say(int bare, const struct pccl_msg *msg)
{
    uint8_t frame[NODE_FRAME_MAX];
    size_t size = pccl_frame_size(msg);
    assert_true(size <= sizeof frame);
    pccl_frame_encode(msg, 0, 0, frame);
    bare_write(bare, frame, size);
}

static inline void bare_hear(int bare, struct pccl_msg *msg)
{
    static struct pccl_wire_scratch scratch;
    static uint8_t frame[NODE_FRAME_MAX];
    *msg = (struct pccl_msg){.type = 0};
    loopback_read(bare, frame, PCCL_FRAME_HEADER_BYTES);
    size_t length = (size_t)frame[0] | (size_t)frame[1] << 8;
    assert_true(PCCL_FRAME_HEADER_BYTES + length <= sizeof frame);
    loopback_read(bare, frame + PCCL_FRAME_HEADER_BYTES, length);
    assert_true(node_decode(frame, PCCL_FRAME_HEADER_BYTES + length, &scratch, msg));
}

/* Waits until the other side closes the connection; discards the bytes it had sent before. */
static inline void bare_hear_end(int bare)
{
    static uint8_t bytes[65536];
    struct pollfd readable = {.fd = bare, .events = POLLIN};
    ssize_t got = 1;
    while (got > 0) {
        assert_int_equal(poll(&readable, 1, LOOPBACK_HANG_MS), 1);
        got = recv(bare, bytes, sizeof bytes, 0);
    }
}

/* Connects a peer that completes the handshake with a node that listens. */
static inline int bare_link(const struct node *node, const struct pccl_id *self, uint8_t slot)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_hello,
                           .as.link_hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                             .build = *pccl_build_own(),
                                             .lineage = node->lineage,
                                             .from = *self,
                                             .to = node->id,
                                             .kind = (uint8_t)node->work->kind,
                                             .slot = slot}};
    int bare = loopback_connect(node->address.port);
    bare_say(bare, &msg);
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_link_ok);
    return bare;
}

/* Accepts the next connection to a port that the test plays by hand; its hello is read and not answered. */
static inline int bare_next(int listening, enum pccl_link_kind kind, struct pccl_id *authentication)
{
    struct pccl_msg msg;
    struct pollfd readable = {.fd = listening, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, LOOPBACK_HANG_MS), 1);
    int bare = accept(listening, NULL, NULL);
    assert_true(bare >= 0);
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_link_hello);
    assert_int_equal(msg.as.link_hello.kind, kind);
    assert_int_equal(msg.as.link_hello.authentication.length, sizeof *authentication);
    memcpy(authentication, msg.as.link_hello.authentication.data, sizeof *authentication);
    return bare;
}

static inline void bare_greet(int bare, const struct pccl_id *self)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_ok, .as.link_ok = {.version = PCCL_PROTOCOL_VERSION, .peer = *self}};
    bare_say(bare, &msg);
}

/* ---- engines ---- */

/* One operation at one node. */
struct work {
    struct pccl_engine_job job;
    struct node *node;
    struct pccl_id ring[WORLD_NODES_MAX];
    /* under the lock of the node */
    bool done, at_rest, failed, released;
    enum pccl_class class;
    struct pccl_text reason;
};

static inline struct work *node_work_of(struct pccl_engine_job *job)
{
    return PCCL_CONTAINER_OF(job, struct work, job);
}

static inline void node_on_done(void *context, struct pccl_engine_job *job, bool at_rest)
{
    node_lock(context);
    node_work_of(job)->done = true;
    node_work_of(job)->at_rest = at_rest;
    node_unlock(context);
}

static inline void node_on_at_rest(void *context, struct pccl_engine_job *job)
{
    node_set(context, &node_work_of(job)->at_rest, true);
}

static inline void node_on_failed(void *context, struct pccl_engine_job *job, enum pccl_class class,
                                  const struct pccl_text *reason)
{
    node_lock(context);
    node_work_of(job)->failed = true;
    node_work_of(job)->class = class;
    node_work_of(job)->reason = *reason;
    node_unlock(context);
}

static inline void node_on_released(void *context, struct pccl_engine_job *job)
{
    node_set(context, &node_work_of(job)->released, true);
}

static inline void node_on_announced(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready)
{
    struct node *node = context;
    node_lock(node);
    node->now.announced++;
    node_unlock(node);
}

static inline void node_on_ended(void *context, const struct pccl_id *peer, bool outgoing, uint32_t slot,
                                 enum pccl_link_end how, bool purposely, const struct pccl_text *rejected)
{
    struct node *node = context;
    node_lock(node);
    node->now = (struct node_events){.ended = node->now.ended + 1,
                                     .announced = node->now.announced,
                                     .ended_peer = *peer,
                                     .ended_outgoing = outgoing,
                                     .ended_slot = slot,
                                     .ended_how = how,
                                     .ended_purposely = purposely,
                                     .ended_rejected = rejected != NULL};
    node_unlock(node);
}

/* Begins a node with an engine. */
static inline void engine_begin_with(struct node *node, uint8_t number, uint32_t linger_ms)
{
    struct pccl_text reason;
    node_init(node, number);
    struct pccl_engine_config config = {.self = node->id,
                                        .kernels = pccl_kernels_for(0),
                                        .scratch_bytes_max = 32 << 20,
                                        .window_bytes = 4 << 20,
                                        .linger_ms = linger_ms};
    struct pccl_engine_events events = {.context = node,
                                        .done = node_on_done,
                                        .at_rest = node_on_at_rest,
                                        .failed = node_on_failed,
                                        .released = node_on_released,
                                        .announced = node_on_announced,
                                        .ended = node_on_ended};
    assert_int_equal(pccl_engine_create(&config, &events, &node->engine, &reason), 0);
}

static inline void engine_begin(struct node *node, uint8_t number) { engine_begin_with(node, number, 5000); }

static inline void engine_end(struct node *node)
{
    pccl_engine_destroy(node->engine);
    node_free(node);
}

/* Sets both ends as the library's sockets are set. */
static inline void engine_sockets(uv_os_sock_t *dialed, uv_os_sock_t *accepted)
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

static inline void engine_add(struct node *node, const struct pccl_id *peer, bool outgoing, uint32_t slot,
                              uv_os_sock_t ours)
{
    struct pccl_handover handover = loopback_handover(ours, NULL, 0);
    assert_int_equal(pccl_engine_add(node->engine, peer, outgoing, slot, &handover), PCCL_OK);
}

static inline void engine_link(struct node *from, struct node *to, uint32_t slot)
{
    uv_os_sock_t dialed, accepted;
    engine_sockets(&dialed, &accepted);
    engine_add(from, &to->id, true, slot, dialed);
    engine_add(to, &from->id, false, slot, accepted);
}

/* Returns a bare, blocking socket to the node, which takes it for `peer`. */
static inline int engine_link_bare(struct node *node, const struct pccl_id *peer, bool outgoing, uint32_t slot,
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

/* Makes engines, numbered from 1. */
struct world {
    struct node nodes[WORLD_NODES_MAX];
    uint32_t ranks;
};

/* Links each node with each, in both directions, over `slots` connections. */
static inline void world_begin(struct world *world, uint32_t ranks, uint32_t slots)
{
    world->ranks = ranks;
    for (uint32_t i = 0; i < ranks; i++)
        engine_begin(&world->nodes[i], (uint8_t)(i + 1));
    for (uint32_t i = 0; i < ranks; i++)
        for (uint32_t j = 0; j < ranks; j++)
            for (uint32_t slot = 0; slot < slots && i != j; slot++)
                engine_link(&world->nodes[i], &world->nodes[j], slot);
}

static inline void world_end(struct world *world)
{
    for (uint32_t i = 0; i < world->ranks; i++)
        engine_end(&world->nodes[i]);
}

/* ---- operations ---- */

/* Fills in an f32 sum of `count` elements among the nodes 1 .. ranks. */
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

static inline void work_start(struct work *work) { (void)pccl_engine_start(work->node->engine, &work->job, false); }

static inline void work_stop(struct work *work, enum pccl_job_end end)
{
    pccl_engine_stop(work->node->engine, &work->job, end);
    node_until(work->node, &work->released);
}

#endif
