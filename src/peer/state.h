/*
 * State of a peer. Only src/peer and the checkers of the simulator read it. tests/tidy/layers.txt has the order of the
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
    PCCL_PEER_PENDING,    /* known to the master, not yet admitted */
    PCCL_PEER_MEMBER,
    PCCL_PEER_OVER, /* left, expelled or given up: the end of this machine's life */
};

/* Joint call in progress. */
struct pccl_vote_call {
    bool outstanding, withdrawn;
    bool stuck; /* stuck_ms has passed, not the call's own deadline */
    enum pccl_status why_withdrawn;
    uint64_t since_us, deadline_us, where_us;
    struct pccl_text unable; /* reason why this peer cannot take part; empty: it can */
    /* time of the first of the latest answers, all of which say that the calls cannot meet; 0: none */
    uint64_t stuck_since_us;
};

/* Synchronization in progress. `synced` and `torn` persist between calls. */
struct pccl_sync_call {
    struct pccl_sync_vote vote; /* as the caller brought it; the transfer changes it */
    bool synced;                /* a synchronization has completed in this run */
    bool torn;                  /* an unfinished transfer has written into the caller's memory */
    bool torn_unequal;          /* likewise, possibly also into tensors that may differ between members */
    bool at_risk;               /* within a call: a transfer may begin to write at any moment */
    bool planned, done, complete;
    bool vouches; /* it brought the elected content, and has not sent the proof of it yet */
    struct pccl_sync_plan plan;
    struct pccl_text failure;
    /* result of the last round */
    uint64_t revision;
    struct pccl_text reason; /* why it failed for all */
};

/* The end here of an incoming connection of this number of the peer that dialed it, which is gone. */
struct pccl_gone_end {
    struct pccl_id peer;
    uint64_t number;
};

enum pccl_dial_state { PCCL_DIAL_DOWN, PCCL_DIAL_DIALING, PCCL_DIAL_UP };

/* Links with another peer, in both directions. */
struct pccl_peer_link {
    struct pccl_id id;
    struct pccl_id ticket; /* for dialing it */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    bool ring; /* it follows this peer in the ring */
    /* it is in this peer's group, and the view's cost data wants a link to it (a small group, or hubs) */
    bool mesh;
    bool warm;          /* the master asked for the link (`warm_up`) */
    uint32_t subgroups; /* number of this peer's subgroups that need it */
    uint32_t sends;     /* number of bulk sends to this member in progress */
    uint64_t idle_us;   /* end of the last such send, for which the link is kept; 0: it is not kept */
    bool asked;         /* `want_link` was sent, and the master has not answered */
    uint64_t able_us;   /* since when it could be opened: time of that answer, or of its last loss */
    uint64_t up_us;     /* time at which it was last opened */
    uint64_t tell_us;   /* warm: time at which to log that no member admits the newcomer; UINT64_MAX: never */
    enum pccl_dial_state out;
    bool in_up;
    uint64_t retry_us, reported_us;
    uint32_t pause_ms;
    uint32_t rtt_us;        /* as last reported to the master; 0: unknown */
    uint64_t rate, told_us; /* likewise; told_us: time of that report */
    uint64_t path_rate;     /* last rate reported, also over earlier connections; 0: unknown */
    bool shared;            /* other links used the same line when the rate was measured */
    enum pccl_link_end how; /* end of the last attempt or link */
    bool failed;
    uint64_t rejected_us, rejected_told_us; /* times of the last invalid message, and of its last log line; 0: never */
};

struct pccl_use {
    struct pccl_table_node by_tag;
    uint64_t subgroup, pair, tag;
    uint32_t launches;
    uint64_t served; /* pair: time, in p->arrivals, at which its source was last chosen for a receive from any peer */
};

/*
 * Number of offers that the master may still make for a tag of a subgroup or the whole group (0), as far as this peer
 * knows.
 */
struct pccl_ask {
    struct pccl_table_node by_tag;
    struct pccl_list_node in_due; /* in `asks_due`: `count` or `open` has changed */
    uint64_t subgroup, tag;
    uint32_t count;
    uint32_t open; /* number of receives that refer to it */
};

/* Instance that another peer has launched, as a bulk operation or a tiny send, and that is not launched here. */
struct pccl_announcement {
    struct pccl_table_node by_instance;
    struct pccl_instance instance;
    struct pccl_id from;
    bool offered;     /* by the master: a tiny send, whose descriptor is unknown */
    uint64_t arrival; /* in p->arrivals */
    struct pccl_descriptor descriptor;
};

/* Test that this peer was asked for last. */
struct pccl_test_call {
    bool outstanding; /* the master waits for its result */
    bool running;     /* the driver is carrying it out */
    uint64_t number;
    uint64_t begun_as; /* number with which the driver began it, for an earlier master; otherwise equal to `number` */
    struct pccl_id peer;
};

/* Result of a test in this optimization, stored for a restarted master that asks for the same test. */
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
    bool ending; /* OVER, and everything outstanding has not been ended yet */

    /* the master */
    /* dialing: dial_master was called; up: the connection is up; greeted: hello_ok was received on it */
    bool dialing, up, greeted;
    bool resuming;      /* `resume` sent, `recovered` not received */
    bool undecodable;   /* the master has sent an invalid message since lost_us */
    uint64_t redial_us; /* 0: no attempt is due */
    /*
     * Time of the first of several losses without a numbered message, or a connection that lasted, between them. 0:
     * none
     */
    uint64_t lost_us;
    uint64_t greeted_us, received_us, spoke_us;
    uint32_t pause_ms;
    struct pccl_text why_lost; /* reason of the latest loss since lost_us */
    uint64_t boot;
    struct pccl_id run_key; /* for a member */
    struct pccl_id lineage;
    uint32_t silence_ms, heartbeat_ms, tiny_bytes_max;
    struct pccl_session session;

    /* the run */
    struct pccl_epoch epoch, view;
    struct pccl_member *members; /* sorted by group, then in canonical order (PROTOCOL 1.8) */
    uint32_t member_count, member_capacity;
    uint32_t *slots; /* hash table by id: 1 + the member's index in `members`; 0: empty */
    uint32_t slot_capacity, slot_shift;
    uint32_t first_of_group;             /* index in `members` of the first member of this peer's group */
    struct pccl_attributes live;         /* counts of `members`; the epoch is not set */
    struct pccl_peer_participants group; /* as of the view; the capacities of its lists follow */
    uint32_t ring_capacity, position_capacity;
    struct pccl_member_list *view_member_list; /* member list of the view (member_list.h); NULL: in no run yet */
    uint64_t rolls_made;
    struct pccl_names names;
    struct pccl_departure departures[PCCL_DEPARTED_MAX];
    uint64_t departure_count; /* number since the start; the n-th is at n modulo PCCL_DEPARTED_MAX */
    uint64_t rounds[PCCL_ROUND_KINDS];
    uint64_t revision;                  /* next revision of the group's shared state; 0: none yet */
    bool round_known[PCCL_ROUND_KINDS]; /* the answer to the round before the open one is known */
    uint8_t last_outcome[PCCL_ROUND_KINDS];
    struct pccl_attributes last_attributes[PCCL_ROUND_KINDS]; /* as reported in that answer */

    /* calls */
    bool draining;     /* this peer is to leave with the next update ... */
    uint64_t drain_us; /* ... or at this time */
    bool connect_outstanding;
    uint64_t connect_since_us, connect_deadline_us, connect_where_us;
    /* time until which the master founds no run, because an earlier one may still exist; 0: no such wait */
    uint64_t hold_us;
    uint64_t training_told_us;   /* time of the last training report to the master; 0: never */
    uint64_t admissions_told_us; /* time of the last log line that newcomers wait */
    struct pccl_vote_call calls[PCCL_ROUND_KINDS];
    struct pccl_sync_call sync;
    struct pccl_test_call test;
    struct pccl_tested_path *tested; /* in the open optimization */
    uint32_t tested_count, tested_capacity;
    bool describing;
    uint64_t describe_ticket;
    struct pccl_text optimize_reason;  /* why the last optimization failed */
    struct pccl_attributes attributes; /* as of the last call that returned; member_list.h sets them, and the list */
    struct pccl_member_list *roll;
    struct pccl_text last_reason, waiting;
    uint64_t thread;  /* first of the program's threads that made a call; 0: unknown */
    bool has_threads; /* other threads have made calls as well */
    struct pccl_peer_verdict verdicts[PCCL_VERDICTS_MAX];
    uint32_t verdict_count;
    enum pccl_status why_over; /* with state PCCL_PEER_OVER */

    /* operations */
    struct pccl_hash_key hash; /* key for all tables */
    struct pccl_table by_instance, by_tag, uses, announcements;
    struct pccl_peer_op *oldest, *newest;                /* in order of creation */
    struct pccl_peer_op *first_unstable, *last_unstable; /* confirmed, not known to all members; in order of decision */
    /* awaited_count: undecided operations in which a caller waits */
    uint32_t op_count, held_count, awaited_count;
    uint32_t followed_count;  /* number of held operations that another may replace */
    uint32_t tombstone_count; /* number of tombstones among the operations */
    uint64_t decisions, stable;
    /* In both lists, receives without an ask are at the end. */
    struct pccl_list_node open;     /* receives from any peer without a chosen sender, in order of launch */
    struct pccl_list_node unlinked; /* bulk receives that have begun, while the link from their source is down */
    bool has_news;                  /* a new sender may have become available */
    bool has_receive;               /* a receive at the end of `open` is new */
    uint64_t arrivals;              /* counter that numbers announcements and choices in one order */
    struct pccl_table asks;         /* by tag */
    struct pccl_list_node asks_due;
    struct pccl_table choices; /* of automatic codecs, by tag */
    uint64_t choices_told_us;  /* time of the last log line about a changed choice */

    /* subgroups */
    struct pccl_table subgroups;        /* by name */
    uint32_t founded_count, seat_count; /* number of remembered foundings and live subgroups, and of their members */

    struct pccl_peer_link *links;
    uint32_t link_count, link_capacity;
    struct pccl_gone_end gone[PCCL_GONE_KEPT]; /* latest ends of connections, in turn */
    uint64_t gone_count;
    /* times of the last shortage, its report and its log line; 0: never */
    uint64_t shortage_us, shortage_told_us, shortage_logged_us;
    struct pccl_text shortage; /* reason of the shortage */
};

/* Returns the first half of the era: the number of joint rounds that have been decided (PROTOCOL 1.4). */
static inline uint64_t pccl_peer_joint(const struct pccl_peer *p)
{
    return p->rounds[PCCL_ROUND_UPDATE] + p->rounds[PCCL_ROUND_OPTIMIZE];
}

#endif
