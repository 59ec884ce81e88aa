/*
 * One connection that carries frames and nothing else, before and while its other end is known: dialing, handing out
 * frames under the owner's lock, on the loop or on a thread that waits for them, how it ended, lists of strangers.
 * Bytes are moved by net/channel. Knows nothing of what the frames mean.
 *
 * Threads: everything here runs on the loop's thread, except pccl_connection_send and pccl_connection_flush, which any
 * thread may call while it holds the owner's lock (`enter` in the events).
 * Ownership: made by pccl_connection_create, given up by pccl_connection_close, which frees it when the loop releases
 * it.
 */
#ifndef PCCL_NET_CONNECTION_H
#define PCCL_NET_CONNECTION_H

#include "core/address.h"
#include "core/base.h"
#include "core/table.h"
#include "core/text.h"
#include "net/channel.h"
#include "net/socket.h"

#include <uv.h>

struct pccl_connection;

enum pccl_connection_end {
    PCCL_END_CLOSED,      /* the other side closed it in order */
    PCCL_END_RESET,       /* it broke */
    PCCL_END_SILENT,      /* it was open, and the other host did not answer any more */
    PCCL_END_REFUSED,     /* dialing: nobody listens there */
    PCCL_END_UNREACHABLE, /* dialing: no path there */
    PCCL_END_TIMEOUT,     /* the time limit set by pccl_connection_limit passed */
    PCCL_END_GARBAGE,     /* bytes that are no frame */
    PCCL_END_OVERFLOW,    /* more output than may wait */
    PCCL_END_MEMORY,      /* out of memory */
    PCCL_END_DROPPED,     /* a stranger had to make room */
};

struct pccl_connection_events {
    /* Around every visit of the loop, if not NULL: the owner's lock. */
    void (*enter)(void *owner);
    void (*leave)(void *owner);
    /* The visit left input unread, if not NULL; it goes on in the loop's next iteration. */
    void (*more)(void *owner);
    /* A dialed connection stands. */
    void (*connected)(struct pccl_connection *connection);
    /* The frame is a view, valid during the call. The connection may be closed or given other events meanwhile. */
    void (*received)(struct pccl_connection *connection, const struct pccl_frame *frame);
    /*
     * It is over; the owner must close it, now or later. At most once, and never after close. After PCCL_END_GARBAGE
     * an answer can still be sent.
     */
    void (*ended)(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason);
};

struct pccl_connection_list {
    struct pccl_connection *oldest, *newest;
    uint32_t count;
};

enum pccl_connection_state {
    PCCL_CONNECTION_DIALING,
    PCCL_CONNECTION_OPEN,
    PCCL_CONNECTION_ENDED,  /* `ended` was called; the owner has not closed it yet */
    PCCL_CONNECTION_CLOSED, /* by the owner; it may still send the rest */
};

struct pccl_connection {
    /* the owner's */
    const struct pccl_connection_events *events;
    void *owner;
    void *item; /* what of the owner's it belongs to */
    uint64_t id;
    struct pccl_table_node node;
    struct pccl_address address; /* the other end */
    bool dirty;
    struct pccl_connection *next_dirty;
    /* its own */
    struct pccl_channel channel;
    enum pccl_connection_state state;
    bool unread;          /* pccl_connection_take left frames, a broken one or the end to the loop */
    bool garbage;         /* it ended because of what came, so the other side may still hear us */
    uint64_t accepted_ms; /* by the loop's clock */
    struct pccl_connection_list *list;
    struct pccl_connection *older, *newer; /* in `list` */
};

enum {
    PCCL_CONNECTION_OUT_HELLO = 64 << 10,
    PCCL_CONNECTION_OUT_MAX = PCCL_SESSION_BYTES_MAX + (8 << 20), /* a session may have to resend all it keeps */
};

/* Takes the socket in any case. dialing: its connection attempt is under way. NULL: out of memory or descriptors. */
struct pccl_connection *pccl_connection_create(uv_loop_t *loop, const struct pccl_memory *memory, uv_os_sock_t socket,
                                               bool dialing, const struct pccl_connection_events *events, void *owner);
/* Larger frames in, more bytes waiting to go out: the other side is known. */
void pccl_connection_raise(struct pccl_connection *connection);
/* Ends with PCCL_END_TIMEOUT unless called again in time; 0: no limit. */
void pccl_connection_limit(struct pccl_connection *connection, uint32_t limit_ms);

/* Puts bytes behind what waits; pccl_connection_flush sends them. Never blocks, never fails visibly: `ended` tells. */
void pccl_connection_send(struct pccl_connection *connection, const uint8_t *bytes, size_t length);
/* Encodes and sends one message that is not numbered. */
void pccl_connection_send_message(struct pccl_connection *connection, const struct pccl_msg *msg);
/* true: the kernel has it all. false: the loop's thread must call pccl_connection_arm. */
bool pccl_connection_flush(struct pccl_connection *connection);
/*
 * Loop's thread, with the owner's lock: waits for room to send when something is left, and looks after what
 * pccl_connection_take left to it (so `received` or `ended` may be called).
 */
void pccl_connection_arm(struct pccl_connection *connection);

/*
 * Any thread that holds the owner's lock: reads what is there and hands out the frames, as the loop would. false: the
 * loop's thread must call pccl_connection_arm. An end of the connection is left for the loop to find.
 */
PCCL_MUST_CHECK bool pccl_connection_take(struct pccl_connection *connection);
/*
 * Whether the loop is woken by input of this connection; another thread that waits for it turns that off meanwhile. Any
 * thread that holds the owner's lock. false: this system cannot.
 */
bool pccl_connection_watch_input(struct pccl_connection *connection, bool on);

/*
 * No events any more. What waits is sent, the other side's last bytes are awaited and thrown away, at most for
 * linger_ms (so that a reset does not overtake what we said); 0 closes at once.
 */
void pccl_connection_close(struct pccl_connection *connection, uint32_t linger_ms);

/*
 * Gives what is open to the caller and frees the connection; no events any more. false: what waits cannot be sent at
 * once, or the connection has broken; nothing has happened then.
 */
PCCL_MUST_CHECK bool pccl_connection_detach(struct pccl_connection *connection, struct pccl_handover *out);

/* What it says that a connection attempt failed. */
enum pccl_connection_end pccl_connection_dial_end(int error);

/* A connection is in at most one list, leaves it when its socket is closed, and enters at the newest end. */
void pccl_connection_list_add(struct pccl_connection_list *list, struct pccl_connection *connection);
void pccl_connection_list_remove(struct pccl_connection *connection);
/* Makes room by ending the oldest (also one that is closing). */
void pccl_connection_drop(struct pccl_connection *connection);

#endif
