/*
 * The membership: peers, groups and their rings, the beginning and end of the run, and departures.
 * A removal is noted at once (`departing`). It takes effect when all input that came with it has
 * been handled and what the others have finished is committed.
 */
#ifndef PCCL_MASTER_MEMBERSHIP_H
#define PCCL_MASTER_MEMBERSHIP_H

#include "master/state.h"

/* ---- peers ---- */

/* NULL: no peer has this id. */
struct pccl_remote *pccl_master_find(const struct pccl_master *m, const struct pccl_id *id);
/*
 * Adds the peer that said this hello; no other peer may have its id. NULL: no room, or no memory.
 */
struct pccl_remote *pccl_master_add_remote(struct pccl_master *m, const struct pccl_msg_hello *hello,
                                           enum pccl_remote_state state);
/*
 * Makes this the peer's control connection. The newest wins: the one before is closed (PROTOCOL
 * 3.2).
 */
void pccl_master_attach(struct pccl_master *m, struct pccl_remote *remote, pccl_conn conn,
                        const struct pccl_address *address);
/* Frees a peer that is in no ring, with everything that belongs to it. */
void pccl_master_free_remote(struct pccl_master *m, struct pccl_remote *remote);
/* The known addresses of a peer, PCCL_CANDIDATES_MAX at most. Returns how many. */
uint32_t pccl_master_addresses(const struct pccl_remote *remote, struct pccl_address *addresses);
/*
 * Tells the names of these members, the first PCCL_NAMES_TOLD_MAX of them. To be called before any
 * other message mentions them.
 */
void pccl_master_tell_names(struct pccl_master *m, struct pccl_remote *to, const struct pccl_member *of,
                            uint32_t count);

/* ---- groups ---- */

/* NULL: there is none; or, with create, no room or no memory. */
struct pccl_peer_group *pccl_master_group(struct pccl_master *m, uint32_t number, bool create);
/*
 * Makes a newcomer a member, last in the ring, and marks the group as changed. false: out of
 * memory.
 */
PCCL_MUST_CHECK bool pccl_master_join_ring(struct pccl_master *m, struct pccl_peer_group *group,
                                           struct pccl_remote *remote);
/*
 * Reorders the group's ring and marks the group as changed. order: the present positions in their
 * new order. false: out of memory.
 */
PCCL_MUST_CHECK bool pccl_master_reorder(struct pccl_master *m, struct pccl_peer_group *group, const uint32_t *order);

/* ---- the run ---- */

/* Founds a run with its first member, in epoch 1.1. */
void pccl_master_start_run(struct pccl_master *m, struct pccl_remote *first);
/*
 * Stage: if there is no member, the newcomer that has waited longest founds a run, unless members
 * of an older run may come back.
 */
void pccl_master_start_run_if_empty(struct pccl_master *m);
/* Draws the run key, if there is none yet. */
void pccl_master_need_lineage(struct pccl_master *m);
/* Ends the run, which has no members left. Its former members are never taken back. */
void pccl_master_end_run(struct pccl_master *m);
/* This run has ended in this boot. */
bool pccl_master_run_is_over(const struct pccl_master *m, const struct pccl_id *lineage);

/* ---- departures ---- */

/* Marks the peer as departing, for this reason; does nothing if it is departing already. */
PCCL_PRINTF(4, 5)
void pccl_master_remove(struct pccl_master *m, struct pccl_remote *remote, enum pccl_refusal why, const char *format,
                        ...);
/* Stage: removes all departing peers, in one view unless there are too many of them. */
void pccl_master_expel_departing(struct pccl_master *m);

#endif
