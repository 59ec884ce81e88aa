/*
 * How a connection between peers begins, once: who dials says link_hello, the other side answers link_ok or refused,
 * and this is what the answer tells about it. Knows nothing of what the connection is for, nor who may have one:
 * whether a hello is good is the caller's to judge.
 */
#ifndef PCCL_NET_HANDSHAKE_H
#define PCCL_NET_HANDSHAKE_H

#include "net/connection.h"

enum { PCCL_HANDSHAKE_HELLO_MAX = 512 /* bytes: far more than it takes */ };

/* ---- who dials ---- */

/* Writes the frame, with our magic and version, to PCCL_HANDSHAKE_HELLO_MAX bytes; its length. */
size_t pccl_handshake_hello(const struct pccl_msg_link_hello *hello, uint8_t *bytes);
/*
 * 0: the peer that is meant takes the connection. Else, with a reason, what the answer is evidence of: OTHER, or
 * UNREACHABLE if the peer itself has refused.
 */
PCCL_MUST_CHECK enum pccl_link_end pccl_handshake_judge(const struct pccl_id *meant, uint8_t kind,
                                                        const struct pccl_frame *answer, struct pccl_text *message);

/* ---- who is dialed ---- */

void pccl_handshake_welcome(struct pccl_connection *connection, const struct pccl_id *self);
/* Says so and closes the connection. */
void pccl_handshake_refuse(struct pccl_connection *connection, enum pccl_refusal code, const struct pccl_text *message,
                           uint32_t linger_ms);
/* The same, where the first frame was no link_hello that we understand; reason: why. */
void pccl_handshake_refuse_unknown(struct pccl_connection *connection, const struct pccl_frame *frame,
                                   const struct pccl_text *reason, uint32_t linger_ms);

#endif
