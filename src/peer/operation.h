/*
 * Operation in the peer's machine: one launch of a tag. Drivers may read it between launch and release, and write only
 * `user`.
 */
#ifndef PCCL_PEER_OPERATION_H
#define PCCL_PEER_OPERATION_H

#include "core/list.h"
#include "core/status.h"
#include "core/table.h"
#include "core/text.h"
#include "wire/wire.h"

enum pccl_op_state {
    PCCL_OP_OPEN,      /* a receive from any peer without a chosen sender; other peers do not know of it */
    PCCL_OP_RUNNING,   /* launched; for a bulk operation `ready` was sent */
    PCCL_OP_DONE,      /* this peer's part is complete and `done` was sent; a tiny operation starts in this state */
    PCCL_OP_FAILED,    /* `failed` was sent */
    PCCL_OP_DECIDED,   /* the outcome is known */
    PCCL_OP_TOMBSTONE, /* aborted before this peer launched it */
};
struct pccl_peer_op {
    struct pccl_table_node by_instance; /* in the machine's table */
    struct pccl_peer_op *older, *newer; /* list of all operations, in order of creation */
    struct pccl_list_node in_open;      /* receive: in `open`, `linked` or `unlinked` */
    struct pccl_use *use;               /* held: counter of its launches */
    /* request to the master that includes this receive; NULL if no request includes it or it is in no list */
    struct pccl_ask *ask;
    struct pccl_list_node in_unstable; /* in `unstable` if confirmed and some member may not know the outcome */
    struct pccl_instance instance;
    struct pccl_epoch start_view; /* view in which it began; (0, 0) in a subgroup, which has no views */
    /* epoch of the attributes at launch, which identifies the members that the caller expected */
    struct pccl_epoch known;
    struct pccl_descriptor descriptor;
    /* automatic codec: choice for this use; after a commit, choice for the next use */
    struct pccl_choice choice, next_choice;
    enum pccl_op_state state;
    enum pccl_class class; /* DECIDED: NONE if committed */
    uint64_t decision;     /* the master's number of the outcome; 0 if not received yet */
    bool tiny;
    bool followed;  /* true if another operation may replace this one, so its room stays reserved */
    bool from_any;  /* true if the caller of this receive named no sender; the chosen sender becomes the root */
    bool given_up;  /* true if launched as given up: the descriptor is incomplete and may be invalid */
    bool started;   /* true if op_start was called for it */
    bool complete;  /* true if `done` was sent; a bulk operation may fail after that, or commit although it failed */
    bool held;      /* true until the caller has released it */
    bool confirmed; /* true if the master's `outcome` has arrived; a view may have decided the operation before */
    /* true if its subgroup or pair has ended or was closed, so that it may be forgotten without an `outcome` */
    bool orphaned;
    bool awaited; /* true if a caller is blocked in it */
    bool abort_sent;
    enum pccl_class abort_class;
    struct pccl_text abort_reason;
    uint32_t world; /* number of members at launch */
    uint32_t seats; /* founding: number of members, which counts toward the limit until the operation is forgotten */
    uint32_t payload_bytes, payload_capacity;
    uint64_t launched_us, deadline_us, where_us;
    uint64_t stuck_since_us; /* as in struct pccl_vote_call */
    uint64_t begun_us;       /* time of the launch, or of the last restart in a new view */
    uint32_t restarts;       /* number of restarts */
    uint32_t took_us;        /* bulk, complete: time since begun_us */
    /* begun bulk send: the receiving member, to which it needs a link; otherwise 0 */
    struct pccl_id sends_to;
    struct pccl_attributes attributes;    /* attributes at the decision */
    struct pccl_member_list *member_list; /* member list at the decision, shared with the machine */
    /*
     * OK unless the operation ended only at this peer, because the peer left the run or closed the subgroup; in that
     * case the status with which it ended
     */
    enum pccl_status lost_by;
    struct pccl_text reason; /* reason for the abort */
    void *user;              /* owned by the driver */
    uint8_t payload[];       /* tiny: the contribution, after the decision the result */
};

#endif
