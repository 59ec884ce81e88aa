/*
 * Members of the operations of any group; the table of this peer's subgroups, the links that they need, and reports
 * about them to the master. operations.c ends the operations of an ended subgroup.
 */
#ifndef PCCL_PEER_SUBGROUPS_H
#define PCCL_PEER_SUBGROUPS_H

#include "peer/state.h"

/* Returns the subgroup of this name; NULL if this peer has none. */
struct pccl_peer_subgroup *pccl_peer_find_subgroup(const struct pccl_peer *p, uint64_t name);
/*
 * Returns the members of the group with this name, even if it is closed; for a founding, the whole group. Returns NULL
 * if there is no such group.
 */
const struct pccl_peer_participants *pccl_peer_all_of(const struct pccl_peer *p, uint64_t name);
/* Returns true if the peer is one of these members. `all` may be NULL for no members. */
bool pccl_peer_has_member(const struct pccl_peer *p, const struct pccl_peer_participants *all,
                          const struct pccl_id *id);
/* Returns the participants of an operation of this name, or NULL. Writes the members of a pair to `pair`. */
const struct pccl_peer_participants *
pccl_peer_members_of(const struct pccl_peer *p, const struct pccl_instance *instance, struct pccl_peer_pair *pair);
/* Returns true if this other peer would take part in the operation. */
bool pccl_peer_takes_part(const struct pccl_peer *p, const struct pccl_instance *instance, const struct pccl_id *id);
/* Returns true if further operations of the same participants can still be launched here. */
bool pccl_peer_has_future(const struct pccl_peer *p, const struct pccl_instance *instance);

/*
 * Copies a list of members in any order into `ids`, in ascending order. Returns ARGUMENT if the list cannot found a
 * subgroup (event.h), MEMBERS_CHANGED if the callers' member list lacks a listed peer.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_take_founders(const struct pccl_peer *p, const struct pccl_id *members,
                                                         uint32_t count, struct pccl_id *ids);
/* Returns true if the limits (limits.h) allow one more founding or subgroup with `count` members. */
bool pccl_peer_has_seats(const struct pccl_peer *p, uint32_t count);
/* Adds a founding or subgroup to the counts; with `add` false, removes it. */
void pccl_peer_count_seats(struct pccl_peer *p, uint32_t count, bool add);
/*
 * Adds the subgroup after its founding, with this ascending list, has committed. Returns MALFORMED if the result does
 * not match the list, or MEMORY; if the memory was for a link, the peer has given up.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_add_subgroup(struct pccl_peer *p, const struct pccl_instance *founding,
                                                        const struct pccl_bytes *list,
                                                        const struct pccl_bytes *founded);
/* Marks the subgroup as ended: launches are refused, and its links are no longer wanted. */
void pccl_peer_mark_ended(struct pccl_peer *p, struct pccl_peer_subgroup *subgroup, const struct pccl_text *reason);
/* Frees the subgroup if it has ended and its caller has closed it. */
void pccl_peer_forget_subgroup(struct pccl_peer *p, struct pccl_peer_subgroup *subgroup);
void pccl_peer_free_subgroups(struct pccl_peer *p);

/* Handles SUBGROUP_CLOSE (event.h). */
void pccl_peer_close_subgroup(struct pccl_peer *p, uint64_t name);
/*
 * Reports the live subgroups to a restarted master. After the recovery, pccl_peer_resend_closings reports again which
 * of them are closed.
 */
void pccl_peer_resume_subgroups(struct pccl_peer *p);
void pccl_peer_resend_closings(struct pccl_peer *p);

#endif
