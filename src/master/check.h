/* The invariants of the master's own state, for tests. */
#ifndef PCCL_MASTER_CHECK_H
#define PCCL_MASTER_CHECK_H

#include "master/master.h"

/* Between two steps: NULL, or the rule that does not hold, in words. It looks at everything: tests may ask now and
 * then. */
const char *pccl_master_check(const struct pccl_master *master);

#endif
