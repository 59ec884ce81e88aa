/* Outputs of the master: ticks, log lines and messages. If a send fails, the peer is removed at the next IDLE. */
#ifndef PCCL_MASTER_OUTPUT_H
#define PCCL_MASTER_OUTPUT_H

#include "master/state.h"

/* Requests a TICK no later than this. */
void pccl_master_arm(struct pccl_master *m, uint64_t when_us);
/* Logs a sentence, adding the run and the names of peers. `fields` may be NULL. */
PCCL_PRINTF(4, 5)
void pccl_master_log(struct pccl_master *m, enum pccl_log_level level, const struct pccl_log_fields *fields,
                     const char *format, ...);

/* ---- send.c ---- */

/*
 * Sends a numbered message and keeps it until it is acknowledged; pccl_master_note_known then receives `mark`, unless
 * it is 0. Sends nothing to a departing peer. A peer whose queue is full departs.
 */
void pccl_master_send(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_msg *msg, uint64_t mark);
/* Sends a message without a number, which is lost with its connection: hello_ok, refused, heartbeat. */
void pccl_master_send_loose(struct pccl_master *m, pccl_conn conn, const struct pccl_msg *msg, uint64_t acknowledged);
/* Sends a heartbeat, which acknowledges the received messages. `answer` requests an immediate heartbeat in return. */
void pccl_master_send_heartbeat(struct pccl_master *m, struct pccl_remote *remote, bool answer);

#endif
