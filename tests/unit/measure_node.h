/* Nodes of world.h with a measurer, for the tests of measure/; and peers that are played by hand. */
#ifndef PCCL_TESTS_UNIT_MEASURE_NODE_H
#define PCCL_TESTS_UNIT_MEASURE_NODE_H

#include "world.h"

/* ---- events ---- */

static inline void node_on_measured(void *context, const struct pccl_measure_result *result)
{
    struct node *node = context;
    node_lock(node);
    if (node->measured < NODE_RESULTS_MAX)
        node->results[node->measured] = *result;
    node->measured++;
    node_unlock(node);
}

static inline void node_on_log(void *context, enum pccl_log_level level, const char *line)
{
    struct node *node = context;
    uv_mutex_lock(&node->lock);
    pccl_text_format(&node->reason, "%s", line);
    if (level == PCCL_LOG_WARN) {
        node->warned++;
        node->warning = node->reason;
    }
    bool over = strstr(line, "a connection from peer") != NULL;
    node->over += over;
    node->held = over && node->hold;
    uv_cond_broadcast(&node->changed);
    while (over && node->hold)
        uv_cond_wait(&node->changed, &node->lock);
    node->held = false;
    uv_mutex_unlock(&node->lock);
    if (getenv("MEASURE_TEST_LOG"))
        fprintf(stderr, "node %u: %d: %s\n", node->id.bytes[0], (int)level, line);
}

/* ---- the worker ---- */

static inline enum pccl_status measure_create(struct node *node, struct pccl_worker **worker, struct pccl_text *reason)
{
    struct pccl_measure_config config = {.worker = {.self = node->id,
                                                    .lineage = node->lineage,
                                                    .stagger_ms = 50,
                                                    .log = {node, node_on_log},
                                                    .context = node},
                                         .streams_long = node->streams_long,
                                         .streams_short = node->streams_short,
                                         .dial_ms = node->dial_ms,
                                         .measured = node_on_measured};
    return pccl_measurer_create(&config, worker, reason);
}

static const struct node_work measure_work = {.kind = PCCL_LINK_MEASURE, .create = measure_create};

/* ---- life ---- */

static inline void node_prepare(struct node *node, uint8_t number)
{
    node_init(node, number);
    node->work = &measure_work;
    node->streams_long = 6;
    node->streams_short = 1;
    node->dial_ms = 10000;
}

static inline void node_begin(struct node *node) { node_run(node); }

static inline void node_make(struct node *node, uint8_t number)
{
    node_prepare(node, number);
    node_begin(node);
}

/* ---- orders and results ---- */

static inline void node_order(struct node *node, uint64_t test, uint8_t peer, const struct pccl_address *address,
                              uint32_t limit_ms)
{
    struct pccl_measure_order order = {.test = test,
                                       .peer = node_id(peer),
                                       .ticket = node_id(peer),
                                       .limit_ms = limit_ms,
                                       .candidates = {*address},
                                       .candidate_count = 1};
    pccl_measurer_order(node->worker, &order);
}

/* The result number `count`, from 1. */
static inline struct pccl_measure_result node_result(struct node *node, uint32_t count)
{
    node_until_count(node, &node->measured, count);
    assert_true(count <= NODE_RESULTS_MAX);
    return node->results[count - 1];
}

static inline struct pccl_measure_result node_expect_rate(struct node *node, uint32_t count)
{
    struct pccl_measure_result result = node_result(node, count);
    if (result.failed)
        fail_msg("node %u: test failed, how %u: %s", node->id.bytes[0], result.how, node->reason.bytes);
    assert_true(result.rate > 0);
    assert_true(result.rtt_us > 0);
    return result;
}

static inline void node_expect_failure(struct node *node, uint32_t count, unsigned how)
{
    struct pccl_measure_result result = node_result(node, count);
    assert_true(result.failed);
    assert_int_equal(result.how, how);
    assert_int_equal(result.rate, 0);
}

/* ---- peers by hand ---- */

static inline int bare_listen(struct pccl_address *address)
{
    uint16_t port;
    int listening = loopback_listen(&port);
    *address = pccl_address_v4(127, 0, 0, 1, port);
    return listening;
}

/* Accepts the next connection to the port of a tested peer that the test plays; reads its hello without an answer. */
static inline int bare_accept(int listening)
{
    struct pccl_id ignored;
    return bare_next(listening, PCCL_LINK_MEASURE, &ignored);
}

static inline void bare_welcome(int bare, uint8_t self)
{
    const struct pccl_id id = node_id(self);
    bare_greet(bare, &id);
}

static inline void bare_echo(int bare)
{
    struct pccl_msg msg;
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_echo);
    assert_int_equal(msg.as.echo.answer, 0);
    msg.as.echo.answer = 1;
    bare_say(bare, &msg);
}

static inline void bare_seen(int bare, uint64_t bytes)
{
    struct pccl_msg msg = {.type = PCCL_MSG_flood_seen, .as.flood_seen = {.bytes = bytes}};
    bare_say(bare, &msg);
}

#endif
