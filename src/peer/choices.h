/*
 * Automatic codecs: the choice of the codec for the next use of a tag (PROTOCOL 7.12). All members of a view choose the
 * same codec, because the choice depends only on the cost data of the view and on the outcomes since the view in which
 * the last member joined.
 */
#ifndef PCCL_PEER_CHOICES_H
#define PCCL_PEER_CHOICES_H

#include "peer/state.h"

/*
 * Reserves the entry that stores the choice for the next use of the tag. Call before a launch with a choice. Returns
 * LIMIT if there are too many such tags, or MEMORY.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_need_choice(struct pccl_peer *p, uint64_t subgroup, uint64_t tag);
/*
 * Returns the time since the outcome of the tag's previous use, for a launch. Returns 0 if it is unknown, for example
 * because another launch followed that outcome.
 */
uint32_t pccl_peer_take_gap(struct pccl_peer *p, uint64_t subgroup, uint64_t tag);
/* Stores `next`, the choice for the next use of the tag, after an operation has committed. */
void pccl_peer_keep_choice(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_choice *next);
/*
 * Forgets the choices of a subgroup that has ended. If it is 0, forgets the choices of the whole group, because
 * newcomers do not know them or because the master has restarted.
 */
void pccl_peer_forget_choices_of(struct pccl_peer *p, uint64_t subgroup);
/* Forgets the choices of tags that have not been used for a long time. Call at the end of an era. */
void pccl_peer_forget_old_choices(struct pccl_peer *p);
/* Frees all choices. Call when the machine is destroyed. */
void pccl_peer_free_choices(struct pccl_peer *p);

#endif
