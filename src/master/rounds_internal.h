/* Shared by the files of rounds. */
#ifndef PCCL_MASTER_ROUNDS_INTERNAL_H
#define PCCL_MASTER_ROUNDS_INTERNAL_H

#include "master/rounds.h"
#include "master/rounds_election.h"

/* A member's vote, and the progress of its part. */
struct pccl_sync_part {
    struct pccl_ballot ballot;
    uint32_t shape_count;
    struct pccl_shape *shapes; /* owned; NULL: another part with the same structure has the shapes and lines */
    uint32_t line_count;
    struct pccl_tensor_line *lines;           /* owned, of the first tensors; their names are in line_names */
    char (*line_names)[PCCL_TENSOR_NAME_MAX]; /* owned */
    /* has tensors that may differ between members, like every member that is not fresh */
    bool holds_unequal;
    bool vouches;            /* voted for the elected content, others fetch it, and its proof is still missing */
    struct pccl_proof proof; /* proof that it sent, or the elected content's proof once it has fetched; 0: none */
    bool fetches;            /* asked to fetch, and has not sent `sync_done` */
    bool failed;
    uint32_t donor_count; /* living donors named to it */
    struct pccl_id donors[PCCL_STATE_DONORS_MAX];
};

/* ---- rounds_tensors.c ---- */

/* Keeps one copy of the shapes per structure, to name the first tensor that differs. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_master_keep_shapes(struct pccl_master *m, const struct pccl_peer_group *group,
                                             struct pccl_sync_part *part, const struct pccl_msg_sync_vote *vote);
/* Describes the first difference between an odd list and the elected one. */
void pccl_master_name_difference(const struct pccl_peer_group *group, const struct pccl_sync_part *odd,
                                 const struct pccl_sync_part *elected, struct pccl_text *reason);

/* ---- rounds_sync.c ---- */

/* Withdraws a vote unless a content is elected already. */
void pccl_master_withdraw_sync(struct pccl_master *m, struct pccl_remote *from, uint64_t round);

#endif
