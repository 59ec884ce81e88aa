/* Types and functions shared by the rounds*.c files. */
#ifndef PCCL_MASTER_ROUNDS_INTERNAL_H
#define PCCL_MASTER_ROUNDS_INTERNAL_H

#include "master/rounds.h"
#include "master/rounds_election.h"

/* A member's vote, and the progress of its part in the synchronization. */
struct pccl_sync_part {
    struct pccl_ballot ballot;
    uint32_t shape_count;
    struct pccl_shape *shapes; /* owned; NULL if another part with the same structure has the shapes and lines */
    uint32_t line_count;
    struct pccl_tensor_line *lines;           /* owned, for the first tensors; their names are in line_names */
    char (*line_names)[PCCL_TENSOR_NAME_MAX]; /* owned */
    /* true if it has the tensors that may differ between members; every member that is not fresh has them */
    bool holds_unequal;
    bool vouches;            /* true if its proof is awaited: it voted for the elected content, and others fetch */
    struct pccl_proof proof; /* proof that it sent; after a fetch, the proof of the elected content; 0: none */
    bool fetches;            /* true if it must fetch and has not sent `sync_done` */
    bool failed;
    uint32_t donor_count; /* number of living donors named to it */
    struct pccl_id donors[PCCL_STATE_DONORS_MAX];
};

/* ---- rounds_tensors.c ---- */

/* Stores the shapes once per structure, so that a tensor that differs can be named. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_master_keep_shapes(struct pccl_master *m, const struct pccl_peer_group *group,
                                             struct pccl_sync_part *part, const struct pccl_msg_sync_vote *vote);
/* Describes the first difference between a differing list and the elected one. */
void pccl_master_name_difference(const struct pccl_peer_group *group, const struct pccl_sync_part *odd,
                                 const struct pccl_sync_part *elected, struct pccl_text *reason);

/* ---- rounds_sync.c ---- */

/* Withdraws a vote. Has no effect after the election. */
void pccl_master_withdraw_sync(struct pccl_master *m, struct pccl_remote *from, uint64_t round);

#endif
