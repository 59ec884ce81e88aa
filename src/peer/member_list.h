/*
 * Member lists: the members of this peer's group in canonical order (by admission). One list is of the current view;
 * another is of the last call that returned, and callers rely on it. A list is immutable and reference-counted.
 */
#ifndef PCCL_PEER_MEMBER_LIST_H
#define PCCL_PEER_MEMBER_LIST_H

#include "peer/state.h"

struct pccl_member_list {
    uint64_t number; /* sequence number; every list that this peer creates has a different one */
    uint32_t references, count;
    struct pccl_member members[];
};

/* Creates the list of a new view from its members. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_peer_make_member_list(struct pccl_peer *p);
/* Returns the view's list with a new reference, which pccl_peer_drop_member_list removes. */
struct pccl_member_list *pccl_peer_hold_member_list(struct pccl_peer *p);
/* Removes a reference. `list` may be NULL. */
void pccl_peer_drop_member_list(struct pccl_peer *p, struct pccl_member_list *list);
/* Sets the attributes and the member list that callers see, when a call returns. */
void pccl_peer_set_attributes(struct pccl_peer *p, const struct pccl_attributes *attributes,
                              struct pccl_member_list *list);
void pccl_peer_free_member_lists(struct pccl_peer *p);

/* Returns true if the members of the view are exactly these, in this order. */
bool pccl_peer_has_members(const struct pccl_peer *p, const struct pccl_id *members, uint32_t count);
/* Describes the difference: peers that are missing from the view, and members of the view that are new. */
void pccl_peer_describe_members(const struct pccl_peer *p, const struct pccl_id *members, uint32_t count,
                                struct pccl_text *words);

#endif
