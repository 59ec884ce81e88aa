/*
 * What every file of the master does to the world: it asks for a tick, logs, and sends. None of these calls back; a
 * send that fails removes the peer at the next IDLE.
 */
#ifndef PCCL_MASTER_OUTPUT_H
#define PCCL_MASTER_OUTPUT_H

#include "master/state.h"

/* A TICK no later than this. */
void pccl_master_arm(struct pccl_master *m, uint64_t when_us);
/* Logs a sentence. fields may be NULL; the run, and the names of peers, are added. */
PCCL_PRINTF(4, 5)
void pccl_master_log(struct pccl_master *m, enum pccl_log_level level, const struct pccl_log_fields *fields,
                     const char *format, ...);
/*
 * Numbered, and kept until acknowledged; mark: pccl_master_note_known gets it then (0: nobody needs to know). Nothing
 * is sent to one who is departing; one whose queue is full departs.
 */
void pccl_master_send(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_msg *msg, uint64_t mark);
/* Not numbered, and lost with its connection: hello_ok, refused, heartbeat. */
void pccl_master_send_loose(struct pccl_master *m, pccl_conn conn, const struct pccl_msg *msg, uint64_t acknowledged);
/* Acknowledges what has come. answer: the peer is to send one back at once. */
void pccl_master_send_heartbeat(struct pccl_master *m, struct pccl_remote *remote, bool answer);

#endif
