/*
 * Structs that the files of the data path share. Functions of each file are in its own header; the order of
 * the files is in tests/tidy/layers.txt.
 */
#ifndef PCCL_COLLECTIVE_INTERNAL_H
#define PCCL_COLLECTIVE_INTERNAL_H

#include "collective/backup.h"
#include "collective/exchange.h"
#include "collective/scratch.h"
#include "core/list.h"
#include "core/table.h"

/* ---- a lane, and what goes over it ---- */
struct pccl_lane {
    struct pccl_table_node by_peer;
    struct pccl_id peer;
    bool outgoing;
    uint32_t connections;
    struct pccl_list_node flows; /* all that use it */
    struct pccl_list_node queue; /* flows that have something to send, in turn */
    /* Outgoing: READY of operations that are not started here, the oldest first. */
    struct pccl_list_node kept;
    struct pccl_table kept_by_instance;
    struct pccl_table held;  /* Incoming: for stripes that are not open here, by instance. */
    size_t ahead_bytes;      /* Incoming: held; outgoing: allowed to flows that send without READY. */
    uint32_t ahead_segments; /* The same. */
    bool used;               /* Some operation has received over it. */
    bool member;             /* Its peer is one of our view. */
};

struct pccl_kept {
    struct pccl_table_node by_instance;
    struct pccl_list_node link;
    struct pccl_msg_ready ready;
};

/* What the peer of a lane sent ahead for one operation. */
struct pccl_held {
    struct pccl_table_node by_instance;
    struct pccl_exchange *exchange;
    struct pccl_lane *lane;
    struct pccl_instance instance;
    struct pccl_epoch view;
    struct pccl_list_node segments; /* at least one, by stripe */
};

struct pccl_held_segment {
    struct pccl_list_node link;
    struct pccl_held *held;
    uint64_t stripe;
    uint32_t length;
    struct pccl_scratch *scratch;
    struct pccl_arrival *arrival; /* NULL: it is all here */
};

/* First in, first out. */
struct pccl_parcel_queue {
    struct pccl_parcel *first, *last;
};

/* One operation on one lane: what it sends there, data or READY. */
struct pccl_flow {
    struct pccl_transfer *transfer;
    struct pccl_lane *lane;
    uint32_t other;  /* rank */
    uint32_t column; /* among those of its direction */
    bool outgoing;
    struct pccl_sight_flow *sight; /* what others see of it; never NULL */
    struct pccl_list_node on_lane, in_queue;
    /* outgoing */
    bool agreed;        /* READY has come and agrees with ours */
    uint64_t granted;   /* stripes below this may be sent */
    uint64_t ahead;     /* and of those below this the first step without READY */
    size_t ahead_bytes; /* of the lane's, for that */
    uint32_t ahead_segments;
    uint64_t begun;                 /* stripes below this have their first step sent */
    uint64_t to_begin;              /* the next one + 1, once it is known that there is something to send in it */
    struct pccl_parcel_queue ready; /* later steps that may be sent now; on a long path by step */
    struct pccl_parcel_queue held;  /* of stripes that are not granted yet */
    /* incoming */
    uint64_t told; /* stripes below this are granted to the sender */
    bool tell;     /* READY is to be sent */
    bool is_empty; /* nothing comes, whatever is granted: READY only says that both mean the same operation */
};

/*
 * What is known of one step of a stripe in one column: the n-th outgoing flow and the n-th incoming
 * one. It serves the message that is received and the one that is sent in that step. Only one of
 * the two ever has scratch here: in step 0 parts are collected, or one that is kept is sent packed, and
 * what is sent on goes in later steps.
 */
struct pccl_parcel {
    struct pccl_parcel *next; /* in a flow's queue */
    struct pccl_stripe *stripe;
    struct pccl_scratch *scratch; /* to be sent; or the part that came in */
    uint32_t step;
    bool arrived; /* the message in: under way, or here */
    bool handed;  /* the message out: given to a connection, or sent */
};

struct pccl_stripe {
    struct pccl_transfer *transfer;
    struct pccl_stripe *next; /* among the idle ones */
    uint64_t number;
    uint32_t arrivals_left, departures_left;
    uint32_t results_left; /* segments of it whose result is not there */
    uint32_t parts_left;   /* to be collected */
    struct pccl_parcel parcels[];
};

/* An operation that has ended here: what still comes for it is thrown away. */
struct pccl_ended {
    struct pccl_table_node by_instance;
    struct pccl_list_node link;
    struct pccl_instance instance;
};

#define PCCL_ARRIVAL_TOLD UINT64_MAX /* nothing is missing, and that is known */

struct pccl_transfer {
    struct pccl_table_node by_instance;
    struct pccl_exchange *exchange;
    uint64_t start_number; /* grows with each start here */
    struct pccl_instance instance;
    struct pccl_epoch view;
    struct pccl_descriptor descriptor;
    struct pccl_plan plan;      /* of several sections, that of the whole */
    struct pccl_plan *sections; /* owned; NULL: it is of one tensor */
    uint32_t section_count;
    struct pccl_tensors tensors; /* of several sections: the memory, in the place of `input` and `result` */
    uint64_t seed;               /* of this rank's stochastic rounding */
    struct pccl_id *ring;        /* owned */
    uint32_t *positions;         /* owned; NULL: the tensor is not in parts */
    uint64_t *starts;            /* owned; NULL: the parts are equal */
    uint64_t *missing; /* owned; by position of who sends it, of how many elements the result is not there; or NULL */
    const uint8_t **inputs; /* owned; where each part is that this rank sends; NULL: in `input` */
    const uint8_t *input;
    uint8_t *result;
    void *user;
    bool in_place;    /* what this rank puts in lies where the result of it belongs */
    bool stays_apart; /* the driver copies what stays, ... */
    bool stay_due;    /* ... and has not yet */
    bool scales;      /* it contributes its elements times `factor` */
    double factor;
    struct pccl_feedback feedback; /* with a scaled codec */
    bool failed, done, at_rest;
    bool has_arrived; /* something that is not told yet */
    struct pccl_traffic traffic;
    struct pccl_backup backup;
    struct pccl_ended *ended; /* allocated ahead for when it has ended */
    struct pccl_departure *departures;
    struct pccl_arrival *arrivals;

    /*
     * The first ones outgoing, to ranks after this one in the ring's order; then incoming, from
     * ranks before it.
     */
    struct pccl_flow *flows;
    uint32_t outgoing_count, flow_count;
    uint32_t columns; /* flows of the direction that has more */
    uint32_t unheard; /* outgoing flows that are not `agreed` */

    /*
     * The window: stripes [first_open, granted) but for those that are complete, by number modulo
     * the slots.
     */
    struct pccl_stripe **slots;
    uint64_t slot_count; /* a power of two */
    uint64_t first_open, granted, complete;
    uint64_t results_complete; /* stripes */
    uint64_t window;           /* stripes that may be open */
    size_t stripe_scratch;     /* what a stripe needs in scratch */
    struct pccl_stripe *idle_stripes;
    struct pccl_list_node wanting; /* in the exchange's queue for a larger window */
};

struct pccl_exchange {
    struct pccl_exchange_config config;
    struct pccl_memory memory;
    struct pccl_exchange_effects effects;
    struct pccl_hash_key hash; /* of all tables */
    struct pccl_table lanes, transfers, ended;
    struct pccl_list_node ended_list; /* the oldest first */
    struct pccl_list_node wanting;    /* transfers that would like to open more stripes, in the order of their start */
    struct pccl_epoch view;           /* the latest of any transfer */
    struct pccl_id *members;          /* of the view that the driver told of last */
    uint32_t member_count, member_capacity;
    uint64_t started; /* transfers so far */
    struct pccl_scratch_pool scratch;
    size_t short_path_bytes; /* of the reserved scratch, what belongs to transfers on short paths */
    size_t moving_bytes;     /* and of that, to those that have completed a stripe */
    struct pccl_backup_pool backups;
    size_t ahead_bytes; /* held in all lanes */
    uint32_t ahead_segments;
    uint64_t room; /* counts up when room may have become free, or usable for others */
    uint64_t now_us;
    struct pccl_sight_flow unseen; /* of flows that nobody records */
};

/* Of a stripe that there is. */
static inline const struct pccl_plan *pccl_plan_of(const struct pccl_transfer *transfer, uint64_t stripe)
{
    return transfer->sections == NULL ? &transfer->plan
                                      : pccl_plan_section(transfer->sections, transfer->section_count, stripe);
}

/* The piece of its message in a step that there is, or PCCL_NO_PIECE; the seat is that of a stripe. */
static inline uint32_t pccl_flow_piece(const struct pccl_flow *flow, struct pccl_seat seat, uint32_t step)
{
    uint32_t sender = flow->outgoing ? seat.rank : flow->other, receiver = flow->outgoing ? flow->other : seat.rank;
    return pccl_plan_schedule(&flow->transfer->plan)->piece(seat, sender, receiver, step);
}

/* That of the first step, which its sender begins by itself. */
static inline uint32_t pccl_flow_first_piece(const struct pccl_flow *flow, uint64_t stripe)
{
    return pccl_flow_piece(flow, pccl_plan_seat(&flow->transfer->plan, stripe), 0);
}

#endif
