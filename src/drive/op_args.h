/*
 * Arguments of an operation, common to all public functions: the launch for the state machine, buffers, and members.
 * Contains only arithmetic, without a communicator.
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
     * The caller sets tag, descriptor, deadline_us, given_up and reason. pccl_comm_op_launch sets the other fields, and
     * also the root and the level of an automatic codec, because they depend on the members.
     */
    struct pccl_launch launch;
    struct pccl_buffers buffers; /* input and result are equal in a broadcast; memory: NULL if unused */
    const struct pccl_comm_composition *composed; /* NULL for a single operation of the state machine */
    pcclBlobs_t *out;        /* result of an operation on blobs; the descriptor's count limits its bytes */
    uint64_t length;         /* length of a blob in bytes */
    const pcclPart_t *blobs; /* scatter_v and all_to_all_v: one blob per member, in place of an input; otherwise NULL */
    uint32_t blob_count;
    pcclArrivalCallback_t on_arrival; /* for operations on blobs; may be NULL */
    void *user_data;                  /* argument of on_arrival */
    const struct pccl_id *members; /* required members, by rank; NULL: the members after the last call that returned */
    uint32_t member_count;
    bool needs_members; /* true if ranks matter or the caller lists members, so that only these members may take part */
    uint32_t root;      /* rank of the root; for a send or receive, rank of the other peer or PCCL_ANY_PEER */
    bool sends;
    const uint64_t *starts; /* parts of different lengths: start of each part and end of the last; otherwise NULL */
    uint32_t part_count;
    bool alone_ok; /* a peer that is alone in its group performs the operation locally */
    double factor; /* premultiplied sum: factor of this peer's elements */
    bool feedback; /* scaled codec: keep the packing error for the next use of the tag */
};

/* Sizes of a peer's buffers, which depend on its rank. */
struct pccl_op_args_extent {
    size_t input, result;
    size_t own; /* offset of this peer's part in the buffer that has a part for each member */
};

/* Returns a digest of the lengths of parts, which peers compare; never zero. */
struct pccl_id pccl_op_args_digest(const uint64_t *starts, uint32_t part_count);
/* Returns a digest of the counts, types and reductions of tensors; each tensor is a non-empty extent of the input. */
struct pccl_id pccl_op_args_digest_tensors(const struct pccl_buffers *buffers);
/* Returns the section with this index. Without a list of sections, returns the only section, of `bytes` bytes. */
struct pccl_section pccl_op_args_section(const struct pccl_op_args *args, uint32_t index, size_t bytes);
bool pccl_op_args_is_from_any(const struct pccl_op_args *args);
/* Returns the offset of a member's part in a buffer with a part for each member; for rank `world`, the end. */
size_t pccl_op_args_part_at(const struct pccl_op_args *args, uint32_t rank);
struct pccl_op_args_extent pccl_op_args_extent(const struct pccl_op_args *args, uint32_t world, uint32_t rank);
/*
 * Checks the buffers for this number of members. Returns ARGUMENT with a reason if they are missing or too large, or
 * overlap in a forbidden way.
 */
PCCL_MUST_CHECK enum pccl_status pccl_op_args_check_buffers(const struct pccl_op_args *args, uint32_t world,
                                                            uint32_t rank, struct pccl_text *reason);

#endif
