/* The description of this build that greetings carry. */
#ifndef PCCL_NET_BUILD_H
#define PCCL_NET_BUILD_H

#include "wire/wire.h"

/* Returns the description, computed at the first call. Any thread. */
const struct pccl_build *pccl_build_own(void);

#endif
