/* Messages to the master about undecided operations. */
#include "peer/output.h"
#include "peer/progress.h"
#include "peer/op_table.h"

static void send_done(struct pccl_peer *p, const struct pccl_peer_op *op)
{
    struct pccl_choice choice = op->choice;
    choice.since_us = op->took_us;
    struct pccl_msg msg = {.type = PCCL_MSG_done,
                           .as.done = {.instance = op->instance,
                                       .view = op->start_view,
                                       .descriptor = op->descriptor,
                                       .tiny = op->tiny,
                                       .choice = &choice,
                                       .choice_count = choice.why != PCCL_CHOICE_NONE,
                                       .payload = {op->payload, op->tiny ? op->payload_bytes : 0}}};
    pccl_peer_send(p, &msg);
}

static void send_failed(struct pccl_peer *p, const struct pccl_peer_op *op)
{
    PCCL_ASSERT(op->state == PCCL_OP_FAILED);
    struct pccl_msg msg = {.type = PCCL_MSG_failed,
                           .as.failed = {.instance = op->instance,
                                         .view = op->start_view,
                                         .class = (uint8_t)op->class,
                                         .reason = pccl_bytes_of_text(&op->reason)}};
    pccl_peer_send(p, &msg);
}

static void send_abort_request(struct pccl_peer *p, const struct pccl_peer_op *op)
{
    struct pccl_msg msg = {.type = PCCL_MSG_abort_request,
                           .as.abort_request = {.instance = op->instance,
                                                .view = op->start_view,
                                                .class = (uint8_t)op->abort_class,
                                                .reason = pccl_bytes_of_text(&op->abort_reason)}};
    pccl_peer_send(p, &msg);
}

void pccl_peer_report_progress(struct pccl_peer *p, const struct pccl_peer_op *op)
{
    if (p->resuming || p->state != PCCL_PEER_MEMBER)
        return;
    if (op->complete)
        send_done(p, op);
    if (op->state == PCCL_OP_FAILED)
        send_failed(p, op);
    if (op->abort_sent)
        send_abort_request(p, op);
}

void pccl_peer_resend_operations(struct pccl_peer *p)
{
    for (const struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer)
        if (!pccl_peer_is_decided(op))
            pccl_peer_report_progress(p, op);
}

void pccl_peer_op_done(struct pccl_peer *p, struct pccl_peer_op *op)
{
    if (op->state != PCCL_OP_RUNNING)
        return;
    op->complete = true;
    op->took_us = (uint32_t)pccl_min_u64(p->now_us - op->begun_us, UINT32_MAX - 1);
    PCCL_ASSERT(!op->tiny);
    op->state = PCCL_OP_DONE;
    pccl_peer_report_progress(p, op);
}

void pccl_peer_op_failed(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                         const struct pccl_text *reason)
{
    if (op->tiny || (op->state != PCCL_OP_RUNNING && op->state != PCCL_OP_DONE))
        return;
    op->state = PCCL_OP_FAILED;
    op->class = class;
    op->reason = *reason;
    pccl_peer_report_progress(p, op);
}

void pccl_peer_op_abort(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                        const struct pccl_text *reason)
{
    if (pccl_peer_is_decided(op) || op->abort_sent)
        return;
    op->abort_sent = true;
    op->abort_class = class;
    pccl_text_clear(&op->abort_reason);
    if (reason != NULL)
        op->abort_reason = *reason;
    if (!p->resuming && p->state == PCCL_PEER_MEMBER)
        send_abort_request(p, op);
}
