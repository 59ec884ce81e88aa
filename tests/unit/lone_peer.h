/* A peer's machine alone, for tests: the effects are counted, and the test is its master. */
#ifndef PCCL_UNIT_LONE_PEER_H
#define PCCL_UNIT_LONE_PEER_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/reduce.h"
#include "support/peer_check.h"
#include "peer/queries.h"
#include "peer/state.h"
#include "support.h"

struct world {
    struct test_memory memory;
    struct pccl_peer *peer;
    uint64_t now_us, sequence;
    uint32_t dials, starts, stops, decisions, descriptions, no_descriptions;
    uint32_t calls_done[PCCL_CALL_OPTIMIZE + 1];
    enum pccl_status call_status[PCCL_CALL_OPTIMIZE + 1];
    jmp_buf broken;
    bool breaks; /* an invariant breaks when the machine logs next */
};

static void on_nothing(void *context) { (void)context; }
static void on_send(void *context, const uint8_t *bytes, size_t length) {}
static void on_dial_link(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                         const struct pccl_address *candidates, uint32_t count, bool reversed)
{
    ((struct world *)context)->dials++;
}
static void on_dial_back(void *context, const struct pccl_msg_dial_back *request) {}
static void on_cut_link(void *context, const struct pccl_id *peer, uint64_t number) {}

static void on_close_link(void *context, const struct pccl_id *peer, bool incoming) {}
static void on_call_done(void *context, enum pccl_call call, enum pccl_status status, bool value)
{
    struct world *w = context;
    w->calls_done[call]++;
    w->call_status[call] = status;
}
static void on_op_decided(void *context, struct pccl_peer_op *op) { ((struct world *)context)->decisions++; }
static void on_op_start(void *context, struct pccl_peer_op *op) { ((struct world *)context)->starts++; }
static void on_op_stop(void *context, struct pccl_peer_op *op) { ((struct world *)context)->stops++; }
static void on_ring_changed(void *context, const struct pccl_id *ring, uint32_t count) {}
static void on_described(void *context, const struct pccl_bytes *text)
{
    struct world *w = context;
    w->descriptions++;
    w->no_descriptions += text == NULL;
}
static void on_log(void *context, enum pccl_log_level level, const char *line)
{
    struct world *w = context;
    if (w->breaks) {
        w->breaks = false;
        longjmp(w->broken, 1);
    }
}

static const struct pccl_id me = {{1}};

static enum pccl_status step(struct world *w, struct pccl_peer_event event)
{
    event.now_us = ++w->now_us;
    enum pccl_status status = pccl_peer_step(w->peer, &event);
    assert_null(pccl_peer_check(w->peer));
    return status;
}

static void receive(struct world *w, struct pccl_msg msg)
{
    bool numbered = msg.type != PCCL_MSG_hello_ok;
    struct pccl_frame frame = {.type = (uint16_t)msg.type, .sequence = numbered ? ++w->sequence : 0};
    step(w, (struct pccl_peer_event){.kind = PCCL_PEER_MASTER_RECEIVED, .frame = &frame, .msg = &msg});
}

/* Connects the peer, which waits to be admitted. */
static void begin(struct world *w)
{
    struct pccl_peer_effects effects = {.context = w,
                                        .dial_master = on_nothing,
                                        .close_master = on_nothing,
                                        .send_master = on_send,
                                        .accept_master = on_nothing,
                                        .dial_link = on_dial_link,
                                        .close_link = on_close_link,
                                        .dial_back = on_dial_back,
                                        .cut_link = on_cut_link,
                                        .call_done = on_call_done,
                                        .op_decided = on_op_decided,
                                        .op_start = on_op_start,
                                        .op_stop = on_op_stop,
                                        .ring_changed = on_ring_changed,
                                        .described = on_described,
                                        .log = on_log};
    struct pccl_peer_config config = pccl_peer_defaults();
    config.id = me;
    memset(w, 0, sizeof *w);
    test_memory_init(&w->memory);
    w->peer = pccl_peer_create(&config, &w->memory.memory, &effects, w->now_us);
    assert_non_null(w->peer);
    assert_int_equal(step(w, (struct pccl_peer_event){.kind = PCCL_PEER_CALL, .call = PCCL_CALL_CONNECT}), PCCL_OK);
    step(w, (struct pccl_peer_event){.kind = PCCL_PEER_MASTER_UP});
    receive(w, (struct pccl_msg){.type = PCCL_MSG_hello_ok,
                                 .as.hello_ok = {.build = {.version = PCCL_PROTOCOL_VERSION},
                                                 .boot = 7,
                                                 .mode = PCCL_HELLO_NEW,
                                                 .silence_ms = 10000,
                                                 .heartbeat_ms = 2500,
                                                 .tiny_bytes_max = 8}});
}

static void end(struct world *w)
{
    pccl_peer_destroy(w->peer);
    assert_int_equal(w->memory.live_blocks, 0);
}

#endif
