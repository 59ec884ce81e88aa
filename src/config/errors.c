#include "config/errors.h"

#include <string.h>
#include <uv.h>

#include "core/limits.h"

enum { SLOTS = 8 };

struct slot {
    uint64_t key;
    uint64_t used; /* time of the last failure; 0: the slot is free */
    struct pccl_why why;
    pcclResult_t result;
    pcclResult_t precise; /* result that the call would return with extended_results */
};

/* Slots of the calling thread. Slot 0 is for calls without a communicator. */
static _Thread_local struct slot slots[SLOTS + 1];
static _Thread_local uint64_t clock_of_slots;

/* Returns the result with which functions of this family report a lost operation or membership. */
static pcclResult_t failure_of(enum pccl_family family)
{
    switch (family) {
    case PCCL_FAMILY_CONNECT: return pcclMasterConnectionFailed;
    case PCCL_FAMILY_UPDATE: return pcclUpdateTopologyFailed;
    case PCCL_FAMILY_OPTIMIZE: return pcclTopologyOptimizationFailed;
    case PCCL_FAMILY_REDUCE: return pcclRankConnectionLost;
    case PCCL_FAMILY_PENDING:
    case PCCL_FAMILY_SYNC:
    case PCCL_FAMILY_MASTER:
    case PCCL_FAMILY_GENERAL:
    case PCCL_FAMILIES: break;
    }
    return pcclInvalidUsage;
}

pcclResult_t pccl_errors_result(enum pccl_family family, enum pccl_status status, bool extended)
{
    pcclResult_t failure = failure_of(family);
    switch (status) {
    case PCCL_OK: return pcclSuccess;
    case PCCL_ARGUMENT: return pcclInvalidArgument;
    case PCCL_USAGE: return pcclInvalidUsage;
    case PCCL_NOT_INITIALIZED: return pcclNotInitialized;
    case PCCL_TOO_FEW_PEERS: return pcclTooFewPeers;
    case PCCL_PENDING_OPS: return pcclPendingAsyncOps;
    case PCCL_MEMORY: return extended ? pcclOutOfMemory : pcclInternalError;
    case PCCL_LIMIT: return pcclInvalidUsage;
    case PCCL_SYSTEM:
        /* PCCL 1.0 returns these results if a port cannot be opened. */
        if (family == PCCL_FAMILY_CONNECT || family == PCCL_FAMILY_MASTER) {
            return failure;
        }
        return pcclInternalError;
    case PCCL_PEER_LOST: return failure;
    case PCCL_MISMATCH: return extended ? pcclPeerMismatch : pcclInvalidUsage;
    case PCCL_ABORTED: return extended ? pcclAborted : failure;
    case PCCL_TIMEOUT: return extended ? pcclTimeout : failure;
    case PCCL_STATE:
    case PCCL_NO_RING: return failure;
    case PCCL_MEMBERS_CHANGED: return pcclMembersChanged;
    case PCCL_UNSUPPORTED: return extended ? pcclUnsupported : pcclInvalidUsage;
    case PCCL_MALFORMED: return failure;
    case PCCL_VERSION: return extended ? pcclVersionMismatch : failure;
    case PCCL_MASTER_UNREACHABLE: return extended && family != PCCL_FAMILY_CONNECT ? pcclMasterLost : failure;
    case PCCL_REFUSED: return extended ? pcclRefused : failure;
    case PCCL_MASTER_LOST: return extended ? pcclMasterLost : failure;
    case PCCL_EXPELLED: return extended ? pcclExpelled : failure;
    case PCCL_DRAINED: return extended ? pcclDrained : failure;
    case PCCL_INTERNAL:
    case PCCL_STATUS_COUNT: break;
    }
    return pcclInternalError;
}

enum pccl_status pccl_errors_of_system(int error) { return error == UV_ENOMEM ? PCCL_MEMORY : PCCL_SYSTEM; }

const char *pccl_errors_text(pcclResult_t result)
{
    switch (result) {
    case pcclSuccess: return "success";
    case pcclNotInitialized: return "pcclInit has not been called";
    case pcclInternalError: return "out of memory or another resource, or a bug in the library";
    case pcclInvalidArgument: return "an argument is invalid";
    case pcclInvalidUsage: return "the call is not allowed in this state, or conflicts with other peers' calls";
    case pcclTooFewPeers: return "the group has fewer than two peers";
    case pcclMasterConnectionFailed: return "could not join the run through the master";
    case pcclRankConnectionFailed: return "a peer could not be reached";
    case pcclRankConnectionLost: return "the operation failed on all peers, usually because a peer was lost";
    case pcclNoSharedStateAvailable: return "no shared state is available";
    case pcclPendingAsyncOps: return "operations have been launched but not yet awaited";
    case pcclUpdateTopologyFailed: return "the topology could not be updated";
    case pcclTopologyOptimizationFailed: return "the topology could not be optimized";
    case pcclTimeout: return "the deadline passed";
    case pcclAborted: return "the operation was aborted by a caller";
    case pcclVersionMismatch: return "the other side uses a different protocol version";
    case pcclPeerMismatch: return "peers called the same operation with different arguments";
    case pcclExpelled: return "the master removed this peer from the run";
    case pcclMasterLost: return "the master did not come back in time";
    case pcclOutOfMemory: return "out of memory";
    case pcclUnsupported: return "not supported by this version";
    case pcclMembersChanged: return "the members differ from the list that a caller expected";
    case pcclRefused: return "the master refused this peer";
    case pcclDrained: return "this peer was drained";
    }
    return "unknown result code";
}

static struct slot *find(uint64_t key)
{
    if (key == 0) {
        return &slots[0];
    }
    for (int i = 1; i <= SLOTS; i++) {
        if (slots[i].used != 0 && slots[i].key == key) {
            return &slots[i];
        }
    }
    return NULL;
}

/* Returns the slot with this key, or else the least recently used slot for reuse. */
static struct slot *claim(uint64_t key)
{
    struct slot *slot = find(key);
    if (slot == NULL) {
        slot = &slots[1];
        for (int i = 2; i <= SLOTS; i++) {
            if (slots[i].used < slot->used) {
                slot = &slots[i];
            }
        }
    }
    slot->key = key;
    slot->used = ++clock_of_slots;
    return slot;
}

pcclResult_t pccl_errors_fail(uint64_t key, enum pccl_family family, bool extended, enum pccl_status status,
                              const struct pccl_why *why)
{
    struct slot *slot = claim(key);
    slot->why = *why;
    if (slot->why.reason.length == 0)
        pccl_text_format(&slot->why.reason, "%s", pccl_status_text(status));
    slot->result = pccl_errors_result(family, status, extended);
    slot->precise = pccl_errors_result(family, status, true);
    return slot->result;
}

const char *pccl_errors_last(uint64_t key)
{
    const struct slot *slot = find(key);
    return slot != NULL ? slot->why.reason.bytes : "";
}

_Static_assert(PCCL_FAILURE_PEERS_MAX == PCCL_DEPARTED_LISTED_MAX, "as many as are known");
_Static_assert(PCCL_PEER_ID_SIZE == 2 * sizeof(struct pccl_id) + 1, "all digits");

void pccl_errors_describe(uint64_t key, pcclFailure_t *failure)
{
    const struct slot *slot = find(key);
    size_t size = failure->size;
    memset(failure, 0, size); /* also clears members of later versions */
    failure->size = size;
    if (slot == NULL)
        return;
    const struct pccl_departed *departed = &slot->why.details.departed;
    failure->result = slot->result;
    failure->precise = (uint32_t)slot->precise;
    failure->launched = slot->why.details.launched;
    failure->tag = slot->why.details.tag;
    failure->sequence = slot->why.details.sequence;
    failure->peer_count = departed->count;
    for (uint32_t i = 0; i < departed->count && i < PCCL_FAILURE_PEERS_MAX; i++)
        pccl_id_write(&departed->ids[i], failure->peers[i], PCCL_PEER_ID_SIZE - 1); /* the terminator is already 0 */
}

void pccl_errors_forget(uint64_t key)
{
    struct slot *slot = find(key);
    if (slot != NULL) {
        *slot = (struct slot){0};
    }
}
