/*
 * The arguments of an operation, the same for all public functions: the launch of the machine, buffers, and members.
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
     * The caller sets tag, descriptor, deadline_us, given_up and reason. The rest, the root and an automatic codec
     * follow from the members: pccl_comm_op_launch sets them.
     */
    struct pccl_launch launch;
    struct pccl_buffers buffers; /* in a broadcast both are one; memory NULL: nothing is put in here, or got */
    const struct pccl_comm_composition *composed; /* NULL: it is one operation of the machine */
    pcclBlobs_t *out;        /* of blobs, instead of a result; the descriptor's count is their most bytes */
    uint64_t length;         /* of a blob, in bytes */
    const pcclPart_t *blobs; /* instead of the input: of whom has one for each member; NULL: none */
    uint32_t blob_count;
    pcclArrivalCallback_t on_arrival; /* of blobs; NULL: not wanted */
    void *user_data;                  /* its */
    const struct pccl_id *members;    /* in order of their ranks; NULL: as of the last call that has returned */
    uint32_t member_count;
    bool needs_members;     /* ranks matter, or the caller names members: only certain members can carry it out */
    uint32_t root;          /* its rank; of a send that of the other peer, or PCCL_ANY_PEER, ... */
    bool sends;             /* ... and this one is the source */
    const uint64_t *starts; /* of parts of given lengths: where each begins, and where the last one ends; or NULL */
    uint32_t part_count;
    bool alone_ok; /* a peer that is alone in its group carries it out by itself */
    double factor; /* of a premultiplied sum: what the elements of this peer are multiplied by */
    bool feedback; /* with a scaled codec: what packing takes is kept for the next use of the tag */
};

/* A peer's place among the members, and how many bytes of the buffers that makes. */
struct pccl_op_args_extent {
    size_t input, result;
    size_t own; /* where this peer's part begins, in the buffer that has one for each member */
};

/* Of the lengths of parts, for peers to compare; never zero. */
struct pccl_id pccl_op_args_digest(const uint64_t *starts, uint32_t part_count);
/* The same of the counts, types and reductions of tensors, each an extent of the input, and none empty. */
struct pccl_id pccl_op_args_digest_tensors(const struct pccl_buffers *buffers);
/* The section with this index; without a list of them the only one, of so many bytes. */
struct pccl_section pccl_op_args_section(const struct pccl_op_args *args, uint32_t index, size_t bytes);
bool pccl_op_args_is_from_anybody(const struct pccl_op_args *args);
/* Returns the first byte of a member's part in a buffer with a part for each; of rank `world`, the end. */
size_t pccl_op_args_part_at(const struct pccl_op_args *args, uint32_t rank);
struct pccl_op_args_extent pccl_op_args_extent(const struct pccl_op_args *args, uint32_t world, uint32_t rank);
/* ARGUMENT with a reason: in a world of this size they are too large, or they overlap as they must not. */
PCCL_MUST_CHECK enum pccl_status pccl_op_args_check_buffers(const struct pccl_op_args *args, uint32_t world,
                                                            uint32_t rank, struct pccl_text *reason);

#endif
