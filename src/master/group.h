/*
 * A peer group: its ring and view, its operations and outcomes, its synchronization, and its search
 * for a better ring.
 */
#ifndef PCCL_MASTER_GROUP_H
#define PCCL_MASTER_GROUP_H

#include "core/table.h"
#include "core/text.h"
#include "master/operations_state.h"
#include "master/topology_state.h"
#include "master/verdicts.h"
#include "wire/wire.h"

struct pccl_remote; /* master/remote.h */

struct pccl_peer_group {
    struct pccl_table_node by_number;
    uint32_t number;
    bool changed; /* in the epoch change under way */
    bool replans; /* ... only its ring: what is under way begins again */
    struct pccl_epoch view;
    struct pccl_epoch firm;                                   /* the view before all that only re-plan; or `view` */
    struct pccl_cost cost;                                    /* of the view */
    struct pccl_attributes last_attributes[PCCL_ROUND_KINDS]; /* as told with the answer to the last round */

    uint32_t old_ring_count; /* as reported after a restart of the master */
    uint32_t ring_version;   /* counts its changes */
    uint64_t ring_us;        /* when it changed last */
    struct pccl_remote **ring;
    uint32_t ring_count, ring_capacity;

    struct pccl_matrix matrix;     /* estimates of its links; without places until an optimization begins */
    struct pccl_remote **by_place; /* the members by their places in the matrix; NULL: free */
    uint32_t place_count, place_capacity;
    struct pccl_tuning tuning;

    bool sync_due;                          /* something in the open round has changed, ... */
    const struct pccl_remote *sync_news;    /* ... but only this member's part; NULL: others' parts, too */
    bool sync_planned;                      /* the open round has elected */
    uint8_t sync_outcome, optimize_outcome; /* of the last rounds; the reasons: why they failed */
    struct pccl_text sync_reason, optimize_reason;
    uint64_t sync, revision;      /* the open round; the next revision, 0: none yet */
    bool sync_proven;             /* ... and the proof of the elected content is known */
    struct pccl_proof sync_proof; /* 0: no majority could compute it */
    uint64_t sync_revision;       /* the elected revision, of the open round or the one before */

    struct pccl_verdicts verdicts;
    uint64_t slow_gone_us; /* when a member was last expelled for being slow; 0: never */
    bool has_news;         /* a member has reported since the last comparison */
    bool verdicts_untold;  /* they have changed, and the members have not received the change */

    uint64_t decisions, stable;
    uint32_t behind; /* how many members were told outcomes and know none beyond `stable` */
    uint32_t held_count;
    struct pccl_table by_instance;
    struct pccl_operation *oldest, *newest;
    struct pccl_table subgroups, pairs; /* by name */
};

#endif
