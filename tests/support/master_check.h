/* The invariants of the master's own state. */
#ifndef PCCL_SUPPORT_MASTER_CHECK_H
#define PCCL_SUPPORT_MASTER_CHECK_H

#include "master/master.h"

/*
 * To be called between two steps. Returns the rule that does not hold, as text, or NULL. It walks
 * the whole state, so tests call it only now and then.
 */
const char *pccl_master_check(const struct pccl_master *master);

#endif
