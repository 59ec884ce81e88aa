#include "net/handshake.h"

#include "net/build.h"
#include "wire/greeting.h"

size_t pccl_handshake_hello(const struct pccl_msg_link_hello *hello, uint8_t *bytes)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_hello, .as.link_hello = *hello};
    msg.as.link_hello.magic = PCCL_PROTOCOL_MAGIC;
    msg.as.link_hello.build = *pccl_build_own();
    size_t length = pccl_frame_size(&msg);
    PCCL_ASSERT(length <= PCCL_HANDSHAKE_HELLO_MAX);
    pccl_frame_encode(&msg, 0, 0, bytes);
    return length;
}

/*
 * Translates a refusal. IDENTITY means that the process is not the intended peer. Other refusals are sent by the peer
 * itself, which is therefore alive. A probe, however, only checks that the peer is there and in the run, so a process
 * that refuses a probe is not that peer.
 */
static enum pccl_link_end meaning(uint8_t kind, uint16_t refusal)
{
    return refusal == PCCL_REFUSAL_IDENTITY || kind == PCCL_LINK_PROBE ? PCCL_LINK_OTHER : PCCL_LINK_UNREACHABLE;
}

enum pccl_link_end pccl_handshake_judge(const struct pccl_id *meant, uint8_t kind, const struct pccl_frame *answer,
                                        struct pccl_text *reason)
{
    struct pccl_msg msg;
    pccl_text_format(reason, "another process answers at that address");
    if (answer->type != PCCL_MSG_link_ok && answer->type != PCCL_MSG_refused)
        return PCCL_LINK_OTHER;
    /* Decodes without scratch, because neither message has lists. */
    if (pccl_wire_decode(answer->type, answer->body, answer->length, NULL, &msg, reason) != PCCL_OK)
        return PCCL_LINK_OTHER;
    if (msg.type == PCCL_MSG_link_ok)
        return pccl_id_equal(&msg.as.link_ok.peer, meant) ? 0 : PCCL_LINK_OTHER;
    pccl_text_clear(reason);
    pccl_text_add_bytes(reason, (const char *)msg.as.refused.reason.data, msg.as.refused.reason.length);
    return meaning(kind, msg.as.refused.code);
}

void pccl_handshake_welcome(struct pccl_connection *connection, const struct pccl_id *self)
{
    struct pccl_msg msg = {.type = PCCL_MSG_link_ok, .as.link_ok = {.version = PCCL_PROTOCOL_VERSION, .peer = *self}};
    pccl_connection_send_message(connection, &msg);
}

void pccl_handshake_refuse(struct pccl_connection *connection, enum pccl_refusal code, const struct pccl_text *reason,
                           uint32_t linger_ms)
{
    struct pccl_msg msg = {
        .type = PCCL_MSG_refused,
        .as.refused = {.version = PCCL_PROTOCOL_VERSION, .code = (uint16_t)code, .reason = pccl_bytes_of_text(reason)}};
    pccl_connection_send_message(connection, &msg);
    pccl_connection_close(connection, linger_ms);
}

bool pccl_handshake_is_understood(struct pccl_connection *connection, const struct pccl_frame *frame,
                                  struct pccl_wire_scratch *scratch, struct pccl_msg *msg, uint32_t linger_ms)
{
    static const struct pccl_sides sides = {.here = "this peer", .there = "the caller"};
    struct pccl_text reason;
    enum pccl_refusal code = PCCL_REFUSAL_MALFORMED;
    if (pccl_greeting_is_foreign(pccl_build_own(), &sides, frame, &reason)) {
        code = PCCL_REFUSAL_VERSION;
    } else if (pccl_wire_decode(frame->type, frame->body, frame->length, scratch, msg, &reason) == PCCL_OK) {
        if (msg->type == PCCL_MSG_link_hello)
            return true;
        pccl_text_format(&reason, "unexpected first message on a link: expected link_hello, not %s",
                         pccl_wire_name(msg->type));
    }
    pccl_handshake_refuse(connection, code, &reason, linger_ms);
    return false;
}
