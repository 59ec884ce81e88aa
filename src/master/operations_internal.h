/* What the files of the room of operations share. */
#ifndef PCCL_MASTER_OPERATIONS_INTERNAL_H
#define PCCL_MASTER_OPERATIONS_INTERNAL_H

#include "master/operations.h"

/* ---- operations.c ---- */

/* The subgroup has ended: drops its operations. That all members know their outcomes is of no interest any more. */
void pccl_master_drop_operations_of(struct pccl_master *m, struct pccl_peer_group *group,
                                    const struct pccl_subgroup *subgroup);
/* Before the view without the departing, which ends their pairs: drops the operations of these. */
void pccl_master_drop_departed_pairs(struct pccl_master *m, struct pccl_peer_group *group);
/*
 * The member ends an operation that no other has finished. true: it has ended more than the others
 * can remember, and is removed.
 */
PCCL_MUST_CHECK bool pccl_master_exceeds_lone_aborts(struct pccl_master *m, struct pccl_remote *from,
                                                     struct pccl_operation *op);
/*
 * The abort is certain, but it is held until then at the latest (operations_messages.c); UINT64_MAX: until the view is
 * known. The first reason stays.
 */
void pccl_master_hold_abort(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op,
                            enum pccl_class class, const struct pccl_text *reason, uint64_t until_us);

/* ---- operations_tiny.c ---- */

/* Makes the result of a tiny operation that has all parts. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_combine(struct pccl_master *m, struct pccl_peer_group *group,
                                         struct pccl_operation *op);
void pccl_master_free_result(struct pccl_master *m, struct pccl_operation *op);

/* ---- operations_participants.c: subgroups ---- */

/*
 * Those of a founding: the list, as far as they are living members of the group. NULL: out of
 * memory. The result of it, or the list in a contribution; complete: all are.
 */
struct pccl_subgroup *pccl_master_make_subgroup(struct pccl_master *m, struct pccl_peer_group *group,
                                                const struct pccl_instance *founding, const struct pccl_bytes *list);
/* Who of the list is no living member of the group. Appends. */
void pccl_master_add_strangers(const struct pccl_master *m, const struct pccl_peer_group *group,
                               const struct pccl_bytes *list, struct pccl_text *reason);
/*
 * All have said `done`: makes the result, and the subgroup lives; its links are asked for. false: out
 * of memory, or the name is taken.
 */
PCCL_MUST_CHECK bool pccl_master_found(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op);
/* Of a founding that is not to be; a pair without operations. */
void pccl_master_free_subgroup(struct pccl_master *m, struct pccl_subgroup *subgroup);
/* A subgroup of so many that the member is in, or has said `done` to found, has come or gone. */
void pccl_master_count_seats(struct pccl_remote *remote, uint32_t count, bool come);
/* Adds the subgroup's links to the counts of its members, or removes them. Does nothing if that is already so. */
void pccl_master_count_subgroup_links(struct pccl_master *m, struct pccl_subgroup *subgroup, bool more);
/* A member of it that departs; NULL: none. */
const struct pccl_remote *pccl_master_departing_of(const struct pccl_subgroup *subgroup);
/* Frees a subgroup that has been founded. Sends nothing. */
void pccl_master_forget_subgroup(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_subgroup *subgroup);

/*
 * Pairs (PROTOCOL 16): two members, one of which sends to the other, in the whole group or in a subgroup. Pairs need no
 * founding: the name identifies the two members. A pair is kept like a subgroup while it has an operation, in the whole
 * group or in any subgroup. It has no seats and no links, and its end is not announced. Peers that receive from anybody
 * (16.6) are told of tiny sends, as many as they have asked for.
 */

/* The same as pccl_master_standing. subgroup: in which it sends to the other one; NULL: the whole group. */
enum pccl_standing pccl_master_standing_in_pair(const struct pccl_remote *remote, const struct pccl_subgroup *subgroup,
                                                uint64_t name);
/* One more operation of a whole pair; NULL: out of memory. */
struct pccl_subgroup *pccl_master_enter_pair(struct pccl_master *m, struct pccl_peer_group *group, uint64_t name);
/* One less: it is forgotten with the last one. */
void pccl_master_leave_pair(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_subgroup *pair);
/* One more, or fewer: tells of those that are here. */
void pccl_master_listen(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_listen *listen);
/* One of the two has finished its part. */
void pccl_master_offer(struct pccl_master *m, struct pccl_operation *op);

/* ---- operations_ends.c ---- */

/* The member closes it (`subgroup_end`). */
void pccl_master_subgroup_closed(struct pccl_master *m, struct pccl_remote *from, uint64_t name);

#endif
