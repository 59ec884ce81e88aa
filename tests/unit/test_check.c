/*
 * The rules of the machines' own state: they hold for a machine that runs, and each broken one is
 * reported with a reason.
 */
#include "unit.h"
#include "master/membership.h"
#include "master/state.h"
#include "support/master_check.h"
#include "support/peer_check.h"
#include "peer/state.h"
#include "support.h"
#include "unit/rules.h"

/* ---- a master with its first member, and a peer that waits in another group ---- */

static void on_send(void *context, pccl_conn conn, const uint8_t *bytes, size_t length) {}
static void on_conn(void *context, pccl_conn conn) {}
static void on_log(void *context, enum pccl_log_level level, const char *line, const struct pccl_log_fields *fields) {}
static bool on_probe(void *context, const struct pccl_id *peer, const struct pccl_id *lineage,
                     const struct pccl_id *ticket, const struct pccl_address *address)
{
    (void)context, (void)ticket;
    return true;
}
static void on_stop_solving(void *context, uint64_t ticket) {}

static const struct pccl_master_effects master_effects = {.send = on_send,
                                                          .accept = on_conn,
                                                          .close = on_conn,
                                                          .probe = on_probe,
                                                          .stop_solving = on_stop_solving,
                                                          .log = on_log};

static void come(struct pccl_master *m, pccl_conn conn, uint32_t group)
{
    struct pccl_frame frame = {.type = PCCL_MSG_hello};
    struct pccl_msg msg = {
        .type = PCCL_MSG_hello,
        .as.hello = {
            .build = {.version = PCCL_PROTOCOL_VERSION}, .peer = {{(uint8_t)conn}}, .token = {{1}}, .group = group}};
    struct pccl_master_event event = {.kind = PCCL_MASTER_OPENED, .now_us = 2, .conn = conn};
    pccl_master_step(m, &event);
    assert_null(pccl_master_check(m));
    event.kind = PCCL_MASTER_RECEIVED;
    event.frame = &frame;
    event.msg = &msg;
    pccl_master_step(m, &event);
    assert_null(pccl_master_check(m));
}

static struct pccl_master *make_master(struct test_memory *memory)
{
    struct pccl_master_config config = pccl_master_defaults();
    config.boot = 7;
    test_memory_init(memory);
    struct pccl_master *m = pccl_master_create(&config, &memory->memory, &master_effects, 1);
    assert_non_null(m);
    assert_null(pccl_master_check(m));
    come(m, 1, 0);
    come(m, 2, 1);
    assert_int_equal(pccl_master_count(m).members, 1);
    assert_int_equal(pccl_master_count(m).pending, 1);
    assert_null(pccl_master_check(m));
    return m;
}

TEST(master_rules)
{
    struct test_memory memory;
    struct pccl_master *m = make_master(&memory);
    struct pccl_remote *member = m->remotes[0];
    struct pccl_remote *newcomer = m->remotes[1];
    struct pccl_peer_group *group = m->groups[0];
    BREAKS(pccl_master_check, m, m->member_count, 2, "the number of members is right");
    BREAKS(pccl_master_check, m, m->departing_count, 1, "the number of departing peers is right");
    BREAKS(pccl_master_check, m, m->due, 1, "no stage stays due unless a departure is pending");
    BREAKS(pccl_master_check, m, m->newcomer_count, 2, "the number of newcomers is right");
    BREAKS(pccl_master_check, m, m->founded, false, "a master with members has a run and does not recover");
    BREAKS(pccl_master_check, m, m->deadline_us, UINT64_MAX, "silence is noticed in time");
    BREAKS(pccl_master_check, m, member->state, PCCL_REMOTE_PENDING, "members are in a group, and other peers are not");
    BREAKS(pccl_master_check, m, member->position, 1, "a member is at its position");
    BREAKS(pccl_master_check, m, member->group_number, 1, "a member is in the group that it chose");
    BREAKS(pccl_master_check, m, member->votes[PCCL_ROUND_SYNC], true,
           "only members vote, and a synchronization has no joint vote");
    BREAKS(pccl_master_check, m, member->session.sent, 9,
           "a session keeps exactly the messages that are not acknowledged");
    BREAKS(pccl_master_check, m, newcomer->queue->count, 2, "a queue is not empty, and its count is right");
    BREAKS(pccl_master_check, m, newcomer->log_us, 3, "a newcomer that nobody admits is logged in time");
    BREAKS(pccl_master_check, m, group->behind, 5, "the number of members that are behind is right");
    BREAKS(pccl_master_check, m, group->changed, true, "a ring changes and its epoch is made in one step");
    BREAKS(pccl_master_check, m, group->held_count, 1, "the number of held aborts is right");
    BREAKS(pccl_master_check, m, group->view.number, 9, "a view is not newer than the epoch of the run");
    pccl_master_destroy(m);
    assert_int_equal(memory.live_blocks, 0);
}

/* ---- a peer that connects ---- */

static void on_nothing(void *context) { (void)context; }
static void on_bytes(void *context, const uint8_t *bytes, size_t length) {}
static void on_call_done(void *context, enum pccl_call call, enum pccl_status status, bool value) {}
static void on_peer_log(void *context, enum pccl_log_level level, const char *line) {}

static const struct pccl_peer_effects peer_effects = {.dial_master = on_nothing,
                                                      .close_master = on_nothing,
                                                      .send_master = on_bytes,
                                                      .accept_master = on_nothing,
                                                      .call_done = on_call_done,
                                                      .log = on_peer_log};

TEST(peer_rules)
{
    struct test_memory memory;
    struct pccl_peer_config config = pccl_peer_defaults();
    test_memory_init(&memory);
    struct pccl_peer *p = pccl_peer_create(&config, &memory.memory, &peer_effects, 1);
    assert_non_null(p);
    assert_null(pccl_peer_check(p));
    struct pccl_peer_event connect = {.kind = PCCL_PEER_CALL, .call = PCCL_CALL_CONNECT, .now_us = 2};
    assert_int_equal(pccl_peer_step(p, &connect), PCCL_OK);
    assert_null(pccl_peer_check(p));
    BREAKS(pccl_peer_check, p, p->op_count, 1, "the number of operations is right");
    BREAKS(pccl_peer_check, p, p->awaited_count, 1, "the number of operations that callers wait in is right");
    BREAKS(pccl_peer_check, p, p->up, true, "a peer does not dial the master while it is connected");
    BREAKS(pccl_peer_check, p, p->resuming, true, "only a member resumes");
    BREAKS(pccl_peer_check, p, p->calls[PCCL_ROUND_UPDATE].outstanding, true, "only members make joint calls");
    BREAKS(pccl_peer_check, p, p->redial_us, 3, "the master is dialed again when that is due");
    pccl_peer_step(p, &(struct pccl_peer_event){.kind = PCCL_PEER_LEAVE, .now_us = 3});
    assert_null(pccl_peer_check(p));
    BREAKS(pccl_peer_check, p, p->up, true, "a peer whose life has ended has closed everything");
    pccl_peer_destroy(p);
    assert_int_equal(memory.live_blocks, 0);
}
