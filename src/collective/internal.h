/*
 * Structs that the files of the exchange share, and the functions of each file, in the order of tests/tidy/layers.txt.
 * The door of the exchange is exchange.h.
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
    struct pccl_exchange *exchange;
    struct pccl_id peer;
    bool outgoing;
    void *user; /* the driver's */
    uint32_t connections;
    struct pccl_list_node flows;     /* all that use it */
    struct pccl_list_node queue;     /* flows that have something to send, in turn */
    struct pccl_table held;          /* by instance */
    struct pccl_list_node held_list; /* the same, the oldest first */
    size_t ahead_bytes;              /* Incoming: held; outgoing: allowed to flows that send without READY. */
    uint32_t ahead_segments;         /* The same. */
    bool used;                       /* Some operation has received over it. */
    bool member;                     /* Its peer is one of our view. */
};

/* READY or first segments that a lane received for an operation that has not begun here. */
struct pccl_held {
    struct pccl_table_node by_instance;
    struct pccl_list_node node;
    struct pccl_lane *lane;
    struct pccl_instance instance;
    struct pccl_epoch view;
    struct pccl_msg_ready ready;    /* of an outgoing lane */
    struct pccl_list_node segments; /* of an incoming lane: at least one, by stripe */
};

struct pccl_held_segment {
    struct pccl_list_node node;
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
    bool agreed; /* READY has come and agrees with ours; incoming, in a send: data has come */
    bool tell;   /* READY is to be sent; outgoing: only in a send, whose source announces it */
    /* outgoing */
    uint64_t granted;   /* stripes below this may be sent */
    uint64_t ahead;     /* and of those below this the first step without READY */
    size_t ahead_bytes; /* of the lane's, for that */
    uint32_t ahead_segments;
    uint64_t begun;                 /* stripes below this have their first step sent */
    uint64_t to_begin;              /* the next one + 1, once it is known that there is something to send in it */
    struct pccl_parcel_queue ready; /* later steps that may be sent now; on a long path by step */
    struct pccl_parcel_queue later; /* of stripes that are not granted yet */
    /* incoming */
    uint64_t told; /* stripes below this are granted to the sender */
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

/* A piece of a stripe. */
struct pccl_piece {
    const struct pccl_plan *plan; /* of the section that contains the stripe */
    struct pccl_seat seat;        /* in the stripe */
    uint64_t stripe;
    uint32_t number; /* in the stripe */
    struct pccl_segment segment;
};

/* An operation that has ended here: what still comes for it is thrown away. */
struct pccl_ended {
    struct pccl_table_node by_instance;
    struct pccl_list_node node;
    struct pccl_instance instance;
};

#define PCCL_ARRIVAL_TOLD UINT64_MAX /* nothing is missing, and that is known */

enum pccl_transfer_stage {
    PCCL_TRANSFER_MOVING,
    PCCL_TRANSFER_DONE,    /* the driver knows that the result is complete */
    PCCL_TRANSFER_AT_REST, /* and that nothing is to be sent either */
};

struct pccl_transfer {
    struct pccl_table_node by_instance;
    struct pccl_exchange *exchange;
    uint64_t start_number;                     /* grows with each start here */
    const struct pccl_transfer_config *config; /* the driver's */
    struct pccl_plan plan;                     /* of the whole */
    struct pccl_plan *sections;                /* owned, of each; where there is one, it is that of the whole */
    uint32_t section_count;
    size_t room_bytes;
    uint8_t *input_room, *result_room; /* owned: for a segment that is in several extents; NULL: none is */
    uint64_t seed;                     /* of this rank's stochastic rounding */
    uint64_t *missing; /* owned; by position of who sends it, of how many elements the result is not there; or NULL */
    bool in_place;     /* what this rank puts in lies where the result of it belongs */
    bool scales;       /* it contributes its elements times the factor */
    enum pccl_transfer_stage stage;
    bool failed;      /* in any stage */
    bool has_arrived; /* something that is not told yet */
    struct pccl_traffic traffic;
    struct pccl_backup backup;
    struct pccl_ended *ended; /* allocated ahead for when it has ended */
    struct pccl_list_node departures, arrivals;

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
    struct pccl_list_node resting; /* opens no stripe before pccl_exchange_go_on */
};

static inline bool pccl_transfer_is_send(const struct pccl_transfer *transfer)
{
    return transfer->config->descriptor.collective == PCCL_SEND;
}

struct pccl_exchange {
    struct pccl_exchange_config config;
    struct pccl_memory memory;
    struct pccl_exchange_effects effects;
    struct pccl_hash_key hash; /* of all tables */
    struct pccl_table lanes, transfers, ended;
    struct pccl_list_node ended_list; /* the oldest first */
    struct pccl_list_node wanting;    /* transfers that would like to open more stripes, in the order of their start */
    struct pccl_list_node resting;    /* transfers for which much has been copied in this visit */
    size_t kept_bytes;                /* copied in this visit */
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

/* ---- window.c: which stripes are open, from the grant until all messages have been received and sent ---- */

/* The plan of the section that contains the stripe; the last section's if there is no such stripe. */
const struct pccl_plan *pccl_plan_of(const struct pccl_transfer *transfer, uint64_t stripe);

/* The piece of its message in a step that there is, or PCCL_NO_PIECE; the seat is that of a stripe. */
uint32_t pccl_flow_piece(const struct pccl_flow *flow, struct pccl_seat seat, uint32_t step);

/* The same with where its elements are: the piece of the message that carries it, in a step that there is. */
struct pccl_piece pccl_piece_of(const struct pccl_flow *flow, uint64_t stripe, uint32_t step);

/* That of the first step, which its sender begins by itself. */
uint32_t pccl_flow_first_piece(const struct pccl_flow *flow, uint64_t stripe);

/* Computes how many stripes may be open, and how much scratch each needs; makes the first record. The flows are there.
 * false: memory is short. */
PCCL_MUST_CHECK bool pccl_window_init(struct pccl_transfer *transfer);
/* Frees open stripes too, with the parcels that wait in them. */
void pccl_window_fini(struct pccl_transfer *transfer);
/*
 * Opens one stripe if none is open and one is left, whatever the budget says. NULL: no. The caller must then begin the
 * stripe (receiving.c), here and below.
 */
struct pccl_stripe *pccl_window_open_least(struct pccl_transfer *transfer);
/* The transfer would like to open more stripes. */
void pccl_window_enqueue(struct pccl_transfer *transfer);
/*
 * Opens one stripe of the next waiting transfer from what is left of the budget. NULL: none waits,
 * or nothing is left.
 */
struct pccl_stripe *pccl_window_open_next(struct pccl_exchange *exchange);
/* NULL: not granted, or complete. */
struct pccl_stripe *pccl_stripe_of(const struct pccl_transfer *transfer, uint64_t number);
/* The parcel of a step on a flow of either direction. */
struct pccl_parcel *pccl_flow_parcel(const struct pccl_flow *flow, struct pccl_stripe *stripe, uint32_t step);
/* The result of this segment of the stripe is there, as it will be. */
void pccl_stripe_result(struct pccl_stripe *stripe, uint32_t number);
/*
 * Call after each message of the stripe that was received or sent. false: the stripe is not
 * complete.
 */
bool pccl_stripe_close(struct pccl_stripe *stripe);
/* The first step of stripes below this may be sent before READY has come; 0 unless the path is long. */
uint64_t pccl_ahead_stripes(const struct pccl_plan *plan);
/* Tells the driver what the last message has brought about. */
void pccl_transfer_report(struct pccl_transfer *transfer);
/* Tells the driver, once, that the transfer fails. */
PCCL_PRINTF(3, 4)
void pccl_transfer_fail(struct pccl_transfer *transfer, enum pccl_class class, const char *format, ...);

/* ---- lane.c: lanes, and the messages that they hold for operations that have not begun here ---- */

/* The transfer's flow with this lane, or NULL. */
struct pccl_flow *pccl_flow_find(struct pccl_transfer *transfer, const struct pccl_lane *lane);
/*
 * The outgoing flow to a rank, which must exist. Flows to the ranks that follow are next to it in
 * the array.
 */
struct pccl_flow *pccl_flow_to(const struct pccl_transfer *transfer, uint32_t rank);
struct pccl_lane *pccl_lane_find(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing);
/* Finds the lane, or makes it. NULL: memory is short. */
struct pccl_lane *pccl_lane_get(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing);
/* Frees the lane if nobody needs it. NULL is allowed. */
void pccl_lane_tidy(struct pccl_lane *lane);
void pccl_lanes_free(struct pccl_exchange *exchange);
/* An operation receives over the lane, which reserves room for it. */
void pccl_lane_use(struct pccl_lane *lane);
/* The exchange has other members: their lanes reserve room. */
void pccl_lanes_admit(struct pccl_exchange *exchange);
/* Holds a READY. false: memory is short. *first: it was not known. */
PCCL_MUST_CHECK bool pccl_lane_hold_ready(struct pccl_lane *lane, const struct pccl_msg_ready *ready, bool *first);
/* Takes a READY for the transfer, unless the READY is of a later view. false: no READY of its view is held. */
PCCL_MUST_CHECK bool pccl_lane_take_ready(const struct pccl_lane *lane, const struct pccl_transfer *transfer,
                                          struct pccl_msg_ready *ready);
/* Drops READY of views that have passed. */
void pccl_lanes_forget_views(struct pccl_exchange *exchange);
/*
 * Holds a first step for a stripe that is not open here; returns what pccl_exchange_receive
 * returns.
 */
PCCL_MUST_CHECK enum pccl_status pccl_lane_hold_data(struct pccl_lane *lane, const struct pccl_msg_data *data,
                                                     struct pccl_arrival *arrival, struct pccl_text *reason);
/*
 * The stripe is open: the caller takes over what is held for it, with its scratch and its arrival.
 * false: nothing is held.
 */
PCCL_MUST_CHECK bool pccl_lane_take_data(struct pccl_lane *lane, const struct pccl_transfer *transfer, uint64_t stripe,
                                         struct pccl_held_segment *taken);
/* The transfer starts: drops older segments, and fails the transfer if held segments do not fit its plan. */
void pccl_lanes_begin(struct pccl_transfer *transfer);
/* Returns true if this first step, on a long path, is not from a peer that plans alike; fails the transfer then. */
bool pccl_flow_is_foreign(const struct pccl_flow *flow, const struct pccl_msg_data *data);
/* Drops the segments: of an operation that has ended here; of a lane. */
void pccl_lanes_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance);
void pccl_lane_drop(struct pccl_lane *lane);
void pccl_held_received(struct pccl_arrival *arrival);
void pccl_held_dropped(struct pccl_arrival *arrival);

/* ---- sending.c: flows, and the messages that they send ---- */

/* Puts it into the lane's queue if it has something to send and is not there. */
void pccl_flow_wake(struct pccl_flow *flow);
/* READY that agrees has come over an outgoing flow: its receiver takes stripes below `granted`. */
void pccl_flow_credit(struct pccl_flow *flow, uint64_t granted);
/* READY has not come yet: lets the outgoing flow begin within what the lane's allowance has left. */
void pccl_flow_allow(struct pccl_flow *flow);
/* Returns what the flow holds of the lane's allowance. */
void pccl_flow_give_back(struct pccl_flow *flow);
/*
 * Sends the task's piece to all ranks that it names, from scratch or (NULL) from the result. Takes
 * over the scratch.
 */
void pccl_task_send(struct pccl_transfer *transfer, struct pccl_stripe *stripe, const struct pccl_task *task,
                    struct pccl_scratch *scratch);
/* Detaches it from its transfer and gives its scratch back. */
void pccl_departure_release(struct pccl_departure *departure);

/* ---- transfer.c: operations, from their start to their end, and the memory of those that have ended ---- */

PCCL_MUST_CHECK enum pccl_status pccl_transfer_make(struct pccl_exchange *exchange,
                                                    const struct pccl_transfer_config *config,
                                                    struct pccl_transfer **transfer, struct pccl_text *reason);
/* Takes it out of the table, and frees it. Other transfers may then open stripes. */
void pccl_transfer_end(struct pccl_transfer *transfer);
/* It was aborted: puts back what has been overwritten of its input. */
void pccl_transfer_restore(const struct pccl_transfer *transfer);
/* Detaches it from its transfer and gives its scratch back. */
void pccl_arrival_release(struct pccl_arrival *arrival);
struct pccl_transfer *pccl_transfer_find(const struct pccl_exchange *exchange, const struct pccl_instance *instance);
bool pccl_instance_has_ended(const struct pccl_exchange *exchange, const struct pccl_instance *instance);
/* `ended` is the caller's memory for it. */
void pccl_instance_end(struct pccl_exchange *exchange, struct pccl_ended *ended, const struct pccl_instance *instance);
void pccl_instances_forget(struct pccl_exchange *exchange);

/* ---- agree.c: the comparison of operations ---- */

/*
 * Takes a READY of this transfer and its view. false: it is from a peer that does not receive from
 * us.
 */
bool pccl_agree_take_ready(struct pccl_transfer *transfer, const struct pccl_lane *lane,
                           const struct pccl_msg_ready *ready);

/* ---- receiving.c: received messages, and their effects ---- */

/* Opens as many stripes as may be opened: of a transfer that starts, and of all. */
void pccl_transfer_widen(struct pccl_transfer *transfer);
void pccl_exchange_widen(struct pccl_exchange *exchange);

#endif
