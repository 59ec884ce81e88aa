/*
 * The handshake between peers: the side that dials sends link_hello, and the other side answers link_ok or refused.
 * Also interprets the answer. Independent of the purpose of the connection; callers decide whether to permit it.
 */
#ifndef PCCL_NET_HANDSHAKE_H
#define PCCL_NET_HANDSHAKE_H

#include "net/connection.h"

enum { PCCL_HANDSHAKE_HELLO_MAX = 512 /* more than the size of any hello */ };

/* ---- the side that dials ---- */

/*
 * Writes a hello frame with our magic and build to `bytes`, which has PCCL_HANDSHAKE_HELLO_MAX bytes. Returns the
 * length.
 */
size_t pccl_handshake_hello(const struct pccl_msg_link_hello *hello, uint8_t *bytes);
/*
 * Returns 0 if the intended peer accepts the connection. Otherwise sets a reason and returns OTHER, or UNREACHABLE if
 * the peer itself has refused.
 */
PCCL_MUST_CHECK enum pccl_link_end pccl_handshake_judge(const struct pccl_id *meant, uint8_t kind,
                                                        const struct pccl_frame *answer, struct pccl_text *reason);

/* ---- the side that is dialed ---- */

void pccl_handshake_welcome(struct pccl_connection *connection, const struct pccl_id *self);
/* Sends a refusal and closes the connection. */
void pccl_handshake_refuse(struct pccl_connection *connection, enum pccl_refusal code, const struct pccl_text *reason,
                           uint32_t linger_ms);
/* Decodes the first frame. If it is not a link_hello of this protocol version, refuses it and returns false. */
PCCL_MUST_CHECK bool pccl_handshake_is_understood(struct pccl_connection *connection, const struct pccl_frame *frame,
                                                  struct pccl_wire_scratch *scratch, struct pccl_msg *msg,
                                                  uint32_t linger_ms);

#endif
