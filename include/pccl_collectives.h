/*
 * PCCL: members of a group; operations of all kinds, single and as lists; groups of some of the members. pccl.h
 * includes this file and defines the terms used here. Nothing in this file exists in PCCL 1.0.
 *
 * Members and ranks. A peer's rank is its index in the list of its group's members, which is in the order of their
 * admission. Roots and buffers with a part for each member refer to a list of members: by default the list that
 * pcclGetMembers returns, which has the members after the last completed call. If the members differ when the operation
 * is launched, it fails on all peers with pcclMembersChanged, so parts cannot be attributed to the wrong member.
 *
 * Structs that begin with `size` are initialized by the macro named at that member. Later versions may add members at
 * the end: `size` is the size in the caller's version, and members that the library's version lacks must be 0. In a
 * struct that the library fills in, it sets them to 0.
 */
#ifndef PCCL_COLLECTIVES_H
#define PCCL_COLLECTIVES_H

#include "pccl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ members */

/* A peer's id as text, as written by pcclGetPeerId. */
typedef struct pcclPeerId_t {
    char digits[PCCL_PEER_ID_SIZE];
} pcclPeerId_t;

/*
 * Returns the members of this peer's group in order of their ranks, and its own rank, after the last completed call of
 * this communicator (the same moment as for pcclGetAttribute). If members is NULL and max is 0, only *count is set. Any
 * thread. Does not block.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or count is NULL; members is NULL and max is not 0; or there are more than max: then only
 *                     *count is set
 * pcclInvalidUsage    unconnected
 */
PCCL_EXPORT pcclResult_t pcclGetMembers(const pcclComm_t *comm, pcclPeerId_t *PCCL_NULLABLE members, size_t max,
                                        size_t *count, uint32_t *PCCL_NULLABLE rank);

/* ------------------------------------------------------------------------------------------------ operations */

/* A member's blob: arbitrary bytes. */
typedef struct pcclBlob_t {
    pcclPeerId_t peer;
    const void *data; /* not NULL, even if the blob is empty */
    size_t length;    /* in bytes */
} pcclBlob_t;

/* Blobs that a peer received. The library owns their memory until pcclFreeBlobs. */
typedef struct pcclBlobs_t {
    size_t size;             /* set by PCCL_BLOBS_INIT */
    size_t count;            /* number of blobs; in an all-gather and an all-to-all, one per participating peer */
    const pcclBlob_t *blobs; /* in order of the ranks of their peers; their data is contiguous in this order */
    size_t bytes;            /* total length */
} pcclBlobs_t;

#define PCCL_BLOBS_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(pcclBlobs_t), 0, NULL, 0                                                                                \
    }

/*
 * Frees the blobs of an operation, if it has returned any, and sets their number to 0. If on_arrival has received a
 * part, the blobs must be freed even after a failure: until then the parts stay in memory. Call it after the operation
 * was awaited, or its communicator destroyed. Any thread. Does not block.
 * pcclSuccess
 */
PCCL_EXPORT pcclResult_t pcclFreeBlobs(pcclBlobs_t *PCCL_NULLABLE blobs);

/*
 * Receives a part as soon as it has arrived. The operation may still fail for all peers, and then the part is invalid.
 * Called on the thread that awaits the operation, before its end is reported; once for each part of a successful
 * operation, including empty parts and this peer's own. It must not wait for other peers or destroy the communicator.
 */
typedef void (*pcclArrivalCallback_t)(const pcclBlob_t *part, void *user_data);

/* Data for one member. */
typedef struct pcclPart_t {
    const void *data; /* may be NULL if length is 0 */
    size_t length;    /* in bytes */
} pcclPart_t;

/* A tensor of a coalesced all-reduce. */
typedef struct pcclCoalescedTensor_t {
    const void *sendbuf;
    void *recvbuf; /* sendbuf, or memory that overlaps no other buffer of the list */
    size_t count;
    pcclDataType_t datatype;
    pcclRedOp_t op;
} pcclCoalescedTensor_t;

/* Arguments of an operation in addition to its buffers. */
typedef struct pcclCollectiveOptions_t {
    size_t size;                 /* set by PCCL_COLLECTIVE_OPTIONS_INIT */
    uint64_t tag;                /* matches the peers' calls, as in pcclReduceDescriptor_t */
    const char *label;           /* label of the operation; NULL: the label set by pcclSetOperationLabel */
    const pcclPeerId_t *members; /* the expected members, in order of their ranks; NULL: see pcclPerform */
    uint32_t member_count;
    bool alone_ok; /* true if a peer that is alone in its group performs the operation locally instead of returning
                      pcclTooFewPeers */
    pcclQuantizationOptions_t quantization; /* not for blobs, barriers, sends and receives */
    const size_t *counts;   /* reduce-scatter: each member's share, in order of their ranks; NULL: equal shares */
    uint32_t counts_length; /* number of counts: one per member */
    uint64_t max_bytes;     /* blobs: maximum total bytes that a member may receive; 0: 256 MiB */
    double factor;          /* premultiplied sum: factor of this peer's elements; all other operations require 1 */
    pcclArrivalCallback_t on_arrival; /* blobs, but not in a list: receives each part when it arrives; or NULL */
    void *user_data;                  /* argument of on_arrival */
} pcclCollectiveOptions_t;

#define PCCL_COLLECTIVE_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(pcclCollectiveOptions_t), 0, NULL, NULL, 0, false, {pcclUint8, pcclQuantNone}, NULL, 0, 0, 1, NULL,     \
            NULL                                                                                                       \
    }

#define PCCL_CODEC_WORDS_SIZE 128 /* with the terminating zero */

/* Description of a successful operation. */
typedef struct pcclOperationInfo_t {
    size_t size; /* set by PCCL_OPERATION_INFO_INIT */
    uint64_t tag;
    uint64_t sequence;          /* number of the launch within its tag, as in pcclFailure_t */
    uint64_t tx_bytes;          /* payload sent by this peer, without framing */
    uint64_t rx_bytes;          /* payload received by this peer, without framing */
    uint32_t world;             /* peers that took part */
    uint32_t rank;              /* rank of this peer among them */
    pcclPeerId_t *participants; /* the caller's array for the participants' ids, in order of their ranks; or NULL */
    size_t participants_max;    /* set by the caller: capacity of the array; only the first ids are written if there are
                                   more */
    pcclQuantizationAlgorithm_t codec; /* codec of the elements; for an automatic codec, its choice */
    char why[PCCL_CODEC_WORDS_SIZE];   /* automatic codec: reason of the choice; otherwise "" */
} pcclOperationInfo_t;

#define PCCL_OPERATION_INFO_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(pcclOperationInfo_t), 0, 0, 0, 0, 0, 0, NULL, 0, pcclQuantNone, ""                                      \
    }

/* Kind of an operation. The function of the same name describes it; for AllReduce, see pcclAllReduceWithOptions. */
typedef enum pcclCollective_t {
    pcclCollectiveAllReduce = 0,
    pcclCollectiveBroadcast = 1,
    pcclCollectiveAllGather = 2,
    pcclCollectiveReduceScatter = 3,
    pcclCollectiveBarrier = 4,
    pcclCollectiveAllGatherV = 5,
    pcclCollectiveReduce = 6,
    pcclCollectiveGather = 7,
    pcclCollectiveScatter = 8,
    pcclCollectiveAllToAll = 9,
    pcclCollectiveGatherV = 10,
    pcclCollectiveScatterV = 11,
    pcclCollectiveAllToAllV = 12,
    pcclCollectiveCoalesced = 13, /* pcclAllReduceCoalesced */
    pcclCollectiveSend = 14,      /* not in a list; likewise pcclCollectiveRecv */
    pcclCollectiveRecv = 15,
    pcclCollectiveExclusiveScan = 16,
    pcclCollectiveInclusiveScan = 17
} pcclCollective_t;

/* An operation: its kind, and the arguments of the function with that name. Other members are ignored or refused. */
typedef struct pcclOperation_t {
    size_t size; /* set by PCCL_OPERATION_INIT */
    pcclCollective_t collective;
    const void *sendbuf; /* input; also `data` of a blob, `parts`, `tensors`, `buffer` of a send; NULL: broadcast */
    void *recvbuf;       /* result; also `buffer` of a broadcast or a receive; NULL if coalesced */
    size_t count;        /* number of elements, parts or tensors, or length of a blob */
    pcclDataType_t datatype;
    pcclRedOp_t op;
    uint32_t root;                          /* rank of the root; also `peer` of a send or a receive */
    const pcclCollectiveOptions_t *options; /* options, which contain the tag; NULL: defaults */
    pcclOperationInfo_t *info; /* in a list: written when the entry has succeeded, regardless of the others; or NULL */
    pcclBlobs_t *blobs;        /* kinds that return blobs: written on success, must then be freed; else NULL */
} pcclOperation_t;

#define PCCL_OPERATION_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(pcclOperation_t), pcclCollectiveAllReduce, NULL, NULL, 0, pcclUint8, pcclSum, 0, NULL, NULL, NULL       \
    }

/*
 * Performs one operation of any kind. BLOCKS, joint(group): pairing by tag, labels, deadlines and aborts work as for
 * reductions, and all peers have the same outcome. All peers must pass the same kind (or a send and a receive), count
 * of elements or tensors, data type, reduction, root, counts, max_bytes and quantization. After a failure the send
 * buffers are unchanged, even in place; other receive buffers are unspecified. Buffers may overlap only where the kind
 * allows it.
 *
 * Without members in its options, an operation expects the members of pcclGetMembers; but all-reduces (including
 * coalesced ones), barriers and all-gathers of blobs then accept any members, and can be repeated after
 * pcclRankConnectionLost.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument    a pointer is NULL; a size is not set; an unknown kind, data type or reduction; count is 0 or
 *                        too large; an invalid label (pcclSetOperationLabel); a list of members without this peer, with
 *                        a duplicate, or with an invalid id; root is not a rank; invalid overlaps of buffers; an
 *                        unsuitable quantization; the wrong number of counts, or a sum of counts that differs from
 *                        count; counts for a kind other than a reduce-scatter; blobs, max_bytes or on_arrival for a
 *                        kind that returns no blobs; a reduction that does not fit the data type or a scan; a factor
 *                        without a premultiplied sum; a broadcast with a sendbuf other than recvbuf; a coalesced
 *                        all-reduce with recvbuf; the member info is set; or the tag is in use. No operation was
 *                        launched
 * pcclInvalidUsage       peers pass different arguments (ext. pcclPeerMismatch); and as for pcclAllReduceAsync
 * pcclTooFewPeers        this peer is alone in its group, and alone_ok is false
 * pcclMembersChanged     the members differ from the list that this peer or another one expects; rearrange the buffers
 * pcclRankConnectionLost as for pcclAwaitAsyncReduce
 * pcclInternalError      as for pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclPerform(const pcclOperation_t *operation, const pcclComm_t *comm,
                                     pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Launches one operation of any kind without blocking, as pcclAllReduceAsync launches a reduction; pcclAwaitOperation
 * and all functions for handles of reductions accept its handle. The library does not read the struct, its options, or
 * their lists of members, counts, parts and tensors after the call. Until the operation is awaited, send buffers must
 * stay unchanged, and receive buffers, including blobs, must stay valid. The launch clears blobs, and a successful
 * await fills them.
 * pcclSuccess         *handle_out must be awaited exactly once
 * pcclInvalidArgument as for pcclPerform; or handle_out is NULL
 * and the other results of pcclPerform; on any result except pcclSuccess no operation was launched
 */
PCCL_EXPORT pcclResult_t pcclStart(const pcclOperation_t *operation, const pcclComm_t *comm,
                                   pcclAsyncReduceOp_t *handle_out);

/*
 * Waits for a launched operation of any kind, including an all-reduce, as pcclAwaitAsyncReduceFor does, and describes
 * it. timeout_ms UINT32_MAX: no limit. info is written on success only.
 * pcclTimeout         the operation is still running; await it again
 * pcclInvalidArgument the size of info is not set; await it again. Or as for pcclAwaitAsyncReduce
 * pcclMembersChanged  as for pcclPerform
 * and the other results of pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclAwaitOperation(const pcclAsyncReduceOp_t *handle, uint32_t timeout_ms,
                                            pcclOperationInfo_t *PCCL_NULLABLE info);

/* ------------------------------------------------------------------------------------------- kinds of operations */

/*
 * Each function acts as pcclPerform, or, with Async in its name, as pcclStart, for an operation of the kind in its
 * name. The comments describe the kinds, and any results that pcclPerform does not have. A root is a rank.
 */

/*
 * Acts as pcclAllReduce with options, which a premultiplied sum requires. sendbuf and recvbuf are equal or do not
 * overlap.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclAllReduceWithOptions(const void *sendbuf, void *recvbuf, size_t count,
                                                  pcclDataType_t datatype, pcclRedOp_t op,
                                                  const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                  const pcclComm_t *comm, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclAllReduceWithOptionsAsync(const void *sendbuf, void *recvbuf, size_t count,
                                                       pcclDataType_t datatype, pcclRedOp_t op,
                                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                       const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Launches an all-reduce with options and awaits it for at most timeout_ms (UINT32_MAX: no limit), in one call.
 * pcclSuccess
 * pcclTimeout the operation is still running, and *handle_out must be awaited
 * and the other results of pcclPerform; if the communicator in *handle_out is NULL, no operation was launched
 */
PCCL_EXPORT pcclResult_t pcclAllReduceWithOptionsFor(const void *sendbuf, void *recvbuf, size_t count,
                                                     pcclDataType_t datatype, pcclRedOp_t op,
                                                     const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                     const pcclComm_t *comm, uint32_t timeout_ms,
                                                     pcclAsyncReduceOp_t *handle_out);

/*
 * Reduces several tensors, which may differ in type, in one operation that takes little longer than an operation on one
 * tensor of the total size. All peers pass lists of the same counts, types and reductions, with at most 65536 tensors.
 * For quantization and its feedback, tensors of the same type and reduction form one tensor, in the order of the list.
 * Quantization packs tensors of floats only. A factor applies to all premultiplied sums of the list.
 * pcclSuccess and the results of pcclPerform; if a tensor is refused, the message names its index in the list
 */
PCCL_EXPORT pcclResult_t pcclAllReduceCoalesced(const pcclCoalescedTensor_t *tensors, size_t count,
                                                const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                const pcclComm_t *comm, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclAllReduceCoalescedAsync(const pcclCoalescedTensor_t *tensors, size_t count,
                                                     const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                     const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Copies the root's buffer to all members. The root's buffer is only read, unless it is quantized: then it is replaced
 * by the unpacked elements, so that all members have the same bits.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclBroadcast(void *buffer, size_t count, pcclDataType_t datatype, uint32_t root,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclBroadcastAsync(void *buffer, size_t count, pcclDataType_t datatype, uint32_t root,
                                            const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                            const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Gathers the parts of all members on all members: sendbuf has count elements; recvbuf has count for each member, and
 * the part of rank r begins at element r * count. sendbuf may be this peer's own part of recvbuf. With quantization,
 * this peer's own part of recvbuf contains the unpacked elements, too.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclAllGather(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclAllGatherAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                            const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                            const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Reduces and scatters the result: sendbuf has count elements for each member, and rank r receives in recvbuf the
 * reduction of the count elements that begin at element r * count. recvbuf may be this peer's own share of sendbuf.
 * With counts in the options, shares have these lengths, which may be 0: count is their sum, and the share of a rank
 * begins at the end of the previous rank's share. recvbuf may be NULL if this peer's share has no elements.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclReduceScatter(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                           pcclRedOp_t op, const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                           const pcclComm_t *comm, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclReduceScatterAsync(const void *sendbuf, void *recvbuf, size_t count,
                                                pcclDataType_t datatype, pcclRedOp_t op,
                                                const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Reduces to the root: all members pass a sendbuf of count elements, and the root receives their reduction in recvbuf,
 * which has count elements and may be its sendbuf. The other members' recvbuf is not used and may be NULL.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclReduce(const void *sendbuf, void *PCCL_NULLABLE recvbuf, size_t count,
                                    pcclDataType_t datatype, pcclRedOp_t op, uint32_t root,
                                    const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                    pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclReduceAsync(const void *sendbuf, void *PCCL_NULLABLE recvbuf, size_t count,
                                         pcclDataType_t datatype, pcclRedOp_t op, uint32_t root,
                                         const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                         pcclAsyncReduceOp_t *handle_out);

/*
 * Scans: each member receives the reduction of the sendbufs of all members with lower ranks; an inclusive scan also
 * includes the member's own. sendbuf and recvbuf have count elements each and may be equal. Elements are reduced in the
 * order of ranks. In an exclusive scan rank 0 receives the identity of the reduction: 0 for sum, or and xor; 1 for
 * prod; all bits set for and; the smallest value of the type for max and the largest for min, infinities if the type
 * has them. pcclAvg and quantization are not supported.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclExclusiveScan(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                           pcclRedOp_t op, const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                           const pcclComm_t *comm, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclExclusiveScanAsync(const void *sendbuf, void *recvbuf, size_t count,
                                                pcclDataType_t datatype, pcclRedOp_t op,
                                                const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);
PCCL_EXPORT pcclResult_t pcclInclusiveScan(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                           pcclRedOp_t op, const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                           const pcclComm_t *comm, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclInclusiveScanAsync(const void *sendbuf, void *recvbuf, size_t count,
                                                pcclDataType_t datatype, pcclRedOp_t op,
                                                const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Gathers the parts of all members at the root: sendbuf has count elements; the root's recvbuf has count for each
 * member, and the part of rank r begins at element r * count. The root's sendbuf may be its own part of recvbuf. The
 * other members' recvbuf is not used and may be NULL. Quantization does not change the root's own part.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclGather(const void *sendbuf, void *PCCL_NULLABLE recvbuf, size_t count,
                                    pcclDataType_t datatype, uint32_t root,
                                    const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                    pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclGatherAsync(const void *sendbuf, void *PCCL_NULLABLE recvbuf, size_t count,
                                         pcclDataType_t datatype, uint32_t root,
                                         const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                         pcclAsyncReduceOp_t *handle_out);

/*
 * Scatters the root's buffer: the root's sendbuf has count elements for each member, and rank r receives in recvbuf the
 * count elements that begin at element r * count. The root's recvbuf may be its own part of sendbuf. The other members'
 * sendbuf is not used and may be NULL. Quantization does not change the root's own part.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclScatter(const void *PCCL_NULLABLE sendbuf, void *recvbuf, size_t count,
                                     pcclDataType_t datatype, uint32_t root,
                                     const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                     pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclScatterAsync(const void *PCCL_NULLABLE sendbuf, void *recvbuf, size_t count,
                                          pcclDataType_t datatype, uint32_t root,
                                          const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                          pcclAsyncReduceOp_t *handle_out);

/*
 * Exchanges parts between all pairs of members: sendbuf and recvbuf have count elements for each member. The part for
 * rank r begins at r * count in sendbuf, and the part from rank r at r * count in recvbuf. Quantization does not change
 * this peer's own part.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclAllToAll(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                      const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                      pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclAllToAllAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                           const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                           pcclAsyncReduceOp_t *handle_out);

/*
 * Sends to one peer, which must call pcclRecv with this peer's rank, the same number of elements of the same type, and
 * the same tag. peer is a rank in the list of members; options->members may replace that list, but has no other effect.
 * BLOCKS until the other peer has received all elements. If the two have no link, a send that is too long for the
 * master opens one, and fails after 10 s if it cannot. The n-th send of a tag is paired with the n-th receive of that
 * tag by that peer from this one, in the same group or in the communicator (since the last update of the topology).
 * Both succeed, or both fail. Any number of sends of one tag may run at the same time and be awaited in any order: the
 * handle's `tag` is a number that identifies this send, not the tag of the options. If one of the two leaves or dies,
 * or the group ends, both fail; other deaths have no effect. The buffer is only read. Ignores alone_ok.
 * pcclSuccess
 * pcclInvalidArgument    as for pcclPerform; or peer is this peer's own rank, or a rank of a list whose peer is not in
 *                        the group
 * pcclInvalidUsage       the two differ in count, data type, label or path (through the master or not) (ext.
 *                        pcclPeerMismatch); more than 4096 operations have been launched and not awaited, or sends over
 *                        additional links to 256 other peers (no operation was launched); and as for pcclAllReduceAsync
 * pcclTooFewPeers        this peer is alone in its group
 * pcclRankConnectionLost the other peer has left, the group has ended, or no link to that peer can be opened; and as
 *                        for pcclAwaitAsyncReduce
 * pcclInternalError      as for pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclSend(const void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                                  const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                  pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclSendAsync(const void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclAsyncReduceOp_t *handle_out);

#define PCCL_ANY_PEER UINT32_MAX /* in pcclRecv: any sender */
/*
 * Receives from the peer with this rank, or with PCCL_ANY_PEER from any member that has sent the tag in the same group.
 * Senders take turns, and the sends of each sender keep their order. The first participant in info is the sender.
 * pcclSuccess
 * pcclRankConnectionLost as for pcclSend; or no peer has sent before its deadline, or all others have left
 * and the results of pcclSend
 */
PCCL_EXPORT pcclResult_t pcclRecv(void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                                  const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                  pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclRecvAsync(void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclAsyncReduceOp_t *handle_out);

/*
 * Returns when all members have called it.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclBarrier(const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                     pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclBarrierAsync(const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                          pcclAsyncReduceOp_t *handle_out);

/*
 * Gathers the blobs of all members on all members. A blob is a sequence of arbitrary bytes, which may be empty; the
 * others need not know its length. If all blobs are short, they are sent through the master in one round trip. The
 * function reads only the size of *blobs; on success it fills *blobs, which must then be freed. It may take two
 * sequence numbers of its tag.
 * pcclSuccess
 * pcclInvalidArgument as for pcclPerform; or the size of blobs is not set
 * pcclInvalidUsage    as for pcclPerform; or all blobs together are longer than max_bytes (ext. pcclPeerMismatch), with
 *                     the same result on all peers; or the group has more than 682 members
 * pcclInternalError   as for pcclPerform; or a peer lacks memory for all the blobs
 * and the other results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclAllGatherV(const void *PCCL_NULLABLE data, size_t length,
                                        const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                        pcclBlobs_t *blobs, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclAllGatherVAsync(const void *PCCL_NULLABLE data, size_t length,
                                             const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                             const pcclComm_t *comm, pcclBlobs_t *blobs,
                                             pcclAsyncReduceOp_t *handle_out);

/*
 * Gathers the blobs of all members at the root. The others receive no blobs.
 * pcclSuccess and the results of pcclAllGatherV
 */
PCCL_EXPORT pcclResult_t pcclGatherV(const void *PCCL_NULLABLE data, size_t length, uint32_t root,
                                     const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                     pcclBlobs_t *blobs, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclGatherVAsync(const void *PCCL_NULLABLE data, size_t length, uint32_t root,
                                          const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                          pcclBlobs_t *blobs, pcclAsyncReduceOp_t *handle_out);

/*
 * Scatters the root's parts: the root has one part for each member, in order of their ranks, each anywhere in memory
 * and of any length, including 0. Each member receives one blob from the root. Only the root's parts and count are
 * used. Short parts are sent through the master, as in pcclAllGatherV; max_bytes limits the part of each member.
 * pcclSuccess
 * pcclInvalidArgument as for pcclAllGatherV; or the root's number of parts differs from the number of members
 * and the other results of pcclAllGatherV
 */
PCCL_EXPORT pcclResult_t pcclScatterV(const pcclPart_t *PCCL_NULLABLE parts, size_t count, uint32_t root,
                                      const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                      pcclBlobs_t *blobs, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclScatterVAsync(const pcclPart_t *PCCL_NULLABLE parts, size_t count, uint32_t root,
                                           const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                           pcclBlobs_t *blobs, pcclAsyncReduceOp_t *handle_out);

/*
 * Exchanges parts between all pairs of members: each member has one part for each member, like the root of
 * pcclScatterV, and receives one blob from each, in order of ranks. Supports at most 31 members.
 * pcclSuccess and the results of pcclScatterV
 */
PCCL_EXPORT pcclResult_t pcclAllToAllV(const pcclPart_t *parts, size_t count,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclBlobs_t *blobs, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclAllToAllVAsync(const pcclPart_t *parts, size_t count,
                                            const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                            const pcclComm_t *comm, pcclBlobs_t *blobs,
                                            pcclAsyncReduceOp_t *handle_out);

/* ------------------------------------------------------------------------------------------------- groups */

/* Options of pcclCreateGroup. */
typedef struct pcclGroupOptions_t {
    size_t size;         /* set by PCCL_GROUP_OPTIONS_INIT */
    const char *label;   /* as for an operation; must be equal on all members; NULL: no label */
    uint32_t timeout_ms; /* time limit for the other members; 0: the option op_timeout_ms */
} pcclGroupOptions_t;

#define PCCL_GROUP_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(pcclGroupOptions_t), NULL, 0                                                                            \
    }

/*
 * Creates a group of some members of this peer's group, including this peer, in any order. Returns when all of them
 * have called it with the same ids; other peers are not involved. A peer may be in any number of groups, which may
 * overlap. Every function for operations accepts the group instead of a communicator: the operations run among
 * its members only, and it has a separate set of tags. pcclGetMembers and the peer-group world size of pcclGetAttribute
 * refer to the group; pcclAbortOperations aborts only operations of its handle, as it does for a communicator.
 * Functions for the whole run (connecting, updating and optimizing the topology, shared state) fail with
 * pcclInvalidUsage. The members of a group never change: its operations fail with pcclMembersChanged only if a
 * different list of members is passed, and they continue when other peers join, leave or die.
 *
 * A group ends for all members when one leaves, dies or closes it, when members permanently cannot reach each other,
 * and when the communicator is disconnected. Its operations then fail with pcclRankConnectionLost, with the reason, and
 * the remaining members may create another group. Each handle must be passed to pcclDestroyCommunicator once, even if
 * the group has ended or its communicator was destroyed. This closes the group and returns when its operations have
 * ended. They end as the master decides or, while the master is away, immediately with pcclRankConnectionLost for this
 * peer alone. A group of one member is allowed: its operations act as for a peer that is alone.
 *
 * pcclUpdateTopology, pcclOptimizeTopology and pcclSynchronizeSharedState do not end groups, but require that the
 * groups' operations have been awaited, too. BLOCKS, joint(the peers with these ids). pcclAbortOperations on the
 * communicator ends the call.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument    a pointer is NULL; the list is empty, without this peer, has a duplicate or an invalid id; the
 *                        size of options is not set; an invalid label (pcclSetOperationLabel); or another thread is
 *                        creating a group with the same members. The other members were not notified
 * pcclInvalidUsage       unconnected; comm is a group; the topology is being updated; too many groups; or labels differ
 *                        (ext. pcclPeerMismatch)
 * pcclMembersChanged     a member has left or died, or is not in pcclGetMembers (the others were not notified)
 * pcclRankConnectionLost aborted (ext. pcclAborted), or not all members called it in time (ext. pcclTimeout), or this
 *                        peer left the run
 * pcclInternalError      as for pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclCreateGroup(const pcclComm_t *comm, const pcclPeerId_t *ids, uint32_t count,
                                         const pcclGroupOptions_t *PCCL_NULLABLE options, pcclComm_t **group_out);

/* -------------------------------------------------------------------------------------------------- lists */

/* Arguments of a rebuild callback. */
typedef struct pcclRebuild_t {
    size_t size;                 /* size of the struct in the library's version */
    const pcclPeerId_t *members; /* the list's new members, in order of their ranks */
    uint32_t member_count;
    uint32_t rank;               /* rank of this peer among them */
    pcclOperation_t *operations; /* as passed to pcclRunOperations */
    const size_t *entries;       /* indices of the entries to rebuild, in ascending order */
    size_t entry_count;
} pcclRebuild_t;

/*
 * Adapts entries of a list to different members: changes the buffers, counts, roots and options of the entries of
 * rebuild->operations listed in rebuild->entries. The other entries have succeeded or may be running, and must not
 * change. Tag and collective must stay the same, and a list of members must be rebuild->members. An entry must depend
 * on rebuild->members and the original operation only, not on an earlier call: if members leave in succession, the
 * callback may be called on one peer for each list of members, and on another only for the last one. Returns false if
 * it cannot adapt an entry; the list then ends for all peers. Called on the thread in pcclRunOperations. It must not
 * wait for other peers or destroy the communicator.
 */
typedef bool (*pcclRebuildCallback_t)(const pcclRebuild_t *rebuild, void *user_data);

/* Options of pcclRunOperations. */
typedef struct pcclRunOptions_t {
    size_t size;                   /* set by PCCL_RUN_OPTIONS_INIT */
    uint32_t max_in_flight;        /* maximum number of concurrent entries; may differ between peers */
    pcclRebuildCallback_t rebuild; /* adapts entries to different members; NULL: the list ends if the members that an
                                      entry expects change */
    void *user_data;
} pcclRunOptions_t;

#define PCCL_RUN_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(pcclRunOptions_t), 4, NULL, NULL                                                                        \
    }

/*
 * Performs a list of operations of all kinds except sends and receives, several at a time in the order of the list, and
 * repeats operations that fail because a peer was lost, until all have succeeded. Joint(group): all peers pass the same
 * operations with distinct tags, and either all or no peers pass rebuild. BLOCKS until its operations have ended.
 *
 * All entries that expect members expect the same ones: by default the members at the beginning of the call. Entries
 * that accept any members (pcclPerform) are repeated among the remaining peers. If the members differ from those that
 * an entry expects, rebuild is called with the current list, for all unfinished entries that expect members; then they
 * are launched. This repeats as long as the members change. All remaining peers agree on the entries that have
 * succeeded, and launch the others for the same final list. Without rebuild the list ends on all peers with
 * pcclMembersChanged.
 *
 * The deadline of an entry, `op_timeout_ms`, starts at its first launch. pcclDescribeWaits shows the list. A failure
 * that cannot be retried ends the list on all peers and aborts its other operations. Buffers of unfinished entries are
 * as after a failed operation: send buffers are unchanged. The peers may have launched different parts of the list, so
 * call pcclUpdateTopology before using these tags again.
 * pcclSuccess            every entry has succeeded
 * pcclNotInitialized
 * pcclInvalidArgument    a pointer is NULL, count is 0, a size is not set or differs between entries, two tags are
 *                        equal, max_in_flight is 0, an entry has on_arrival or is a send or receive, or pcclPerform
 *                        would refuse an entry without its info ("entry 3: ..."): no operation was launched. Or rebuild
 *                        has created such an entry
 * pcclInvalidUsage       unconnected; or a failure that a retry cannot fix, as for pcclPerform
 * pcclTooFewPeers        this peer is, or became, alone in its group, and an entry has no alone_ok
 * pcclMembersChanged     the members changed, and there is no rebuild
 * pcclRankConnectionLost aborted (ext. pcclAborted), possibly by rebuild on any peer; a deadline passed, or this peer
 *                        was expelled or lost its master (ext. as above)
 * pcclInternalError      out of memory (ext. pcclOutOfMemory), or a peer sent another one an invalid message
 */
PCCL_EXPORT pcclResult_t pcclRunOperations(pcclOperation_t *operations, size_t count,
                                           const pcclRunOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm);

#ifdef __cplusplus
}
#endif

#include "pccl_codecs.h"
#include "pccl_loop.h"
#include "pccl_sight.h"

#endif
