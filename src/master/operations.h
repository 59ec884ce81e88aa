/*
 * Operations: what members have finished, given up or never launched, and how each ends, the same for all (PROTOCOL 6).
 * An outcome is final once it is numbered, and kept until every member has acknowledged it.
 */
#ifndef PCCL_MASTER_OPERATIONS_H
#define PCCL_MASTER_OPERATIONS_H

#include "master/state.h"

/* ---- what members say ---- */

/* It has finished its part. The last one to come commits. */
void pccl_master_done(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_done *done);
/* It cannot finish: an abort for all, after the view that removes the cause if a link was lost. */
void pccl_master_failed(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_failed *failed);
/* Its caller gives up: an abort for all, unless it was committed. */
void pccl_master_abort_requested(struct pccl_master *m, struct pccl_remote *from,
                                 const struct pccl_msg_abort_request *request);
/* It has taken a view, which has killed these for it, and so for all. */
void pccl_master_view_acked(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_view_ack *ack);
/* It has acknowledged what its session marked with this decision of its group. */
void pccl_master_note_known(struct pccl_master *m, struct pccl_remote *remote, uint64_t decision);
/* A link between these stands again: operations that it held up fail by themselves. */
void pccl_master_link_mended(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to);

/* ---- views, eras, time ---- */

/* Before a view without those who depart: what all the others have finished is committed. */
void pccl_master_commit_remaining(struct pccl_master *m, struct pccl_peer_group *group);
/* The view is over, and with it what is undecided; members know. */
void pccl_master_drop_undecided(struct pccl_master *m, struct pccl_peer_group *group);
/* The era is over: nobody asks for its outcomes any more. */
void pccl_master_drop_operations(struct pccl_master *m, struct pccl_peer_group *group);
/* The ring has changed: outcomes that every member has acknowledged are forgotten. */
void pccl_master_advance_stable(struct pccl_master *m, struct pccl_peer_group *group);
/* Stage: failures that have waited long enough for their cause. */
void pccl_master_release_held_aborts(struct pccl_master *m);

/* ---- for a restarted master, which hears of operations from reports ---- */

/* NULL: there is none, or (create) no room or no memory. */
struct pccl_operation *pccl_master_operation(struct pccl_master *m, struct pccl_peer_group *group,
                                             const struct pccl_instance *instance, bool create);
/* Is the payload of a tiny operation as long as its descriptor says, and that of another one empty? */
PCCL_MUST_CHECK bool pccl_master_payload_fits(const struct pccl_descriptor *descriptor, bool tiny, uint32_t length,
                                              uint32_t most);
/* It ends this one, which nobody else had finished. true: that is more than the others can remember, and it goes. */
PCCL_MUST_CHECK bool pccl_master_exceeds_lone_aborts(struct pccl_master *m, struct pccl_remote *from,
                                                     struct pccl_operation *op);
/* The same after a restart, in two steps: who reports first is not blamed for what others confirm. */
void pccl_master_note_lone_abort(struct pccl_remote *from, struct pccl_operation *op);
void pccl_master_judge_lone_aborts(struct pccl_master *m);
/* It, too, says that this one has ended, or has launched it: it need not remember it for others. */
void pccl_master_confirm_end(struct pccl_master *m, const struct pccl_remote *from, struct pccl_operation *op);
/* Its part is there; of a tiny one with the payload, which must fit. */
void pccl_master_take_part(struct pccl_master *m, struct pccl_operation *op, struct pccl_remote *from,
                           const struct pccl_msg_done *done);
/* All parts are there. */
void pccl_master_commit(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op);
/* Aborts it for all. Where members may yet decide it by another class, that waits until they have taken the view. */
void pccl_master_abort(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op,
                       enum pccl_class class, const struct pccl_text *reason);
/* only: to this member; NULL: to all. */
void pccl_master_send_outcome(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op,
                              struct pccl_remote *only);

#endif
