/*
 * PCCL: fault-tolerant collective communication over TCP. Peers may join, leave and fail at any time.
 *
 * A lightweight master manages the membership and decides which operations succeed. Peers connect to it through a
 * communicator and call collective operations. The guarantee: after any failure at any time, every surviving peer
 * returns from every call, with the same outcome and the same bits as the other survivors.
 *
 * Terms
 *   run          the peers that share one master
 *   peer group   a number that every peer chooses; operations run among the peers with the same number
 *   accepted     a peer whose pcclConnect has succeeded
 *   joint(all)   the call returns when every accepted peer of the run (all groups) has called it; peers that leave or
 *                die in the meantime are excluded
 *   joint(group) the same among the accepted peers of the caller's group
 *   unconnected  pcclConnect has not succeeded yet, or the communicator has left the run since, was expelled by the
 *                master, or had no master for `master_lost_ms`. pcclConnect may be called again
 *
 * Results. Calls that exist in PCCL 1.0 return only the codes 0 to 12, unless the communicator was created with the
 * option `extended_results` = 1: then a more precise code from 13 upwards may replace the listed one; these codes are
 * given below as "ext. name". Output parameters are written on success only, unless stated otherwise. After a failure
 * pcclGetLastError explains the reason with peers, tags and times, and pcclGetLastFailure returns the details for
 * programs.
 *
 * Threads. Calls on different communicators are independent. Several threads may use one communicator at the same time,
 * with two exceptions: no call on it may begin once pcclDestroyCommunicator has been called, and only one blocking
 * joint call (update, pending, optimize, synchronize) may be outstanding; a second one returns pcclInvalidUsage.
 *
 * Deadlines. By default calls wait for live peers without limit; `call_timeout_ms` and `op_timeout_ms` set limits. If
 * peers wait in different calls, these can never complete: they end after `stuck_ms` (30 s) if one of them is update,
 * optimize or synchronize. A peer that is silent for the master's `silence_ms` is considered dead.
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
    pcclNotInitialized = 1,         /* pcclInit has not been called */
    pcclInternalError = 2,          /* out of memory, lack of another resource, or a bug in the library */
    pcclInvalidArgument = 3,        /* an argument is invalid regardless of the state; nothing was changed */
    pcclInvalidUsage = 4,           /* the call is not allowed in this state, or conflicts with other peers' calls */
    pcclTooFewPeers = 5,            /* fewer than two peers in the group */
    pcclMasterConnectionFailed = 6, /* pcclConnect could not join the run */
    pcclRankConnectionFailed = 7,   /* never returned */
    pcclRankConnectionLost = 8,     /* the operation failed on all peers of the group; a retry usually succeeds */
    pcclNoSharedStateAvailable = 9, /* never returned */
    pcclPendingAsyncOps = 10,       /* operations of this communicator have been launched but not yet awaited */
    pcclUpdateTopologyFailed = 11,  /* pcclUpdateTopology could not complete */
    pcclTopologyOptimizationFailed = 12, /* pcclOptimizeTopology could not complete */
    /* Only from calls that PCCL 1.0 lacks, or with the option `extended_results` instead of the code in parentheses: */
    pcclTimeout = 13,         /* the deadline passed (8, 6, 11 or 4, depending on the call) */
    pcclAborted = 14,         /* a caller aborted the operation (8) */
    pcclVersionMismatch = 15, /* the other side uses a different protocol version, or is not a master (6) */
    pcclPeerMismatch = 16,    /* peers called the same operation with different arguments (4) */
    pcclExpelled = 17,        /* the master removed this peer from the run (8, 11 or 4, depending on the call) */
    pcclMasterLost = 18,      /* no master for `master_lost_ms` (8, 11 or 4, depending on the call) */
    pcclOutOfMemory = 19,     /* out of memory (2) */
    pcclUnsupported = 20,     /* not supported by this version (4) */
    pcclRefused = 21,         /* the master refused this peer (6) */
    pcclMembersChanged = 22,  /* the members differ from the list that a caller expected */
    pcclDrained = 23 /* this peer was drained, by pcclDrain or an operator (8, 6, 11 or 4, depending on the call) */
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
    pcclInt16 = 2, /* signed before unsigned, unlike the other sizes */
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
    pcclBool = 12,         /* one byte: 0 is false, any other value is true; results of reductions are 0 or 1 */
    pcclFloat8E4M3FN = 13, /* 4 exponent bits, 3 fraction bits, no infinity: up to 448 */
    pcclFloat8E5M2 = 14    /* the upper half of a binary16: up to 57344, with infinities */
} pcclDataType_t;

typedef enum pcclDeviceType_t { pcclDeviceCpu = 0, pcclDeviceCuda = 1 } pcclDeviceType_t;

/*
 * Integers wrap. Avg is the sum divided by the number of peers; for integers it divides the wrapped sum and truncates
 * toward zero. Floats of 8 and 16 bits are computed in single precision and rounded once, to nearest even; values too
 * large for Float8E4M3FN, including infinities, become 448 with the same sign. Max and Min return NaN if any operand is
 * NaN and order -0 below +0.
 *
 * And, Or and Xor apply to the bits of integers and to bools; floats are refused. For bools, Sum and Max are Or, Prod
 * and Min are And, and Avg is refused. PremulSum multiplies each peer's elements by the peer's factor
 * (pcclCollectiveOptions_t), rounds them to their type and sums them; floats narrower than double are multiplied in
 * single precision; integers and bools are refused.
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

/* Counts that pcclGetAttribute returns. They cover accepted peers only, not newcomers that wait for admission. */
typedef enum pcclAttribute_t {
    PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE = 1,             /* peers of the run, all groups */
    PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE = 2,         /* peers of this communicator's group */
    PCCL_ATTRIBUTE_NUM_DISTINCT_PEER_GROUPS = 3,      /* groups with at least one peer */
    PCCL_ATTRIBUTE_LARGEST_PEER_GROUP_WORLD_SIZE = 4, /* peers of the largest group */
    /* not in PCCL 1.0: */
    PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE_NOW = 5,    /* like GLOBAL_WORLD_SIZE, but from the master's latest list */
    PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE_NOW = 6 /* like PEER_GROUP_WORLD_SIZE, but from that list */
} pcclAttribute_t;

typedef enum pcclSharedStateSyncStrategy_t {
    PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR = 0, /* the most common content wins */
    PCCL_SHARED_STATE_SYNC_STRATEGY_RECEIVE_ONLY = 1,    /* receives the others' content and has no vote */
    PCCL_SHARED_STATE_SYNC_STRATEGY_SEND_ONLY = 2        /* keeps its own content */
} pcclSharedStateSyncStrategy_t;

/* Distribution of the elements. The library ignores it. */
typedef enum pcclDistributionHint_t {
    pcclDistributionNone = 0,
    pcclDistributionNormal = 1,
    pcclDistributionUniform = 2,
    PCCL_DISTRIBUTION_HINT_NONE = 0,
    PCCL_DISTRIBUTION_HINT_NORMAL = 1,
    PCCL_DISTRIBUTION_HINT_UNIFORM = 2
} pcclDistributionHint_t;

/*
 * Codec for the elements of large payloads on the network. Small payloads, up to the master's parameter
 * `tiny_bytes_max` (8192 bytes), are never packed. Elements are floating point, and packed values are narrower
 * integers; if the quantized data type is not narrower, the elements stay unpacked. Each block of 1024 elements has a
 * separate scale. Every step of a reduction packs again, so the error grows with the number of peers; a broadcast or an
 * all-gather packs once. All peers receive the same bits, including the peer that contributed the elements. Invalid
 * combinations are refused with pcclInvalidArgument. docs/CODECS.md has the formulas and error bounds.
 */
typedef enum pcclQuantizationAlgorithm_t {
    pcclQuantNone = 0,           /* elements are sent unchanged */
    pcclQuantMinMax = 1,         /* unsigned integers between the smallest and the largest element */
    pcclQuantZeroPointScale = 2, /* integers around an exact zero; for sums and averages only */
    /* Not in PCCL 1.0: formats of the codecs that pcclCreateCodec creates (pccl_codecs.h) */
    pcclQuantE4M3 = 3, /* 8 bits: 4 exponent bits, 3 mantissa bits */
    pcclQuantE5M2 = 4,
    pcclQuantInt4 = 5, /* 4 bits: -7 to 7 */
    pcclQuantE3M0 = 6, /* powers of two */
    pcclQuantE2M1 = 7,
    pcclQuantAuto = 8 /* as many bits as a time budget allows */
} pcclQuantizationAlgorithm_t;

/* ------------------------------------------------------------------------------------------------ structs */

typedef struct pcclCommCreateParams_t {
    ccoip_socket_address_t master_address;
    uint32_t peer_group;
    uint32_t p2p_connection_pool_size; /* connections to each neighbor, up to 64; 0: chosen by the library */
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
    pcclDataType_t quantized_datatype; /* ignored with pcclQuantNone; for a codec, the value set by pcclCreateCodec */
    pcclQuantizationAlgorithm_t algorithm;
} pcclQuantizationOptions_t;

/*
 * One reduction. All members must be equal on all peers of the group; otherwise the operation fails on every peer, and
 * the message names the peer and the difference. The distribution hint is not compared and has no effect.
 */
typedef struct pcclReduceDescriptor_t {
    size_t count; /* elements, not bytes; > 0 */
    pcclRedOp_t op;
    uint64_t tag; /* matches the peers' calls; may be reused once the operation has been awaited */
    pcclReduceOperandDescriptor_t src_descriptor;
    pcclQuantizationOptions_t quantization_options;
} pcclReduceDescriptor_t;

typedef struct pcclReduceSingleDescriptor_t {
    void *sendbuf;
    void *recvbuf;
    pcclReduceDescriptor_t descriptor;
} pcclReduceOpDescriptor_t;

/*
 * Handle of a launched reduction. It is a plain value: it may be copied, must be awaited exactly once, and needs no
 * other release.
 */
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
    bool allow_content_inequality; /* the content may differ between peers */
} pcclTensorInfo_t;

typedef struct pcclSharedState_t {
    uint64_t revision;
    size_t count; /* number of elements of infos */
    pcclTensorInfo_t *infos;
} pcclSharedState_t;

typedef struct pcclSharedStateSyncInfo_t {
    uint64_t tx_bytes;
    uint64_t rx_bytes;
} pcclSharedStateSyncInfo_t;

typedef struct pcclBuildInfo_t {
    bool has_cuda_support; /* true if CUDA is available, so that tensors of shared state may be in device memory */
} pcclBuildInfo_t;

/* ------------------------------------------------------------------------------------------------ process */

/*
 * Prepares the library: reads the process-wide parameters (log_level and others) from the environment and warns about
 * unknown variables named PCCL_*. For a bad value of a process-wide parameter it logs a warning and uses the default.
 * Call it once before creating a communicator; further calls have no effect. Any thread. Does not block. Installs no
 * signal handler and starts no thread.
 * pcclSuccess         always
 */
PCCL_EXPORT pcclResult_t pcclInit(void);

/*
 * Reports the optional features that the library can use on this machine. The first call loads the CUDA driver and
 * queries its devices; after that CUDA does not work in forked children. Any thread, any time, even before pcclInit.
 * Does not block.
 * pcclSuccess
 * pcclInvalidArgument info is NULL
 */
PCCL_EXPORT pcclResult_t pcclGetBuildInfo(pcclBuildInfo_t *info);

/*
 * Returns the version of the loaded library: major * 10000 + minor * 100 + patch. PCCL_VERSION_* give the version of
 * the header. Any thread, any time.
 */
PCCL_EXPORT uint32_t pcclGetVersion(void);

/*
 * Describes a result in one English sentence without a full stop. Never returns NULL, not even for an unknown value.
 * Any thread, any time. The text is static.
 */
PCCL_EXPORT const char *pcclGetErrorString(pcclResult_t result);

/*
 * Returns the reason for the calling thread's last failure on this communicator or, if comm is NULL, for its last
 * failure in a call without a communicator (creation, options, master and log functions). The text is empty if no call
 * has failed; successful calls leave it unchanged. Never NULL. Valid until the thread's next call to the library. Any
 * time. Does not block. comm may be disconnected, but not destroyed.
 */
PCCL_EXPORT const char *pcclGetLastError(const pcclComm_t *PCCL_NULLABLE comm);

#define PCCL_FAILURE_PEERS_MAX 16
#define PCCL_PEER_ID_SIZE 33 /* 32 hexadecimal digits and the terminator */

/*
 * The details of a failed call. Later versions may add members at the end; `size` is the size in the caller's version,
 * and the library sets members that its own version lacks to 0.
 */
typedef struct pcclFailure_t {
    size_t size;         /* set by PCCL_FAILURE_INIT */
    pcclResult_t result; /* result of the call; pcclSuccess: no call has failed, and the members below are 0 */
    bool launched;       /* true if the call launched an operation, which tag and sequence identify */
    uint64_t tag;
    uint64_t sequence;   /* 0 for the first launch of the tag since the last joint call that reset the numbers */
    uint32_t peer_count; /* number of peers that left the group; peers lists at most PCCL_FAILURE_PEERS_MAX of them */
    char peers[PCCL_FAILURE_PEERS_MAX][PCCL_PEER_ID_SIZE]; /* ids as in pcclGetTopology; "" in unused entries */
    uint32_t precise; /* a pcclResult_t: the result of the call with `extended_results` */
} pcclFailure_t;

#define PCCL_FAILURE_INIT                                                                                              \
    {                                                                                                                  \
        sizeof(pcclFailure_t), pcclSuccess, false, 0, 0, 0, {{0}}, 0                                                   \
    }

/*
 * Returns the details of the failure that pcclGetLastError explains, for the same thread and communicator.
 *
 * sequence: number of a launch within its tag. It pairs the launches of the peers, so it is equal on all of them, and
 * the master's log shows it as `use`. Numbers restart at 0 with each completed pcclUpdateTopology, pcclOptimizeTopology
 * and pcclSynchronizeSharedState. A refused launch has no number: it is not `launched`.
 *
 * peers: the peers that died, were removed or left the caller's group between the start of the call (the launch of a
 * reduction, the start of the list in pcclAllReduceMultipleWithRetry or pcclRunOperations) and its outcome, as far as
 * this peer knew at that time, regardless of the reason of the failure. So when a reduction fails because of a death,
 * all survivors name the dead peer, except a survivor that launches the reduction after another call has already
 * reported the death. The list is empty if no peer left (a link between two live peers failed, arguments differ), if
 * the call was refused for its arguments, and for pcclTimeout of pcclAwaitAsyncReduceFor. The library remembers the
 * latest 256 peers that left.
 *
 * precise: the same cause as a code from 13 upwards, if there is one, regardless of the options; it distinguishes a
 * deadline from a death. When `op_timeout_ms` or `stuck_ms` has passed, usually no peer has left: the message names the
 * missing peers, and the same call would wait for them again.
 *
 * Success leaves message and details unchanged; if this function itself fails, it sets the message and details of calls
 * without a communicator. Any thread, any time. Does not block. comm may be disconnected, but not destroyed. Not in
 * PCCL 1.0.
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
 * Returns the name of the peer with this id, as set by its parameter `name`; "" if it is unknown. The library knows the
 * names of this peer, of the run's members (in a run of more than 1024 peers, of the first ones and of peers that
 * joined later) and of the latest 256 peers that left the group, which include all peers in pcclFailure_t. Messages and
 * logs already contain the names: "peer 1a2b3c4d 'trainer-3'". Each peer chooses its own name, so names need not be
 * unique. Any thread, any time. Does not block. Not in PCCL 1.0.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm, id or name is NULL, size is less than PCCL_PEER_NAME_SIZE, or id is not 32 hexadecimal
 *                     digits
 */
PCCL_EXPORT pcclResult_t pcclGetPeerName(const pcclComm_t *comm, const char *id, char *name, size_t size);

/*
 * Describes waiting calls. The first line describes the calls of this or other peers that have waited for more than
 * `where_ms`, with the waiting peers, their calls and the missing peers. Another line describes each list
 * (pcclRunOperations, pcclAllReduceMultipleWithRetry) whose first unfinished entry was first launched more than
 * `where_ms` ago, with the number of its launches and the reason for its last failure. The text is empty if no peer is
 * known to be waiting; it is truncated to fit and always terminated. Any thread, even while another thread is blocked
 * in a call on comm. Does not block.
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
    pcclLogNone = 5 /* disables logging */
} pcclLogLevel_t;

/*
 * Receives one log line. `subsystem` and `message` are valid during the call; the message has no line end. A dedicated
 * thread of the library calls it with one line at a time, in order. No other thread waits for it: when more than 1000
 * lines are queued, further lines are dropped, and one line reports their number. The callback may call pcclGetVersion,
 * pcclGetErrorString, pcclGetLastError, pcclGetLastFailure and the pcclSetLog functions, but no other function of the
 * library; the log lines of these calls are dropped.
 */
typedef void (*pcclLogCallback_t)(pcclLogLevel_t level, const char *subsystem, const char *message, void *user);

/*
 * Sends all further lines to `callback` with `user`, or to standard error if `callback` is NULL. The library never
 * writes to standard output and never ends the process because of a message. When the call returns, the previous
 * callback has received all earlier lines, is no longer running and will not be called again (unless this call is made
 * inside a callback); so do not hold a lock that the previous callback takes. Any thread, any time, even before
 * pcclInit. Blocks until the previous callback has received its lines. An exiting process waits up to a second for the
 * remaining lines.
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
 * Description of a parameter. The texts are static. Later versions may add members at the end; `size` is the size in
 * the caller's version.
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

/* Returns the number of parameters. Any thread, any time. */
PCCL_EXPORT size_t pcclGetParameterCount(void);

/*
 * Describes parameter `index`; the order is fixed within a version. Any thread, any time. Does not
 * block.
 * pcclSuccess
 * pcclInvalidArgument info is NULL, its size was not set, or index >= pcclGetParameterCount()
 */
PCCL_EXPORT pcclResult_t pcclGetParameterInfo(size_t index, pcclParameterInfo_t *info);

/*
 * Creates an empty set of options: every parameter has the value of its environment variable, or else its default. Any
 * time, even before pcclInit. A set may be used by one thread at a time, and for any number of communicators and
 * masters, which copy it.
 * pcclSuccess
 * pcclInvalidArgument options_out is NULL
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclCreateOptions(pcclOptions_t **options_out);

/*
 * Sets a parameter of scope communicator or master by name; it overrides the environment. Numbers are decimal, and
 * numbers of bytes may end with K, M or G, as in 64K; booleans are 0 or 1 (also off/on, false/true, no/yes); lists are
 * separated by commas. A NULL value removes the setting. Any
 * time. Creating a communicator or master checks that the values are consistent.
 * pcclSuccess
 * pcclInvalidArgument options or name is NULL, an unknown parameter, a parameter of the process, or an invalid value;
 *                     the message names the parameter, the value and the range
 * pcclOutOfMemory     the setting is unchanged
 */
PCCL_EXPORT pcclResult_t pcclSetOption(pcclOptions_t *options, const char *name, const char *PCCL_NULLABLE value);

/*
 * Returns the current value of a parameter: as set, from the environment, or the default. If options is NULL, the set
 * is empty. Any time. Does not block.
 * pcclSuccess
 * pcclInvalidArgument name or buffer is NULL, an unknown parameter, or the text with its terminator needs more than
 *                     `size` bytes; the message states the required size
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
 * Creates an unconnected communicator. params is copied; all other parameters are read from the environment or have
 * their defaults. Starts no thread and does not use the network. Any thread. Does not block.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument params or comm_out is NULL, the master's port is 0, the protocol is unknown, or a PCCL_* variable
 *                     has an invalid value
 * pcclInternalError   out of memory, or the token file cannot be read
 * pcclInvalidUsage    a token is set, but this host has no OpenSSL 3 (ext. pcclUnsupported)
 */
PCCL_EXPORT pcclResult_t pcclCreateCommunicator(const pcclCommCreateParams_t *params, pcclComm_t **comm_out);

/*
 * Creates an unconnected communicator from text. master_addresses: one or more of "host:port", "1.2.3.4:port",
 * "[v6]:port", separated by commas; the default port is 48148. All must lead to the same master; they are tried in
 * order. Names are resolved at each connect and reconnect. options (copied) may be NULL and may contain `peer_group`,
 * `connection_pool_size` and every other parameter of scope communicator; of the parameters of scope master only
 * `alone_ms` is used, which `master_lost_ms` must exceed.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument master_addresses or comm_out is NULL, an address is malformed, or a parameter has an invalid
 *                     value or conflicts with another one
 * pcclInternalError   the token file cannot be read
 * pcclUnsupported     a token is set, but this host has no OpenSSL 3
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclCreateCommunicatorWithOptions(const char *master_addresses,
                                                           const pcclOptions_t *PCCL_NULLABLE options,
                                                           pcclComm_t **comm_out);

/*
 * Joins the run: opens the listening port, connects to the master, and waits for admission. The first peer of an empty
 * run is admitted at once. Otherwise the call BLOCKS until this peer has links to its future neighbors and all accepted
 * peers have then called pcclUpdateTopology. If the master is unreachable, the call fails immediately; if a busy master
 * closes connections without an answer, the call retries for connect_retry_ms. On success the attributes are updated;
 * on failure the communicator is unconnected and connect may be called again. Each connect creates a new identity: a
 * lost peer returns as a newcomer. The communicator must be unconnected and must not have been drained (pcclDrain).
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument         comm is NULL
 * pcclInvalidUsage            already connected, or another thread is connecting
 * pcclMasterConnectionFailed  the master cannot be reached or was lost, refused this peer or uses a different version;
 *                             no port could be opened; or `call_timeout_ms` passed (ext. pcclRefused,
 *                             pcclVersionMismatch, pcclMasterLost, pcclExpelled, pcclTimeout); this peer was drained
 *                             (ext. pcclDrained)
 * pcclInternalError           out of memory (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclConnect(pcclComm_t *comm);

/*
 * Leaves the run, if connected, and frees the communicator. It notifies the master, so that the others need not detect
 * the loss, and does not wait for peers. Ends operations that have not been awaited; the library does not touch their
 * buffers afterward. An in-place buffer then contains either the complete input or, only after a success, the complete
 * result. If the buffers differ, the receive buffer is unspecified. comm and the handles of its operations must not be
 * used afterward. Other threads' calls on comm fail as if this peer had left the run, and this call BLOCKS until they
 * have returned, so do not destroy a communicator from a log callback. Destroying a group (pcclCreateGroup) ends the
 * group for all of its members.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL
 * pcclInvalidUsage    another thread is destroying it
 */
PCCL_EXPORT pcclResult_t pcclDestroyCommunicator(pcclComm_t *comm);

/*
 * Leaves the run, if connected, and ends other threads' calls on comm, but frees nothing: every later call on comm
 * fails, and pcclDestroyCommunicator is still required; until it returns, the library may use the buffers of operations
 * that have not been awaited. Intended for programs in which another thread may be about to make a call: they close the
 * communicator, wait for their threads, and then destroy it. Closing a group ends the group and its operations. Any
 * thread. Does not block.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL
 * pcclInvalidUsage    already closed, or another thread is destroying it
 */
PCCL_EXPORT pcclResult_t pcclCloseCommunicator(pcclComm_t *comm);

/*
 * Returns a count. The first four counts are updated only when a call of this communicator (connect, update topology,
 * optimize topology, await) completes, successfully or not. So all peers that made the same calls see the same numbers,
 * and a loop that only reads them never notices a death. The _NOW counts follow the latest member list from the master:
 * they include removals and admissions since that call, and may differ between peers. A dead peer counts until the
 * master removes it (immediately, or after `silence_ms`); while the master is away the counts do not change. Any
 * thread. Does not block.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or attribute_out is NULL, or the attribute is unknown
 * pcclInvalidUsage    unconnected
 */
PCCL_EXPORT pcclResult_t pcclGetAttribute(const pcclComm_t *comm, pcclAttribute_t attribute, int *attribute_out);

/*
 * Admits the newcomers that are ready. Joint(all), BLOCKS until all accepted peers have called it. Without a newcomer
 * the call takes one round trip after the slowest caller. On success all peers see the same new attributes. A newcomer
 * begins with the calls that members make after the update that admitted it. If other peers wait in a different call,
 * neither call can complete: pcclDescribeWaits names the peers, and `stuck_ms` usually ends one of the two calls.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument       comm is NULL
 * pcclInvalidUsage          unconnected, or another joint call of this communicator is outstanding
 * pcclPendingAsyncOps       operations have been launched and not awaited
 * pcclUpdateTopologyFailed  this peer was expelled or lost its master (it is unconnected now), or a deadline passed
 *                           (ext. pcclExpelled, pcclMasterLost, pcclTimeout); or it was drained, and the others
 *                           continue without it (ext. pcclDrained)
 * pcclInternalError         out of memory (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclUpdateTopology(pcclComm_t *comm);

/*
 * Sets *pending_out to true if newcomers are ready for admission. Joint(all), BLOCKS until all accepted peers have
 * called it; all receive the same answer. May be called while operations run, and while another thread awaits them, but
 * not during another joint call. A newcomer counts once it and its future neighbors have their links, so after "true"
 * an update need not wait for it. The answer is also true if an update would remove a slow link from a ring or let a
 * drained peer leave.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or pending_out is NULL
 * pcclInvalidUsage    unconnected, or another joint call of this communicator is outstanding; expelled or without a
 *                     master during the call, or a deadline passed (ext. pcclExpelled, pcclMasterLost, pcclTimeout)
 * pcclInternalError   out of memory (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclArePeersPending(const pcclComm_t *comm, bool *pending_out);

/*
 * Measures the paths between the peers and builds the best ring of each group. Joint(all), BLOCKS until all accepted
 * peers have called it, and then for 2 to 3 seconds (the master's `optimize_ms`) if many paths need measuring.
 *
 * Paths are tested under load; each peer sends over one path and receives over one path at a time. A result is valid
 * for `fresh_ms`, unless reductions over that link reach a different rate. So a call shortly after another one takes
 * only a few round trips, and in a large run, where the time is too short to test every path, each call adds results.
 * The best ring is the one whose slowest path is the fastest and, among equal rings, the one with the lowest latency;
 * no ring contains an unusable path. The ring changes only if another ring is clearly better. For more than twelve
 * peers the search continues in the background; the next pcclUpdateTopology or pcclOptimizeTopology adopts its result,
 * or a ring that avoids a link that has become much slower.
 *
 * The call admits no newcomers. It updates the attributes. The death of a peer invalidates only its tests; a hanging
 * peer also delays the call by a few seconds; a restarted master repeats the tests. Once the tests have begun,
 * `call_timeout_ms` does not end the call. Operations must not be launched during it.
 * pcclSuccess         the ring is the best one found; a change applies to all peers at the same time
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL
 * pcclInvalidUsage    unconnected; the global world size is 1; or another joint call of this communicator is
 *                     outstanding
 * pcclPendingAsyncOps operations have been launched and not awaited
 * pcclTopologyOptimizationFailed  for all peers of the group: too many pairs of peers cannot reach each other, so no
 *                                 ring exists or was found; or the master, or a peer named in the message, lacks memory
 *                                 or descriptors. The ring is unchanged, and the communicator remains usable. For this
 *                                 peer: it was expelled or lost its master (unconnected), or a deadline passed (ext.
 *                                 pcclExpelled, pcclMasterLost, ...)
 * pcclInternalError   this peer is out of memory or another resource: the call fails for the whole group (ext.
 *                     pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclOptimizeTopology(const pcclComm_t *comm);

/*
 * Returns the master's topology report of this communicator's group as text: a line for each peer, one for the ring,
 * and one for each measured path with its rate, round trip, age and source. Comments give the highest rate that an
 * all-reduce could have on these paths, the line that limits it, and the rate around the ring. src/topology/report.h
 * defines the format, docs/PROTOCOL.md its meaning. If the paths do not fit into a message (with more than about 60
 * peers), the report contains only the paths of the ring.
 *
 * The text and its terminator need *needed bytes; with text NULL and size 0 the call only sets *needed. The report
 * changes as peers join and leave and links are used, so the next call may need more bytes: pass a larger buffer.
 *
 * BLOCKS until the master answers or `call_timeout_ms` has passed; no other peer is involved. Any thread, any time,
 * even during other calls; one call at a time. Not in PCCL 1.0.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm is NULL; text is NULL and size is not 0, or needed is NULL too; or the text does not fit:
 *                     then *needed is set and no text is written
 * pcclInvalidUsage    unconnected, or disconnected during the call; another thread's call is outstanding; or the
 *                     group is too large to describe
 * pcclTimeout
 * pcclOutOfMemory
 * pcclInternalError   a bug in the library
 */
PCCL_EXPORT pcclResult_t pcclGetTopology(const pcclComm_t *comm, char *PCCL_NULLABLE text, size_t size,
                                         size_t *PCCL_NULLABLE needed);

/* ------------------------------------------------------------------------------------------------ reductions */

/*
 * Launches a reduction over the group; pcclAwaitAsyncReduce completes it. Joint(group) by tag: the n-th launch of a tag
 * since the last topology update or optimization is paired with the n-th launch of that tag of the other peers. Does
 * not block. Any thread; peers may launch and await different tags in different orders. sendbuf and recvbuf have
 * descriptor->count elements each, in CPU memory and with any alignment; they must be equal or not overlap. sendbuf
 * must stay unchanged and recvbuf untouched until the await has returned. On any result except pcclSuccess no operation
 * was launched and the other peers were not notified.
 * pcclSuccess         *reduce_handle_out must be awaited exactly once
 * pcclNotInitialized
 * pcclInvalidArgument a pointer is NULL; count is 0; an unknown data type, operation or algorithm; an operation that
 *                     does not fit the data type, or is pcclPremulSum; quantization that does not fit data type or
 *                     operation; the buffers overlap partly; or the tag is in use (launched and not yet awaited)
 * pcclInvalidUsage    unconnected, pcclUpdateTopology, pcclOptimizeTopology or pcclSynchronizeSharedState of another
 *                     thread is outstanding, or too many operations are outstanding
 * pcclTooFewPeers     the group has fewer than two peers
 * pcclInternalError   out of memory (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclAllReduceAsync(const void *sendbuf, void *recvbuf,
                                            const pcclReduceDescriptor_t *descriptor, const pcclComm_t *comm,
                                            pcclAsyncReduceOp_t *reduce_handle_out);

/*
 * Waits for a launched reduction and completes it. Joint(group) with the other peers' launches (not their awaits):
 * BLOCKS until the outcome is decided for all. Success or failure is the same on all peers that remain in the run. On
 * success recvbuf contains the result, bit-identical on all peers. On failure sendbuf has its original content, even in
 * place; if the buffers differ, recvbuf is unspecified. In both cases the library no longer touches the buffers, the
 * tag is free and the attributes are updated. Any thread, any order.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument    the handle or its communicator is NULL, or the handle names no launched operation (already
 *                        awaited, or being awaited by another thread)
 * pcclInvalidUsage       peers differ in count, data type, operation or quantization; the message names the peers and
 *                        the difference (ext. pcclPeerMismatch). Or unconnected, with no such operation
 * pcclRankConnectionLost a peer was lost: retry with the remaining ones. Or the operation was aborted, a deadline
 *                        passed, or this peer was expelled or lost its master (then further calls return
 *                        pcclInvalidUsage) (ext. pcclAborted, pcclTimeout, pcclExpelled, pcclMasterLost)
 * pcclInternalError      the operation failed because a peer was out of memory, has a bug or sent another peer an
 *                        invalid message, as given in the reason (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclAwaitAsyncReduce(const pcclAsyncReduceOp_t *reduce_handle,
                                              pcclReduceInfo_t *PCCL_NULLABLE reduce_info_out);

/*
 * Acts as pcclAwaitAsyncReduce with a time limit: after timeout_ms it returns pcclTimeout; the operation then
 * continues, and the handle stays valid and must be awaited again. timeout_ms 0 does not block. After any other result
 * the operation is over, as after pcclAwaitAsyncReduce, whose codes it returns; the operation's deadline is reported as
 * pcclRankConnectionLost, never as pcclTimeout. Not in PCCL 1.0.
 * pcclTimeout            the operation is still running
 * and the results of pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclAwaitAsyncReduceFor(const pcclAsyncReduceOp_t *reduce_handle, uint32_t timeout_ms,
                                                 pcclReduceInfo_t *PCCL_NULLABLE reduce_info_out);

/*
 * Labels all operations that the calling thread launches from now on, on any communicator, for example "step 3".
 * Operations are paired by their tags and the order of launches (pcclReduceDescriptor_t), so a peer that skips one
 * would receive the data of the next one instead. Labels are compared like descriptors: if they differ, or only some
 * peers set one, the operation fails on all peers with pcclInvalidUsage (ext. pcclPeerMismatch), and the message shows
 * both. Printable UTF-8 of at most 32 bytes; NULL or "": no label. Any thread. Does not block. Not in PCCL 1.0.
 * pcclSuccess
 * pcclInvalidArgument too long, or not printable; the label is unchanged
 */
PCCL_EXPORT pcclResult_t pcclSetOperationLabel(const char *PCCL_NULLABLE label);

/*
 * Sets *done_out to true if an await would return immediately. The operation must still be awaited. Does not block. Any
 * thread, any number of times, even while another thread awaits it. Not in PCCL 1.0.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument    the handle, its communicator or done_out is NULL, or it names no launched operation
 * pcclInvalidUsage       unconnected, with no such operation
 * pcclInternalError      a bug in the library
 */
PCCL_EXPORT pcclResult_t pcclTestAsyncReduce(const pcclAsyncReduceOp_t *reduce_handle, bool *done_out);

/*
 * Aborts all launched and undecided operations of this communicator for all peers of the group. Does not wait: each
 * await returns as soon as the peers agree, with pcclRankConnectionLost (ext. pcclAborted), or with pcclSuccess if
 * success had already been decided. A running pcclAllReduceMultipleWithRetry or pcclRunOperations launches no further
 * operations and returns, even on the other peers. Joint calls continue. Any thread; not from a signal handler. If the
 * other peers have launched fewer operations than this one, their next launch of the tag fails, too; pcclUpdateTopology
 * resets the pairing. Not in PCCL 1.0.
 * pcclSuccess            even if no operation is launched
 * pcclNotInitialized
 * pcclInvalidArgument    comm is NULL
 * pcclInvalidUsage       unconnected: all operations have ended
 * pcclInternalError      a bug in the library
 */
PCCL_EXPORT pcclResult_t pcclAbortOperations(pcclComm_t *comm);

/*
 * Launches and awaits a reduction in one call, with the codes and guarantees of both functions. BLOCKS, joint(group).
 */
PCCL_EXPORT pcclResult_t pcclAllReduce(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                                       const pcclComm_t *comm, pcclReduceInfo_t *PCCL_NULLABLE reduce_info_out);

/*
 * Carries out a list of reductions, at most max_in_flight at a time in the order of the list, and repeats those that
 * fail because a peer was lost, until all have succeeded. Joint(group): all peers pass lists with the same tags and
 * descriptors; tags must be distinct within the list. BLOCKS until all of its operations have ended. Any thread. If a
 * peer was lost in between, entries may be reduced over different numbers of peers. A failure that a retry cannot fix
 * ends the list on all peers and aborts its other operations. The peers may then have launched different parts of the
 * list, so call pcclUpdateTopology before using these tags again. reduce_info_out receives the total bytes and the
 * smallest number of peers that reduced an entry, which is equal on all peers; it is also written on pcclTooFewPeers,
 * with the final number of peers.
 * pcclSuccess            every entry has succeeded
 * pcclNotInitialized
 * pcclInvalidArgument    a pointer is NULL, count is 0, max_in_flight < 1, two tags are equal, or pcclAllReduceAsync
 *                        would refuse an entry with this result; no operation was launched
 * pcclInvalidUsage       unconnected; or a failure that a retry cannot fix, as for pcclAwaitAsyncReduce
 * pcclTooFewPeers        the group has only one peer, or lost all others: some entries may have been reduced, others
 *                        are as after a failure; discard the step
 * pcclRankConnectionLost aborted, a deadline passed, or this peer was expelled or lost its master (ext. as above)
 * pcclInternalError      out of memory (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclAllReduceMultipleWithRetry(const pcclReduceOpDescriptor_t *descriptors, size_t count,
                                                        const pcclComm_t *comm,
                                                        pcclReduceInfo_t *PCCL_NULLABLE reduce_info_out,
                                                        int max_in_flight);

/* ------------------------------------------------------------------------------------------------ shared state */

/*
 * Synchronizes every named tensor, so that all peers of the group have the same bytes. Joint(group). The round is
 * decided when all members of the group have called it, in any order: the most common content among members with the
 * group's revision is elected, and the others fetch the chunks (of 1 MiB) that differ, from all holders in parallel. If
 * the contents are equal, only digests are sent. On success all members have the elected content, and
 * shared_state->revision is the group's; the next synchronization must pass revision + 1. A member with a lower
 * revision is outdated: it receives the content and the group's revision. The first synchronization of a run accepts
 * any revision, and the highest becomes the group's; in this way a run resumes from a checkpoint.
 *
 * Strategies. ENFORCE_POPULAR: as above; either all members of the group use it, or no member does. SEND_ONLY: never
 * overwritten. RECEIVE_ONLY: its content does not count and is not sent; received content is passed on to a peer that
 * cannot be linked to any sender. SEND_ONLY and RECEIVE_ONLY may be combined.
 * Tensors with allow_content_inequality are not compared; a peer that has not completed a synchronization in this run
 * fetches them once from a peer that has.
 *
 * Memory. The tensors are read and written only during the call; CUDA tensors pass through a few page-locked chunks.
 * Writes to them on other streams must be enqueued before the call. No tensor is copied completely.
 *
 * The master removes a member from the run (all its calls fail, it may connect again) for a different list of tensors
 * (names, order, types, counts, flags), a revision that skips numbers, SEND_ONLY or RECEIVE_ONLY among ENFORCE_POPULAR,
 * SEND_ONLY with content that was not elected, or if all are RECEIVE_ONLY. A member that dies has no vote; a donor that
 * dies is replaced. BLOCKS until all members have called it and all fetches are complete. Any thread.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or shared_state is NULL; infos is NULL while count > 0; too many tensors; a tensor without a
 *                     name, with a duplicate name, without data while its count > 0, or of unknown data type or device;
 *                     a CUDA tensor without a driver, or outside the device's memory; the revision is UINT64_MAX; an
 *                     unknown strategy
 * pcclInvalidUsage    unconnected; removed from the run (ext. pcclExpelled); a joint call is outstanding; no member has
 *                     the group's revision, all members with the elected content died, or a member lacks memory or
 *                     descriptors (then the call fails for all); or this peer could not fetch missing content. The
 *                     revision is unchanged; pcclGetLastError names tensors that are partly overwritten. Aborted or
 *                     timed out: ext. pcclAborted, pcclTimeout
 * pcclPendingAsyncOps operations have been launched and not awaited
 * pcclInternalError   this peer is out of memory or another resource (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclSynchronizeSharedState(const pcclComm_t *comm, pcclSharedState_t *shared_state,
                                                    pcclSharedStateSyncStrategy_t strategy,
                                                    pcclSharedStateSyncInfo_t *PCCL_NULLABLE sync_info_out);

/* ------------------------------------------------------------------------------------------------ master */

/*
 * The master functions do not require pcclInit. Call them in this order: create, run, await, destroy; interrupt may be
 * called from any thread after run. A master stores only its key and tokens on disk, if configured
 * (`master_token_file`, `master_state`). With a token, all connections are encrypted, and only peers with a token can
 * join. When the master dies, peers wait up to `master_lost_ms` for a new one at the same address, and continue with
 * it.
 */

/*
 * Creates a master that will listen on the given address; does not use the network yet. All parameters are read from
 * the environment or have their defaults. Does not block.
 * pcclSuccess
 * pcclInvalidArgument master_out is NULL, the port is 0 or the protocol unknown; a PCCL_* variable has an invalid value
 * pcclInternalError   out of memory, or the files of the token cannot be used
 * pcclInvalidUsage    a token is configured, but this host has no OpenSSL 3 (ext. pcclUnsupported)
 */
PCCL_EXPORT pcclResult_t pcclCreateMaster(ccoip_socket_address_t listen_address, pcclMasterInstance_t **master_out);

/*
 * Creates a master with addresses as text: one or more of "host:port", "1.2.3.4:port", "[v6]:port", separated by
 * commas; port 0 lets the system choose, the default is 48148. options (copied) may be NULL; options of scope
 * communicator are ignored.
 * pcclSuccess
 * pcclInvalidArgument listen_addresses or master_out is NULL, an address is malformed, or a parameter has an invalid
 *                     value or conflicts with another one
 * pcclInternalError   the files of the token cannot be used
 * pcclUnsupported     a token is configured, but this host has no OpenSSL 3
 * pcclOutOfMemory
 */
PCCL_EXPORT pcclResult_t pcclCreateMasterWithOptions(const char *listen_addresses,
                                                     const pcclOptions_t *PCCL_NULLABLE options,
                                                     pcclMasterInstance_t **master_out);

/*
 * Binds, listens and starts the master's thread. When it returns, peers can connect. Does not wait for peers.
 * pcclSuccess
 * pcclInvalidArgument master is NULL
 * pcclInvalidUsage    already run; or the address cannot be bound, for the reason in the message
 * pcclInternalError   out of memory or threads (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclRunMaster(pcclMasterInstance_t *master);

/*
 * Returns the port on which a running master listens at its first address. Any thread. Does not block.
 * pcclSuccess
 * pcclInvalidArgument master or port_out is NULL
 * pcclInvalidUsage    not run yet
 */
PCCL_EXPORT pcclResult_t pcclMasterGetPort(const pcclMasterInstance_t *master, uint16_t *port_out);

/*
 * Interrupts a running master: it notifies its peers, closes all connections and ends. Does not wait for the end. Any
 * thread, even in a signal handler, any number of times.
 * pcclSuccess
 * pcclInvalidArgument master is NULL
 * pcclInvalidUsage    never run
 */
PCCL_EXPORT pcclResult_t pcclInterruptMaster(pcclMasterInstance_t *master);

/*
 * Makes a running master reload its certificates for later connections; it logs an invalid certificate and keeps the
 * previous one. A master without certificates ignores the call. Does not wait. Any thread, even in a signal handler.
 * pcclSuccess
 * pcclInvalidArgument master is NULL
 * pcclInvalidUsage    never run
 */
PCCL_EXPORT pcclResult_t pcclReloadMaster(pcclMasterInstance_t *master);

/*
 * BLOCKS until the master's thread has ended; without an interrupt it blocks indefinitely. One thread at a time.
 * pcclSuccess
 * pcclInvalidArgument master is NULL
 * pcclInvalidUsage    never run
 * pcclInternalError   the master ended because of a bug in the library, which the log describes; it can be destroyed
 */
PCCL_EXPORT pcclResult_t pcclMasterAwaitTermination(pcclMasterInstance_t *master);

/*
 * Frees a master that was never run, or whose termination was awaited. The master must not be used afterward.
 * pcclSuccess
 * pcclInvalidArgument master is NULL
 * pcclInvalidUsage    the master is running, or its termination was not awaited; nothing was freed
 */
PCCL_EXPORT pcclResult_t pcclDestroyMaster(pcclMasterInstance_t *master);

#ifdef __cplusplus
}
#endif

#include "pccl_collectives.h" /* members, operations of all kinds, lists, groups; codecs */

#endif
