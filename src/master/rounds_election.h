/*
 * Election of the shared state's content, and the action for each member with other content (PROTOCOL 10.5). Pure; a
 * function of the votes alone, whatever their order.
 */
#ifndef PCCL_MASTER_ROUNDS_ELECTION_H
#define PCCL_MASTER_ROUNDS_ELECTION_H

#include "wire/wire.h"

enum pccl_strategy { PCCL_ENFORCE_POPULAR, PCCL_RECEIVE_ONLY, PCCL_SEND_ONLY }; /* pcclSharedStateSyncStrategy_t */

/* Reason why a ballot is expelled. */
enum pccl_expulsion {
    PCCL_NOT_EXPELLED,
    PCCL_EXPELLED_JUMPS,        /* its revision is above the next one */
    PCCL_EXPELLED_MIXES,        /* its strategy conflicts with strategies that enforce the popular state */
    PCCL_EXPELLED_ALL_RECEIVE,  /* all members only receive */
    PCCL_EXPELLED_OTHER_LIST,   /* its list of tensors is not the elected one */
    PCCL_EXPELLED_SENDS_OTHER,  /* it only sends, and its content differs */
    PCCL_EXPELLED_SENDS_EARLIER /* it only sends, and its revision differs */
};

/* Vote of one member. */
struct pccl_ballot {
    struct pccl_id peer;
    uint64_t revision;
    uint8_t strategy; /* enum pccl_strategy */
    bool fresh;       /* has not completed a synchronization in this run */
    bool torn;        /* not a candidate: an unfinished transfer has written into it */
    bool unequal;     /* has tensors that need not be equal */
    struct pccl_digest structure, content;
    /* Result: */
    enum pccl_expulsion expelled;
    bool lacks;         /* its content is not the elected one */
    bool takes_unequal; /* fresh: also takes the tensors that need not be equal */
};

enum pccl_election_end {
    PCCL_ELECTED,
    PCCL_NONE_ELECTED, /* the round fails for all, as `reason` says */
    PCCL_EXPELS,       /* some ballots are marked as expelled; repeat the election without them */
};

struct pccl_election {
    enum pccl_election_end end;
    uint64_t revision; /* ELECTED; EXPELS: the revision that ballots were compared with */
    uint32_t winner;   /* ELECTED, if a ballot has another list: index of a ballot with the elected content */
    struct pccl_text reason;
};

/* Elects the content that all members will hold. `next` is the group's next revision, or 0 to allow any. count > 0. */
struct pccl_election pccl_elect(struct pccl_ballot *ballots, uint32_t count, uint64_t next);
/* Describes the reason why this ballot is expelled. */
void pccl_describe_expulsion(struct pccl_text *reason, const struct pccl_ballot *ballot,
                             const struct pccl_election *election);
/* Returns true if others may fetch the elected content from this member. Valid after ELECTED. */
bool pccl_ballot_gives(const struct pccl_ballot *ballot);

#endif
