/*
 * PCCL: collective communication over TCP between peers that may come, go and die at any time.
 *
 * A light master decides who takes part and which operations succeed. Peers connect to it through a communicator and
 * call collective operations. The promise: whatever dies, whenever it dies, every survivor returns from every call,
 * sees the same outcome as the other survivors, and holds the same bits.
 *
 * Words used below
 *   run          the peers that share one master
 *   peer group   a number every peer chooses; reductions happen among the peers of one group only
 *   accepted     a peer whose pcclConnect has succeeded
 *   joint(all)   the call returns when every accepted peer of the run (all groups) has made it;
 *                peers that leave or die meanwhile are no longer waited for
 *   joint(group) the same among the accepted peers of the caller's group
 *   unconnected  pcclConnect has not succeeded yet, or the communicator has since been removed from
 *                the run: it left, was expelled by the master, or found no master for
 *                `master_lost_ms`. pcclConnect may be called again
 *
 * Results. Calls that exist in PCCL 1.0 return the codes 0 to 12 only, unless the communicator was created with the
 * option `extended_results` = 1: then a more precise code from 13 upwards may come in place of the one listed; such
 * codes are given below as "ext. name". Output parameters are written on success only, unless said otherwise. After any
 * failure pcclGetLastError explains the reason with peers, tags and times, and pcclGetLastFailure gives the details
 * that a program can act on.
 *
 * Threads. Calls on different communicators are independent. One communicator may be used by several threads at once,
 * except that no call on it may begin once pcclDestroyCommunicator has been called, and that one blocking joint call
 * (update, pending, optimize, synchronize) may be outstanding: a second one returns pcclInvalidUsage.
 *
 * Deadlines. Waiting for living peers has no limit by default; `call_timeout_ms` and `op_timeout_ms` set limits, and
 * calls that can never meet, because one peer waits in this call and another one in that, end after `stuck_ms` (30 s)
 * if one of them is update, optimize or synchronize. A peer silent for the master's `silence_ms` counts as dead.
 */
#ifndef PCCL_H
#define PCCL_H

#include <stddef.h>
#include <stdint.h>

#ifndef __cplusplus
#include <stdbool.h>
#endif

#include "ccoip_inet.h"

#if defined(_WIN32) && !defined(PCCL_STATIC)
#ifdef PCCL_BUILDING
#define PCCL_EXPORT __declspec(dllexport)
#else
#define PCCL_EXPORT __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define PCCL_EXPORT __attribute__((visibility("default")))
#else
#define PCCL_EXPORT
#endif

/* Marks a pointer parameter that may be NULL. */
#define PCCL_NULLABLE

#define PCCL_VERSION_MAJOR 0
#define PCCL_VERSION_MINOR 1
#define PCCL_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ results */

typedef enum pcclResult_t {
    pcclSuccess = 0,
    pcclNotInitialized = 1,              /* pcclInit has not been called */
    pcclInternalError = 2,               /* memory or another resource is short, or a defect of the library */
    pcclInvalidArgument = 3,             /* an argument is wrong whatever the state; nothing was changed */
    pcclInvalidUsage = 4,                /* the call is not allowed now, or contradicts the calls of other peers */
    pcclTooFewPeers = 5,                 /* fewer than two peers in the group */
    pcclMasterConnectionFailed = 6,      /* pcclConnect could not get into the run */
    pcclRankConnectionFailed = 7,        /* never returned */
    pcclRankConnectionLost = 8,          /* the operation failed on all peers of the group; usually a retry helps */
    pcclNoSharedStateAvailable = 9,      /* never returned */
    pcclPendingAsyncOps = 10,            /* operations of this communicator are launched and not yet awaited */
    pcclUpdateTopologyFailed = 11,       /* pcclUpdateTopology could not complete */
    pcclTopologyOptimizationFailed = 12, /* pcclOptimizeTopology could not complete */
    /* Only from calls that PCCL 1.0 does not have, or with the option `extended_results` in place of the code named: */
    pcclTimeout = 13,         /* the deadline passed (8, 6, 11, 4 by call) */
    pcclAborted = 14,         /* a caller gave the operation up (8) */
    pcclVersionMismatch = 15, /* what was reached speaks another protocol version, or is no master (6) */
    pcclPeerMismatch = 16,    /* peers called the same operation with different arguments (4) */
    pcclExpelled = 17,        /* the master removed this peer from the run (8, 11, 4 by call) */
    pcclMasterLost = 18,      /* no master for `master_lost_ms` (8, 11, 4 by call) */
    pcclOutOfMemory = 19,     /* (2) */
    pcclUnsupported = 20,     /* not supported by this version (4) */
    pcclRefused = 21,         /* the master refused this peer (6) */
    pcclMembersChanged = 22,  /* the members are not those that a caller counted on */
    pcclDrained = 23          /* this peer was drained, by pcclDrain or an operator (8, 6, 11, 4 by call) */
} pcclResult_t;

/* ------------------------------------------------------------------------------------------------ handles */

/* A peer's membership in one run. Opaque. */
typedef struct pcclComm_t pcclComm_t;
/* A master inside this process. Opaque. */
struct pcclMasterInstanceState_t;
typedef struct pcclMasterInstanceState_t pcclMasterInstance_t;
/* Declared for compatibility; no function uses it. */
typedef struct pcclRankInfo_t pcclRankInfo_t;
/* A set of named options for communicators and masters. Opaque. */
typedef struct pcclOptions_t pcclOptions_t;

/* ------------------------------------------------------------------------------------------------ enumerations */

typedef enum pcclDataType_t {
    pcclUint8 = 0,
    pcclInt8 = 1,
    pcclInt16 = 2, /* mind the order of the 16-bit types */
    pcclUint16 = 3,
    pcclUint32 = 4,
    pcclInt32 = 5,
    pcclUint64 = 6,
    pcclInt64 = 7,
    pcclFloat16 = 8,  /* IEEE 754 binary16 */
    pcclBFloat16 = 9, /* the upper half of a binary32 */
    pcclFloat = 10,
    pcclDouble = 11,
    /* not in PCCL 1.0: */
    pcclBool = 12,         /* a byte: true unless it is 0; results of reductions are 0 or 1 */
    pcclFloat8E4M3FN = 13, /* 4 bits of exponent, 3 of fraction, no infinity: up to 448 */
    pcclFloat8E5M2 = 14    /* the upper half of a binary16: up to 57344, and infinity */
} pcclDataType_t;

typedef enum pcclDeviceType_t { pcclDeviceCpu = 0, pcclDeviceCuda = 1 } pcclDeviceType_t;

/*
 * Integers wrap. Avg is the sum divided by the number of peers; for integers the wrapped sum, truncated toward zero.
 * Floats of 8 and 16 bits are computed in single precision and rounded once, to nearest even; what is too large for
 * Float8E4M3FN, also an infinity, becomes 448 with its sign. Max and Min return NaN when any operand is NaN and order
 * -0 below +0.
 *
 * And, Or and Xor are of the bits of integers, and of bools; floats are refused. Of bools Sum and Max are Or, Prod and
 * Min are And, and Avg is refused. PremulSum is the sum of what each peer makes of its elements by multiplying them
 * with a factor of its own (pcclCollectiveOptions_t), rounded to their type; floats narrower than double are multiplied
 * in single precision; integers and bools are refused.
 */
typedef enum pcclRedOp_t {
    pcclSum = 0,
    pcclAvg = 1,
    pcclProd = 2,
    pcclMax = 3,
    pcclMin = 4,
    /* not in PCCL 1.0: */
    pcclAnd = 5,
    pcclOr = 6,
    pcclXor = 7,
    pcclPremulSum = 8
} pcclRedOp_t;

/* The counts of pcclGetAttribute: of accepted peers only, never of those that wait for admission. */
typedef enum pcclAttribute_t {
    PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE = 1,             /* peers of the run, all groups */
    PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE = 2,         /* peers of this communicator's group */
    PCCL_ATTRIBUTE_NUM_DISTINCT_PEER_GROUPS = 3,      /* groups that have a peer */
    PCCL_ATTRIBUTE_LARGEST_PEER_GROUP_WORLD_SIZE = 4, /* peers of the largest group */
    /* not in PCCL 1.0: */
    PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE_NOW = 5,    /* as GLOBAL_WORLD_SIZE, but by the master's latest member list */
    PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE_NOW = 6 /* as PEER_GROUP_WORLD_SIZE, but by that list */
} pcclAttribute_t;

typedef enum pcclSharedStateSyncStrategy_t {
    PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR = 0, /* the most common content wins */
    PCCL_SHARED_STATE_SYNC_STRATEGY_RECEIVE_ONLY = 1,    /* takes the others' content and has no vote */
    PCCL_SHARED_STATE_SYNC_STRATEGY_SEND_ONLY = 2        /* never lets its own content be overwritten */
} pcclSharedStateSyncStrategy_t;

/* Part of the descriptor and otherwise without effect. */
typedef enum pcclDistributionHint_t {
    pcclDistributionNone = 0,
    pcclDistributionNormal = 1,
    pcclDistributionUniform = 2,
    PCCL_DISTRIBUTION_HINT_NONE = 0,
    PCCL_DISTRIBUTION_HINT_NORMAL = 1,
    PCCL_DISTRIBUTION_HINT_UNIFORM = 2
} pcclDistributionHint_t;

/*
 * How the elements of large payloads are packed for the network. Small payloads, up to the master's parameter
 * `tiny_bytes_max` (8192 bytes), are never packed. Elements are floating point, and packed values are narrower
 * integers; a quantized data type that saves nothing leaves the elements unpacked. Each block of 1024 elements has its
 * own scale. Every step of a reduction packs again, so the error grows with the number of peers; a broadcast or an
 * all-gather packs once. All peers get the same bits, those too whose elements they are. Meaningless combinations are
 * refused with pcclInvalidArgument. docs/CODECS.md has the formulas and the bounds of the error.
 */
typedef enum pcclQuantizationAlgorithm_t {
    pcclQuantNone = 0,           /* elements travel exactly */
    pcclQuantMinMax = 1,         /* unsigned integers between the smallest and the largest element */
    pcclQuantZeroPointScale = 2, /* integers around a zero that is exact; for sums and averages only */
    /* Not in PCCL 1.0: formats of codecs that pcclCreateCodec makes (pccl_codecs.h) */
    pcclQuantE4M3 = 3, /* eight bits: 4 of exponent, 3 of mantissa */
    pcclQuantE5M2 = 4,
    pcclQuantInt4 = 5, /* four bits: -7 to 7 */
    pcclQuantE3M0 = 6, /* powers of two */
    pcclQuantE2M1 = 7,
    pcclQuantAuto = 8 /* as many bits as a time budget allows */
} pcclQuantizationAlgorithm_t;

/* ------------------------------------------------------------------------------------------------ structs */

typedef struct pcclCommCreateParams_t {
    ccoip_socket_address_t master_address;
    uint32_t peer_group;
    uint32_t p2p_connection_pool_size; /* connections to each neighbor, up to 64; 0: the library chooses */
} pcclCommCreateParams_t;

typedef struct pcclReduceInfo_t {
    uint32_t local_world_size; /* peers that took part */
    uint64_t tx_bytes;         /* payload sent by this peer, without framing */
    uint64_t rx_bytes;         /* payload received by this peer, without framing */
} pcclReduceInfo_t;

typedef struct pcclReduceOperandDescriptor_t {
    pcclDataType_t datatype;
    pcclDistributionHint_t distribution_hint;
} pcclReduceOperandDescriptor_t;

typedef struct pcclQuantizationOptions_t {
    pcclDataType_t quantized_datatype; /* ignored with pcclQuantNone; of a codec, what pcclCreateCodec sets */
    pcclQuantizationAlgorithm_t algorithm;
} pcclQuantizationOptions_t;

/*
 * One reduction. All members must be equal on all peers of the group; otherwise the operation fails on every peer, and
 * the message says which peer differs in what. The distribution hint is not compared and has no effect yet.
 */
typedef struct pcclReduceDescriptor_t {
    size_t count; /* elements, not bytes; > 0 */
    pcclRedOp_t op;
    uint64_t tag; /* which calls of the peers belong together; free again when the operation has been awaited */
    pcclReduceOperandDescriptor_t src_descriptor;
    pcclQuantizationOptions_t quantization_options;
} pcclReduceDescriptor_t;

typedef struct pcclReduceSingleDescriptor_t {
    void *sendbuf;
    void *recvbuf;
    pcclReduceDescriptor_t descriptor;
} pcclReduceOpDescriptor_t;

/* A launched reduction. A plain value: it may be copied, and needs no release but its one await. */
typedef struct pcclAsyncReduceOp_t {
    pcclComm_t *comm;
    uint64_t tag;
} pcclAsyncReduceOp_t;

/* Declared for compatibility; no function uses it. */
typedef struct pcclRankUuid_t {
    uint8_t data[16];
} pcclRankUuid_t;

typedef struct pcclTensorInfo_t {
    const char *name;
    void *data;
    size_t count; /* elements */
    pcclDataType_t datatype;
    pcclDeviceType_t device_type;
    bool allow_content_inequality; /* peers need not hold the same content */
} pcclTensorInfo_t;

typedef struct pcclSharedState_t {
    uint64_t revision;
    size_t count; /* of infos */
    pcclTensorInfo_t *infos;
} pcclSharedState_t;

typedef struct pcclSharedStateSyncInfo_t {
    uint64_t tx_bytes;
    uint64_t rx_bytes;
} pcclSharedStateSyncInfo_t;

typedef struct pcclBuildInfo_t {
    bool has_cuda_support; /* the CUDA driver is there and has a device: tensors of shared state may be on it */
} pcclBuildInfo_t;

/* ------------------------------------------------------------------------------------------------ process */

/*
 * Prepares the library: reads the process-wide parameters (log_level and others) from the environment and warns about
 * unknown variables named PCCL_*. For a bad value of a process-wide parameter it logs a warning and uses the default.
 * Call it once before creating a communicator; further calls do nothing. Any thread. Does not block. Installs no signal
 * handler and starts no thread.
 * pcclSuccess         always
 */
PCCL_EXPORT pcclResult_t pcclInit(void);

/*
 * Reports what the library can use on this machine. The first call loads the CUDA driver and asks it for devices; after
 * that CUDA does not work in forked children. Any thread, any time, also before pcclInit. Does not block.
 * pcclSuccess
 * pcclInvalidArgument info is NULL
 */
PCCL_EXPORT pcclResult_t pcclGetBuildInfo(pcclBuildInfo_t *info);

/*
 * The version of the library that is loaded: major * 10000 + minor * 100 + patch. PCCL_VERSION_*
 * are those of the header. Any thread, any time.
 */
PCCL_EXPORT uint32_t pcclGetVersion(void);

/*
 * What a result means, as one English sentence without a full stop. Never NULL; an unknown value
 * gets a text that says so. Any thread, any time. The text lives for ever.
 */
PCCL_EXPORT const char *pcclGetErrorString(pcclResult_t result);

/*
 * Explains why the calling thread's last failed call on this communicator failed; with comm NULL, its last failed call
 * without a communicator (creation, options, master and log functions). The text is empty if there was none; successful
 * calls leave it unchanged. Never NULL. Valid until the thread's next call of the library. Any time. Does not block.
 * comm may have been disconnected, but not destroyed.
 */
PCCL_EXPORT const char *pcclGetLastError(const pcclComm_t *PCCL_NULLABLE comm);

#define PCCL_FAILURE_PEERS_MAX 16
#define PCCL_PEER_ID_SIZE 33 /* 32 hexadecimal digits and the terminator */

/*
 * The details of a failed call. Later versions may add members at the end; `size` tells the library
 * which members the caller knows, and the library sets those that it does not know to 0.
 */
typedef struct pcclFailure_t {
    size_t size;         /* set by PCCL_FAILURE_INIT */
    pcclResult_t result; /* what the call returned; pcclSuccess: none has failed, and the members below are 0 */
    bool launched;       /* it was about a launched reduction, of this tag and number: */
    uint64_t tag;
    uint64_t sequence;   /* 0 for the first launch of the tag since the last joint call that ended the counting */
    uint32_t peer_count; /* how many peers left the group; of more than PCCL_FAILURE_PEERS_MAX the first are named: */
    char peers[PCCL_FAILURE_PEERS_MAX][PCCL_PEER_ID_SIZE]; /* as pcclGetTopology writes them; "" after the last */
    uint32_t precise; /* a pcclResult_t: what the call would have returned with `extended_results` */
} pcclFailure_t;

#define PCCL_FAILURE_INIT                                                                                              \
    {                                                                                                                  \
        sizeof(pcclFailure_t), pcclSuccess, false, 0, 0, 0, {{0}}, 0                                                   \
    }

/*
 * Returns the details of the failure that pcclGetLastError explains, for the same thread and
 * communicator.
 *
 * sequence: the number of a launch within its tag. It pairs the launches of the peers, so it is the
 * same on all of them, and the master's log shows it as `use`. Counting restarts at 0 with each
 * decided pcclUpdateTopology, pcclOptimizeTopology and pcclSynchronizeSharedState. A refused launch
 * has no number: it is not `launched`.
 *
 * peers: the peers that died, were removed or left the caller's group between the start of the call
 * (the launch of a reduction, the start of the list in pcclAllReduceMultipleWithRetry or
 * pcclRunOperations) and its outcome, as far as this peer knew by then, whatever the reason of the
 * failure. So when a death fails a reduction, all survivors name the dead peer, except a survivor
 * that launches the reduction after another call has already shown the death. The list is empty if
 * no peer left (a link broke between two living peers, arguments differ), if the call was refused
 * for its arguments, and for pcclTimeout of pcclAwaitAsyncReduceFor. The library remembers the
 * latest 256 peers that left.
 *
 * precise: the same cause as a code from 13 on, if there is one, whatever the options; it
 * distinguishes a deadline from a death. When `op_timeout_ms` or `stuck_ms` has passed, usually no
 * peer has left: the message names the missing peers, and the same call would wait for them again.
 *
 * Changes neither message nor details, unless it fails: then it sets those of calls without a
 * communicator. Any thread, any time. Does not block. comm may have been disconnected, but not
 * destroyed. Not in PCCL 1.0.
 * pcclSuccess
 * pcclInvalidArgument failure_out is NULL, or its size was not set
 */
PCCL_EXPORT pcclResult_t pcclGetLastFailure(const pcclComm_t *PCCL_NULLABLE comm, pcclFailure_t *failure_out);

/*
 * Returns the id of this peer, in the form that failures and pcclGetTopology use; messages and logs
 * show its first eight digits. Each pcclConnect creates a new one. Any thread, any time. Does not
 * block. Not in PCCL 1.0.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or id is NULL, or size is less than PCCL_PEER_ID_SIZE
 * pcclInvalidUsage    pcclConnect has not been called
 */
PCCL_EXPORT pcclResult_t pcclGetPeerId(const pcclComm_t *comm, char *id, size_t size);

#define PCCL_PEER_NAME_SIZE 65 /* at most 64 bytes and the terminator */

/*
 * Returns the name of the peer with this id, as set by its parameter `name`; "" if it is unknown.
 * The library knows this peer, the members of the run (in a run of more than 1024 the first ones
 * and those that joined later) and the latest 256 peers that left the group, which include all that
 * pcclFailure_t names. Messages and logs already contain the names: "peer 1a2b3c4d 'trainer-3'".
 * Each peer chooses its own name, so names need not be unique. Any thread, any time. Does not
 * block. Not in PCCL 1.0.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm, id or name is NULL, size is less than PCCL_PEER_NAME_SIZE, or id is not
 *                     32 hexadecimal digits
 */
PCCL_EXPORT pcclResult_t pcclGetPeerName(const pcclComm_t *comm, const char *id, char *name, size_t size);

/*
 * Describes who waits for whom: one line for the calls of this or other peers that have waited for
 * more than `where_ms`, with the waiting peers, their calls and the missing peers; and one line for each
 * list (pcclRunOperations, pcclAllReduceMultipleWithRetry) whose lowest open entry was first launched
 * before that time, also while it is repeated: how often it was launched, and why the last attempt
 * failed. The text is empty if no peer is known to wait; it is cut to fit and always terminated. Any thread, and in
 * particular while another thread is blocked in a call on comm. Does not block.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or text is NULL, or size is 0
 */
PCCL_EXPORT pcclResult_t pcclDescribeWaits(const pcclComm_t *comm, char *text, size_t size);

/* ------------------------------------------------------------------------------------------------ logs */

typedef enum pcclLogLevel_t {
    pcclLogTrace = 0,
    pcclLogDebug = 1,
    pcclLogInfo = 2,
    pcclLogWarn = 3, /* the default */
    pcclLogError = 4,
    pcclLogNone = 5 /* as a level to set: nothing is logged */
} pcclLogLevel_t;

/*
 * Receives one log line. `subsystem` and `message` are valid during the call; the message has no
 * line end. A dedicated thread of the library calls it with one line at a time, in order. No other
 * thread waits for it: when more than 1000 lines are queued, further ones are dropped, and one line
 * says how many. It may call pcclGetVersion, pcclGetErrorString, pcclGetLastError,
 * pcclGetLastFailure and the pcclSetLog functions, and no other function of the library; what is
 * logged by them is dropped.
 */
typedef void (*pcclLogCallback_t)(pcclLogLevel_t level, const char *subsystem, const char *message, void *user);

/*
 * Sends all further lines to `callback` with `user`, or to standard error if `callback` is NULL.
 * The library never writes to standard output and never ends the process because of a message. When
 * the call returns, the previous callback has had all lines before, is no longer running and will
 * not be called again (unless this call is made inside a callback); so do not hold a lock that the
 * previous callback takes. Any thread, any time, also before pcclInit. Blocks until the previous
 * callback has had its lines. A process that exits waits a second for what is left.
 * pcclSuccess         always
 */
PCCL_EXPORT pcclResult_t pcclSetLogCallback(pcclLogCallback_t PCCL_NULLABLE callback, void *PCCL_NULLABLE user);

/*
 * Suppresses lines below `level`. Overrides PCCL_LOG_LEVEL, whether called before or after
 * pcclInit. Any thread, any time. Does not block.
 * pcclSuccess
 * pcclInvalidArgument not a level
 */
PCCL_EXPORT pcclResult_t pcclSetLogLevel(pcclLogLevel_t level);

/* ------------------------------------------------------------------------------------------ parameters and options */

typedef enum pcclParameterScope_t {
    pcclParameterCommunicator = 0, /* an option of pcclCreateCommunicatorWithOptions */
    pcclParameterMaster = 1,       /* an option of pcclCreateMasterWithOptions */
    pcclParameterProcess = 2       /* read from the environment by pcclInit; not an option */
} pcclParameterScope_t;

/*
 * The texts live for ever. Later versions may add members at the end; `size` tells the library
 * which ones the caller knows.
 */
typedef struct pcclParameterInfo_t {
    size_t size; /* set by PCCL_PARAMETER_INFO_INIT */
    const char *name;
    const char *env; /* the environment variable */
    const char *default_value;
    const char *min_value; /* "" for texts */
    const char *max_value; /* "" for texts */
    const char *help;
    pcclParameterScope_t scope;
} pcclParameterInfo_t;

#define PCCL_PARAMETER_INFO_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(pcclParameterInfo_t), NULL, NULL, NULL, NULL, NULL, NULL, pcclParameterCommunicator                     \
    }

/* How many parameters there are. Any thread, any time. */
PCCL_EXPORT size_t pcclGetParameterCount(void);

/*
 * Describes parameter `index`; the order is fixed within a version. Any thread, any time. Does not
 * block.
 * pcclSuccess
 * pcclInvalidArgument info is NULL, its size was not set, or index >= pcclGetParameterCount()
 */
PCCL_EXPORT pcclResult_t pcclGetParameterInfo(size_t index, pcclParameterInfo_t *info);

/*
 * Makes an empty set of options: every parameter has the value of its environment variable, or else
 * its default. Any time, also before pcclInit. A set may be used by one thread at a time, and for
 * any number of communicators and masters; they copy it.
 * pcclSuccess
 * pcclInvalidArgument options_out is NULL
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclCreateOptions(pcclOptions_t **options_out);

/*
 * Sets a parameter of scope communicator or master by name; it overrides the environment. Numbers
 * are decimal, booleans are 0 or 1 (also off/on, false/true, no/yes), lists are separated by
 * commas. A NULL value removes the setting. Any time. Creating a communicator or master checks
 * whether the values fit together.
 * pcclSuccess
 * pcclInvalidArgument options or name is NULL, no such parameter, a parameter of the process, or a
 *                     bad value; the words name parameter, value and range
 * pcclOutOfMemory     the setting is as before
 */
PCCL_EXPORT pcclResult_t pcclSetOption(pcclOptions_t *options, const char *name, const char *PCCL_NULLABLE value);

/*
 * Returns the value that a parameter would have now: as set, from the environment, or the default.
 * NULL options count as empty. Any time. Does not block.
 * pcclSuccess
 * pcclInvalidArgument name or buffer is NULL, no such parameter, or the text with its terminator
 *                     needs more than `size` bytes; the words say how many
 */
PCCL_EXPORT pcclResult_t pcclGetOption(const pcclOptions_t *PCCL_NULLABLE options, const char *name, char *buffer,
                                       size_t size);

/*
 * Frees the set. Communicators and masters created with it are unaffected.
 * pcclSuccess
 * pcclInvalidArgument options is NULL
 */
PCCL_EXPORT pcclResult_t pcclDestroyOptions(pcclOptions_t *options);

/* ------------------------------------------------------------------------------------------------ communicator */

/*
 * Makes an unconnected communicator. params is copied; all other parameters come from the
 * environment or their defaults. No network traffic, no thread, does not block. Any thread.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument params or comm_out is NULL, the master's port is 0, the protocol is unknown,
 *                     or a PCCL_* variable has a bad value
 * pcclInternalError   memory is short, or the file of the token cannot be read
 * pcclInvalidUsage    there is a token, and this host has no OpenSSL 3 (ext. pcclUnsupported)
 */
PCCL_EXPORT pcclResult_t pcclCreateCommunicator(const pcclCommCreateParams_t *params, pcclComm_t **comm_out);

/*
 * The same with everything as text. master_addresses: one or more of "host:port", "1.2.3.4:port",
 * "[v6]:port", separated by commas; without a port 48148. All must lead to the same master; they
 * are tried in order. Names are resolved when connecting, and again at each reconnect. options
 * (copied) may be NULL and may carry `peer_group`, `connection_pool_size` and every other parameter
 * of scope communicator; of those of scope master only `alone_ms` matters, which `master_lost_ms` must exceed.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument master_addresses or comm_out is NULL, an address cannot be read, or a
 *                     parameter has a bad value or does not fit another one
 * pcclInternalError   the file of the token cannot be read
 * pcclUnsupported     there is a token, and this host has no OpenSSL 3
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclCreateCommunicatorWithOptions(const char *master_addresses,
                                                           const pcclOptions_t *PCCL_NULLABLE options,
                                                           pcclComm_t **comm_out);

/*
 * Joins the run: opens the listening port, connects to the master, and waits for admission. The
 * first peer of an empty run is admitted at once. Otherwise this BLOCKS until this peer is warmed
 * up (has links to its future neighbors) and then all accepted peers have called
 * pcclUpdateTopology. If the master is unreachable, the call fails at once; if it
 * is so busy that it closes connections without an answer, the call tries again for connect_retry_ms. On success the
 * attributes are fresh; on failure the communicator is unconnected and connect may be called again.
 * Each connect creates a new identity: a lost peer returns as a newcomer. Only on an unconnected communicator, and
 * not after pcclDrain.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument         comm is NULL
 * pcclInvalidUsage            connected already, or another thread is connecting
 * pcclMasterConnectionFailed  the master cannot be reached or was lost, refused this peer, speaks
 *                             another version, no port could be opened, or `call_timeout_ms` passed
 *                             (ext. pcclRefused, pcclVersionMismatch, pcclMasterLost, pcclExpelled,
 *                             pcclTimeout); this peer was drained (ext. pcclDrained)
 * pcclInternalError           memory is short (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclConnect(pcclComm_t *comm);

/*
 * Leaves the run, if connected, and frees the communicator. It tells the master, so that the others need not detect
 * the loss, and does not wait for peers. Operations that are not awaited end here, and the library does not touch their
 * buffers afterward. In place, a buffer has either the whole input or, only after a success, the whole result. When
 * the buffers differ, the receive buffer is unspecified. comm and the handles of its operations must not be
 * used afterward. Calls on comm that other threads are in fail as if this peer had left the run,
 * and this call BLOCKS until they have returned. So do not destroy a communicator from a log
 * callback. Of a group (pcclCreateGroup) it ends the group, for all of its members.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL
 * pcclInvalidUsage    another thread is destroying it
 */
PCCL_EXPORT pcclResult_t pcclDestroyCommunicator(pcclComm_t *comm);

/*
 * Leaves the run, if connected, and ends the calls on comm that other threads are in, but frees
 * nothing: every call on comm fails from now on, and pcclDestroyCommunicator is still required; until it returns the
 * library may use the buffers of operations that are not awaited. It is for programs that cannot know whether another
 * thread is about to make a call: they close the communicator, wait for their threads, and then destroy it. Of a group
 * it ends the group, and its operations with it. Any thread. Does not block.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL
 * pcclInvalidUsage    it is closed already, or another thread is destroying it
 */
PCCL_EXPORT pcclResult_t pcclCloseCommunicator(pcclComm_t *comm);

/*
 * Returns a count. The first four are as of the last decided call of this communicator, successful or failed (connect,
 * update topology, optimize topology, await). They do not change between calls, so all peers that made the same calls
 * see the same numbers, and a loop that only reads them never sees a peer die. The counts _NOW follow the latest member
 * list that has arrived from the master: they include removals and admissions since that call, and may differ between
 * peers. A peer that has died counts until the master removes it (at once, or after `silence_ms`); while the master is
 * away they stay as they were. Any thread. Does not block.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or attribute_out is NULL, or the attribute is unknown
 * pcclInvalidUsage    unconnected
 */
PCCL_EXPORT pcclResult_t pcclGetAttribute(const pcclComm_t *comm, pcclAttribute_t attribute, int *attribute_out);

/*
 * Admits the newcomers that are ready. Joint(all), BLOCKS until all accepted peers have called it.
 * Without a newcomer it takes one round trip after the slowest caller. On success all peers see the
 * same new attributes. A newcomer begins with what members call after the update that admitted it.
 * Peers in other calls cannot meet this one: pcclDescribeWaits names them; `stuck_ms` usually ends one of the two.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument       comm is NULL
 * pcclInvalidUsage          unconnected, or another joint call of this communicator is outstanding
 * pcclPendingAsyncOps       operations are launched and not awaited
 * pcclUpdateTopologyFailed  this peer was expelled or lost its master (it is unconnected now), or a
 *                           deadline passed (ext. pcclExpelled, pcclMasterLost, pcclTimeout); or it was
 *                           drained, and the others go on without it (ext. pcclDrained)
 * pcclInternalError         memory is short (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclUpdateTopology(pcclComm_t *comm);

/*
 * Are newcomers ready to be admitted? Joint(all), BLOCKS until all accepted peers have asked; all get the same answer.
 * May be called while operations run, and while another thread awaits them, but not beside another joint call. A
 * newcomer counts once it and its future neighbors have their links; so after "true" an update need not wait for it.
 * "true" also if an update would free a ring from a slow link, or let a drained peer go.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or pending_out is NULL
 * pcclInvalidUsage    unconnected, or another joint call of this communicator is outstanding; expelled or without a
 *                     master meanwhile, or a deadline passed (ext. pcclExpelled, pcclMasterLost, pcclTimeout)
 * pcclInternalError   memory is short (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclArePeersPending(const pcclComm_t *comm, bool *pending_out);

/*
 * Measures the paths between the peers and builds the best ring of each group. Joint(all), BLOCKS
 * until all accepted peers have called it, and then for 2 to 3 seconds (the master's `optimize_ms`)
 * if many paths need measuring.
 *
 * A path is tested under load; each peer sends over one path and receives over one path at a time.
 * A result is valid for `fresh_ms`, unless reductions over that link reach a different rate. So a
 * call just after another one takes a few round trips, and in a large run, where the time is too
 * short to test every path, each call adds results. The best ring is the one whose slowest path is
 * fastest, and among those the one with the lowest latency; an unusable path is in no ring. The
 * ring stays if no other ring is clearly better. For more than twelve peers the search continues in
 * the background; the next pcclUpdateTopology or pcclOptimizeTopology adopts its result, and also a
 * ring that avoids a link that has become much slower.
 *
 * The call admits no newcomers. Attributes are fresh. A peer that dies costs only its own tests, a
 * peer that hangs also some seconds; a restarted master starts the tests again. Once they have
 * begun, `call_timeout_ms` does not end the call. Operations must not be launched during it.
 * pcclSuccess         the ring is as good as could be found; if it has changed, for all peers at once
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL
 * pcclInvalidUsage    unconnected; the global world size is 1; or another joint call of it is outstanding
 * pcclPendingAsyncOps operations are launched and not awaited
 * pcclTopologyOptimizationFailed  for all peers of the group: too many cannot reach each other, so
 *                     that no ring exists or none was found; or the master, or a peer that the words name, lacks
 *                     memory or descriptors. The ring is as it was, all else works. For this peer: it was expelled
 *                     or lost its master (unconnected), or a deadline passed (ext. pcclExpelled, pcclMasterLost, ...)
 * pcclInternalError   memory or another resource is short here: it fails for all of the group (ext.
 *                     pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclOptimizeTopology(const pcclComm_t *comm);

/*
 * Returns the master's topology report of this communicator's group as text: a line for each peer,
 * one for the ring, and one for each measured path with its rate, round trip, age and source.
 * src/topology/report.h defines the format, docs/PROTOCOL.md its meaning. If all paths do not fit
 * into a message (with more than about 60 peers), the report contains only those of the ring.
 *
 * The text and its terminator need *needed bytes; text NULL with size 0 asks only for that number.
 * The report changes as peers come and go and links are used, so the next call may need more: leave
 * some room.
 *
 * Asks the master and BLOCKS until it answers, or `call_timeout_ms` has passed; no other peer is
 * involved. Any thread, at any time, also during other calls; one at a time. Not in PCCL 1.0.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL; text is NULL and size is not 0, or needed is NULL too; or the
 *                     text does not fit: then *needed is set and nothing written
 * pcclInvalidUsage    unconnected, also when that happens meanwhile; such a call is outstanding; or
 *                     the group is too large to be described
 * pcclTimeout
 * pcclOutOfMemory
 * pcclInternalError   a defect of the library
 */
PCCL_EXPORT pcclResult_t pcclGetTopology(const pcclComm_t *comm, char *PCCL_NULLABLE text, size_t size,
                                         size_t *PCCL_NULLABLE needed);

/* ------------------------------------------------------------------------------------------------ reductions */

/*
 * Launches a reduction over the group; pcclAwaitAsyncReduce ends it. Joint(group) by tag: the n-th
 * launch of a tag since the last topology update or optimization is paired with the n-th launch of
 * that tag of the other peers. Does not block. Any thread; peers may launch and await different
 * tags in different orders. sendbuf and recvbuf hold descriptor->count elements in CPU memory, of
 * any number, need no alignment, and must be the same or not overlap. sendbuf must stay unchanged
 * and recvbuf untouched until the await has returned. On any result but pcclSuccess nothing was
 * launched and the other peers were not notified.
 * pcclSuccess         *reduce_handle_out must be awaited exactly once
 * pcclNotInitialized
 * pcclInvalidArgument a pointer is NULL; count is 0; an unknown data type, operation or algorithm;
 *                     an operation that does not fit the data type, or is pcclPremulSum; quantization
 *                     that does not fit data type or operation; the buffers overlap partly; or the
 *                     tag is in use (launched and not yet awaited)
 * pcclInvalidUsage    unconnected, pcclUpdateTopology, pcclOptimizeTopology or
 *                     pcclSynchronizeSharedState of another thread is outstanding, or too many
 *                     operations are outstanding
 * pcclTooFewPeers     the group has fewer than two peers
 * pcclInternalError   memory is short (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclAllReduceAsync(const void *sendbuf, void *recvbuf,
                                            const pcclReduceDescriptor_t *descriptor, const pcclComm_t *comm,
                                            pcclAsyncReduceOp_t *reduce_handle_out);

/*
 * Ends a launched reduction. Joint(group) with the others' launches of it (not their awaits):
 * BLOCKS until the outcome is decided for all. Success or failure is the same on all peers that
 * remain in the run. Success: recvbuf holds the result, bit-identical on all peers. Failure:
 * sendbuf is as it was, in place too; when the buffers differ recvbuf is unspecified. Either way
 * the library does not touch the buffers any more, the tag is free and the attributes are fresh.
 * Any thread, any order.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument    the handle or its communicator is NULL, or it names no launched operation
 *                        (awaited already, or being awaited by another thread)
 * pcclInvalidUsage       peers differ in count, data type, operation or quantization; the words say
 *                        who and in what (ext. pcclPeerMismatch). Or unconnected, with no such
 *                        operation
 * pcclRankConnectionLost a peer was lost: retry with the remaining ones. Or the operation was given
 *                        up, a deadline passed, or this peer itself was expelled or lost its master
 *                        (then further calls say pcclInvalidUsage) (ext. pcclAborted, pcclTimeout,
 *                        pcclExpelled, pcclMasterLost)
 * pcclInternalError      the operation failed for want of memory or a defect on one of the peers, or
 *                        because a peer sent another one an invalid message, which the words name
 *                        (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclAwaitAsyncReduce(const pcclAsyncReduceOp_t *reduce_handle,
                                              pcclReduceInfo_t *PCCL_NULLABLE reduce_info_out);

/*
 * The same with a limit to the waiting: after timeout_ms it returns pcclTimeout; then the operation
 * goes on, the handle stays valid and must be awaited again. timeout_ms 0 does not block. Any other
 * result ends the operation as pcclAwaitAsyncReduce does, with its codes; pcclTimeout never comes
 * for an operation's own deadline here, that is pcclRankConnectionLost. Not in PCCL 1.0.
 * pcclTimeout            the operation is still under way
 * and the results of pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclAwaitAsyncReduceFor(const pcclAsyncReduceOp_t *reduce_handle, uint32_t timeout_ms,
                                                 pcclReduceInfo_t *PCCL_NULLABLE reduce_info_out);

/*
 * Labels all operations that the calling thread launches from now on, on any communicator, for
 * example "step 3". Operations are paired by their tags and the order of launches
 * (pcclReduceDescriptor_t), so a peer that skips one would get the data of the next one instead.
 * Labels are compared like descriptors: if they differ, or only some peers set one, the operation
 * fails on all peers with pcclInvalidUsage (ext. pcclPeerMismatch), and the message shows both.
 * Printable UTF-8 of at most 32 bytes; NULL or "": none. Costs nothing. Any thread. Does not block.
 * Not in PCCL 1.0.
 * pcclSuccess
 * pcclInvalidArgument too long, or not printable; the label stays as it was
 */
PCCL_EXPORT pcclResult_t pcclSetOperationLabel(const char *PCCL_NULLABLE label);

/*
 * Tells whether an await would return at once. The operation must still be awaited. Does not block.
 * Any thread, any number of times, also while another one awaits it. Not in PCCL 1.0.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument    the handle, its communicator or done_out is NULL, or it names no launched
 *                        operation
 * pcclInvalidUsage       unconnected, with no such operation
 * pcclInternalError      a defect of the library
 */
PCCL_EXPORT pcclResult_t pcclTestAsyncReduce(const pcclAsyncReduceOp_t *reduce_handle, bool *done_out);

/*
 * Aborts all operations of this communicator that are launched and undecided, for all peers of the
 * group. It does not wait: each await returns as soon as the peers agree, with
 * pcclRankConnectionLost (ext. pcclAborted), or with pcclSuccess if that had been decided before. A
 * pcclAllReduceMultipleWithRetry or pcclRunOperations under way launches nothing more and returns,
 * on the other peers also. Joint calls go on. Any thread; not from a signal handler. The other peers
 * may have launched fewer operations than this one, and their next launch of such a tag fails too;
 * pcclUpdateTopology makes a new beginning. Not in PCCL 1.0.
 * pcclSuccess            also when there are none
 * pcclNotInitialized
 * pcclInvalidArgument    comm is NULL
 * pcclInvalidUsage       unconnected: all have ended
 * pcclInternalError      a defect of the library
 */
PCCL_EXPORT pcclResult_t pcclAbortOperations(pcclComm_t *comm);

/*
 * Launch and await in one call: BLOCKS, joint(group). The codes and guarantees of both.
 */
PCCL_EXPORT pcclResult_t pcclAllReduce(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                                       const pcclComm_t *comm, pcclReduceInfo_t *PCCL_NULLABLE reduce_info_out);

/*
 * Carries out a list of reductions, at most max_in_flight at a time in the order of the list, and
 * repeats those that fail because a peer was lost, until all have succeeded. Joint(group): all
 * peers pass lists with the same tags and descriptors; tags must be distinct within the list.
 * BLOCKS. Any thread. It returns only when none of its operations runs any more. Entries may have
 * been reduced over different numbers of peers if one was lost in between. A failure that a retry
 * cannot fix ends the list on all peers and aborts its other operations. The peers may then have
 * launched different parts of the list: call pcclUpdateTopology before using these tags again.
 * reduce_info_out: the sums of the bytes, and the number of peers of the entry that had fewest, the
 * same for all; on
 * pcclTooFewPeers, when it is written also, the number at the end.
 * pcclSuccess            every entry has succeeded
 * pcclNotInitialized
 * pcclInvalidArgument    a pointer is NULL, count is 0, max_in_flight < 1, two tags are equal, or
 *                        an entry is one that pcclAllReduceAsync would refuse so; nothing was
 *                        launched
 * pcclInvalidUsage       unconnected; or a failure that no retry mends, as for pcclAwaitAsyncReduce
 * pcclTooFewPeers        the group has or came to have one peer only: some entries may have been
 *                        reduced, others are as after a failure; discard the step
 * pcclRankConnectionLost given up, a deadline passed, or this peer was expelled or lost its master
 *                        (ext. as above)
 * pcclInternalError      memory is short (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclAllReduceMultipleWithRetry(const pcclReduceOpDescriptor_t *descriptors, size_t count,
                                                        const pcclComm_t *comm,
                                                        pcclReduceInfo_t *PCCL_NULLABLE reduce_info_out,
                                                        int max_in_flight);

/* ------------------------------------------------------------------------------------------------ shared state */

/*
 * Makes all peers of the group hold the same bytes for every named tensor, joint(group). The round
 * is decided when all members of the group have called it, in any order: the content that most
 * members with the group's revision hold is elected, and the others fetch the chunks (of 1 MiB)
 * that differ, from all holders at once. If the contents are equal, only digests travel. On success
 * all members hold the elected content, and shared_state->revision is the group's; the next
 * synchronization must bring revision + 1. A member with a lower revision is outdated: it receives
 * the content and the group's revision. The first synchronization of a run accepts any revision,
 * and the highest becomes the group's: so a run resumes from a checkpoint.
 *
 * Strategies. ENFORCE_POPULAR: as above; all of the group, or none. SEND_ONLY: never overwritten;
 * RECEIVE_ONLY: its content does not count, and it gives nothing; the two go together. Tensors with
 * allow_content_inequality are not compared; a peer that has not completed a synchronization in
 * this run gets them from one that has, once.
 *
 * Memory: the tensors are read and written only during the call; CUDA tensors pass through a few
 * page-locked chunks. Writes to them on other streams must have been enqueued before. No tensor is
 * copied as a whole.
 *
 * A member is removed from the run (all its calls fail, it may connect again) for a different list
 * of tensors (names, order, types, counts, flags), a revision that skips numbers, SEND_ONLY or
 * RECEIVE_ONLY among ENFORCE_POPULAR, SEND_ONLY with content that was not elected, or if all are
 * RECEIVE_ONLY. A member that dies has no vote; a donor that dies is replaced. BLOCKS until all
 * members have called it and all fetches are done. Any thread.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or shared_state is NULL; infos is NULL while count > 0; too many
 *                     tensors; a tensor without a name, with the name of another, without data
 *                     while its count > 0, or of unknown data type or device; a CUDA tensor where
 *                     there is no driver, or that is not in the device's memory; the revision is
 *                     UINT64_MAX; an unknown strategy
 * pcclInvalidUsage    unconnected; removed from the run (ext. pcclExpelled); a joint call is
 *                     outstanding; nobody holds the group's revision any more, all who held what
 *                     was elected died, or a member lacks memory or descriptors (then it fails for
 *                     all); or this peer could not fetch what it lacks. The revision is as before;
 *                     the words of pcclGetLastError name tensors that are partly overwritten. Given
 *                     up or too late: ext. pcclAborted, pcclTimeout
 * pcclPendingAsyncOps operations are launched and not awaited
 * pcclInternalError   memory or another resource is short here (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclSynchronizeSharedState(const pcclComm_t *comm, pcclSharedState_t *shared_state,
                                                    pcclSharedStateSyncStrategy_t strategy,
                                                    pcclSharedStateSyncInfo_t *PCCL_NULLABLE sync_info_out);

/* ------------------------------------------------------------------------------------------------ master */

/*
 * The master functions need no pcclInit. Their order is create, run, (interrupt, from any thread),
 * await, destroy. A master holds nothing on disk but its key and tokens, if it has them
 * (`master_token_file`, `master_state`): then all is encrypted, and only peers with a token join. When
 * it dies, peers wait for `master_lost_ms` and go on with a new one at the same address.
 */

/*
 * Creates a master that will listen on the given address, without using the network yet. All
 * parameters come from the environment or their defaults. Does not block.
 * pcclSuccess
 * pcclInvalidArgument master_out is NULL, the port is 0 or the protocol unknown; a PCCL_* variable
 * has a bad value
 * pcclInternalError   memory is short, or the files of the token cannot be used
 * pcclInvalidUsage    there is to be a token, and this host has no OpenSSL 3 (ext. pcclUnsupported)
 */
PCCL_EXPORT pcclResult_t pcclCreateMaster(ccoip_socket_address_t listen_address, pcclMasterInstance_t **master_out);

/*
 * The same with addresses as text: one or more of "host:port", "1.2.3.4:port", "[v6]:port",
 * separated by commas; port 0 lets the system choose, without a port 48148. options (copied) may be
 * NULL; those of scope communicator are ignored.
 * pcclSuccess
 * pcclInvalidArgument listen_addresses or master_out is NULL, an address cannot be read, or a
 *                     parameter has a bad value or does not fit another one
 * pcclInternalError   the files of the token cannot be used
 * pcclUnsupported     there is to be a token, and this host has no OpenSSL 3
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclCreateMasterWithOptions(const char *listen_addresses,
                                                     const pcclOptions_t *PCCL_NULLABLE options,
                                                     pcclMasterInstance_t **master_out);

/*
 * Binds, listens and starts the master's thread. When it returns, peers can connect. Does not wait
 * for peers.
 * pcclSuccess
 * pcclInvalidArgument master is NULL
 * pcclInvalidUsage    run before; or the address cannot be bound, the words say why
 * pcclInternalError   memory or a thread is short (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclRunMaster(pcclMasterInstance_t *master);

/*
 * The port on which a running master listens (of its first address). Any thread. Does not block.
 * pcclSuccess
 * pcclInvalidArgument master or port_out is NULL
 * pcclInvalidUsage    not run yet
 */
PCCL_EXPORT pcclResult_t pcclMasterGetPort(const pcclMasterInstance_t *master, uint16_t *port_out);

/*
 * Asks a running master to end: it notifies its peers and closes all connections. Does not wait for
 * that. Any thread, also in a signal handler, any number of times.
 * pcclSuccess
 * pcclInvalidArgument master is NULL
 * pcclInvalidUsage    never run
 */
PCCL_EXPORT pcclResult_t pcclInterruptMaster(pcclMasterInstance_t *master);

/*
 * Asks a running master to read its certificates again, for connections that are made from then on; what cannot be
 * used is logged, and the former one stays. Without certificates it does nothing. Does not wait. Any thread, also in
 * a signal handler.
 * pcclSuccess
 * pcclInvalidArgument master is NULL
 * pcclInvalidUsage    never run
 */
PCCL_EXPORT pcclResult_t pcclReloadMaster(pcclMasterInstance_t *master);

/*
 * BLOCKS until the master's thread has ended; without an interrupt that is for ever. One thread at
 * a time.
 * pcclSuccess
 * pcclInvalidArgument master is NULL
 * pcclInvalidUsage    never run
 * pcclInternalError   it has ended by a defect of the library, which the log names; it can be
 *                     destroyed
 */
PCCL_EXPORT pcclResult_t pcclMasterAwaitTermination(pcclMasterInstance_t *master);

/*
 * Frees a master that was never run, or whose termination was awaited. It must not be used
 * afterward.
 * pcclSuccess
 * pcclInvalidArgument master is NULL
 * pcclInvalidUsage    it runs, or its termination was not awaited; nothing was freed
 */
PCCL_EXPORT pcclResult_t pcclDestroyMaster(pcclMasterInstance_t *master);

#ifdef __cplusplus
}
#endif

#include "pccl_collectives.h" /* members, operations of all kinds, lists, groups; codecs */

#endif
