/*
 * Visits to the machine, under the lock and a guard: one that breaks an invariant ends the communicator. INTERNAL:
 * there is no machine any more. A function without a comment calls the one of its name in peer/peer.h.
 */
#ifndef PCCL_DRIVE_COMM_MACHINE_H
#define PCCL_DRIVE_COMM_MACHINE_H

#include "drive/communicator.h"

/* Fills in the time. */
void pccl_comm_step(struct pcclComm_t *comm, struct pccl_peer_event *event);
PCCL_MUST_CHECK enum pccl_status pccl_comm_ask(struct pcclComm_t *comm,
                                               enum pccl_call call); /* CONNECT UPDATE PENDING OPTIMIZE */
PCCL_MUST_CHECK enum pccl_status pccl_comm_launch(struct pcclComm_t *comm, const struct pccl_launch *launch,
                                                  struct pccl_op **op);
void pccl_comm_op_awaited(struct pcclComm_t *comm, struct pccl_op *op, bool blocked);
void pccl_comm_op_release(struct pcclComm_t *comm, struct pccl_op *op);
void pccl_comm_op_done(struct pcclComm_t *comm, struct pccl_op *op);
void pccl_comm_op_failed(struct pcclComm_t *comm, struct pccl_op *op, enum pccl_class class,
                         const struct pccl_text *words);
void pccl_comm_op_abort(struct pcclComm_t *comm, struct pccl_op *op, const struct pccl_text *words);
void pccl_comm_announced(struct pcclComm_t *comm, const struct pccl_id *from, const struct pccl_msg_ready *ready);
void pccl_comm_link_measured(struct pcclComm_t *comm, const struct pccl_id *peer, uint32_t rtt_us, uint64_t rate);
PCCL_MUST_CHECK enum pccl_status pccl_comm_ask_sync(struct pcclComm_t *comm, const struct pccl_sync_vote *vote);
void pccl_comm_sync_touched(struct pcclComm_t *comm);
void pccl_comm_sync_proven(struct pcclComm_t *comm, const struct pccl_proof *proof);
void pccl_comm_sync_done(struct pcclComm_t *comm, bool complete, const struct pccl_text *words);
void pccl_comm_way_measured(struct pcclComm_t *comm, const struct pccl_peer_measurement *measurement);
PCCL_MUST_CHECK enum pccl_status pccl_comm_ask_describe(struct pcclComm_t *comm);
void pccl_comm_leave_run(struct pcclComm_t *comm);
/* Under the lock. An invariant broke elsewhere than in the machine: all that waits ends, in words with where. */
void pccl_comm_break(struct pcclComm_t *comm, const char *where);
PCCL_MUST_CHECK enum pccl_status pccl_comm_judge_link(struct pcclComm_t *comm, const struct pccl_msg_link_hello *hello,
                                                      enum pccl_refusal *refusal, struct pccl_text *words);

/* Under the lock: a member of a run? */
bool pccl_comm_is_connected(const pcclComm_t *comm);
/* Why not: USAGE, or INTERNAL after a defect, with words. */
enum pccl_status pccl_comm_why_unconnected(const pcclComm_t *comm, struct pccl_text *words);

#endif
