/*
 * State of a peer. Read only by src/peer and the simulator's checkers. tests/tidy/layers.txt lists the order of the
 * files of src/peer.
 */
#ifndef PCCL_PEER_STATE_H
#define PCCL_PEER_STATE_H

#include "core/names.h"
#include "peer/peer.h"
#include "peer/queries.h"
#include "peer/subgroup.h"
#include "wire/session.h"

enum pccl_peer_state {
    PCCL_PEER_IDLE,       /* never connected */
    PCCL_PEER_CONNECTING, /* dialing, or the hello has not been answered yet */
    PCCL_PEER_PENDING,    /* known to the master but not admitted yet */
    PCCL_PEER_MEMBER,
    PCCL_PEER_OVER, /* left, expelled or given up; the machine has ended */
};

/* Joint call in progress. */
struct pccl_vote_call {
    bool outstanding, withdrawn;
    bool stuck; /* true if stuck_ms has passed, not the call's own deadline */
    enum pccl_status why_withdrawn;
    uint64_t since_us, deadline_us, where_us;
    struct pccl_text unable; /* reason why this peer cannot take part; empty if it can */
    /* time since which all answers say that the calls cannot complete together; 0: none */
    uint64_t stuck_since_us;
};

/* Synchronization in progress. `synced` and `torn` persist between calls. */
struct pccl_sync_call {
    struct pccl_sync_vote vote; /* as passed by the caller, then changed by the transfer */
    bool synced;                /* true if a synchronization has completed in this run */
    bool torn;                  /* true if an unfinished transfer has written into the caller's memory */
    bool torn_unequal;          /* true if that includes tensors that may differ between members */
    bool at_risk;               /* true while a call's transfer may begin to write */
    bool planned, done, complete;
    bool vouches; /* true if it has the elected content and has not sent the proof */
    struct pccl_sync_plan plan;
    struct pccl_text failure;
    /* Result of the last round. */
    uint64_t revision;
    struct pccl_text reason; /* reason why it failed for all */
};

/* An incoming connection that has ended here; `number` is its number at the peer that dialed it. */
struct pccl_gone_end {
    struct pccl_id peer;
    uint64_t number;
};

enum pccl_dial_state { PCCL_DIAL_DOWN, PCCL_DIAL_DIALING, PCCL_DIAL_UP };

/* Links with another peer, in both directions. */
struct pccl_peer_link {
    struct pccl_id id;
    struct pccl_id ticket; /* ticket for dialing it */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    bool ring; /* true if the other peer follows this peer in the ring */
    /* true if it is in this peer's group and the view requires a link to it (small group, or hubs) */
    bool mesh;
    bool warm;          /* true if the master has requested the link (`warm_up`) */
    uint32_t subgroups; /* number of this peer's subgroups that need it */
    uint32_t sends;     /* number of bulk sends in progress to this member */
    uint64_t idle_us;   /* end of the last such send, while the idle link is kept; 0: not kept */
    bool asked;         /* true if `want_link` was sent and the master has not answered */
    bool other_dials;   /* true if the master has said last that the other end dials */
    bool apart;         /* true if it has said that it can reach the port of neither, until the link is up */
    bool reversed;      /* the same when the current connection or attempt began */
    bool reached;       /* true if this peer has dialed it with success */
    uint64_t able_us;   /* time since which the link could be opened: time of that answer, or of its last loss */
    uint64_t up_us;     /* time at which it was last opened */
    uint64_t log_us;    /* warm: time at which to log that no member admits the newcomer; UINT64_MAX: never */
    enum pccl_dial_state out;
    bool in_up;
    bool in_reversed; /* with in_up: true if this peer has dialed the latest connection */
    uint64_t retry_us, reported_us;
    uint32_t pause_ms;
    uint32_t rtt_us;           /* last round trip reported to the master; 0: unknown */
    uint64_t rate, figures_us; /* last rate reported to the master; time of that report */
    uint64_t path_rate;        /* last rate reported, possibly for an earlier connection; 0: unknown */
    bool shared;               /* true if other links shared the line when the rate was measured */
    enum pccl_link_end how;    /* end of the last attempt or link */
    bool failed;
    /* time of the last invalid message; time of the last log line about one; 0: never */
    uint64_t rejected_us, rejected_logged_us;
};

struct pccl_use {
    struct pccl_table_node by_tag;
    uint64_t subgroup, pair, tag;
    uint32_t launches;
    uint32_t held;   /* number of its operations that callers hold */
    uint64_t served; /* pair: value of p->arrivals when its source was last chosen for a receive from any peer */
};

/*
 * A request to the master for offers of one tag, in a subgroup or the whole group (0). `count` is the number of offers
 * that the master may still make, as far as this peer knows.
 */
struct pccl_ask {
    struct pccl_table_node by_tag;
    struct pccl_list_node in_due; /* in `asks_due` if `count` or `open` has changed */
    uint64_t subgroup, tag;
    uint32_t count;
    uint32_t open; /* number of receives that it includes */
};

/* Instance that another peer has launched as a bulk operation or a tiny send, and that has not been launched here. */
struct pccl_announcement {
    struct pccl_table_node by_instance;
    struct pccl_instance instance;
    struct pccl_id from;
    bool offered;     /* true if the master offered it: a tiny send with an unknown descriptor */
    uint64_t arrival; /* value of p->arrivals when it arrived */
    struct pccl_descriptor descriptor;
};

/* The test that the master requested last. */
struct pccl_test_call {
    bool outstanding; /* true if the master waits for the result */
    bool running;     /* true while the driver runs it */
    uint64_t number;
    /* number with which the driver began it; differs from `number` if it began for an earlier master */
    uint64_t begun_as;
    struct pccl_id peer;
};

/* Result of a test in this optimization, kept in case a restarted master requests the same test. */
struct pccl_tested_path {
    struct pccl_id peer;
    uint64_t at_us, rate;
    uint32_t rtt_us;
};

/* Peer that left this peer's group, and the epoch in which it left. */
struct pccl_departure {
    struct pccl_id id;
    struct pccl_epoch epoch;
};

struct pccl_peer {
    struct pccl_peer_config config;
    struct pccl_memory memory;
    struct pccl_peer_effects effects;
    uint64_t now_us, deadline_us;
    enum pccl_peer_state state;
    bool ending; /* true if OVER and something outstanding has not been ended yet */

    /* Connection to the master. */
    /* dialing: dial_master was called; up: the connection is up; greeted: hello_ok was received on it */
    bool dialing, up, greeted;
    bool resuming;      /* `resume` sent, `recovered` not received */
    bool undecodable;   /* true if the master has sent an invalid message since lost_us */
    uint64_t redial_us; /* time of the next dial; 0: none */
    /*
     * Time at which the present series of losses began; a numbered message or a lasting connection ends the series; 0:
     * none.
     */
    uint64_t lost_us;
    uint64_t greeted_us, received_us, sent_us;
    uint32_t pause_ms;
    struct pccl_text why_lost; /* reason for the latest loss */
    uint64_t boot;
    struct pccl_id run_key; /* valid for a member */
    struct pccl_id lineage;
    uint32_t silence_ms, heartbeat_ms, tiny_bytes_max;
    struct pccl_session session;

    /* The run. */
    struct pccl_epoch epoch, view;
    struct pccl_member *members; /* sorted by group, then in canonical order (PROTOCOL 1.8) */
    uint32_t member_count, member_capacity;
    uint32_t *slots; /* hash table by id: 1 + the member's index in `members`; 0: empty */
    uint32_t slot_capacity, slot_shift;
    uint32_t first_of_group;             /* index in `members` of the first member of this peer's group */
    struct pccl_attributes live;         /* counts of `members`, without the epoch */
    struct pccl_peer_participants group; /* group as of the view; the capacities of its lists follow */
    uint32_t ring_capacity, position_capacity;
    struct pccl_member_list *view_member_list; /* member list of the view (member_list.h); NULL before the first view */
    uint64_t lists_made;
    struct pccl_names names;
    struct pccl_departure departures[PCCL_DEPARTED_MAX];
    uint64_t departure_count; /* total number; number n is at n modulo PCCL_DEPARTED_MAX */
    uint64_t rounds[PCCL_ROUND_KINDS];
    uint64_t revision;                  /* next revision of the group's shared state; 0: not set yet */
    bool round_known[PCCL_ROUND_KINDS]; /* true if the answer to the last decided round is known */
    uint8_t last_outcome[PCCL_ROUND_KINDS];
    struct pccl_attributes last_attributes[PCCL_ROUND_KINDS]; /* as reported in that answer */

    /* Calls. */
    bool draining;     /* true if this peer leaves with the next update */
    uint64_t drain_us; /* latest time at which a draining peer leaves */
    bool connect_outstanding;
    uint64_t connect_since_us, connect_deadline_us, connect_where_us;
    /* time until which the master founds no run, because an earlier one may exist; 0: none */
    uint64_t hold_us;
    uint64_t training_sent_us;     /* time of the last training report to the master; 0: never */
    uint64_t admissions_logged_us; /* time of the last log line that newcomers wait */
    struct pccl_vote_call calls[PCCL_ROUND_KINDS];
    struct pccl_sync_call sync;
    struct pccl_test_call test;
    struct pccl_tested_path *tested; /* results in the open optimization */
    uint32_t tested_count, tested_capacity;
    bool describing;
    uint64_t describe_ticket;
    struct pccl_text optimize_reason; /* reason why the last optimization failed */
    /* state as of the last call that returned, like member_list; set only by member_list.h */
    struct pccl_attributes attributes;
    struct pccl_member_list *member_list;
    struct pccl_text last_reason, waiting;
    uint64_t thread;  /* first thread of the program that made a call; 0: unknown */
    bool has_threads; /* true if other threads have also made calls */
    struct pccl_peer_verdict verdicts[PCCL_VERDICTS_MAX];
    uint32_t verdict_count;
    enum pccl_status why_over; /* status in state PCCL_PEER_OVER */

    /* Operations. */
    struct pccl_hash_key hash; /* key for all tables */
    struct pccl_table by_instance, uses, announcements;
    struct pccl_peer_op *oldest, *newest; /* list of all operations, in order of creation */
    /* confirmed operations whose outcome some member may not know, in order of decision */
    struct pccl_list_node unstable;
    /* awaited_count: number of undecided operations in which a caller waits */
    uint32_t op_count, held_count, awaited_count;
    uint32_t followed_count;  /* number of unreleased operations that another may replace */
    uint32_t tombstone_count; /* number of tombstones among the operations */
    uint64_t decisions, stable;
    /* In `open` and `unlinked`, receives without a request (`ask`) are at the end. */
    struct pccl_list_node open; /* receives from any peer without a chosen sender, in order of launch */
    /* bulk receives that have begun: `linked` if the link from the source is up, else `unlinked` */
    struct pccl_list_node linked, unlinked;
    bool has_news;          /* true if a new sender may be available */
    bool has_receive;       /* true if `open` ends with a new receive */
    uint64_t arrivals;      /* common counter that orders announcements and choices of senders */
    struct pccl_table asks; /* by tag */
    struct pccl_list_node asks_due;
    struct pccl_table choices;  /* choices of automatic codecs, by tag */
    uint64_t choices_logged_us; /* time of the last log line about a changed choice */

    /* Subgroups. */
    struct pccl_table subgroups;        /* by name */
    uint32_t founded_count, seat_count; /* number of remembered foundings and live subgroups; sum of their members */

    struct pccl_peer_link *links;
    uint32_t link_count, link_capacity;
    struct pccl_gone_end gone[PCCL_GONE_KEPT]; /* latest ends of connections, a circular buffer */
    uint64_t gone_count;
    /* times of the last shortage, its report and its log line; 0: never */
    uint64_t shortage_us, shortage_sent_us, shortage_logged_us;
    struct pccl_text shortage; /* reason for the shortage */
};

/* Returns the first half of the era: the number of joint rounds that have been decided (PROTOCOL 1.4). */
static inline uint64_t pccl_peer_joint(const struct pccl_peer *p)
{
    return p->rounds[PCCL_ROUND_UPDATE] + p->rounds[PCCL_ROUND_OPTIMIZE];
}

#endif
