/*
 * The end of a peer's life in the middle of an event, mostly because an allocation fails: by the end of that step
 * everything outstanding has ended, once, with the reason, and nothing new has begun.
 */
#include "unit.h"
#include "lone_peer.h"

static const struct pccl_id other = {{2}};

static void welcome(struct world *w)
{
    const struct pccl_member members[] = {{.peer = me, .admitted = 1}, {.peer = other, .admitted = 2}};
    const struct pccl_id ring[] = {me, other};
    receive(w, (struct pccl_msg){.type = PCCL_MSG_welcome,
                                 .as.welcome = {.epoch = {1, 1},
                                                .view = {1, 1},
                                                .members = members,
                                                .members_count = 2,
                                                .ring = ring,
                                                .ring_count = 2}});
}

static void begin_member(struct world *w)
{
    begin(w);
    welcome(w);
    assert_true(pccl_peer_is_connected(w->peer));
    assert_int_equal(w->calls_done[PCCL_CALL_CONNECT], 1);
}

static void fail_request(struct world *w, uint64_t number) { w->memory.fail_at = w->memory.requests + number; }

/* ---- calls and operations that end ---- */

TEST(connect_ends_once_whatever_the_welcome_lacks)
{
    struct world w;
    for (uint64_t number = 1;; number++) {
        begin(&w);
        fail_request(&w, number);
        welcome(&w);
        bool failed = w.memory.failures > 0;
        assert_int_equal(w.calls_done[PCCL_CALL_CONNECT], 1);
        assert_int_equal(w.call_status[PCCL_CALL_CONNECT], failed ? PCCL_MEMORY : PCCL_OK);
        assert_int_equal(pccl_peer_why_over(w.peer), failed ? PCCL_MEMORY : PCCL_OK);
        assert_true(!failed || pccl_peer_deadline(w.peer) == UINT64_MAX);
        end(&w);
        if (!failed) {
            assert_true(number > 3); /* the members, the ring, and the link of the ring */
            return;
        }
    }
}

TEST(a_vote_that_cannot_be_kept_ends_its_call)
{
    struct world w;
    begin_member(&w);
    fail_request(&w, 1);
    assert_int_equal(step(&w, (struct pccl_peer_event){.kind = PCCL_PEER_CALL, .call = PCCL_CALL_UPDATE}), PCCL_OK);
    assert_int_equal(w.calls_done[PCCL_CALL_UPDATE], 1);
    assert_int_equal(w.call_status[PCCL_CALL_UPDATE], PCCL_MASTER_LOST);
    assert_int_equal(pccl_peer_deadline(w.peer), UINT64_MAX);
    end(&w);
}

TEST(a_question_that_cannot_be_kept_is_answered)
{
    struct world w;
    begin_member(&w);
    fail_request(&w, 1);
    assert_int_equal(step(&w, (struct pccl_peer_event){.kind = PCCL_PEER_DESCRIBE}), PCCL_OK);
    assert_int_equal(w.descriptions, 1);
    assert_int_equal(w.no_descriptions, 1);
    end(&w);
}

TEST(a_launch_is_refused_or_ends)
{
    struct world w;
    const struct pccl_launch launch = {.tag = 5,
                                       .descriptor = {.datatype = PCCL_U64, .count = 1},
                                       .tiny = true,
                                       .payload = me.bytes,
                                       .payload_bytes = 8};
    bool refused = false, ended = false;
    for (uint64_t number = 1;; number++) {
        begin_member(&w);
        fail_request(&w, number);
        struct pccl_peer_event event = {.kind = PCCL_PEER_LAUNCH, .launch = &launch, .now_us = ++w.now_us};
        enum pccl_status status = pccl_peer_step(w.peer, &event);
        assert_null(pccl_peer_check(w.peer));
        bool failed = w.memory.failures > 0;
        refused = refused || status == PCCL_MEMORY;
        if (failed && status == PCCL_OK) {
            ended = true;
            assert_int_equal(event.op->state, PCCL_OP_DECIDED);
            assert_int_equal(event.op->class, PCCL_CLASS_PEER_LOST);
            assert_int_equal(event.op->lost_by, PCCL_MASTER_LOST);
            assert_string_equal(event.op->reason.bytes, pccl_peer_last_reason(w.peer)->bytes);
        }
        assert_int_equal(w.decisions, failed && status == PCCL_OK);
        end(&w);
        if (!failed)
            break;
    }
    assert_true(refused && ended);
}

TEST(leaving_stops_what_moves_data)
{
    struct world w;
    const struct pccl_launch launch = {.tag = 5};
    begin_member(&w);
    assert_int_equal(step(&w, (struct pccl_peer_event){.kind = PCCL_PEER_LAUNCH, .launch = &launch}), PCCL_OK);
    assert_int_equal(w.starts, 1);
    step(&w, (struct pccl_peer_event){.kind = PCCL_PEER_LEAVE});
    assert_int_equal(w.stops, 1);
    assert_int_equal(w.decisions, 1);
    end(&w);
}

/* ---- calls that must not begin after the end ---- */

TEST(a_lost_master_is_the_last_thing_in_a_tick)
{
    struct world w;
    const struct pccl_address candidate = {.port = 9};
    const struct pccl_text reason = {0};
    begin_member(&w);
    receive(&w, (struct pccl_msg){.type = PCCL_MSG_warm_up,
                                  .as.warm_up = {.peer = other, .candidates = &candidate, .candidates_count = 1}});
    assert_int_equal(w.dials, 1);
    step(&w, (struct pccl_peer_event){.kind = PCCL_PEER_LINK_DOWN, .peer = other, .how = PCCL_LINK_REFUSED});
    step(&w, (struct pccl_peer_event){.kind = PCCL_PEER_MASTER_DOWN, .reason = &reason});
    w.peer->config.master_lost_ms = 1; /* so that the link is due in the same tick */
    w.now_us += 20000;
    step(&w, (struct pccl_peer_event){.kind = PCCL_PEER_TICK});
    assert_int_equal(pccl_peer_why_over(w.peer), PCCL_MASTER_LOST);
    assert_int_equal(w.dials, 1);
    end(&w);
}

/* ---- a step that is abandoned between the note of the end and its consequences ---- */

TEST(what_breaks_while_it_ends_is_ended_by_the_next_event)
{
    static struct world w; /* outlives the jump */
    begin(&w);
    w.breaks = true;
    if (setjmp(w.broken) == 0) {
        step(&w, (struct pccl_peer_event){.kind = PCCL_PEER_LEAVE});
        fail();
    }
    assert_int_equal(w.calls_done[PCCL_CALL_CONNECT], 0);
    (void)pccl_peer_step(w.peer, &(struct pccl_peer_event){.kind = PCCL_PEER_BROKEN, .where = "here"});
    assert_null(pccl_peer_check(w.peer));
    assert_int_equal(w.calls_done[PCCL_CALL_CONNECT], 1);
    end(&w);
}
