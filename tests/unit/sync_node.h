/* Nodes of world.h with a synchronizer, for the tests of sync/; and donors and requesters that are played by hand. */
#ifndef PCCL_TESTS_UNIT_SYNC_NODE_H
#define PCCL_TESTS_UNIT_SYNC_NODE_H

#include "core/prng.h"
#include "net/heap.h"
#include "world.h"

#include <time.h>

enum { NODE_CHUNK = PCCL_STATE_CHUNK_BYTES };

/* ---- events ---- */

static inline void node_on_touching(void *context)
{
    struct node *node = context;
    node_lock(node);
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
    node_lock(node);
    node->proven++;
    node->proof = proof ? *proof : (struct pccl_proof){0};
    node_unlock(node);
}

static inline void node_on_fetched(void *context, bool complete, const struct pccl_text *reason)
{
    struct node *node = context;
    node_lock(node);
    node->fetched++;
    node->complete = complete;
    node->reason = *reason;
    node_unlock(node);
}

static inline void node_on_log(void *context, enum pccl_log_level level, const char *line)
{
    const struct node *node = context;
    if (getenv("SYNC_TEST_LOG"))
        fprintf(stderr, "node %u: %d: %s\n", node->id.bytes[0], (int)level, line);
}

/* Sets the proof that the synchronizer computes when it has a plan, provided that all tensors are in host memory. */
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

/* ---- the worker ---- */

static inline enum pccl_status node_accept_link(struct pccl_worker *worker, const struct pccl_id *from,
                                                uv_os_sock_t ours, const uint8_t *rest, size_t length)
{
    struct pccl_handover handover = loopback_handover(ours, rest, length);
    return pccl_worker_accept(worker, from, &handover);
}

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

static inline enum pccl_status sync_create(struct node *node, struct pccl_worker **worker, struct pccl_text *reason)
{
    struct pccl_sync_config config = node_config(node);
    return pccl_synchronizer_create(&config, worker, reason);
}

static inline void sync_ran(struct node *node)
{
    pccl_synchronizer_traffic(node->worker, &node->sent, &node->received);
    pccl_text_clear(&node->torn);
    pccl_synchronizer_torn(node->worker, &node->torn);
    node->proof = pccl_synchronizer_state(node->worker)->proof;
}

static const struct node_work sync_work = {.kind = PCCL_LINK_STATE, .create = sync_create, .ran = sync_ran};

/* ---- life ---- */

static inline void node_prepare(struct node *node, uint8_t number)
{
    node_init(node, number);
    node->work = &sync_work;
    node->round = 5;
    node->silence_ms = 20000;
    node->patience_ms = 200;
}

static inline struct pccl_sync_tensor *node_add(struct node *node, const char *name, void *data, uint64_t bytes)
{
    assert_true(node->tensor_count < NODE_TENSORS_MAX);
    struct pccl_sync_tensor *tensor = &node->tensors[node->tensor_count++];
    *tensor = (struct pccl_sync_tensor){.name = name, .data = data, .count = bytes, .bytes = bytes, .datatype = 1};
    return tensor;
}

static inline void node_begin(struct node *node)
{
    node_prove(node);
    node_run(node);
}

static inline void node_serve(struct node *node)
{
    uint32_t before = node->proven;
    pccl_synchronizer_plan(node->worker, false, false);
    node_until_count(node, &node->proven, before + 1);
}

/* address NULL: the peer has no address. */
static inline void node_name(struct pccl_worker *worker, const struct pccl_id *donor, const struct pccl_proof *proof,
                             const struct pccl_address *address)
{
    const struct pccl_sync_named named = {.peer = *donor,
                                          .ticket = *donor,
                                          .holds_unequal = true,
                                          .proof = *proof,
                                          .candidates = address,
                                          .candidate_count = address != NULL};
    pccl_synchronizer_donor(worker, &named);
}

static inline void node_name_donor(struct node *node, const struct node *donor)
{
    node_name(node->worker, &donor->id, &donor->proof, &donor->address);
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

static inline void bare_want(int bare, const struct node *of, enum pccl_want_kind what, uint32_t tensor, uint64_t first,
                             uint32_t count)
{
    struct pccl_msg msg = {
        .type = PCCL_MSG_state_want,
        .as.state_want = {.round = of->round, .what = (uint8_t)what, .tensor = tensor, .first = first, .count = count}};
    bare_say(bare, &msg);
}

/* A requester. */
static inline int bare_dial(const struct node *donor, const struct pccl_id *self) { return bare_link(donor, self, 0); }

/* A donor's port by hand: the next connection, after the handshake. */
static inline int bare_accept(int listening, const struct pccl_id *self)
{
    struct pccl_id named;
    int bare = bare_next(listening, PCCL_LINK_STATE, &named);
    assert_true(pccl_id_equal(&named, self)); /* the hello is for this donor */
    bare_greet(bare, self);
    return bare;
}

#endif
