/*
 * One operation of any kind, drawn so that all members draw the same, with inputs that follow from who gives them to
 * whom, in which operation and at which place. So each peer computes every element that it must get, from exactly the
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
    OP_COALESCED, /* so far the values of pcclCollective_t */
    OP_KINDS,
    OP_SEND = OP_KINDS, /* to `root` */
    OP_RECV,            /* from `root`, or from anybody */
};

enum codec { CODEC_NONE, CODEC_MIN_MAX, CODEC_ZERO_POINT, CODEC_E4M3, CODEC_AUTO, CODECS };

struct op {
    enum op_kind kind;
    char key[KEY_SIZE]; /* the same at all members, and never again */
    uint64_t salt;
    int type; /* as in values.h */
    pcclRedOp_t reduction;
    enum codec codec;
    size_t count; /* of each part */
    uint32_t root;
    bool in_place, counted /* names its members */, shares /* of different sizes */;
    struct members members;

    pcclCollectiveOptions_t options;
    pcclOperationInfo_t info;
    pcclPeerId_t participants[MEMBERS_MAX];
    size_t counts[MEMBERS_MAX];
    pcclPart_t parts[MEMBERS_MAX];
    pcclCoalescedTensor_t tensors[2];
    uint8_t *send, *recv; /* where the library is to read and write */
    uint8_t *blocks[4];   /* owned */
    size_t send_bytes, recv_bytes;
    uint32_t arrivals;
    pcclBlobs_t blobs;
    pcclAsyncReduceOp_t handle;
    uint64_t number; /* in the history */
    char words[WORDS_SIZE];
    bool launched; /* and not yet awaited, unless the call did both */
    bool refused;  /* it was not launched here, for want of something */
};

uint64_t mix(uint64_t a, uint64_t b);
uint64_t hash_id(const pcclPeerId_t *id);
const char *op_name(const struct op *op);

/* Draws what it is, from its salt; all of it but the way it is carried out is then the same at all members. */
void op_draw(struct op *op, enum op_kind kind, const char *key, uint64_t tag, const struct members *members,
             size_t bytes_max);
/* Makes the buffers for its members. After a change of `members` once more, for an entry of a list. */
void op_arrange(struct op *op);
/* For a list. */
void op_describe(struct op *op, pcclOperation_t *entry);
/* Both write the beginning into the history. */
pcclResult_t op_launch(struct op *op, const pcclComm_t *comm);
pcclResult_t op_carry_out(struct op *op, const pcclComm_t *comm);
/* Keeps the words of this thread's last failed call, if this is one; returns the result. */
pcclResult_t op_ended(struct op *op, pcclResult_t result, const pcclComm_t *comm);
/* Checks the result, writes the end into the history, and frees all. */
void op_finish(struct op *op, pcclResult_t result);
/* Of what all members get alike; other kinds have 0. Valid until op_finish. */
uint64_t op_digest(const struct op *op);
void op_free(struct op *op);

#endif
