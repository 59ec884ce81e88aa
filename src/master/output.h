/*
 * What all files of the master use to act: they ask for a tick, log, and send. None of these
 * functions decides anything; if a send fails, the peer is removed at the next IDLE.
 */
#ifndef PCCL_MASTER_OUTPUT_H
#define PCCL_MASTER_OUTPUT_H

#include "master/state.h"

/* Asks for a TICK no later than this. */
void pccl_master_arm(struct pccl_master *m, uint64_t when_us);
/* Logs a sentence, with the run and the names of peers added. fields may be NULL. */
PCCL_PRINTF(4, 5)
void pccl_master_log(struct pccl_master *m, enum pccl_log_level level, const struct pccl_log_fields *fields,
                     const char *format, ...);

/* ---- send.c ---- */

/*
 * Sends a numbered message, kept until it is acknowledged; then pccl_master_note_known gets `mark`,
 * unless that is 0. Sends nothing to a departing peer. A peer whose queue is full departs.
 */
void pccl_master_send(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_msg *msg, uint64_t mark);
/*
 * Sends a message without a number, which is lost with its connection: hello_ok, refused,
 * heartbeat.
 */
void pccl_master_send_loose(struct pccl_master *m, pccl_conn conn, const struct pccl_msg *msg, uint64_t acknowledged);
/* Sends a heartbeat, which acknowledges what has come. answer: asks the peer for one at once. */
void pccl_master_send_heartbeat(struct pccl_master *m, struct pccl_remote *remote, bool answer);

#endif
