/*
 * Helper for functions that check the invariants of a state. They return NULL, or a sentence that states the violated
 * rule. A violation is always a bug in the library, regardless of the input.
 */
#ifndef PCCL_CORE_RULE_H
#define PCCL_CORE_RULE_H

#include "core/base.h"

#define PCCL_RULE(holds, words)                                                                                        \
    do {                                                                                                               \
        if (!(holds))                                                                                                  \
            return words;                                                                                              \
    } while (0)

#endif
