/* One turn of a peer's life: admit newcomers, agree on the step, make it. The caller defines a step. */
#ifndef PCCL_TESTS_E2E_LOOP_H
#define PCCL_TESTS_E2E_LOOP_H

#include "script.h"

struct loop {
    struct command *command;
    pcclComm_t *comm;
    uint64_t step;
    bool joined; /* joined just now: the others have made their topology update too */
    bool fresh;  /* the membership has changed: agree on the step */
    /* Makes step `step`; after success the next one is due. */
    pcclResult_t (*make)(struct loop *loop);
};

/*
 * Runs turns until the slot's stop is set or a call fails for another reason than a lack of peers; answers the command.
 */
void run_loop(struct loop *loop);

#endif
