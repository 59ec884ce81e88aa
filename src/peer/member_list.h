/*
 * Member lists: the members of this peer's group in canonical order (by admission), both as of the view and as of the
 * last call that returned. Callers rely on the latter. A list never changes, and is shared by all that refer to it.
 */
#ifndef PCCL_PEER_MEMBER_LIST_H
#define PCCL_PEER_MEMBER_LIST_H

#include "peer/state.h"

struct pccl_member_list {
    uint64_t number; /* number of the list among those that this peer has made */
    uint32_t references, count;
    struct pccl_member members[];
};

/* Makes the list of a new view, whose members are set already. Returns false if it is out of memory. */
PCCL_MUST_CHECK bool pccl_peer_make_member_list(struct pccl_peer *p);
/* Adds a reference to the view's list and returns it. pccl_peer_drop_member_list removes the reference. */
struct pccl_member_list *pccl_peer_hold_member_list(struct pccl_peer *p);
/* `roll` may be NULL. */
void pccl_peer_drop_member_list(struct pccl_peer *p, struct pccl_member_list *roll);
/* A call returns: from now on callers see these attributes and this member list. Nothing else sets them. */
void pccl_peer_set_attributes(struct pccl_peer *p, const struct pccl_attributes *attributes,
                              struct pccl_member_list *roll);
void pccl_peer_free_member_lists(struct pccl_peer *p);

/* Returns true if the members of the view are exactly these, in this order. */
bool pccl_peer_has_members(const struct pccl_peer *p, const struct pccl_id *members, uint32_t count);
/* Writes how they differ: which of them are missing in the view, and which members of the view are new. */
void pccl_peer_describe_members(const struct pccl_peer *p, const struct pccl_id *members, uint32_t count,
                                struct pccl_text *words);

#endif
