/*
 * The data plane of one peer without its sockets: all running operations and all lanes to other peers. Pure; the driver
 * (src/data, or the rig of the tests) moves the bytes.
 *
 * A lane is one direction between this peer and another: an outgoing lane carries our DATA and the other side's READY,
 * an incoming lane their DATA and our READY. In a send, which has only this lane, the source also sends READY over it,
 * so that the other side knows of the send before it receives. A lane has one or several connections, all opened by the
 * sender of the data; a message uses any connection with room, and stays on it until it is complete. Operations take
 * turns on a lane, message by message.
 *
 * Rendezvous (PROTOCOL 7): a transfer that starts sends READY to all its senders; data flows only for stripes that the
 * receiver has granted. A READY for an operation that has not been started here is kept (bounded); one of an older view
 * or an ended operation is dropped. On a long path a sender sends its own part of the first stripes without waiting for
 * READY, at most PCCL_EARLY_BYTES and PCCL_EARLY_SEGMENTS on a lane, and no more bytes to several peers at once: the
 * receiver buffers this early data until it opens the stripe. A transfer is done only when all its receivers have sent
 * READY and agree. Data for an operation that has ended here is discarded. Each message arrives once, in any order
 * across the connections of a lane, and a result only after its parts; everything else is refused as malformed, without
 * effect.
 *
 * The caller's memory: `input` is only read, unless the result is stored there, too. In place, elements are saved
 * before they are overwritten with others, and pccl_exchange_stop(not committed) restores them. The rest of `result` is
 * unspecified after an abort. After stop has returned, this module no longer refers to either.
 *
 * Memory: segments in flight are stored in scratch, shared by all transfers under `scratch_bytes_max`. A transfer
 * always gets the scratch for its smallest window (one stripe), so no operation waits for another one's end. Larger
 * windows are granted in turn from the rest: on long paths of the whole budget, on short ones of 12 MiB, 3 MiB of them
 * for operations that move data, or of one operation's window if that is more, so that many operations do not drive
 * each other out of the caches. A stripe needs as many segments as its schedule has in scratch at once: for an
 * all-reduce ranks - 1, as they travel; with a codec ranks, and 2(ranks - 1) in direct exchange; for an all-gather with
 * a codec ranks. If a peer is ahead of us in a stripe, segments that are still being sent are added, one for each
 * connection. So scratch in use is at most the budget, the smallest windows of transfers that found it used up, those
 * segments being sent, and buffered early data; scratch kept for reuse never exceeds the budget. In place, a backup as
 * large as this rank's part is added (backup.h).
 */
#ifndef PCCL_COLLECTIVE_EXCHANGE_H
#define PCCL_COLLECTIVE_EXCHANGE_H

#include "kernels/feedback.h"
#include "collective/extents.h"
#include "collective/plan.h"
#include "core/address.h"
#include "core/limits.h"
#include "core/list.h"
#include "core/memory.h"
#include "telemetry/flow.h"

struct pccl_exchange; /* collective/internal.h */
struct pccl_transfer; /* one operation at this peer */
struct pccl_flow;     /* one operation on one lane */
struct pccl_lane;     /* valid for the driver while it has a connection */

struct pccl_exchange_config {
    uint64_t hash_seed; /* random: for tables with keys that peers choose */
    struct pccl_id self;
    const struct pccl_kernels *kernels;
    size_t scratch_bytes_max;
    /*
     * Bytes of an operation that may be in flight at once over each link, in whole segments. On a long path they should
     * exceed its bandwidth-delay product, and a part for each step of a stripe is added; on a short one a few segments
     * are used, regardless of this value.
     */
    size_t window_bytes;
    /* Bytes of kept parts that one visit of the driver copies, give or take a segment; then `rests` is called. */
    size_t kept_bytes_most;
};

/* Called from inside the functions below; must not call back into the exchange. */
struct pccl_exchange_effects {
    void *context;
    /* This peer's result is complete. Its data may still have to be sent: pccl_transfer_is_at_rest. Called once. */
    void (*done)(void *context, struct pccl_transfer *transfer);
    /*
     * No byte of the caller's memory is sent or received after this call; at the latest when all peers are done. Called
     * once, after `done`, or right after it if nothing was left to send.
     */
    void (*at_rest)(void *context, struct pccl_transfer *transfer);
    /*
     * The transfer cannot continue (a connection was lost, peers differ, memory is short) and waits for
     * pccl_exchange_stop. Called once, instead of `done`, or after it and even after `at_rest`, because sent data need
     * not have arrived, and others may still need data that is passed on.
     */
    void (*failed)(void *context, struct pccl_transfer *transfer, enum pccl_class class,
                   const struct pccl_text *reason);
    /* Another peer has started an operation that has not been started here. Called once for each operation and peer. */
    void (*announced)(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready);
    /*
     * More can be sent on this lane: call pccl_exchange_next for its idle connections. A connection that becomes idle
     * must call that by itself; this is not called again for it. `user` was passed to pccl_exchange_connected. The lane
     * has a connection.
     */
    void (*writable)(void *context, void *user);
    /*
     * A part of given length is complete at this rank. position: of the member that provides it. Called once for each
     * part, before `done`, if tells_arrivals is set; not for empty parts.
     */
    void (*arrived)(void *context, struct pccl_transfer *transfer, uint32_t position);
    /* Copying has taken long: visit other connections, then call pccl_exchange_continue. */
    void (*rests)(void *context);
};

/* One operation at this peer. It and everything that it points to stay in place, unchanged, until the transfer ends. */
struct pccl_transfer_config {
    struct pccl_instance instance;
    struct pccl_epoch view; /* start view */
    struct pccl_descriptor descriptor;
    struct pccl_cost cost;
    const struct pccl_id *ring; /* of the view */
    uint32_t ranks;             /* >= 2, including self */
    uint32_t root;              /* rank of the root in the ring, if there is one */
    /* Position of the part of each rank in the ring; NULL: the tensor is not in parts. */
    const uint32_t *positions;
    /* Parts of given lengths, as in the plan; NULL: equal. */
    const uint64_t *starts;
    /*
     * All-reduce: `count` elements each, which may be the same memory. Broadcast: likewise; only the root's input is
     * read, and if the root's result is the input it is written with a codec only. All-gather: this rank's part, and
     * all parts; the input may be its part of the result. Reduce-scatter: all parts, and the share of this rank; the
     * result may be its part of the input. Reduce, gather: as all-reduce and all-gather, but only the root has a
     * result. Scatter: all parts, which only the root has, and this rank's own, which may be its part of the input.
     * All-to-all: all parts on both sides, in different memory. Memory without bytes is NULL. A part of given length is
     * in one extent of the input, and then the result is one extent; with several sections input and result have the
     * same extents.
     */
    struct pccl_buffers buffers;
    double factor; /* premultiplied sum: factor of this rank's elements; may differ from other ranks' factors */
    struct pccl_feedback feedback; /* reduction with a scaled codec: residuals, for each element of the input */
    bool tells_arrivals;           /* reports arrivals of parts of given lengths */
    /*
     * Telemetry of each flow, as far as there is room; zeroed, and in the caller's memory until the transfer is
     * stopped.
     */
    struct pccl_telemetry_flow *sights;
    uint32_t sight_count;
    void *user;
};

struct pccl_traffic {
    uint64_t sent_bytes, received_bytes; /* payload */
};

/* One frame, possibly followed by raw bytes, being sent over one connection. Owned by the driver; must not move. */
struct pccl_departure {
    struct pccl_msg msg; /* encode and send it first */
    /*
     * sent after the message; NULL with length > 0: send zeros, as the rest is not needed. May become NULL during
     * sending.
     */
    const uint8_t *payload;
    uint32_t length;
    struct pccl_transfer *transfer; /* NULL: the transfer has been stopped, or the frame belongs to none */
    struct pccl_list_node node;     /* of the transfer */
    struct pccl_flow *flow;         /* private to the exchange, like the next ones */
    uint64_t stripe;
    void *scratch;
};

/* Raw bytes arriving over one connection. Owned by the driver; must not move. */
struct pccl_arrival {
    uint8_t *payload; /* destination; NULL: discard the bytes. May become NULL during receiving. */
    uint32_t length;
    struct pccl_transfer *transfer;
    struct pccl_list_node node; /* of the transfer */
    struct pccl_flow *flow;
    uint64_t stripe;
    uint32_t step;
    void *scratch;
    struct pccl_buffered_segment *held; /* buffered for a transfer that has not taken it yet */
};

/* Returns NULL if out of memory. Copies config, memory and effects. */
struct pccl_exchange *pccl_exchange_create(const struct pccl_exchange_config *config, const struct pccl_memory *memory,
                                           const struct pccl_exchange_effects *effects);
/* No transfer may be left, and no departure or arrival in progress. */
void pccl_exchange_destroy(struct pccl_exchange *exchange);
/*
 * Sets a new identity of this peer after it has connected again. Drops lanes and kept announcements: the driver uses no
 * earlier lane. No transfer may be left.
 */
void pccl_exchange_rename(struct pccl_exchange *exchange, const struct pccl_id *self);

/* Begins a visit of the driver: sets the time for the telemetry of flows. */
void pccl_exchange_set_time(struct pccl_exchange *exchange, uint64_t now_us);

/* Sets the members of the current view: newcomers cannot take the room that is reserved for members. */
void pccl_exchange_admit(struct pccl_exchange *exchange, const struct pccl_id *members, uint32_t count);

/* ---- operations ---- */

/*
 * Starts an operation. Returns MEMORY or ARGUMENT (with a reason) if it was not started. `failed` may be called at once
 * (peers differ), and so may `done` (the last peer to start finds all data).
 */
PCCL_MUST_CHECK enum pccl_status pccl_exchange_start(struct pccl_exchange *exchange,
                                                     const struct pccl_transfer_config *config,
                                                     struct pccl_transfer **transfer, struct pccl_text *reason);
/*
 * Ends a transfer whose outcome is known, or that this peer gives up, and frees it; its departures and arrivals lose
 * their payload pointer. Only after an abort may the driver send zeros for the rest of a departure: otherwise the other
 * side could take them for data and receive a success (it closes those connections: pccl_transfer_is_sending).
 */
void pccl_exchange_stop(struct pccl_exchange *exchange, struct pccl_transfer *transfer, bool committed);
/*
 * Ends an undecided transfer that may be started again in a later view: like stop after an abort, but messages of that
 * view are kept. If it is not started, pccl_exchange_forget must follow.
 */
void pccl_exchange_break_off(struct pccl_exchange *exchange, struct pccl_transfer *transfer);
/* Discards early and late data of an aborted operation that will never be started here. */
void pccl_exchange_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance);
/* Continues the transfers that pause. */
void pccl_exchange_continue(struct pccl_exchange *exchange);
void *pccl_transfer_user(const struct pccl_transfer *transfer);
bool pccl_transfer_is_at_rest(const struct pccl_transfer *transfer);
/* Returns true if a departure of the transfer is in progress. */
bool pccl_transfer_is_sending(const struct pccl_transfer *transfer);
struct pccl_traffic pccl_transfer_traffic(const struct pccl_transfer *transfer);
/* Returns true if the links of one member carry its data at the same time, so that they share its line. */
bool pccl_transfer_shares_lines(const struct pccl_transfer *transfer);

/* ---- connections ---- */

/*
 * Adds an established connection to its lane; READY is sent again over it. Returns the lane, the same for all its
 * connections. Returns NULL if out of memory; the connection cannot be used. `user` is passed to `writable`.
 */
PCCL_MUST_CHECK struct pccl_lane *pccl_exchange_connected(struct pccl_exchange *exchange, const struct pccl_id *peer,
                                                          bool outgoing, void *user);
/*
 * Removes a lost connection. The driver has already returned its departure and arrival by pccl_exchange_dropped. Fails
 * every running transfer that sends over this lane, as bytes that the system has taken need not have arrived, or that
 * receives over it and is not done; a send only once its data has moved. After the last connection the lane may be
 * freed. complete: all data that was sent over the connection has arrived, or the sender fails the transfer: the sender
 * has closed the connection with link_bye, or the receiver closes it. Transfers that receive over it continue then:
 * further data arrives over another connection.
 */
void pccl_exchange_disconnected(struct pccl_lane *lane, bool complete);
/*
 * Fails the same transfers as INTERNAL, with this reason, and also sends without moved data: the connection is about to
 * be closed because one side has received an invalid message from the other. Then the driver closes it as usual.
 */
void pccl_exchange_rejected(struct pccl_lane *lane, const struct pccl_text *reason);

/*
 * Returns the next frame for an idle connection of this lane. Returns false if there is nothing now; `writable` is
 * called later.
 */
PCCL_MUST_CHECK bool pccl_exchange_next(struct pccl_lane *lane, struct pccl_departure *departure);
/* Returns true if an outgoing lane has something to send for which its receiver has given no credit yet. */
PCCL_MUST_CHECK bool pccl_exchange_awaits_credit(const struct pccl_lane *lane);
/* Records that the connection has taken all bytes of the departure. */
void pccl_exchange_sent(struct pccl_exchange *exchange, struct pccl_departure *departure);

/*
 * Takes a received frame. For DATA *arrival is filled in (its length is never 0), and the payload is read next; for
 * READY its length is 0. Returns MALFORMED or MEMORY with a reason if the connection is unusable from then on; after
 * MALFORMED call pccl_exchange_rejected. (If memory for a segment is short, only its transfer fails.) Returns LIMIT if
 * too much is buffered for operations that have not been started here. Then do not read from the connection until there
 * is room (pccl_exchange_room) or it needs none (pccl_exchange_is_due), and pass the frame in again.
 */
PCCL_MUST_CHECK enum pccl_status pccl_exchange_receive(struct pccl_lane *lane, const struct pccl_msg *msg,
                                                       struct pccl_arrival *arrival, struct pccl_text *reason);
/* Returns a number that changes when a frame that was answered LIMIT may fit. */
uint64_t pccl_exchange_room(const struct pccl_exchange *exchange);
/*
 * Returns true if a frame that was answered LIMIT need not wait for room that others use: its operation has started or
 * ended, its view has passed, or its lane has its own room. Call after each start, end and admission.
 */
PCCL_MUST_CHECK bool pccl_exchange_is_due(const struct pccl_lane *lane, const struct pccl_msg_data *data);
/* Records that all bytes of the arrival are here. */
void pccl_exchange_received(struct pccl_exchange *exchange, struct pccl_arrival *arrival);
/* Releases a departure or arrival of a broken connection. Either may be NULL or idle (zeroed). */
void pccl_exchange_dropped(struct pccl_exchange *exchange, struct pccl_departure *departure,
                           struct pccl_arrival *arrival);

/* Returns the scratch in use, and its peak, for tests and logs. peak may be NULL. */
size_t pccl_exchange_scratch_bytes(const struct pccl_exchange *exchange, size_t *peak);
/* Returns the part of it that buffers early data. */
size_t pccl_exchange_early_bytes(const struct pccl_exchange *exchange);

#endif
