/*
 * Participants of the operations of any group. Subgroups of this peer: their table, the links that they rely on, and
 * the reports about them to the master. operations.c ends the operations of a subgroup that has ended.
 */
#ifndef PCCL_PEER_SUBGROUPS_H
#define PCCL_PEER_SUBGROUPS_H

#include "peer/state.h"

/* NULL: this peer is in no such subgroup. */
struct pccl_peer_subgroup *pccl_peer_find_subgroup(const struct pccl_peer *p, uint64_t name);
/*
 * Returns the members of the group with this name, closed or not; of a founding, the whole group. NULL: there is no
 * such group.
 */
const struct pccl_peer_participants *pccl_peer_all_of(const struct pccl_peer *p, uint64_t name);
/* Returns true if the peer is one of these members. `all` may be NULL: no members. */
bool pccl_peer_has_member(const struct pccl_peer *p, const struct pccl_peer_participants *all,
                          const struct pccl_id *id);
/* Returns true if the peer takes part in the operation of this name, if it exists. */
bool pccl_peer_takes_part(const struct pccl_peer *p, const struct pccl_instance *instance, const struct pccl_id *id);
/* Returns true if operations like this one, of the same participants, can still be launched here. */
bool pccl_peer_has_future(const struct pccl_peer *p, const struct pccl_instance *instance);

/*
 * Takes the members of a list, in any order, into `ids`, ascending. ARGUMENT: it is no list to found a
 * subgroup with (event.h); MEMBERS_CHANGED: one of it is no member, as far as callers know.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_take_founders(const struct pccl_peer *p, const struct pccl_id *members,
                                                         uint32_t count, struct pccl_id *ids);
/* So many members more, of a founding that is remembered or a subgroup that lives, are within limits.h. */
bool pccl_peer_has_seats(const struct pccl_peer *p, uint32_t count);
/* Counts one that has come, or gone. */
void pccl_peer_count_seats(struct pccl_peer *p, uint32_t count, bool come);
/*
 * A founding by this list, ascending, has committed. MALFORMED: the result is not of it; MEMORY: for
 * a link the peer has given up.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_add_subgroup(struct pccl_peer *p, const struct pccl_instance *founding,
                                                        const struct pccl_bytes *list,
                                                        const struct pccl_bytes *founded);
/* It has ended: launches are refused, and its links are not wanted any more. */
void pccl_peer_mark_ended(struct pccl_peer *p, struct pccl_peer_subgroup *subgroup, const struct pccl_text *reason);
/* Forgets it, if it has ended and its caller has closed it. */
void pccl_peer_forget_subgroup(struct pccl_peer *p, struct pccl_peer_subgroup *subgroup);
void pccl_peer_free_subgroups(struct pccl_peer *p);

/* As SUBGROUP_CLOSE (event.h). */
void pccl_peer_close_subgroup(struct pccl_peer *p, uint64_t name);
/* Reports those that live to a restarted master; tells it again, when it has recovered, which are closed. */
void pccl_peer_resume_subgroups(struct pccl_peer *p);
void pccl_peer_resend_closings(struct pccl_peer *p);

#endif
