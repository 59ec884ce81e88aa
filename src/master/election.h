/*
 * Which content of the shared state a group takes, and what becomes of each member that brings another one (PROTOCOL
 * 10.5). Pure, and a function of the votes alone: their order changes nothing.
 */
#ifndef PCCL_MASTER_ELECTION_H
#define PCCL_MASTER_ELECTION_H

#include "wire/wire.h"

enum pccl_strategy { PCCL_ENFORCE_POPULAR, PCCL_RECEIVE_ONLY, PCCL_SEND_ONLY }; /* pcclSharedStateSyncStrategy_t */

/* What one member brings. */
struct pccl_ballot {
    struct pccl_id peer;
    uint64_t revision;
    uint8_t strategy; /* enum pccl_strategy */
    bool fresh;       /* it has not completed a synchronization in this run */
    bool torn;        /* an unfinished transfer has written into it: no candidate */
    bool unequal;     /* it has tensors that need not be the same */
    struct pccl_digest structure, content;
    /* what was decided: */
    bool expelled;
    bool lacks;         /* it has other content than was elected */
    bool takes_unequal; /* it is new, and gets the tensors that need not be the same, too */
};

enum pccl_election_end {
    PCCL_ELECTED,
    PCCL_NOBODY_ELECTED, /* it fails for all; `words` */
    PCCL_EXPELS,         /* some ballots are marked; without them there is to be another election */
};

struct pccl_election {
    enum pccl_election_end end;
    uint64_t revision; /* ELECTED */
    uint32_t winner;   /* a ballot with what was elected */
    struct pccl_text reason;
};

enum { PCCL_NO_BALLOT = -1 };

/*
 * next: the revision that the group goes on with; 0: none yet, any will do. count > 0. why: one that is expelled, and
 * why; `winner` has the list of tensors that its own is not, PCCL_NO_BALLOT if that is not the reason. In the order of
 * the ballots.
 */
struct pccl_election
pccl_elect(struct pccl_ballot *ballots, uint32_t count, uint64_t next,
           void (*why)(void *context, uint32_t index, int64_t winner, const struct pccl_text *reason), void *context);
/* May others take the content (equal: those tensors that are to be equal) from this member? After ELECTED. */
bool pccl_ballot_gives(const struct pccl_ballot *ballot);

#endif
