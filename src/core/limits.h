/* Every bound of the library, in one place. Nothing that arrives on a wire makes us hold more than these say. */
#ifndef PCCL_CORE_LIMITS_H
#define PCCL_CORE_LIMITS_H

enum {
    PCCL_PEERS_MAX = 4096,  /* members and newcomers of one run */
    PCCL_GROUPS_MAX = 4096, /* peer groups of one run */
    /*
     * Who waits to be admitted must leave room for members that come back to a restarted master. Behind one address may
     * be a whole cluster that starts, as large as any that a ring is searched for.
     */
    PCCL_NEWCOMERS_MAX = PCCL_PEERS_MAX / 2,
    PCCL_NEWCOMERS_OF_GROUP_MAX = 1024,
    PCCL_NEWCOMERS_OF_ADDRESS_MAX = 1024,
    PCCL_UNTRIED_MAX = 64, /* members that were admitted as the first of a new group and have called nothing yet */
    PCCL_NEWCOMER_ADDRESSES_MAX = 8, /* of those that a newcomer announces, others are told: they dial them all */
    PCCL_CANDIDATES_MAX = 16,        /* addresses a peer announces */
    PCCL_OPS_HELD_MAX = 4096,        /* operations of one peer that its callers have launched and not awaited */
    PCCL_OPS_PER_PEER_MAX = 8192,    /* and with those over whose outcome not everybody may know yet: a window more */
    PCCL_OPS_LONE_MAX = 6144,        /* that one peer ends in an era, of which the others know nothing: a half more */
    PCCL_TOMBSTONES_MAX = 30720,     /* aborted operations that a peer has not launched yet: of five such others */
    PCCL_TAGS_PER_ERA_MAX = 1 << 20, /* distinct tags between two topology updates */
    PCCL_TINY_BYTES_MAX = 8192,      /* payload that may travel through the master */
    PCCL_PLACES_MAX = 16,            /* peers named in one "who is where" */
    PCCL_OPTIMIZE_PEERS_MAX = 1024,  /* of a group whose ways are known and whose ring is searched for */
    PCCL_MESH_PEERS_MAX = 16,        /* a larger group keeps links to its ring neighbors only */
    PCCL_POOL_MAX = 64,              /* connections from one peer to another */
    PCCL_POOL_LAST = PCCL_POOL_MAX - 1,
    PCCL_LINKS_AHEAD_MAX = 64,    /* to a peer, from those that it does not know as members: its view may be behind */
    PCCL_POOL_AHEAD_MAX = 8,      /* connections of each of these */
    PCCL_LONG_PATH_RTT_US = 2000, /* of a path that counts as long, at least */
    PCCL_SEGMENT_BYTES_MAX = 4 << 20,           /* of one data message */
    PCCL_TENSORS_MAX = 65536,                   /* of a shared state */
    PCCL_TENSORS_DESCRIBED_MAX = 768,           /* and of those described in a vote: the first */
    PCCL_TENSOR_NAME_MAX = 64,                  /* bytes of a tensor's name there: the last */
    PCCL_STATE_CHUNK_BYTES = 1 << 20,           /* of a tensor, with a digest and a proof of its own */
    PCCL_STATE_DIGESTS_MAX = 8192,              /* proofs in one message */
    PCCL_STATE_DONORS_MAX = 8,                  /* peers that one peer fetches from at once */
    PCCL_MEASURE_MS_MAX = 10000,                /* that a test of a way lasts */
    PCCL_FLOOD_BYTES_MAX = 64 << 10,            /* of one message of a test */
    PCCL_TOPOLOGY_REPORT_BYTES_MAX = 256 << 10, /* of the text about the links of a group */
    PCCL_RUNS_OVER_MAX = 64,                    /* ended runs the master remembers, the latest */
    PCCL_CLAIMS_MAX = 1024,                     /* members of other runs that knocked at a young master, the latest */
    PCCL_GONE_MAX = 256,                        /* removed peers whose reason the master remembers, the latest */
    PCCL_DEPARTED_MAX = 256,                    /* peers that have left its group a peer remembers, the latest */
    PCCL_DEPARTED_TOLD_MAX = 16,                /* and that are named with one failure, the first */
    PCCL_EDGES_MAX = 4096,                      /* lost or bad edges the master remembers */
    PCCL_REASON_MAX = 480,                      /* bytes of a reason in words */
    PCCL_NAME_MAX = 64,                         /* bytes of a peer's display name */
    PCCL_LABEL_MAX = 32,                        /* bytes of what a caller calls an operation */
    PCCL_NAMES_TOLD_MAX = 1024, /* peers whose names one message tells, and members that are told names */
    PCCL_AUTH_MAX = 1024,       /* bytes of the authentication step in a hello */

    PCCL_FRAME_HEADER_BYTES = 32,
    PCCL_FRAME_HELLO_MAX = 4096,     /* body of a frame before the hello is accepted */
    PCCL_FRAME_BODY_MAX = 320 << 10, /* body of any control frame */

    PCCL_SESSION_QUEUE_MAX = 40960,    /* unacknowledged messages before a session counts as departed */
    PCCL_SESSION_BYTES_MAX = 80 << 20, /* their bytes */
    PCCL_SESSION_ACK_EVERY = 64,       /* received messages after which an acknowledgment is sent at once */
    PCCL_STRANGERS_MAX = 256,          /* connections without an accepted hello */
};

#endif
