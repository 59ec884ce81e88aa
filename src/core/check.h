/*
 * For functions that look whether a state is as it must be: they return NULL, or the rule that does not hold, in words.
 * A broken rule is a mistake of ours, whatever came in.
 */
#ifndef PCCL_CORE_CHECK_H
#define PCCL_CORE_CHECK_H

#include "core/base.h"

#define PCCL_RULE(holds, words)                                                                                        \
    do {                                                                                                               \
        if (!(holds))                                                                                                  \
            return words;                                                                                              \
    } while (0)

#endif
