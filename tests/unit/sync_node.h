/*
 * Shared by the tests of sync/: nodes, each a synchronizer on a thread of its own, and a thread that
 * accepts connections and does the handshake as a communicator would; and peers played by hand over
 * bare sockets.
 */
#ifndef PCCL_TESTS_UNIT_SYNC_NODE_H
#define PCCL_TESTS_UNIT_SYNC_NODE_H

#include "core/prng.h"
#include "node_frames.h"
#include "net/build.h"
#include "net/heap.h"
#include "sync/copiers.h"

#include <time.h>

enum { NODE_TENSORS_MAX = 8, NODE_CHUNK = PCCL_STATE_CHUNK_BYTES };

struct node {
    struct pccl_id id, lineage;
    uint64_t round;
    struct pccl_sync_tensor tensors[NODE_TENSORS_MAX];
    struct pccl_sync_tensor *many; /* instead of these */
    uint32_t tensor_count, threads, silence_ms, patience_ms;
    struct pccl_worker *synchronizer;
    uv_thread_t thread, accepting;
    struct pccl_socket_wait wait; /* of the accepting thread */
    uv_os_sock_t listening;
    struct pccl_address address;

    /* under the lock */
    uv_mutex_t lock;
    uv_cond_t changed;
    bool created, ran, leave, stop_accepting;
    bool hold_touching, touching;      /* stays inside `touching` until it is not held any more */
    uint32_t touched, proven, fetched; /* events so far */
    bool complete;                     /* of the last fetched */
    struct pccl_text reason, torn, failure;
    enum pccl_status status; /* of create */
    struct pccl_proof proof;
    uint64_t sent, received;
    uint32_t accepted;
};

#include "node_threads.h" /* needs struct node */

/* ---- events ---- */

static inline void node_on_touching(void *context)
{
    struct node *node = context;
    uv_mutex_lock(&node->lock);
    node->touched++;
    node->touching = true;
    uv_cond_broadcast(&node->changed);
    while (node->hold_touching)
        uv_cond_wait(&node->changed, &node->lock);
    node->touching = false;
    uv_mutex_unlock(&node->lock);
}

static inline void node_on_proven(void *context, const struct pccl_proof *proof)
{
    struct node *node = context;
    uv_mutex_lock(&node->lock);
    node->proven++;
    node->proof = proof ? *proof : (struct pccl_proof){0};
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
}

static inline void node_on_fetched(void *context, bool complete, const struct pccl_text *reason)
{
    struct node *node = context;
    uv_mutex_lock(&node->lock);
    node->fetched++;
    node->complete = complete;
    node->reason = *reason;
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
}

static inline void node_on_log(void *context, enum pccl_log_level level, const char *line)
{
    const struct node *node = context;
    if (getenv("SYNC_TEST_LOG"))
        fprintf(stderr, "node %u: %d: %s\n", node->id.bytes[0], (int)level, line);
}

/* What its synchronizer finds out when it has a plan; if all is memory of the host. */
static inline void node_prove(struct node *node)
{
    struct pccl_tensor tensors[NODE_TENSORS_MAX] = {0};
    struct pccl_state state;
    for (uint32_t i = 0; i < node->tensor_count; i++) {
        if (node->many || node->tensors[i].device)
            return;
        tensors[i].name = node->tensors[i].name;
        tensors[i].bytes = node->tensors[i].bytes;
        tensors[i].unequal = node->tensors[i].unequal;
    }
    assert_int_equal(pccl_state_init(&state, pccl_kernels_for(0), pccl_heap(), tensors, node->tensor_count), PCCL_OK);
    for (uint32_t i = 0; i < node->tensor_count; i++)
        for (uint64_t k = 0; k < state.tensors[i].chunks; k++)
            state.proofs[state.tensors[i].first_chunk + k] = pccl_proof_bytes(
                state.kernels, pccl_sync_chunk(&node->tensors[i], k), pccl_state_chunk_length(&state.tensors[i], k));
    pccl_state_prove(&state);
    node->proof = state.proof;
    pccl_state_fini(&state);
}

/* ---- threads ---- */

static inline struct pccl_sync_config node_config(struct node *node)
{
    return (struct pccl_sync_config){.kernels = pccl_kernels_for(0),
                                     .worker = {.self = node->id,
                                                .lineage = node->lineage,
                                                .silence_ms = node->silence_ms,
                                                .stagger_ms = 50,
                                                .log = {node, node_on_log},
                                                .context = node},
                                     .round = node->round,
                                     .tensors = node->many ? node->many : node->tensors,
                                     .tensor_count = node->tensor_count,
                                     .threads = node->threads,
                                     .patience_ms = node->patience_ms,
                                     .touching = node_on_touching,
                                     .proven = node_on_proven,
                                     .fetched = node_on_fetched};
}

static inline void node_main(void *argument)
{
    struct node *node = argument;
    struct pccl_sync_config config = node_config(node);
    struct pccl_worker *synchronizer = NULL;
    struct pccl_text failure;
    pccl_text_clear(&failure);
    enum pccl_status status = pccl_synchronizer_create(&config, &synchronizer, &failure);
    uv_mutex_lock(&node->lock);
    node->status = status;
    node->failure = failure;
    node->synchronizer = synchronizer;
    node->created = true;
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
    if (!synchronizer)
        return;
    pccl_worker_run(synchronizer);
    uv_mutex_lock(&node->lock);
    pccl_synchronizer_traffic(synchronizer, &node->sent, &node->received);
    pccl_text_clear(&node->torn);
    pccl_synchronizer_torn(synchronizer, &node->torn);
    node->proof = pccl_synchronizer_state(synchronizer)->proof;
    node->ran = true;
    uv_cond_broadcast(&node->changed);
    while (!node->leave)
        uv_cond_wait(&node->changed, &node->lock);
    uv_mutex_unlock(&node->lock);
    pccl_worker_destroy(synchronizer);
}

static inline enum pccl_status node_accept_link(struct pccl_worker *synchronizer, const struct pccl_id *from,
                                                uv_os_sock_t ours, const uint8_t *rest, size_t length)
{
    struct pccl_handover handover = loopback_handover(ours, rest, length);
    return pccl_worker_accept(synchronizer, from, &handover);
}

static inline void node_greet(struct node *node, uv_os_sock_t socket, struct pccl_wire_scratch *scratch)
{
    struct pccl_id from;
    bool good = node_answer_hello(socket, PCCL_LINK_STATE, &node->id, &node->lineage, scratch, &from);
    if (!good) {
        pccl_socket_close(socket);
        return;
    }
    if (node_accept_link(node->synchronizer, &from, socket, NULL, 0) != PCCL_OK)
        pccl_socket_close(socket);
    uv_mutex_lock(&node->lock);
    node->accepted++;
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
}

/* ---- life ---- */

static inline void node_prepare(struct node *node, uint8_t number)
{
    memset(node, 0, sizeof *node);
    node->id = node_id(number);
    node->lineage = node_id(77);
    node->round = 5;
    node->silence_ms = 20000;
    node->patience_ms = 200;
    assert_int_equal(uv_mutex_init(&node->lock), 0);
    assert_int_equal(uv_cond_init(&node->changed), 0);
}

static inline struct pccl_sync_tensor *node_add(struct node *node, const char *name, void *data, uint64_t bytes)
{
    assert_true(node->tensor_count < NODE_TENSORS_MAX);
    struct pccl_sync_tensor *tensor = &node->tensors[node->tensor_count++];
    *tensor = (struct pccl_sync_tensor){.name = name, .data = data, .count = bytes, .bytes = bytes, .datatype = 1};
    return tensor;
}

static inline void node_try(struct node *node)
{
    assert_int_equal(uv_thread_create(&node->thread, node_main, node), 0);
    node_until(node, &node->created);
}

static inline void node_begin(struct node *node)
{
    node_prove(node);
    node_try(node);
    if (node->status != PCCL_OK)
        fail_msg("%s", node->failure.bytes);
    node_listen(node);
}

/* Ends its run, whose result is known then. */
static inline void node_stop(struct node *node)
{
    pccl_worker_end(node->synchronizer);
    node_until(node, &node->ran);
}

/* Closes its connections and stops listening. */
static inline void node_end(struct node *node)
{
    uv_mutex_lock(&node->lock);
    node->stop_accepting = true;
    uv_mutex_unlock(&node->lock);
    pccl_socket_wake(&node->wait);
    assert_int_equal(uv_thread_join(&node->accepting), 0);
    pccl_socket_close(node->listening);
    pccl_socket_wait_close(&node->wait);
    pccl_worker_end(node->synchronizer);
    node_set(node, &node->leave, true);
    assert_int_equal(uv_thread_join(&node->thread), 0);
}

static inline void node_free(struct node *node)
{
    uv_cond_destroy(&node->changed);
    uv_mutex_destroy(&node->lock);
}

static inline void node_finish(struct node *node)
{
    node_end(node);
    node_free(node);
}

static inline void node_serve(struct node *node)
{
    uint32_t before = node->proven;
    pccl_synchronizer_plan(node->synchronizer, false, false);
    node_until_count(node, &node->proven, before + 1);
}

/* address NULL: it has none. */
static inline void node_name(struct pccl_worker *synchronizer, const struct pccl_id *donor,
                             const struct pccl_proof *proof, const struct pccl_address *address)
{
    const struct pccl_sync_named named = {.peer = *donor,
                                          .ticket = *donor,
                                          .holds_unequal = true,
                                          .proof = *proof,
                                          .candidates = address,
                                          .candidate_count = address != NULL};
    pccl_synchronizer_donor(synchronizer, &named);
}

static inline void node_name_donor(struct node *node, const struct node *donor)
{
    node_name(node->synchronizer, &donor->id, &donor->proof, &donor->address);
}

/* ---- memory and expectations ---- */

static inline void fill(uint8_t *bytes, size_t length, uint64_t seed)
{
    struct pccl_prng prng;
    pccl_prng_seed(&prng, seed);
    for (size_t i = 0; i + 8 <= length; i += 8) {
        uint64_t word = pccl_prng_u64(&prng);
        memcpy(bytes + i, &word, 8);
    }
    for (size_t i = length & ~(size_t)7; i < length; i++)
        bytes[i] = (uint8_t)(seed + i);
}

static inline uint8_t *make(size_t length, uint64_t seed)
{
    uint8_t *bytes = malloc(length + 1);
    assert_non_null(bytes);
    fill(bytes, length, seed);
    return bytes;
}

/* One node with one tensor. */
static inline uint8_t *prepare_one(struct node *node, uint8_t number, size_t length, uint64_t seed)
{
    uint8_t *bytes = make(length, seed);
    node_prepare(node, number);
    (void)node_add(node, "weights", bytes, length);
    return bytes;
}

static inline void expect_fetched(struct node *node, uint32_t count)
{
    node_until_count(node, &node->fetched, count);
    if (!node->complete)
        fail_msg("node %u: %s", node->id.bytes[0], node->reason.bytes);
}

static inline void expect_failure(struct node *node, const char *reason)
{
    node_until_count(node, &node->fetched, 1);
    assert_false(node->complete);
    if (strstr(node->reason.bytes, reason) == NULL)
        fail_msg("'%s' is not in: %s", reason, node->reason.bytes);
}

/* ---- peers by hand ---- */

static inline void bare_want(int bare, const struct node *of, enum pccl_want_what what, uint32_t tensor, uint64_t first,
                             uint32_t count)
{
    struct pccl_msg msg = {
        .type = PCCL_MSG_state_want,
        .as.state_want = {.round = of->round, .what = (uint8_t)what, .tensor = tensor, .first = first, .count = count}};
    bare_say(bare, &msg);
}

/* A requester that has been through the handshake. */
static inline int bare_dial(const struct node *donor, const struct pccl_id *self)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_hello,
                           .as.link_hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                             .build = *pccl_build_own(),
                                             .lineage = donor->lineage,
                                             .from = *self,
                                             .to = donor->id,
                                             .kind = PCCL_LINK_STATE}};
    int bare = loopback_connect(donor->address.port);
    bare_say(bare, &msg);
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_link_ok);
    return bare;
}

/* A donor's port by hand: the next connection, after the handshake. */
static inline int bare_accept(int listening, const struct pccl_id *self)
{
    struct pccl_msg msg;
    struct pollfd readable = {.fd = listening, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, LOOPBACK_HANG_MS), 1);
    int bare = accept(listening, NULL, NULL);
    assert_true(bare >= 0);
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_link_hello);
    assert_int_equal(msg.as.link_hello.kind, PCCL_LINK_STATE);
    assert_int_equal(msg.as.link_hello.authentication.length, sizeof *self);
    assert_memory_equal(msg.as.link_hello.authentication.data, self, sizeof *self); /* as it was named */
    msg = (struct pccl_msg){.type = PCCL_MSG_link_ok, .as.link_ok = {.version = PCCL_PROTOCOL_VERSION, .peer = *self}};
    bare_say(bare, &msg);
    return bare;
}

#endif
