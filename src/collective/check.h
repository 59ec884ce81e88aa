/* The invariants of the exchange's own state, for tests. */
#ifndef PCCL_COLLECTIVE_CHECK_H
#define PCCL_COLLECTIVE_CHECK_H

#include "collective/exchange.h"

/* Between two calls: NULL, or the rule that does not hold, as a sentence. */
const char *pccl_exchange_check(const struct pccl_exchange *exchange);

#endif
