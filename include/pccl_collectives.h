/*
 * PCCL: members of a group; operations of all kinds, one by one and as lists; groups of some of the members. pccl.h
 * includes this file and defines the words used here. None of this is in PCCL 1.0.
 *
 * Members and ranks. A peer's rank is its index in the list of its group's members, which is in the order of their
 * admission. Roots and buffers with a part for each member refer to a list of members: by default to the one that
 * pcclGetMembers returns, the members as of the last call that has returned. If the members are others when the
 * operation is launched, it fails on all peers with pcclMembersChanged, so no part is taken for another member's.
 *
 * Structs that begin with `size` are initialized by the macro that the member names. Later versions may add members at
 * the end: `size` tells the library which ones the caller knows, and those that the library does not know must be 0. In
 * a struct that the library fills in, it sets these to 0.
 */
#ifndef PCCL_COLLECTIVES_H
#define PCCL_COLLECTIVES_H

#include "pccl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ members */

/* A peer's id as text, as pcclGetPeerId writes it. */
typedef struct pcclPeerId_t {
    char digits[PCCL_PEER_ID_SIZE];
} pcclPeerId_t;

/*
 * Returns the members of this peer's group in order of their ranks, and its own rank, as of the last call of this
 * communicator that has returned (the same moment as of pcclGetAttribute). members NULL with max 0 asks only for the
 * number. Any thread. Does not block.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or count is NULL; members is NULL and max is not 0; or there are more than max: then *count
 *                     is set and nothing else written
 * pcclInvalidUsage    unconnected
 */
PCCL_EXPORT pcclResult_t pcclGetMembers(const pcclComm_t *comm, pcclPeerId_t *PCCL_NULLABLE members, size_t max,
                                        size_t *count, uint32_t *PCCL_NULLABLE rank);

/* ------------------------------------------------------------------------------------------------ operations */

/* A member's blob: any bytes. */
typedef struct pcclBlob_t {
    pcclPeerId_t peer;
    const void *data; /* not NULL, also if it is empty */
    size_t length;    /* in bytes */
} pcclBlob_t;

/* The blobs that a peer gets, in memory of the library's until pcclFreeBlobs. */
typedef struct pcclBlobs_t {
    size_t size;             /* set by PCCL_BLOBS_INIT */
    size_t count;            /* of blobs; in an all-gather and an all-to-all, as many as peers took part */
    const pcclBlob_t *blobs; /* in order of the ranks of their peers; so their data follows, without gaps */
    size_t bytes;            /* of all together */
} pcclBlobs_t;

#define PCCL_BLOBS_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(pcclBlobs_t), 0, NULL, 0                                                                                \
    }

/*
 * Frees the blobs of an operation, if it has returned any, and sets their number to 0. Blobs of which on_arrival has
 * seen a part must be freed even if the operation has failed: until then these parts stay in memory. Call it after the
 * operation was awaited, or its communicator destroyed. Any thread. Does not block.
 * pcclSuccess
 */
PCCL_EXPORT pcclResult_t pcclFreeBlobs(pcclBlobs_t *PCCL_NULLABLE blobs);

/*
 * Shows a part that has arrived, before the others have. The operation may still fail for all peers, and then the part
 * does not count. Called on the thread that awaits the operation, before its end is reported, once for each part of one
 * that succeeds, also empty ones and this peer's own. It must not wait for other peers or destroy the communicator.
 */
typedef void (*pcclArrivalCallback_t)(const pcclBlob_t *part, void *user_data);

/* The data for one member. */
typedef struct pcclPart_t {
    const void *data; /* may be NULL if it is empty */
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

/* Arguments of an operation beside its buffers. */
typedef struct pcclCollectiveOptions_t {
    size_t size;                 /* set by PCCL_COLLECTIVE_OPTIONS_INIT */
    uint64_t tag;                /* which calls of the peers belong together, as in pcclReduceDescriptor_t */
    const char *label;           /* NULL: the one of pcclSetOperationLabel */
    const pcclPeerId_t *members; /* the expected members, in order of their ranks; NULL: see pcclPerform */
    uint32_t member_count;
    bool alone_ok; /* alone in its group a peer carries the operation out by itself, without pcclTooFewPeers */
    pcclQuantizationOptions_t quantization; /* not of blobs, barriers, sends and receives */
    const size_t *counts;   /* of a reduce-scatter: each member's share, in order of their ranks; NULL: equal shares */
    uint32_t counts_length; /* how many there are: as many as members */
    uint64_t max_bytes;     /* of blobs: how many bytes any member may get in all; 0: 256 MiB */
    double factor;          /* of a premultiplied sum: multiplies this peer's elements; otherwise 1 */
    pcclArrivalCallback_t on_arrival; /* of blobs, but not in a list: sees each part when it arrives; or NULL */
    void *user_data;                  /* of on_arrival */
} pcclCollectiveOptions_t;

#define PCCL_COLLECTIVE_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(pcclCollectiveOptions_t), 0, NULL, NULL, 0, false, {pcclUint8, pcclQuantNone}, NULL, 0, 0, 1, NULL,     \
            NULL                                                                                                       \
    }

#define PCCL_CODEC_WORDS_SIZE 128 /* with the terminating zero */

/* Describes an operation that has succeeded. */
typedef struct pcclOperationInfo_t {
    size_t size; /* set by PCCL_OPERATION_INFO_INIT */
    uint64_t tag;
    uint64_t sequence;                 /* its number within the tag, as in pcclFailure_t */
    uint64_t tx_bytes;                 /* payload sent by this peer, without framing */
    uint64_t rx_bytes;                 /* payload received by this peer, without framing */
    uint32_t world;                    /* peers that took part */
    uint32_t rank;                     /* of this peer among them */
    pcclPeerId_t *participants;        /* the caller's memory for their ids in order of their ranks; NULL: not wanted */
    size_t participants_max;           /* set by the caller: how many have room; of more the first ones are written */
    pcclQuantizationAlgorithm_t codec; /* how elements travelled; of an automatic codec, its choice */
    char why[PCCL_CODEC_WORDS_SIZE];   /* of an automatic codec: why, in words; otherwise "" */
} pcclOperationInfo_t;

#define PCCL_OPERATION_INFO_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(pcclOperationInfo_t), 0, 0, 0, 0, 0, 0, NULL, 0, pcclQuantNone, ""                                      \
    }

/* The kind of an operation. The function of the same name describes it; of AllReduce pcclAllReduceWithOptions. */
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
    pcclCollectiveSend = 14,      /* not in a list, like the next one */
    pcclCollectiveRecv = 15,
    pcclCollectiveExclusiveScan = 16,
    pcclCollectiveInclusiveScan = 17
} pcclCollective_t;

/* An operation: its kind, and the arguments of the function of that name. Other members are ignored, or refused. */
typedef struct pcclOperation_t {
    size_t size; /* set by PCCL_OPERATION_INIT */
    pcclCollective_t collective;
    const void *sendbuf; /* also `data` of a blob, `parts`, `tensors`, `buffer` of a send; NULL in a broadcast */
    void *recvbuf;       /* also `buffer` of a broadcast and a receive; NULL if coalesced */
    size_t count;        /* also the length of a blob, the number of parts or tensors */
    pcclDataType_t datatype;
    pcclRedOp_t op;
    uint32_t root;                          /* also `peer` of a send and a receive */
    const pcclCollectiveOptions_t *options; /* with the tag; NULL: the defaults */
    pcclOperationInfo_t *info; /* in a list: written when the entry has succeeded, whatever the others do; or NULL */
    pcclBlobs_t *blobs;        /* of kinds that give blobs: written on success, and then to be freed; else NULL */
} pcclOperation_t;

#define PCCL_OPERATION_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(pcclOperation_t), pcclCollectiveAllReduce, NULL, NULL, 0, pcclUint8, pcclSum, 0, NULL, NULL, NULL       \
    }

/*
 * Carries out one operation of any kind. BLOCKS, joint(group): pairing by tag, labels, deadlines and aborts are as for
 * reductions, and all peers have one outcome. All pass the same kind, or a send and a receive; the same count of
 * elements or tensors, data type, reduction, root, counts, max_bytes and quantization. After a failure the send buffers
 * are unchanged, in place too; other receive buffers are unspecified. Buffers overlap only where the kind allows it.
 *
 * Without members in its options, an operation expects the members of pcclGetMembers. But all-reduces, coalesced or
 * not, barriers and all-gathers of blobs then accept any, and can be repeated after pcclRankConnectionLost.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument    a pointer is NULL; a size is not set; an unknown kind, data type or reduction; count is 0, or
 *                        more than any memory has; a label as for pcclSetOperationLabel; a list of members without this
 *                        peer, with a duplicate, or with an invalid id; root is no rank; invalid overlaps of buffers; a
 *                        quantization that does not fit; counts that are not as many as members, or whose sum is not
 *                        count; counts of another kind than a reduce-scatter; blobs, max_bytes or on_arrival of a kind
 *                        that gives no blobs; a reduction that does not fit the data type or a scan; a factor without a
 *                        premultiplied sum; a broadcast with a sendbuf other than recvbuf; a coalesced all-reduce with
 *                        recvbuf; the member info is set; or the tag is in use. Nothing was launched
 * pcclInvalidUsage       peers pass different arguments (ext. pcclPeerMismatch); and as for pcclAllReduceAsync
 * pcclTooFewPeers        this peer is alone in its group, and alone_ok is false
 * pcclMembersChanged     the members are not those that this peer or another one expects; arrange the buffers again
 * pcclRankConnectionLost as for pcclAwaitAsyncReduce
 * pcclInternalError      as for pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclPerform(const pcclOperation_t *operation, const pcclComm_t *comm,
                                     pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Launches one operation of any kind, without blocking, as pcclAllReduceAsync does a reduction: pcclAwaitOperation and
 * every function for handles of reductions take its handle. The library does not read the struct after the call, nor
 * its options and lists of members, counts, parts and tensors. Until the operation is awaited, send buffers must stay
 * unchanged and receive buffers, also blobs, valid. The launch empties blobs, and a successful await fills them.
 * pcclSuccess         *handle_out must be awaited exactly once
 * pcclInvalidArgument as for pcclPerform; or handle_out is NULL
 * and the other results of pcclPerform; on all but pcclSuccess nothing was launched
 */
PCCL_EXPORT pcclResult_t pcclStart(const pcclOperation_t *operation, const pcclComm_t *comm,
                                   pcclAsyncReduceOp_t *handle_out);

/*
 * Ends a launched operation of any kind, also an all-reduce, as pcclAwaitAsyncReduceFor does, and describes it.
 * timeout_ms UINT32_MAX: no limit. info is written on success only.
 * pcclTimeout         the operation is still under way; await it again
 * pcclInvalidArgument the size of info is not set; await it again. Or as for pcclAwaitAsyncReduce
 * pcclMembersChanged  as for pcclPerform
 * and the other results of pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclAwaitOperation(const pcclAsyncReduceOp_t *handle, uint32_t timeout_ms,
                                            pcclOperationInfo_t *PCCL_NULLABLE info);

/* ------------------------------------------------------------------------------------------- kinds of operations */

/*
 * Each function acts as pcclPerform, or with Async as pcclStart, of an operation of the kind in its name. The comments
 * describe the kinds, and results beyond pcclPerform's. A root is a rank.
 */

/*
 * pcclAllReduce with options; a premultiplied sum needs them. sendbuf and recvbuf are the same or do not overlap.
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
 * Launches an all-reduce with options and awaits it for timeout_ms at most (UINT32_MAX: no limit), in one call.
 * pcclSuccess
 * pcclTimeout the operation is still under way, and *handle_out must be awaited
 * and the other results of pcclPerform; if the communicator in *handle_out is NULL, nothing was launched
 */
PCCL_EXPORT pcclResult_t pcclAllReduceWithOptionsFor(const void *sendbuf, void *recvbuf, size_t count,
                                                     pcclDataType_t datatype, pcclRedOp_t op,
                                                     const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                     const pcclComm_t *comm, uint32_t timeout_ms,
                                                     pcclAsyncReduceOp_t *handle_out);

/*
 * Reduces several tensors, also of several types, in one operation that takes hardly longer than one tensor of that
 * size. All pass lists of the same counts, types and reductions, at most 65536 of them. For quantization and its
 * feedback, tensors of one type and reduction are one tensor, in the order of the list. Quantization packs tensors of
 * floats only. A factor applies to all premultiplied sums of the list.
 * pcclSuccess and the results of pcclPerform; a refusal of one tensor names its place in the list
 */
PCCL_EXPORT pcclResult_t pcclAllReduceCoalesced(const pcclCoalescedTensor_t *tensors, size_t count,
                                                const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                const pcclComm_t *comm, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclAllReduceCoalescedAsync(const pcclCoalescedTensor_t *tensors, size_t count,
                                                     const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                     const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Brings the root's buffer to all members. The root's buffer is only read, unless it is quantized: then it also becomes
 * the unpacked elements, so that all have the same bits.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclBroadcast(void *buffer, size_t count, pcclDataType_t datatype, uint32_t root,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclBroadcastAsync(void *buffer, size_t count, pcclDataType_t datatype, uint32_t root,
                                            const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                            const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Brings the parts of all members to all: sendbuf has count elements; recvbuf has count for each member, and the part
 * of rank r begins at element r * count. sendbuf may be this peer's own part of recvbuf. Quantized, this peer's own
 * part of recvbuf is unpacked, too.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclAllGather(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclAllGatherAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                            const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                            const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Reduces, and gives each member its share: sendbuf has count elements for each member, and rank r receives in recvbuf,
 * which has count elements, the reduction of those from r * count on. recvbuf may be this peer's own share of sendbuf.
 * With counts in the options, shares have these lengths, also 0: count is their sum, and the share of a rank begins
 * where the share of the rank before it ends. recvbuf may be NULL if this peer's share has no elements.
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
 * which has as many and may be its sendbuf. recvbuf of other members is not used and may be NULL.
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
 * Gives each member the reduction of the sendbufs of all members of lower ranks; an inclusive scan also includes the
 * member itself. All pass a sendbuf of count elements, and recvbuf has as many and may be sendbuf. Elements are reduced
 * in the order of ranks. In an exclusive scan rank 0 receives the identity of the reduction: 0 for sum, or and xor; 1
 * for prod; all bits for and; the least value of the type for max and the greatest for min, infinities if it has them.
 * There is no pcclAvg and no quantization.
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
 * Brings the parts of all members to the root: sendbuf has count elements; recvbuf of the root has count for each
 * member, and the part of rank r begins at element r * count. The root's sendbuf may be its own part of recvbuf.
 * recvbuf of other members is not used and may be NULL. Quantization does not change the root's own part.
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
 * Gives each member its part of the root's buffer: sendbuf of the root has count elements for each member, and rank r
 * receives in recvbuf, which has count elements, those from r * count on. The root's recvbuf may be its own part of
 * sendbuf. sendbuf of other members is not used and may be NULL. Quantization does not change the root's own part.
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
 * Brings a part of each member to each: sendbuf and recvbuf have count elements for each member. Rank r receives those
 * from r * count on, and its part begins at r * count in recvbuf. Quantization does not change this peer's own part.
 * pcclSuccess and the results of pcclPerform
 */
PCCL_EXPORT pcclResult_t pcclAllToAll(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                      const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                      pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclAllToAllAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                           const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                           pcclAsyncReduceOp_t *handle_out);

/*
 * Sends to one peer, which calls pcclRecv with this one's rank, as many elements of the same type, and the same tag.
 * peer is a rank; options->members only tells in which list. BLOCKS until the other peer has all of it. If the two have
 * no link, a send that is too long for the master opens one, and fails after 10 s if it cannot. The n-th send of a tag
 * meets the n-th receive of it by that peer from this one, in the same group or in the communicator (since the last
 * update of the topology). Both succeed, or both fail. Any number of one tag may be under way, and be awaited in any
 * order: the handle's `tag` is not the tag, but a number of this send alone. If one of the two leaves or dies, or the
 * group ends, both fail; another death has no effect. The buffer is only read. Ignores alone_ok.
 * pcclSuccess
 * pcclInvalidArgument    as for pcclPerform; or peer is this peer's own rank, or of a list, but not in the group
 * pcclInvalidUsage       the two differ in count, data type, label, or in the path, through the master or not (ext.
 *                        pcclPeerMismatch); more than 4096 operations are launched and not awaited, or sends over
 *                        links of their own to 256 other peers (nothing was launched); and as for pcclAllReduceAsync
 * pcclTooFewPeers        this peer is alone in its group
 * pcclRankConnectionLost the other peer is gone, the group has ended, or no link to that peer can be opened; and as for
 *                        pcclAwaitAsyncReduce
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
 * Receives from the peer of this rank, or from PCCL_ANY_PEER: from a member that has sent the tag in this same group.
 * Senders take turns, and the sends of one keep their order. The first participant in info is the sender.
 * pcclSuccess
 * pcclRankConnectionLost as for pcclSend; or no peer has sent before its deadline, or all others are gone
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
 * Brings the blobs of all members to all: any bytes, also none, of lengths that the others need not know. Short blobs
 * of all travel through the master in one round trip. Of *blobs only the size is read; a success writes it, and then it
 * must be freed. It may use up two numbers of its tag's sequence.
 * pcclSuccess
 * pcclInvalidArgument as for pcclPerform; or the size of blobs is not set
 * pcclInvalidUsage    as for pcclPerform; or all blobs together are longer than max_bytes (ext. pcclPeerMismatch), on
 *                     all peers alike; or the group has more than 682 members
 * pcclInternalError   as for pcclPerform; or a peer has no memory for all the blobs
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
 * Brings the blobs of all members to the root. The others receive none.
 * pcclSuccess and the results of pcclAllGatherV
 */
PCCL_EXPORT pcclResult_t pcclGatherV(const void *PCCL_NULLABLE data, size_t length, uint32_t root,
                                     const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                     pcclBlobs_t *blobs, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclGatherVAsync(const void *PCCL_NULLABLE data, size_t length, uint32_t root,
                                          const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                          pcclBlobs_t *blobs, pcclAsyncReduceOp_t *handle_out);

/*
 * Gives each member one of the root's parts: the root has one for each member, in order of their ranks, each anywhere
 * in memory and of any length, also empty. All receive one blob, from the root. Only the root's parts and count are
 * used. Short parts travel through the master, as in pcclAllGatherV; max_bytes limits the part of each member.
 * pcclSuccess
 * pcclInvalidArgument as for pcclAllGatherV; or the root has not as many parts as there are members
 * and the other results of pcclAllGatherV
 */
PCCL_EXPORT pcclResult_t pcclScatterV(const pcclPart_t *PCCL_NULLABLE parts, size_t count, uint32_t root,
                                      const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                      pcclBlobs_t *blobs, pcclOperationInfo_t *PCCL_NULLABLE info);
PCCL_EXPORT pcclResult_t pcclScatterVAsync(const pcclPart_t *PCCL_NULLABLE parts, size_t count, uint32_t root,
                                           const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                           pcclBlobs_t *blobs, pcclAsyncReduceOp_t *handle_out);

/*
 * Brings a part of each member to each: all have one for each member, as the root of pcclScatterV, and receive one blob
 * from each, in order of ranks. Among at most 31 members.
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
    const char *label;   /* as of an operation: all members must give the same; NULL: none */
    uint32_t timeout_ms; /* how long to wait for the other members; 0: the option op_timeout_ms */
} pcclGroupOptions_t;

#define PCCL_GROUP_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(pcclGroupOptions_t), NULL, 0                                                                            \
    }

/*
 * Founds a group of some members of this peer's group, this peer among them, in any order. It returns when all of them
 * have called it with the same ids; the others need not know. A peer may be in any number of groups, also overlapping.
 * Every function for operations takes the group in place of a communicator: its operations are among its members alone,
 * and it has its own tags. pcclGetMembers and the peer-group world size of pcclGetAttribute are the group's;
 * pcclAbortOperations aborts only operations of its handle, as it does for a communicator. Functions for the whole run
 * (connecting, updating and optimizing the topology, shared state) fail with pcclInvalidUsage. The members of a group
 * never change: its operations fail with pcclMembersChanged only if a list of others is passed, and they continue when
 * other peers join, leave or die.
 *
 * A group ends for all members when one leaves, dies or closes it, when peers cannot reach one another for good, and
 * when the communicator is disconnected. Its operations then fail with pcclRankConnectionLost, with the reason, and the
 * remaining members may found another group. Ended or not, each handle must be passed to pcclDestroyCommunicator once,
 * also after its communicator was destroyed. This closes the group and returns when its operations have ended: as the
 * master decides, or, if the master is away, at once, with pcclRankConnectionLost for this peer alone. A group of one
 * is allowed: its operations are as for a peer that is alone.
 *
 * pcclUpdateTopology, pcclOptimizeTopology and pcclSynchronizeSharedState do not end groups, but need their operations
 * to be awaited, too. BLOCKS, joint(the peers with these ids). pcclAbortOperations of the communicator ends the call.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument    a pointer is NULL; the list is empty, without this peer, has a duplicate or an invalid id; the
 *                        size of options is not set; a label as for pcclSetOperationLabel; or another thread is
 *                        founding a group of the same members. The other members were not notified
 * pcclInvalidUsage       unconnected; comm is a group's; the topology is being updated; too many groups; or labels
 *                        differ (ext. pcclPeerMismatch)
 * pcclMembersChanged     a member has left, or died; or is not in pcclGetMembers (the others were not notified)
 * pcclRankConnectionLost aborted (ext. pcclAborted), or not all have called it in time (ext. pcclTimeout), or this peer
 *                        is out of the run
 * pcclInternalError      as for pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclCreateGroup(const pcclComm_t *comm, const pcclPeerId_t *ids, uint32_t count,
                                         const pcclGroupOptions_t *PCCL_NULLABLE options, pcclComm_t **group_out);

/* -------------------------------------------------------------------------------------------------- lists */

/* Describes a rebuild to its function. */
typedef struct pcclRebuild_t {
    size_t size;                 /* of the struct that the library knows */
    const pcclPeerId_t *members; /* the list's members from now on, in order of their ranks */
    uint32_t member_count;
    uint32_t rank;               /* of this peer among them */
    pcclOperation_t *operations; /* as given to pcclRunOperations */
    const size_t *entries;       /* which of them are to be rebuilt, the lowest first */
    size_t entry_count;
} pcclRebuild_t;

/*
 * Changes entries of a list for other members: the buffers, counts, roots and options of those entries of
 * rebuild->operations that rebuild->entries names. The others have succeeded or may be under way, and must not change.
 * Tag and collective stay; a given list of members must be rebuild->members. An entry must follow from rebuild->members
 * and the original operation alone, not from an earlier call: if members leave in succession, one peer may be called
 * for each list of members and another for the last one only. false: it cannot be done, and the list ends for all
 * peers. Called on the thread in pcclRunOperations. It must not wait for other peers or destroy the communicator.
 */
typedef bool (*pcclRebuildCallback_t)(const pcclRebuild_t *rebuild, void *user_data);

/* Options of pcclRunOperations. */
typedef struct pcclRunOptions_t {
    size_t size;                   /* set by PCCL_RUN_OPTIONS_INIT */
    uint32_t max_in_flight;        /* how many entries are under way at a time; need not be the same on all peers */
    pcclRebuildCallback_t rebuild; /* NULL: the list ends if the members change that an entry expects */
    void *user_data;
} pcclRunOptions_t;

#define PCCL_RUN_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(pcclRunOptions_t), 4, NULL, NULL                                                                        \
    }

/*
 * Carries out a list of operations of all kinds but sends and receives, several at a time in the order of the list, and
 * repeats those that fail because a peer was lost, until all have succeeded. Joint(group): all peers pass the same
 * operations and distinct tags, and all with rebuild or all without. BLOCKS until no operation of it is running.
 *
 * All entries that expect members expect the same: by default the members when the call begins. Entries that accept any
 * members (pcclPerform) are repeated among the remaining peers. When an entry finds other members than it expects,
 * rebuild is called with the current list, for all entries with members that have not succeeded; then they are
 * launched. This repeats as long as the members change. All remaining peers agree which entries have succeeded, and
 * launch the others for the same last list. Without rebuild the list ends on all peers, with pcclMembersChanged.
 *
 * The deadline of an entry, `op_timeout_ms`, counts from its first launch. pcclDescribeWaits shows the list. A failure
 * that cannot be retried ends the list on all peers and aborts its other operations. Buffers of entries that have not
 * succeeded are as after a failure of the operation: send buffers are unchanged. The peers may have launched different
 * parts of the list: call pcclUpdateTopology before using these tags again.
 * pcclSuccess            every entry has succeeded
 * pcclNotInitialized
 * pcclInvalidArgument    a pointer is NULL, count is 0, a size is not set, or entries differ in it, two tags are equal,
 *                        max_in_flight is 0, an entry has on_arrival, is a send or receive, or but for its info is one
 *                        that pcclPerform would refuse ("entry 3: ..."): nothing was launched. Or rebuild has made one
 * pcclInvalidUsage       unconnected; or a failure that no retry mends, as for pcclPerform
 * pcclTooFewPeers        this peer is, or has become, alone in its group, and an entry has no alone_ok
 * pcclMembersChanged     the members changed, and there is no rebuild
 * pcclRankConnectionLost given up (ext. pcclAborted), by rebuild on this peer or another one too; a deadline passed, or
 *                        this peer was expelled or lost its master (ext. as above)
 * pcclInternalError      memory is short (ext. pcclOutOfMemory), or a peer sent another one an invalid message
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
