/*
 * This peer's part in an optimization of the topology: its vote, and the tests of paths that the
 * master asks for and the driver carries out. The new ring comes as a view like any other, before
 * the round ends. Also the request for a topology report, which a member may make at any time.
 */
#include "peer/links.h"
#include "peer/members.h"
#include "peer/optimize.h"
#include "peer/output.h"

#include <string.h>

/* ---- tests ---- */

void pccl_peer_measure(struct pccl_peer *p, const struct pccl_msg_measure *measure)
{
    if (!p->calls[PCCL_ROUND_OPTIMIZE].outstanding || !pccl_peer_is_in_group(p, &measure->peer)) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master asked for a test at the wrong time");
        return;
    }
    p->test = (struct pccl_test_call){.outstanding = true, .number = measure->test, .peer = measure->peer};
    struct pccl_peer_test test = {.number = measure->test,
                                  .peer = measure->peer,
                                  .limit_ms = measure->limit_ms,
                                  .ticket = measure->ticket,
                                  .candidates = measure->candidates,
                                  .candidate_count = measure->candidates_count};
    p->effects.measure(p->effects.context, &test);
}

void pccl_peer_measured(struct pccl_peer *p, const struct pccl_peer_measurement *measurement)
{
    bool wanted = p->state == PCCL_PEER_MEMBER && p->calls[PCCL_ROUND_OPTIMIZE].outstanding && p->test.outstanding &&
                  p->test.number == measurement->test;
    if (!wanted)
        return;
    p->test.outstanding = false;
    if (!measurement->failed)
        pccl_peer_note_told(p, &p->test.peer, measurement->rtt_us, measurement->rate);
    struct pccl_msg msg = {.type = PCCL_MSG_measured,
                           .as.measured = {.test = measurement->test,
                                           .failed = measurement->failed,
                                           .how = measurement->failed ? measurement->how : 0,
                                           .rtt_us = measurement->rtt_us,
                                           .rate = measurement->failed ? 0 : measurement->rate}};
    pccl_peer_send(p, &msg);
}

enum pccl_status pccl_peer_optimize_ended(struct pccl_peer *p, const struct pccl_msg_round *round)
{
    p->test.outstanding = false;
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
        return; /* the answer to an earlier request */
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
