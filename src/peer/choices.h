/*
 * Automatic codecs: which codec the next use of a tag has (PROTOCOL 7.12). All members of a view choose the same codec,
 * because the choice follows from the outcomes since the view in which the last member joined, and from the cost data
 * of the view.
 */
#ifndef PCCL_PEER_CHOICES_H
#define PCCL_PEER_CHOICES_H

#include "peer/state.h"

/*
 * To be called before a launch with a choice. Reserves the entry that stores the choice for the next use. Returns LIMIT
 * if there are too many such tags, or MEMORY.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_need_choice(struct pccl_peer *p, uint64_t subgroup, uint64_t tag);
/*
 * The operation is launched. Returns the time since the outcome of the tag's previous use; 0 if it is unknown, for
 * example because another such launch followed that outcome.
 */
uint32_t pccl_peer_take_gap(struct pccl_peer *p, uint64_t subgroup, uint64_t tag);
/* The operation has committed. Stores `next`, the choice for the next use of its tag. */
void pccl_peer_keep_choice(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_choice *next);
/*
 * Forgets the choices of a subgroup that has ended; or all choices of the whole group (0), because it has newcomers,
 * who know none, or because the master was restarted.
 */
void pccl_peer_forget_choices_of(struct pccl_peer *p, uint64_t subgroup);
/* An era has ended. Forgets the choices of tags that have not been used for a long time. */
void pccl_peer_forget_old_choices(struct pccl_peer *p);
/* Frees all choices, when the machine is destroyed. */
void pccl_peer_free_choices(struct pccl_peer *p);

#endif
