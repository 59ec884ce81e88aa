/*
 * One launch of one tag, as the peer's machine keeps it. Drivers may read it between launch and
 * release, and write to `user` only.
 */
#ifndef PCCL_PEER_OPERATION_H
#define PCCL_PEER_OPERATION_H

#include "core/list.h"
#include "core/status.h"
#include "core/table.h"
#include "core/text.h"
#include "wire/wire.h"

enum pccl_op_state {
    PCCL_OP_OPEN,      /* a receive from anybody, and nobody is chosen: no other peer knows of it */
    PCCL_OP_RUNNING,   /* launched; bulk: `ready` sent */
    PCCL_OP_DONE,      /* own part complete, `done` sent; a tiny operation starts here */
    PCCL_OP_FAILED,    /* `failed` sent */
    PCCL_OP_DECIDED,   /* the outcome is known */
    PCCL_OP_TOMBSTONE, /* aborted before this peer launched it */
};
struct pccl_peer_op {
    struct pccl_table_node by_instance; /* in the machine's table */
    struct pccl_table_node by_tag;
    struct pccl_peer_op *older, *newer;  /* all operations, in order of creation */
    struct pccl_list_node in_open;       /* OPEN: in `open`; begun: maybe in `unlinked` */
    struct pccl_ask *ask;                /* the one that counts it; NULL: none yet, or in neither list */
    struct pccl_peer_op *before, *after; /* those whose outcome is not known to all, in order of decision */
    struct pccl_instance instance;
    struct pccl_epoch start_view; /* in which it was begun; (0, 0) in a subgroup, which has no views */
    struct pccl_epoch known;      /* of the attributes at launch: the members that the caller counted on */
    struct pccl_descriptor descriptor;
    struct pccl_choice choice, next_choice; /* of an automatic codec: for this use; committed: for the next one */
    enum pccl_op_state state;
    enum pccl_class class; /* DECIDED: NONE = committed */
    uint64_t decision;     /* the master's number of the outcome; 0: not told yet */
    bool tiny;
    bool followed;     /* another operation may take its place, for which room is kept while this one is held */
    bool from_anybody; /* a receive whose caller named nobody; once somebody is chosen that is the root */
    bool given_up;     /* launched as given up: its descriptor was never completed and may be invalid */
    bool started;      /* op_start was called for it */
    bool complete;  /* `done` was said; a bulk operation may still fail after that, or be committed although it did */
    bool held;      /* the caller has not released it */
    bool confirmed; /* the master's `outcome` has come (a view may have decided before it) */
    bool unstable;  /* ... and is not known to all members: in the list of these */
    bool orphaned;  /* its subgroup has ended, or is closed: nothing more counts of it, unless the master restarts */
    bool awaited;   /* a caller is blocked in it */
    bool abort_sent;
    enum pccl_class abort_class;
    struct pccl_text abort_reason;
    uint32_t world;   /* at launch */
    uint32_t seats;   /* of a founding: the members, counted as long as it is remembered */
    uint8_t *payload; /* owned: the contribution until decided, then the result (tiny; NULL: both are empty) */
    uint32_t payload_bytes, payload_capacity;
    uint64_t launched_us, deadline_us, where_us;
    uint64_t stuck_since_us;           /* as in struct pccl_vote_call */
    uint64_t begun_us;                 /* when it was launched, or begun again for a view that only re-plans */
    uint32_t restarts;                 /* how often it was begun again */
    uint32_t took_us;                  /* bulk, complete: since it was begun */
    struct pccl_id sends_to;           /* a bulk send that has begun: whose link it needs; else 0 */
    struct pccl_attributes attributes; /* at the decision */
    struct pccl_roll *roll;            /* the machine's: the members then */
    enum pccl_status lost_by;          /* not OK: it ended here alone, as this; its peer left, or closed the subgroup */
    struct pccl_text reason;           /* why it was aborted */
    void *user;                        /* the driver's */
};

#endif
