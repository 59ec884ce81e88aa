/* A peer group: its ring and view, its operations, its synchronization, and the search for a better ring. */
#ifndef PCCL_MASTER_GROUP_H
#define PCCL_MASTER_GROUP_H

#include "core/table.h"
#include "core/text.h"
#include "master/operations_state.h"
#include "master/topology_state.h"
#include "master/verdicts.h"
#include "wire/wire.h"

struct pccl_goodput_round; /* master/goodput.c */
struct pccl_remote;        /* master/remote.h */

struct pccl_peer_group {
    struct pccl_table_node by_number;
    uint32_t number;
    bool changed; /* true if the pending epoch change concerns this group */
    bool replans; /* true if that change affects only the ring, so that operations under way restart */
    struct pccl_epoch view;
    /* last view that was not just a re-plan; may equal `view` */
    struct pccl_epoch firm;
    struct pccl_cost cost;                                    /* cost data of the view */
    struct pccl_attributes last_attributes[PCCL_ROUND_KINDS]; /* attributes sent with the answer to the last round */

    uint32_t old_ring_count; /* ring size reported after a restart of the master */
    uint32_t ring_version;   /* number of ring changes */
    uint64_t ring_us;        /* time of the last ring change */
    struct pccl_remote **ring;
    uint32_t ring_count, ring_capacity;

    struct pccl_matrix matrix;     /* estimates of its links; empty until an optimization begins */
    struct pccl_remote **by_place; /* members by place in the matrix; NULL if free */
    uint32_t place_count, place_capacity;
    struct pccl_tuning tuning;

    bool sync_due;                          /* true if a change in the open round has not been processed */
    const struct pccl_remote *sync_news;    /* member whose part has changed in that round; NULL if several have */
    bool sync_planned;                      /* true once the open round has elected a content */
    uint8_t sync_outcome, optimize_outcome; /* outcomes of the last rounds; the reasons explain failures */
    struct pccl_text sync_reason, optimize_reason;
    uint64_t sync, revision;      /* open round; next revision, 0 if not set yet */
    bool sync_proven;             /* true if the proof of the elected content is known */
    struct pccl_proof sync_proof; /* 0 if no majority could compute it */
    uint64_t sync_revision;       /* elected revision of the open round, or of the last one */

    struct pccl_goodput_round *rounds; /* owned (goodput.c); NULL before the first report */
    struct pccl_verdicts verdicts;
    uint64_t slow_removed_us; /* time of the last expulsion for slowness; 0: never */
    bool has_news;            /* true if a member has reported since the last comparison */
    bool verdicts_unsent;     /* true if the members have not received the latest change of the verdicts */

    uint64_t decisions, stable;
    uint32_t behind; /* number of members that were sent outcomes and have acknowledged none beyond `stable` */
    uint32_t held_count;
    struct pccl_table by_instance;
    struct pccl_operation *oldest, *newest;
    struct pccl_table subgroups, pairs; /* by name */
};

#endif
