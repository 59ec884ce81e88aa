/* The invariants of the exchange's own state. */
#ifndef PCCL_SUPPORT_EXCHANGE_CHECK_H
#define PCCL_SUPPORT_EXCHANGE_CHECK_H

#include "collective/exchange.h"

/* Returns the rule that does not hold, as text, or NULL. Legal between two calls of the exchange. */
const char *pccl_exchange_check(const struct pccl_exchange *exchange);

#endif
