/* Timers, the log, messages to the master, and the end of the machine. */
#include "peer/output.h"

#include <stdarg.h>

void pccl_peer_arm(struct pccl_peer *p, uint64_t when_us) { p->deadline_us = pccl_min_u64(p->deadline_us, when_us); }

void pccl_peer_log(struct pccl_peer *p, enum pccl_log_level level, const char *format, ...)
{
    struct pccl_text text;
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(&text, format, arguments);
    va_end(arguments);
    pccl_names_add_to(&p->names, &text);
    p->effects.log(p->effects.context, level, text.bytes);
}

/* ---- to the master ---- */

void pccl_peer_dial_master(struct pccl_peer *p)
{
    PCCL_ASSERT(!p->up && !p->dialing);
    p->dialing = true;
    p->redial_us = 0;
    p->effects.dial_master(p->effects.context);
}

void pccl_peer_transmit(struct pccl_peer *p, const uint8_t *bytes, size_t length)
{
    p->sent_us = p->now_us;
    p->effects.send_master(p->effects.context, bytes, length);
}

void pccl_peer_send(struct pccl_peer *p, const struct pccl_msg *msg)
{
    if (p->state == PCCL_PEER_OVER)
        return;
    struct pccl_bytes frame;
    enum pccl_status status = pccl_session_push(&p->session, msg, 0, &frame);
    if (status != PCCL_OK) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "cannot queue messages to the master: %s", pccl_status_text(status));
        return;
    }
    if (p->greeted)
        pccl_peer_transmit(p, frame.data, frame.length);
}

/* ---- the end ---- */

/* Sends `leave`, so that the other members need not wait for the silence limit. An orderly leave contains no reason. */
static void send_leave(struct pccl_peer *p, bool in_order)
{
    struct pccl_bytes frame;
    struct pccl_msg msg = {.type = PCCL_MSG_leave};
    if (!in_order)
        msg.as.leave.reason = pccl_bytes_of_text(&p->last_reason);
    if (pccl_session_push(&p->session, &msg, 0, &frame) == PCCL_OK)
        pccl_peer_transmit(p, frame.data, frame.length);
}

void pccl_peer_give_up(struct pccl_peer *p, enum pccl_status status, const char *format, ...)
{
    if (p->state == PCCL_PEER_OVER || p->state == PCCL_PEER_IDLE)
        return;
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(&p->last_reason, format, arguments);
    va_end(arguments);
    pccl_names_add_to(&p->names, &p->last_reason);
    bool known = p->greeted && (p->state == PCCL_PEER_PENDING || p->state == PCCL_PEER_MEMBER);
    p->state = PCCL_PEER_OVER;
    p->why_over = status;
    p->ending = true;
    p->greeted = p->resuming = false;
    bool left = status == PCCL_ABORTED || status == PCCL_DRAINED;
    if (known)
        send_leave(p, left);
    pccl_peer_log(p, left ? PCCL_LOG_INFO : PCCL_LOG_ERROR, "no longer in the run: %s", p->last_reason.bytes);
}
