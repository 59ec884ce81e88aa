/*
 * What a peer's machine is told: what happens on its connections, what became of its data, what the
 * application asks for. Its state changes by these events only (peer/peer.h). The machine copies
 * what they point to during the step, unless a comment says otherwise.
 */
#ifndef PCCL_PEER_EVENT_H
#define PCCL_PEER_EVENT_H

#include "core/status.h"
#include "core/text.h"
#include "peer/operation.h"
#include "wire/frame.h"
#include "wire/wire.h"

enum pccl_peer_event_kind {
    /* ---- connections and time; ignored before connect and after the end ---- */
    PCCL_PEER_MASTER_UP,       /* the connection to the master stands; the hello is not sent yet */
    PCCL_PEER_MASTER_DOWN,     /* dialing failed, or the connection closed (`hung_up`) or broke; `reason` says how */
    PCCL_PEER_MASTER_RECEIVED, /* a frame came */
    PCCL_PEER_MASTER_GARBAGE,  /* undecodable bytes came; `reason` says which, `frame` whether they came whole */
    PCCL_PEER_LINK_UP,         /* an outgoing link stands, or an incoming one was accepted */
    PCCL_PEER_LINK_DOWN,       /* it closed, or dialing failed; `how` says why */
    PCCL_PEER_END_GONE, /* an incoming connection ended here without link_bye, and no newer one has replaced it */
    PCCL_PEER_SHORTAGE, /* this host lacks what opening or accepting links takes; `reason` says what */
    PCCL_PEER_TICK,     /* the deadline has passed */

    /* ---- data ---- */

    /*
     * What operations showed of the outgoing link to this peer. The driver passes it before joint
     * calls, which may then make a new view. The master is told when a figure has moved since it
     * was last told.
     */
    PCCL_PEER_LINK_MEASURED,
    /*
     * Another peer has said `ready` for a bulk operation that does not run here. If this peer
     * launches (or has launched) it as a tiny one, the two disagree, and it is aborted with a
     * reason that names them and the difference.
     */
    PCCL_PEER_ANNOUNCED,
    /*
     * This peer's result of a bulk operation is complete. Ignored once the operation is decided, as
     * is OP_FAILED.
     */
    PCCL_PEER_OP_DONE,
    /*
     * The operation cannot go on; or, after OP_DONE, data that it sent may be lost, so the others
     * may never complete.
     */
    PCCL_PEER_OP_FAILED,
    /*
     * The transfer is about to write into the caller's memory for the first time. Until it
     * completes the content is torn.
     */
    PCCL_PEER_SYNC_TOUCHED,
    /* The proof of the elected content, which this peer brought; NULL: it could not be computed. */
    PCCL_PEER_SYNC_PROVEN,
    /*
     * This peer has fetched what the plan asks for; or it cannot, and `reason` says why. The call
     * ends when the round does.
     */
    PCCL_PEER_SYNC_DONE,
    /* What a test showed; ignored unless it is the latest test. */
    PCCL_PEER_TEST_DONE,
    /* What operations showed since the last report, for the master. */
    PCCL_PEER_SIGHT,
    /*
     * An invariant of the driver broke: the machine leaves, and everything outstanding ends with
     * INTERNAL and says where.
     */
    PCCL_PEER_BROKEN,

    /* ---- the application ---- */

    /*
     * A blocking call begins; it ends with the effect call_done, maybe before the step does. Refused
     * with USAGE if any such call is outstanding, or the peer is unconnected (CONNECT: if it is not).
     * UPDATE, SYNC and OPTIMIZE, which end an era, are also refused with PENDING_OPS while operations
     * are not released.
     *   CONNECT ends with OK, MASTER_UNREACHABLE, REFUSED, VERSION, TIMEOUT ...
     *   SYNC casts `vote`. It ends with OK (all hold the same, or this peer has fetched what the
     *   plan asked for), STATE (last_reason says why), ABORTED, TIMEOUT, EXPELLED (the state does
     *   not fit that of the others, and this peer is out of the run).
     *   OPTIMIZE measures the paths within the group and adopts the best ring. It ends with OK,
     *   NO_RING (none exists, as last_reason says; the ring stays as it was), ABORTED, TIMEOUT. If
     *   it is withdrawn after the tests have begun, it ends when they do, within seconds.
     * With a `reason` this peer cannot take part in SYNC or OPTIMIZE: it tells the others why, and the call fails for
     * all, with STATE or NO_RING.
     */
    PCCL_PEER_CALL,
    /*
     * Withdraws such a call: it still ends with call_done, as ABORTED, or with its result if that
     * was decided before.
     */
    PCCL_PEER_WITHDRAW,
    /*
     * Asks the master for a topology report of the group; ends with the effect `described`. USAGE:
     * unconnected, or a question is outstanding.
     */
    PCCL_PEER_DESCRIBE,
    /*
     * Tells the master of `training`, for those who watch. USAGE: unconnected. Nothing is told while
     * the master is away, or shortly after the last time.
     */
    PCCL_PEER_TRAINING,
    /*
     * Launches an operation. TOO_FEW_PEERS (not numbered), ARGUMENT (the tag is in use; or tiny, and
     * the payload is not as long as the descriptor says, or too long), USAGE (unconnected; or a call
     * that ends the era is outstanding), INTERNAL (no message can carry this
     * descriptor, as launch->refusal says), LIMIT, MEMORY. On OK the event's `op` is held by the caller
     * until OP_RELEASE; if its outcome came before it, it is decided already, and op_decided is not
     * called for it. One whose list of members is not that of the view never starts, and is aborted
     * for all, as MEMBERS_CHANGED.
     *   In a subgroup also: PEER_LOST (it has ended, as its `reason` says; not numbered), ARGUMENT
     *   (there is no such subgroup, or the root is not in it). It is never refused as TOO_FEW_PEERS.
     *   A send (PCCL_SEND), of which any number of one tag may be held: PEER_LOST (the other is no
     *   member of the group), LIMIT (also: bulk sends to too many others are under way, as launch->refusal says),
     *   ARGUMENT (the other is this peer, or neither is the root). A receive from anybody has the
     *   other and the root 0, and is only for sends of members of the subgroup, if there is one. It is
     *   OPEN, and nobody else knows of it, until somebody is chosen; then it is a receive from that
     *   peer, which is the root. A bulk one calls op_start then.
     *   The founding of one (PCCL_FOUND): ARGUMENT (not two members or more, one of them twice, or not
     *   this peer), MEMBERS_CHANGED (one is not in what pccl_peer_members gives; not numbered), LIMIT.
     *   When it commits, the subgroup is there: pccl_peer_founded.
     */
    PCCL_PEER_LAUNCH,
    /* A caller blocks in it, or has stopped blocking: for "who is where". */
    PCCL_PEER_OP_AWAIT,
    /*
     * Asks for an abort; the outcome still comes by op_decided, and may be a commit. `reason` may
     * be NULL.
     */
    PCCL_PEER_OP_ABORT,
    /*
     * The caller releases a decided operation: its tag is free, and the attributes are those of its
     * decision.
     */
    PCCL_PEER_OP_RELEASE,
    /*
     * The caller closes a subgroup that it has founded: it ends for all of its members, and what is
     * undecided in it as PEER_LOST. Here that does not wait for a master that is away, or goes away.
     * The driver must not look at it any more.
     */
    PCCL_PEER_SUBGROUP_CLOSE,
    /*
     * This peer is to go with the next update in which all have voted, or after drain_ms: everything outstanding then
     * ends with DRAINED. One that is not admitted yet goes at once. Ignored before connect, after the end, and again.
     */
    PCCL_PEER_DRAIN,
    /*
     * Sends `leave` and becomes unconnected; operations end with PEER_LOST and calls with ABORTED.
     */
    PCCL_PEER_LEAVE,
};

struct pccl_launch {
    uint64_t subgroup;    /* its name; 0: the whole group */
    uint64_t pair;        /* the machine's own */
    struct pccl_id other; /* of a send, whose root is who sends: this peer or the other one; 0: from anybody */
    uint64_t tag;         /* ignored for a founding, as is `subgroup` */
    struct pccl_descriptor descriptor;
    const uint8_t *payload; /* tiny: what this member contributes (wire/tiny.h), copied; NULL: nothing */
    uint32_t payload_bytes;
    bool tiny; /* a barrier and a founding always are */
    /*
     * With a budget, if it is neither tiny nor given up: what pccl_peer_choose has said, which has also made the
     * descriptor's codec. LIMIT: there are too many such tags.
     */
    struct pccl_choice choice;
    /*
     * The members, in canonical order, that the form of the buffers depends on; NULL: on none, and
     * in a subgroup. Ignored for a send. For a founding: the founders, in any order.
     */
    const struct pccl_id *members;
    uint32_t member_count;
    /*
     * An operation of this tag that was launched as one that may be `followed`, and has committed. It is
     * released, without an effect on the attributes, as no call returns, and this one takes its place:
     * no limit refuses it. NULL: none.
     */
    struct pccl_peer_op *after;
    bool followed; /* another launch may name this one as `after`: room is kept; tiny: its result has any length */
    uint32_t timeout_ms;  /* 0: the default */
    uint64_t deadline_us; /* deadline of the launch that this one repeats or continues; 0: none, timeout_ms applies */
    /*
     * NONE: it is meant. Else it never starts, whatever the payload and the members: the master is asked to abort it
     * as this, so that those who have launched it, or will, do not wait for this peer.
     */
    enum pccl_class given_up;
    const struct pccl_text *reason; /* of giving up; NULL: none */
    struct pccl_text *refusal;      /* written if the launch is refused as INTERNAL, or a send as LIMIT; may be NULL */
    void *user;
};

/* What a peer brings to a synchronization of shared state. */
struct pccl_sync_vote {
    uint64_t revision;
    uint8_t strategy; /* pcclSharedStateSyncStrategy_t */
    bool unequal;     /* some tensors need not be the same on all members */
    struct pccl_digest structure, content;
    const struct pccl_shape *shapes; /* the caller's; must stay in place until the call has ended */
    uint32_t shape_count;
    const struct pccl_tensor_line *lines; /* also the caller's; of the first tensors */
    uint32_t line_count;
};

/* What a test showed. */
struct pccl_peer_measurement {
    uint64_t test;
    bool failed;
    uint8_t how; /* failed: enum pccl_link_end; 0: locally, which shows nothing about the path */
    uint32_t rtt_us;
    uint64_t rate; /* bytes per second */
};

struct pccl_peer_event {
    enum pccl_peer_event_kind kind;
    enum pccl_call call; /* CALL, WITHDRAW */
    uint64_t now_us;
    uint64_t thread;         /* CALL, LAUNCH, OP_AWAIT: number of the program's thread that calls; 0: unknown */
    uint64_t subgroup;       /* SUBGROUP_CLOSE: its name */
    struct pccl_peer_op *op; /* OP_*; LAUNCH: the answer, if it is OK */
    const struct pccl_launch *launch; /* LAUNCH */
    const struct pccl_frame *frame;   /* MASTER_RECEIVED; MASTER_GARBAGE: NULL unless its checksum is right */
    const struct pccl_msg *msg;
    /*
     * MASTER_DOWN, MASTER_GARBAGE, SHORTAGE, OP_FAILED, OP_ABORT, SYNC_DONE: not complete; LINK_DOWN: reason why a
     * message was invalid, NULL if none was; CALL: NULL: this peer can take part
     */
    const struct pccl_text *reason;
    const char *where;                               /* BROKEN */
    const struct pccl_sync_vote *vote;               /* CALL of SYNC; ignored with a reason */
    const struct pccl_proof *proof;                  /* SYNC_PROVEN */
    const struct pccl_msg_ready *ready;              /* ANNOUNCED */
    const struct pccl_peer_measurement *measurement; /* TEST_DONE */
    struct pccl_id peer;                             /* LINK_*, END_GONE, ANNOUNCED */
    uint64_t number;                                 /* END_GONE: of the connection */
    const struct pccl_msg_sight *sight;              /* SIGHT */
    uint64_t rate;          /* LINK_MEASURED: bytes per second; 0: unknown, and nothing happens */
    bool shared;            /* LINK_MEASURED: other links used the same line, so the rate may be higher */
    uint32_t rtt_us;        /* LINK_MEASURED, LINK_UP if outgoing: the smallest round trip seen; 0: unknown */
    enum pccl_class class;  /* OP_FAILED, OP_ABORT */
    enum pccl_link_end how; /* LINK_DOWN; 0: this host lacks what dialing takes */
    bool incoming;          /* LINK_UP, LINK_DOWN */
    bool purposely;         /* LINK_DOWN: the other side said link_bye */
    bool hung_up;           /* MASTER_DOWN: the other side had accepted the connection, and closed it */
    bool other_build;       /* MASTER_GARBAGE: an answer of another build, as `reason` says in full */
    bool blocked;           /* OP_AWAIT */
    struct pccl_msg_training training; /* TRAINING */
    bool complete;                     /* SYNC_DONE */
};

#endif
