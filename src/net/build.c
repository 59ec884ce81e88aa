#include "net/build.h"

#include "wire/digest.h"

#include <uv.h>

/* CMake defines the release and, in a checkout, the commit. A release archive has no commit. */
#ifndef PCCL_RELEASE
#define PCCL_RELEASE 0
#endif
#ifndef PCCL_COMMIT
#define PCCL_COMMIT 0
#define PCCL_COMMITTED 0
#endif

static struct pccl_build own;

static void compute(void)
{
    own = (struct pccl_build){.version = PCCL_PROTOCOL_VERSION,
                              .digest = pccl_wire_digest(),
                              .release = PCCL_RELEASE,
                              .commit = PCCL_COMMIT,
                              .committed = PCCL_COMMITTED};
}

const struct pccl_build *pccl_build_own(void)
{
    static uv_once_t once = UV_ONCE_INIT;
    uv_once(&once, compute);
    return &own;
}
