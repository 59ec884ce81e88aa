/*
 * One connection on an event loop: the only place where bytes are read from its socket and written
 * to it. Frames go both ways, and after any of them raw payload, straight from and to the caller's
 * memory. It keeps what the kernel does not take, finds out why a connection ends, detects silence,
 * and says good-bye.
 *
 * Knows nothing of the meaning of frames and payload, of collectives, shared state or measurements:
 * its owner decides when to read, what to answer and how many bytes of payload follow a frame.
 *
 * Ownership: a channel is part of a struct of the owner, which is freed in `released` and not
 * before. The socket is the channel's from pccl_channel_open until it is closed or detached.
 * Payload and targets are the owner's, and so are the pointers to them. The channel reads these
 * pointers whenever it moves bytes, so the owner can withdraw the memory at any time.
 *
 * Threads: the loop's, with two exceptions. Init, reserve and fini may be called on any thread;
 * put, push, read, move and message on any thread that holds the lock that the owner's visits take.
 * Only pccl_channel_leave calls back.
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
    PCCL_CHANNEL_ENDED, /* it has ended, see pccl_channel_why; the owner closes it */
};

struct pccl_channel_events {
    /*
     * The socket is ready for something that is watched. The owner calls pccl_channel_begin, does
     * its work, and calls pccl_channel_watch. Never after leave or close.
     */
    void (*visit)(struct pccl_channel *channel, int ready);
    /*
     * The limit has passed, or bytes are awaited from the other side and none have moved for too
     * long.
     */
    void (*late)(struct pccl_channel *channel);
    /* After pccl_channel_leave: the output is sent, the good-bye follows. May be NULL. */
    void (*parting)(struct pccl_channel *channel);
    /*
     * After that the channel has ended and is closed. Also from inside pccl_channel_leave. May be
     * NULL.
     */
    void (*parted)(struct pccl_channel *channel);
    /* Closed or detached, and released by the loop: the owner frees the memory. */
    void (*released)(struct pccl_channel *channel);
};

enum pccl_channel_state {
    PCCL_CHANNEL_NEW, /* not opened yet */
    PCCL_CHANNEL_OPEN,
    PCCL_CHANNEL_LEAVING, /* sends its output, then waits for the other side's end */
    PCCL_CHANNEL_CLOSED,  /* or detached; the loop has not released it yet */
};

/*
 * An open connection on its way from one owner to another, which has a loop of its own: after its
 * handshake.
 */
struct pccl_handover {
    uv_os_sock_t socket;
    struct pccl_frame_reader reader; /* bytes that were read and not handed out */
    struct pccl_secure *secure;      /* owned; NULL: in the clear */
    struct pccl_pipe *pipe;          /* owned; NULL: bytes go over the socket */
};

struct pccl_channel {
    const struct pccl_channel_events *events;
    const struct pccl_memory *memory;
    enum pccl_channel_state state;
    uv_os_sock_t socket;
    struct pccl_secure *secure; /* owned; NULL: in the clear */
    struct pccl_pipe *pipe;     /* owned; NULL: bytes go over the socket */
    struct pccl_pipe *offered;  /* owned: becomes the pipe of the next owner of the connection if it is agreed on */
    bool hears_offers;          /* nothing has been read yet, and a pipe may be offered */
    uv_poll_t poll;
    uv_idle_t kick;          /* only with encryption or a pipe: visits for what the socket does not report */
    uv_timer_t renewal;      /* of the keys; without data: none */
    bool renews;             /* it is due */
    struct pccl_alarm alarm; /* for the limit, the silence, or the end of the good-bye */
    uint8_t handles;         /* not released by the loop yet */
    int armed;               /* what `poll` watches */
    bool is_shared;          /* pccl_socket_share_input is on: `poll` is not told of all input */
    bool is_settling;        /* libuv may apply `armed` only at the end of a poll */
    int input;               /* with a pipe: what the owner watches */
    bool is_limited;
    uint32_t silence_ms; /* 0: nothing is awaited from the other side */
    uint64_t moved_us;   /* the last time that anything moved, while something is awaited */
    int failed;          /* why nothing can be sent any more, or 0; input is still read */
    int ended;           /* why nothing arrives any more, or 0 */

    /*
     * Input: frames, and after some of them `expected` bytes for `target`, of which `received` have
     * arrived.
     */
    struct pccl_frame_reader reader; /* holds bytes of frames; empty while a payload is incomplete */
    uint8_t *const *target;          /* *target NULL: nobody wants the bytes */
    uint32_t expected, received;
    uint8_t *sink; /* the owner's memory, into which unwanted bytes are read */
    uint32_t sink_bytes;
    uint32_t drain_max, drained; /* bytes discarded after leave; drain_max 0: no limit */
    bool dry;                    /* the last read took everything that had arrived */
    bool is_invalid;             /* a frame with a right checksum holds an invalid message */

    /* output: frames, then `payload_left` bytes of payload */
    uint8_t *out; /* out_start..out_end is unsent */
    uint32_t out_start, out_end, out_capacity;
    uint32_t out_max;              /* limit for unsent frames */
    const uint8_t *const *payload; /* *payload NULL: filler */
    uint32_t payload_sent, payload_left;
    bool blocked;                 /* the kernel's buffer is full, until the loop reports room */
    bool watch_output;            /* stays on until room is reported that is not needed, instead of switching often */
    bool says_bye;                /* link_bye is sent last, with `bye_reason` */
    struct pccl_bytes bye_reason; /* borrowed from the owner */
    bool is_parting;              /* the output is sent */
    bool is_shut;                 /* everything is sent */
};

/* ---- life ---- */

/* For a zeroed struct. The socket stays the caller's. */
void pccl_channel_init(struct pccl_channel *channel, const struct pccl_memory *memory, uv_os_sock_t socket,
                       const struct pccl_channel_events *events);
/* For a channel that was never opened. Leaves the socket untouched and does not call `released`. */
void pccl_channel_fini(struct pccl_channel *channel);
/*
 * Allocates memory for frames of so many bytes, so that putting them cannot fail while nothing else
 * is unsent. false: out of memory.
 */
PCCL_MUST_CHECK bool pccl_channel_reserve(struct pccl_channel *channel, uint32_t bytes);
/*
 * Attaches the channel to the loop. false: not possible; the socket is closed, and the caller must
 * call pccl_channel_fini.
 */
PCCL_MUST_CHECK bool pccl_channel_open(struct pccl_channel *channel, uv_loop_t *loop);
/*
 * Before anything was read or written: all bytes go through this encryption, which the channel owns
 * from now on.
 */
void pccl_channel_secure(struct pccl_channel *channel, struct pccl_secure *secure);
/*
 * The side that dials a Unix socket, before anything was sent: offers a pipe to whoever owns the connection after
 * its handshake. The channel owns it. The other side says before anything was read that it hears offers.
 */
static inline void pccl_channel_offer_pipe(struct pccl_channel *channel, struct pccl_pipe *pipe)
{
    channel->offered = pipe;
}
static inline void pccl_channel_hear_offers(struct pccl_channel *channel) { channel->hears_offers = true; }
/* No events follow but `released`. To be called once. */
void pccl_channel_close(struct pccl_channel *channel);
/* The same, but discards data in flight; the other side sees a reset. */
void pccl_channel_abort(struct pccl_channel *channel);
/*
 * The same, but the connection stays open and becomes the caller's. No output may be unsent. A link
 * that its keys secure for the handshake only goes on in the clear.
 */
void pccl_channel_detach(struct pccl_channel *channel, struct pccl_handover *out);
/*
 * Gives an initialized channel of that socket the bytes that were read already; it owns them from
 * now on.
 */
void pccl_channel_adopt(struct pccl_channel *channel, struct pccl_handover *handover);
static inline bool pccl_handover_has_input(const struct pccl_handover *handover)
{
    return handover->reader.start < handover->reader.end ||
           (handover->secure && pccl_secure_has_input(handover->secure));
}
/* Closes a connection that nobody takes. */
void pccl_handover_drop(struct pccl_handover *handover);
/*
 * Ends the connection in order: sends all output, then link_bye if `bye`, and discards input until
 * the other side's end, so that no reset overtakes our last bytes. After linger_ms it closes
 * anyway; 0: it closes at once, when the kernel has taken what it can.
 */
void pccl_channel_leave(struct pccl_channel *channel, bool bye, uint32_t linger_ms);
/* Sets the reason for link_bye. Call before pccl_channel_leave. The reason must stay valid until `released`. */
static inline void pccl_channel_explain(struct pccl_channel *channel, struct pccl_bytes reason)
{
    channel->bye_reason = reason;
}

/* ---- waiting ---- */

/*
 * To be called first in a visit. Returns UV_WRITABLE if there is room that was waited for, and any
 * other bit if there may be input.
 */
int pccl_channel_begin(struct pccl_channel *channel, int ready);
/*
 * To be called last in a visit. input: UV_READABLE, UV_DISCONNECT (only the other side's end), or
 * 0. Watches for room if needed.
 */
void pccl_channel_watch(struct pccl_channel *channel, int input);
/*
 * Stops sending until the loop reports room, at once if there is some, so that other channels get
 * their turn.
 */
void pccl_channel_yield(struct pccl_channel *channel);
/* Calls `late` after this time, whatever moves, unless called again; 0: no limit. */
void pccl_channel_limit(struct pccl_channel *channel, uint32_t limit_ms);
/*
 * Bytes are awaited from the other side, or room for ours: calls `late` when nothing has moved for
 * silence_ms. 0: nothing is awaited.
 */
void pccl_channel_owed(struct pccl_channel *channel, uint32_t silence_ms);

/* ---- in ---- */

/* Reads once, into the target and the reader. Only when the reader holds no whole frame. */
PCCL_MUST_CHECK enum pccl_channel_io pccl_channel_read(struct pccl_channel *channel, size_t *budget);
/*
 * The next bytes are payload, beginning with those in the reader. *target: where they go; NULL,
 * which it may become at any time: they are discarded.
 */
void pccl_channel_expect(struct pccl_channel *channel, uint8_t *const *target, uint32_t bytes);
/* Moves payload from the reader to the target. Returns the number of bytes. */
uint32_t pccl_channel_move(struct pccl_channel *channel);
/*
 * MOVED: a message, a view that is valid until the next call for this channel. WAITS: more bytes
 * are needed. ENDED, with a reason: garbage; is_invalid: it arrived as the other side sent it.
 */
PCCL_MUST_CHECK enum pccl_channel_io pccl_channel_message(struct pccl_channel *channel,
                                                          struct pccl_wire_scratch *scratch, struct pccl_msg *msg,
                                                          struct pccl_text *reason);

/* ---- out ---- */

/*
 * Appends bytes, or a frame, to the unsent frames; no payload may be unsent. false:
 * pccl_channel_fail was called, because memory is short (UV_ENOMEM) or the limit is reached
 * (UV_ENOBUFS).
 */
bool pccl_channel_put(struct pccl_channel *channel, const uint8_t *bytes, size_t length);
bool pccl_channel_put_message(struct pccl_channel *channel, const struct pccl_msg *msg);
/*
 * Appends payload to the frames. *payload: where it is; NULL, which it may become at any time:
 * filler is sent instead.
 */
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
 * Sends. MOVED: everything is sent. WAITS: the kernel takes no more, `blocked` is set. ENDED:
 * nothing can be sent any more.
 */
enum pccl_channel_io pccl_channel_push(struct pccl_channel *channel);
/*
 * Stops sending, for this reason of ours. Input that arrived before is still read; then the input
 * ends, with the same reason.
 */
void pccl_channel_fail(struct pccl_channel *channel, int error);

/* ---- why it has ended ---- */

const char *pccl_channel_why(const struct pccl_channel *channel);
/* CLOSED or SILENT; 0: the cause is on this side, which is evidence of nothing. */
enum pccl_link_end pccl_channel_evidence(const struct pccl_channel *channel);

#endif
