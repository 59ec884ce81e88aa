/*
 * This peer's part in an optimization of the topology: its vote, and the tests of paths that the master requests and
 * the driver runs. The new ring arrives as an ordinary view before the round ends. Also the request for a topology
 * report, which a member may make at any time.
 */
#include "peer/links.h"
#include "peer/members.h"
#include "peer/optimize.h"
#include "peer/output.h"

#include <string.h>

enum { KEPT_US = 120000000 }; /* time for which a result is used instead of another test */

/* ---- results ---- */

static struct pccl_tested_path *find_tested(const struct pccl_peer *p, const struct pccl_id *peer)
{
    for (uint32_t i = 0; i < p->tested_count; i++)
        if (pccl_id_equal(&p->tested[i].peer, peer))
            return &p->tested[i];
    return NULL;
}

/* Stores the result. If out of memory, the path will be tested again. */
static void keep_tested(struct pccl_peer *p, const struct pccl_peer_measurement *measurement)
{
    struct pccl_tested_path *path = find_tested(p, &p->test.peer);
    if (path == NULL) {
        path = pccl_grow(&p->memory, p->tested, &p->tested_capacity, p->tested_count + 1, sizeof *path);
        if (path == NULL)
            return;
        p->tested = path;
        path += p->tested_count++;
    }
    *path = (struct pccl_tested_path){
        .peer = p->test.peer, .at_us = p->now_us, .rate = measurement->rate, .rtt_us = measurement->rtt_us};
}

void pccl_peer_forget_tests(struct pccl_peer *p)
{
    p->test = (struct pccl_test_call){.number = 0};
    pccl_release(&p->memory, p->tested, p->tested_capacity * sizeof *p->tested);
    p->tested = NULL;
    p->tested_count = p->tested_capacity = 0;
}

/* Sends a result to the master. measurement->test is the number in the master's request. */
static void send_result(struct pccl_peer *p, const struct pccl_id *peer,
                        const struct pccl_peer_measurement *measurement)
{
    if (!measurement->failed)
        pccl_peer_note_figures(p, peer, measurement->rtt_us, measurement->rate);
    struct pccl_msg msg = {.type = PCCL_MSG_measured,
                           .as.measured = {.test = measurement->test,
                                           .failed = measurement->failed,
                                           .how = measurement->failed ? measurement->how : 0,
                                           .rtt_us = measurement->rtt_us,
                                           .rate = measurement->failed ? 0 : measurement->rate}};
    pccl_peer_send(p, &msg);
}

/* ---- tests ---- */

static void begin_test(struct pccl_peer *p, const struct pccl_msg_measure *measure)
{
    struct pccl_peer_test test = {.number = measure->test,
                                  .peer = measure->peer,
                                  .limit_ms = measure->limit_ms,
                                  .ticket = measure->ticket,
                                  .candidates = measure->candidates,
                                  .candidate_count = measure->candidates_count,
                                  .reversed = measure->reversed != 0};
    p->test = (struct pccl_test_call){.outstanding = true,
                                      .running = true,
                                      .number = measure->test,
                                      .begun_as = measure->test,
                                      .peer = measure->peer};
    p->effects.measure(p->effects.context, &test);
}

void pccl_peer_measure(struct pccl_peer *p, const struct pccl_msg_measure *measure)
{
    if (!p->calls[PCCL_ROUND_OPTIMIZE].outstanding || !pccl_peer_is_in_group(p, &measure->peer)) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master requested a test at the wrong time");
        return;
    }
    const struct pccl_tested_path *path = find_tested(p, &measure->peer);
    if (p->test.running && pccl_id_equal(&p->test.peer, &measure->peer)) {
        p->test.outstanding = true; /* the running test was begun for the previous master */
        p->test.number = measure->test;
    } else if (path != NULL && p->now_us < path->at_us + KEPT_US) {
        send_result(p, &path->peer,
                    &(struct pccl_peer_measurement){.test = measure->test, .rtt_us = path->rtt_us, .rate = path->rate});
    } else {
        begin_test(p, measure);
    }
}

void pccl_peer_measured(struct pccl_peer *p, const struct pccl_peer_measurement *measurement)
{
    bool wanted = p->state == PCCL_PEER_MEMBER && p->calls[PCCL_ROUND_OPTIMIZE].outstanding && p->test.running &&
                  p->test.begun_as == measurement->test;
    if (!wanted)
        return;
    bool undisturbed = p->test.outstanding || !p->up || p->resuming; /* no other master runs tests at the same time */
    struct pccl_peer_measurement reported = *measurement;
    reported.test = p->test.number;
    if (!measurement->failed && undisturbed)
        keep_tested(p, measurement);
    if (p->test.outstanding)
        send_result(p, &p->test.peer, &reported);
    p->test.outstanding = p->test.running = false;
}

enum pccl_status pccl_peer_optimize_ended(struct pccl_peer *p, const struct pccl_msg_round *round)
{
    pccl_peer_take_reason(p, &p->optimize_reason, &round->reason);
    if (round->outcome != PCCL_ROUND_FAILED)
        return PCCL_OK;
    p->last_reason = p->optimize_reason;
    return PCCL_NO_RING;
}

/* ---- topology reports ---- */

static void send_describe(struct pccl_peer *p)
{
    struct pccl_msg msg = {.type = PCCL_MSG_describe, .as.describe = {.ticket = p->describe_ticket}};
    pccl_peer_send(p, &msg);
}

enum pccl_status pccl_peer_describe(struct pccl_peer *p)
{
    if (p->state != PCCL_PEER_MEMBER || p->describing)
        return PCCL_USAGE;
    p->describing = true;
    p->describe_ticket++;
    if (!p->resuming)
        send_describe(p);
    return PCCL_OK;
}

void pccl_peer_topology_report(struct pccl_peer *p, const struct pccl_msg_topology_report *report)
{
    if (!p->describing || report->ticket != p->describe_ticket)
        return; /* answer to an earlier request */
    p->describing = false;
    p->effects.described(p->effects.context, &report->text);
}

void pccl_peer_resend_describe(struct pccl_peer *p)
{
    if (p->describing && p->state == PCCL_PEER_MEMBER)
        send_describe(p);
}

void pccl_peer_end_describe(struct pccl_peer *p)
{
    if (!p->describing)
        return;
    p->describing = false;
    p->effects.described(p->effects.context, NULL);
}
