/*
 * What the files of the data plane share. From below: scratch and backup (memory), ring and direct (schedules: what is
 * to be done), fold and packed (with the bytes), lane (what waits to be sent to whom, and what was announced), window,
 * messages, ahead and transfer (one operation), exchange (the functions of exchange.h).
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
    struct pccl_node by_peer;
    struct pccl_id peer;
    bool outgoing;
    uint32_t connections;
    struct pccl_link channels; /* all that use it */
    struct pccl_link queue;    /* channels that have something to send, in turn */
    /* Outgoing: READY of operations that are not started here, the oldest first. */
    struct pccl_link kept;
    struct pccl_table kept_by_instance;
    struct pccl_table ahead; /* Incoming: held for groups that are not open here, by instance. */
    size_t ahead_bytes;      /* Incoming: of that; outgoing: promised to those who send without READY. */
    uint32_t ahead_segments; /* The same. */
    bool used;               /* Some operation has. */
    bool member;             /* Its peer is one of our view. */
};

struct pccl_kept {
    struct pccl_node by_instance;
    struct pccl_link link;
    struct pccl_msg_ready ready;
};

/* What the peer of a lane sent ahead for one operation. */
struct pccl_ahead {
    struct pccl_node by_instance;
    struct pccl_exchange *exchange;
    struct pccl_lane *lane;
    struct pccl_instance instance;
    struct pccl_epoch view;
    struct pccl_link segments; /* at least one, by group */
};

struct pccl_ahead_segment {
    struct pccl_link link;
    struct pccl_ahead *ahead;
    uint64_t group;
    uint32_t length;
    struct pccl_scratch *scratch;
    struct pccl_arrival *arrival; /* NULL: it is all here */
};

/* First in, first out. */
struct pccl_parcel_queue {
    struct pccl_parcel *first, *last;
};

/* One operation on one lane: what it sends there, data or READY. */
struct pccl_channel {
    struct pccl_transfer *transfer;
    struct pccl_lane *lane;
    uint32_t other;  /* rank */
    uint32_t column; /* among those of its direction */
    uint32_t first;  /* the piece of step 0, or PCCL_NO_PIECE */
    bool outgoing;
    struct pccl_link on_lane, in_queue;
    /* outgoing */
    bool agreed;        /* READY has come, and says the same as we */
    uint64_t granted;   /* groups below this may be sent */
    uint64_t ahead;     /* and of those below this the first step without READY */
    size_t ahead_bytes; /* of the lane's, for that */
    uint32_t ahead_segments;
    uint64_t begun;                 /* groups below this have their first step sent */
    struct pccl_parcel_queue ready; /* later steps that may be sent now */
    struct pccl_parcel_queue held;  /* of groups that are not granted yet */
    /* incoming */
    uint64_t told; /* groups below this are granted to the sender */
    bool tell;     /* READY is to be sent */
};

/*
 * What is known of one step of a group on one column of channels. It serves the message that comes in on one of them
 * and the one that goes out on the other: only what is collected and what is sent on has scratch, in different steps.
 */
struct pccl_parcel {
    struct pccl_parcel *next; /* in a channel's queue */
    struct pccl_group *group;
    struct pccl_scratch *scratch; /* to be sent; or the part that came in */
    uint32_t step;
    bool arrived; /* the message in: under way, or here */
    bool handed;  /* the message out: given to a connection, or sent */
};

struct pccl_group {
    struct pccl_group *next; /* among the idle ones */
    uint64_t number;
    uint32_t arrivals_left, departures_left;
    uint32_t results_left; /* segments of it whose result is not there */
    uint32_t parts_left;   /* to be collected */
    struct pccl_parcel parcels[];
};

/* An operation that ran here and is over: what is still heard of it is of no interest. */
struct pccl_ended {
    struct pccl_node by_instance;
    struct pccl_link link;
    struct pccl_instance instance;
};

struct pccl_transfer {
    struct pccl_node by_instance;
    struct pccl_exchange *exchange;
    struct pccl_instance instance;
    struct pccl_epoch view;
    struct pccl_descriptor descriptor;
    struct pccl_plan plan;
    struct pccl_id *ring; /* owned */
    const uint8_t *input;
    uint8_t *result;
    void *user;
    bool failed, done, at_rest;
    struct pccl_traffic traffic;
    struct pccl_backup backup;
    struct pccl_ended *ended; /* for the time after */
    struct pccl_departure *departures;
    struct pccl_arrival *arrivals;

    /* The first ones outgoing, to ranks after this one in the ring's order; then incoming, from ranks before it. */
    struct pccl_channel *channels;
    uint32_t outgoing_count, channel_count;
    uint32_t columns; /* channels of the direction that has more */
    uint32_t unheard; /* outgoing channels that are not `agreed` */

    /* The window: groups [first_open, granted) but for those that are complete, by number modulo the slots. */
    struct pccl_group **slots;
    uint64_t slot_count; /* a power of two */
    uint64_t first_open, granted, complete;
    uint64_t results_complete; /* groups */
    uint64_t window;           /* groups that may be open */
    size_t group_scratch;      /* what a group needs in scratch */
    struct pccl_group *idle_groups;
    struct pccl_link wanting; /* in the exchange's queue for a larger window */
};

struct pccl_exchange {
    struct pccl_exchange_config config;
    struct pccl_memory memory;
    struct pccl_exchange_effects effects;
    struct pccl_hash_key hash; /* of all tables */
    struct pccl_table lanes, transfers, ended;
    struct pccl_link ended_list; /* the oldest first */
    struct pccl_link wanting;    /* transfers that would like to open more groups, in turn */
    struct pccl_epoch view;      /* the latest of any transfer */
    struct pccl_id *members;     /* of the view that the driver told of last */
    uint32_t member_count, member_capacity;
    struct pccl_scratch_pool scratch;
    struct pccl_backup_pool backups;
    size_t ahead_bytes; /* held in all lanes */
    uint32_t ahead_segments;
    uint64_t room; /* counts when some of it may have become free, or for somebody else */
};

/* ---- lane.c ---- */
struct pccl_lane *pccl_lane_find(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing);
/* Makes it if there is none. NULL: memory is short. */
struct pccl_lane *pccl_lane_get(struct pccl_exchange *exchange, const struct pccl_id *peer, bool outgoing);
bool pccl_lane_is_of_member(const struct pccl_exchange *exchange, const struct pccl_lane *lane);
/* Frees it if nobody needs it. NULL is allowed. */
void pccl_lane_tidy(struct pccl_exchange *exchange, struct pccl_lane *lane);
void pccl_lanes_free(struct pccl_exchange *exchange);
/* Puts it into the lane's queue if it has something to send and is not there. */
void pccl_channel_wake(struct pccl_channel *channel);

/* What another peer announced. Outgoing lanes. keep: false when memory is short; *first: it was not known. */
PCCL_MUST_CHECK bool pccl_kept_add(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                   const struct pccl_msg_ready *ready, bool *first);
struct pccl_kept *pccl_kept_find(struct pccl_lane *lane, const struct pccl_instance *instance);
void pccl_kept_free(struct pccl_exchange *exchange, struct pccl_lane *lane, struct pccl_kept *kept);
/* Drops what belongs to views before this one. */
void pccl_kept_forget_before(struct pccl_exchange *exchange, const struct pccl_epoch *view);

/* ---- transfer.c ---- */
PCCL_MUST_CHECK enum pccl_status pccl_transfer_make(struct pccl_exchange *exchange,
                                                    const struct pccl_transfer_config *config,
                                                    struct pccl_transfer **transfer, struct pccl_text *words);
void pccl_transfer_free(struct pccl_transfer *transfer);
void pccl_transfer_fail(struct pccl_transfer *transfer, enum pccl_class class, const char *format, ...);
/* Tells what has come true by the last message. */
void pccl_transfer_report(struct pccl_transfer *transfer);

/* ---- window.c ---- */
/* The piece of its message in a step that there is, or PCCL_NO_PIECE. */
static inline uint32_t pccl_channel_piece(const struct pccl_channel *channel, uint32_t step)
{
    const struct pccl_plan *plan = &channel->transfer->plan;
    uint32_t rank = plan->seat.rank, other = channel->other;
    return pccl_plan_schedule(plan)->piece(plan->seat, channel->outgoing ? rank : other,
                                           channel->outgoing ? other : rank, step);
}
/* How many groups may be open, and what each needs. */
void pccl_window_size(struct pccl_transfer *transfer);
/* Makes a record for one more group. false: memory is short. */
PCCL_MUST_CHECK bool pccl_group_reserve(struct pccl_transfer *transfer);
/* Opens what may be opened: one group at least, the first time and when the last one is complete. */
void pccl_window_widen(struct pccl_transfer *transfer);
/* There is more of the budget than before. */
void pccl_window_share_out(struct pccl_exchange *exchange);
/* The parcel of a step on the channel, of either direction. */
struct pccl_parcel *pccl_channel_parcel(const struct pccl_channel *channel, struct pccl_group *group, uint32_t step);
/* One more result of the group is there. */
void pccl_group_result(struct pccl_transfer *transfer, struct pccl_group *group);
/* NULL: not granted, or complete. */
struct pccl_group *pccl_group_of(const struct pccl_transfer *transfer, uint64_t number);
/* After each message of the group that came or went. */
void pccl_group_close_if_complete(struct pccl_transfer *transfer, struct pccl_group *group);
/* Also those that are open, with what waits in them. */
void pccl_groups_free(struct pccl_transfer *transfer);

/* ---- messages.c ---- */
/* The channel with this lane, or NULL. */
struct pccl_channel *pccl_transfer_channel(struct pccl_transfer *transfer, const struct pccl_lane *lane);
/* The receiver on an outgoing channel takes groups below `granted`. */
void pccl_transfer_credit(struct pccl_channel *channel, uint64_t granted);
bool pccl_channel_has_something(struct pccl_channel *channel);
/* Fills in the departure. false: there is nothing, maybe because it failed. */
PCCL_MUST_CHECK bool pccl_transfer_next(struct pccl_channel *channel, struct pccl_departure *departure);
void pccl_transfer_sent(struct pccl_departure *departure);
PCCL_MUST_CHECK enum pccl_status pccl_transfer_receive(struct pccl_channel *channel, const struct pccl_msg_data *data,
                                                       struct pccl_arrival *arrival, struct pccl_text *words);
void pccl_transfer_received(struct pccl_arrival *arrival);
/* What was held of this first step belongs to the transfer now: all of it, or what is still coming in. */
void pccl_transfer_take(struct pccl_channel *channel, struct pccl_group *group, struct pccl_scratch *scratch,
                        uint32_t length);
void pccl_transfer_adopt(struct pccl_channel *channel, struct pccl_group *group, struct pccl_scratch *scratch,
                         struct pccl_arrival *arrival);
/* They belong to no transfer any more; what they hold is given back. */
void pccl_departure_release(struct pccl_departure *departure);
void pccl_arrival_release(struct pccl_arrival *arrival);

/* ---- ahead.c ---- */
/* The first step of groups below this may be sent ahead: on a long path. */
uint64_t pccl_ahead_groups(const struct pccl_plan *plan);
/* READY has not come yet: the outgoing channel may begin with what the lane has left for that. */
void pccl_ahead_allow(struct pccl_channel *channel);
/* READY that agrees has come. */
void pccl_ahead_agree(struct pccl_channel *channel, uint64_t granted);
/* The lane gets back what the channel has of it. */
void pccl_ahead_give_back(struct pccl_channel *channel);
/* On a long path, a first step that no peer would send that plans the operation as we do. */
bool pccl_ahead_is_foreign(const struct pccl_channel *channel, const struct pccl_msg_data *data);
void pccl_ahead_fail(struct pccl_transfer *transfer, const struct pccl_id *peer, uint64_t group, uint32_t length);
/* A first step for a group that is not open here. */
PCCL_MUST_CHECK enum pccl_status pccl_ahead_hold(struct pccl_exchange *exchange, struct pccl_lane *lane,
                                                 const struct pccl_msg_data *data, struct pccl_arrival *arrival,
                                                 struct pccl_text *words);
/* Whether the lane is used, and whether its peer is a member: either gives it room of its own. */
void pccl_ahead_own(struct pccl_exchange *exchange, struct pccl_lane *lane, bool used, bool member);
void pccl_ahead_received(struct pccl_arrival *arrival);
void pccl_ahead_dropped(struct pccl_arrival *arrival);
/* It starts: drops what is older, and fails if what is held for it does not fit. */
void pccl_ahead_start(struct pccl_transfer *transfer);
/* The group has been opened. What comes true by it is reported with its next message: one at least is to be sent. */
void pccl_ahead_take(struct pccl_transfer *transfer, struct pccl_group *group);
/* The operation is over here. */
void pccl_ahead_forget(struct pccl_exchange *exchange, const struct pccl_instance *instance);
void pccl_ahead_forget_lane(struct pccl_lane *lane);

#endif
