/* The invariants of the exchange's own state. */
#ifndef PCCL_SUPPORT_EXCHANGE_CHECK_H
#define PCCL_SUPPORT_EXCHANGE_CHECK_H

#include "collective/exchange.h"

/* Between two calls: NULL, or the rule that does not hold, as a sentence. */
const char *pccl_exchange_check(const struct pccl_exchange *exchange);

#endif
