/* What the files of the room of links share. */
#ifndef PCCL_MASTER_LINKS_INTERNAL_H
#define PCCL_MASTER_LINKS_INTERNAL_H

#include "master/links.h"

/* ---- links_wanted.c ---- */

/* Does the view use this link beside its ring, and say that it is up? */
bool pccl_master_goes_directly(const struct pccl_remote *from, const struct pccl_remote *to);

/* ---- links_hubs.c ---- */

/* This link of hubs has failed: they are none any more, and not again for a while. */
void pccl_master_bar_hubs(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* The same, if no view has said that it stands: nobody relies on it yet. */
void pccl_master_give_up_asked_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);

/* ---- links_edges.c ---- */

/* NULL: nothing was reported. */
struct pccl_edge *pccl_master_find_edge(const struct pccl_master *m, const struct pccl_id *from,
                                        const struct pccl_id *to, bool incoming);
/* Both ends, if they are members of one group that need this link; else false. */
bool pccl_master_ends_of(const struct pccl_master *m, const struct pccl_edge *edge, struct pccl_remote **from,
                         struct pccl_remote **to);

/* Whether the dial got no answer or one from another process, or could not be made: more than a link that ended. */
static inline bool pccl_master_is_failed_dialing(bool incoming, enum pccl_link_end how)
{
    return !incoming && how != PCCL_LINK_CLOSED && how != PCCL_LINK_SILENT;
}

/* A link that ended so shows that the process is gone; strict: one that had to be dialed. */
static inline bool pccl_master_is_evidence(enum pccl_link_end how, bool strict)
{
    return how == PCCL_LINK_REFUSED || how == PCCL_LINK_OTHER || (!strict && how == PCCL_LINK_CLOSED);
}

/*
 * Its control connection stands, and something has come over it since. Both ends are asked for an answer when a link is
 * lost. Who is silent may be gone altogether.
 */
static inline bool pccl_master_was_heard_since(const struct pccl_remote *remote, uint64_t since_us)
{
    return remote->conn != 0 && remote->heard_us >= since_us;
}

/* ---- links_avoided.c ---- */

/* This link has failed: gives the group a ring without it, which `why` says. false: no such ring exists. */
PCCL_MUST_CHECK bool pccl_master_avoid_link(struct pccl_master *m, const struct pccl_remote *from,
                                            const struct pccl_remote *to, struct pccl_text *why);
/* Counts the bad links of two members of one group. Zero without memory. */
void pccl_master_count_bad_links(struct pccl_master *m, const struct pccl_remote *one, const struct pccl_remote *other,
                                 uint32_t *of_one, uint32_t *of_other);

#endif
