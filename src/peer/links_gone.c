/*
 * Messages about single connections, which the master forwards between the two ends (PROTOCOL 7.4). When the receiver
 * of the data loses its end, or cannot dial it, the sender ends the connection. A sender requests connections that the
 * receiver must dial.
 */
#include "peer/links.h"
#include "peer/members.h"
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
    struct pccl_msg lost = {
        .type = PCCL_MSG_link_lost,
        .as.link_lost = {.peer = event->peer, .incoming = 1, .reversed = 1, .how = (uint8_t)event->how}};
    if (event->how != 0 && p->state == PCCL_PEER_MEMBER && pccl_peer_knows_member(p, &event->peer))
        pccl_peer_send(p, &lost);
}

void pccl_peer_want_back(struct pccl_peer *p, const struct pccl_peer_event *event)
{
    struct pccl_msg msg = {
        .type = PCCL_MSG_want_back,
        .as.want_back = {
            .peer = event->peer, .kind = (uint8_t)event->link, .slot = (uint8_t)event->slot, .number = event->number}};
    if ((p->state == PCCL_PEER_PENDING || p->state == PCCL_PEER_MEMBER) && !p->resuming)
        pccl_peer_send(p, &msg);
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
