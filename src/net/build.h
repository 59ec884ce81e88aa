/* The description of this build, as sent in greetings. */
#ifndef PCCL_NET_BUILD_H
#define PCCL_NET_BUILD_H

#include "wire/wire.h"

/* Returns the description, which the first call computes. Any thread. */
const struct pccl_build *pccl_build_own(void);

#endif
