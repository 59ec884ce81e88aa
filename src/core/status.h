/*
 * Internal statuses, each with a name, a loss and a text. config/errors.h maps them to public result codes. The loss is
 * NOTHING (an error of the caller; nothing has changed), OPERATION (it can be retried), CONNECTION (it is reopened
 * automatically), or MEMBERSHIP (this communicator is no longer a member and must connect again).
 */
#ifndef PCCL_CORE_STATUS_H
#define PCCL_CORE_STATUS_H

#include "core/base.h"

enum pccl_lost { PCCL_LOST_NOTHING, PCCL_LOST_OPERATION, PCCL_LOST_CONNECTION, PCCL_LOST_MEMBERSHIP };

/* Columns: name, loss, text. */
#define PCCL_STATUS_MAP(X)                                                                                             \
    X(OK, NOTHING, "success")                                                                                          \
    X(ARGUMENT, NOTHING, "invalid argument")                                                                           \
    X(USAGE, NOTHING, "call not allowed in this state")                                                                \
    X(NOT_INITIALIZED, NOTHING, "pcclInit has not been called")                                                        \
    X(TOO_FEW_PEERS, NOTHING, "fewer than two peers in the group")                                                     \
    X(PENDING_OPS, NOTHING, "operations have been launched but not yet awaited")                                       \
    X(MEMORY, OPERATION, "out of memory")                                                                              \
    X(LIMIT, OPERATION, "a limit of the implementation was reached")                                                   \
    X(SYSTEM, OPERATION, "the operating system refused a resource")                                                    \
    X(PEER_LOST, OPERATION, "a peer of the group was lost; a retry may succeed")                                       \
    X(MISMATCH, OPERATION, "peers called the same operation with different arguments")                                 \
    X(ABORTED, OPERATION, "the operation was aborted by a caller")                                                     \
    X(TIMEOUT, OPERATION, "the deadline passed")                                                                       \
    X(STATE, OPERATION, "the shared state could not be synchronized")                                                  \
    X(NO_RING, OPERATION, "no ring could be built for the group")                                                      \
    X(MEMBERS_CHANGED, OPERATION, "the members differ from the list that a caller expected")                           \
    X(UNSUPPORTED, NOTHING, "not supported by this version")                                                           \
    X(MALFORMED, CONNECTION, "malformed data")                                                                         \
    X(VERSION, CONNECTION, "the other side uses a different protocol version")                                         \
    X(MASTER_UNREACHABLE, CONNECTION, "the master cannot be reached")                                                  \
    X(REFUSED, MEMBERSHIP, "the master refused this peer")                                                             \
    X(MASTER_LOST, MEMBERSHIP, "the master did not come back in time")                                                 \
    X(EXPELLED, MEMBERSHIP, "this peer was removed from the run")                                                      \
    X(DRAINED, MEMBERSHIP, "this peer was drained")                                                                    \
    X(INTERNAL, MEMBERSHIP, "internal error")

enum pccl_status {
#define PCCL_STATUS_ENUM(name, lost, text) PCCL_##name,
    PCCL_STATUS_MAP(PCCL_STATUS_ENUM)
#undef PCCL_STATUS_ENUM
        PCCL_STATUS_COUNT
};

const char *pccl_status_name(enum pccl_status status);
const char *pccl_status_text(enum pccl_status status);
enum pccl_lost pccl_status_lost(enum pccl_status status);

#endif
