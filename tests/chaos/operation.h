/*
 * One operation of any kind. Its key determines it, so all members draw the same. An input element depends on its
 * sender, its receiver, the operation and the place, so each peer can compute every element of its result from the
 * participants that the library names.
 */
#ifndef PCCL_TESTS_CHAOS_OPERATION_H
#define PCCL_TESTS_CHAOS_OPERATION_H

#include <pccl.h>

#include <stdint.h>

enum { MEMBERS_MAX = 16, KEY_SIZE = 48, GUARD = 64, WRONG_SIZE = 200, WORDS_SIZE = 400 };

struct members {
    pcclPeerId_t ids[MEMBERS_MAX];
    uint32_t count;
    uint32_t self; /* this peer's rank */
};

enum op_kind {
    OP_ALL_REDUCE,
    OP_BROADCAST,
    OP_ALL_GATHER,
    OP_REDUCE_SCATTER,
    OP_BARRIER,
    OP_ALL_GATHER_V,
    OP_REDUCE,
    OP_GATHER,
    OP_SCATTER,
    OP_ALL_TO_ALL,
    OP_GATHER_V,
    OP_SCATTER_V,
    OP_ALL_TO_ALL_V,
    OP_COALESCED,
    OP_SEND, /* to `root` */
    OP_RECV, /* from `root`, or from any peer */
    OP_EXCLUSIVE_SCAN,
    OP_INCLUSIVE_SCAN,
    OP_KINDS, /* the values of pcclCollective_t */
};

struct op {
    enum op_kind kind;
    char key[KEY_SIZE]; /* the same at all members, and unique to the operation */
    uint64_t salt;
    int type; /* as in values.h */
    pcclRedOp_t reduction;
    pcclQuantizationAlgorithm_t codec;
    size_t count;   /* of each part */
    uint32_t drawn; /* determines the root among any members */
    uint32_t root;
    bool in_place, counted /* names its members */, shares /* of different sizes */;
    bool of_group; /* whose members do not change */
    struct members members;

    pcclCollectiveOptions_t options;
    pcclOperationInfo_t info;
    pcclPeerId_t participants[MEMBERS_MAX];
    size_t counts[MEMBERS_MAX];
    pcclPart_t parts[MEMBERS_MAX];
    pcclCoalescedTensor_t tensors[2];
    uint8_t *send, *recv; /* given to the library */
    uint8_t *blocks[4];   /* owned */
    size_t send_bytes, recv_bytes;
    uint32_t arrivals;
    pcclBlobs_t blobs;
    pcclAsyncReduceOp_t handle;
    uint64_t number; /* in the history */
    char words[WORDS_SIZE];
    bool launched; /* and not yet awaited, unless the call did both */
    bool refused;  /* a shortage at this peer prevented its launch */
};

uint64_t mix(uint64_t a, uint64_t b);
uint64_t hash_id(const pcclPeerId_t *id);
const char *op_name(const struct op *op);

/* Returns any kind but a send or a receive. */
enum op_kind op_collective(uint64_t drawn);
/* Draws the operation from its key. Only `in_place` may differ between members. */
void op_draw(struct op *op, enum op_kind kind, const char *key, uint64_t tag, const struct members *members,
             size_t bytes_max);
/* Makes the buffers for its members. */
void op_arrange(struct op *op);
/* The same for other members than before, for an entry of a list. The result depends on these and the key only. */
void op_rearrange(struct op *op, const struct members *members);
/* Fills in an entry of a list. */
void op_describe(struct op *op, pcclOperation_t *entry);
/* Both record the beginning in the history. On a shortage they retry. */
pcclResult_t op_launch(struct op *op, const pcclComm_t *comm);
pcclResult_t op_carry_out(struct op *op, const pcclComm_t *comm);
/* Returns the result. If it is a failure, keeps the reason of this thread's last failed call. */
pcclResult_t op_ended(struct op *op, pcclResult_t result, const pcclComm_t *comm);
/* Checks the result, records the end in the history, and frees the buffers. */
void op_finish(struct op *op, pcclResult_t result);
/* The same for an operation whose communicator or group was destroyed first, so its outcome is unknown. result: of
   its await; pcclSuccess: it was not awaited. */
void op_forget(struct op *op, pcclResult_t result);
/* Returns a digest of the result if all members receive the same, otherwise 0. Legal until op_finish. */
uint64_t op_digest(const struct op *op);
void op_free(struct op *op);

#endif
