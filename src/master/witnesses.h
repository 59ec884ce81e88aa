/*
 * The members of a group whose reports are compared (verdicts.h). The comparison calls the functions of this file,
 * which are below it, for facts about members.
 */
#ifndef PCCL_MASTER_WITNESSES_H
#define PCCL_MASTER_WITNESSES_H

#include "master/state.h"

/* The group, for the time of a comparison. */
struct pccl_reported {
    struct pccl_master *m;
    struct pccl_peer_group *group;
};

/* Lists the members in the order of the ring, of which there is one at least. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_master_gather_witnesses(const struct pccl_reported *all, struct pccl_witnesses *witnesses);
/* Frees the list, also after a failure. */
void pccl_master_drop_witnesses(const struct pccl_reported *all, struct pccl_witnesses *witnesses);

#endif
