/*
 * "Who is where": while callers wait long, this peer asks the master whom they wait for, logs the answer, and ends
 * calls that cannot meet.
 */
#ifndef PCCL_PEER_WHERE_H
#define PCCL_PEER_WHERE_H

#include "peer/state.h"

void pccl_peer_ask_where(struct pccl_peer *p, const struct pccl_msg_where *where);
void pccl_peer_take_places(struct pccl_peer *p, const struct pccl_msg_who_is_where *answer);
/* Return the times at which a call or operation asks for the first time, and the next time. */
uint64_t pccl_peer_first_where(const struct pccl_peer *p, uint64_t since_us, uint64_t deadline_us);
uint64_t pccl_peer_next_where(const struct pccl_peer *p);
/*
 * Logs that newcomers wait, so that users notice that no member calls for a topology update. The newcomer logs it, and
 * so do the members that have links to it.
 */
/*
 * The master founds no run for this time, since an earlier run may still exist, so connect takes as long. 0: it has a
 * run or founds one.
 */
void pccl_peer_held(struct pccl_peer *p, uint32_t hold_ms);
void pccl_peer_tick_admissions(struct pccl_peer *p);
/* Returns USAGE if the peer is unconnected. */
PCCL_MUST_CHECK enum pccl_status pccl_peer_report_training(struct pccl_peer *p,
                                                           const struct pccl_msg_training *training);
/* A caller waits in an open receive, for which no particular peer is missing. */
void pccl_peer_wait_for_any(struct pccl_peer *p, struct pccl_peer_op *op);
/* A call has ended. Clears the text about the wait, unless another call still waits. */
void pccl_peer_wait_ended(struct pccl_peer *p);

#endif
