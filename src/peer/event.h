/*
 * Events: the input of a peer's machine. They report changes of its connections, the progress of data operations, and
 * the calls of the application. Only events change the machine's state (peer/peer.h). Unless a comment says otherwise,
 * the machine copies all data that an event points to before the step ends.
 */
#ifndef PCCL_PEER_EVENT_H
#define PCCL_PEER_EVENT_H

#include "core/status.h"
#include "core/text.h"
#include "peer/operation.h"
#include "wire/frame.h"
#include "wire/wire.h"

enum pccl_peer_event_kind {
    /* ---- connections and time; ignored before connect and after the machine has ended ---- */
    PCCL_PEER_MASTER_UP,       /* the connection to the master is up; the hello has not been sent yet */
    PCCL_PEER_MASTER_DOWN,     /* dialing failed, or the connection closed (`hung_up`) or broke (see `reason`) */
    PCCL_PEER_MASTER_RECEIVED, /* a frame has arrived */
    /* undecodable bytes have arrived (see `reason`); `frame` is not NULL if they are a complete frame */
    PCCL_PEER_MASTER_GARBAGE,
    PCCL_PEER_LINK_UP,   /* an outgoing link is up, or an incoming link was accepted */
    PCCL_PEER_LINK_DOWN, /* the link closed, or dialing failed (see `how`) */
    /*
     * An incoming connection ended without link_bye, and no newer one has replaced it; or this peer could not dial it
     * back (effect dial_back), then `how` is not 0.
     */
    PCCL_PEER_END_GONE,
    PCCL_PEER_WANT_BACK, /* a connection that the other end must dial (`link`, `slot`, `number`) */
    PCCL_PEER_SHORTAGE,  /* this host lacks resources to open or accept links (see `reason`) */
    PCCL_PEER_TICK,      /* the deadline has passed */

    /* ---- data ---- */

    /*
     * Figures that operations measured on the outgoing link to this peer. The driver passes this event before joint
     * calls, which may then create a new view. The machine reports a figure to the master if it has changed since the
     * last report.
     */
    PCCL_PEER_LINK_MEASURED,
    /*
     * Another peer has sent `ready` for a bulk operation that does not run here. If this peer launches it, or has
     * launched it, as a tiny operation, the two disagree; the machine then requests an abort with a reason that names
     * both peers and the difference.
     */
    PCCL_PEER_ANNOUNCED,
    /* This peer's result of a bulk operation is complete. Like OP_FAILED, ignored if the operation has been decided. */
    PCCL_PEER_OP_DONE,
    /*
     * The operation cannot continue. After OP_DONE: data that it sent may be lost, so that other members may never
     * complete it.
     */
    PCCL_PEER_OP_FAILED,
    /*
     * The transfer is about to write into the caller's memory for the first time. The content is torn until the
     * transfer completes.
     */
    PCCL_PEER_SYNC_TOUCHED,
    /* `proof` is the proof of the elected content, for which this peer voted. NULL if it could not be computed. */
    PCCL_PEER_SYNC_PROVEN,
    /*
     * This peer has fetched everything that the plan requires, or cannot (see `reason`). The call ends with the round.
     */
    PCCL_PEER_SYNC_DONE,
    /* Result of a test. Ignored unless it is the latest test. */
    PCCL_PEER_TEST_DONE,
    /* Telemetry about the operations since the last report, for the master. */
    PCCL_PEER_TELEMETRY,
    /*
     * An invariant of the driver is broken. The machine leaves the run, and everything outstanding ends with INTERNAL
     * and a reason that contains `where`.
     */
    PCCL_PEER_BROKEN,

    /* ---- the application ---- */

    /*
     * A blocking call begins. It ends with the effect call_done, possibly before the step returns. Refused with USAGE
     * if another such call is outstanding, or the peer is unconnected (CONNECT: if it is connected). UPDATE, SYNC and
     * OPTIMIZE, which end an era, are also refused with PENDING_OPS while operations have not been released.
     *
     *   CONNECT ends with OK, MASTER_UNREACHABLE, REFUSED, VERSION, TIMEOUT ...
     *   SYNC casts `vote`. It ends with OK (all members have the same content, or this peer has fetched everything that
     *   the plan requires), STATE (see last_reason), ABORTED, TIMEOUT, or EXPELLED (the state is incompatible with the
     *   group's, so this peer was removed from the run).
     *   OPTIMIZE measures the paths within the group and adopts the best ring. It ends with OK, NO_RING (no
     *   ring exists; see last_reason; the ring is unchanged), ABORTED, or TIMEOUT. A call that is withdrawn
     *   after the tests have begun ends with the tests, within seconds.
     *
     * With a `reason`, this peer cannot take part in SYNC or OPTIMIZE. The reason is sent to the other members, and the
     * call fails for all of them, with STATE or NO_RING.
     */
    PCCL_PEER_CALL,
    /*
     * Withdraws the call. The call still ends with call_done: as ABORTED, or with its result if that was decided first.
     */
    PCCL_PEER_WITHDRAW,
    /*
     * Requests a topology report of the group from the master. Ends with the effect `described`. USAGE: the peer is
     * unconnected, or a request is outstanding.
     */
    PCCL_PEER_DESCRIBE,
    /*
     * Sends `training` to the master, for display. USAGE: the peer is unconnected. Dropped while the connection to the
     * master is down, or shortly after the previous report.
     */
    PCCL_PEER_TRAINING,
    /*
     * Launches an operation. On OK, the event's `op` is valid until OP_RELEASE. If the outcome arrived before the
     * launch, the operation is already decided, and op_decided is not called for it. An operation whose list of members
     * differs from the view's never starts, and is aborted for all as MEMBERS_CHANGED. Other results:
     *
     *   TOO_FEW_PEERS  this peer is alone (the launch gets no number)
     *   ARGUMENT       the tag is in use; or the payload of a tiny operation does not have the length that
     *                  the descriptor requires, or is too long
     *   USAGE          the peer is unconnected, or a call that ends the era is outstanding
     *   INTERNAL       no message can contain this descriptor (see launch->refusal)
     *   LIMIT, MEMORY
     *
     * In a subgroup, never TOO_FEW_PEERS, but also PEER_LOST (the subgroup has ended, see its `reason`; no number) and
     * ARGUMENT (the subgroup does not exist, or the root is not in it).
     *
     * For a send (PCCL_SEND): PEER_LOST (the other peer is not a member of the group), LIMIT (for example, bulk sends
     * to too many other members are in progress; see launch->refusal), ARGUMENT (the other peer is this peer, or
     * neither peer is the root). A caller may have any number of sends with the same tag. For a receive from any peer,
     * `other` and the root are 0. If it names a subgroup, it accepts only sends from the subgroup's members. It is
     * OPEN, and unknown to other peers, until a sender is chosen. Then it becomes a receive from that peer, which is
     * the root; a bulk receive calls op_start at that time.
     *
     * For the founding of a subgroup (PCCL_FOUND): ARGUMENT (fewer than two members, a member listed twice, or this
     * peer not listed), MEMBERS_CHANGED (a listed peer is not in the list that pccl_peer_members returns; no number),
     * LIMIT. When the founding commits, the subgroup exists (pccl_peer_founded).
     */
    PCCL_PEER_LAUNCH,
    /*
     * A caller has begun or stopped waiting for the operation. Used for reports to the master about waits (PROTOCOL
     * 9.6).
     */
    PCCL_PEER_OP_AWAIT,
    /* Requests an abort. op_decided still reports the outcome, which may be a commit. `reason` may be NULL. */
    PCCL_PEER_OP_ABORT,
    /*
     * The caller releases a decided operation. The tag becomes free, and the operation's attributes become this peer's
     * attributes.
     */
    PCCL_PEER_OP_RELEASE,
    /*
     * The caller closes a subgroup that it has founded. The subgroup ends for all of its members, and its undecided
     * operations end with PEER_LOST, at this peer even if the connection to the master is down. The driver must not
     * read the subgroup after this event.
     */
    PCCL_PEER_SUBGROUP_CLOSE,
    /*
     * This peer leaves with the next update in which all have voted, or after drain_ms. Everything outstanding then
     * ends with DRAINED. A peer that has not been admitted leaves at once. Ignored before connect, after the machine
     * has ended, and when repeated.
     */
    PCCL_PEER_DRAIN,
    /* Sends `leave` and becomes unconnected. Operations end with PEER_LOST and calls with ABORTED. */
    PCCL_PEER_LEAVE,
};

struct pccl_launch {
    uint64_t subgroup;    /* name of the subgroup; 0: the whole group */
    uint64_t pair;        /* set by the machine */
    struct pccl_id other; /* for a send: this peer or the other one is the root, which is the sender; 0: any peer */
    uint64_t tag;         /* like `subgroup`, ignored for a founding */
    struct pccl_descriptor descriptor;
    const uint8_t *payload; /* tiny: this member's contribution (wire/tiny.h), copied; NULL if empty */
    uint32_t payload_bytes;
    bool tiny; /* always true for a barrier and a founding */
    /*
     * With a budget, if the operation is neither tiny nor given up: the result of pccl_peer_choose, which has also set
     * the codec in the descriptor. The launch is refused as LIMIT if too many tags use automatic codecs.
     */
    struct pccl_choice choice;
    /*
     * Members, in canonical order, if the layout of the buffers depends on them. Otherwise, and in any subgroup, NULL.
     * Ignored for a send. For a founding: the founders, in any order.
     */
    const struct pccl_id *members;
    uint32_t member_count;
    /*
     * Committed operation of this tag that this launch replaces; it was launched with `followed`. It is released
     * without an effect on the attributes, because no call returns, and this launch is not subject to the limits. NULL:
     * none.
     */
    struct pccl_peer_op *after;
    /*
     * true if a later launch may name this operation as `after`, so that room is reserved for it; the result of a tiny
     * one may have any length
     */
    bool followed;
    uint32_t timeout_ms;  /* 0: default */
    uint64_t deadline_us; /* deadline of the launch that this one repeats or continues; 0: timeout_ms applies */
    /*
     * NONE for a normal launch. Otherwise the operation never starts, regardless of payload and members: this peer
     * requests an abort with this class from the master, so that peers that launch it do not wait for this one.
     */
    enum pccl_class given_up;
    const struct pccl_text *reason; /* reason for giving up; NULL: none */
    /* explanation, filled in if the launch is refused as INTERNAL, or a send as LIMIT; may be NULL */
    struct pccl_text *refusal;
    void *user;
};

/* This peer's state in a synchronization of shared state. */
struct pccl_sync_vote {
    uint64_t revision;
    uint8_t strategy; /* pcclSharedStateSyncStrategy_t */
    bool unequal;     /* true if some tensors may differ between members */
    struct pccl_digest structure, content;
    const struct pccl_shape *shapes; /* owned by the caller; must not move until the call has ended */
    uint32_t shape_count;
    const struct pccl_tensor_line *lines; /* also owned by the caller; describes the first tensors */
    uint32_t line_count;
};

/* Result of a test. */
struct pccl_peer_measurement {
    uint64_t test;
    bool failed;
    uint8_t how; /* failed: enum pccl_link_end; 0 for a local failure, which says nothing about the path */
    uint32_t rtt_us;
    uint64_t rate; /* bytes per second */
};

struct pccl_peer_event {
    enum pccl_peer_event_kind kind;
    enum pccl_call call; /* CALL, WITHDRAW */
    uint64_t now_us;
    uint64_t thread;                  /* CALL, LAUNCH, OP_AWAIT: number of the calling thread; 0 if unknown */
    uint64_t subgroup;                /* SUBGROUP_CLOSE: name of the subgroup */
    struct pccl_peer_op *op;          /* OP_*; LAUNCH: set if the result is OK */
    const struct pccl_launch *launch; /* LAUNCH */
    const struct pccl_frame *frame;   /* MASTER_RECEIVED; MASTER_GARBAGE: NULL unless the checksum is valid */
    const struct pccl_msg *msg;
    /*
     * MASTER_DOWN, MASTER_GARBAGE, SHORTAGE, OP_FAILED, OP_ABORT; SYNC_DONE: if not complete; LINK_DOWN: reason why a
     * message was invalid, or NULL; CALL: NULL if this peer can take part
     */
    const struct pccl_text *reason;
    const char *where;                               /* BROKEN */
    const struct pccl_sync_vote *vote;               /* CALL of SYNC; ignored with a reason */
    const struct pccl_proof *proof;                  /* SYNC_PROVEN */
    const struct pccl_msg_ready *ready;              /* ANNOUNCED */
    const struct pccl_peer_measurement *measurement; /* TEST_DONE */
    struct pccl_id peer;                             /* LINK_*, END_GONE, WANT_BACK, ANNOUNCED */
    uint64_t number;                                 /* END_GONE, WANT_BACK: number of the connection */
    uint32_t slot;                                   /* WANT_BACK */
    enum pccl_link_kind link;                        /* WANT_BACK */
    const struct pccl_msg_sight *telemetry;          /* TELEMETRY */
    uint64_t rate;          /* LINK_MEASURED: bytes per second; 0: unknown, so the event is ignored */
    bool shared;            /* LINK_MEASURED: other links shared the line, so the real rate may be higher */
    uint32_t rtt_us;        /* LINK_MEASURED, LINK_UP if outgoing: smallest round trip measured; 0: unknown */
    enum pccl_class class;  /* OP_FAILED, OP_ABORT */
    enum pccl_link_end how; /* LINK_DOWN; 0: this host lacks the resources to dial; END_GONE */
    bool incoming;          /* LINK_UP, LINK_DOWN */
    bool reversed;          /* LINK_UP, incoming: this peer has dialed it back */
    bool purposely;         /* LINK_DOWN: the other side sent link_bye */
    bool hung_up;           /* MASTER_DOWN: the other side closed the connection after accepting it */
    bool other_build;       /* MASTER_GARBAGE: an answer of another build; `reason` is the whole message */
    bool blocked;           /* OP_AWAIT */
    struct pccl_msg_training training; /* TRAINING */
    bool complete;                     /* SYNC_DONE */
};

#endif
