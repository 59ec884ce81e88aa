/*
 * Which content of the shared state a group takes, and what each member with other content has to
 * do (PROTOCOL 10.5). Pure, and a function of the votes alone: their order does not matter.
 */
#ifndef PCCL_MASTER_ELECTION_H
#define PCCL_MASTER_ELECTION_H

#include "wire/wire.h"

enum pccl_strategy { PCCL_ENFORCE_POPULAR, PCCL_RECEIVE_ONLY, PCCL_SEND_ONLY }; /* pcclSharedStateSyncStrategy_t */

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
    bool expelled;
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
    uint64_t revision; /* ELECTED */
    uint32_t winner;   /* ELECTED: a ballot with the elected content */
    struct pccl_text reason;
};

enum { PCCL_NO_BALLOT = -1 };

/*
 * next: the group's next revision; 0: any revision is allowed. count > 0. why: called for each
 * ballot that is expelled, in order, with the reason; if that is another list of tensors, `winner`
 * is the ballot with the elected list, otherwise PCCL_NO_BALLOT.
 */
struct pccl_election
pccl_elect(struct pccl_ballot *ballots, uint32_t count, uint64_t next,
           void (*why)(void *context, uint32_t index, int64_t winner, const struct pccl_text *reason), void *context);
/* May others fetch the elected content from this member? To be asked after ELECTED. */
bool pccl_ballot_gives(const struct pccl_ballot *ballot);

#endif
