/* This build, as its greetings name it. */
#ifndef PCCL_NET_BUILD_H
#define PCCL_NET_BUILD_H

#include "wire/wire.h"

/* Computed at the first call. Any thread. */
const struct pccl_build *pccl_build_own(void);

#endif
