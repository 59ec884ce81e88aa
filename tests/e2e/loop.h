/*
 * One turn of a peer's life: admit newcomers, agree on the step, make it. The caller says what a
 * step is.
 */
#ifndef PCCL_TESTS_E2E_LOOP_H
#define PCCL_TESTS_E2E_LOOP_H

#include "script.h"

struct loop {
    struct command *command;
    pcclComm_t *comm;
    uint64_t step;
    bool joined; /* just now: the others are past their topology update too */
    bool fresh;  /* the membership has changed: agree on the step */
    /* Makes step `step`; after success the next one is due. */
    pcclResult_t (*make)(struct loop *loop);
};

/*
 * Until the slot's stop is set or something other than a lack of peers goes wrong; answers the
 * command.
 */
void run_loop(struct loop *loop);

#endif
