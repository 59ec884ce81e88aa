/*
 * Internals of the engine. Streams are connections that carry frames and raw bytes. The streams to
 * or from one other peer form a bundle; a message takes any of them that has room.
 *
 * Everything here belongs to the engine's thread, except where a comment says "lock".
 *
 * The files call each other downwards only, from the bottom to the top: pace, share, inbox, bundle, stream, engine.
 */
#ifndef PCCL_DATA_INTERNAL_H
#define PCCL_DATA_INTERNAL_H

#include "core/table.h"
#include "core/list.h"
#include "data/engine.h"
#include "data/pace.h"
#include "data/share.h"
#include "net/alarm.h"
#include "net/channel.h"
#include "net/reactor.h"

#include <stdatomic.h>

enum {
    PCCL_STREAM_FRAME_MAX = 512, /* the longest frame that the engine sends */
    /* Bytes of one visit, bounded so that one stream does not hold up the others. */
    PCCL_STREAM_READ_MAX = 1 << 20,
    PCCL_BUNDLE_WRITE_MAX = 2 << 20,
    PCCL_ENGINE_COPY_MAX = 2 << 20,
    PCCL_STREAM_SINK_BYTES = 64 << 10,
};

struct pccl_stream {
    struct pccl_channel channel; /* its socket is constant; while it is open the stream is in its bundle */
    /* constant */
    struct pccl_engine *engine;
    struct pccl_id peer;
    bool outgoing;
    uint32_t slot;
    bool here; /* not TCP, so that only what follows under `out` is known of its path */

    /* under the engine's lock */
    bool taken;                                   /* the engine's thread has taken it from the inbox */
    bool closed_early;                            /* the caller closed it before that */
    struct pccl_list_node in_known;               /* neither closed by the caller nor ended; the newest first */
    struct pccl_stream *next_added, *next_closed; /* in the inbox, or in a batch taken from it */
    uint32_t rtt_us;                              /* measured; 0: unknown */
    uint64_t rate;
    bool shared;                        /* other links used the same line during the last measurement */
    bool is_news;                       /* measured since it was last asked for */
    struct pccl_sight_connection sight; /* as of when somebody looked last, which is at most once a second */

    struct pccl_bundle *bundle; /* NULL: not (or no longer) known to the exchange */
    struct pccl_stream *next_in_bundle;

    /* out */
    bool sending;                     /* a message is being sent, perhaps one that was given back */
    uint64_t through, through_before; /* bytes delivered by the last look at the pace, and by the one before */
    uint64_t resent, resent_before;   /* the same for bytes sent again */
    uint64_t pace, paced_us;          /* bytes per second at which it sends, as of then; 0: unknown */
    uint64_t begun, measured;         /* bytes whose sending has begun; the same when the path was last measured */
    uint64_t looked;                  /* `begun` when the last operation ended */
    uint64_t began_us, took_us;       /* if it is here: when sending began; its time since the last measurement */
    _Atomic uint64_t handed_over;     /* if it is here: bytes of what has been sent; other threads look at it */
    struct pccl_departure departure;  /* valid while `departs` */
    bool departs;

    /* in */
    struct pccl_arrival arrival; /* length > 0: a payload is being received */
    bool waiting;                /* nothing is read until the exchange has room for `refused` */
    bool is_over;                /* the other side has stopped sending: data sent ahead is of no use any more */
    struct pccl_list_node in_waiting;
    struct pccl_msg refused;
    struct pccl_text *rejected; /* owned: reason for closing it, for link_bye; NULL: none, or no memory */
};

/* An operation that will never be started here. */
struct pccl_engine_gone {
    struct pccl_instance instance;
    struct pccl_engine_gone *next;
};

/* The streams to or from one other peer; at least one. */
struct pccl_bundle {
    struct pccl_table_node node; /* by hash of the peer's id */
    struct pccl_id peer;
    bool outgoing;
    struct pccl_lane *lane;
    bool writable; /* in one of the engine's lists: it may have something to send */
    struct pccl_bundle *next_writable;
    struct pccl_stream *turn; /* a ring of streams, at the one whose turn is next */
    bool paced;               /* outgoing, on a long path */
    bool renewed;             /* not all of its streams know the bound */
    struct pccl_pace pace;
    struct pccl_share share;
    bool waits_for_fast; /* only slow streams have room */
};

struct pccl_engine {
    /* constant */
    struct pccl_engine_config config;
    struct pccl_engine_events events;
    uv_thread_t thread;

    uv_mutex_t lock; /* nothing is called while it is held */
    struct pccl_list_node known;
    struct pccl_stream *added, **added_end;
    struct pccl_stream *closed;
    struct pccl_engine_job *jobs, **jobs_end;
    struct pccl_id new_name;
    struct pccl_id *members; /* to be admitted; NULL: unchanged */
    uint32_t member_count;
    struct pccl_engine_gone *gone;
    bool rename, end, broken;
    struct pccl_sight_connection ends[PCCL_SIGHT_ENDS_MAX]; /* the latest, in turn */
    uint64_t end_count;

    struct pccl_reactor reactor;
    struct pccl_exchange *exchange;
    uint64_t running; /* transfers */
    struct pccl_wire_scratch *scratch;
    struct pccl_hash_key hash;
    struct pccl_table bundles;
    struct pccl_bundle *writable[2]; /* by `outgoing`: credit goes before data, which fills queues on the way */
    struct pccl_bundle *sender;      /* the paced one that sent last; NULL: unknown */
    struct pccl_alarm patience;      /* when messages go over slow streams, too */
    struct pccl_engine_job *noted;   /* jobs with a pending `done` or `at_rest` */
    struct pccl_list_node waiting;   /* streams that are not read until the exchange has room */
    uint64_t room;                   /* the exchange's room number when they were last asked */
    bool resuming;
    uint8_t sink[PCCL_STREAM_SINK_BYTES]; /* unwanted bytes are read into it */
};

/* Under the lock: the stream of this node of `known`; NULL: it is the head. */
static inline struct pccl_stream *pccl_stream_known(const struct pccl_engine *engine, struct pccl_list_node *node)
{
    return PCCL_LIST_ITEM(&engine->known, node, struct pccl_stream, in_known);
}

/* ---- inbox.c ---- */

/* The content of the inbox. */
struct pccl_engine_batch {
    struct pccl_stream *added, *closed;
    struct pccl_engine_job *jobs;
    struct pccl_id new_name, *members;
    uint32_t member_count;
    struct pccl_engine_gone *gone;
    bool rename, end;
};

/* Takes everything at once, so that the requests of one thread stay in order. */
void pccl_inbox_take(struct pccl_engine *engine, struct pccl_engine_batch *batch);
/*
 * The stream has ended, and its socket may be closed: until then others may look at it. true: the
 * caller had not closed it and must be told.
 */
PCCL_MUST_CHECK bool pccl_engine_forget_stream(struct pccl_engine *engine, struct pccl_stream *stream,
                                               enum pccl_link_end how);
/* Drops members and ended operations that the thread has not seen. */
void pccl_inbox_drop_news(struct pccl_engine *engine);
void pccl_inbox_release_members(struct pccl_id *members, uint32_t count);

/* ---- bundle.c ---- */
/* Puts the stream into its bundle and tells the exchange. MEMORY: neither. */
PCCL_MUST_CHECK enum pccl_status pccl_bundle_enter(struct pccl_stream *stream);
/* May make the exchange call `failed` for the transfers that used the stream. complete: see pccl_exchange_disconnected.
 */
void pccl_bundle_leave(struct pccl_stream *stream, bool complete);
/* There may be something to send; the next pccl_engine_flush checks. */
void pccl_bundle_mark_writable(struct pccl_engine *engine, struct pccl_bundle *bundle);
/* No operation is left that could send over the bundle. */
void pccl_bundle_pause(struct pccl_bundle *bundle);
/* Slow streams take messages, too, where the fast ones have taken none for long. */
void pccl_bundles_lose_patience(struct pccl_engine *engine);

/* Ends a visit: sets the watched events from the state of the stream. */
void pccl_stream_watch(struct pccl_stream *stream);
/* The message is sent; or only the good-bye is left. */
void pccl_stream_sent(struct pccl_stream *stream);
/* There is room: continues the message, or marks its bundle. */
void pccl_stream_go_on(struct pccl_stream *stream);
/*
 * Reads the system's measurements of the stream's path, if enough was sent since the last time. shared: other links
 * used the same line.
 */
void pccl_stream_measure(struct pccl_stream *stream, bool shared);

/* Sends what is ready on the streams that have room. */
void pccl_bundle_pump(struct pccl_engine *engine, struct pccl_bundle *bundle);

/* ---- stream.c ---- */
/* NULL: out of memory; the connection is still the caller's. Any thread. */
struct pccl_stream *pccl_stream_create(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                       uint32_t slot, struct pccl_handover *handover);
/* The engine's thread takes the stream. closed_early: only to say good-bye. */
void pccl_stream_open(struct pccl_stream *stream, bool closed_early);
/* The caller has closed the stream: begins the good-bye. */
void pccl_stream_leave(struct pccl_stream *stream);
/* Ends the stream at once, in the middle of a message. */
void pccl_stream_cut(struct pccl_stream *stream);
/* Hides the stream from the exchange; a message in progress is completed with filler. */
void pccl_stream_detach(struct pccl_stream *stream);
/*
 * Asks once for each waiting stream whether there is room for its data now, or whether it needs
 * none. due_only: only those whose data needs no room.
 */
void pccl_streams_resume(struct pccl_engine *engine, bool due_only);
/*
 * To be called after calls of the exchange: sends what became possible and raises the pending
 * events.
 */
void pccl_engine_flush(struct pccl_engine *engine);

#endif
