/*
 * One connection on an event loop: the only place that reads bytes from its socket and writes to it. Carries frames in
 * both directions, and raw payload after any frame, directly from and to the caller's memory. Keeps bytes that the
 * kernel does not take, determines why a connection ends, detects silence, and closes in order.
 *
 * Knows nothing of the meaning of frames and payload, of collectives, shared state or measurements: its owner decides
 * when to read, how to answer and how many bytes of payload follow a frame.
 *
 * Ownership: a channel is part of a struct of the owner, which the owner frees in `released` and not before. The
 * channel owns the socket from pccl_channel_open until it is closed or detached. Payload and targets belong to the
 * owner, and so do the pointers to them. The channel reads these pointers whenever it moves bytes, so the owner can
 * withdraw the memory at any time.
 *
 * Threads: the loop's, with two exceptions. Init, reserve and fini, and adopt before the channel is open, may be called
 * on any thread; put, push, read, move and message on any thread that holds the lock that the owner's visits take. Of
 * the functions here, only pccl_channel_leave calls events.
 */
#ifndef PCCL_NET_CHANNEL_H
#define PCCL_NET_CHANNEL_H

#include "net/alarm.h"
#include "net/pipe.h"
#include "net/secure.h"
#include "wire/frame.h"

#include <uv.h>

struct pccl_channel;

enum pccl_channel_io {
    PCCL_CHANNEL_MOVED, /* bytes moved, and there may be more */
    PCCL_CHANNEL_WAITS, /* nothing more can move for now */
    PCCL_CHANNEL_ENDED, /* the connection has ended, see pccl_channel_why; the owner closes it */
};

struct pccl_channel_events {
    /*
     * The socket is ready for a watched event. The owner calls pccl_channel_begin, does its work, and calls
     * pccl_channel_watch. Not called after leave or close.
     */
    void (*visit)(struct pccl_channel *channel, int ready);
    /* The limit has passed, or bytes are awaited from the other side and no bytes have moved for too long. */
    void (*late)(struct pccl_channel *channel);
    /* After pccl_channel_leave: the output is sent; link_bye follows if `bye` was set. May be NULL. */
    void (*parting)(struct pccl_channel *channel);
    /*
     * After `parting`: the channel has ended and is closed. May be called from inside pccl_channel_leave. May be NULL.
     */
    void (*parted)(struct pccl_channel *channel);
    /* The channel is closed or detached, and the loop has released it: the owner frees the memory. */
    void (*released)(struct pccl_channel *channel);
};

enum pccl_channel_state {
    PCCL_CHANNEL_NEW, /* not opened yet */
    PCCL_CHANNEL_OPEN,
    PCCL_CHANNEL_LEAVING, /* sends its output, then waits for the other side's end */
    PCCL_CHANNEL_CLOSED,  /* or detached; the loop has not released it yet */
};

/* An open connection after its handshake, on the way from one owner to another owner with another loop. */
struct pccl_handover {
    uv_os_sock_t socket;
    struct pccl_frame_reader reader; /* bytes that were read but not delivered */
    struct pccl_secure *secure;      /* owned; NULL: not encrypted */
    struct pccl_pipe *pipe;          /* owned; NULL: bytes pass through the socket */
};

struct pccl_channel {
    const struct pccl_channel_events *events;
    const struct pccl_memory *memory;
    enum pccl_channel_state state;
    uv_os_sock_t socket;
    struct pccl_secure *secure; /* owned; NULL: not encrypted */
    struct pccl_pipe *pipe;     /* owned; NULL: bytes pass through the socket */
    struct pccl_pipe *offered;  /* owned; once agreed on, it becomes the pipe of the connection's next owner */
    bool hears_offers;          /* nothing has been read yet, and the other side may offer a pipe */
    uv_poll_t poll;
    uv_idle_t kick;          /* only with encryption or a pipe: visits for events that the socket does not report */
    uv_timer_t renewal;      /* timer of the renewal of keys; its `data` is NULL if it does not exist */
    bool renews;             /* a renewal of keys is due */
    struct pccl_alarm alarm; /* timer for the limit, the silence, or the end of leaving */
    uint8_t handles;         /* number of handles that the loop has not released yet */
    int armed;               /* events that `poll` watches */
    bool is_shared;          /* pccl_socket_share_input is on: `poll` does not see all input */
    bool is_settling;        /* libuv may apply `armed` only at the end of a poll */
    int input;               /* with a pipe: events that the owner watches */
    bool is_limited;
    uint32_t silence_ms; /* 0: nothing is awaited from the other side */
    uint64_t moved_us;   /* last time that bytes moved, while something is awaited */
    int failed;          /* reason why nothing more can be sent, or 0; input is still read */
    int ended;           /* reason why nothing more arrives, or 0 */

    /* Input: frames, and after some of them `expected` bytes for `target`, of which `received` have arrived. */
    struct pccl_frame_reader reader; /* holds bytes of frames; empty while a payload is incomplete */
    uint8_t *const *target;          /* *target NULL: the bytes are discarded */
    uint32_t expected, received;
    uint8_t *sink; /* memory of the owner into which discarded bytes are read */
    uint32_t sink_bytes;
    uint32_t drain_max, drained; /* limit for bytes discarded after leave (0: no limit), and their number */
    bool dry;                    /* the last read took everything that had arrived */
    bool is_invalid;             /* a frame with a valid checksum contains an invalid message */

    /* Output: frames, then `payload_left` bytes of payload. */
    uint8_t *out; /* out_start..out_end is unsent */
    uint32_t out_start, out_end, out_capacity;
    uint32_t out_max;              /* limit for unsent frames */
    const uint8_t *const *payload; /* *payload NULL: filler is sent */
    uint32_t payload_sent, payload_left;
    bool blocked;      /* the kernel's buffer is full, until the loop reports room */
    bool watch_output; /* watches for room; stays on until the loop reports unneeded room, to avoid switching */
    bool says_bye;     /* link_bye is sent last, with `bye_reason` */
    struct pccl_bytes bye_reason; /* borrowed from the owner */
    bool is_parting;              /* the output is sent; link_bye may follow */
    bool is_shut;                 /* everything is sent */
};

/* ---- life ---- */

/* Initializes a zeroed struct. The caller keeps the socket. */
void pccl_channel_init(struct pccl_channel *channel, const struct pccl_memory *memory, uv_os_sock_t socket,
                       const struct pccl_channel_events *events);
/* Frees a channel that was never opened. Leaves the socket untouched and does not call `released`. */
void pccl_channel_fini(struct pccl_channel *channel);
/*
 * Allocates memory for `bytes` of frames, so that putting them cannot fail while nothing else is unsent. Returns false
 * if out of memory.
 */
PCCL_MUST_CHECK bool pccl_channel_reserve(struct pccl_channel *channel, uint32_t bytes);
/*
 * Attaches the channel to the loop. Returns false on failure; the socket is then closed, and the caller must call
 * pccl_channel_fini.
 */
PCCL_MUST_CHECK bool pccl_channel_open(struct pccl_channel *channel, uv_loop_t *loop);
/*
 * Makes all bytes pass through this encryption, which the channel owns from now on. Call before anything is read or
 * written.
 */
void pccl_channel_secure(struct pccl_channel *channel, struct pccl_secure *secure);
/*
 * Offers a pipe to the next owner of the connection after its handshake. For the side that dials a Unix socket, before
 * anything is sent. The channel owns the pipe; NULL: no offer. The other side calls pccl_channel_hear_offers before
 * anything is read.
 */
static inline void pccl_channel_offer_pipe(struct pccl_channel *channel, struct pccl_pipe *pipe)
{
    channel->offered = pipe;
}
static inline void pccl_channel_hear_offers(struct pccl_channel *channel) { channel->hears_offers = true; }
/* Closes the channel. No events follow except `released`. Call once. */
void pccl_channel_close(struct pccl_channel *channel);
/* Closes the channel, but discards data in flight; the other side sees a reset. */
void pccl_channel_abort(struct pccl_channel *channel);
/*
 * Ends the channel as pccl_channel_close does, but passes the open connection to the caller. No output may be unsent. A
 * link whose keys secure only its handshake continues without encryption.
 */
void pccl_channel_detach(struct pccl_channel *channel, struct pccl_handover *out);
/* Makes an initialized channel of the handover's socket take over its encryption, pipe and undelivered bytes. */
void pccl_channel_adopt(struct pccl_channel *channel, struct pccl_handover *handover);
static inline bool pccl_handover_has_input(const struct pccl_handover *handover)
{
    return handover->reader.start < handover->reader.end ||
           (handover->secure && pccl_secure_has_input(handover->secure));
}
/* Closes a connection that no owner has taken. */
void pccl_handover_drop(struct pccl_handover *handover);
/*
 * Ends the connection in order: sends all output, then link_bye if `bye`, and discards input until the other side's
 * end, so that no reset overtakes our last bytes. Closes after linger_ms in any case; with 0, closes at once, after the
 * kernel has taken as many bytes as it can.
 */
void pccl_channel_leave(struct pccl_channel *channel, bool bye, uint32_t linger_ms);
/* Sets the reason for link_bye. Call before pccl_channel_leave. The reason must stay valid until `released`. */
static inline void pccl_channel_explain(struct pccl_channel *channel, struct pccl_bytes reason)
{
    channel->bye_reason = reason;
}

/* ---- waiting ---- */

/* Begins a visit. Returns UV_WRITABLE if there is room that was waited for, and any other bit if there may be input. */
int pccl_channel_begin(struct pccl_channel *channel, int ready);
/*
 * Ends a visit. input: UV_READABLE, UV_DISCONNECT (only the other side's end), or 0. Also watches for room if needed.
 */
void pccl_channel_watch(struct pccl_channel *channel, int input);
/* Stops sending until the loop reports room, which may be at once, so that other channels get their turn. */
void pccl_channel_yield(struct pccl_channel *channel);
/* Calls `late` after this time, even if bytes move, unless called again; 0: no limit. */
void pccl_channel_limit(struct pccl_channel *channel, uint32_t limit_ms);
/*
 * States that bytes are awaited from the other side, or room for ours: `late` is called when no bytes have moved for
 * silence_ms. 0: nothing is awaited.
 */
void pccl_channel_owed(struct pccl_channel *channel, uint32_t silence_ms);

/* ---- in ---- */

/* Reads once, into the target and the reader. Call only when the reader contains no whole frame. */
PCCL_MUST_CHECK enum pccl_channel_io pccl_channel_read(struct pccl_channel *channel, size_t *budget);
/*
 * Declares the next bytes payload, beginning with those in the reader. *target: their destination; it may become NULL
 * at any time, and the bytes are then discarded.
 */
void pccl_channel_expect(struct pccl_channel *channel, uint8_t *const *target, uint32_t bytes);
/* Moves payload from the reader to the target. Returns the number of bytes. */
uint32_t pccl_channel_move(struct pccl_channel *channel);
/*
 * Decodes the next message. MOVED: the message is a view, valid until the next call for this channel. WAITS: more bytes
 * are needed. ENDED, with a reason: the bytes are no message; `is_invalid` is set if they arrived as the other side
 * sent them.
 */
PCCL_MUST_CHECK enum pccl_channel_io pccl_channel_message(struct pccl_channel *channel,
                                                          struct pccl_wire_scratch *scratch, struct pccl_msg *msg,
                                                          struct pccl_text *reason);

/* ---- out ---- */

/*
 * Appends bytes, or a frame, to the unsent frames; no payload may be unsent. Returns false if the channel has failed,
 * now or earlier: for want of memory (UV_ENOMEM) or at the limit (UV_ENOBUFS).
 */
bool pccl_channel_put(struct pccl_channel *channel, const uint8_t *bytes, size_t length);
bool pccl_channel_put_message(struct pccl_channel *channel, const struct pccl_msg *msg);
/* Appends payload to the frames. *payload: its memory; it may become NULL at any time, and filler is then sent. */
static inline void pccl_channel_put_payload(struct pccl_channel *channel, const uint8_t *const *payload, uint32_t bytes)
{
    channel->payload = payload;
    channel->payload_left = bytes;
    channel->payload_sent = 0;
}
static inline bool pccl_channel_is_sending(const struct pccl_channel *channel)
{
    return channel->out_start < channel->out_end || channel->payload_left ||
           (channel->secure && pccl_secure_is_sending(channel->secure));
}
/*
 * Sends output. MOVED: everything is sent. WAITS: the kernel takes no more, `blocked` is set. ENDED: nothing more can
 * be sent.
 */
enum pccl_channel_io pccl_channel_push(struct pccl_channel *channel);
/*
 * Stops sending, for a reason on this side. Input that arrived before is still read; then the input ends, with the same
 * reason.
 */
void pccl_channel_fail(struct pccl_channel *channel, int error);

/* ---- why it has ended ---- */

const char *pccl_channel_why(const struct pccl_channel *channel);
/* Returns CLOSED or SILENT, or 0 if the cause is on this side and so proves nothing about the other side. */
enum pccl_link_end pccl_channel_evidence(const struct pccl_channel *channel);

#endif
