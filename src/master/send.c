/* Sends messages to peers. */
#include "master/output.h"
#include "master/roster.h"

void pccl_master_send(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_msg *msg, uint64_t mark)
{
    if (remote->departing)
        return;
    struct pccl_bytes frame;
    enum pccl_status status = pccl_session_push(&remote->session, msg, mark, &frame);
    if (status != PCCL_OK) {
        pccl_master_remove(m, remote, PCCL_REFUSAL_FULL, "cannot queue messages for it: %s", pccl_status_text(status));
        return;
    }
    if (remote->conn != 0) {
        remote->sent_us = m->now_us;
        m->effects.send(m->effects.context, remote->conn, frame.data, frame.length);
    }
}

void pccl_master_send_loose(struct pccl_master *m, pccl_conn conn, const struct pccl_msg *msg, uint64_t acknowledged)
{
    uint8_t bytes[PCCL_FRAME_HEADER_BYTES + 1024];
    size_t length = pccl_frame_size(msg);
    PCCL_ASSERT(length <= sizeof bytes);
    pccl_frame_encode(msg, 0, acknowledged, bytes);
    m->effects.send(m->effects.context, conn, bytes, length);
}

void pccl_master_send_heartbeat(struct pccl_master *m, struct pccl_remote *remote, bool answer)
{
    if (remote->conn == 0)
        return;
    uint64_t stable = remote->group != NULL ? remote->group->stable : 0;
    struct pccl_msg msg = {.type = PCCL_MSG_heartbeat, .as.heartbeat = {.answer = answer, .stable = stable}};
    pccl_master_send_loose(m, remote->conn, &msg, remote->session.received);
    remote->session.acked = remote->session.received;
    remote->sent_us = m->now_us;
}
