/*
 * Operation: one launch of one tag, in the peer's machine. Drivers may read it between launch and release, and write
 * only to `user`.
 */
#ifndef PCCL_PEER_OPERATION_H
#define PCCL_PEER_OPERATION_H

#include "core/list.h"
#include "core/status.h"
#include "core/table.h"
#include "core/text.h"
#include "wire/wire.h"

enum pccl_op_state {
    PCCL_OP_OPEN,      /* a receive from any peer, with no sender chosen: no other peer knows of it */
    PCCL_OP_RUNNING,   /* launched; bulk: `ready` was sent */
    PCCL_OP_DONE,      /* this peer's part is complete and `done` was sent; a tiny operation starts in this state */
    PCCL_OP_FAILED,    /* `failed` was sent */
    PCCL_OP_DECIDED,   /* the outcome is known */
    PCCL_OP_TOMBSTONE, /* aborted before this peer launched it */
};
struct pccl_peer_op {
    struct pccl_table_node by_instance; /* in the machine's table */
    struct pccl_table_node by_tag;
    struct pccl_peer_op *older, *newer; /* list of all operations, in order of creation */
    struct pccl_list_node in_open;      /* OPEN: in `open`; begun: possibly in `unlinked` */
    /* ask that counts this receive; NULL: none yet, or the receive is in neither list */
    struct pccl_ask *ask;
    /* list of the operations whose outcome is not known to all members, in order of decision */
    struct pccl_peer_op *before, *after;
    struct pccl_instance instance;
    struct pccl_epoch start_view; /* view in which it was begun; (0, 0) in a subgroup, which has no views */
    /* epoch of the attributes at launch, which tells the members that the caller counted on */
    struct pccl_epoch known;
    struct pccl_descriptor descriptor;
    struct pccl_choice choice, next_choice; /* automatic codec: of this use; after a commit: of the next use */
    enum pccl_op_state state;
    enum pccl_class class; /* DECIDED: NONE = committed */
    uint64_t decision;     /* the master's number of the outcome; 0: not told yet */
    bool tiny;
    bool followed;     /* another operation may replace this one; room for it is reserved while this one is held */
    bool from_anybody; /* the caller of this receive named no sender; when one is chosen, it becomes the root */
    bool given_up;     /* launched as given up: the descriptor is incomplete and may be invalid */
    bool started;      /* op_start was called for it */
    bool complete;     /* `done` was sent; a bulk operation may still fail afterwards, or commit although it failed */
    bool held;         /* the caller has not released it */
    bool confirmed;    /* the master's `outcome` has arrived (a view may have decided the operation before) */
    bool unstable;     /* confirmed, but the outcome is not known to all members: in the list of these */
    /* its subgroup or pair has ended, or is closed: it may be forgotten without the master's `outcome` */
    bool orphaned;
    bool awaited; /* a caller is blocked in it */
    bool abort_sent;
    enum pccl_class abort_class;
    struct pccl_text abort_reason;
    uint32_t world;   /* at launch */
    uint32_t seats;   /* founding: number of members, counted for as long as the operation is remembered */
    uint8_t *payload; /* owned; tiny: the contribution until the decision, then the result; NULL: both are empty */
    uint32_t payload_bytes, payload_capacity;
    uint64_t launched_us, deadline_us, where_us;
    uint64_t stuck_since_us;           /* as in struct pccl_vote_call */
    uint64_t begun_us;                 /* time of the launch, or of the last restart for a view that only replans */
    uint32_t restarts;                 /* number of times that it was begun again */
    uint32_t took_us;                  /* bulk, complete: time since begun_us */
    struct pccl_id sends_to;           /* begun bulk send: the member whose link it needs; otherwise 0 */
    struct pccl_attributes attributes; /* at the decision */
    struct pccl_member_list *roll;     /* shared with the machine: the member list at the decision */
    /* not OK: the operation ended at this peer only, with this status; the peer left, or closed the subgroup */
    enum pccl_status lost_by;
    struct pccl_text reason; /* why it was aborted */
    void *user;              /* belongs to the driver */
};

#endif
