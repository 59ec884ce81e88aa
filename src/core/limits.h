/* All limits of the library. Input from the network never makes the library store more than they permit. */
#ifndef PCCL_CORE_LIMITS_H
#define PCCL_CORE_LIMITS_H

enum {
    PCCL_PEERS_MAX = 4096,  /* members and newcomers of a run */
    PCCL_GROUPS_MAX = 4096, /* peer groups of a run */
    /*
     * Newcomers must leave room for members that reconnect to a restarted master. A whole cluster may start behind one
     * address, so the last two limits equal the largest group for which a ring is searched.
     */
    PCCL_NEWCOMERS_MAX = PCCL_PEERS_MAX / 2,
    PCCL_NEWCOMERS_OF_GROUP_MAX = 1024,
    PCCL_NEWCOMERS_OF_ADDRESS_MAX = 1024,
    PCCL_UNTRIED_MAX =
        64, /* members that are the first of a new group and have not made a call since their admission */
    PCCL_NEWCOMER_ADDRESSES_MAX = 8, /* addresses of a newcomer sent to members, which dial all of them */
    PCCL_CANDIDATES_MAX = 16,        /* addresses that a peer announces */
    PCCL_OPS_HELD_MAX = 4096,        /* operations that one peer has launched and not awaited */
    PCCL_OPS_PER_PEER_MAX = 8192,    /* the same, plus ended operations whose outcome others may not know yet */
    PCCL_OPS_LONE_MAX = 6144, /* operations that a peer may abort in an era before any other member has finished them */
    PCCL_TOMBSTONES_MAX = 30720, /* aborted operations that a peer has not launched yet; enough for five peers that each
                                    abort PCCL_OPS_LONE_MAX */
    PCCL_TAGS_PER_ERA_MAX = 1 << 20,    /* distinct tags between two topology updates */
    PCCL_CHOICES_MAX = 4096,            /* tags with an automatic codec that one peer remembers */
    PCCL_BUDGET_MS_MAX = (1 << 17) - 1, /* budget of an automatic codec */
    PCCL_BUDGET_PERCENT_MAX = 100,      /* the same, as a percentage */
    PCCL_EARLY_OFFERS = 32,             /* sends that a peer requests before it launches receives from any sender */
    PCCL_OFFERS_MAX = PCCL_OPS_HELD_MAX + PCCL_EARLY_OFFERS, /* sends that a peer requests for one tag */
    PCCL_LISTENED_MAX = 2 * PCCL_OPS_HELD_MAX,               /* tags for which a peer requests sends at the same time */
    /* sends announced to one peer, enough for 16 other peers with PCCL_OPS_HELD_MAX each */
    PCCL_ANNOUNCED_SENDS_MAX = 65536,
    PCCL_TINY_BYTES_MAX = 8192,        /* payload that may be sent through the master */
    PCCL_SUBGROUPS_MAX = 4096,         /* subgroups that one peer belongs to or is creating */
    PCCL_SUBGROUP_SEATS_MAX = 1 << 17, /* total members of these subgroups, which limits the size of a report */
    PCCL_FOUNDED_COST_BYTES = 33,      /* size of the result of creating a subgroup, without its members */
    PCCL_FOUNDED_SEAT_BYTES = 18,      /* additional size of that result for each member */
    PCCL_FOUNDED_BYTES_MAX = PCCL_FOUNDED_COST_BYTES + PCCL_PEERS_MAX * PCCL_FOUNDED_SEAT_BYTES,
    PCCL_TELEMETRY_LINKS_MAX = 16,  /* links in a peer's report */
    PCCL_TELEMETRY_WAITS_MAX = 16,  /* neighbors in a peer's report that the peer waits for */
    PCCL_TELEMETRY_ROUNDS_MAX = 8,  /* operations in a peer's report */
    PCCL_VERDICTS_MAX = 8,          /* active verdicts of a group */
    PCCL_VERDICT_TEXT_MAX = 240,    /* bytes of a verdict's evidence, and of its action */
    PCCL_PLACES_MAX = 16,           /* peers listed in a message who_is_where */
    PCCL_OPTIMIZE_PEERS_MAX = 1024, /* largest group whose links are measured and whose ring is searched */
    PCCL_MESH_PEERS_MAX = 16,       /* largest group with links between all members; larger ones use rings and hubs */
    PCCL_HUB_PEERS_MAX = 64,        /* largest group with hubs, because the hubs are numbered by the bits of a word */
    PCCL_TREES_PEERS_MAX = 64,      /* largest group for which trees are packed (topology/trees.h) */
    PCCL_TREES_MAX = 32,            /* trees in a table */
    PCCL_SEND_LINKS_MAX = 256,      /* links of a peer that are used only for sends, now or recently */
    PCCL_POOL_MAX = 64,             /* connections from one peer to another */
    PCCL_POOL_LAST = PCCL_POOL_MAX - 1,
    PCCL_EARLY_LINKS_MAX = 64,  /* links to a peer from unknown peers, which may be members of a later view */
    PCCL_EARLY_POOL_MAX = 8,    /* connections of each of these links */
    PCCL_GONE_KEPT = 256,       /* lost connections that a peer remembers, to report them again to a restarted master */
    PCCL_GONE_QUEUE_MAX = 4096, /* unacknowledged messages above which no link_gone is sent to a peer */
    PCCL_LONG_PATH_RTT_US = 2000,     /* shortest round trip of a path that is considered long */
    PCCL_SEGMENT_BYTES_MAX = 4 << 20, /* size of a data message */
    PCCL_TENSORS_MAX = 65536,         /* tensors of a shared state */
    PCCL_TENSORS_DESCRIBED_MAX = 768, /* tensors of the state that a vote describes, starting with the first */
    PCCL_TENSOR_NAME_MAX = 64,        /* bytes of a tensor's name in a vote, taken from its end */
    PCCL_STATE_CHUNK_BYTES = 1 << 20, /* chunk of a tensor, which has one digest and one proof */
    PCCL_STATE_DIGESTS_MAX = 8192,    /* proofs in a message */
    PCCL_STATE_DONORS_MAX = 8,        /* peers from which one peer fetches concurrently */
    PCCL_MEASURE_MS_MAX = 10000,      /* duration of a link test */
    PCCL_FLOOD_BYTES_MAX = 64 << 10,  /* size of a message in a link test */
    PCCL_TOPOLOGY_REPORT_BYTES_MAX = 256 << 10, /* text about the links of a group */
    PCCL_RUNS_OVER_MAX = 64,                    /* most recently ended runs that the master remembers */
    PCCL_CLAIMS_MAX = 1024,        /* recent members of other runs that tried to join a newly started master */
    PCCL_COOL_DOWNS_MAX = 256,     /* recently expelled slow peers that the master remembers */
    PCCL_REMOVED_MAX = 256,        /* recently removed peers for which the master remembers the reason */
    PCCL_DEPARTED_MAX = 256,       /* recently departed members of its group that a peer remembers */
    PCCL_DEPARTED_LISTED_MAX = 16, /* departed peers that a failure lists, starting with the first */
    PCCL_EDGES_MAX = 4096,         /* lost or bad edges that the master remembers */
    PCCL_REASON_MAX = 480,
    PCCL_NAME_MAX = 64,         /* bytes of a peer's display name */
    PCCL_LABEL_MAX = 32,        /* bytes of an operation's label */
    PCCL_NAMES_SENT_MAX = 1024, /* peers whose names a message contains; also members that receive names */
    PCCL_AUTH_MAX = 1024,       /* bytes of authentication in a hello */

    /*
     * Early data on a lane before the receiver's READY: the amount that a fast path transfers in half a round trip.
     * Receivers refuse more, so a change requires a new protocol version.
     */
    PCCL_EARLY_BYTES = 4 << 20,
    PCCL_EARLY_SEGMENTS = 256, /* the same limit in segments */
    /*
     * Early data that a receiver buffers for a lane. It exceeds the sender's limit, because the receiver may still
     * buffer aborted data that the sender no longer counts.
     */
    PCCL_EARLY_BUFFER_BYTES = 4 * PCCL_EARLY_BYTES,
    PCCL_EARLY_BUFFER_SEGMENTS = 4 * PCCL_EARLY_SEGMENTS,
    /* Cost of a buffered segment, in addition to its bytes, in the total limit of all lanes. */
    PCCL_EARLY_SEGMENT_COST = 4096,
    /*
     * Buffer reserved for a lane whose peer is a member, or on which an operation has received: equal to the sender's
     * limit for early data.
     */
    PCCL_EARLY_OWN_COST = PCCL_EARLY_BYTES + PCCL_EARLY_SEGMENTS * PCCL_EARLY_SEGMENT_COST,
    /* Buffer shared by all lanes in addition to these reserved buffers. */
    PCCL_EARLY_SPARE_COST = 48 << 20,

    PCCL_FRAME_HEADER_BYTES = 32,
    PCCL_FRAME_HELLO_MAX = 4096,     /* body of a frame before the hello is accepted */
    PCCL_FRAME_BODY_MAX = 320 << 10, /* body of a control frame */

    PCCL_SESSION_QUEUE_MAX = 45056,    /* unacknowledged messages above which a peer is considered departed */
    PCCL_SESSION_BYTES_MAX = 80 << 20, /* total bytes of these messages */
    PCCL_SESSION_ACK_EVERY = 64, /* number of received messages after which an acknowledgment is sent immediately */
    PCCL_PATH_BYTES_MAX = 1023,  /* length of a path in a parameter */
    PCCL_STRANGERS_MAX = 256,    /* connections without an accepted hello */
};

#endif
