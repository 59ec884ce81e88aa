/*
 * Connections that have lost only one end (PROTOCOL 7.4). The receiver reports its end to the master, which forwards
 * the report to the peer that dialed, and that peer ends the connection.
 */
#include "peer/links.h"
#include "peer/output.h"

static void report_gone(struct pccl_peer *p, const struct pccl_gone_end *end)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_gone, .as.link_gone = {.peer = end->peer, .number = end->number}};
    pccl_peer_send(p, &msg);
}

void pccl_peer_end_gone(struct pccl_peer *p, const struct pccl_peer_event *event)
{
    struct pccl_gone_end *end = &p->gone[p->gone_count % PCCL_GONE_KEPT];
    if (p->state != PCCL_PEER_PENDING && p->state != PCCL_PEER_MEMBER)
        return;
    *end = (struct pccl_gone_end){.peer = event->peer, .number = event->number};
    p->gone_count++;
    if (!p->resuming)
        report_gone(p, end);
}

void pccl_peer_resend_gone(struct pccl_peer *p)
{
    for (uint64_t i = p->gone_count - pccl_min_u64(p->gone_count, PCCL_GONE_KEPT); i < p->gone_count; i++)
        report_gone(p, &p->gone[i % PCCL_GONE_KEPT]);
}

void pccl_peer_link_gone(struct pccl_peer *p, const struct pccl_msg_link_gone *gone)
{
    p->effects.cut_link(p->effects.context, &gone->peer, gone->number);
}
