/*
 * Events: the input of a peer's machine. They report events on its connections, the progress of data operations, and
 * the calls of the application. The state of the machine changes by these events only (peer/peer.h). The machine copies
 * everything that an event points to during the step, unless a comment says otherwise.
 */
#ifndef PCCL_PEER_EVENT_H
#define PCCL_PEER_EVENT_H

#include "core/status.h"
#include "core/text.h"
#include "peer/operation.h"
#include "wire/frame.h"
#include "wire/wire.h"

enum pccl_peer_event_kind {
    /* ---- connections and time; ignored before connect and after the end of the machine's life ---- */
    PCCL_PEER_MASTER_UP,       /* the connection to the master is up; the hello has not been sent yet */
    PCCL_PEER_MASTER_DOWN,     /* dialing failed, or the connection closed (`hung_up`) or broke; `reason` says how */
    PCCL_PEER_MASTER_RECEIVED, /* a frame has arrived */
    /* undecodable bytes have arrived; `reason` describes them, `frame` says whether they are complete */
    PCCL_PEER_MASTER_GARBAGE,
    PCCL_PEER_LINK_UP,   /* an outgoing link is up, or an incoming link was accepted */
    PCCL_PEER_LINK_DOWN, /* the link closed, or dialing failed; `how` says why */
    PCCL_PEER_END_GONE,  /* an incoming connection ended without link_bye, and no newer one has replaced it */
    PCCL_PEER_SHORTAGE,  /* this host lacks the resources to open or accept links; `reason` names them */
    PCCL_PEER_TICK,      /* the deadline has passed */

    /* ---- data ---- */

    /*
     * Figures that operations measured on the outgoing link to this peer. The driver passes the event before joint
     * calls, which may then make a new view. The machine reports a figure to the master when it has changed since the
     * last report.
     */
    PCCL_PEER_LINK_MEASURED,
    /*
     * Another peer has sent `ready` for a bulk operation that does not run here. If this peer launches it, or has
     * launched it, as a tiny operation, the two disagree, and the machine has it aborted with a reason that names both
     * peers and the difference.
     */
    PCCL_PEER_ANNOUNCED,
    /* This peer's result of a bulk operation is complete. Ignored when the operation is decided, as is OP_FAILED. */
    PCCL_PEER_OP_DONE,
    /*
     * The operation cannot continue; or, after OP_DONE, data that it sent may be lost, so that other members may never
     * complete it.
     */
    PCCL_PEER_OP_FAILED,
    /*
     * The transfer is about to write into the caller's memory for the first time. Until the transfer completes the
     * content is torn.
     */
    PCCL_PEER_SYNC_TOUCHED,
    /* `proof` proves the elected content, which this peer brought. NULL: it could not be computed. */
    PCCL_PEER_SYNC_PROVEN,
    /*
     * This peer has fetched everything that the plan asks for; or it cannot, and `reason` says why. The call ends when
     * the round does.
     */
    PCCL_PEER_SYNC_DONE,
    /* Result of a test. Ignored unless the test is the last one. */
    PCCL_PEER_TEST_DONE,
    /* Telemetry that operations have produced since the last report, for the master. */
    PCCL_PEER_TELEMETRY,
    /*
     * An invariant of the driver is broken. The machine leaves, and everything outstanding ends with INTERNAL and names
     * the place.
     */
    PCCL_PEER_BROKEN,

    /* ---- the application ---- */

    /*
     * A blocking call begins. It ends with the effect call_done, possibly before the step returns. Refused with USAGE
     * if any such call is outstanding, or the peer is unconnected (CONNECT: if it is connected). UPDATE, SYNC and
     * OPTIMIZE, which end an era, are also refused with PENDING_OPS while operations are not released.
     *
     *   CONNECT ends with OK, MASTER_UNREACHABLE, REFUSED, VERSION, TIMEOUT ...
     *   SYNC casts `vote`. It ends with OK (all members hold the same content, or this peer has
     *   fetched everything that the plan asked for), STATE (last_reason says why), ABORTED, TIMEOUT,
     *   EXPELLED (the state is incompatible with the group's, and this peer was removed from the run).
     *   OPTIMIZE measures the paths within the group and adopts the best ring. It ends with OK,
     *   NO_RING (no ring exists, as last_reason says; the ring is unchanged), ABORTED, TIMEOUT. A
     *   call that is withdrawn after the tests have begun ends when the tests do, within seconds.
     *
     * With a `reason`, this peer cannot take part in SYNC or OPTIMIZE. The reason is sent to the other members, and the
     * call fails for all of them, with STATE or NO_RING.
     */
    PCCL_PEER_CALL,
    /*
     * Withdraws the call. It still ends with call_done: as ABORTED, or with its result if the result was decided
     * before.
     */
    PCCL_PEER_WITHDRAW,
    /*
     * Requests a topology report of the group from the master. Ends with the effect `described`. USAGE: unconnected, or
     * a request is outstanding.
     */
    PCCL_PEER_DESCRIBE,
    /*
     * Sends `training` to the master, for those who monitor the run. USAGE: unconnected. Nothing is sent while the
     * master is away, or shortly after the previous report.
     */
    PCCL_PEER_TRAINING,
    /*
     * Launches an operation. Returns TOO_FEW_PEERS (not numbered), ARGUMENT (the tag is in use; or tiny, and the
     * payload does not have the length that the descriptor gives, or is too long), USAGE (unconnected; or a call that
     * ends the era is outstanding), INTERNAL (no message can carry this descriptor, as launch->refusal says), LIMIT,
     * MEMORY. On OK the caller holds the event's `op` until OP_RELEASE. If the outcome arrived before the launch, the
     * operation is decided already, and op_decided is not called for it. An operation whose list of members differs
     * from the view's never starts, and is aborted for all as MEMBERS_CHANGED.
     *
     *   In a subgroup also: PEER_LOST (the subgroup has ended, as its `reason` says; not numbered),
     *   ARGUMENT (there is no subgroup of this name, or the root is not in it). Never TOO_FEW_PEERS.
     *
     *   A send (PCCL_SEND), of which a caller may hold any number of one tag: PEER_LOST (the other
     *   peer is no member of the group), LIMIT (also: bulk sends to too many other members are in
     *   progress, as launch->refusal says), ARGUMENT (the other peer is this peer, or neither of them
     *   is the root). A receive from any peer has the other and the root 0, and takes only sends of
     *   members of the subgroup, if one is given. It is OPEN, and no other peer knows of it, until a
     *   sender is chosen. Then it is a receive from that peer, which is the root; a bulk receive calls
     *   op_start then.
     *
     *   The founding of a subgroup (PCCL_FOUND): ARGUMENT (fewer than two members, a member listed
     *   twice, or this peer not listed), MEMBERS_CHANGED (a listed peer is not in the list that
     *   pccl_peer_members returns; not numbered), LIMIT. When the founding commits, the subgroup
     *   exists: pccl_peer_founded.
     */
    PCCL_PEER_LAUNCH,
    /* A caller has begun to wait in the operation, or has stopped waiting. For "who is where". */
    PCCL_PEER_OP_AWAIT,
    /* Requests an abort. op_decided still reports the outcome, which may be a commit. `reason` may be NULL. */
    PCCL_PEER_OP_ABORT,
    /*
     * The caller releases a decided operation. The tag becomes free, and this peer's attributes become the operation's.
     */
    PCCL_PEER_OP_RELEASE,
    /*
     * The caller closes a subgroup that it has founded. The subgroup ends for all of its members, and its undecided
     * operations end with PEER_LOST. If the master is away or is lost later, they end here without waiting for it. The
     * driver must not read the subgroup afterwards.
     */
    PCCL_PEER_SUBGROUP_CLOSE,
    /*
     * This peer is to leave with the next update in which all have voted, or after drain_ms. Everything outstanding
     * then ends with DRAINED. A peer that is not admitted yet leaves at once. Ignored before connect, after the end of
     * the machine's life, and when repeated.
     */
    PCCL_PEER_DRAIN,
    /* Sends `leave` and becomes unconnected. Operations end with PEER_LOST and calls with ABORTED. */
    PCCL_PEER_LEAVE,
};

struct pccl_launch {
    uint64_t subgroup;    /* name of the subgroup; 0: the whole group */
    uint64_t pair;        /* set by the machine */
    struct pccl_id other; /* for a send, whose root is the sender: this peer or the other one; 0: any peer */
    uint64_t tag;         /* ignored for a founding, as is `subgroup` */
    struct pccl_descriptor descriptor;
    const uint8_t *payload; /* tiny: this member's contribution (wire/tiny.h), copied; NULL: empty */
    uint32_t payload_bytes;
    bool tiny; /* always true for a barrier and a founding */
    /*
     * With a budget, if the operation is neither tiny nor given up: the result of pccl_peer_choose, which has also set
     * the codec in the descriptor. LIMIT: there are too many such tags.
     */
    struct pccl_choice choice;
    /*
     * Members, in canonical order, that the layout of the buffers depends on. NULL: it depends on none; always NULL in
     * a subgroup. Ignored for a send. For a founding: the founders, in any order.
     */
    const struct pccl_id *members;
    uint32_t member_count;
    /*
     * Committed operation of this tag, launched with `followed`, that this launch replaces. It is released without an
     * effect on the attributes, because no call returns, and no limit refuses this launch. NULL: none.
     */
    struct pccl_peer_op *after;
    /*
     * a later launch may name this one as `after`, so room for that is reserved; tiny: its result may have any length
     */
    bool followed;
    uint32_t timeout_ms;  /* 0: the default */
    uint64_t deadline_us; /* deadline of the launch that this one repeats or continues; 0: none, timeout_ms applies */
    /*
     * NONE for a normal launch. Otherwise the operation never starts, whatever the payload and the members: this peer
     * asks the master to abort it with this class, so that the peers that have launched it, or will, do not wait for
     * this one.
     */
    enum pccl_class given_up;
    const struct pccl_text *reason; /* reason of giving up; NULL: none */
    struct pccl_text *refusal;      /* written if the launch is refused as INTERNAL, or a send as LIMIT; may be NULL */
    void *user;
};

/* This peer's state in a synchronization of shared state. */
struct pccl_sync_vote {
    uint64_t revision;
    uint8_t strategy; /* pcclSharedStateSyncStrategy_t */
    bool unequal;     /* some tensors may differ between members */
    struct pccl_digest structure, content;
    const struct pccl_shape *shapes; /* belongs to the caller; must stay in place until the call has ended */
    uint32_t shape_count;
    const struct pccl_tensor_line *lines; /* also belongs to the caller; for the first tensors */
    uint32_t line_count;
};

/* Result of a test. */
struct pccl_peer_measurement {
    uint64_t test;
    bool failed;
    uint8_t how; /* failed: enum pccl_link_end; 0: a local failure, which says nothing about the path */
    uint32_t rtt_us;
    uint64_t rate; /* bytes per second */
};

struct pccl_peer_event {
    enum pccl_peer_event_kind kind;
    enum pccl_call call; /* CALL, WITHDRAW */
    uint64_t now_us;
    uint64_t thread;         /* CALL, LAUNCH, OP_AWAIT: number of the program's thread that calls; 0: unknown */
    uint64_t subgroup;       /* SUBGROUP_CLOSE: name of the subgroup */
    struct pccl_peer_op *op; /* OP_*; LAUNCH: set if the result is OK */
    const struct pccl_launch *launch; /* LAUNCH */
    const struct pccl_frame *frame;   /* MASTER_RECEIVED; MASTER_GARBAGE: NULL unless the checksum is right */
    const struct pccl_msg *msg;
    /*
     * MASTER_DOWN, MASTER_GARBAGE, SHORTAGE, OP_FAILED, OP_ABORT; SYNC_DONE: if not complete; LINK_DOWN: reason why a
     * message was invalid, NULL if none was; CALL: NULL if this peer can take part
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
    uint64_t rate;          /* LINK_MEASURED: bytes per second; 0: unknown, and the event is ignored */
    bool shared;            /* LINK_MEASURED: other links used the same line, so the real rate may be higher */
    uint32_t rtt_us;        /* LINK_MEASURED, LINK_UP if outgoing: smallest round trip seen; 0: unknown */
    enum pccl_class class;  /* OP_FAILED, OP_ABORT */
    enum pccl_link_end how; /* LINK_DOWN; 0: this host lacks the resources to dial */
    bool incoming;          /* LINK_UP, LINK_DOWN */
    bool purposely;         /* LINK_DOWN: the other side sent link_bye */
    bool hung_up;           /* MASTER_DOWN: the other side had accepted the connection, and closed it */
    bool other_build;       /* MASTER_GARBAGE: an answer of another build; `reason` is the whole message */
    bool blocked;           /* OP_AWAIT */
    struct pccl_msg_training training; /* TRAINING */
    bool complete;                     /* SYNC_DONE */
};

#endif
