/*
 * One connection on an event loop. Only this module reads from and writes to the socket. A channel transfers frames in
 * both directions, and raw payload after any frame, directly from and to the caller's memory. It buffers bytes that the
 * kernel does not take, determines why a connection has ended, detects silence, and closes connections in order.
 *
 * Independent of the meaning of frames and payload, and of collectives, shared state and measurements. Its owner
 * decides when to read, how to answer and how many bytes of payload follow a frame.
 *
 * Ownership: a channel is embedded in a struct of its owner, which must not free it before `released`. The channel owns
 * the socket from pccl_channel_open until it is closed or detached. Payload and targets belong to the owner, as do the
 * pointers to them. The channel reads these pointers whenever it moves bytes, so the owner can withdraw the memory at
 * any time.
 *
 * Threads: the loop's, with two exceptions. Any thread may call init, reserve and fini, and adopt before the channel is
 * open. Any thread that holds the lock taken by the owner's visits may call put, push, read, move and message. Of the
 * functions here, only pccl_channel_leave calls events.
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
    PCCL_CHANNEL_ENDED, /* the connection has ended (see pccl_channel_why), and the owner must close it */
};

struct pccl_channel_events {
    /*
     * The socket is ready for a watched event. The owner calls pccl_channel_begin, does its work, and calls
     * pccl_channel_watch. Not called after leave or close.
     */
    void (*visit)(struct pccl_channel *channel, int ready);
    /* The limit has passed, or nothing has moved for too long although the other side owes bytes. */
    void (*late)(struct pccl_channel *channel);
    /*
     * Called after pccl_channel_leave, once the output has been sent. Followed by link_bye if `bye` was set. May be
     * NULL.
     */
    void (*parting)(struct pccl_channel *channel);
    /*
     * Called after `parting`, once the channel has ended and is closed; possibly from within pccl_channel_leave. May be
     * NULL.
     */
    void (*parted)(struct pccl_channel *channel);
    /* The channel is closed or detached, and the loop has released it. The owner can free the memory. */
    void (*released)(struct pccl_channel *channel);
};

enum pccl_channel_state {
    PCCL_CHANNEL_NEW, /* not opened yet */
    PCCL_CHANNEL_OPEN,
    PCCL_CHANNEL_LEAVING, /* sends the remaining output, then waits until the other side ends */
    PCCL_CHANNEL_CLOSED,  /* closed or detached; the loop has not released it yet */
};

/* An open connection after its handshake, being passed to another owner with another loop. */
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
    struct pccl_pipe *offered;  /* owned; once both sides agree, it becomes the pipe of the connection's next owner */
    bool accepts_pipes;         /* the other side may offer a pipe, because nothing has been read yet */
    uv_poll_t poll;
    uv_idle_t kick;     /* only with encryption or a pipe: causes visits for events that the socket does not report */
    uv_timer_t renewal; /* timer for renewing keys; its `data` is NULL if unused */
    bool renews;        /* a renewal of keys is due */
    struct pccl_alarm alarm; /* timer for the limit, for silence, or for the end of leaving */
    uint8_t handles;         /* number of handles that the loop has not released yet */
    int armed;               /* events that `poll` watches */
    bool is_shared;          /* pccl_socket_share_input is on, so `poll` does not see all input */
    bool is_hidden;          /* pccl_socket_hide_input is on: `poll` sees no input at all */
    bool is_settling;        /* a change of `armed` may take effect only after the current poll */
    int input;               /* with a pipe: events that the owner waits for */
    bool is_limited;
    uint32_t silence_ms; /* 0: nothing is awaited from the other side */
    uint64_t moved_us;   /* time when bytes last moved, while something is awaited */
    int failed;          /* reason why nothing more can be sent, or 0; input is still read */
    int ended;           /* reason why nothing more arrives, or 0 */

    /* Input: frames, some of them followed by `expected` bytes for `target`, of which `received` have arrived. */
    struct pccl_frame_reader reader; /* buffered bytes of frames; empty while a payload is incomplete */
    uint8_t *const *target;          /* *target is NULL: the bytes are discarded */
    uint32_t expected, received;
    uint8_t *sink; /* memory of the owner into which discarded bytes are read */
    uint32_t sink_bytes;
    /* limit for bytes discarded while leaving (0: no limit), and number of bytes discarded so far */
    uint32_t drain_max, drained;
    bool dry;        /* the last read took everything that had arrived */
    bool is_invalid; /* a frame with a valid checksum contained an invalid message */

    /* Output: frames, followed by `payload_left` bytes of payload. */
    uint8_t *out; /* out_start..out_end is unsent */
    uint32_t out_start, out_end, out_capacity;
    uint32_t out_max;              /* limit for unsent frames */
    const uint8_t *const *payload; /* *payload is NULL: filler is sent */
    uint32_t payload_sent, payload_left;
    bool blocked; /* the kernel's buffer is full; cleared when the loop reports room */
    /* the loop watches for room; cleared only when it reports room that is not needed, to avoid frequent switching */
    bool watch_output;
    bool says_bye;                /* link_bye, with `bye_reason`, must be sent last */
    struct pccl_bytes bye_reason; /* borrowed from the owner */
    bool is_parting;              /* the output has been sent; link_bye may follow */
    bool is_shut;                 /* everything has been sent, and the sending side is shut down */
};

/* ---- life ---- */

/* Initializes a zeroed struct. The caller keeps the socket. */
void pccl_channel_init(struct pccl_channel *channel, const struct pccl_memory *memory, uv_os_sock_t socket,
                       const struct pccl_channel_events *events);
/* Frees a channel that was never opened. Does not touch the socket or call `released`. */
void pccl_channel_fini(struct pccl_channel *channel);
/*
 * Allocates memory for `bytes` of frames, so that putting them cannot fail if nothing else is unsent. Returns false if
 * out of memory.
 */
PCCL_MUST_CHECK bool pccl_channel_reserve(struct pccl_channel *channel, uint32_t bytes);
/*
 * Attaches the channel to the loop. Returns false on failure; the socket is then closed, and the caller must call
 * pccl_channel_fini.
 */
PCCL_MUST_CHECK bool pccl_channel_open(struct pccl_channel *channel, uv_loop_t *loop);
/* Encrypts all bytes with `secure`, which the channel owns from now on. Call before anything is read or written. */
void pccl_channel_secure(struct pccl_channel *channel, struct pccl_secure *secure);
/*
 * Offers a pipe for use by the connection's next owner, after the handshake. Called by the side that dials a Unix
 * socket, before anything is sent. The channel owns the pipe; NULL means no offer. The other side calls
 * pccl_channel_accept_pipes before anything is read.
 */
static inline void pccl_channel_offer_pipe(struct pccl_channel *channel, struct pccl_pipe *pipe)
{
    channel->offered = pipe;
}
static inline void pccl_channel_accept_pipes(struct pccl_channel *channel) { channel->accepts_pipes = true; }
/* Closes the channel. No events follow except `released`. Call once. */
void pccl_channel_close(struct pccl_channel *channel);
/* Like pccl_channel_close, but discards data in flight, and the other side sees a reset. */
void pccl_channel_abort(struct pccl_channel *channel);
/*
 * Like pccl_channel_close, but passes the open connection to the caller. There must be no unsent output. A link whose
 * keys only secure its handshake continues without encryption.
 */
void pccl_channel_detach(struct pccl_channel *channel, struct pccl_handover *out);
/* Transfers the handover's encryption, pipe and undelivered bytes to a channel that was initialized with its socket. */
void pccl_channel_adopt(struct pccl_channel *channel, struct pccl_handover *handover);
static inline bool pccl_handover_has_input(const struct pccl_handover *handover)
{
    return handover->reader.start < handover->reader.end ||
           (handover->secure && pccl_secure_has_input(handover->secure));
}
/* Closes a connection that no owner has taken. */
void pccl_handover_drop(struct pccl_handover *handover);
/*
 * Ends the connection in order: sends all output, then link_bye if `bye`, and discards input until the other side ends
 * the connection, so that no reset overtakes our last bytes. Closes after linger_ms at the latest; with 0, closes
 * immediately, after the kernel has taken as many bytes as it can.
 */
void pccl_channel_leave(struct pccl_channel *channel, bool bye, uint32_t linger_ms);
/* Sets the reason sent in link_bye. Call before pccl_channel_leave. The reason must stay valid until `released`. */
static inline void pccl_channel_explain(struct pccl_channel *channel, struct pccl_bytes reason)
{
    channel->bye_reason = reason;
}

/* ---- waiting ---- */

/*
 * Begins a visit. In the result, UV_WRITABLE means that awaited room is available; any other bit, that there may be
 * input.
 */
int pccl_channel_begin(struct pccl_channel *channel, int ready);
/*
 * Ends a visit. input: UV_READABLE, UV_DISCONNECT (wait only for the other side's end), or 0. Also watches for room if
 * necessary.
 */
void pccl_channel_watch(struct pccl_channel *channel, int input);
/* Stops sending until the loop reports room, which may be immediately. Gives other channels a turn. */
void pccl_channel_yield(struct pccl_channel *channel);
/* Makes the loop call `late` after this time, even if bytes move, unless called again before. 0: no limit. */
void pccl_channel_limit(struct pccl_channel *channel, uint32_t limit_ms);
/*
 * States whether we are waiting for bytes from the other side, or for room to send ours. If nothing moves for
 * silence_ms, the loop calls `late`. 0: not waiting.
 */
void pccl_channel_owed(struct pccl_channel *channel, uint32_t silence_ms);

/* ---- in ---- */

/* Reads once, into the target and the reader. The reader must not contain a whole frame. */
PCCL_MUST_CHECK enum pccl_channel_io pccl_channel_read(struct pccl_channel *channel, size_t *budget);
/*
 * Declares that the next bytes, including those in the reader, are payload. *target is their destination. It may become
 * NULL at any time; the bytes are then discarded.
 */
void pccl_channel_expect(struct pccl_channel *channel, uint8_t *const *target, uint32_t bytes);
/* Moves payload from the reader to the target. Returns the number of bytes moved. */
uint32_t pccl_channel_move(struct pccl_channel *channel);
/*
 * Decodes the next message. MOVED: *msg is a view, valid until the next call for this channel. WAITS: more bytes are
 * needed. ENDED: the bytes are not a valid message, and *reason says why; `is_invalid` is set if they were not
 * corrupted in transit.
 */
PCCL_MUST_CHECK enum pccl_channel_io pccl_channel_message(struct pccl_channel *channel,
                                                          struct pccl_wire_scratch *scratch, struct pccl_msg *msg,
                                                          struct pccl_text *reason);

/* ---- out ---- */

/*
 * Append bytes, or a frame, to the unsent frames. No payload may be unsent. Return false if the channel has failed, now
 * or earlier: out of memory (UV_ENOMEM), or at the limit (UV_ENOBUFS).
 */
bool pccl_channel_put(struct pccl_channel *channel, const uint8_t *bytes, size_t length);
bool pccl_channel_put_message(struct pccl_channel *channel, const struct pccl_msg *msg);
/*
 * Appends payload to the frames. *payload is its memory. It may become NULL at any time; filler is then sent instead.
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
 * Sends output. MOVED: everything has been sent. WAITS: the kernel takes no more, and `blocked` is set. ENDED: nothing
 * more can be sent.
 */
enum pccl_channel_io pccl_channel_push(struct pccl_channel *channel);
/*
 * Stops sending because of an error on this side. Input that has already arrived can still be read; after that, reading
 * ends with the same error.
 */
void pccl_channel_fail(struct pccl_channel *channel, int error);

/* ---- why it has ended ---- */

const char *pccl_channel_why(const struct pccl_channel *channel);
/* Returns CLOSED or SILENT. Returns 0 if the cause is on this side, which proves nothing about the other side. */
enum pccl_link_end pccl_channel_evidence(const struct pccl_channel *channel);

#endif
