/*
 * The data plane of one peer without its sockets: all running operations and all lanes to other
 * peers. Pure; the driver (src/data, or the rig of the tests) moves the bytes.
 *
 * A lane is one direction between this peer and another: an outgoing lane carries our DATA and the
 * other side's READY, an incoming lane their DATA and our READY. In a send, which has this one lane, the source says
 * READY over it, too, so that the other side knows of the send before it receives. A lane has one or several
 * connections, all opened by the sender of the data; a message uses any connection with room, and
 * stays on it until it is complete. Operations take turns on a lane, message by message.
 *
 * Rendezvous (PROTOCOL 7): a transfer that starts sends READY to all it receives from; data flows
 * only for stripes below what the receiver has granted. A READY for an operation that has not been
 * started here is kept (bounded); one of an older view or an ended operation is dropped. On a long
 * path a sender sends its own part of the first stripes without waiting for READY, at most
 * PCCL_AHEAD_BYTES and PCCL_AHEAD_SEGMENTS on a lane, and no more bytes to several peers at once:
 * the receiver holds it until it opens the stripe. No transfer is done before all who receive from
 * it have said READY and agree. Data for an operation that has ended here is thrown away. Each
 * message comes once, in any order across the connections of a lane, and a result only after what
 * it was made of; everything else is refused as malformed, and harms nothing.
 *
 * The caller's memory: `input` is only read, unless the result belongs there, too. In place, what is
 * about to be overwritten with other elements is saved first, and pccl_exchange_stop(not committed)
 * puts it back. Whatever else is in `result` is unspecified after an abort. After stop has returned,
 * nothing of this module refers to either.
 *
 * Memory: segments in flight lie in scratch, shared by all transfers under `scratch_bytes_max`. A
 * transfer always gets what its smallest window (one stripe) needs, so no operation waits for
 * another one's end. Larger windows are granted in turn from what is left: on long paths of the
 * whole budget, on short ones of 12 MiB, or of one operation's window if that is more, so that many
 * operations do not drive each other out of the caches. A stripe needs as many segments as its
 * schedule has in scratch at once: for an all-reduce ranks - 1, as they travel; with a codec ranks,
 * and 2(ranks - 1) in direct exchange; for an all-gather with a codec ranks. If a peer is ahead of us
 * in a stripe, segments that are still being sent come on top, one for each connection. So scratch in
 * use is at most the budget, the smallest windows of transfers that found it used up, those segments
 * being sent, and what is held of what was sent ahead; what is kept for reuse never exceeds the
 * budget. In place, a backup as large as the own part comes on top (backup.h).
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
#include "sight/flow.h"

struct pccl_exchange; /* collective/internal.h */
struct pccl_transfer; /* one operation at this peer */
struct pccl_flow;     /* the same, on one lane */
struct pccl_lane;     /* valid for the driver while it has a connection */

struct pccl_exchange_config {
    uint64_t hash_seed; /* random: for tables of what peers choose */
    struct pccl_id self;
    const struct pccl_kernels *kernels;
    size_t scratch_bytes_max;
    /*
     * Bytes of an operation that may be in flight at once over each link, in whole segments. On a
     * long path they should exceed its bandwidth-delay product, and a part for each step of a
     * stripe comes on top; on a short one a few segments are used, whatever this says.
     */
    size_t window_bytes;
    /* Bytes of kept parts that one visit of the driver copies, give or take a segment; then `rests` follows. */
    size_t kept_bytes_most;
};

/* Called from inside the functions below; they must not call back into the exchange. */
struct pccl_exchange_effects {
    void *context;
    /*
     * This peer's result is complete. Data of it may still have to be sent:
     * pccl_transfer_is_at_rest. Once.
     */
    void (*done)(void *context, struct pccl_transfer *transfer);
    /*
     * No byte of the caller's memory is to be sent or received any more; this comes at the latest
     * when all peers are done. Once, after `done`, or right behind it if nothing was left to be
     * sent.
     */
    void (*at_rest)(void *context, struct pccl_transfer *transfer);
    /*
     * The transfer cannot go on (a connection was lost, peers differ, memory is short) and waits
     * for pccl_exchange_stop. Once, instead of `done`, or after it and even after `at_rest`,
     * because what was sent need not have arrived, and others may still need what is passed on.
     */
    void (*failed)(void *context, struct pccl_transfer *transfer, enum pccl_class class,
                   const struct pccl_text *reason);
    /*
     * Another peer has started an operation that has not been started here. Once for each operation
     * and peer.
     */
    void (*announced)(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready);
    /*
     * More can be sent on this lane: call pccl_exchange_next for its idle connections. A connection
     * that becomes idle must ask by itself; this is not called again for it. pccl_exchange_connected
     * got `user`. The lane has a connection.
     */
    void (*writable)(void *context, void *user);
    /*
     * A part of given length that this rank gets is complete; it is that of the member in this
     * position. Once for each, before `done`, if the transfer is to tell; not of empty ones.
     */
    void (*arrived)(void *context, struct pccl_transfer *transfer, uint32_t position);
    /* Copying has taken long: visit other connections, then call pccl_exchange_go_on. */
    void (*rests)(void *context);
};

/* One operation at this peer. It and everything that it points to stay in place, unchanged, until the transfer ends. */
struct pccl_transfer_config {
    struct pccl_instance instance;
    struct pccl_epoch view; /* start view */
    struct pccl_descriptor descriptor;
    struct pccl_cost cost;
    const struct pccl_id *ring; /* of the view */
    uint32_t ranks;             /* >= 2; self is one of them */
    uint32_t root;              /* where there is one: its rank in the ring */
    /* By rank in the ring: which part of the tensor is the rank's; NULL: it is not in parts. */
    const uint32_t *positions;
    /* Parts of given lengths, as in the plan; NULL: equal. */
    const uint64_t *starts;
    /*
     * All-reduce: `count` elements each, which may be the same memory. Broadcast: likewise; only the
     * root's input is read, and if the root's result is the input it is written with a codec only.
     * All-gather: the own part, and all parts; the input may be its part of the result.
     * Reduce-scatter: all parts, and the own share; the result may be its part of the input.
     * Reduce, gather: as all-reduce and all-gather, but only the root has a result. Scatter: all parts,
     * of which only the root has any, and the own one, which may be its part of the input.
     * All-to-all: all parts on both sides, which are not the same memory.
     * Memory is NULL where there are no bytes. No part of given length is in more than one extent of the
     * input, and then the result is one extent; of several sections input and result have extents alike.
     */
    struct pccl_buffers buffers;
    double factor; /* of a premultiplied sum: what this rank's elements are multiplied by; it may differ from others' */
    struct pccl_feedback feedback; /* of a reduction with a scaled codec, for each element of the input */
    bool tells_arrivals;           /* of parts of given lengths */
    /* What is recorded of each flow, as far as there is room; zeroed, and the caller's until it is stopped. */
    struct pccl_sight_flow *sights;
    uint32_t sight_count;
    void *user;
};

struct pccl_traffic {
    uint64_t sent_bytes, received_bytes; /* payload */
};

/*
 * One frame, and maybe raw bytes after it, being sent over one connection. Owned by the driver;
 * must not move.
 */
struct pccl_departure {
    struct pccl_msg msg;    /* encode and send it first */
    const uint8_t *payload; /* then this; NULL with length > 0: send zeros, as nobody wants the rest. May become NULL
                               while it is sent. */
    uint32_t length;
    struct pccl_transfer *transfer; /* NULL: it was stopped meanwhile, or the frame belongs to none */
    struct pccl_list_node node;     /* of the transfer */
    struct pccl_flow *flow;         /* the exchange's own, like the next ones */
    uint64_t stripe;
    void *scratch;
};

/* Raw bytes that are coming in over one connection. Owned by the driver; must not move. */
struct pccl_arrival {
    uint8_t *payload; /* where they go; NULL: throw them away. May become NULL while they come. */
    uint32_t length;
    struct pccl_transfer *transfer;
    struct pccl_list_node node; /* of the transfer */
    struct pccl_flow *flow;
    uint64_t stripe;
    uint32_t step;
    void *scratch;
    struct pccl_held_segment *held; /* held for a transfer that has not taken it yet */
};

/* NULL: out of memory. Config, memory and effects are copied. */
struct pccl_exchange *pccl_exchange_create(const struct pccl_exchange_config *config, const struct pccl_memory *memory,
                                           const struct pccl_exchange_effects *effects);
/* No transfer may be left, and no departure or arrival in progress. */
void pccl_exchange_destroy(struct pccl_exchange *exchange);
/*
 * This peer has a new identity (it connected anew). Lanes and kept announcements are dropped: the
 * driver uses no lane that it had before. No transfer may be left.
 */
void pccl_exchange_rename(struct pccl_exchange *exchange, const struct pccl_id *self);

/* A visit of the driver begins: the time, for what is recorded of flows from now on. */
void pccl_exchange_set_time(struct pccl_exchange *exchange, uint64_t now_us);

/*
 * Tells the members of the current view: newcomers cannot take the room that is reserved for them.
 */
void pccl_exchange_admit(struct pccl_exchange *exchange, const struct pccl_id *members, uint32_t count);

/* ---- operations ---- */

/*
 * Starts one. MEMORY or ARGUMENT (with a reason): nothing was started. `failed` may follow at once
 * (peers differ), and so may `done` (the last one to come finds all that it needs).
 */
PCCL_MUST_CHECK enum pccl_status pccl_exchange_start(struct pccl_exchange *exchange,
                                                     const struct pccl_transfer_config *config,
                                                     struct pccl_transfer **transfer, struct pccl_text *reason);
/*
 * The outcome is known, or this peer gives up. Frees the transfer; departures and arrivals that
 * belong to it lose their payload pointer. Only after an abort may the driver send zeros for the
 * rest of such a departure: otherwise the other side could take them for data, and be told a
 * success (it cuts those connections: pccl_transfer_is_sending).
 */
void pccl_exchange_stop(struct pccl_exchange *exchange, struct pccl_transfer *transfer, bool committed);
/*
 * It is not decided, and may be started again in a later view: as stop after an abort, but what belongs to that view is
 * kept. If it is not, pccl_exchange_forget must follow.
 */
void pccl_exchange_break_off(struct pccl_exchange *exchange, struct pccl_transfer *transfer);
/*
 * It was aborted and will never be started here: what was sent ahead for it, and what still comes,
 * is thrown away.
 */
void pccl_exchange_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance);
/* Continues the transfers that rest. */
void pccl_exchange_go_on(struct pccl_exchange *exchange);
void *pccl_transfer_user(const struct pccl_transfer *transfer);
bool pccl_transfer_is_at_rest(const struct pccl_transfer *transfer);
/* Whether a departure of it is in progress. */
bool pccl_transfer_is_sending(const struct pccl_transfer *transfer);
struct pccl_traffic pccl_transfer_traffic(const struct pccl_transfer *transfer);
/* Returns true if the links of one member carry its data at the same time, so that they share its line. */
bool pccl_transfer_shares_lines(const struct pccl_transfer *transfer);

/* ---- connections ---- */

/*
 * One more connection of a lane is established; READY is sent again over it. Returns the lane, the same for all its
 * connections. NULL: out of memory; the connection cannot be used. `user` is given to `writable`.
 */
PCCL_MUST_CHECK struct pccl_lane *pccl_exchange_connected(struct pccl_exchange *exchange, const struct pccl_id *peer,
                                                          bool outgoing, void *user);
/*
 * A connection is gone. The driver has given back its departure and arrival by pccl_exchange_dropped. Fails every
 * running transfer that sends over this lane, as bytes that the system has taken need not have arrived, or that
 * receives over it and is not done; a send only once data of it has moved. After the last connection the lane may be
 * freed. complete: all that was sent over the connection has arrived, or the sender fails the transfer: the sender has
 * closed the connection with link_bye, or the receiver closes it. Transfers that receive over it continue then: further
 * data arrives over another connection.
 */
void pccl_exchange_disconnected(struct pccl_lane *lane, bool complete);
/*
 * Fails the same transfers as INTERNAL, with this reason, and also sends of which no data has moved: the connection is
 * about to be closed because one side has received an invalid message from the other. Then the driver closes it as
 * usual.
 */
void pccl_exchange_rejected(struct pccl_lane *lane, const struct pccl_text *reason);

/* The next frame for an idle connection of this lane. false: nothing now; `writable` will tell. */
PCCL_MUST_CHECK bool pccl_exchange_next(struct pccl_lane *lane, struct pccl_departure *departure);
/* Returns true if an outgoing lane has something to send for which its receiver has given no credit yet. */
PCCL_MUST_CHECK bool pccl_exchange_awaits_credit(const struct pccl_lane *lane);
/* The connection has taken all of it. */
void pccl_exchange_sent(struct pccl_exchange *exchange, struct pccl_departure *departure);

/*
 * A frame came in. For DATA *arrival is filled in (its length is never 0), and the payload is read
 * next; for READY its length is 0. MALFORMED or MEMORY with a reason: the connection is unusable
 * from then on; after MALFORMED pccl_exchange_rejected comes next. (If memory for a segment is short, only its transfer
 * fails.) LIMIT: too much is held for operations that have not been started here. Do not read from the connection until
 * there is room (pccl_exchange_room) or it needs none (pccl_exchange_is_due), then hand in the frame again.
 */
PCCL_MUST_CHECK enum pccl_status pccl_exchange_receive(struct pccl_lane *lane, const struct pccl_msg *msg,
                                                       struct pccl_arrival *arrival, struct pccl_text *reason);
/* Changes when a frame that was answered LIMIT may fit now. */
uint64_t pccl_exchange_room(const struct pccl_exchange *exchange);
/*
 * A frame that was answered LIMIT need not wait any longer for room that others hold: its operation
 * has started or ended, its view has passed, or its lane has got room of its own. Ask after each
 * start, end and admission.
 */
PCCL_MUST_CHECK bool pccl_exchange_is_due(const struct pccl_lane *lane, const struct pccl_msg_data *data);
/* All bytes of the arrival are there. */
void pccl_exchange_received(struct pccl_exchange *exchange, struct pccl_arrival *arrival);
/*
 * The connection broke before the departure or arrival was complete. Either may be NULL or idle
 * (zeroed).
 */
void pccl_exchange_dropped(struct pccl_exchange *exchange, struct pccl_departure *departure,
                           struct pccl_arrival *arrival);

/* For tests and logs: scratch in use and at most so far. peak may be NULL. */
size_t pccl_exchange_scratch_bytes(const struct pccl_exchange *exchange, size_t *peak);
/* Of that, what is held for stripes that are not open. */
size_t pccl_exchange_ahead_bytes(const struct pccl_exchange *exchange);

#endif
