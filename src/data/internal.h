/*
 * Internals of the engine. Streams are connections that carry frames and raw bytes. The streams to or from one other
 * peer form a bundle; a message takes any of them that has room.
 *
 * Everything here belongs to the engine's thread, except where a comment names the lock.
 *
 * Each file calls only those before it in this order: pace, share, inbox, bundle, stream, engine.
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
    PCCL_STREAM_FRAME_MAX = 512, /* length of the longest frame that the engine sends */
    /* Bytes of one visit, bounded so that one stream does not delay the others. */
    PCCL_STREAM_READ_MAX = 1 << 20,
    PCCL_BUNDLE_WRITE_MAX = 2 << 20,
    PCCL_ENGINE_COPY_MAX = 2 << 20,
    PCCL_STREAM_SINK_BYTES = 64 << 10,
};

struct pccl_stream {
    struct pccl_channel channel; /* channel with a constant socket; while it is open the stream is in its bundle */
    /* Constant: */
    struct pccl_engine *engine;
    struct pccl_id peer;
    bool outgoing;
    uint32_t slot;
    bool here; /* not TCP: the path is measured by the fields below under "Sending" */

    /* Under the engine's lock: */
    bool taken;                     /* the engine's thread has taken it from the inbox */
    bool closed_early;              /* the caller closed it before that */
    struct pccl_list_node in_known; /* node of streams neither closed by the caller nor ended; newest first */
    struct pccl_stream *next_added, *next_closed; /* links in the inbox, or in a batch taken from it */
    uint32_t rtt_us;                              /* measured round trip; 0: unknown */
    uint64_t rate;
    bool shared;                            /* other links used the same line during the last measurement */
    bool is_news;                           /* measured since the last query */
    struct pccl_telemetry_connection sight; /* latest sample, taken at most once a second */

    struct pccl_bundle *bundle; /* NULL: not in the exchange yet, or no longer */
    struct pccl_stream *next_in_bundle;

    /* Sending: */
    bool sending;                     /* a message is being sent, perhaps one that was given back */
    uint64_t through, through_before; /* bytes delivered by the last look at the pace, and by the one before */
    uint64_t resent, resent_before;   /* bytes sent again, at the same times */
    uint64_t pace, paced_us;    /* rate at which it sends, in bytes per second (0: unknown), and time of that sample */
    uint64_t begun, measured;   /* bytes whose sending has begun; the same at the last measurement of the path */
    uint64_t looked;            /* `begun` when the last operation ended */
    uint64_t began_us, took_us; /* if `here`: start of the current sending; total time since the last measurement */
    _Atomic uint64_t handed_over;    /* if `here`: bytes of completed messages; other threads read it */
    struct pccl_departure departure; /* valid while `departs` */
    bool departs;

    /* Receiving: */
    struct pccl_arrival arrival; /* length > 0: a payload is being received */
    bool waiting;                /* nothing is read until the exchange has room for `refused` */
    bool is_over;                /* the other side has stopped sending: data sent ahead is no longer needed */
    struct pccl_list_node in_waiting;
    struct pccl_msg refused;
    struct pccl_text *rejected; /* owned: reason for closing it, for link_bye; NULL: no reason, or no memory */
};

/* An operation that will never be started here. */
struct pccl_engine_gone {
    struct pccl_instance instance;
    struct pccl_engine_gone *next;
};

/* The streams to or from one other peer; at least one. */
struct pccl_bundle {
    struct pccl_table_node node; /* node by hash of the peer's id */
    struct pccl_id peer;
    bool outgoing;
    struct pccl_lane *lane;
    bool writable; /* in one of the engine's lists of bundles that may have something to send */
    struct pccl_bundle *next_writable;
    struct pccl_stream *turn; /* ring of streams, at the one whose turn is next */
    bool paced;               /* outgoing, on a long path */
    bool renewed;             /* some of its streams do not have the bound yet */
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
    struct pccl_id *members; /* members to admit; NULL: unchanged */
    uint32_t member_count;
    struct pccl_engine_gone *gone;
    bool rename, end, broken;
    struct pccl_telemetry_connection ends[PCCL_TELEMETRY_ENDS_MAX]; /* latest ends, as a ring buffer */
    uint64_t end_count;

    struct pccl_reactor reactor;
    struct pccl_exchange *exchange;
    uint64_t running; /* number of transfers */
    struct pccl_wire_scratch *scratch;
    struct pccl_hash_key hash;
    struct pccl_table bundles;
    /*
     * by `outgoing`: bundles that may have something to send. Credit is first, as data
     *                                         fills queues on the path
     */
    struct pccl_bundle *writable[2];
    struct pccl_bundle *sender;    /* paced bundle that sent last; NULL: unknown */
    struct pccl_alarm patience;    /* fires when messages may use slow streams, too */
    struct pccl_engine_job *noted; /* jobs with a pending `done` or `at_rest` */
    struct pccl_list_node waiting; /* streams that are not read until the exchange has room */
    uint64_t room;                 /* the exchange's room number at the last query */
    bool resuming;
    uint8_t sink[PCCL_STREAM_SINK_BYTES]; /* buffer for discarded bytes */
};

/* Returns the stream of this node of `known`, or NULL for the head. Under the lock. */
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

/* Takes all requests at once, so that the requests of one thread stay in order. */
void pccl_inbox_take(struct pccl_engine *engine, struct pccl_engine_batch *batch);
/*
 * Removes a stream that has ended, whose socket may be closed only after that: other threads may sample it until then.
 * Returns true if the caller had not closed it and must be notified.
 */
PCCL_MUST_CHECK bool pccl_engine_forget_stream(struct pccl_engine *engine, struct pccl_stream *stream,
                                               enum pccl_link_end how);
/* Drops members and ended operations that the thread has not taken yet. */
void pccl_inbox_drop_news(struct pccl_engine *engine);
void pccl_inbox_release_members(struct pccl_id *members, uint32_t count);

/* ---- bundle.c ---- */
/* Puts the stream into its bundle and connects it in the exchange. On MEMORY it does neither. */
PCCL_MUST_CHECK enum pccl_status pccl_bundle_enter(struct pccl_stream *stream);
/*
 * Takes the stream out of its bundle. The exchange may call `failed` for the transfers that used it. `complete`: see
 * pccl_exchange_disconnected.
 */
void pccl_bundle_leave(struct pccl_stream *stream, bool complete);
/* Notes that the bundle may have something to send; the next pccl_engine_flush checks. */
void pccl_bundle_mark_writable(struct pccl_engine *engine, struct pccl_bundle *bundle);
/* Interrupts the pace of a bundle over which no operation can send. */
void pccl_bundle_pause(struct pccl_bundle *bundle);
/* Lets slow streams take messages, too, where the fast ones have taken none for a while. */
void pccl_bundles_lose_patience(struct pccl_engine *engine);

/* Ends a visit: sets the watched events from the state of the stream. */
void pccl_stream_watch(struct pccl_stream *stream);
/* Notes that the message is sent, or only the good-bye is left. */
void pccl_stream_sent(struct pccl_stream *stream);
/* Continues the message, or marks its bundle, when there is room. */
void pccl_stream_continue(struct pccl_stream *stream);
/*
 * Reads the system's measurements of the stream's path, if enough was sent since the last time. `shared`: other links
 * used the same line.
 */
void pccl_stream_measure(struct pccl_stream *stream, bool shared);

/* Sends ready messages on the streams that have room. */
void pccl_bundle_pump(struct pccl_engine *engine, struct pccl_bundle *bundle);

/* ---- stream.c ---- */
/* Creates a stream. Returns NULL if out of memory; then the caller still owns the connection. Any thread. */
struct pccl_stream *pccl_stream_create(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                       uint32_t slot, struct pccl_handover *handover);
/* Opens the stream on the engine's thread. `closed_early`: only to send a good-bye. */
void pccl_stream_open(struct pccl_stream *stream, bool closed_early);
/* Begins the good-bye of a stream that the caller has closed. */
void pccl_stream_leave(struct pccl_stream *stream);
/* Ends the stream at once, in the middle of a message. */
void pccl_stream_cut(struct pccl_stream *stream);
/* Hides the stream from the exchange; a message in progress is completed with filler. */
void pccl_stream_detach(struct pccl_stream *stream);
/*
 * Asks the exchange once for each waiting stream whether there is room for its data now, or no need for it. `due_only`:
 * only streams whose data needs no room.
 */
void pccl_streams_resume(struct pccl_engine *engine, bool due_only);
/* Sends messages that became possible and raises the pending events. Call after calls of the exchange. */
void pccl_engine_flush(struct pccl_engine *engine);

#endif
