/*
 * Election of the shared state's content, and its consequences for members with other content (PROTOCOL 10.5). Pure:
 * the result depends only on the votes, not on their order.
 */
#ifndef PCCL_MASTER_ROUNDS_ELECTION_H
#define PCCL_MASTER_ROUNDS_ELECTION_H

#include "wire/wire.h"

enum pccl_strategy { PCCL_ENFORCE_POPULAR, PCCL_RECEIVE_ONLY, PCCL_SEND_ONLY }; /* pcclSharedStateSyncStrategy_t */

/* Reason why a ballot is expelled. */
enum pccl_expulsion {
    PCCL_NOT_EXPELLED,
    PCCL_EXPELLED_JUMPS,        /* its revision is above the next one */
    PCCL_EXPELLED_MIXES,        /* its strategy cannot be combined with strategies that enforce the popular state */
    PCCL_EXPELLED_ALL_RECEIVE,  /* all members only receive */
    PCCL_EXPELLED_OTHER_LIST,   /* its list of tensors differs from the elected one */
    PCCL_EXPELLED_SENDS_OTHER,  /* it only sends, and its content differs */
    PCCL_EXPELLED_SENDS_EARLIER /* it only sends, and its revision differs */
};

/* Vote of one member. */
struct pccl_ballot {
    struct pccl_id peer;
    uint64_t revision;
    uint8_t strategy; /* enum pccl_strategy */
    bool fresh;       /* true if it has not completed a synchronization in this run */
    bool torn;        /* true if an unfinished transfer has overwritten parts of it, so that it is not a candidate */
    bool unequal;     /* true if it has tensors that may differ between members */
    struct pccl_digest structure, content;
    /* Results: */
    enum pccl_expulsion expelled;
    bool lacks;         /* true if its content is not the elected one */
    bool takes_unequal; /* true if it also fetches the tensors that may differ, because it is fresh */
};

enum pccl_election_end {
    PCCL_ELECTED,
    PCCL_NONE_ELECTED, /* the round fails for all; `reason` says why */
    PCCL_EXPELS,       /* some ballots are marked as expelled; repeat the election without them */
};

struct pccl_election {
    enum pccl_election_end end;
    uint64_t revision; /* ELECTED; EXPELS: the revision to which ballots were compared */
    uint32_t winner;   /* ELECTED, or a ballot has another list: index of a ballot with the elected content */
    struct pccl_text reason;
};

/* Elects the content that all members will have. `next`: the group's next revision, or 0 for any. count > 0. */
struct pccl_election pccl_elect(struct pccl_ballot *ballots, uint32_t count, uint64_t next);
/* Describes why this ballot is expelled. */
void pccl_describe_expulsion(struct pccl_text *reason, const struct pccl_ballot *ballot,
                             const struct pccl_election *election);
/* Returns true if others may fetch the elected content from this member. Valid after ELECTED. */
bool pccl_ballot_gives(const struct pccl_ballot *ballot);

#endif
