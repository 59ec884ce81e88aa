/*
 * Internal helpers of the public functions. Each file of this folder calls only files before it in this order: call,
 * arguments, codec, coalesced, op_args, list, group, await, and then all other files with public functions.
 */
#ifndef PCCL_API_API_H
#define PCCL_API_API_H

#include "drive/communicator.h"
#include "config/errors.h"
#include "pccl.h"

/* ---- call.c ---- */

/* Initializes the process on the first call, on behalf of pcclInit; later calls have no effect. */
void pccl_api_initialize(void);
bool pccl_api_initialized(void);

/* Kind of object that a public call works on. */
enum pccl_api_subject {
    PCCL_API_PROCESS,      /* no communicator: the call concerns the process, a master or options */
    PCCL_API_CREATION,     /* no communicator yet; pcclInit must have been called */
    PCCL_API_ANY,          /* a communicator or a group */
    PCCL_API_COMMUNICATOR, /* a communicator, but not a group */
    PCCL_API_OPERATION,    /* an operation, through the communicator or group of its handle */
    PCCL_API_DESTRUCTION   /* a communicator or a group, without entering the communicator */
};

/* State of a public call. It is in the stack frame of the exported function, which a guard never abandons. */
struct pccl_api_call {
    struct pccl_caller caller;      /* guard of the call; the other members are used only inside a communicator */
    pcclComm_t *handle;             /* handle passed by the caller; NULL for PROCESS */
    struct pccl_communicator *comm; /* communicator of the handle; NULL if the call has not entered it */
    enum pccl_family family;
    uint64_t key;  /* key of the handle in config/errors; 0: no handle */
    bool extended; /* true if result codes from 13 upward are allowed; set by the handle, or by the body */
    struct pccl_why why;
    pcclResult_t inner; /* failure of a public call made by the body, which has recorded the reason */
};

/*
 * Expands to the entire body of an exported function. `body` is an expression, usually a call to a static function. It
 * uses `call`, writes the reason for a failure to call->why, and evaluates to a status. A broken invariant in it ends
 * the communicator.
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
/* Same as PCCL_API_CALL for PROCESS, but without a guard, for functions that may be called in signal handlers. */
#define PCCL_API_SIGNAL_CALL(family, body)                                                                             \
    do {                                                                                                               \
        struct pccl_api_call frame, *const call = &frame;                                                              \
        pccl_api_init(call, family);                                                                                   \
        return pccl_api_result(call, body);                                                                            \
    } while (0)

/*
 * Building blocks of these macros. pccl_api_result records the failure, if any; pccl_api_end and pccl_api_broken call
 * it.
 */
void pccl_api_init(struct pccl_api_call *call, enum pccl_family family);
PCCL_MUST_CHECK enum pccl_status pccl_api_begin(struct pccl_api_call *call, enum pccl_api_subject subject,
                                                const pcclComm_t *handle, enum pccl_family family);
pcclResult_t pccl_api_result(const struct pccl_api_call *call, enum pccl_status status);
pcclResult_t pccl_api_end(struct pccl_api_call *call, enum pccl_status status);
pcclResult_t pccl_api_broken(struct pccl_api_call *call);

/*
 * Runs body(argument) on the calling thread inside the communicator, for a call of kind DESTRUCTION. A broken invariant
 * in it ends the communicator.
 */
void pccl_api_run_inside(struct pccl_communicator *comm, void (*body)(void *argument), void *argument);

/*
 * Returns OK if the communicator is connected and no joint call is running on it. Otherwise returns USAGE, or the
 * status that explains why it is not connected. Caller holds the lock.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_may_call(const struct pccl_communicator *comm, struct pccl_text *reason);
/*
 * Writes to `why` the reason for the failure of this joint call, and the members that have departed since it began.
 * Caller holds the lock.
 */
void pccl_api_explain_call(const struct pccl_communicator *comm, enum pccl_call call, enum pccl_status status,
                           struct pccl_why *why);
/*
 * Returns OK if the communicator is connected and has no outstanding operations. Otherwise returns PENDING_OPS or a
 * status of pccl_api_may_call, with a reason. Sets *world to the size of the run in the caller's snapshot.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_check_quiet(struct pccl_communicator *comm, uint32_t *world,
                                                      struct pccl_text *reason);

/* ---- arguments.c ---- */

enum { PCCL_API_STRUCT_MAX = 4096 }; /* upper limit of `size` in a public struct of any version */

/*
 * Checks or reads a caller's struct of this or a later version, whose first field is its size. Returns ARGUMENT with a
 * reason if the size is not set (`init` is the macro that sets it) or if the struct uses fields that this version
 * lacks.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_struct_check(const void *given, size_t size, const char *init,
                                                       struct pccl_text *reason);
PCCL_MUST_CHECK enum pccl_status pccl_api_struct_read(const void *given, void *known, size_t size, const char *init,
                                                      struct pccl_text *reason);
/*
 * Convert between a caller's struct, which may be of a later version or NULL, and the internal one: begin runs before
 * the call that fills it in, end after that call has succeeded. begin returns ARGUMENT with a reason if the size is not
 * set.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_info_begin(const pcclOperationInfo_t *given, pcclOperationInfo_t *info,
                                                     struct pccl_text *reason);
void pccl_api_info_end(const pcclOperationInfo_t *info, pcclOperationInfo_t *given);
/*
 * Copies the `length` bytes of `made` and a terminator to the caller's buffer. If `text` is NULL, only sets *needed to
 * the required size. Returns ARGUMENT with a reason if the buffer is too small. `needed` may be NULL.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_hand_out(const char *made, size_t length, char *text, size_t size,
                                                   size_t *needed, struct pccl_text *reason);
/*
 * Converts a list of addresses to hosts. Returns ARGUMENT with a reason if the list is empty or too long, or has an
 * invalid address.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_hosts(const char *list, uint16_t default_port, struct pccl_host *hosts,
                                                uint32_t max, uint32_t *count, struct pccl_text *reason);
/* Converts an address struct of PCCL 1.0. Returns ARGUMENT with a reason for an unknown protocol or port 0. */
PCCL_MUST_CHECK enum pccl_status pccl_api_host(const ccoip_socket_address_t *address, struct pccl_host *host,
                                               struct pccl_text *reason);

/* ---- codec.c ---- */

/*
 * Converts a caller's codec to the codec fields of `descriptor`, whose data type and operation must be set. Returns
 * ARGUMENT with a reason if the codec does not suit them.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_codec(const pcclQuantizationOptions_t *codec,
                                                struct pccl_descriptor *descriptor, struct pccl_text *reason);
/* Returns true if the codec keeps its rounding error for the next use of the tag. */
bool pccl_api_codec_feeds_back(const pcclQuantizationOptions_t *codec);

/* ---- coalesced.c ---- */

/*
 * Fills in the buffers of a coalesced all-reduce, whose sendbuf is the list of tensors. Allocates all lists as one
 * block of pccl_api_coalesced_bytes(number of tensors), which begins with the extents of the input.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_coalesced(const pcclOperation_t *asked,
                                                    const pcclQuantizationOptions_t *codec, struct pccl_op_args *args,
                                                    struct pccl_text *reason);
size_t pccl_api_coalesced_bytes(size_t tensor_count);

/* ---- op_args.c ---- */

/* Sets the label of operations that the calling thread launches from now on. */
void pccl_api_set_label(const struct pccl_label *label);
/* Converts a reduction of PCCL 1.0 to an operation, which points to `options`. Returns ARGUMENT with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_api_reduction(const void *sendbuf, void *recvbuf,
                                                    const pcclReduceDescriptor_t *descriptor,
                                                    pcclCollectiveOptions_t *options, pcclOperation_t *operation,
                                                    struct pccl_text *reason);
/* Fills in the info struct of PCCL 1.0, which may be NULL. */
void pccl_api_reduce_info(const pcclOperationInfo_t *info, pcclReduceInfo_t *info_out);
/*
 * Checks and converts an operation, whose struct has this version's size, and resets the fields that its kind does not
 * use. Returns ARGUMENT with a reason, or MEMORY. The caller must call pccl_api_op_args_free, even on failure.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_op_args(pcclOperation_t *asked, struct pccl_op_args *args,
                                                  struct pccl_text *reason);
void pccl_api_op_args_free(struct pccl_op_args *args);

/* ---- group.c ---- */

/* Implement pcclCloseCommunicator and pcclDestroyCommunicator for a group. */
void pccl_api_close_group(pcclComm_t *handle);
PCCL_MUST_CHECK enum pccl_status pccl_api_destroy_group(struct pccl_api_call *call);

/* ---- comm.c ---- */

/* Connects as pcclConnect does, but limits connect_retry_ms to `retry_ms`. */
pcclResult_t pccl_api_connect(pcclComm_t *comm, uint32_t retry_ms);

/* ---- await.c ---- */

/*
 * Waits up to `timeout_ms` for the operation, and releases it once it is over. Returns TIMEOUT if it is still running;
 * only in this case does the caller of the API see pcclTimeout. Caller holds the lock.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_end_within(struct pccl_api_call *call, struct pccl_comm_op *operation,
                                                     uint32_t timeout_ms, pcclOperationInfo_t *info);

#endif
