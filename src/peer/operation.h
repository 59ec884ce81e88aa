/*
 * One launch of one tag, as the peer's machine keeps it. Drivers read it between launch and release, and write nothing
 * of it but what is theirs.
 */
#ifndef PCCL_PEER_OPERATION_H
#define PCCL_PEER_OPERATION_H

#include "core/status.h"
#include "core/table.h"
#include "core/text.h"
#include "wire/wire.h"

enum pccl_op_state {
    PCCL_OP_RUNNING,   /* launched; bulk: READY sent */
    PCCL_OP_DONE,      /* own part complete, DONE sent; a tiny operation is here at once */
    PCCL_OP_FAILED,    /* FAILED sent */
    PCCL_OP_DECIDED,   /* the outcome is known */
    PCCL_OP_TOMBSTONE, /* decided (aborted) before this peer launched it */
};
struct pccl_peer_op {
    struct pccl_table_node by_instance; /* in the machine's table */
    struct pccl_table_node by_tag;
    struct pccl_peer_op *older, *newer;  /* all operations, in order of creation */
    struct pccl_peer_op *before, *after; /* those whose outcome is not known to all, in order of decision */
    struct pccl_instance instance;
    struct pccl_epoch start_view;
    struct pccl_epoch known; /* of the attributes at launch: the caller counts with who was there then */
    struct pccl_descriptor descriptor;
    enum pccl_op_state state;
    enum pccl_class class; /* DECIDED: NONE = committed */
    uint64_t decision;     /* the master's number of the outcome; 0: not told yet */
    bool tiny;
    bool started;   /* op_start was called for it */
    bool complete;  /* DONE was said; a bulk operation may fail behind it, and be committed for all that */
    bool held;      /* the caller has not released it */
    bool confirmed; /* the master's OUTCOME has come (a view change may decide before it) */
    bool unstable;  /* ... and is not known to all; in that list */
    bool awaited;   /* a caller is blocked in it */
    bool abort_sent;
    enum pccl_class abort_class;
    struct pccl_text abort_reason;
    uint32_t world;   /* at launch */
    uint8_t *payload; /* owned: the contribution until decided, then the result (tiny) */
    uint32_t payload_bytes, payload_capacity;
    uint64_t launched_us, deadline_us, where_us;
    struct pccl_attributes attributes; /* at the decision */
    enum pccl_status lost_by;          /* not OK: it ended because this peer is out of the run, for this reason */
    struct pccl_text reason;           /* why it was aborted */
    void *user;                        /* the driver's */
};

#endif
