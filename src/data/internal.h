/*
 * Inside the engine. Streams are connections that carry frames and raw bytes; the streams between this peer and another
 * in one direction make a bundle, and a message goes over whichever of them has room.
 *
 * Everything here belongs to the engine's thread, except what says "lock".
 */
#ifndef PCCL_DATA_INTERNAL_H
#define PCCL_DATA_INTERNAL_H

#include "core/table.h"
#include "core/list.h"
#include "data/engine.h"
#include "data/pace.h"
#include "net/channel.h"
#include "net/reactor.h"

enum {
    PCCL_STREAM_FRAME_MAX = 512,     /* bytes of any frame that the engine sends */
    PCCL_STREAM_READ_MAX = 1 << 20,  /* bytes read in one visit, so that one stream does not hold up the others */
    PCCL_BUNDLE_WRITE_MAX = 2 << 20, /* and bytes begun to be sent */
    PCCL_STREAM_SINK_BYTES = 64 << 10,
};

struct pccl_stream {
    struct pccl_channel channel; /* its socket is constant, and its state: open: in its bundle */
    /* constant */
    struct pccl_engine *engine;
    struct pccl_id peer;
    bool outgoing;
    uint32_t slot;

    /* under the engine's lock */
    bool known;        /* neither closed by the caller nor over: in `known` of the engine */
    bool taken;        /* the engine's thread has it */
    bool closed_early; /* closed before that */
    struct pccl_stream *next_known, *previous_known;
    struct pccl_stream *next_added, *next_closed; /* in the inbox, or in what was taken from it */
    uint32_t rtt_us;                              /* as measured; 0: unknown */
    uint64_t rate;
    bool is_news; /* and not asked for since */

    struct pccl_bundle *bundle; /* NULL: the exchange does not know it (any more) */
    struct pccl_stream *next_in_bundle;

    /* out */
    bool sending;                     /* a message, also one that was given back */
    uint64_t through, through_before; /* got through by the last look at the pace, and when its interval began */
    uint64_t resent, resent_before;   /* the same of what was sent again */
    uint64_t begun, measured;         /* bytes begun to be sent so far, and when its path was last looked at */
    struct pccl_departure departure;  /* under way while `departs` */
    bool departs;

    /* in */
    struct pccl_arrival arrival; /* length > 0: its payload is being received */
    bool waiting;                /* the exchange has no room for `refused`: nothing is read until it has */
    bool is_over;                /* the other side has ended what it says: what is sent ahead is of no use any more */
    struct pccl_list_node in_waiting;
    struct pccl_msg refused;
};

/* An operation that will never be started here. */
struct pccl_engine_gone {
    struct pccl_instance instance;
    struct pccl_engine_gone *next;
};

/* The streams between this peer and another in one direction; at least one. */
struct pccl_bundle {
    struct pccl_table_node node; /* by hash of the peer's id */
    struct pccl_id peer;
    bool outgoing;
    bool writable; /* in the engine's list: there may be something to send */
    struct pccl_bundle *next_writable;
    struct pccl_stream *turn; /* a ring of streams; the one whose turn is next */
    bool paced;               /* outgoing, on a long path */
    bool renewed;             /* not all of its streams have been told the bound */
    struct pccl_pace pace;
};

struct pccl_engine {
    /* constant */
    struct pccl_engine_config config;
    struct pccl_engine_events events;
    uv_thread_t thread;

    uv_mutex_t lock; /* nothing is called under it */
    struct pccl_stream *known;
    struct pccl_stream *added, **added_end;
    struct pccl_stream *closed;
    struct pccl_engine_job *jobs, **jobs_end;
    struct pccl_id new_name;
    struct pccl_id *members; /* to be admitted; NULL: as before */
    uint32_t member_count;
    struct pccl_engine_gone *gone;
    bool rename, end, broken;

    struct pccl_reactor reactor;
    struct pccl_exchange *exchange;
    uint64_t running; /* transfers */
    struct pccl_wire_scratch *scratch;
    struct pccl_hash_key hash;
    struct pccl_table bundles;
    struct pccl_bundle *writable;
    struct pccl_engine_job *noted; /* `done` or `at_rest` is to be told */
    struct pccl_list_node waiting; /* streams that are not read until the exchange has room */
    uint64_t room;                 /* its number when they were asked last */
    bool resuming;
    uint8_t sink[PCCL_STREAM_SINK_BYTES]; /* for what nobody wants */
};

/* ---- engine.c ---- */
/* After calls of the exchange: sends what became possible and tells what is to be told. */
void pccl_engine_flush(struct pccl_engine *engine);
/* The stream has ended. true: the caller had not closed it, so it is to be told. */
PCCL_MUST_CHECK bool pccl_engine_forget_stream(struct pccl_engine *engine, struct pccl_stream *stream);

/* ---- bundle.c ---- */
struct pccl_bundle *pccl_bundle_find(const struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing);
/* Puts the stream into its bundle and tells the exchange. MEMORY: neither. */
PCCL_MUST_CHECK enum pccl_status pccl_bundle_enter(struct pccl_stream *stream);
/* The exchange may call `failed` of the transfers that used it. */
void pccl_bundle_leave(struct pccl_stream *stream);
/* There may be something to send: the next settle looks. */
void pccl_bundle_mark_writable(struct pccl_engine *engine, struct pccl_bundle *bundle);
/* Nothing runs any more that could send over it. */
void pccl_bundle_pause(struct pccl_bundle *bundle);
/* Sends what there is on the streams that have room. */
void pccl_bundle_pump(struct pccl_engine *engine, struct pccl_bundle *bundle);

/* ---- stream.c ---- */
/* NULL: out of memory; the connection is still the caller's. Any thread. */
struct pccl_stream *pccl_stream_create(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing,
                                       uint32_t slot, struct pccl_handover *handover);
/* The engine's thread takes over. closed_early: only for the good-bye. */
void pccl_stream_open(struct pccl_stream *stream, bool closed_early);
/* Closed by the caller: begins the good-bye. */
void pccl_stream_leave(struct pccl_stream *stream);
/* Ends it at once, in the middle of a message. */
void pccl_stream_cut(struct pccl_stream *stream);
/* The exchange is not to know it any more; what was begun is completed with filler. */
void pccl_stream_detach(struct pccl_stream *stream);
/* The stream is open, has room and sends nothing: takes the departure that is filled in and sends it. Its bytes. */
bool pccl_stream_is_idle(const struct pccl_stream *stream);
size_t pccl_stream_send(struct pccl_stream *stream);
/* Asks the exchange once more for room for what it refused, and if there is some, goes on reading. */
void pccl_stream_resume(struct pccl_stream *stream);
/* Takes a rest until the loop says that there is room. */
void pccl_stream_yield(struct pccl_stream *stream);
/* Looks at what the system has learned of its path, if that can be more than the last time. */
void pccl_stream_measure(struct pccl_stream *stream);

#endif
