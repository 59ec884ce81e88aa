/*
 * Shared by the tests of measure/: nodes, each a measurer on a thread of its own, and a thread that
 * accepts connections and does the handshake as a communicator would; and peers played by hand over
 * bare sockets.
 */
#ifndef PCCL_TESTS_UNIT_MEASURE_NODE_H
#define PCCL_TESTS_UNIT_MEASURE_NODE_H

#include "measure/measurer.h"
#include "node_frames.h"
#include "net/build.h"

enum { NODE_RESULTS_MAX = 16 };

struct node {
    struct pccl_id id, lineage;
    uint32_t streams_long, streams_short, dial_ms;
    struct pccl_worker *measurer;
    uv_thread_t thread, accepting;
    struct pccl_socket_wait wait; /* of the accepting thread */
    uv_os_sock_t listening;
    struct pccl_address address;

    /* under the lock */
    uv_mutex_t lock;
    uv_cond_t changed;
    bool created, ran, leave, stop_accepting;
    bool hold, held; /* hold: the measurer's thread stays inside the log line about a connection's end */
    struct pccl_measure_result results[NODE_RESULTS_MAX];
    uint32_t measured, accepted, warned, over; /* over: connections of others that have ended */
    struct pccl_text reason;                   /* of the last log line, and the last warning */
    struct pccl_text warning;
};

#include "node_threads.h" /* needs struct node */

/* ---- events ---- */

static inline void node_on_measured(void *context, const struct pccl_measure_result *result)
{
    struct node *node = context;
    uv_mutex_lock(&node->lock);
    if (node->measured < NODE_RESULTS_MAX)
        node->results[node->measured] = *result;
    node->measured++;
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
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
    bool over = strstr(line, "a connection of peer") != NULL;
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

/* ---- threads ---- */

static inline void node_main(void *argument)
{
    struct node *node = argument;
    struct pccl_measure_config config = {.worker = {.self = node->id,
                                                    .lineage = node->lineage,
                                                    .stagger_ms = 50,
                                                    .log = {node, node_on_log},
                                                    .context = node},
                                         .streams_long = node->streams_long,
                                         .streams_short = node->streams_short,
                                         .dial_ms = node->dial_ms,
                                         .measured = node_on_measured};
    struct pccl_worker *measurer = NULL;
    struct pccl_text failure;
    pccl_text_clear(&failure);
    enum pccl_status status = pccl_measurer_create(&config, &measurer, &failure);
    uv_mutex_lock(&node->lock);
    node->measurer = status == PCCL_OK ? measurer : NULL;
    node->reason = failure;
    node->created = true;
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
    if (status != PCCL_OK)
        return;
    pccl_worker_run(measurer);
    uv_mutex_lock(&node->lock);
    node->ran = true;
    uv_cond_broadcast(&node->changed);
    while (!node->leave)
        uv_cond_wait(&node->changed, &node->lock);
    uv_mutex_unlock(&node->lock);
    pccl_worker_destroy(measurer);
}

static inline void node_greet(struct node *node, uv_os_sock_t socket, struct pccl_wire_scratch *scratch)
{
    struct pccl_id from;
    bool good = node_answer_hello(socket, PCCL_LINK_MEASURE, &node->id, &node->lineage, scratch, &from);
    if (!good) {
        pccl_socket_close(socket);
        return;
    }
    struct pccl_handover handover = loopback_handover(socket, NULL, 0);
    if (pccl_worker_accept(node->measurer, &from, &handover) != PCCL_OK)
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
    node->streams_long = 6;
    node->streams_short = 1;
    node->dial_ms = 10000;
    pccl_text_clear(&node->reason);
    assert_int_equal(uv_mutex_init(&node->lock), 0);
    assert_int_equal(uv_cond_init(&node->changed), 0);
}

static inline void node_begin(struct node *node)
{
    assert_int_equal(uv_thread_create(&node->thread, node_main, node), 0);
    node_until(node, &node->created);
    if (!node->measurer)
        fail_msg("%s", node->reason.bytes);
    node_listen(node);
}

static inline void node_make(struct node *node, uint8_t number)
{
    node_prepare(node, number);
    node_begin(node);
}

/* Ends its run, closes its connections and stops listening. */
static inline void node_finish(struct node *node)
{
    node_set(node, &node->stop_accepting, true);
    pccl_socket_wake(&node->wait);
    assert_int_equal(uv_thread_join(&node->accepting), 0);
    pccl_socket_close(node->listening);
    pccl_socket_wait_close(&node->wait);
    pccl_worker_end(node->measurer);
    node_until(node, &node->ran);
    node_set(node, &node->leave, true);
    assert_int_equal(uv_thread_join(&node->thread), 0);
    uv_cond_destroy(&node->changed);
    uv_mutex_destroy(&node->lock);
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
    pccl_measurer_order(node->measurer, &order);
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

/* A peer that tests its path to the node, after the handshake. */
static inline int bare_dial(const struct node *node, const struct pccl_id *self, uint8_t slot)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_hello,
                           .as.link_hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                             .build = *pccl_build_own(),
                                             .lineage = node->lineage,
                                             .from = *self,
                                             .to = node->id,
                                             .kind = PCCL_LINK_MEASURE,
                                             .slot = slot}};
    int bare = loopback_connect(node->address.port);
    bare_say(bare, &msg);
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_link_ok);
    return bare;
}

static inline int bare_listen(struct pccl_address *address)
{
    uint16_t port;
    int listening = loopback_listen(&port);
    *address = pccl_address_v4(127, 0, 0, 1, port);
    return listening;
}

/* A tested peer's port by hand: the next connection; its hello is heard and not answered. */
static inline int bare_accept(int listening)
{
    struct pccl_msg msg;
    struct pollfd readable = {.fd = listening, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, LOOPBACK_HANG_MS), 1);
    int bare = accept(listening, NULL, NULL);
    assert_true(bare >= 0);
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_link_hello);
    assert_int_equal(msg.as.link_hello.kind, PCCL_LINK_MEASURE);
    assert_int_equal(msg.as.link_hello.authentication.length, sizeof(struct pccl_id));
    return bare;
}

static inline void bare_welcome(int bare, uint8_t self)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_ok,
                           .as.link_ok = {.version = PCCL_PROTOCOL_VERSION, .peer = node_id(self)}};
    bare_say(bare, &msg);
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
