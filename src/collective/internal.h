/*
 * Structs shared by the files of the exchange, and the functions of each file, in the order of tests/tidy/layers.txt.
 * The public interface is exchange.h.
 */
#ifndef PCCL_COLLECTIVE_INTERNAL_H
#define PCCL_COLLECTIVE_INTERNAL_H

#include "collective/backup.h"
#include "collective/exchange.h"
#include "collective/scratch.h"
#include "core/list.h"
#include "core/table.h"

/* ---- a lane and its messages ---- */
struct pccl_lane {
    struct pccl_table_node by_peer;
    struct pccl_exchange *exchange;
    struct pccl_id peer;
    bool outgoing;
    void *user; /* argument of `writable` */
    uint32_t connections;
    struct pccl_list_node flows;         /* all flows that use the lane */
    struct pccl_list_node queue;         /* flows with something to send, in the order of their turns */
    struct pccl_table held;              /* early messages (struct pccl_buffered), keyed by instance */
    struct pccl_list_node buffered_list; /* the same messages, oldest first */
    /* incoming: bytes of buffered early data; outgoing: part of the allowance in use by flows that send before READY */
    size_t early_bytes;
    uint32_t early_segments;
    bool used;   /* an operation has received on the lane */
    bool member; /* the other peer is a member of the current view */
};

/* READY or early segments, buffered by a lane for an operation that has not started here. */
struct pccl_buffered {
    struct pccl_table_node by_instance;
    struct pccl_list_node node;
    struct pccl_lane *lane;
    struct pccl_instance instance;
    struct pccl_epoch view;
    struct pccl_msg_ready ready;    /* for an outgoing lane */
    struct pccl_list_node segments; /* for an incoming lane: at least one, sorted by stripe */
};

struct pccl_buffered_segment {
    struct pccl_list_node node;
    struct pccl_buffered *held;
    uint64_t stripe;
    uint32_t length;
    struct pccl_scratch *scratch;
    struct pccl_arrival *arrival; /* NULL once all bytes have arrived */
};

struct pccl_parcel_queue {
    struct pccl_parcel *first, *last;
};

/* An operation on a lane: sends data (outgoing) or READY (incoming). */
struct pccl_flow {
    struct pccl_transfer *transfer;
    struct pccl_lane *lane;
    uint32_t other;  /* rank of the other end */
    uint32_t column; /* index among the flows of its direction */
    bool outgoing;
    struct pccl_telemetry_flow *telemetry; /* never NULL */
    struct pccl_list_node on_lane, in_queue;
    bool agreed; /* READY has arrived and matches; incoming flow of a send: data has arrived */
    bool tell;   /* READY must be sent; for an outgoing flow only in a send, which its source announces */
    /* Outgoing: */
    uint64_t granted;   /* stripes below this may be sent */
    uint64_t ahead;     /* the first step of stripes below this may be sent before READY */
    size_t early_bytes; /* part of the lane's allowance that the flow uses */
    uint32_t early_segments;
    uint64_t begun;                 /* the first step of stripes below this has been sent */
    uint64_t to_begin;              /* 1 + next stripe with something to send; 0: not determined */
    struct pccl_parcel_queue ready; /* later steps that may be sent now; sorted by step on a long path */
    struct pccl_parcel_queue later; /* later steps of stripes that are not granted yet */
    /* Incoming: */
    uint64_t told; /* stripes below this have been granted to the sender */
    bool is_empty; /* transfers no data; READY only confirms that both peers run the same operation */
};

/*
 * State of one step of a stripe in one column, for both flows of the column (the n-th outgoing and the n-th incoming
 * one): the message received and the message sent in that step. Only one of the two uses `scratch`: in step 0 either
 * parts are collected or a kept part is sent packed, and received pieces are sent on in later steps.
 */
struct pccl_parcel {
    struct pccl_parcel *next; /* next parcel in a flow's queue */
    struct pccl_stripe *stripe;
    struct pccl_scratch *scratch; /* data to send, or the received part */
    uint32_t step;
    bool arrived; /* the incoming message is arriving or complete */
    bool handed;  /* the outgoing message was given to a connection or sent */
};

struct pccl_stripe {
    struct pccl_transfer *transfer;
    struct pccl_stripe *next;
    uint64_t number;
    uint32_t arrivals_left, departures_left;
    uint32_t results_left; /* number of segments without a result */
    uint32_t parts_left;   /* number of parts that have not been collected */
    struct pccl_parcel parcels[];
};

struct pccl_piece {
    const struct pccl_plan *plan; /* plan of the section that contains the stripe */
    struct pccl_seat seat;
    uint64_t stripe;
    uint32_t number;
    struct pccl_segment segment;
};

/* An operation that has ended here, whose late messages are discarded. */
struct pccl_ended {
    struct pccl_table_node by_instance;
    struct pccl_list_node node;
    struct pccl_instance instance;
};

#define PCCL_ARRIVAL_REPORTED UINT64_MAX /* all elements have arrived, and this was reported */

enum pccl_transfer_stage {
    PCCL_TRANSFER_MOVING,
    PCCL_TRANSFER_DONE,    /* the completion of the result was reported */
    PCCL_TRANSFER_AT_REST, /* the same, and nothing is left to send */
};

struct pccl_transfer {
    struct pccl_table_node by_instance;
    struct pccl_exchange *exchange;
    uint64_t start_number;                     /* sequence number of its start on this peer */
    const struct pccl_transfer_config *config; /* owned by the driver */
    struct pccl_plan plan;
    /* owned, one for each section; if there is only one, it equals the plan of the whole operation */
    struct pccl_plan *sections;
    uint32_t section_count;
    size_t room_bytes;
    uint8_t *input_room, *result_room; /* owned: room for a segment in several extents; NULL: not needed */
    uint64_t seed;                     /* seed of this rank's stochastic rounding */
    uint64_t *missing; /* owned: number of elements without a result, by the sender's position; or NULL */
    bool in_place;     /* this rank's input is stored in the place of its result */
    bool scales;       /* this rank's elements are multiplied by the factor */
    enum pccl_transfer_stage stage;
    bool failed; /* may be set in any stage */
    bool has_arrived;
    struct pccl_traffic traffic;
    struct pccl_backup backup;
    struct pccl_ended *ended; /* allocated in advance, to record the end */
    struct pccl_list_node departures, arrivals;

    /*
     * Outgoing flows come first, in ring order of the ranks after this one; then incoming flows, in reverse order of
     * the ranks before it.
     */
    struct pccl_flow *flows;
    uint32_t outgoing_count, flow_count;
    uint32_t columns; /* number of flows in the larger direction */
    uint32_t unheard; /* number of outgoing flows that are not `agreed` */

    /* Window: open stripes in [first_open, granted), indexed by their number modulo slot_count. */
    struct pccl_stripe **slots;
    uint64_t slot_count; /* a power of two */
    uint64_t first_open, granted, complete;
    uint64_t results_complete; /* number of stripes with all results */
    uint64_t window;           /* maximum number of open stripes */
    size_t stripe_scratch;
    struct pccl_stripe *idle_stripes;
    struct pccl_list_node wanting; /* node in the queue of transfers that wait for a larger window */
    struct pccl_list_node resting; /* node in the list of transfers that pause until pccl_exchange_continue */
};

static inline bool pccl_transfer_is_send(const struct pccl_transfer *transfer)
{
    return transfer->config->descriptor.collective == PCCL_SEND;
}

struct pccl_exchange {
    struct pccl_exchange_config config;
    struct pccl_memory memory;
    struct pccl_exchange_effects effects;
    struct pccl_hash_key hash;
    struct pccl_table lanes, transfers, ended;
    struct pccl_list_node ended_list; /* oldest first */
    struct pccl_list_node wanting;    /* transfers that could open more stripes, in order of their start */
    struct pccl_list_node resting;    /* transfers that pause until the next visit: this one's copy budget is used up */
    size_t kept_bytes;                /* number of bytes of kept parts copied in this visit */
    struct pccl_epoch view;           /* latest view of any transfer */
    struct pccl_id *members;          /* members of the view that the driver set last */
    uint32_t member_count, member_capacity;
    uint64_t started; /* number of transfers started so far */
    struct pccl_scratch_pool scratch;
    size_t short_path_bytes; /* reserved scratch of transfers on short paths */
    size_t moving_bytes;     /* part of short_path_bytes that belongs to transfers with a complete stripe */
    struct pccl_backup_pool backups;
    size_t early_bytes; /* number of bytes buffered in all lanes */
    uint32_t early_segments;
    uint64_t room; /* incremented when buffered data may have freed room, or room may have become usable */
    uint64_t now_us;
    struct pccl_telemetry_flow unseen; /* telemetry of flows that are not recorded */
};

/* ---- window.c: open stripes, from the grant until all messages have been received and sent ---- */

/* Returns the plan of the section with this stripe; the plan of the last section if there is no such stripe. */
const struct pccl_plan *pccl_plan_of(const struct pccl_transfer *transfer, uint64_t stripe);

/*
 * Returns the piece in the flow's message of this step, which must exist, or PCCL_NO_PIECE. `seat` is the seat for the
 * stripe.
 */
uint32_t pccl_flow_piece(const struct pccl_flow *flow, struct pccl_seat seat, uint32_t step);

/* Returns the piece and its segment in the flow's message of this step. The message must exist. */
struct pccl_piece pccl_piece_of(const struct pccl_flow *flow, uint64_t stripe, uint32_t step);

/* Returns the number of the piece that the sender sends in step 0, from its own part; or PCCL_NO_PIECE. */
uint32_t pccl_flow_first_piece(const struct pccl_flow *flow, uint64_t stripe);

/*
 * Computes the number of stripes that may be open and the scratch of each, and allocates the first stripe. The flows
 * must exist. Returns false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_window_init(struct pccl_transfer *transfer);
/* Frees the window, including open stripes and their parcels. */
void pccl_window_fini(struct pccl_transfer *transfer);
/*
 * Opens a stripe regardless of the budget, if the transfer has no open stripe but still has stripes to open. Returns
 * NULL otherwise. The caller of this and of pccl_window_open_next must then begin the stripe (receiving.c).
 */
struct pccl_stripe *pccl_window_open_least(struct pccl_transfer *transfer);
/* Queues the transfer if it could open more stripes. */
void pccl_window_enqueue(struct pccl_transfer *transfer);
/*
 * Opens a stripe of the next queued transfer if the budget permits. Returns NULL if there is no such transfer or no
 * budget.
 */
struct pccl_stripe *pccl_window_open_next(struct pccl_exchange *exchange);
/* Returns the open stripe with this number. Returns NULL if the stripe is not granted or already complete. */
struct pccl_stripe *pccl_stripe_of(const struct pccl_transfer *transfer, uint64_t number);
/* Returns the parcel of this step on a flow of either direction. */
struct pccl_parcel *pccl_flow_parcel(const struct pccl_flow *flow, struct pccl_stripe *stripe, uint32_t step);
/* Records that this segment of the stripe has its final result. */
void pccl_stripe_result(struct pccl_stripe *stripe, uint32_t number);
/*
 * Closes the stripe if it is complete, and returns whether it was. Call after each received or sent message of the
 * stripe.
 */
bool pccl_stripe_close(struct pccl_stripe *stripe);
/* Returns the number of stripes whose first step may be sent before READY; 0 unless the path is long. */
uint64_t pccl_early_stripes(const struct pccl_plan *plan);
/* Reports the effects of the last message to the driver. */
void pccl_transfer_report(struct pccl_transfer *transfer);
/* Reports to the driver, once, that the transfer has failed. */
PCCL_PRINTF(3, 4)
void pccl_transfer_fail(struct pccl_transfer *transfer, enum pccl_class class, const char *format, ...);

/* ---- lane.c: lanes, and their buffered messages for operations that have not started here ---- */

/* Returns the transfer's flow on this lane, or NULL. */
struct pccl_flow *pccl_flow_find(struct pccl_transfer *transfer, const struct pccl_lane *lane);
/* Returns the outgoing flow to a rank, which must exist. Flows to the ranks after it follow in the array. */
struct pccl_flow *pccl_flow_to(const struct pccl_transfer *transfer, uint32_t rank);
struct pccl_lane *pccl_lane_find(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing);
/* Finds or creates the lane. Returns NULL if out of memory. */
struct pccl_lane *pccl_lane_get(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing);
/* Frees the lane if it is not in use. `lane` may be NULL. */
void pccl_lane_tidy(struct pccl_lane *lane);
void pccl_lanes_free(struct pccl_exchange *exchange);
/* Records that an operation receives on the lane, which reserves room for it. */
void pccl_lane_use(struct pccl_lane *lane);
/* Reserves room for the lanes of the exchange's new members. */
void pccl_lanes_admit(struct pccl_exchange *exchange);
/*
 * Buffers READY. Sets *first to true if no READY of the operation was buffered before. Returns false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_lane_buffer_ready(struct pccl_lane *lane, const struct pccl_msg_ready *ready, bool *first);
/*
 * Removes and returns the buffered READY of the transfer, unless its view is later. Returns false if there is no READY
 * of the transfer's view.
 */
PCCL_MUST_CHECK bool pccl_lane_take_ready(const struct pccl_lane *lane, const struct pccl_transfer *transfer,
                                          struct pccl_msg_ready *ready);
/* Drops READY messages of past views. */
void pccl_lanes_forget_views(struct pccl_exchange *exchange);
/* Buffers the first step of a stripe that is not open here. Returns the status for pccl_exchange_receive. */
PCCL_MUST_CHECK enum pccl_status pccl_lane_buffer_data(struct pccl_lane *lane, const struct pccl_msg_data *data,
                                                       struct pccl_arrival *arrival, struct pccl_text *reason);
/*
 * Passes the early data of an open stripe, with its scratch and arrival, to the caller. Returns false if there is no
 * data.
 */
PCCL_MUST_CHECK bool pccl_lane_take_data(struct pccl_lane *lane, const struct pccl_transfer *transfer, uint64_t stripe,
                                         struct pccl_buffered_segment *taken);
/* Drops older segments when a transfer starts. Fails the transfer if buffered segments do not fit its plan. */
void pccl_lanes_begin(struct pccl_transfer *transfer);
/*
 * Returns true and fails the transfer if this message of the first step, on a long path, shows that its sender has a
 * different plan.
 */
bool pccl_flow_is_foreign(const struct pccl_flow *flow, const struct pccl_msg_data *data);
/* Drop the buffered segments of an operation that has ended here, or of a lane. */
void pccl_lanes_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance);
void pccl_lane_drop(struct pccl_lane *lane);
void pccl_buffered_received(struct pccl_arrival *arrival);
void pccl_buffered_dropped(struct pccl_arrival *arrival);

/* ---- sending.c: flows and their outgoing messages ---- */

/* Queues the flow on its lane if it has something to send and is not queued. */
void pccl_flow_wake(struct pccl_flow *flow);
/* Records that READY has arrived for an outgoing flow and matches. The receiver has granted stripes below `granted`. */
void pccl_flow_credit(struct pccl_flow *flow, uint64_t granted);
/* Permits an outgoing flow to begin before READY, as far as the lane's allowance lasts. */
void pccl_flow_allow(struct pccl_flow *flow);
/* Returns the flow's part of the allowance to its lane. */
void pccl_flow_give_back(struct pccl_flow *flow);
/*
 * Sends the piece to all ranks that the task lists: from `scratch` or, if it is NULL, from the result. Takes ownership
 * of the scratch.
 */
void pccl_task_send(struct pccl_transfer *transfer, struct pccl_stripe *stripe, const struct pccl_task *task,
                    struct pccl_scratch *scratch);
/* Detaches the departure from its transfer and releases its scratch. */
void pccl_departure_release(struct pccl_departure *departure);

/* ---- transfer.c: operations from start to end, and the record of ended ones ---- */

PCCL_MUST_CHECK enum pccl_status pccl_transfer_make(struct pccl_exchange *exchange,
                                                    const struct pccl_transfer_config *config,
                                                    struct pccl_transfer **transfer, struct pccl_text *reason);
/* Removes the transfer from the table and frees it. Other transfers may then open stripes. */
void pccl_transfer_end(struct pccl_transfer *transfer);
/* Restores the overwritten input of an aborted transfer. */
void pccl_transfer_restore(const struct pccl_transfer *transfer);
/* Detaches the arrival from its transfer and releases its scratch. */
void pccl_arrival_release(struct pccl_arrival *arrival);
struct pccl_transfer *pccl_transfer_find(const struct pccl_exchange *exchange, const struct pccl_instance *instance);
bool pccl_instance_has_ended(const struct pccl_exchange *exchange, const struct pccl_instance *instance);
/* Records the end of an operation in `ended`, which the caller has allocated. */
void pccl_instance_end(struct pccl_exchange *exchange, struct pccl_ended *ended, const struct pccl_instance *instance);
void pccl_instances_forget(struct pccl_exchange *exchange);

/* ---- agree.c: comparison of operations ---- */

/*
 * Compares the transfer with a READY for it in the same view. Returns false if this peer does not send to the sender of
 * that READY.
 */
bool pccl_agree_take_ready(struct pccl_transfer *transfer, const struct pccl_lane *lane,
                           const struct pccl_msg_ready *ready);

/* ---- receiving.c: received messages and their effects ---- */

/* Open as many stripes as possible: of this starting transfer, or of all transfers. */
void pccl_transfer_widen(struct pccl_transfer *transfer);
void pccl_exchange_widen(struct pccl_exchange *exchange);

#endif
