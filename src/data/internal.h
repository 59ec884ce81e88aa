/*
 * Internals of the engine. A stream is a connection that transfers frames and raw bytes. The streams to or from one
 * other peer form a bundle; any stream with room can take the next message.
 *
 * Everything declared here belongs to the owner of the loop (data/owner.h), which comments call the engine's thread,
 * unless a comment mentions the lock.
 *
 * Each file calls only files before it in this order: owner, pace, share, inbox, bundle, stream, drive, engine.
 */
#ifndef PCCL_DATA_INTERNAL_H
#define PCCL_DATA_INTERNAL_H

#include "core/table.h"
#include "core/list.h"
#include "data/engine.h"
#include "data/owner.h"
#include "data/pace.h"
#include "data/share.h"
#include "net/alarm.h"
#include "net/channel.h"
#include "net/reactor.h"

#include <stdatomic.h>

enum {
    PCCL_STREAM_FRAME_MAX = 512, /* size of the longest frame that the engine sends */
    /* Limits for the bytes of one visit, so that one stream does not delay the others. */
    PCCL_STREAM_READ_MAX = 1 << 20,
    PCCL_BUNDLE_WRITE_MAX = 2 << 20,
    PCCL_ENGINE_COPY_MAX = 2 << 20,
    PCCL_STREAM_SINK_BYTES = 64 << 10,
};

struct pccl_stream {
    struct pccl_channel channel; /* its socket is constant; while it is open, the stream is in its bundle */
    /* Constant: */
    struct pccl_engine *engine;
    struct pccl_id peer;
    bool outgoing;
    uint32_t slot;
    bool here; /* on this host, not over TCP; the fields marked "here" measure the path */

    /* Under the engine's lock: */
    bool taken;                     /* the engine's thread has taken the stream from the inbox */
    bool closed_early;              /* the caller closed the stream before the engine's thread had taken it */
    struct pccl_list_node in_known; /* node in `known`: not closed by the caller and not ended; newest first */
    struct pccl_stream *next_added, *next_closed; /* links in the inbox or in a batch taken from it */
    uint32_t rtt_us;                              /* round trip; 0: unknown */
    uint64_t rate;
    bool shared;                                /* other links used the same line during the last measurement */
    bool is_news;                               /* measured since the last query */
    struct pccl_telemetry_connection telemetry; /* latest sample, at most one per second */

    struct pccl_bundle *bundle; /* NULL while the stream is not in the exchange */
    struct pccl_stream *next_in_bundle;

    /* Sending: */
    bool sending;                     /* a message is being sent; its transfer may be gone */
    uint64_t through, through_before; /* bytes delivered at the latest sample for the pace, and at the one before */
    uint64_t resent, resent_before;   /* bytes resent at the same times */
    uint64_t pace, paced_us;    /* send rate of the stream in bytes per second (0: unknown), and time of that sample */
    uint64_t begun, measured;   /* bytes whose sending has begun: now, and until the last measurement of the path */
    uint64_t looked;            /* `begun` at the end of the last operation */
    uint64_t began_us, took_us; /* here: start of the current send; total time of sends since a measurement */
    _Atomic uint64_t handed_over;    /* here: bytes of completed messages; other threads read it */
    struct pccl_departure departure; /* valid while `departs` */
    bool departs;

    /* Receiving: */
    struct pccl_arrival arrival; /* if length > 0, a payload is being received */
    bool waiting;                /* not read until the exchange has room for the message `refused` */
    bool is_over;                /* the other side has stopped sending, so its early data is no longer needed */
    struct pccl_list_node in_waiting;
    struct pccl_msg refused;
    struct pccl_text *rejected; /* owned: reason for closing the stream, for link_bye; NULL: no reason, or no memory */
};

/* An operation that will never start here. */
struct pccl_engine_gone {
    struct pccl_instance instance;
    struct pccl_engine_gone *next;
};

/* The streams to or from one other peer. Contains at least one stream. */
struct pccl_bundle {
    struct pccl_table_node node; /* node keyed by a hash of the peer's id */
    struct pccl_id peer;
    bool outgoing;
    struct pccl_lane *lane;
    bool writable; /* queued in engine->writable */
    struct pccl_bundle *next_writable;
    struct pccl_stream *turn; /* stream whose turn is next; the streams form a ring */
    bool paced;               /* outgoing and on a long path */
    bool renewed;             /* some of its streams have not received the bound yet */
    struct pccl_pace pace;
    struct pccl_share share;
    bool waits_for_fast; /* only slow streams have room */
};

struct pccl_engine {
    /* constant */
    struct pccl_engine_config config;
    struct pccl_engine_events events;
    uv_thread_t thread;

    uv_mutex_t lock; /* never held during a callback */
    struct pccl_list_node known;
    struct pccl_stream *added, **added_end;
    struct pccl_stream *closed;
    struct pccl_engine_job *jobs, **jobs_end;
    struct pccl_id new_name;
    struct pccl_id *members; /* members of a new view; NULL: unchanged */
    uint32_t member_count;
    struct pccl_engine_gone *gone;
    bool rename, end, broken;
    struct pccl_telemetry_connection ends[PCCL_TELEMETRY_ENDS_MAX]; /* latest ends, as a ring buffer */
    uint64_t end_count;

    struct pccl_owner owner;
    const struct pccl_socket_wait *watched_by; /* wait set to which a driver has added the loop; NULL: none */
    const struct pccl_socket_wait *asked_by;   /* the same set, constant once a driver has requested the loop */
    bool ended;                                /* the loop ends after the last goodbye */
    struct pccl_reactor reactor;
    uv_prepare_t before_wait;
    uv_idle_t resends; /* active: a wake-up byte could not be sent */
    struct pccl_pipe_deferred deferred;
    struct pccl_exchange *exchange;
    uint64_t running;    /* number of running transfers */
    uint64_t resting;    /* number of running transfers that are at rest */
    bool unsettled;      /* true if the set of watched events has changed, which takes effect in the next turn */
    bool may_poll;       /* true if the driver may poll the pipes before it sleeps */
    bool polls;          /* true while a driver polls the pipes, so that the other sides need not wake it */
    uint64_t visits;     /* number of visits to streams */
    uint32_t last_found; /* position of the stream that the last poll found */
    uint32_t misses;     /* number of polls without success since the last success */
    struct pccl_wire_scratch *scratch;
    struct pccl_hash_key hash;
    struct pccl_table bundles;
    /*
     * bundles that may have something to send, indexed by `outgoing`; credit is sent first, because data fills queues
     * on the path
     */
    struct pccl_bundle *writable[2];
    struct pccl_bundle *sender;    /* paced bundle that sent last; NULL: unknown */
    struct pccl_alarm patience;    /* fires when slow streams may send, too */
    struct pccl_engine_job *noted; /* jobs with a pending `done` or `at_rest` */
    struct pccl_list_node waiting; /* streams that are not read until the exchange has room */
    uint64_t room;                 /* value of pccl_exchange_room at the last query */
    bool resuming;
    uint8_t sink[PCCL_STREAM_SINK_BYTES]; /* buffer for discarded bytes */
};

/* Returns the stream of this node of `known`, or NULL for the head. Caller holds the engine's lock. */
static inline struct pccl_stream *pccl_stream_known(const struct pccl_engine *engine, struct pccl_list_node *node)
{
    return PCCL_LIST_ITEM(&engine->known, node, struct pccl_stream, in_known);
}

/* ---- inbox.c ---- */

/* Requests taken from the inbox together. */
struct pccl_engine_batch {
    struct pccl_stream *added, *closed;
    struct pccl_engine_job *jobs;
    struct pccl_id new_name, *members;
    uint32_t member_count;
    struct pccl_engine_gone *gone;
    bool rename, end;
};

/* Takes all requests at once, so that the requests of a thread stay in order. */
void pccl_inbox_take(struct pccl_engine *engine, struct pccl_engine_batch *batch);
/*
 * Removes a stream that has ended. Its socket may be closed only afterward, because other threads may sample it until
 * then. Returns true if the caller had not closed the stream, so it must be notified.
 */
PCCL_MUST_CHECK bool pccl_engine_forget_stream(struct pccl_engine *engine, struct pccl_stream *stream,
                                               enum pccl_link_end how);
/* Drops members and ended operations that the thread has not taken yet. */
void pccl_inbox_drop_news(struct pccl_engine *engine);
void pccl_inbox_release_members(struct pccl_id *members, uint32_t count);

/* ---- bundle.c ---- */
/* Adds the stream to its bundle and connects it in the exchange. On MEMORY does neither. */
PCCL_MUST_CHECK enum pccl_status pccl_bundle_enter(struct pccl_stream *stream);
/*
 * Removes the stream from its bundle. The exchange may call `failed` for the transfers that used it. `complete`: see
 * pccl_exchange_disconnected.
 */
void pccl_bundle_leave(struct pccl_stream *stream, bool complete);
/* Queues the bundle for the next pccl_engine_flush, because it may have something to send. */
void pccl_bundle_mark_writable(struct pccl_engine *engine, struct pccl_bundle *bundle);
/* Ends the current interval of the pace when no operation can send over the bundle. */
void pccl_bundle_pause(struct pccl_bundle *bundle);
/* Lets slow streams send, too, if the fast ones have taken no message for a while. */
void pccl_bundles_lose_patience(struct pccl_engine *engine);

/* Ends a visit: sets the watched events from the state of the stream, unless a driver polls for them. */
void pccl_stream_watch(struct pccl_stream *stream);
/* Handles the end of a message, or the point at which only the goodbye remains to be sent. */
void pccl_stream_sent(struct pccl_stream *stream);
/* Continues sending when there is room: the current message, or the next one of the bundle. */
void pccl_stream_continue(struct pccl_stream *stream);
/*
 * Reads the system's measurements of the stream's path, if enough was sent since the last time. `shared` is true if
 * other links used the same line.
 */
void pccl_stream_measure(struct pccl_stream *stream, bool shared);

/* Sends messages that are ready on streams that have room. */
void pccl_bundle_pump(struct pccl_engine *engine, struct pccl_bundle *bundle);

/* ---- stream.c ---- */
/* Creates a stream on any thread. Returns NULL if out of memory; the caller then still owns the connection. */
struct pccl_stream *pccl_stream_create(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                       uint32_t slot, struct pccl_handover *handover);
/* Opens the stream on the engine's thread. If `closed_early` is true, it only sends a goodbye. */
void pccl_stream_open(struct pccl_stream *stream, bool closed_early);
/* Starts the goodbye of a stream that the caller has closed. */
void pccl_stream_leave(struct pccl_stream *stream);
/* Ends the stream immediately, even in the middle of a message. */
void pccl_stream_cut(struct pccl_stream *stream);
/* Removes the stream from the exchange; a message being sent is completed with filler. */
void pccl_stream_detach(struct pccl_stream *stream);
/*
 * Passes the refused message of each waiting stream to the exchange once more, because there may be room for its data
 * now, or the data may no longer be needed. If `due_only` is true, does this only for data that needs no room.
 */
void pccl_streams_resume(struct pccl_engine *engine, bool due_only);
/* Sends messages that are ready and calls pending events. Must follow every use of the exchange. */
void pccl_engine_flush(struct pccl_engine *engine);
/* Sends the deferred wake-up bytes of pipes. */
void pccl_engine_send_wake_bytes(struct pccl_engine *engine);

/* ---- drive.c ---- */
/* Runs the engine's thread. */
void pccl_engine_thread(void *engine);

#endif
