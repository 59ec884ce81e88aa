/*
 * State of a peer. Only src/peer and the checkers of the simulator read it. The order of the files of
 * src/peer is in tests/tidy/layers.txt.
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
    PCCL_PEER_CONNECTING, /* dialing, or the hello is not answered yet */
    PCCL_PEER_PENDING,    /* known to the master, not yet admitted */
    PCCL_PEER_MEMBER,
    PCCL_PEER_OVER, /* left, expelled or given up: this machine's life has ended */
};

/* A joint call under way. */
struct pccl_vote_call {
    bool outstanding, withdrawn;
    bool stuck; /* stuck_ms has passed, not the call's own deadline */
    enum pccl_status why_withdrawn;
    uint64_t since_us, deadline_us, where_us;
    struct pccl_text unable; /* why this peer cannot take part; empty: it can */
    uint64_t stuck_since_us; /* time of the first of the latest answers, all of which say that the calls cannot meet */
};

/* The synchronization under way; kept between calls: synced and torn. */
struct pccl_sync_call {
    struct pccl_sync_vote vote; /* as the caller brought it, then as the transfer has changed it */
    bool synced;                /* a synchronization has completed in this run */
    bool torn;                  /* an unfinished transfer has written into the caller's memory */
    bool torn_unequal;          /* ... perhaps also into tensors that need not be the same */
    bool at_risk;               /* within a call: a transfer may begin to write at any moment */
    bool planned, done, complete;
    bool vouches; /* it brought what was elected, and has not sent the proof of it yet */
    struct pccl_sync_plan plan;
    struct pccl_text failure;
    /* what the last round told */
    uint64_t revision;
    struct pccl_text reason; /* why it failed for all */
};

/* The end here of an incoming connection of this number of the peer that dialed it, which is gone. */
struct pccl_gone_end {
    struct pccl_id peer;
    uint64_t number;
};

enum pccl_dial_state { PCCL_DIAL_DOWN, PCCL_DIAL_DIALING, PCCL_DIAL_UP };

/* What this peer knows of its links with another one, in both directions. */
struct pccl_peer_link {
    struct pccl_id id;
    struct pccl_id ticket; /* for dialing it */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    bool ring;          /* it follows us in the ring */
    bool mesh;          /* it is in our group, which is small */
    bool warm;          /* the master asked for it (`warm_up`) */
    uint32_t subgroups; /* how many of this peer's rely on it */
    uint32_t sends;     /* how many bulk sends to this member are under way */
    uint64_t idle_us;   /* when the last one of them ended, for which it is kept; 0: it is not kept */
    bool asked;         /* by `want_link`, and the master has not answered */
    uint64_t able_us;   /* time of the answer, or when the link was lost last after more than a moment */
    uint64_t up_us;     /* when it was opened last */
    uint64_t tell_us;   /* warm: when to log that nobody admits the newcomer; UINT64_MAX: that is done */
    enum pccl_dial_state out;
    bool in_up;
    uint64_t retry_us, reported_us;
    uint32_t pause_ms;
    uint32_t rtt_us;        /* as last told to the master; 0: unknown */
    uint64_t rate, told_us; /* likewise; told_us: when */
    uint64_t path_rate;     /* the last rate told, also over connections before the present ones; 0: unknown */
    bool shared;            /* other links used the same line when the rate was measured */
    enum pccl_link_end how; /* the last failure */
    bool failed;
    uint64_t rejected_us, rejected_told_us; /* times of the last invalid message, and of its last log line; 0: never */
};

struct pccl_use {
    struct pccl_table_node by_tag;
    uint64_t subgroup, pair, tag;
    uint32_t launches;
    uint64_t served; /* of a pair: when its source was last chosen for a receive from anybody, in p->arrivals */
};

/* Number of operations that the master may still offer for a tag of a subgroup or the whole group (0), as far as this
 * peer knows. */
struct pccl_ask {
    struct pccl_table_node by_tag;
    struct pccl_list_node in_due; /* in `asks_due`: `count` or `open` has changed */
    uint64_t subgroup, tag;
    uint32_t count;
    uint32_t open; /* receives that refer to it */
};

/* Another peer has launched this instance, as a bulk operation or as a tiny send; here it is not launched. */
struct pccl_announcement {
    struct pccl_table_node by_instance;
    struct pccl_instance instance;
    struct pccl_id from;
    bool offered;     /* by the master: a tiny send, of which the descriptor is not known */
    uint64_t arrival; /* in p->arrivals */
    struct pccl_descriptor descriptor;
};

/* The test that this peer was asked for last. */
struct pccl_test_call {
    bool outstanding; /* the master waits for its result */
    bool running;     /* the driver does */
    uint64_t number;
    uint64_t begun_as; /* its number when the driver began it, for an earlier master; = number otherwise */
    struct pccl_id peer;
};

/* Result of a test in this optimization, for a restarted master that asks for the same one. */
struct pccl_tested_path {
    struct pccl_id peer;
    uint64_t at_us, rate;
    uint32_t rtt_us;
};

/* A peer that left this peer's group, and the epoch that said so. */
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
    bool ending; /* OVER, and what was outstanding has not been ended yet */

    /* the master */
    bool dialing, up, greeted; /* dial_master under way; connection stands; hello_ok received on it */
    bool resuming;             /* `resume` sent, `recovered` not received */
    bool undecodable;          /* the master has sent an invalid message since lost_us */
    uint64_t redial_us;        /* 0: not now */
    /*
     * Time of the first of several losses without a numbered message, or a connection that lasted, between them; 0:
     * none since
     */
    uint64_t lost_us;
    uint64_t greeted_us, heard_us, spoke_us;
    uint32_t pause_ms;
    struct pccl_text why_lost; /* reason of the latest loss since lost_us */
    uint64_t boot;
    struct pccl_id run_key; /* of a member */
    struct pccl_id lineage;
    uint32_t silence_ms, heartbeat_ms, tiny_bytes_max;
    struct pccl_session session;

    /* the run */
    struct pccl_epoch epoch, view;
    struct pccl_member *members; /* by group; those of a group in their canonical order (PROTOCOL 1.8) */
    uint32_t member_count, member_capacity;
    uint32_t *slots; /* by the hash of an id: 1 + the member's index in `members`; 0: none */
    uint32_t slot_capacity, slot_shift;
    uint32_t first_of_group;             /* index in `members` of the first member of this peer's group */
    struct pccl_attributes live;         /* what `members` amount to, without the epoch */
    struct pccl_peer_participants group; /* as of the view; its lists have room for: */
    uint32_t ring_capacity, position_capacity;
    struct pccl_roll *view_roll; /* the members of the group by their admission (roll.h); NULL: in no run yet */
    uint64_t rolls_made;
    struct pccl_names names;
    struct pccl_departure departures[PCCL_DEPARTED_MAX];
    uint64_t departure_count; /* ever; the n-th is at n modulo PCCL_DEPARTED_MAX */
    uint64_t rounds[PCCL_ROUND_KINDS];
    uint64_t revision;                  /* the next one of the group's shared state; 0: none yet */
    bool round_known[PCCL_ROUND_KINDS]; /* the answer to the round before the open one is known */
    uint8_t last_outcome[PCCL_ROUND_KINDS];
    struct pccl_attributes last_attributes[PCCL_ROUND_KINDS]; /* as that answer told them */

    /* calls */
    bool draining;     /* this peer is to go with the next update ... */
    uint64_t drain_us; /* ... or then */
    bool connect_outstanding;
    uint64_t connect_since_us, connect_deadline_us, connect_where_us;
    uint64_t hold_us;            /* until when the master founds no run, because one may live; 0: it does not hold */
    uint64_t training_told_us;   /* when the master was last told of the training; 0: never */
    uint64_t admissions_told_us; /* when it was last logged that newcomers wait */
    struct pccl_vote_call calls[PCCL_ROUND_KINDS];
    struct pccl_sync_call sync;
    struct pccl_test_call test;
    struct pccl_tested_path *tested; /* of the open optimization */
    uint32_t tested_count, tested_capacity;
    bool describing;
    uint64_t describe_ticket;
    struct pccl_text optimize_reason;  /* why the last optimization failed */
    struct pccl_attributes attributes; /* as of the last call that returned; roll.h sets them, and the list */
    struct pccl_roll *roll;
    struct pccl_text last_reason, waiting;
    uint64_t thread;  /* the first of the program's threads that made a call; 0: unknown */
    bool has_threads; /* another one has made calls as well */
    struct pccl_peer_verdict verdicts[PCCL_VERDICTS_MAX];
    uint32_t verdict_count;
    enum pccl_status why_over; /* with state PCCL_PEER_OVER */

    /* operations */
    struct pccl_hash_key hash; /* of all tables */
    struct pccl_table by_instance, by_tag, uses, announcements;
    struct pccl_peer_op *oldest, *newest;                /* in order of creation */
    struct pccl_peer_op *first_unstable, *last_unstable; /* confirmed, not known to all members; in order of decision */
    uint32_t op_count, held_count, awaited_count;        /* awaited_count: undecided, with a caller waiting in it */
    uint32_t followed_count;                             /* held ones that another one may take the place of */
    uint32_t tombstone_count;                            /* tombstones among the operations */
    uint64_t decisions, stable;
    /* In both lists, receives that refer to no ask yet are at the end. */
    struct pccl_list_node open; /* receives from anybody for which nobody is chosen, in the order of their launches */
    struct pccl_list_node unlinked; /* bulk receives that have begun, and the link from the source does not stand */
    bool has_news;                  /* somebody may have become one who can be chosen */
    bool has_receive;               /* a receive at the end of `open` is new */
    uint64_t arrivals;              /* numbers announcements and choices, in one order */
    struct pccl_table asks;         /* by tag */
    struct pccl_list_node asks_due;
    struct pccl_table choices; /* of automatic codecs, by tag */
    uint64_t choices_told_us;  /* when it was last logged that one has changed */

    /* subgroups */
    struct pccl_table subgroups;        /* by name */
    uint32_t founded_count, seat_count; /* foundings that are remembered and subgroups that live; their members */

    struct pccl_peer_link *links;
    uint32_t link_count, link_capacity;
    struct pccl_gone_end gone[PCCL_GONE_KEPT]; /* the latest, in turn */
    uint64_t gone_count;
    uint64_t shortage_us, shortage_told_us, shortage_logged_us; /* when there was one at last; 0: never */
    struct pccl_text shortage;                                  /* its reason */
};

/* The first half of the era: how many joint rounds have been decided (PROTOCOL 1.4). */
static inline uint64_t pccl_peer_joint(const struct pccl_peer *p)
{
    return p->rounds[PCCL_ROUND_UPDATE] + p->rounds[PCCL_ROUND_OPTIMIZE];
}

#endif
