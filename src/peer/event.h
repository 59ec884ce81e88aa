/*
 * What a peer's machine is told: what happens on its connections, what became of its data, what the application asks.
 * Everything that changes its state is one of these events (peer/peer.h). What they point to is read during the step,
 * and copied, unless it says otherwise.
 */
#ifndef PCCL_PEER_EVENT_H
#define PCCL_PEER_EVENT_H

#include "core/status.h"
#include "core/text.h"
#include "peer/operation.h"
#include "wire/frame.h"
#include "wire/wire.h"

enum pccl_peer_event_kind {
    /* ---- the control connection, the links and time; ignored before the first call and after the end ---- */
    PCCL_PEER_MASTER_UP,       /* the connection to the master stands (hello not yet sent) */
    PCCL_PEER_MASTER_DOWN,     /* dialing failed, or the connection closed or broke; `words` says how */
    PCCL_PEER_MASTER_RECEIVED, /* a frame came */
    PCCL_PEER_MASTER_GARBAGE,  /* undecodable bytes came; `words` */
    PCCL_PEER_LINK_UP,         /* an outgoing link stands, or an incoming one was accepted */
    PCCL_PEER_LINK_DOWN,       /* it closed; or dialing failed; `how` */
    PCCL_PEER_TICK,            /* the deadline has passed */

    /* ---- data ---- */

    /*
     * What the data that flowed over the outgoing link to this peer showed. To be said before joint calls, which may
     * then make a new view. The master is told when a figure has moved since it was told last.
     */
    PCCL_PEER_LINK_MEASURED,
    /*
     * Another peer has started `ready` as a bulk operation, which has not been started here. If this peer launches (or
     * has launched) it as a tiny one, peers differ, and it is aborted in words that say who and in what.
     */
    PCCL_PEER_ANNOUNCED,
    /* Of a bulk operation this peer's result is complete. Ignored when it is decided, as is OP_FAILED. */
    PCCL_PEER_OP_DONE,
    /* It cannot go on; or, behind OP_DONE, what it had sent may be lost: then the others may never complete. */
    PCCL_PEER_OP_FAILED,
    /* The plan's first write into memory is about to happen: until it is done the content is nobody's. */
    PCCL_PEER_SYNC_TOUCHED,
    /* The proof of what the plan elected and this peer brought; NULL: it could not be computed. */
    PCCL_PEER_SYNC_PROVEN,
    /* What the plan asked of a requester is there; or cannot be had, with words. The call ends when the round does. */
    PCCL_PEER_SYNC_DONE,
    /* What a test showed. Of a test that is not the latest one it is ignored. */
    PCCL_PEER_TEST_DONE,
    /* What the machine drives has broken: it leaves; everything outstanding ends with INTERNAL, and says where. */
    PCCL_PEER_BROKEN,

    /* ---- the application ---- */

    /*
     * A blocking call begins; it ends in the call_done effect, maybe before the step does. Refused with USAGE: such a
     * call is outstanding, or unconnected (CONNECT: not unconnected); and UPDATE, SYNC and OPTIMIZE, which end an era,
     * with USAGE when another of them is outstanding, and with PENDING_OPS when operations are not released.
     *   CONNECT ends with OK, MASTER_UNREACHABLE, REFUSED, VERSION, TIMEOUT ...
     *   SYNC, which brings `vote` before the group, with OK (all hold the same, or this peer has what the plan asked it
     *   for), STATE (with words in last_reason), ABORTED, TIMEOUT, EXPELLED (the state does not go with the others';
     *   this peer is out of the run).
     *   OPTIMIZE, which measures the ways within the group and adopts the best ring, with OK, NO_RING (none exists,
     *   with words in last_reason; the ring is as it was), ABORTED, TIMEOUT. Given up when the tests have begun it ends
     *   as they do, within seconds.
     */
    PCCL_PEER_CALL,
    /* Gives such a call up: it still ends by call_done, with ABORTED or with its result if that was decided before. */
    PCCL_PEER_WITHDRAW,
    /* Asks the master how it sees the group's links; ends in the effect `described`. USAGE: unconnected, or asked. */
    PCCL_PEER_DESCRIBE,
    /*
     * Launches an operation. TOO_FEW_PEERS (not numbered), ARGUMENT (the tag is in use; or tiny and too long), USAGE
     * (unconnected; or a call that ends the era is outstanding), LIMIT, MEMORY. On OK the event's `op` is held by the
     * caller until OP_RELEASE; it may be decided already, and then op_decided is not called for it.
     */
    PCCL_PEER_LAUNCH,
    /* A caller blocks in it, or stopped: for "who is where". */
    PCCL_PEER_OP_AWAIT,
    /* Asks for an abort; the outcome still comes by op_decided (and may be a commit). `words` may be NULL. */
    PCCL_PEER_OP_ABORT,
    /* The caller is done with a decided operation: its tag is free; attributes are taken from its decision. */
    PCCL_PEER_OP_RELEASE,
    /* Says good-bye and becomes unconnected; everything outstanding ends with PEER_LOST / ABORTED. */
    PCCL_PEER_LEAVE,
};

struct pccl_launch {
    uint64_t tag;
    struct pccl_descriptor descriptor;
    const uint8_t *payload; /* tiny: the caller's elements, copied */
    uint32_t payload_bytes;
    bool tiny;
    uint32_t timeout_ms; /* 0: the default */
    void *user;
};

/* What a peer brings to a synchronization of shared state. */
struct pccl_sync_vote {
    uint64_t revision;
    uint8_t strategy; /* pcclSharedStateSyncStrategy_t */
    bool unequal;     /* some tensors need not be the same everywhere */
    struct pccl_digest structure, content;
    const struct pccl_shape *shapes; /* the caller's; in place until the call has ended */
    uint32_t shape_count;
    const struct pccl_tensor_line *lines; /* the same, of the first tensors */
    uint32_t line_count;
};

/* What a test showed. */
struct pccl_peer_measurement {
    uint64_t test;
    bool failed;
    uint8_t how; /* failed: enum pccl_link_end; 0: by no fault of the way */
    uint32_t rtt_us;
    uint64_t rate; /* bytes per second */
};

struct pccl_peer_event {
    enum pccl_peer_event_kind kind;
    enum pccl_call call; /* CALL, WITHDRAW */
    uint64_t now_us;
    struct pccl_peer_op *op;          /* OP_*; LAUNCH: the answer, if it is OK */
    const struct pccl_launch *launch; /* LAUNCH */
    const struct pccl_frame *frame;   /* MASTER_RECEIVED */
    const struct pccl_msg *msg;
    const struct pccl_text *reason;     /* MASTER_DOWN, MASTER_GARBAGE, OP_FAILED, OP_ABORT, SYNC_DONE: not complete */
    const char *where;                  /* BROKEN */
    const struct pccl_sync_vote *vote;  /* CALL of SYNC */
    const struct pccl_proof *proof;     /* SYNC_PROVEN */
    const struct pccl_msg_ready *ready; /* ANNOUNCED */
    const struct pccl_peer_measurement *measurement; /* TEST_DONE */
    struct pccl_id peer;                             /* LINK_*, ANNOUNCED */
    uint64_t rate;          /* LINK_MEASURED: bytes per second; 0: unknown, and nothing happens */
    uint32_t rtt_us;        /* LINK_MEASURED, LINK_UP if outgoing: the smallest round trip seen; 0: unknown */
    enum pccl_class class;  /* OP_FAILED, OP_ABORT */
    enum pccl_link_end how; /* LINK_DOWN */
    bool incoming;          /* LINK_UP, LINK_DOWN */
    bool purposely;         /* LINK_DOWN: the other side said link_bye */
    bool other_version;     /* MASTER_GARBAGE: an answer of another protocol version */
    bool blocked;           /* OP_AWAIT */
    bool complete;          /* SYNC_DONE */
};

#endif
