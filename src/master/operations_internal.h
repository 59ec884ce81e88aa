/* Functions shared by the operations*.c files. */
#ifndef PCCL_MASTER_OPERATIONS_INTERNAL_H
#define PCCL_MASTER_OPERATIONS_INTERNAL_H

#include "master/operations.h"

/* ---- operations.c ---- */

/* Drops the operations of an ended subgroup, acknowledged or not. */
void pccl_master_drop_operations_of(struct pccl_master *m, struct pccl_peer_group *group,
                                    const struct pccl_subgroup *subgroup);
/* Drops the operations of pairs with a departing member. Call before the view without it, which ends these pairs. */
void pccl_master_drop_departed_pairs(struct pccl_master *m, struct pccl_peer_group *group);
/*
 * Records a lone abort. Returns true if the member has ended too many operations that no other member has finished; the
 * caller then removes the member.
 */
PCCL_MUST_CHECK bool pccl_master_exceeds_lone_aborts(struct pccl_master *m, struct pccl_remote *from,
                                                     struct pccl_operation *op);
/*
 * Holds an abort until `until_us` at the latest (operations_messages.c), or with UINT64_MAX until the view is
 * acknowledged. Keeps the reason from the first call.
 */
void pccl_master_hold_abort(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op,
                            enum pccl_class class, const struct pccl_text *reason, uint64_t until_us);

/* ---- operations_tiny.c ---- */

/*
 * Computes the result of a tiny operation that has all parts. Returns false if out of memory, or, with op->reason, if a
 * subgroup has no ring.
 */
PCCL_MUST_CHECK bool pccl_master_combine(struct pccl_master *m, struct pccl_peer_group *group,
                                         struct pccl_operation *op);
void pccl_master_free_result(struct pccl_master *m, struct pccl_operation *op);

/* ---- operations_participants.c: subgroups ---- */

/*
 * Creates the record of a founding from the list in a contribution, or from the result, with the listed peers that are
 * living members of the group. Returns NULL if out of memory.
 */
struct pccl_subgroup *pccl_master_make_subgroup(struct pccl_master *m, struct pccl_peer_group *group,
                                                const struct pccl_instance *founding, const struct pccl_bytes *list);
/* Appends the listed peers that are not living members of the group to `reason`. */
void pccl_master_add_strangers(const struct pccl_master *m, const struct pccl_peer_group *group,
                               const struct pccl_bytes *list, struct pccl_text *reason);
/*
 * Founds the subgroup of a founding that has all parts: writes the result and requests the links. Returns false if out
 * of memory, if the name is taken, or, with op->reason, if no ring of its members exists.
 */
PCCL_MUST_CHECK bool pccl_master_found(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op);
/* Frees a subgroup that was not founded, or a pair without operations. */
void pccl_master_free_subgroup(struct pccl_master *m, struct pccl_subgroup *subgroup);
/*
 * Adds a subgroup of `count` members to the member's totals of subgroups that it belongs to or has agreed to found;
 * with `add` false, subtracts it.
 */
void pccl_master_count_seats(struct pccl_remote *remote, uint32_t count, bool add);
/* Adds the subgroup's links to its members' counts, or removes them. Does nothing if that has been done. */
void pccl_master_count_subgroup_links(struct pccl_master *m, struct pccl_subgroup *subgroup, bool more);
/* Returns the first departing member of the subgroup; NULL if none exists. */
const struct pccl_remote *pccl_master_departing_of(const struct pccl_subgroup *subgroup);
/* Frees a founded subgroup. Sends nothing. */
void pccl_master_forget_subgroup(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_subgroup *subgroup);

/*
 * Pairs (PROTOCOL 16): two members, one of which sends to the other, in the whole group or in a subgroup. Pairs need no
 * founding, because the name identifies the two members. A pair has the struct of a subgroup, and exists while it has
 * an operation. It has no seats or links, and its end is not announced. Peers that receive from any sender (16.6) are
 * offered as many tiny sends as they have requested.
 */

/* Implements pccl_master_standing for a pair. `subgroup` is the subgroup of the send; NULL: the whole group. */
enum pccl_standing pccl_master_standing_in_pair(const struct pccl_remote *remote, const struct pccl_subgroup *subgroup,
                                                uint64_t name);
/* Adds an operation to the pair. Returns NULL if out of memory. */
struct pccl_subgroup *pccl_master_enter_pair(struct pccl_master *m, struct pccl_peer_group *group, uint64_t name);
/* Removes an operation from the pair, and frees the pair with its last operation. */
void pccl_master_leave_pair(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_subgroup *pair);
/* Sets the number of offers that the peer accepts, and offers the sends that are ready. */
void pccl_master_listen(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_listen *listen);
/* Offers a send whose sender has finished its part. */
void pccl_master_offer(struct pccl_master *m, struct pccl_operation *op);

/* ---- operations_ends.c ---- */

/* Closes a subgroup for a member (`subgroup_end`). */
void pccl_master_subgroup_closed(struct pccl_master *m, struct pccl_remote *from, uint64_t name);

#endif
