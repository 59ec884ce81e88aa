/* All bounds of the library. No input from a wire makes us keep more than they allow. */
#ifndef PCCL_CORE_LIMITS_H
#define PCCL_CORE_LIMITS_H

enum {
    PCCL_PEERS_MAX = 4096,  /* members and newcomers of one run */
    PCCL_GROUPS_MAX = 4096, /* peer groups of one run */
    /*
     * Newcomers must leave room for members that return to a restarted master. One address may represent a whole
     * starting cluster, so these equal the largest group for which a ring is searched.
     */
    PCCL_NEWCOMERS_MAX = PCCL_PEERS_MAX / 2,
    PCCL_NEWCOMERS_OF_GROUP_MAX = 1024,
    PCCL_NEWCOMERS_OF_ADDRESS_MAX = 1024,
    PCCL_UNTRIED_MAX = 64,           /* members admitted as the first of a new group that have made no call yet */
    PCCL_NEWCOMER_ADDRESSES_MAX = 8, /* addresses of a newcomer sent to members, which dial all of them */
    PCCL_CANDIDATES_MAX = 16,        /* addresses that a peer announces */
    PCCL_OPS_HELD_MAX = 4096,        /* operations of one peer that are launched and not awaited */
    PCCL_OPS_PER_PEER_MAX = 8192,    /* plus ended ones whose outcome others may not know yet: a window more */
    PCCL_OPS_LONE_MAX = 6144,    /* operations that one peer ends in an era unknown to the others: half as many more */
    PCCL_TOMBSTONES_MAX = 30720, /* aborted operations that a peer has not launched yet: from five such others */
    PCCL_TAGS_PER_ERA_MAX = 1 << 20,    /* distinct tags between two topology updates */
    PCCL_CHOICES_MAX = 4096,            /* tags with an automatic codec that one peer remembers */
    PCCL_BUDGET_MS_MAX = (1 << 17) - 1, /* budget of an automatic codec */
    PCCL_BUDGET_PERCENT_MAX = 100,      /* likewise */
    PCCL_EARLY_OFFERS = 32,             /* sends that a peer asks for in advance of receives from any sender */
    PCCL_OFFERS_MAX = PCCL_OPS_HELD_MAX + PCCL_EARLY_OFFERS, /* sends that it asks for per tag */
    PCCL_LISTENED_MAX = 2 * PCCL_OPS_HELD_MAX,               /* tags that it asks for at one time */
    /* sends that members have announced to one peer: of 16 peers, each at its limit */
    PCCL_ANNOUNCED_SENDS_MAX = 65536,
    PCCL_TINY_BYTES_MAX = 8192,        /* payload that may travel through the master */
    PCCL_SUBGROUPS_MAX = 4096,         /* subgroups that one peer belongs to or founds */
    PCCL_SUBGROUP_SEATS_MAX = 1 << 17, /* total of their members, so that a report of them stays short */
    PCCL_FOUNDED_COST_BYTES = 33,      /* result of a founding: cost data, ... */
    PCCL_FOUNDED_SEAT_BYTES = 18,      /* ... and this for each member */
    PCCL_FOUNDED_BYTES_MAX = PCCL_FOUNDED_COST_BYTES + PCCL_PEERS_MAX * PCCL_FOUNDED_SEAT_BYTES,
    PCCL_TELEMETRY_LINKS_MAX = 16,  /* links in one report of a peer */
    PCCL_TELEMETRY_WAITS_MAX = 16,  /* neighbors that it waits for */
    PCCL_VERDICTS_MAX = 8,          /* active verdicts of a group */
    PCCL_VERDICT_TEXT_MAX = 240,    /* bytes of the evidence of a verdict, and of the action */
    PCCL_PLACES_MAX = 16,           /* peers listed in one who_is_where */
    PCCL_OPTIMIZE_PEERS_MAX = 1024, /* largest group whose links are measured and whose ring is searched */
    PCCL_MESH_PEERS_MAX = 16,       /* larger groups keep links to ring neighbors only, and to or from hubs: */
    PCCL_HUB_PEERS_MAX = 64,        /* largest group with hubs, whose numbers are bits of a word */
    PCCL_SEND_LINKS_MAX = 256,      /* links of a peer that only sends need, or have needed lately */
    PCCL_POOL_MAX = 64,             /* connections from one peer to another */
    PCCL_POOL_LAST = PCCL_POOL_MAX - 1,
    PCCL_EARLY_LINKS_MAX = 64,        /* links to a peer from unknown peers, which may be members in a later view */
    PCCL_EARLY_POOL_MAX = 8,          /* maximum number of connections of each such link */
    PCCL_GONE_KEPT = 256,             /* ends of connections that a peer reports again to a restarted master */
    PCCL_GONE_QUEUE_MAX = 4096,       /* unacknowledged messages to a peer beyond which it is sent no link_gone */
    PCCL_LONG_PATH_RTT_US = 2000,     /* shortest round trip of a long path */
    PCCL_SEGMENT_BYTES_MAX = 4 << 20, /* one data message */
    PCCL_TENSORS_MAX = 65536,         /* of a shared state */
    PCCL_TENSORS_DESCRIBED_MAX = 768, /* first tensors, which are described in a vote */
    PCCL_TENSOR_NAME_MAX = 64,        /* last bytes of a tensor's name in a vote */
    PCCL_STATE_CHUNK_BYTES = 1 << 20, /* part of a tensor with a digest and a proof */
    PCCL_STATE_DIGESTS_MAX = 8192,    /* proofs in one message */
    PCCL_STATE_DONORS_MAX = 8,        /* peers that one peer fetches from at once */
    PCCL_MEASURE_MS_MAX = 10000,      /* duration of a link test */
    PCCL_FLOOD_BYTES_MAX = 64 << 10,  /* of one message of a test */
    PCCL_TOPOLOGY_REPORT_BYTES_MAX = 256 << 10, /* text about the links of a group */
    PCCL_RUNS_OVER_MAX = 64,                    /* latest ended runs that the master remembers */
    PCCL_CLAIMS_MAX = 1024,                     /* latest members of other runs that tried to join a young master */
    PCCL_COOL_DOWNS_MAX = 256,                  /* latest peers that were expelled for being slow */
    PCCL_REMOVED_MAX = 256,                     /* latest removed peers whose reason the master remembers */
    PCCL_DEPARTED_MAX = 256,                    /* latest departed peers of its group that a peer remembers */
    PCCL_DEPARTED_LISTED_MAX = 16,              /* first of these, named by a failure */
    PCCL_EDGES_MAX = 4096,                      /* lost or bad edges that the master remembers */
    PCCL_REASON_MAX = 480,                      /* bytes of a reason */
    PCCL_NAME_MAX = 64,                         /* bytes of a peer's display name */
    PCCL_LABEL_MAX = 32,                        /* bytes of an operation's label */
    PCCL_NAMES_SENT_MAX = 1024,                 /* peers whose names one message has; also members that receive names */
    PCCL_AUTH_MAX = 1024,                       /* bytes of the authentication in a hello */

    /*
     * Early data on a lane before the receiver's READY: the amount that a fast path takes in half a round trip.
     * Receivers refuse more, so a change requires a new protocol version.
     */
    PCCL_EARLY_BYTES = 4 << 20,
    PCCL_EARLY_SEGMENTS = 256, /* the same in segments of any size */
    /*
     * Early data buffered for a lane. The sender no longer counts aborted data, but the receiver may still buffer it.
     */
    PCCL_EARLY_BUFFER_BYTES = 4 * PCCL_EARLY_BYTES,
    PCCL_EARLY_BUFFER_SEGMENTS = 4 * PCCL_EARLY_SEGMENTS,
    /* Cost of a buffered segment, beside its bytes, in the bound of all lanes. */
    PCCL_EARLY_SEGMENT_COST = 4096,
    /*
     * Buffer of a lane that others cannot use, if its peer is a member or an operation has received over it: equal to
     * the sender's early data.
     */
    PCCL_EARLY_OWN_COST = PCCL_EARLY_BYTES + PCCL_EARLY_SEGMENTS * PCCL_EARLY_SEGMENT_COST,
    /* Buffer of all lanes together beyond that. */
    PCCL_EARLY_SPARE_COST = 48 << 20,

    PCCL_FRAME_HEADER_BYTES = 32,
    PCCL_FRAME_HELLO_MAX = 4096,     /* body of a frame before the hello is accepted */
    PCCL_FRAME_BODY_MAX = 320 << 10, /* body of any control frame */

    PCCL_SESSION_QUEUE_MAX = 45056,    /* unacknowledged messages before a session counts as departed */
    PCCL_SESSION_BYTES_MAX = 80 << 20, /* total of their bytes */
    PCCL_SESSION_ACK_EVERY = 64,       /* received messages after which an acknowledgment is sent at once */
    PCCL_PATH_BYTES_MAX = 1023,        /* path in a parameter */
    PCCL_STRANGERS_MAX = 256,          /* connections without an accepted hello */
};

#endif
