/*
 * The members of this peer's group in their canonical order, that of their admission: as of the
 * view, and as of the last call that returned, which is what callers count on. A list is shared by
 * all that refer to it, and never changes.
 */
#ifndef PCCL_PEER_ROLL_H
#define PCCL_PEER_ROLL_H

#include "peer/state.h"

struct pccl_roll {
    uint64_t number; /* of the lists that this peer has made */
    uint32_t references, count;
    struct pccl_member members[];
};

/* Makes the list of a new view, whose members are known. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_peer_make_roll(struct pccl_peer *p);
/* The view's list, held until it is dropped. */
struct pccl_roll *pccl_peer_hold_roll(struct pccl_peer *p);
/* NULL: nothing. */
void pccl_peer_drop_roll(struct pccl_peer *p, struct pccl_roll *roll);
/*
 * A call returns: from now on callers see these attributes, and the list that belongs to them. The
 * only place that sets them.
 */
void pccl_peer_set_attributes(struct pccl_peer *p, const struct pccl_attributes *attributes, struct pccl_roll *roll);
void pccl_peer_free_rolls(struct pccl_peer *p);

/* Does a caller that counts on these members, in this order, count on those of the view? */
bool pccl_peer_has_members(const struct pccl_peer *p, const struct pccl_id *members, uint32_t count);
/* How they differ: who is missing, and who is new. */
void pccl_peer_describe_members(const struct pccl_peer *p, const struct pccl_id *members, uint32_t count,
                                struct pccl_text *words);

#endif
