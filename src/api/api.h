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

/* Initializes the process at the first call, for pcclInit; later calls return at once. */
void pccl_api_initialize(void);
bool pccl_api_initialized(void);

/* The subject of a public call. */
enum pccl_api_subject {
    PCCL_API_PROCESS,      /* no communicator: the process, a master, options */
    PCCL_API_CREATION,     /* no communicator yet; pcclInit has been called */
    PCCL_API_ANY,          /* a communicator or a group */
    PCCL_API_COMMUNICATOR, /* a communicator; groups cannot do this */
    PCCL_API_OPERATION,    /* an operation, by the communicator or group of its handle */
    PCCL_API_DESTRUCTION   /* a communicator or a group, which the call does not enter */
};

/* A public call, stored in the frame of the exported function, which a guard never abandons. */
struct pccl_api_call {
    struct pccl_caller caller;      /* guard of the call; the rest is used only inside a communicator */
    pcclComm_t *handle;             /* NULL: PROCESS */
    struct pccl_communicator *comm; /* communicator of the handle; NULL: the call is not inside one */
    enum pccl_family family;
    uint64_t key;  /* key of the handle, for config/errors; 0: no handle */
    bool extended; /* results from 13 upwards are allowed: by the handle's setting, unless the body decides */
    struct pccl_why why;
    pcclResult_t inner; /* failure of a public call within the body, which has recorded the reason; otherwise success */
};

/*
 * The whole body of an exported function. `body` is an expression, mostly a call of a static function, which uses
 * `call`, writes the reason of a failure to call->why and returns a status. An invariant that breaks in it ends the
 * communicator.
 */
#define PCCL_API_CALL(subject, handle, family, body)                                                                   \
    do {                                                                                                               \
        struct pccl_api_call frame, *const call = &frame;                                                              \
        enum pccl_status refused = pccl_api_begin(&frame, PCCL_API_##subject, handle, family);                         \
        if (refused != PCCL_OK)                                                                                        \
            return pccl_api_result(&frame, refused);                                                                   \
        if (setjmp(frame.caller.guard.place) == 0)                                                                     \
            return pccl_api_end(call, body);                                                                           \
        return pccl_api_broken(&frame);                                                                                \
    } while (0)
/* The same for functions that signal handlers may call: about a process, and without a guard. */
#define PCCL_API_SIGNAL_CALL(family, body)                                                                             \
    do {                                                                                                               \
        struct pccl_api_call frame, *const call = &frame;                                                              \
        pccl_api_init(call, family);                                                                                   \
        return pccl_api_result(call, body);                                                                            \
    } while (0)

/* Parts of these macros. pccl_api_result records the failure, if there is one; end and broken call it, too. */
void pccl_api_init(struct pccl_api_call *call, enum pccl_family family);
PCCL_MUST_CHECK enum pccl_status pccl_api_begin(struct pccl_api_call *call, enum pccl_api_subject subject,
                                                const pcclComm_t *handle, enum pccl_family family);
pcclResult_t pccl_api_result(const struct pccl_api_call *call, enum pccl_status status);
pcclResult_t pccl_api_end(struct pccl_api_call *call, enum pccl_status status);
pcclResult_t pccl_api_broken(struct pccl_api_call *call);

/*
 * Runs body(argument) on a thread inside the communicator, for a DESTRUCTION. An invariant that breaks in it ends the
 * communicator.
 */
void pccl_api_run_inside(struct pccl_communicator *comm, void (*body)(void *argument), void *argument);

/*
 * Returns OK if connected and in no joint call; otherwise USAGE, or the status that explains why it is not connected.
 * Caller holds the lock.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_may_call(const struct pccl_communicator *comm, struct pccl_text *reason);
/*
 * Explains the failure of this joint call, and lists the members that departed since it began. Caller holds the lock.
 */
void pccl_api_explain_call(const struct pccl_communicator *comm, enum pccl_call call, enum pccl_status status,
                           struct pccl_why *why);
/*
 * Returns OK if connected and without operations to await; otherwise as above or PENDING_OPS, with a reason. *world:
 * size of the run in the caller's snapshot.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_check_quiet(struct pccl_communicator *comm, uint32_t *world,
                                                      struct pccl_text *reason);

/* ---- arguments.c ---- */

enum { PCCL_API_STRUCT_MAX = 4096 }; /* upper limit of `size` in a public struct of any version */

/*
 * Check or read a caller's struct of this or a later version; its first field is its size. Return ARGUMENT with a
 * reason if the size is not set (`init` is the macro that does it), or the struct uses fields that we do not know.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_struct_check(const void *given, size_t size, const char *init,
                                                       struct pccl_text *reason);
PCCL_MUST_CHECK enum pccl_status pccl_api_struct_read(const void *given, void *known, size_t size, const char *init,
                                                      struct pccl_text *reason);
/*
 * Convert between a caller's struct, which may be of a later version or NULL, and ours: before the call that fills it
 * in, and after it has succeeded. Returns ARGUMENT with a reason if its size is not set.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_info_begin(const pcclOperationInfo_t *given, pcclOperationInfo_t *info,
                                                     struct pccl_text *reason);
void pccl_api_info_end(const pcclOperationInfo_t *info, pcclOperationInfo_t *given);
/*
 * Copies a text of this length, and a terminator, to the caller if there is room; with `text` NULL it only sets
 * *needed, the size. Returns ARGUMENT with a reason if it is too long. `needed` may be NULL.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_hand_out(const char *made, size_t length, char *text, size_t size,
                                                   size_t *needed, struct pccl_text *reason);
/*
 * Converts a list of addresses to hosts. Returns ARGUMENT with a reason if it is empty, too long, or has an invalid
 * address.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_hosts(const char *list, uint16_t default_port, struct pccl_host *hosts,
                                                uint32_t max, uint32_t *count, struct pccl_text *reason);
/* Converts an address as passed by PCCL 1.0. Returns ARGUMENT with a reason for an unknown protocol, or port 0. */
PCCL_MUST_CHECK enum pccl_status pccl_api_host(const ccoip_socket_address_t *address, struct pccl_host *host,
                                               struct pccl_text *reason);

/* ---- codec.c ---- */

/*
 * Converts a caller's codec to fields of a descriptor that has its data type and operation. Returns ARGUMENT with a
 * reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_codec(const pcclQuantizationOptions_t *codec,
                                                struct pccl_descriptor *descriptor, struct pccl_text *reason);
/* Returns true if the error of packing with this codec is kept for the next use of the tag. */
bool pccl_api_codec_feeds_back(const pcclQuantizationOptions_t *codec);

/* ---- coalesced.c ---- */

/*
 * Fills in the buffers of a coalesced all-reduce, whose tensors are the operation's sendbuf. The lists are one block,
 * which begins with the extents of the input; its size is pccl_api_coalesced_bytes of their number.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_coalesced(const pcclOperation_t *asked,
                                                    const pcclQuantizationOptions_t *codec, struct pccl_op_args *args,
                                                    struct pccl_text *reason);
size_t pccl_api_coalesced_bytes(size_t tensor_count);

/* ---- op_args.c ---- */

/* Sets the label of operations that the calling thread launches from now on. */
void pccl_api_set_label(const struct pccl_label *label);
/* Converts a reduction of PCCL 1.0. The operation refers to the options. ARGUMENT with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_api_reduction(const void *sendbuf, void *recvbuf,
                                                    const pcclReduceDescriptor_t *descriptor,
                                                    pcclCollectiveOptions_t *options, pcclOperation_t *operation,
                                                    struct pccl_text *reason);
/*
 * Checks and converts an operation of this version's size, and changes fields that its kind does not use. Returns
 * ARGUMENT with a reason, or MEMORY. Call pccl_api_op_args_free whatever the result.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_op_args(pcclOperation_t *asked, struct pccl_op_args *args,
                                                  struct pccl_text *reason);
void pccl_api_op_args_free(struct pccl_op_args *args);

/* ---- group.c ---- */

/* pcclCloseCommunicator and pcclDestroyCommunicator for a group. */
void pccl_api_close_group(pcclComm_t *handle);
PCCL_MUST_CHECK enum pccl_status pccl_api_destroy_group(struct pccl_api_call *call);

/* ---- comm.c ---- */

/* Connects as pcclConnect does, but retries for at most `retry_ms`, if connect_retry_ms is longer. */
pcclResult_t pccl_api_connect(pcclComm_t *comm, uint32_t retry_ms);

/* ---- await.c ---- */

/*
 * Waits at most `timeout_ms`, and ends the operation unless it is still under way; then returns TIMEOUT, always as
 * pcclTimeout, which has no other meaning in this call. Caller holds the lock.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_end_within(struct pccl_api_call *call, struct pccl_comm_op *operation,
                                                     uint32_t timeout_ms, pcclOperationInfo_t *info);
/* Fills in the info of PCCL 1.0, which may be NULL. */
static inline void pccl_api_reduce_info(const pcclOperationInfo_t *info, pcclReduceInfo_t *info_out)
{
    if (info_out)
        *info_out = (pcclReduceInfo_t){info->world, info->tx_bytes, info->rx_bytes};
}

#endif
