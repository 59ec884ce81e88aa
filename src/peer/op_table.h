/*
 * Table of the operations that this peer has launched, and of outcomes that some member may not know. Also the number
 * of launches of each tag in this era.
 */
#ifndef PCCL_PEER_OP_TABLE_H
#define PCCL_PEER_OP_TABLE_H

#include "peer/state.h"

/* pccl_peer_find_instance returns NULL if there is no such operation, pccl_peer_add_op if out of memory. */
struct pccl_peer_op *pccl_peer_find_instance(const struct pccl_peer *p, const struct pccl_instance *instance);
/* `use` is the counter of its launches. */
void pccl_peer_hold_op(struct pccl_peer *p, struct pccl_peer_op *op, struct pccl_use *use);
void pccl_peer_release_op(struct pccl_peer *p, struct pccl_peer_op *op);
/* `room` is the maximum size of its payload. */
struct pccl_peer_op *pccl_peer_add_op(struct pccl_peer *p, const struct pccl_instance *instance, uint32_t room);
bool pccl_peer_is_decided(const struct pccl_peer_op *op);
/* Returns true if the instance belongs to the current era. */
bool pccl_peer_is_current(const struct pccl_peer *p, const struct pccl_instance *instance);

/*
 * Records the decision number of an outcome: when the master has sent it, or when its tombstone is launched. A
 * restarted master sends an outcome again with another number.
 */
void pccl_peer_confirm(struct pccl_peer *p, struct pccl_peer_op *op, uint64_t decision);
/* Handles the master's report that all members know the outcomes up to this decision. */
void pccl_peer_set_stable(struct pccl_peer *p, uint64_t stable);
/* Forgets this operation, or all operations, unless some member may still need the outcome. */
void pccl_peer_forget_op(struct pccl_peer *p, struct pccl_peer_op *op);
void pccl_peer_forget_stable(struct pccl_peer *p);

/*
 * Returns the launch counter of this tag in its subgroup and pair, for this era. Returns NULL if there are too many
 * tags or no memory.
 */
struct pccl_use *pccl_peer_need_use(struct pccl_peer *p, const struct pccl_instance *instance);
/* Returns the launch counter of this tag; NULL if the tag has not been launched in this era. */
struct pccl_use *pccl_peer_find_use(const struct pccl_peer *p, const struct pccl_instance *instance);
/* Gives a receive from any peer the instance name that both ends use. */
void pccl_peer_rename_op(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_instance *instance);
/* Removes a receive from its list: `open`, `linked` or `unlinked`. */
void pccl_peer_unlist(struct pccl_peer_op *op);
/* Returns true if this instance, or a later one of its tag, was launched here. */
bool pccl_peer_has_launched(const struct pccl_peer *p, const struct pccl_instance *instance);
void pccl_peer_forget_uses(struct pccl_peer *p);
/* Frees all operations. Call when the machine is destroyed. */
void pccl_peer_free_ops(struct pccl_peer *p);

#endif
