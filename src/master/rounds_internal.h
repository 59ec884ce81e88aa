/* What the files of the room of rounds share. */
#ifndef PCCL_MASTER_ROUNDS_INTERNAL_H
#define PCCL_MASTER_ROUNDS_INTERNAL_H

#include "master/rounds.h"
#include "master/rounds_election.h"

/* A member's vote, and how far it has come with its part. */
struct pccl_sync_part {
    struct pccl_ballot ballot;
    uint32_t shape_count;
    struct pccl_shape *shapes; /* owned; NULL: another part with the same structure has them and the lines */
    uint32_t line_count;
    struct pccl_tensor_line *lines;           /* owned, of the first tensors; their names are in line_names */
    char (*line_names)[PCCL_TENSOR_NAME_MAX]; /* owned */
    bool holds_unequal;      /* it has tensors that need not be the same, as members that are not fresh do */
    bool vouches;            /* it brought what was elected, others fetch it, and it has not sent the proof yet */
    struct pccl_proof proof; /* the proof that it sent, or that of the elected content once it has fetched; 0: none */
    bool fetches;            /* the plan asks it to, and it has not said `sync_done` */
    bool failed;
    uint32_t donor_count; /* donors that it was told of and that are alive */
    struct pccl_id donors[PCCL_STATE_DONORS_MAX];
};

/* ---- rounds_tensors.c ---- */

/* Keeps one copy for each structure, to name the first tensor that differs. */
PCCL_MUST_CHECK bool pccl_master_keep_shapes(struct pccl_master *m, const struct pccl_peer_group *group,
                                             struct pccl_sync_part *part, const struct pccl_msg_sync_vote *vote);
/* Names the first difference between an odd list and the elected one. */
void pccl_master_name_difference(const struct pccl_peer_group *group, const struct pccl_sync_part *odd,
                                 const struct pccl_sync_part *elected, struct pccl_text *reason);

/* ---- rounds_sync.c ---- */

/* Withdraws a vote, if nothing is elected yet. */
void pccl_master_withdraw_sync(struct pccl_master *m, struct pccl_remote *from, uint64_t round);

#endif
