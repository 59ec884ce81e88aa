/*
 * All bounds of the library. Nothing that arrives on a wire makes us hold more than they allow.
 */
#ifndef PCCL_CORE_LIMITS_H
#define PCCL_CORE_LIMITS_H

enum {
    PCCL_PEERS_MAX = 4096,  /* members and newcomers of one run */
    PCCL_GROUPS_MAX = 4096, /* peer groups of one run */
    /*
     * Newcomers must leave room for members that come back to a restarted master. One address may
     * stand for a whole cluster that starts, so these are as many as the largest group for which a
     * ring is searched.
     */
    PCCL_NEWCOMERS_MAX = PCCL_PEERS_MAX / 2,
    PCCL_NEWCOMERS_OF_GROUP_MAX = 1024,
    PCCL_NEWCOMERS_OF_ADDRESS_MAX = 1024,
    PCCL_UNTRIED_MAX = 64, /* members that were admitted as the first of a new group and have called nothing yet */
    PCCL_NEWCOMER_ADDRESSES_MAX = 8, /* of a newcomer's, how many members are told, as they dial all of them */
    PCCL_CANDIDATES_MAX = 16,        /* addresses a peer announces */
    PCCL_OPS_HELD_MAX = 4096,        /* operations of one peer that its callers have launched and not awaited */
    PCCL_OPS_PER_PEER_MAX = 8192,    /* plus ended ones whose outcome others may not know yet: a window more */
    PCCL_OPS_LONE_MAX = 6144,    /* that one peer ends in an era without the others knowing them: half as many more */
    PCCL_TOMBSTONES_MAX = 30720, /* aborted operations that a peer has not launched yet: of five such others */
    PCCL_TAGS_PER_ERA_MAX = 1 << 20,    /* distinct tags between two topology updates */
    PCCL_CHOICES_MAX = 4096,            /* tags with an automatic codec that one peer remembers */
    PCCL_BUDGET_MS_MAX = (1 << 17) - 1, /* of an automatic codec */
    PCCL_BUDGET_PERCENT_MAX = 100,      /* likewise */
    PCCL_OFFERS_AHEAD = 32,             /* sends that a peer asks for before somebody receives them from anybody */
    PCCL_OFFERS_MAX = PCCL_OPS_HELD_MAX + PCCL_OFFERS_AHEAD, /* that it asks for of one tag */
    PCCL_LISTENED_MAX = 2 * PCCL_OPS_HELD_MAX,               /* tags that it asks for at one time */
    PCCL_ANNOUNCED_SENDS_MAX = 65536,  /* that members have announced to one peer: of 16 peers, each as it may hold */
    PCCL_TINY_BYTES_MAX = 8192,        /* payload that may travel through the master */
    PCCL_SUBGROUPS_MAX = 4096,         /* that one peer is in, or founds */
    PCCL_SUBGROUP_SEATS_MAX = 1 << 17, /* their members, in all: a report of them stays short */
    PCCL_FOUNDED_COST_BYTES = 33,      /* result of a founding: cost data, ... */
    PCCL_FOUNDED_SEAT_BYTES = 18,      /* ... and this for each member */
    PCCL_FOUNDED_BYTES_MAX = PCCL_FOUNDED_COST_BYTES + PCCL_PEERS_MAX * PCCL_FOUNDED_SEAT_BYTES,
    PCCL_SIGHT_LINKS_MAX = 16,      /* links in one report of a peer */
    PCCL_SIGHT_WAITS_MAX = 16,      /* neighbors that it waits for in it */
    PCCL_VERDICTS_MAX = 8,          /* that hold for a group at one time */
    PCCL_VERDICT_TEXT_MAX = 240,    /* bytes of the evidence of one, and of what was done */
    PCCL_PLACES_MAX = 16,           /* peers named in one "who is where" */
    PCCL_OPTIMIZE_PEERS_MAX = 1024, /* of a group whose links are measured and whose ring is searched */
    PCCL_MESH_PEERS_MAX = 16,       /* a larger group keeps links to its ring neighbors only, and those of its hubs: */
    PCCL_HUB_PEERS_MAX = 64,        /* a group with hubs, whose numbers are bits of a word */
    PCCL_SEND_LINKS_MAX = 256,      /* links of a peer that only sends need, or have needed lately */
    PCCL_POOL_MAX = 64,             /* connections from one peer to another */
    PCCL_POOL_LAST = PCCL_POOL_MAX - 1,
    PCCL_LINKS_AHEAD_MAX = 64,  /* to a peer, from peers that it does not know as members, as its view may be behind */
    PCCL_POOL_AHEAD_MAX = 8,    /* connections of each of these */
    PCCL_GONE_KEPT = 256,       /* ends of connections that a peer reports again to a restarted master */
    PCCL_GONE_QUEUE_MAX = 4096, /* unacknowledged messages to a peer beyond which it is sent no link_gone */
    PCCL_LONG_PATH_RTT_US = 2000,               /* the least round trip of a path that counts as long */
    PCCL_SEGMENT_BYTES_MAX = 4 << 20,           /* of one data message */
    PCCL_TENSORS_MAX = 65536,                   /* of a shared state */
    PCCL_TENSORS_DESCRIBED_MAX = 768,           /* the first ones, which are described in a vote */
    PCCL_TENSOR_NAME_MAX = 64,                  /* the last bytes of a tensor's name there */
    PCCL_STATE_CHUNK_BYTES = 1 << 20,           /* of a tensor, with a digest and a proof of its own */
    PCCL_STATE_DIGESTS_MAX = 8192,              /* proofs in one message */
    PCCL_STATE_DONORS_MAX = 8,                  /* peers that one peer fetches from at once */
    PCCL_MEASURE_MS_MAX = 10000,                /* that a test of a link lasts */
    PCCL_FLOOD_BYTES_MAX = 64 << 10,            /* of one message of a test */
    PCCL_TOPOLOGY_REPORT_BYTES_MAX = 256 << 10, /* of the text about the links of a group */
    PCCL_RUNS_OVER_MAX = 64,                    /* latest ended runs that the master remembers */
    PCCL_CLAIMS_MAX = 1024,                     /* latest members of other runs that tried to join a young master */
    PCCL_COOLING_MAX = 256,                     /* latest peers that were expelled for being slow */
    PCCL_GONE_MAX = 256,                        /* latest removed peers whose reason the master remembers */
    PCCL_DEPARTED_MAX = 256,                    /* latest peers that left its group, which a peer remembers */
    PCCL_DEPARTED_TOLD_MAX = 16,                /* the first of these, which a failure names */
    PCCL_EDGES_MAX = 4096,                      /* lost or bad edges that the master remembers */
    PCCL_REASON_MAX = 480,                      /* bytes of a reason */
    PCCL_NAME_MAX = 64,                         /* bytes of a peer's display name */
    PCCL_LABEL_MAX = 32,                        /* bytes of an operation's label */
    PCCL_NAMES_TOLD_MAX = 1024, /* peers whose names one message tells; also members that are told names */
    PCCL_AUTH_MAX = 1024,       /* bytes of the authentication step in a hello */

    /*
     * The most that is sent over a lane before the receiver's READY is here: what a fast path takes
     * in half a round trip. Receivers refuse more, so changing it means a new version of the
     * protocol.
     */
    PCCL_AHEAD_BYTES = 4 << 20,
    PCCL_AHEAD_SEGMENTS = 256, /* the same, however small they are */
    /*
     * The most that is held for a lane. The sender no longer counts what was aborted, but the
     * receiver may still hold it.
     */
    PCCL_AHEAD_HELD_BYTES = 4 * PCCL_AHEAD_BYTES,
    PCCL_AHEAD_HELD_SEGMENTS = 4 * PCCL_AHEAD_SEGMENTS,
    /* Towards the bound of all lanes, a held segment counts as its bytes plus this. */
    PCCL_AHEAD_SEGMENT_COST = 4096,
    /*
     * What a lane may hold whatever others hold, if its peer is a member or an operation has
     * received over it: as much as its sender may send ahead.
     */
    PCCL_AHEAD_OWN_COST = PCCL_AHEAD_BYTES + PCCL_AHEAD_SEGMENTS * PCCL_AHEAD_SEGMENT_COST,
    /* What all lanes together may hold beyond that. */
    PCCL_AHEAD_SPARE_COST = 48 << 20,

    PCCL_FRAME_HEADER_BYTES = 32,
    PCCL_FRAME_HELLO_MAX = 4096,     /* body of a frame before the hello is accepted */
    PCCL_FRAME_BODY_MAX = 320 << 10, /* body of any control frame */

    PCCL_SESSION_QUEUE_MAX = 45056,    /* unacknowledged messages before a session counts as departed */
    PCCL_SESSION_BYTES_MAX = 80 << 20, /* their bytes */
    PCCL_SESSION_ACK_EVERY = 64,       /* received messages after which an acknowledgment is sent at once */
    PCCL_STRANGERS_MAX = 256,          /* connections without an accepted hello */
};

#endif
