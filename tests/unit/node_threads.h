/*
 * Shared by the nodes of measure_node.h and sync_node.h: waiting for a node's threads, and the
 * thread that accepts the node's connections. Whoever includes this has defined `struct node`, with
 * its lock, and defines node_greet, the handshake and what follows it.
 */
#ifndef PCCL_TESTS_UNIT_NODE_THREADS_H
#define PCCL_TESTS_UNIT_NODE_THREADS_H

/* ---- waiting, on the test's thread ---- */

static inline void node_wait(struct node *node)
{
    if (uv_cond_timedwait(&node->changed, &node->lock, LOOPBACK_HANG_MS * UINT64_C(1000000)) != 0) {
        uv_mutex_unlock(&node->lock);
        fail_msg("node %u: nothing happened (%s)", node->id.bytes[0], node->reason.bytes);
    }
}

static inline void node_until(struct node *node, const bool *flag)
{
    uv_mutex_lock(&node->lock);
    while (!*flag)
        node_wait(node);
    uv_mutex_unlock(&node->lock);
}

static inline void node_until_count(struct node *node, const uint32_t *count, uint32_t least)
{
    uv_mutex_lock(&node->lock);
    while (*count < least)
        node_wait(node);
    uv_mutex_unlock(&node->lock);
}

static inline void node_set(struct node *node, bool *flag, bool value)
{
    uv_mutex_lock(&node->lock);
    *flag = value;
    uv_cond_broadcast(&node->changed);
    uv_mutex_unlock(&node->lock);
}

/* ---- accepting ---- */

static inline void node_greet(struct node *node, uv_os_sock_t socket, struct pccl_wire_scratch *scratch);

static inline void node_accept(void *argument)
{
    struct node *node = argument;
    struct pccl_wire_scratch *scratch = malloc(sizeof *scratch);
    for (bool stop = false; !stop && scratch;) {
        uv_os_sock_t socket;
        struct pccl_address from;
        pccl_socket_wait_for(&node->wait, -1);
        uv_mutex_lock(&node->lock);
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

#endif
