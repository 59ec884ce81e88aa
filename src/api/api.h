/*
 * Helpers of the public functions. A file of api calls only files below it; from the bottom to the top: call,
 * arguments, codec, coalesced, op_args, list, group, await, and the files with all other public functions.
 */
#ifndef PCCL_API_API_H
#define PCCL_API_API_H

#include "drive/communicator.h"
#include "config/errors.h"
#include "pccl.h"

/* ---- call.c ---- */

/* Initializes the process at the first call; later calls return at once. For pcclInit. */
void pccl_api_initialize(void);
bool pccl_api_initialized(void);
/*
 * The body of a public function on a handle: `call`, if it can be used here. An invariant that breaks in it ends the
 * communicator. Returns from the function.
 */
#define PCCL_API_CALL(handle, family, call) PCCL_API_CALL_OF(handle, family, false, call)
/* The same for what a communicator can do, and a group cannot. */
#define PCCL_API_WHOLE_CALL(handle, family, call) PCCL_API_CALL_OF(handle, family, true, call)
#define PCCL_API_CALL_OF(handle, family, whole, call)                                                                  \
    do {                                                                                                               \
        struct pccl_caller caller;                                                                                     \
        pcclResult_t refused = pccl_api_begin(&caller, handle, family, whole);                                         \
        if (refused != pcclSuccess)                                                                                    \
            return refused;                                                                                            \
        if (setjmp(caller.guard.place) == 0)                                                                           \
            return pccl_api_end(&caller, handle, call);                                                                \
        return pccl_api_broken(&caller, handle, family);                                                               \
    } while (0)
/* The same without a communicator: the call fails, and what it worked on stays behind. */
#define PCCL_API_GUARDED(family, call)                                                                                 \
    do {                                                                                                               \
        struct pccl_guard guard;                                                                                       \
        pccl_api_enter(&guard);                                                                                        \
        if (setjmp(guard.place) == 0)                                                                                  \
            return pccl_api_leave(&guard, call);                                                                       \
        return pccl_errors_fail(0, family, true, PCCL_INTERNAL, "%s", pccl_status_text(PCCL_INTERNAL));                \
    } while (0)

/* What they are made of. begin: pcclSuccess, or the failure, with a reason; end and leave hand the result through. */
pcclResult_t pccl_api_begin(struct pccl_caller *caller, pcclComm_t *handle, enum pccl_family family, bool whole);
pcclResult_t pccl_api_end(const struct pccl_caller *caller, pcclComm_t *handle, pcclResult_t result);
pcclResult_t pccl_api_broken(struct pccl_caller *caller, pcclComm_t *handle, enum pccl_family family);
/* Can this handle be used in this process? pcclSuccess, or the failure, with a reason. */
pcclResult_t pccl_api_check(const pcclComm_t *handle, enum pccl_family family);
void pccl_api_enter(struct pccl_guard *guard);
pcclResult_t pccl_api_leave(const struct pccl_guard *guard, pcclResult_t result);

/* The reason and the code of a failed call on a communicator. */
pcclResult_t pccl_api_fail(const pcclComm_t *comm, enum pccl_family family, enum pccl_status status,
                           const struct pccl_text *reason);
pcclResult_t pccl_api_fail_why(const pcclComm_t *comm, enum pccl_family family, enum pccl_status status,
                               const struct pccl_why *why);
pcclResult_t pccl_api_fail_with(const pcclComm_t *comm, enum pccl_family family, enum pccl_status status,
                                const char *reason);

/* Returns OK if connected and in no joint call, else USAGE or why it is unconnected. Caller holds the lock. */
PCCL_MUST_CHECK enum pccl_status pccl_api_may_call(const struct pccl_communicator *comm, struct pccl_text *reason);
/* Says why this joint call has failed, and who has departed since it began. Caller holds the lock. */
void pccl_api_explain_call(const struct pccl_communicator *comm, enum pccl_call call, enum pccl_status status,
                           struct pccl_why *why);
/* Connected, and nothing un-awaited? Else USAGE or PENDING_OPS with a reason. world: the snapshot of the run's size. */
PCCL_MUST_CHECK enum pccl_status pccl_api_check_quiet(struct pccl_communicator *comm, uint32_t *world,
                                                      struct pccl_text *reason);

/* ---- arguments.c ---- */

enum { PCCL_API_STRUCT_MAX = 4096 }; /* the largest `size` that a public struct of any version has */

/* ARGUMENT, with these words as the reason. */
enum pccl_status pccl_api_refuse(struct pccl_text *reason, const char *words);
/*
 * Checks or reads a caller's struct of this or a later version; its first member is its size. ARGUMENT with a reason:
 * that is not set (`init` is the macro that does it), or it has what we do not know.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_struct_check(const void *given, size_t size, const char *init,
                                                       struct pccl_text *reason);
PCCL_MUST_CHECK enum pccl_status pccl_api_struct_read(const void *given, void *known, size_t size, const char *init,
                                                      struct pccl_text *reason);
/*
 * A caller's struct, which may be of a later version or NULL, and ours: before the call that fills it in, and after it
 * has succeeded. ARGUMENT with a reason: its size is not set.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_info_begin(const pcclOperationInfo_t *given, pcclOperationInfo_t *info,
                                                     struct pccl_text *reason);
void pccl_api_info_end(const pcclOperationInfo_t *info, pcclOperationInfo_t *given);
/*
 * Gives a caller a text of this length, and a terminator, if there is room; text NULL: only how much is needed.
 * ARGUMENT with a reason: it is too long. needed: may be NULL.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_hand_out(const char *made, size_t length, char *text, size_t size,
                                                   size_t *needed, struct pccl_text *reason);
/* A list of addresses as hosts. ARGUMENT with a reason: none, too many, or one that cannot be read. */
PCCL_MUST_CHECK enum pccl_status pccl_api_hosts(const char *list, uint16_t default_port, struct pccl_host *hosts,
                                                uint32_t max, uint32_t *count, struct pccl_text *reason);
/* An address as PCCL 1.0 passes it. ARGUMENT with a reason: unknown protocol, or port 0. */
PCCL_MUST_CHECK enum pccl_status pccl_api_host(const ccoip_socket_address_t *address, struct pccl_host *host,
                                               struct pccl_text *reason);

/* ---- codec.c ---- */

/* What a caller names as codec, as fields of a descriptor that has its data type and operation. ARGUMENT with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_codec(const pcclQuantizationOptions_t *codec,
                                                struct pccl_descriptor *descriptor, struct pccl_text *reason);
/* Whether with it, what packing takes is kept for the next use of the tag. */
bool pccl_api_codec_feeds_back(const pcclQuantizationOptions_t *codec);

/* ---- coalesced.c ---- */

/*
 * Fills in the buffers of a coalesced all-reduce, whose tensors are the operation's sendbuf. The lists are one block,
 * whose first one is the extents of the input; it has as many bytes as the other function returns for their number.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_coalesced(const pcclOperation_t *asked,
                                                    const pcclQuantizationOptions_t *codec, struct pccl_op_args *args,
                                                    struct pccl_text *reason);
size_t pccl_api_coalesced_bytes(size_t tensor_count);

/* ---- op_args.c ---- */

/* Sets the label of what the calling thread launches from now on. */
void pccl_api_set_label(const struct pccl_label *label);
/* Converts a reduction of PCCL 1.0. The operation refers to the options. ARGUMENT with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_api_reduction(const void *sendbuf, void *recvbuf,
                                                    const pcclReduceDescriptor_t *descriptor,
                                                    pcclCollectiveOptions_t *options, pcclOperation_t *operation,
                                                    struct pccl_text *reason);
/*
 * Checks and converts an operation of this version's size, and changes members that its kind does not use. ARGUMENT
 * with a reason, or MEMORY. Call pccl_api_op_args_free whatever the result.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_op_args(pcclOperation_t *asked, struct pccl_op_args *args,
                                                  struct pccl_text *reason);
void pccl_api_op_args_free(struct pccl_op_args *args);

/* ---- group.c ---- */

/* pcclCloseCommunicator, inside the call, and pcclDestroyCommunicator for a group. */
pcclResult_t pccl_api_close_group(pcclComm_t *handle);
pcclResult_t pccl_api_destroy_group(pcclComm_t *handle);

/* ---- await.c ---- */

/* Returns the result of a call whose failure the operation, or the check of its arguments, has explained. */
pcclResult_t pccl_api_operation_result(const pcclComm_t *comm, enum pccl_status status, const struct pccl_why *why);
/*
 * Launches and awaits, but no longer than that: pcclTimeout, and the handle names what is still under way. Takes the
 * lock itself. The handle is written when the operation is launched.
 */
PCCL_MUST_CHECK pcclResult_t pccl_api_operation_for(pcclComm_t *comm, const struct pccl_op_args *args,
                                                    uint32_t timeout_ms, pcclAsyncReduceOp_t *handle);
/* Fills in the info of PCCL 1.0, which may be NULL. */
static inline void pccl_api_reduce_info(const pcclOperationInfo_t *info, pcclReduceInfo_t *info_out)
{
    if (info_out)
        *info_out = (pcclReduceInfo_t){info->world, info->tx_bytes, info->rx_bytes};
}

#endif
