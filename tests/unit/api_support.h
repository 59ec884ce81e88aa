/* Shared by the tests of the public functions: the size of a communicator's world, and the reason of a failure. */
#ifndef PCCL_TESTS_UNIT_API_SUPPORT_H
#define PCCL_TESTS_UNIT_API_SUPPORT_H

#include "pccl.h"

#include <string.h>

static inline int world_of(const pcclComm_t *comm)
{
    int count = 0;
    assert_int_equal(pcclGetAttribute(comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &count), pcclSuccess);
    return count;
}

/* comm NULL: of calls without one. */
static inline void words_say(const pcclComm_t *comm, const char *part)
{
    const char *reason = pcclGetLastError(comm);
    if (!strstr(reason, part))
        fail_msg("'%s' is not in '%s'", part, reason);
}

static inline pcclCollectiveOptions_t tagged(uint64_t tag)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    options.tag = tag;
    return options;
}

/* Checks a refusal without a communicator. */
static inline void is_refused(pcclResult_t result, const char *part)
{
    assert_int_equal(result, pcclInvalidArgument);
    words_say(NULL, part);
}

#endif
