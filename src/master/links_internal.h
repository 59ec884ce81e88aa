/* Functions shared by the links_*.c files. */
#ifndef PCCL_MASTER_LINKS_INTERNAL_H
#define PCCL_MASTER_LINKS_INTERNAL_H

#include "master/links.h"

/* ---- links_wanted.c ---- */

/* Returns true if the view uses this link outside its ring and lists it as up. */
bool pccl_master_exchanges_directly(const struct pccl_remote *from, const struct pccl_remote *to);

/* Returns the figure of a link between two members of one group; NULL if none exists. */
const struct pccl_figure *pccl_master_link_figure(const struct pccl_remote *from, const struct pccl_remote *to);

/* ---- links_hubs.c ---- */

/* Ends the hubs of this failed link and bars them for a while. */
void pccl_master_bar_hubs(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* Does the same for a requested link that could not be opened and that no view has listed as up. */
void pccl_master_give_up_asked_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);

/* ---- links_edges.c ---- */

/*
 * Returns the edge that stores the report of `from` about its link to `to` or, with `incoming`, from `to`; NULL if none
 * exists.
 */
struct pccl_edge *pccl_master_find_edge(const struct pccl_master *m, const struct pccl_id *from,
                                        const struct pccl_id *to, bool incoming);
/* Finds both ends. Returns true if they are members of one group that need this link. */
bool pccl_master_ends_of(const struct pccl_master *m, const struct pccl_edge *edge, struct pccl_remote **from,
                         struct pccl_remote **to);

/* Returns true if the dial failed (no answer, another process, no attempt); false if an established link ended. */
static inline bool pccl_master_is_failed_dialing(bool incoming, enum pccl_link_end how)
{
    return !incoming && how != PCCL_LINK_CLOSED && how != PCCL_LINK_SILENT;
}

/* Returns true if an end of this kind shows that the process is gone. `strict` accepts only results of a dial. */
static inline bool pccl_master_is_evidence(enum pccl_link_end how, bool strict)
{
    return how == PCCL_LINK_REFUSED || how == PCCL_LINK_OTHER || (!strict && how == PCCL_LINK_CLOSED);
}

/*
 * Returns true if the control connection is up and has received something since `since_us`. When a link is lost, the
 * master requests an answer from both ends; an end that stays silent may be dead.
 */
static inline bool pccl_master_has_received_since(const struct pccl_remote *remote, uint64_t since_us)
{
    return remote->conn != 0 && remote->received_us >= since_us;
}

/* ---- links_avoided.c ---- */

/*
 * Changes the group's ring to one without this failed link and describes the change in `why`. Returns false if there is
 * no such ring.
 */
PCCL_MUST_CHECK bool pccl_master_avoid_link(struct pccl_master *m, const struct pccl_remote *from,
                                            const struct pccl_remote *to, struct pccl_text *why);
/* Counts the bad links of two members of one group. Both counts are 0 if memory runs out. */
void pccl_master_count_bad_links(struct pccl_master *m, const struct pccl_remote *one, const struct pccl_remote *other,
                                 uint32_t *of_one, uint32_t *of_other);

#endif
