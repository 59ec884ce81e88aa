/* What the files of the room of rounds share. */
#ifndef PCCL_MASTER_ROUNDS_INTERNAL_H
#define PCCL_MASTER_ROUNDS_INTERNAL_H

#include "master/rounds.h"

/* Withdraws a vote, if nothing is elected yet. */
void pccl_master_withdraw_sync(struct pccl_master *m, struct pccl_remote *from, uint64_t round);

#endif
