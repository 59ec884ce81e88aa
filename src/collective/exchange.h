/*
 * The data plane of one peer without its sockets: all running operations, and all lanes to other peers. It has no I/O;
 * the driver (src/data, or the test rig) transfers the bytes.
 *
 * A lane is one direction between this peer and another one. An outgoing lane transfers this peer's DATA, and the other
 * side's READY in return; an incoming lane transfers the other side's DATA and this peer's READY. A send uses only one
 * lane, so its source also sends READY over it, to announce the send before the other side starts to receive. A lane
 * has one or more connections, all opened by the sender of the data. A message may use any connection that has room,
 * and is not split between connections. Operations take turns on a lane, message by message.
 *
 * Rendezvous (PROTOCOL 7): a transfer that starts sends READY to all its senders, and a sender sends only the stripes
 * that the receiver has granted. READY for an operation that has not started here is buffered, within limits; READY of
 * an older view or an ended operation is dropped. On a long path, a sender sends its own part of the first stripes
 * without waiting for READY: at most PCCL_EARLY_BYTES and PCCL_EARLY_SEGMENTS on a lane, and at most PCCL_EARLY_BYTES
 * to several peers together. The receiver buffers this early data until it opens the stripe. A transfer is done only
 * when all its receivers have sent READY and agree. Data for an operation that has ended here is discarded. Messages
 * may arrive in any order, but each must arrive once and a result only after its parts; any other message is rejected
 * as malformed, without effect.
 *
 * The caller's memory: `input` is only read, unless the result is stored there, too. In place, elements are saved
 * before they are overwritten, and pccl_exchange_stop(not committed) restores them. Otherwise `result` is unspecified
 * after an abort. After stop has returned, this module no longer uses either.
 *
 * Memory: segments in flight are stored in scratch, which all transfers share up to `scratch_bytes_max`. A transfer
 * always gets the scratch for its smallest window (one stripe), so no operation has to wait until another one ends.
 * Larger windows are granted in turn from the rest. Operations on long paths may use the whole budget. Operations on
 * short paths may use 12 MiB, and those that move data 3 MiB of it, or the window of one operation if that is larger,
 * so that many operations do not evict each other from the caches. A stripe needs scratch for as many segments as its
 * schedule holds at once: an all-reduce needs ranks - 1, with a codec `ranks`, or 2(ranks - 1) in direct exchange; an
 * all-gather with a codec needs `ranks`. If another peer is ahead in a stripe, segments that are still being sent are
 * added, one for each connection. So the scratch in use is at most the budget, plus the smallest windows of transfers
 * that found the budget used up, the segments being sent, and buffered early data. Scratch kept for reuse never exceeds
 * the budget. In place, a backup as large as this rank's part is added (backup.h).
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

struct pccl_exchange; /* defined in collective/internal.h */
struct pccl_transfer; /* one operation on this peer */
struct pccl_flow;     /* one operation on one lane */
struct pccl_lane;     /* valid for the driver while it has a connection */

struct pccl_exchange_config {
    uint64_t hash_seed; /* random seed for tables whose keys are chosen by peers */
    struct pccl_id self;
    const struct pccl_kernels *kernels;
    size_t scratch_bytes_max;
    /*
     * Bytes of an operation that may be in flight on each link, rounded to whole segments. On a long path, set it above
     * the bandwidth-delay product; a share for each step of a stripe is added. A short path uses a few segments,
     * regardless of this value.
     */
    size_t window_bytes;
    /*
     * Limit, to within a segment, for the bytes that one visit of the driver copies for parts that stay at their rank.
     * When it is reached, `rests` is called.
     */
    size_t kept_bytes_most;
};

/* Effects are called from within the functions below, and must not call back into the exchange. */
struct pccl_exchange_effects {
    void *context;
    /* This peer's result is complete, but data may remain to be sent (pccl_transfer_is_at_rest). Called once. */
    void (*done)(void *context, struct pccl_transfer *transfer);
    /*
     * The caller's memory is no longer sent or received. Called once, after `done`; at the latest when all peers are
     * done.
     */
    void (*at_rest)(void *context, struct pccl_transfer *transfer);
    /*
     * The transfer cannot continue (a connection was lost, peers differ, out of memory) and waits for
     * pccl_exchange_stop. Called once, either instead of `done`, or after it and even after `at_rest`: sent data may
     * not have arrived, and others may still need data that this peer passes on.
     */
    void (*failed)(void *context, struct pccl_transfer *transfer, enum pccl_class class,
                   const struct pccl_text *reason);
    /* Another peer has started an operation that has not started here. Called once for each operation and peer. */
    void (*announced)(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready);
    /*
     * More can be sent on this lane, which has a connection: call pccl_exchange_next for its idle connections. A
     * connection that becomes idle later must call that itself; this effect is not called again for it. `user` is the
     * argument of pccl_exchange_connected.
     */
    void (*writable)(void *context, void *user);
    /*
     * A part of a tensor with given lengths is complete on this rank. `position` is the member that provides it. Called
     * once for each non-empty part, before `done`, if tells_arrivals is set.
     */
    void (*arrived)(void *context, struct pccl_transfer *transfer, uint32_t position);
    /* Copying has taken long: serve other connections, then call pccl_exchange_continue. */
    void (*rests)(void *context);
};

/*
 * An operation on this peer. The config and all memory that it points to must stay unchanged until the transfer ends.
 */
struct pccl_transfer_config {
    struct pccl_instance instance;
    struct pccl_epoch view; /* view in which the operation started */
    struct pccl_descriptor descriptor;
    struct pccl_cost cost;
    const struct pccl_id *ring;
    uint32_t ranks; /* >= 2, including this peer */
    uint32_t root;  /* rank of the root in the ring, for a collective with a root */
    /* Position of each rank's part; NULL if the tensor is not divided into parts. */
    const uint32_t *positions;
    /* Lengths of the parts, as in the plan; NULL if all are equal. */
    const uint64_t *starts;
    /*
     * All-reduce: input and result have `count` elements and may be the same memory. Broadcast: likewise, but only the
     * root's input is read; if the root's result is its input, it is written only with a codec. All-gather: the input
     * is this rank's part, which may be in its place in the result. Reduce-scatter: the input has all parts; the result
     * is this rank's share, which may be in its place in the input. Reduce and gather: as all-reduce and all-gather,
     * but only the root has a result. Scatter: only the root has an input, with all parts; the result is this rank's
     * part, which may be in its place in the input. All-to-all: both have all parts, in different memory. Memory
     * without bytes is NULL. With given lengths, each part is in one extent of the input, and the result is one extent.
     * With several sections, input and result have the same extents.
     */
    struct pccl_buffers buffers;
    double factor; /* premultiplied sum: factor of this rank's elements; ranks may have different factors */
    struct pccl_feedback feedback; /* reduction with a scaled codec: a residual for each element of the input */
    bool tells_arrivals;           /* report arrivals of parts with given lengths */
    /*
     * Telemetry of flows, in the caller's memory until the transfer is stopped; zeroed by the caller. Flows beyond
     * sight_count are not recorded.
     */
    struct pccl_telemetry_flow *telemetry;
    uint32_t telemetry_count;
    void *user;
};

struct pccl_traffic {
    uint64_t sent_bytes, received_bytes; /* payload */
};

/* A frame, possibly followed by raw bytes, that is being sent on a connection. Owned by the driver; must not move. */
struct pccl_departure {
    struct pccl_msg msg; /* must be encoded and sent first */
    /*
     * Bytes to send after the message. If NULL with length > 0, zeros must be sent instead, because the rest is no
     * longer needed. May become NULL while being sent.
     */
    const uint8_t *payload;
    uint32_t length;
    struct pccl_transfer *transfer; /* NULL if the transfer was stopped, or the frame belongs to no transfer */
    struct pccl_list_node node;
    struct pccl_flow *flow; /* this and the following fields are private to the exchange */
    uint64_t stripe;
    void *scratch;
};

/* Raw bytes that are arriving on a connection. Owned by the driver; must not move. */
struct pccl_arrival {
    uint8_t *payload; /* destination; NULL: discard the bytes. May become NULL while they arrive */
    uint32_t length;
    struct pccl_transfer *transfer;
    struct pccl_list_node node;
    struct pccl_flow *flow;
    uint64_t stripe;
    uint32_t step;
    void *scratch;
    struct pccl_buffered_segment *held; /* buffered segment, until its transfer takes it */
};

/* Copies config, memory and effects. Returns NULL if out of memory. */
struct pccl_exchange *pccl_exchange_create(const struct pccl_exchange_config *config, const struct pccl_memory *memory,
                                           const struct pccl_exchange_effects *effects);
/* There must be no transfers, and no departure or arrival in progress. */
void pccl_exchange_destroy(struct pccl_exchange *exchange);
/*
 * Sets the id of this peer after it has connected again. Drops lanes and buffered announcements; the driver must not
 * use earlier lanes. There must be no transfers.
 */
void pccl_exchange_rename(struct pccl_exchange *exchange, const struct pccl_id *self);

/* Sets the time for telemetry, at the beginning of each visit of the driver. */
void pccl_exchange_set_time(struct pccl_exchange *exchange, uint64_t now_us);

/* Sets the members of the current view. Newcomers cannot use the room that is reserved for members. */
void pccl_exchange_admit(struct pccl_exchange *exchange, const struct pccl_id *members, uint32_t count);

/* ---- operations ---- */

/*
 * Starts an operation. Returns MEMORY, or ARGUMENT with a reason, if it was not started. May call `failed` (if peers
 * differ) or `done` (if all data is already here) before it returns.
 */
PCCL_MUST_CHECK enum pccl_status pccl_exchange_start(struct pccl_exchange *exchange,
                                                     const struct pccl_transfer_config *config,
                                                     struct pccl_transfer **transfer, struct pccl_text *reason);
/*
 * Ends and frees a transfer whose outcome is known or that this peer gives up; its departures and arrivals lose their
 * payload. The driver may send zeros for the rest of a departure only after an abort: otherwise the other side could
 * take them for data of an operation that succeeds, so the driver must close those connections
 * (pccl_transfer_is_sending).
 */
void pccl_exchange_stop(struct pccl_exchange *exchange, struct pccl_transfer *transfer, bool committed);
/*
 * Ends an undecided transfer that may start again in a later view. Acts like stop after an abort, but keeps messages of
 * the later view. If the operation will not start again, pccl_exchange_forget must follow.
 */
void pccl_exchange_break_off(struct pccl_exchange *exchange, struct pccl_transfer *transfer);
/* Discards early and late data of an aborted operation that will never start here. */
void pccl_exchange_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance);
void pccl_exchange_continue(struct pccl_exchange *exchange);
void *pccl_transfer_user(const struct pccl_transfer *transfer);
bool pccl_transfer_is_at_rest(const struct pccl_transfer *transfer);
/* Returns true if a departure of the transfer is in progress. */
bool pccl_transfer_is_sending(const struct pccl_transfer *transfer);
struct pccl_traffic pccl_transfer_traffic(const struct pccl_transfer *transfer);
/* Returns true if the links of a member transfer data at the same time, so that they share its line. */
bool pccl_transfer_shares_lines(const struct pccl_transfer *transfer);

/* ---- connections ---- */

/*
 * Adds an established connection to its lane and repeats READY on it. Returns the lane, which is the same for all its
 * connections, or NULL if out of memory; the connection is then unusable. `user` is passed to `writable`.
 */
PCCL_MUST_CHECK struct pccl_lane *pccl_exchange_connected(struct pccl_exchange *exchange, const struct pccl_id *peer,
                                                          bool outgoing, void *user);
/*
 * Removes a lost connection, after the driver has released its departure and arrival with pccl_exchange_dropped. Fails
 * every running transfer that sends on this lane, because bytes accepted by the kernel may not have arrived, and every
 * transfer that receives on it and is not done. Only a send (PCCL_SEND) whose data has not begun to move continues. If
 * `complete` is true, all data sent on the connection has arrived, or its sender fails the transfer, because one side
 * has closed the connection regularly: the sender with link_bye, or the receiver now. Transfers that receive on the
 * lane then continue on another connection. The lane may be freed after its last connection.
 */
void pccl_exchange_disconnected(struct pccl_lane *lane, bool complete);
/*
 * Fails all transfers on this lane with INTERNAL and this reason, including sends whose data has not begun to move.
 * Call it before closing a connection over an invalid message; the driver then closes the connection as usual.
 */
void pccl_exchange_rejected(struct pccl_lane *lane, const struct pccl_text *reason);

/*
 * Returns the next frame for an idle connection of this lane. Returns false if there is no frame now; `writable` is
 * called later.
 */
PCCL_MUST_CHECK bool pccl_exchange_next(struct pccl_lane *lane, struct pccl_departure *departure);
/* Returns true if an outgoing lane has something to send that the receiver has not granted yet. */
PCCL_MUST_CHECK bool pccl_exchange_awaits_credit(const struct pccl_lane *lane);
/* Records that the connection has accepted all bytes of the departure. */
void pccl_exchange_sent(struct pccl_exchange *exchange, struct pccl_departure *departure);

/*
 * Processes a received frame. For DATA, fills in *arrival with a length > 0, and the payload must be read next; for
 * READY, the length is 0. On MALFORMED and MEMORY, with a reason, the connection becomes unusable; after MALFORMED call
 * pccl_exchange_rejected. (If only memory for a segment is missing, just its transfer fails.) Returns LIMIT if too much
 * is buffered for operations that have not started here: stop reading from the connection until there is room
 * (pccl_exchange_room) or the frame needs none (pccl_exchange_is_due), and then pass the frame in again.
 */
PCCL_MUST_CHECK enum pccl_status pccl_exchange_receive(struct pccl_lane *lane, const struct pccl_msg *msg,
                                                       struct pccl_arrival *arrival, struct pccl_text *reason);
/* Returns a counter that changes whenever a frame that was refused with LIMIT may fit. */
uint64_t pccl_exchange_room(const struct pccl_exchange *exchange);
/*
 * Returns true if a frame that was refused with LIMIT need not wait for shared room: its operation has started or
 * ended, its view has passed, or its lane has reserved room. Call after each start, end and admission.
 */
PCCL_MUST_CHECK bool pccl_exchange_is_due(const struct pccl_lane *lane, const struct pccl_msg_data *data);
/* Records that all bytes of the arrival have been received. */
void pccl_exchange_received(struct pccl_exchange *exchange, struct pccl_arrival *arrival);
/* Releases the departure and arrival of a broken connection. Either may be NULL or idle (zeroed). */
void pccl_exchange_dropped(struct pccl_exchange *exchange, struct pccl_departure *departure,
                           struct pccl_arrival *arrival);

/* Returns the number of bytes of scratch in use, and sets the peak, which may be NULL. For tests and logs. */
size_t pccl_exchange_scratch_bytes(const struct pccl_exchange *exchange, size_t *peak);
/* Returns the number of bytes of scratch that buffer early data. */
size_t pccl_exchange_early_bytes(const struct pccl_exchange *exchange);

#endif
