/*
 * Which content of the shared state a group takes, and what each member with other content has to
 * do (PROTOCOL 10.5). Pure, and a function of the votes alone: their order does not matter.
 */
#ifndef PCCL_MASTER_ROUNDS_ELECTION_H
#define PCCL_MASTER_ROUNDS_ELECTION_H

#include "wire/wire.h"

enum pccl_strategy { PCCL_ENFORCE_POPULAR, PCCL_RECEIVE_ONLY, PCCL_SEND_ONLY }; /* pcclSharedStateSyncStrategy_t */

/* Why a ballot is expelled. */
enum pccl_expulsion {
    PCCL_NOT_EXPELLED,
    PCCL_EXPELLED_JUMPS,        /* its revision is above the next one */
    PCCL_EXPELLED_MIXES,        /* its strategy differs from the strategies that enforce the popular state */
    PCCL_EXPELLED_ALL_RECEIVE,  /* all members only receive */
    PCCL_EXPELLED_OTHER_LIST,   /* its list of tensors is not the elected one */
    PCCL_EXPELLED_SENDS_OTHER,  /* it only sends, and has other content */
    PCCL_EXPELLED_SENDS_EARLIER /* it only sends, and has another revision */
};

/* The vote of one member. */
struct pccl_ballot {
    struct pccl_id peer;
    uint64_t revision;
    uint8_t strategy; /* enum pccl_strategy */
    bool fresh;       /* it has not completed a synchronization in this run */
    bool torn;        /* an unfinished transfer has written into it: no candidate */
    bool unequal;     /* it has tensors that need not be the same */
    struct pccl_digest structure, content;
    /* the result: */
    enum pccl_expulsion expelled;
    bool lacks;         /* its content is not the elected one */
    bool takes_unequal; /* it is fresh, and also takes the tensors that need not be the same */
};

enum pccl_election_end {
    PCCL_ELECTED,
    PCCL_NOBODY_ELECTED, /* the round fails for all, as `reason` says */
    PCCL_EXPELS,         /* some ballots are marked as expelled; hold another election without them */
};

struct pccl_election {
    enum pccl_election_end end;
    uint64_t revision; /* ELECTED; EXPELS: the one that ballots were compared with */
    uint32_t winner;   /* ELECTED, and if a ballot has another list: a ballot with the elected content */
    struct pccl_text reason;
};

/* next: the group's next revision; 0: any revision is allowed. count > 0. */
struct pccl_election pccl_elect(struct pccl_ballot *ballots, uint32_t count, uint64_t next);
/* Formats the reason for which this ballot is expelled. */
void pccl_describe_expulsion(struct pccl_text *reason, const struct pccl_ballot *ballot,
                             const struct pccl_election *election);
/* May others fetch the elected content from this member? To be asked after ELECTED. */
bool pccl_ballot_gives(const struct pccl_ballot *ballot);

#endif
