/*
 * One connection of ours on an event loop: the one place where bytes are read from its socket and written to it. Frames
 * go both ways, and behind any of them raw payload, straight from and to the caller's memory. It keeps what the kernel
 * does not take, finds out why a connection ends, notices that nothing moves, and says good-bye.
 *
 * Knows nothing of what frames and payload mean, of collectives, shared state or measurements: whoever owns it decides
 * when to read, what to answer and which bytes a frame is followed by.
 *
 * Ownership: part of a struct of the owner's, which is freed in `released`, and not before. The socket is the channel's
 * from pccl_channel_open until it is closed or detached. Payload and targets are the owner's, and so are the pointers
 * to them, which are looked at whenever bytes are moved: so the owner can take them back at any time.
 *
 * Threads: the loop's, except for init, reserve and fini (any), and for put, push, read, move and message, which any
 * thread may call that holds the lock under which the owner's visits work. Only pccl_channel_leave calls back.
 */
#ifndef PCCL_NET_CHANNEL_H
#define PCCL_NET_CHANNEL_H

#include "net/alarm.h"
#include "wire/frame.h"

#include <uv.h>

struct pccl_channel;

enum pccl_channel_io {
    PCCL_CHANNEL_MOVED, /* and there may be more */
    PCCL_CHANNEL_WAITS, /* nothing more for now */
    PCCL_CHANNEL_ENDED, /* it is over: pccl_channel_why; the owner closes it */
};

struct pccl_channel_events {
    /* The socket is ready for something that is watched: pccl_channel_begin, then what there is to do, then
     * pccl_channel_watch. Not after it was left or closed. */
    void (*visit)(struct pccl_channel *channel, int ready);
    /* The limit has passed, or something is awaited from the other side and nothing has moved for too long. */
    void (*late)(struct pccl_channel *channel);
    /* Of a channel that was left, if not NULL. What was under way is out, the good-bye follows; */
    void (*parting)(struct pccl_channel *channel);
    /* and it is over, and closed. Also from inside pccl_channel_leave. */
    void (*parted)(struct pccl_channel *channel);
    /* Closed or detached, and the loop has let go: the owner frees the memory. */
    void (*released)(struct pccl_channel *channel);
};

enum pccl_channel_state {
    PCCL_CHANNEL_NEW, /* not opened yet */
    PCCL_CHANNEL_OPEN,
    PCCL_CHANNEL_LEAVING, /* completes what is under way, then waits for the other side's end */
    PCCL_CHANNEL_CLOSED,  /* or detached: waits for the loop to let go */
};

/* An open connection between two owners: where a handshake has ended, and its loop gives it to another one. */
struct pccl_handover {
    uv_os_sock_t socket;
    struct pccl_frame_reader reader; /* what was read of it and not handed out */
};

struct pccl_channel {
    const struct pccl_channel_events *events;
    const struct pccl_memory *memory;
    enum pccl_channel_state state;
    uv_os_sock_t socket;
    uv_poll_t poll;
    struct pccl_alarm alarm; /* the limit, the silence, or the end of the good-bye */
    uint8_t handles;         /* not yet let go by the loop */
    int armed;               /* what `poll` watches */
    bool is_limited;
    uint32_t silence_ms; /* 0: nothing is awaited from the other side */
    uint64_t moved_us;   /* the last time that anything moved, while something is awaited */
    int failed;          /* why nothing can be sent any more; what came is still read. 0: it can */
    int ended;           /* why nothing comes any more. 0: something may */

    /* in: frames, and behind some of them `expected` bytes for `target`, of which `received` are there */
    struct pccl_frame_reader reader; /* what was read of frames; empty while a payload is incomplete */
    uint8_t *const *target;          /* *target NULL: nobody wants them */
    uint32_t expected, received;
    uint8_t *sink; /* the owner's: what nobody wants passes through it */
    uint32_t sink_bytes;
    uint32_t drain_max, drained; /* bytes thrown away after it was left; 0: as many as come */
    bool dry;                    /* the last read took all there was */

    /* out: frames, then `payload_left` bytes of payload */
    uint8_t *out; /* out_start..out_end wait */
    uint32_t out_start, out_end, out_capacity;
    uint32_t out_max;              /* more may not wait */
    const uint8_t *const *payload; /* *payload NULL: filler */
    uint32_t payload_sent, payload_left;
    bool blocked;      /* until the loop reports room */
    bool watch_output; /* kept until it reports room that nobody needs: saves switching it on and off */
    bool says_bye;     /* link_bye comes last */
    bool is_parting;   /* what was under way is out */
    bool is_shut;      /* and so is everything */
};

/* ---- life ---- */

/* Of a zeroed struct. The socket stays the caller's. */
void pccl_channel_init(struct pccl_channel *channel, const struct pccl_memory *memory, uv_os_sock_t socket,
                       const struct pccl_channel_events *events);
/* Of one that was never opened; the socket is untouched, and `released` is not called. */
void pccl_channel_fini(struct pccl_channel *channel);
/* Memory for frames of so many bytes, which therefore can be put whenever nothing waits. false: there is none. */
PCCL_MUST_CHECK bool pccl_channel_reserve(struct pccl_channel *channel, uint32_t bytes);
/* The loop takes it over. false: it cannot, the socket is closed, and pccl_channel_fini is due. */
PCCL_MUST_CHECK bool pccl_channel_open(struct pccl_channel *channel, uv_loop_t *loop);
/* No events any more but `released`. Once. */
void pccl_channel_close(struct pccl_channel *channel);
/* The same, and what is still on its way does not go on; the other side sees it break. */
void pccl_channel_abort(struct pccl_channel *channel);
/* The same, but the connection goes on: it is the caller's. Nothing may be on its way out. */
void pccl_channel_detach(struct pccl_channel *channel, struct pccl_handover *out);
/* An initialized channel of that socket has what was read of it, which is its own from now on. */
void pccl_channel_adopt(struct pccl_channel *channel, struct pccl_handover *handover);
static inline bool pccl_handover_has_input(const struct pccl_handover *handover)
{
    return handover->reader.start < handover->reader.end;
}
/* Nobody takes it: it is closed. */
void pccl_handover_drop(struct pccl_handover *handover);
/*
 * In order: what was put and the payload under way go out, then link_bye if `bye`; what comes is thrown away, so that
 * no reset overtakes what we said, until the other side's end, at most for linger_ms. 0: what the kernel takes at once.
 */
void pccl_channel_leave(struct pccl_channel *channel, bool bye, uint32_t linger_ms);

/* ---- waiting ---- */

/* A visit begins with it. UV_WRITABLE: room that was waited for; any other bit: there may be input. */
int pccl_channel_begin(struct pccl_channel *channel, int ready);
/* A visit ends with it. input: UV_READABLE, UV_DISCONNECT (only the other side's end), or 0. Room is watched if needed.
 */
void pccl_channel_watch(struct pccl_channel *channel, int input);
/* Nothing is sent until the loop reports room, which it does at once if there is some: others have their turn. */
void pccl_channel_yield(struct pccl_channel *channel);
/* `late` comes after so long, whatever moves, unless this is called again; 0: no limit. */
void pccl_channel_limit(struct pccl_channel *channel, uint32_t limit_ms);
/* We await bytes from the other side, or room for ours: `late` comes when nothing has moved for silence_ms; 0: it does
 * not.
 */
void pccl_channel_owed(struct pccl_channel *channel, uint32_t silence_ms);

/* ---- in ---- */

/* One read, when no whole frame is left: into the target and the reader. */
PCCL_MUST_CHECK enum pccl_channel_io pccl_channel_read(struct pccl_channel *channel, size_t *budget);
/* So many bytes come next, and begin in the reader. *target: where they go; NULL, and it may become so meanwhile:
 * nobody wants them. */
void pccl_channel_expect(struct pccl_channel *channel, uint8_t *const *target, uint32_t bytes);
/* Moves what lies in the reader to the target; how many bytes that was. */
uint32_t pccl_channel_move(struct pccl_channel *channel);
/* MOVED: a message (a view, until the next call of anything); WAITS: more bytes are needed; ENDED, with a reason:
 * garbage.
 */
PCCL_MUST_CHECK enum pccl_channel_io pccl_channel_message(struct pccl_channel *channel,
                                                          struct pccl_wire_scratch *scratch, struct pccl_msg *msg,
                                                          struct pccl_text *reason);

/* ---- out ---- */

/* Puts bytes, or a frame, behind the frames that wait; no payload may be under way. false: pccl_channel_fail was
 * called, as there is no memory (UV_ENOMEM) or more waits than may (UV_ENOBUFS). */
bool pccl_channel_put(struct pccl_channel *channel, const uint8_t *bytes, size_t length);
bool pccl_channel_put_message(struct pccl_channel *channel, const struct pccl_msg *msg);
/* So many bytes go behind the frames. *payload: where they are; NULL, and it may become so meanwhile: filler goes. */
static inline void pccl_channel_put_payload(struct pccl_channel *channel, const uint8_t *const *payload, uint32_t bytes)
{
    channel->payload = payload;
    channel->payload_left = bytes;
    channel->payload_sent = 0;
}
static inline bool pccl_channel_is_sending(const struct pccl_channel *channel)
{
    return channel->out_start < channel->out_end || channel->payload_left;
}
/* Sends. MOVED: everything is out; WAITS: the kernel takes no more, `blocked`; ENDED: nothing can be sent any more. */
enum pccl_channel_io pccl_channel_push(struct pccl_channel *channel);
/* Nothing is sent any more, for a reason of ours. What came before is still read, then its end, and that is why. */
void pccl_channel_fail(struct pccl_channel *channel, int error);

/* ---- why it has ended ---- */

const char *pccl_channel_why(const struct pccl_channel *channel);
/* CLOSED or SILENT; 0: our own doing, which is evidence of nothing. */
enum pccl_link_end pccl_channel_evidence(const struct pccl_channel *channel);

#endif
