/* The state of links: what peers were asked to hold, and what they report. Part of state.h. */
#ifndef PCCL_MASTER_LINKS_STATE_H
#define PCCL_MASTER_LINKS_STATE_H

#include "wire/wire.h"

/* A link that a peer was asked to hold, or says it holds. */
struct pccl_link_intent {
    struct pccl_id to;
    bool up, failed;    /* failed: the last attempt to dial failed */
    uint32_t subgroups; /* how many rely on it */
    uint32_t rtt_us;    /* as last told; 0: unknown */
    uint64_t rate;      /* likewise; at most PCCL_RATE_MOST */
};

/* Whether all hold a link to a member, or it to all, in a group too large for a mesh (links_hubs.c). */
struct pccl_hub {
    bool wanted;
    bool for_all;             /* only all-to-alls have asked, which need all members as hubs */
    uint32_t idle;            /* updates since an operation used them */
    uint64_t barred_until_us; /* one of them could not be opened, so they are not asked for before */
};

/* What a peer reported of a link that failed. */
struct pccl_edge {
    struct pccl_id from, to; /* `from` reports */
    bool incoming;
    enum pccl_link_end how;
    uint64_t since_us;  /* when it was last reported; 0: the link is up again */
    uint64_t failed_us; /* when it was first reported in this ring, if it is to be judged */
    uint64_t act_us;    /* when it is judged, unless it is up by then; 0: never */
    uint64_t bad_until_us;
};

#endif
