/* Every bound of the library, in one place. Nothing that arrives on a wire makes us hold more than these say. */
#ifndef PCCL_CORE_LIMITS_H
#define PCCL_CORE_LIMITS_H

enum {
    PCCL_PEERS_MAX = 4096,           /* members and newcomers of one run */
    PCCL_GROUPS_MAX = 4096,          /* peer groups of one run */
    PCCL_CANDIDATES_MAX = 16,        /* addresses a peer announces */
    PCCL_OPS_PER_PEER_MAX = 4096,    /* operations of one peer whose outcome it or the master must remember */
    PCCL_TAGS_PER_ERA_MAX = 1 << 20, /* distinct tags between two topology updates */
    PCCL_TINY_BYTES_MAX = 8192,      /* payload that may travel through the master */
    PCCL_PLACES_MAX = 16,            /* peers named in one "who is where" */
    PCCL_RUNS_OVER_MAX = 64,         /* ended runs the master remembers, the latest */
    PCCL_EDGES_MAX = 4096,           /* lost or bad edges the master remembers */
    PCCL_WORDS_MAX = 480,            /* bytes of a reason in words */
    PCCL_NAME_MAX = 64,              /* bytes of a peer's display name */
    PCCL_AUTH_MAX = 1024,            /* bytes of the authentication step in a hello */

    PCCL_FRAME_HEADER_BYTES = 32,
    PCCL_FRAME_HELLO_MAX = 4096,     /* body of a frame before the hello is accepted */
    PCCL_FRAME_BODY_MAX = 256 << 10, /* body of any control frame */

    PCCL_SESSION_QUEUE_MAX = 16384,    /* unacknowledged messages before a session counts as departed */
    PCCL_SESSION_BYTES_MAX = 32 << 20, /* their bytes */
    PCCL_SESSION_ACK_EVERY = 64,       /* received messages after which an acknowledgement is sent at once */
    PCCL_STRANGERS_MAX = 256,          /* connections without an accepted hello */
};

#endif
