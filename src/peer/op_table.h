/*
 * The operations that this peer knows of: those that it has launched, and outcomes for as long as
 * somebody may not know them. Also the counters of launches of this era.
 */
#ifndef PCCL_PEER_OP_TABLE_H
#define PCCL_PEER_OP_TABLE_H

#include "peer/state.h"

/* NULL: there is none; of add: out of memory. */
struct pccl_peer_op *pccl_peer_find_instance(const struct pccl_peer *p, const struct pccl_instance *instance);
/* Returns the operation of all members of this subgroup, or of the whole group (0), that its caller holds. */
struct pccl_peer_op *pccl_peer_find_held(const struct pccl_peer *p, uint64_t subgroup, uint64_t tag);
void pccl_peer_hold_op(struct pccl_peer *p, struct pccl_peer_op *op);
void pccl_peer_let_op_go(struct pccl_peer *p, struct pccl_peer_op *op);
struct pccl_peer_op *pccl_peer_add_op(struct pccl_peer *p, const struct pccl_instance *instance);
bool pccl_peer_is_decided(const struct pccl_peer_op *op);
bool pccl_peer_is_current(const struct pccl_peer *p, const struct pccl_instance *instance); /* of this era */

/*
 * The master has told the outcome (a restarted master tells it again, with another number), or a
 * tombstone, whose outcome it has told, is launched.
 */
void pccl_peer_confirm(struct pccl_peer *p, struct pccl_peer_op *op, uint64_t decision);
/* From the master: the decision up to which all members know the outcomes. */
void pccl_peer_set_stable(struct pccl_peer *p, uint64_t stable);
/* Forget this one, or all, as far as nobody needs them any more. */
void pccl_peer_forget_op(struct pccl_peer *p, struct pccl_peer_op *op);
void pccl_peer_forget_stable(struct pccl_peer *p);

/*
 * Returns the counter of launches of this tag in this subgroup and pair, in this era. NULL: too many tags, or out of
 * memory.
 */
struct pccl_use *pccl_peer_need_use(struct pccl_peer *p, const struct pccl_instance *instance);
/* NULL: none was launched in this era. */
struct pccl_use *pccl_peer_find_use(const struct pccl_peer *p, const struct pccl_instance *instance);
/* A receive from anybody gets the name by which both ends know it. */
void pccl_peer_rename_op(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_instance *instance);
/* Takes a receive out of `open` or `unlinked`, if it is there. */
void pccl_peer_unlist(struct pccl_peer_op *op);
/* This instance was launched here, or a later one of its tag. */
bool pccl_peer_has_launched(const struct pccl_peer *p, const struct pccl_instance *instance);
void pccl_peer_forget_uses(struct pccl_peer *p);
/* The machine is destroyed. */
void pccl_peer_free_ops(struct pccl_peer *p);

#endif
