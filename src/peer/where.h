/*
 * Explains waits (PROTOCOL 9.6): while callers wait for a long time, this peer asks the master which members are
 * missing, logs the answer, and ends calls that cannot complete together.
 */
#ifndef PCCL_PEER_WHERE_H
#define PCCL_PEER_WHERE_H

#include "peer/state.h"

void pccl_peer_ask_where(struct pccl_peer *p, const struct pccl_msg_where *where);
void pccl_peer_take_places(struct pccl_peer *p, const struct pccl_msg_who_is_where *answer);
/* Return the time at which to send the first `where` message, and the next one, for a call or operation. */
uint64_t pccl_peer_first_where(const struct pccl_peer *p, uint64_t since_us, uint64_t deadline_us);
uint64_t pccl_peer_next_where(const struct pccl_peer *p);
/*
 * Records the time during which the master will found no run, because an earlier one may exist, so that connect waits
 * at least as long. 0 if the master has a run or may found one.
 */
void pccl_peer_held(struct pccl_peer *p, uint32_t hold_ms);
/*
 * Logs that newcomers wait, so that users notice that no member calls for a topology update. Both the newcomer and the
 * members with links to it log this.
 */
void pccl_peer_tick_admissions(struct pccl_peer *p);
/* Handles the event TRAINING (event.h). Returns USAGE if the peer is unconnected. */
PCCL_MUST_CHECK enum pccl_status pccl_peer_report_training(struct pccl_peer *p,
                                                           const struct pccl_msg_training *training);
/* Logs the wait of a caller in an open receive, for which no particular peer is missing. */
void pccl_peer_wait_for_any(struct pccl_peer *p, struct pccl_peer_op *op);
/* Clears the description of the wait when a call has ended, unless another call waits. */
void pccl_peer_wait_ended(struct pccl_peer *p);

#endif
