/* State of links: requested links and reports about them. Part of state.h. */
#ifndef PCCL_MASTER_LINKS_STATE_H
#define PCCL_MASTER_LINKS_STATE_H

#include "wire/wire.h"

/* A link that the master has requested from a peer, or that a peer reports. */
struct pccl_link_intent {
    struct pccl_id to;
    bool up, failed;    /* failed: the last dial failed */
    bool reversed;      /* true if the other end dials, or has dialed */
    bool reached;       /* true if it has been up, and its sender had dialed */
    uint32_t subgroups; /* number of subgroups that use it */
    uint32_t rtt_us;    /* last reported round trip; 0 if unknown */
    uint64_t rate;      /* last reported rate, at most PCCL_RATE_MOST; 0 if unknown */
};

/* One direction of a hub: links to it, or from it, for all members of a group too large for a mesh (links_hubs.c). */
struct pccl_hub {
    bool wanted;
    bool for_all;             /* only all-to-alls use it; they need all members as hubs */
    uint32_t idle;            /* updates since the last use by an operation */
    uint64_t barred_until_us; /* time until which the hub is not used, because one of its links could not be opened */
};

/* A peer's report about a failed link. */
struct pccl_edge {
    struct pccl_id from, to; /* `from` is the reporter */
    bool incoming;
    bool dialed; /* true if the reporter dials the link */
    enum pccl_link_end how;
    uint64_t since_us;  /* time of the last report; 0 if the link is up again */
    uint64_t failed_us; /* time of the first failure in this ring, if a decision is due */
    uint64_t act_us;    /* time of the decision unless the link is up by then; 0 if none is due */
    uint64_t bad_until_us;
};

#endif
