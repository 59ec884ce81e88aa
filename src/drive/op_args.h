/*
 * The arguments of an operation, common to all public functions: the launch of the machine, buffers, and members.
 * Arithmetic; knows no communicator.
 */
#ifndef PCCL_DRIVE_OP_ARGS_H
#define PCCL_DRIVE_OP_ARGS_H

#include "collective/extents.h"
#include "core/text.h"
#include "pccl.h"
#include "peer/event.h"

struct pccl_comm_composition;

struct pccl_op_args {
    /*
     * The caller sets tag, descriptor, deadline_us, given_up and reason. The rest, the root and the level of an
     * automatic codec depend on the members: pccl_comm_op_launch sets them.
     */
    struct pccl_launch launch;
    struct pccl_buffers buffers; /* in a broadcast both are the same; memory is NULL without an input or a result */
    const struct pccl_comm_composition *composed; /* NULL: a single operation of the machine */
    pcclBlobs_t *out;        /* result of blobs; the descriptor's count is the limit of its bytes */
    uint64_t length;         /* length of a blob, in bytes */
    const pcclPart_t *blobs; /* scatter_v and all_to_all_v: one blob per member, as the input; otherwise NULL */
    uint32_t blob_count;
    pcclArrivalCallback_t on_arrival; /* for blobs; may be NULL */
    void *user_data;                  /* argument of on_arrival */
    const struct pccl_id *members;    /* members in order of their ranks; NULL: as of the last call that has returned */
    uint32_t member_count;
    bool needs_members;     /* ranks matter, or the caller lists members, so that only these members can take part */
    uint32_t root;          /* rank of the root; in a send, of the other peer, or PCCL_ANY_PEER, ... */
    bool sends;             /* ... and true at the source */
    const uint64_t *starts; /* parts of given lengths: start of each, and end of the last one; otherwise NULL */
    uint32_t part_count;
    bool alone_ok; /* a peer alone in its group carries it out by itself */
    double factor; /* premultiplied sum: factor for this peer's elements */
    bool feedback; /* scaled codec: the error of packing is kept for the next use of the tag */
};

/* A peer's sizes in the buffers, which depend on its place among the members. */
struct pccl_op_args_extent {
    size_t input, result;
    size_t own; /* offset of this peer's part in the buffer that has one for each member */
};

/* Returns a digest of the lengths of parts, for comparison between peers; never zero. */
struct pccl_id pccl_op_args_digest(const uint64_t *starts, uint32_t part_count);
/* Returns a digest of the counts, types and reductions of tensors; each is a non-empty extent of the input. */
struct pccl_id pccl_op_args_digest_tensors(const struct pccl_buffers *buffers);
/* Returns the section with this index; without a list of sections the only one, of `bytes` bytes. */
struct pccl_section pccl_op_args_section(const struct pccl_op_args *args, uint32_t index, size_t bytes);
bool pccl_op_args_is_from_any(const struct pccl_op_args *args);
/* Returns the offset of a member's part in a buffer with a part for each; for rank `world`, the end. */
size_t pccl_op_args_part_at(const struct pccl_op_args *args, uint32_t rank);
struct pccl_op_args_extent pccl_op_args_extent(const struct pccl_op_args *args, uint32_t world, uint32_t rank);
/*
 * Checks the buffers in a world of this size. Returns ARGUMENT with a reason if they are too large, missing, or overlap
 * in a forbidden way.
 */
PCCL_MUST_CHECK enum pccl_status pccl_op_args_check_buffers(const struct pccl_op_args *args, uint32_t world,
                                                            uint32_t rank, struct pccl_text *reason);

#endif
