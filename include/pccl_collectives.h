/*
 * PCCL: who the members of the group are; all-reduce with options, broadcast, reduce-scatter, reduce
 * and barrier; all-gather, gather, scatter and all-to-all, also of blobs; send and receive; lists of
 * operations of all kinds; codecs of eight and of four bits.
 * pccl.h includes this file and defines the words used here. None of this is in PCCL 1.0.
 *
 * Members and ranks. A peer's rank is its place in the list of its group's members, which is in the
 * order of their admission. Roots and buffers with a part for each member refer to such a list: by
 * default to what pcclGetMembers gives, the members as of the last call that has returned. If the
 * members are others when the operation is launched, it fails on all peers with
 * pcclMembersChanged: nobody's part is taken for another one's. Look at the members anew, arrange
 * the buffers for them, and begin again.
 *
 * Everything else is as for reductions: pairing by tag, labels, deadlines, aborts, and one outcome
 * for all peers. After a failure what was to be sent is as it was, in place too; what was to be
 * received is unspecified.
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

/* A member's blob. */
typedef struct pcclBlob_t {
    pcclPeerId_t peer;
    const void *data; /* not NULL, also if it is empty */
    size_t length;    /* in bytes */
} pcclBlob_t;

/*
 * Shows a part that has come, before the others have. It is seen provisionally: the operation may still fail, for all
 * peers alike, and the part counts only if it succeeds. Called on the thread that awaits the operation, once for each
 * part of one that succeeds, empty ones and this peer's own too, before its end is told. It may call functions that
 * do not wait for other peers, and must not destroy the communicator.
 */
typedef void (*pcclArrivalCallback_t)(const pcclBlob_t *part, void *user_data);

/*
 * Returns the members of this peer's group in order of their ranks, and its own rank, as of the
 * last call of this communicator that has returned (the same moment as of pcclGetAttribute).
 * members NULL with max 0 asks only for the number. Any thread. Does not block.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument comm or count is NULL; members is NULL and max is not 0; or there are more
 *                     than max: then *count is set and nothing else written
 * pcclInvalidUsage    unconnected
 */
PCCL_EXPORT pcclResult_t pcclGetMembers(const pcclComm_t *comm, pcclPeerId_t *PCCL_NULLABLE members, size_t max,
                                        size_t *count, uint32_t *PCCL_NULLABLE rank);

/* -------------------------------------------------------------------------------------------- collectives */

/*
 * What an operation may be given beside its buffers. Later versions may add members at the end;
 * `size` tells the library which ones the caller knows.
 */
typedef struct pcclCollectiveOptions_t {
    size_t size;                 /* set by PCCL_COLLECTIVE_OPTIONS_INIT */
    uint64_t tag;                /* which calls of the peers belong together, as in pcclReduceDescriptor_t */
    const char *label;           /* NULL: that of pcclSetOperationLabel */
    const pcclPeerId_t *members; /* whom this call counts on, in order of their ranks; NULL: see above */
    uint32_t member_count;
    bool alone_ok; /* alone in its group a peer carries the operation out by itself, without pcclTooFewPeers */
    pcclQuantizationOptions_t quantization; /* of what moves elements */
    const size_t *counts;   /* of a reduce-scatter: each member's share, in order of their ranks; NULL: equal shares */
    uint32_t counts_length; /* how many there are: as many as members */
    uint64_t max_bytes;     /* of blobs: how many bytes any member may get in all; 0: 256 MiB */
    double factor;          /* of a premultiplied sum: what this peer's elements are multiplied by; otherwise 1 */
    pcclArrivalCallback_t on_arrival; /* of blobs, but not in a list: sees each part when it comes; or NULL */
    void *user_data;                  /* of on_arrival */
} pcclCollectiveOptions_t;

#define PCCL_COLLECTIVE_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(pcclCollectiveOptions_t), 0, NULL, NULL, 0, false, {pcclUint8, pcclQuantNone}, NULL, 0, 0, 1, NULL,     \
            NULL                                                                                                       \
    }

#define PCCL_CODEC_WORDS_SIZE 128 /* with the terminating zero */

/*
 * What became of an operation. Later versions may add members at the end; `size` tells the library
 * which ones the caller knows, and the library sets those that it does not know to 0.
 */
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
    pcclQuantizationAlgorithm_t codec; /* how elements travelled; of an automatic codec, what was chosen */
    char why[PCCL_CODEC_WORDS_SIZE];   /* of an automatic codec: why, in words; otherwise "" */
} pcclOperationInfo_t;

#define PCCL_OPERATION_INFO_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(pcclOperationInfo_t), 0, 0, 0, 0, 0, 0, NULL, 0, pcclQuantNone, ""                                      \
    }

/*
 * pcclAllReduce with options; a premultiplied sum needs them. Unless it is given members, it counts
 * on nobody in particular.
 * pcclSuccess
 * and the results of pcclBroadcast
 */
PCCL_EXPORT pcclResult_t pcclAllReduceWithOptions(const void *sendbuf, void *recvbuf, size_t count,
                                                  pcclDataType_t datatype, pcclRedOp_t op,
                                                  const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                  const pcclComm_t *comm, pcclOperationInfo_t *PCCL_NULLABLE info);

/* A tensor of a coalesced all-reduce, with a type and a reduction of its own. */
typedef struct pcclCoalescedTensor_t {
    const void *sendbuf;
    void *recvbuf; /* sendbuf, or memory that overlaps no other buffer of the list */
    size_t count;
    pcclDataType_t datatype;
    pcclRedOp_t op;
} pcclCoalescedTensor_t;

/*
 * Reduces several tensors, also of several types, in one operation with one outcome: it takes hardly
 * longer than one tensor of that size, and after a failure all that was to be sent is as it was. All
 * pass lists of the same counts, types and reductions, at most 65536 of them. Those of one type and
 * reduction lie, for quantization and its feedback, one behind the other in the order of the list.
 * Quantized, tensors of floats are packed, and others travel as they are. A factor is that of all
 * premultiplied sums of the list. Unless it is given members, it counts on nobody in particular.
 * pcclSuccess
 * and the results of pcclBroadcast; what is wrong with one tensor is told with its place in the list
 */
PCCL_EXPORT pcclResult_t pcclAllReduceCoalesced(const pcclCoalescedTensor_t *tensors, size_t count,
                                                const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                const pcclComm_t *comm, pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Brings the root's buffer to all members. root is a rank. All pass as many elements of the same type. Quantized, the
 * root's buffer too becomes what the packed elements are unpacked to, so that all have the same bits; otherwise it is
 * only read. BLOCKS, joint(group), like all calls below; each has a form that only launches.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument    a pointer is NULL; count is 0, or more than any memory has; an unknown data
 *                        type or operation; the size of options or info is not set; a label as for
 *                        pcclSetOperationLabel; a list of members without this peer, that names one
 *                        twice, or with something that is no id; root is no rank; buffers that
 *                        overlap in another way than described; a quantization that does not fit;
 *                        counts that are not as many as members, or do not make up count;
 *                        either of something else than a reduce-scatter; max_bytes or on_arrival of
 *                        something that gives no blobs; a reduction that does not fit the data
 *                        type, or a factor of something else than a premultiplied sum; or the tag is
 *                        in use. Nothing was launched
 * pcclInvalidUsage       peers differ in operation, count, counts, data type, root or quantization
 *                        (ext. pcclPeerMismatch); and as for pcclAllReduceAsync
 * pcclTooFewPeers        this peer is alone in its group, and alone_ok is false
 * pcclMembersChanged     the members are not those that this peer or another one counts on
 * pcclRankConnectionLost as for pcclAwaitAsyncReduce
 * pcclInternalError      as for pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclBroadcast(void *buffer, size_t count, pcclDataType_t datatype, uint32_t root,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Brings the parts of all members to all: sendbuf has count elements; recvbuf has count for each member, and the part
 * of rank r begins at element r * count. sendbuf may be this peer's own part of recvbuf; otherwise they must not
 * overlap. Quantized, the own part of recvbuf too is what the packed elements are unpacked to.
 * pcclSuccess
 * and the results of pcclBroadcast
 */
PCCL_EXPORT pcclResult_t pcclAllGather(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Reduces, and gives each member its share: sendbuf has count elements for each member, and rank r gets in recvbuf,
 * which has count elements, the reduction of those from r * count on. recvbuf may be this peer's own share of
 * sendbuf; otherwise they must not overlap. With counts in the options, shares are of so many elements, any of them
 * 0: count is that of all together, and the share of a rank begins where that of the rank before it ends. All peers
 * must pass the same counts. recvbuf may be NULL where the own one is 0.
 * pcclSuccess
 * and the results of pcclBroadcast
 */
PCCL_EXPORT pcclResult_t pcclReduceScatter(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                           pcclRedOp_t op, const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                           const pcclComm_t *comm, pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * The blobs that a peer gets, in memory of the library's until pcclFreeBlobs. Later versions may add members at the
 * end; `size` tells the library which ones the caller knows, and the library sets those that it does not know to 0.
 */
typedef struct pcclBlobs_t {
    size_t size;             /* set by PCCL_BLOBS_INIT */
    size_t count;            /* of blobs; in an all-gather and an all-to-all, as many as peers took part */
    const pcclBlob_t *blobs; /* in order of the ranks of their peers; so their data lies, one behind the other */
    size_t bytes;            /* of all together */
} pcclBlobs_t;

#define PCCL_BLOBS_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(pcclBlobs_t), 0, NULL, 0                                                                                \
    }

/*
 * Brings the blobs of all members to all: any bytes, of lengths that the others need not know, also
 * none. Short blobs of all go through the master in one round trip. It needs no list of members, so
 * after pcclRankConnectionLost it can be repeated as it is; if one is given it must be the right one.
 * All pass the same max_bytes. blobs is not read but for its size; what it holds is written when the
 * operation has succeeded, and must be freed. It may use up two numbers of its tag's sequence.
 * pcclSuccess
 * pcclInvalidArgument    as for pcclBroadcast; or the size of blobs is not set
 * pcclInvalidUsage       as for pcclBroadcast; or peers differ in max_bytes, or the blobs of all together are longer
 *                        than that (ext. pcclPeerMismatch), which all are told alike; or the group has more than 682
 *                        members
 * pcclInternalError      as for pcclBroadcast; or a peer has no memory for all the blobs
 * and the other results of pcclBroadcast
 */
PCCL_EXPORT pcclResult_t pcclAllGatherV(const void *PCCL_NULLABLE data, size_t length,
                                        const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                        pcclBlobs_t *blobs, pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Brings the blobs of all members to the root, which is a rank. The others get none.
 * pcclSuccess
 * and the results of pcclAllGatherV
 */
PCCL_EXPORT pcclResult_t pcclGatherV(const void *PCCL_NULLABLE data, size_t length, uint32_t root,
                                     const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                     pcclBlobs_t *blobs, pcclOperationInfo_t *PCCL_NULLABLE info);

/* What one member is sent. */
typedef struct pcclPart_t {
    const void *data; /* may be NULL if it is empty */
    size_t length;    /* in bytes */
} pcclPart_t;

/*
 * Gives each member one of the root's parts: the root has one for each member, in order of their ranks, each anywhere
 * in memory and of any length, also empty. All get one blob, from the root. parts and count of the others are not
 * used. The list of parts is copied at launch, the parts are not. As for pcclAllGatherV, short parts go through the
 * master, and all pass the same max_bytes: the most that one member may get.
 * pcclSuccess
 * pcclInvalidArgument as for pcclAllGatherV; or the root has not as many parts as there are members
 * and the other results of pcclAllGatherV
 */
PCCL_EXPORT pcclResult_t pcclScatterV(const pcclPart_t *PCCL_NULLABLE parts, size_t count, uint32_t root,
                                      const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                      pcclBlobs_t *blobs, pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Brings a part of each member to each: all have one for each member, as the root of pcclScatterV, and
 * get one blob from each, in order of ranks. Among at most 31 members.
 * pcclSuccess
 * and the results of pcclScatterV
 */
PCCL_EXPORT pcclResult_t pcclAllToAllV(const pcclPart_t *parts, size_t count,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclBlobs_t *blobs, pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Frees what an operation has given, if anything; then there are none. Blobs of which on_arrival has
 * seen a part must be freed even if the operation has failed: until then such parts stay where they
 * are. Not before the operation was awaited, or its communicator destroyed. Any thread. Does not block.
 * pcclSuccess
 */
PCCL_EXPORT pcclResult_t pcclFreeBlobs(pcclBlobs_t *PCCL_NULLABLE blobs);

/*
 * Reduces to the root: all members pass a sendbuf of count elements, and the root gets their
 * reduction in recvbuf, which has as many and may be its sendbuf; otherwise they must not overlap.
 * root is a rank. recvbuf of the others is not used and may be NULL.
 * pcclSuccess
 * and the results of pcclBroadcast
 */
PCCL_EXPORT pcclResult_t pcclReduce(const void *sendbuf, void *PCCL_NULLABLE recvbuf, size_t count,
                                    pcclDataType_t datatype, pcclRedOp_t op, uint32_t root,
                                    const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                    pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Brings the parts of all members to the root: sendbuf has count elements; recvbuf of the root has
 * count for each member, and the part of rank r begins at element r * count. The root's sendbuf may be
 * its own part of recvbuf; otherwise they must not overlap. recvbuf of the others is not used and may
 * be NULL. Quantized, the root's own part is as it was.
 * pcclSuccess
 * and the results of pcclBroadcast
 */
PCCL_EXPORT pcclResult_t pcclGather(const void *sendbuf, void *PCCL_NULLABLE recvbuf, size_t count,
                                    pcclDataType_t datatype, uint32_t root,
                                    const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                    pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Gives each member its part of the root's buffer: sendbuf of the root has count elements for each
 * member, and rank r gets in recvbuf, which has count elements, those from r * count on. The root's
 * recvbuf may be its own part of sendbuf; otherwise they must not overlap. sendbuf of the others is not
 * used and may be NULL. Quantized, the root's own part is as it was.
 * pcclSuccess
 * and the results of pcclBroadcast
 */
PCCL_EXPORT pcclResult_t pcclScatter(const void *PCCL_NULLABLE sendbuf, void *recvbuf, size_t count,
                                     pcclDataType_t datatype, uint32_t root,
                                     const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                     pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Brings a part of each member to each: sendbuf has count elements for each member, and rank r gets
 * those from r * count on; so recvbuf has count elements of each member, those of rank r from
 * r * count on. The two must not overlap. Quantized, what stays is as it was.
 * pcclSuccess
 * and the results of pcclBroadcast
 */
PCCL_EXPORT pcclResult_t pcclAllToAll(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                      const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                      pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Sends to one peer, which calls pcclRecv with this one's rank, as many elements of the same type, and the same
 * tag. peer is a rank; options->members only says whose. BLOCKS until the other one has all of it. The n-th send of
 * a tag meets the n-th receive of it by that peer from this one, in the same group or in the communicator (since the
 * last update of the topology). Both succeed, or both fail. Any number of one tag may be under way. If one of the two
 * leaves or dies, or the group ends, both fail; another death has no effect. The buffer is only read. Ignores alone_ok.
 * pcclSuccess
 * pcclInvalidArgument    as for pcclBroadcast; or peer is this peer's own rank, or of a list, but not in the group
 * pcclInvalidUsage       the two differ in count, data type, label, or in whether it goes through the master (ext.
 *                        pcclPeerMismatch); more than 4096 operations are launched and not awaited; among more
 *                        than 16 members it is longer than what goes through the master, and no group of the two
 *                        (pcclCreateGroup) is open (nothing was launched); and as for pcclAllReduceAsync
 * pcclTooFewPeers        this peer is alone in its group
 * pcclRankConnectionLost the other peer is gone, or the group has ended; and as for pcclAwaitAsyncReduce
 * pcclInternalError      as for pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclSend(const void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                                  const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                  pcclOperationInfo_t *PCCL_NULLABLE info);

#define PCCL_ANY_PEER UINT32_MAX /* in pcclRecv: whoever sends */
/*
 * Receives from the peer of this rank, or from PCCL_ANY_PEER: from a member that has sent the tag in this same group.
 * Those who send take turns, sends of one keep their order. The first participant in info is who sent. BLOCKS.
 * pcclSuccess
 * pcclRankConnectionLost as for pcclSend; or nobody has sent before its deadline, or all others are gone
 * and the results of pcclSend
 */
PCCL_EXPORT pcclResult_t pcclRecv(void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                                  const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                  pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Returns when all members have called it. It needs no list of members; if one is given it must be the right one.
 * pcclSuccess
 * and the results of pcclBroadcast
 */
PCCL_EXPORT pcclResult_t pcclBarrier(const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                     pcclOperationInfo_t *PCCL_NULLABLE info);

/*
 * Launches a broadcast, without blocking, as pcclAllReduceAsync does a reduction. The handle is of
 * the same kind: pcclAwaitOperation and every function for handles of reductions take it.
 * pcclSuccess         *handle_out must be awaited exactly once
 * and the results of pcclBroadcast that say that nothing was launched
 */
PCCL_EXPORT pcclResult_t pcclBroadcastAsync(void *buffer, size_t count, pcclDataType_t datatype, uint32_t root,
                                            const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                            const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Launches an all-reduce with options.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclAllReduceWithOptionsAsync(const void *sendbuf, void *recvbuf, size_t count,
                                                       pcclDataType_t datatype, pcclRedOp_t op,
                                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                       const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Launches an all-reduce with options and awaits it for timeout_ms at most (UINT32_MAX: no limit), in one call.
 * pcclSuccess
 * pcclTimeout          *handle_out names what is under way, and must be awaited
 * and the other results of pcclAllReduceWithOptions; if the communicator in *handle_out is NULL, nothing was launched
 */
PCCL_EXPORT pcclResult_t pcclAllReduceWithOptionsFor(const void *sendbuf, void *recvbuf, size_t count,
                                                     pcclDataType_t datatype, pcclRedOp_t op,
                                                     const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                     const pcclComm_t *comm, uint32_t timeout_ms,
                                                     pcclAsyncReduceOp_t *handle_out);

/*
 * Launches a coalesced all-reduce. The list itself may go when this has returned; the tensors may not.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclAllReduceCoalescedAsync(const pcclCoalescedTensor_t *tensors, size_t count,
                                                     const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                     const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Launches an all-gather.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclAllGatherAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                            const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                            const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Launches a reduce-scatter.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclReduceScatterAsync(const void *sendbuf, void *recvbuf, size_t count,
                                                pcclDataType_t datatype, pcclRedOp_t op,
                                                const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                                const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out);

/*
 * Launches a reduce.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclReduceAsync(const void *sendbuf, void *PCCL_NULLABLE recvbuf, size_t count,
                                         pcclDataType_t datatype, pcclRedOp_t op, uint32_t root,
                                         const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                         pcclAsyncReduceOp_t *handle_out);

/*
 * Launches a gather.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclGatherAsync(const void *sendbuf, void *PCCL_NULLABLE recvbuf, size_t count,
                                         pcclDataType_t datatype, uint32_t root,
                                         const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                         pcclAsyncReduceOp_t *handle_out);

/*
 * Launches a scatter.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclScatterAsync(const void *PCCL_NULLABLE sendbuf, void *recvbuf, size_t count,
                                          pcclDataType_t datatype, uint32_t root,
                                          const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                          pcclAsyncReduceOp_t *handle_out);

/*
 * Launches an all-to-all.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclAllToAllAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                           const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                           pcclAsyncReduceOp_t *handle_out);

/*
 * Launches a send. Any number of one tag may be launched and not awaited; they may be awaited in any
 * order. The handle's `tag` is not the tag, but a number of this send alone.
 * pcclSuccess
 * and the results of pcclSend that say that nothing was launched
 */
PCCL_EXPORT pcclResult_t pcclSendAsync(const void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclAsyncReduceOp_t *handle_out);

/*
 * Launches a receive, in the same way.
 * pcclSuccess
 * and the results of pcclSendAsync
 */
PCCL_EXPORT pcclResult_t pcclRecvAsync(void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                                       const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                       pcclAsyncReduceOp_t *handle_out);

/*
 * Launches an all-gather of blobs. data must stay unchanged, and blobs in place, until it has been
 * awaited; whatever awaits it successfully writes blobs.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclAllGatherVAsync(const void *PCCL_NULLABLE data, size_t length,
                                             const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                             const pcclComm_t *comm, pcclBlobs_t *blobs,
                                             pcclAsyncReduceOp_t *handle_out);

/*
 * Launches a gather of blobs, in the same way.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclGatherVAsync(const void *PCCL_NULLABLE data, size_t length, uint32_t root,
                                          const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                          pcclBlobs_t *blobs, pcclAsyncReduceOp_t *handle_out);

/*
 * Launches a scatter of blobs, in the same way.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclScatterVAsync(const pcclPart_t *PCCL_NULLABLE parts, size_t count, uint32_t root,
                                           const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                           pcclBlobs_t *blobs, pcclAsyncReduceOp_t *handle_out);

/*
 * Launches an all-to-all of blobs, in the same way.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclAllToAllVAsync(const pcclPart_t *parts, size_t count,
                                            const pcclCollectiveOptions_t *PCCL_NULLABLE options,
                                            const pcclComm_t *comm, pcclBlobs_t *blobs,
                                            pcclAsyncReduceOp_t *handle_out);

/*
 * Launches a barrier.
 * pcclSuccess
 * and the results of pcclBroadcastAsync
 */
PCCL_EXPORT pcclResult_t pcclBarrierAsync(const pcclCollectiveOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm,
                                          pcclAsyncReduceOp_t *handle_out);

/*
 * Ends a launched operation of any kind, an all-reduce also, as pcclAwaitAsyncReduceFor does, and
 * tells more of it. timeout_ms UINT32_MAX: no limit. info is written on success only.
 * pcclTimeout            the operation is still under way; await it again
 * pcclInvalidArgument    the size of info is not set; await it again. Or as for pcclAwaitAsyncReduce
 * pcclMembersChanged     as for pcclBroadcast
 * and the other results of pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclAwaitOperation(const pcclAsyncReduceOp_t *handle, uint32_t timeout_ms,
                                            pcclOperationInfo_t *PCCL_NULLABLE info);

/* ------------------------------------------------------------------------------------------------- groups */

/*
 * What the founding of a group may be given. Later versions may add members at the end; `size`
 * tells the library which ones the caller knows.
 */
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
 * Founds a group of some members of this peer's group, this peer among them, in any order. It
 * returns when all of them have called it with the same ids; the others need not know. A peer may
 * be in any number of groups, which may overlap.
 *
 * Every function for operations takes the group in place of a communicator: its operations are
 * among its members alone, and its tags are its own. pcclGetMembers and the
 * peer-group world size of pcclGetAttribute are the group's; pcclAbortOperations aborts only
 * operations of its handle, as it does for a communicator. Functions that concern the whole run
 * (connecting, updating and optimizing the topology, shared state) fail with pcclInvalidUsage. The
 * members of a group never change, so its operations never fail with pcclMembersChanged, unless a
 * list of others is passed, and go on undisturbed when other peers come, leave or die.
 *
 * A group ends for all members when one leaves, dies or closes it, when peers cannot reach one
 * another for good, and when the communicator is disconnected. Its operations then fail with
 * pcclRankConnectionLost and say why; those who are left may found another one. Ended or not, each
 * handle must be passed to pcclDestroyCommunicator once, which closes the group and returns when
 * its operations are over: as the master says, or, if the master is away, at once, with
 * pcclRankConnectionLost for this peer alone; after its communicator was destroyed it can still be
 * passed there. A group of one is allowed: its operations are as those of a peer that is alone.
 *
 * pcclUpdateTopology, pcclOptimizeTopology and pcclSynchronizeSharedState need operations of groups
 * to be awaited, too. They do not end groups.
 *
 * BLOCKS, joint(those with these ids). pcclAbortOperations of the communicator ends it.
 * pcclSuccess
 * pcclNotInitialized
 * pcclInvalidArgument    a pointer is NULL; the list is empty, without this peer, names one twice,
 *                        or has something that is no id; the size of options is not set; a label as
 *                        for pcclSetOperationLabel; or another thread is founding a group of the same
 *                        members. Nobody was told
 * pcclInvalidUsage       unconnected; comm is a group's; the topology is being updated; too many
 *                        groups; or labels differ (ext. pcclPeerMismatch)
 * pcclMembersChanged     one of them has left, or died; or is not in pcclGetMembers (nobody was told)
 * pcclRankConnectionLost aborted (ext. pcclAborted), or not all have called it in time (ext.
 *                        pcclTimeout), or this peer is out of the run
 * pcclInternalError      as for pcclAwaitAsyncReduce
 */
PCCL_EXPORT pcclResult_t pcclCreateGroup(const pcclComm_t *comm, const pcclPeerId_t *ids, uint32_t count,
                                         const pcclGroupOptions_t *PCCL_NULLABLE options, pcclComm_t **group_out);

/* -------------------------------------------------------------------------------------------------- lists */

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
    pcclCollectiveCoalesced = 13,
} pcclCollective_t;

/*
 * An operation of a list: kind, and arguments of the function of that name. Members that a kind does not use (see
 * below) are ignored. Later versions may add members at the end; all entries of a list have the same `size`.
 */
typedef struct pcclOperation_t {
    size_t size; /* set by PCCL_OPERATION_INIT */
    pcclCollective_t collective;
    const void *sendbuf;     /* NULL in a broadcast, whose buffer is recvbuf; parts to send: pcclPart_t; coalesced: the
                                tensors; not used by a barrier, nor are recvbuf and count */
    void *recvbuf;           /* NULL if coalesced; not used by operations of blobs */
    size_t count;            /* length of this peer's blob, or number of parts or tensors */
    pcclDataType_t datatype; /* of the elements in sendbuf and recvbuf */
    pcclRedOp_t op;          /* of an all-reduce, a reduce-scatter and a reduce */
    uint32_t root;           /* of a broadcast, a reduce, gathers and scatters */
    const pcclCollectiveOptions_t *options; /* with the tag; NULL: the defaults */
    pcclOperationInfo_t *info;              /* written when the entry has succeeded, whatever the others do; or NULL */
    pcclBlobs_t *blobs;                     /* of blobs: written as info is, and then to be freed; else NULL */
} pcclOperation_t;

#define PCCL_OPERATION_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(pcclOperation_t), pcclCollectiveAllReduce, NULL, NULL, 0, pcclUint8, pcclSum, 0, NULL, NULL, NULL       \
    }

/* What a list is to be rebuilt for. Later versions may add members at the end. */
typedef struct pcclRebuild_t {
    size_t size;                 /* of the struct that the library knows */
    const pcclPeerId_t *members; /* whom the list counts on from now on, in order of their ranks */
    uint32_t member_count;
    uint32_t rank;               /* of this peer among them */
    pcclOperation_t *operations; /* as given to pcclRunOperations */
    const size_t *entries;       /* which of them are to be rebuilt, the lowest first */
    size_t entry_count;
} pcclRebuild_t;

/*
 * Makes entries of a list for other members: changes the buffers, counts, roots and options of those entries of
 * rebuild->operations that rebuild->entries names, and leaves the others alone, which have succeeded or may be under
 * way. Tag and collective stay; given members must be rebuild->members. An entry must follow from rebuild->members and
 * the original operation alone, not from an earlier call: if members leave in succession, one peer may be called for
 * each list of members and another for the last one only. false: it cannot be done, and the list ends for all peers.
 * Called on the thread that is in pcclRunOperations. It must not wait for other peers or destroy the communicator.
 */
typedef bool (*pcclRebuildCallback_t)(const pcclRebuild_t *rebuild, void *user_data);

/* How a list is carried out. Later versions may add members at the end, as above. */
typedef struct pcclRunOptions_t {
    size_t size;                   /* set by PCCL_RUN_OPTIONS_INIT */
    uint32_t max_in_flight;        /* how many entries are under way at a time; need not be the same on all peers */
    pcclRebuildCallback_t rebuild; /* NULL: if the members change while an entry counts on them, the list ends */
    void *user_data;
} pcclRunOptions_t;

#define PCCL_RUN_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(pcclRunOptions_t), 4, NULL, NULL                                                                        \
    }

/*
 * Carries out a list of operations of all kinds, several at a time in the order of the list, and
 * repeats those that fail because a peer was lost, until all have succeeded. Joint(group): all peers
 * pass lists with the same tags and operations, and all with rebuild or all without; tags must be
 * distinct within the list. BLOCKS. It returns only when none of its operations runs any more.
 *
 * All that counts on members counts on one list of them: what pcclGetMembers gives when the call begins. Entries that
 * do not (all-reduce, coalesced or not, barrier and all-gather of blobs, unless they are given members) are repeated by
 * themselves, among those who are left. When one that does finds other members, rebuild is called with the current
 * list, for all such entries that have not succeeded; then they are launched. This repeats as long as the members
 * change. All who remain agree which entries have succeeded, and launch those of the same last list. Without rebuild
 * the list ends on all peers, with pcclMembersChanged.
 *
 * The deadline of an entry, `op_timeout_ms`, counts from its first launch. pcclDescribeWaits shows the list. A failure
 * that cannot be retried ends the list on all peers and aborts its other operations. Buffers of entries that have not
 * succeeded are as after a failure of the operation: send buffers are unchanged. The peers may have launched different
 * parts of the list: call pcclUpdateTopology before using these tags again.
 * pcclSuccess            every entry has succeeded
 * pcclNotInitialized
 * pcclInvalidArgument    a pointer is NULL, count is 0, a size is not set, max_in_flight is 0, two
 *                        tags are equal, or an entry is one that the function for it would refuse so
 *                        ("entry 3: ..."): nothing was launched. Or rebuild has made such an entry
 * pcclInvalidUsage       unconnected; or a failure that no retry mends, as for pcclBroadcast
 * pcclTooFewPeers        this peer is or came to be alone in its group, and there is an entry without
 *                        alone_ok
 * pcclMembersChanged     the members changed, and there is no rebuild
 * pcclRankConnectionLost given up (ext. pcclAborted), by rebuild on this peer or another one too; a
 *                        deadline passed, or this peer was expelled or lost its master (ext. as above)
 * pcclInternalError      memory is short (ext. pcclOutOfMemory), or a peer sent another one an invalid message
 */
PCCL_EXPORT pcclResult_t pcclRunOperations(pcclOperation_t *operations, size_t count,
                                           const pcclRunOptions_t *PCCL_NULLABLE options, const pcclComm_t *comm);

/* ------------------------------------------------------------------------------------------------- codecs */

/* How the scale of a block travels. */
typedef enum pcclCodecScale_t {
    pcclScaleFloat = 0,
    pcclScaleBFloat16 = 1,
    pcclScalePowerOfTwo = 2 /* in one byte */
} pcclCodecScale_t;

typedef enum pcclCodecRounding_t {
    pcclRoundNearest = 0,
    /*
     * Up or down, each the more often the nearer it is: the mean of many roundings is the element. The
     * choice follows from the operation, the peer and the element's place; a retry chooses anew.
     */
    pcclRoundStochastic = 1
} pcclCodecRounding_t;

/*
 * A codec of eight or four bits, or an automatic one, for elements of float, float16 and bfloat16.
 * Later versions may add members at the end; `size` tells the library which ones the caller knows.
 */
typedef struct pcclCodecParams_t {
    size_t size;                        /* set by PCCL_CODEC_PARAMS_INIT */
    pcclQuantizationAlgorithm_t format; /* pcclQuantE4M3, one that follows it, or pcclQuantAuto */
    uint32_t block;                     /* elements that have a scale of their own: 16, 32, 64, 128 or 256 */
    pcclCodecScale_t scale;
    pcclCodecRounding_t rounding;
    /*
     * Sums and averages: what packing takes from what this peer packs is kept for the tag, and added to
     * its next contribution with it; so over many operations nothing is lost. An operation that fails
     * changes nothing. Local: each peer keeps its own, or none. It takes 8 bytes for each element of each
     * tag, until the handle is destroyed; the option feedback_mib bounds it. If the tag is used for
     * another count, type or codec, what was kept is dropped, and a warning logged.
     */
    bool feedback;
    /* Of pcclQuantAuto, and only of it, one of these: how long an operation may take, up to 131071 ms. */
    uint32_t budget_ms;
    uint32_t budget_percent; /* or of the time between two uses of its tag, up to 100; the first two are exact */
} pcclCodecParams_t;

#define PCCL_CODEC_PARAMS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(pcclCodecParams_t), pcclQuantInt4, 256, pcclScaleFloat, pcclRoundNearest, false, 0, 0                   \
    }

/*
 * Makes a codec for any operation that takes a quantization, as often as wished, also in other threads: a plain value
 * that needs no release. Where peers differ in format, block, scale or rounding, the operation fails for all, as
 * where they differ in any quantization. With it the parts of a reduction go to one peer each, packed once, which
 * adds them as float and packs the result once (in groups without links between all, or of more than 16 peers, along
 * the ring instead, where each peer packs the sum anew). NaN arrives as NaN, an infinity as an infinity with
 * pcclQuantE5M2 and as NaN with the others. docs/CODECS.md has formats and bounds of the error.
 *
 * With pcclQuantAuto, for sums and averages in all-reduces and in reduce-scatters of equal shares, the
 * library chooses for each operation: floats travel as they are, or as 16 (pcclQuantZeroPointScale), 8
 * (pcclQuantE4M3) or 4 bits (pcclQuantE2M1), whatever is the most that the last use of the tag lets
 * expect to take no longer than the budget; where nothing does, 4. All peers choose the same, and must
 * give the same budget. Block, scale and rounding are those of 8 and 4 bits; so is feedback, which
 * waits while more bits travel. pcclOperationInfo_t tells what was chosen, and why.
 * pcclSuccess
 * pcclInvalidArgument a pointer is NULL, the size is not set, there is no such codec, a budget of another
 *                     format than pcclQuantAuto, or both budgets
 */
PCCL_EXPORT pcclResult_t pcclCreateCodec(const pcclCodecParams_t *params, pcclQuantizationOptions_t *codec_out);

/* What coding costs. Later versions may add members at the end, as of pcclOperationInfo_t. */
typedef struct pcclCodecError_t {
    size_t size;           /* set by PCCL_CODEC_ERROR_INIT */
    double largest;        /* the largest error, as a share of the largest magnitude */
    double rms;            /* the root of the mean square of the errors, as a share of that of the elements */
    uint64_t not_finite;   /* elements left out: they, or what they became, are NaN or infinite */
    uint64_t packed_bytes; /* how long the elements are when they travel */
} pcclCodecError_t;

#define PCCL_CODEC_ERROR_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(pcclCodecError_t), 0, 0, 0, 0                                                                           \
    }

/*
 * Packs and unpacks these elements, once and for nobody, with any quantization, and tells how far they
 * come out from what they were. An all-reduce with a codec that pcclCreateCodec made adds the errors of
 * its peers' parts, and that of its result.
 * pcclSuccess
 * pcclInvalidArgument a pointer is NULL, the size is not set, or a quantization that does not fit
 */
PCCL_EXPORT pcclResult_t pcclMeasureCodec(const pcclQuantizationOptions_t *codec, const void *elements, size_t count,
                                          pcclDataType_t datatype, pcclCodecError_t *error_out);

/*
 * What error feedback keeps for a tag, for a checkpoint. *count: how many floats feedback_out takes;
 * set to how many are kept, 0 if none are. feedback_out may be NULL, to ask for that.
 * pcclSuccess
 * pcclInvalidArgument so many floats are not kept, or count is NULL
 */
PCCL_EXPORT pcclResult_t pcclGetFeedback(const pcclComm_t *comm, uint64_t tag, float *PCCL_NULLABLE feedback_out,
                                         size_t *count);
/*
 * Keeps these instead, for the next operation with the tag if it has as many elements; none if count is 0.
 * pcclSuccess
 * pcclInvalidArgument feedback is NULL
 * pcclInvalidUsage    an operation with the tag is not yet awaited
 * pcclInternalError   out of memory, or of what feedback_mib allows (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclSetFeedback(const pcclComm_t *comm, uint64_t tag, const float *PCCL_NULLABLE feedback,
                                         size_t count);

/* -------------------------------------------------------------------------------------------- sparse codec */

/*
 * The sparse codec keeps of each PCCL_SPARSE_CHUNK floats (`kept` of them; of fewer at the end as large
 * a part, rounded up) those of the largest magnitude: 14 bits each, which are its place and one of two
 * magnitudes with a sign, and 8 bytes a chunk. The same elements are the same bytes, and these the same
 * bits, on all machines. It is no codec of operations: what one peer keeps another may not. Peers
 * exchange the bytes (pcclAllGatherV), and each adds up those of all. docs/CODECS.md has the layout.
 */
#define PCCL_SPARSE_CHUNK 4096

/*
 * How long `count` elements are when they are packed.
 * pcclSuccess
 * pcclInvalidArgument kept is not 1 to PCCL_SPARSE_CHUNK, or bytes_out is NULL
 */
PCCL_EXPORT pcclResult_t pcclGetSparseBytes(size_t count, uint32_t kept, size_t *bytes_out);
/*
 * Packs elements, which become what the bytes do not have: they, less what these decode to. That is error
 * feedback, if it is part of what is packed next time. bytes: as pcclGetSparseBytes says.
 * pcclSuccess
 * pcclInvalidArgument a pointer is NULL, a number does not fit, or an element is not finite: nothing was
 *                     written
 */
PCCL_EXPORT pcclResult_t pcclPackSparse(float *elements, size_t count, uint32_t kept, void *packed, size_t bytes);
/*
 * Whether these bytes, of whoever sent them, are what the codec makes of so many elements.
 * *square_out: the sum of the squares of what they decode to.
 * pcclSuccess
 * pcclInvalidArgument they are not, a number does not fit, or a pointer is NULL
 */
PCCL_EXPORT pcclResult_t pcclCheckSparse(const void *packed, size_t bytes, size_t count, uint32_t kept,
                                         double *square_out);
/*
 * Adds factor times what the bytes decode to, to `count` sums.
 * pcclSuccess
 * pcclInvalidArgument as pcclCheckSparse: nothing was added
 */
PCCL_EXPORT pcclResult_t pcclAddSparse(const void *packed, size_t bytes, size_t count, uint32_t kept, float factor,
                                       float *sums);

#ifdef __cplusplus
}
#endif

#include "pccl_sight.h"

#endif
