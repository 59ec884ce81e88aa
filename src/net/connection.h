/*
 * A connection that transfers only frames, before and after its other end is known. Covers dialing; delivery of frames
 * under the owner's lock, on the loop's thread or on a thread that waits for them; the cause of the connection's end;
 * and lists of strangers. net/channel moves the bytes. Independent of the meaning of frames.
 *
 * Threads: all functions run on the loop's thread, except pccl_connection_send, send_message, flush, take,
 * share_input and hide_input, which any thread that holds the owner's lock (`enter` in the events) may call.
 * Ownership: pccl_connection_create creates a connection, pccl_connection_close releases it, and the loop frees it
 * later.
 */
#ifndef PCCL_NET_CONNECTION_H
#define PCCL_NET_CONNECTION_H

#include "core/address.h"
#include "core/base.h"
#include "core/table.h"
#include "core/text.h"
#include "net/channel.h"
#include "os/socket.h"
#include "os/socket_wait.h"

#include <uv.h>

struct pccl_connection;

enum pccl_connection_end {
    PCCL_END_CLOSED,      /* the other side closed it */
    PCCL_END_RESET,       /* the connection broke */
    PCCL_END_SILENT,      /* the connection was open, and the other host stopped answering */
    PCCL_END_REFUSED,     /* dialing: no process listens at the address */
    PCCL_END_UNREACHABLE, /* dialing: there is no route to the address */
    PCCL_END_TIMEOUT,     /* the limit set by pccl_connection_limit has passed */
    PCCL_END_GARBAGE,     /* invalid frame */
    PCCL_END_OVERFLOW,    /* too much unsent output */
    PCCL_END_MEMORY,      /* out of memory */
    PCCL_END_DROPPED,     /* a stranger that was dropped to make room */
};

struct pccl_connection_events {
    /* Called before and after every visit of the loop, to take and release the owner's lock. May be NULL. */
    void (*enter)(void *owner);
    void (*leave)(void *owner);
    /* The visit has left input unread, which the loop's next iteration reads. May be NULL. */
    void (*more)(void *owner);
    void (*connected)(struct pccl_connection *connection);
    /*
     * A frame has arrived. It is a view that is valid during the call. The call may close the connection or give it
     * other events.
     */
    void (*received)(struct pccl_connection *connection, const struct pccl_frame *frame);
    /*
     * The connection has ended, and the owner must close it, now or later. Called at most once, and never after close.
     * After PCCL_END_GARBAGE, an answer can still be sent.
     */
    void (*ended)(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason);
};

struct pccl_connection_list {
    struct pccl_list_node connections; /* oldest first */
    uint32_t count;
};

enum pccl_connection_state {
    PCCL_CONNECTION_DIALING,
    PCCL_CONNECTION_OPEN,
    PCCL_CONNECTION_ENDED,  /* `ended` has been called; the owner has not closed the connection yet */
    PCCL_CONNECTION_CLOSED, /* closed by the owner; may still send remaining output */
};

struct pccl_connection {
    /* fields of the owner */
    const struct pccl_connection_events *events;
    void *owner;
    void *item; /* the owner's object to which the connection belongs */
    uint64_t id;
    struct pccl_table_node node;
    struct pccl_address address; /* address of the other end */
    bool dirty;
    struct pccl_connection *next_dirty;
    /* fields of the connection */
    struct pccl_channel channel;
    enum pccl_connection_state state;
    bool is_local;         /* over a Unix socket */
    bool takes_descriptor; /* the other side was dialed at its local socket, and accepts a descriptor */
    bool unread;           /* pccl_connection_take has left frames, an error or the end to the loop */
    bool garbage;          /* ended because of invalid input, so an answer can still be sent */
    uint64_t accepted_ms;  /* accept time on the loop's clock */
    struct pccl_connection_list *list;
    struct pccl_list_node in_list;
};

enum {
    PCCL_CONNECTION_OUT_HELLO = 64 << 10,
    /* room for all frames that a session may have to resend */
    PCCL_CONNECTION_OUT_MAX = PCCL_SESSION_BYTES_MAX + (8 << 20),
};

/*
 * Creates a connection. It owns the socket, which is closed on failure. dialing: the connection attempt is still in
 * progress. Returns NULL if out of memory or descriptors.
 */
struct pccl_connection *pccl_connection_create(uv_loop_t *loop, const struct pccl_memory *memory, uv_os_sock_t socket,
                                               bool dialing, const struct pccl_connection_events *events, void *owner);
/*
 * Encrypts the connection. Call directly after its creation. The connection owns `secure`. NULL means out of memory:
 * the connection then ends with that error.
 */
void pccl_connection_secure(struct pccl_connection *connection, struct pccl_secure *secure);
/* Allows larger frames and more unsent output. Call once the other side is known. */
void pccl_connection_raise(struct pccl_connection *connection);
/* Ends the connection with PCCL_END_TIMEOUT after this time, unless called again before. 0: no limit. */
void pccl_connection_limit(struct pccl_connection *connection, uint32_t limit_ms);

/* Appends bytes to the output that pccl_connection_flush sends. Never blocks. Failures are reported by `ended`. */
void pccl_connection_send(struct pccl_connection *connection, const uint8_t *bytes, size_t length);
/* Encodes a message without a session number and appends it to the output. */
void pccl_connection_send_message(struct pccl_connection *connection, const struct pccl_msg *msg);
/* Sends output. Returns false if some remains; the loop's thread must then call pccl_connection_arm. */
bool pccl_connection_flush(struct pccl_connection *connection);
/*
 * Watches for room if output is unsent, and handles input that pccl_connection_take has left. May therefore call
 * `received` or `ended`. Runs on the loop's thread, with the owner's lock.
 */
void pccl_connection_arm(struct pccl_connection *connection);

/*
 * Reads the available input and delivers the frames as the loop would, on any thread that holds the owner's lock.
 * Returns false if the loop's thread must call pccl_connection_arm. Leaves the end of the connection to the loop.
 */
PCCL_MUST_CHECK bool pccl_connection_take(struct pccl_connection *connection);
/*
 * Starts or stops sharing the input, as pccl_socket_share_input does. Runs on any thread that holds the owner's lock.
 * Must be turned off before the connection is closed. Returns true if the input is now shared; turning it on may fail,
 * temporarily or always on this system.
 */
bool pccl_connection_share_input(struct pccl_connection *connection, const struct pccl_socket_wait *wait, bool on);
/*
 * Hides shared input from the loop or shows it again (pccl_socket_hide_input). On any thread that holds the owner's
 * lock. Has no effect if the input is not shared, or cannot be hidden now.
 */
void pccl_connection_hide_input(struct pccl_connection *connection, bool hide);
/*
 * Allows the input to be shared from now on. Runs on the loop's thread, with the owner's lock, directly after the loop
 * has polled.
 */
void pccl_connection_polled(struct pccl_connection *connection);

/*
 * Closes the connection. No events follow. Sends the remaining output and discards input until the other side ends the
 * connection, so that no reset overtakes our last bytes, for at most linger_ms. 0 closes immediately.
 */
void pccl_connection_close(struct pccl_connection *connection, uint32_t linger_ms);

/*
 * Passes the open connection to the caller and frees the struct. No events follow. Returns false and changes nothing if
 * the connection has broken or its output cannot be sent immediately.
 */
PCCL_MUST_CHECK bool pccl_connection_detach(struct pccl_connection *connection, struct pccl_handover *out);

/* Translates the error of a connection attempt. */
enum pccl_connection_end pccl_connection_dial_end(int error);

/*
 * Returns the oldest connection of a list, or NULL. A connection is in at most one list, which it leaves when its
 * socket is closed. New connections are added at the end.
 */
static inline struct pccl_connection *pccl_connection_oldest(const struct pccl_connection_list *list)
{
    return PCCL_LIST_ITEM(&list->connections, list->connections.next, struct pccl_connection, in_list);
}

static inline struct pccl_connection *pccl_connection_newer(const struct pccl_connection *connection)
{
    return PCCL_LIST_ITEM(&connection->list->connections, connection->in_list.next, struct pccl_connection, in_list);
}

void pccl_connection_list_add(struct pccl_connection_list *list, struct pccl_connection *connection);
void pccl_connection_list_remove(struct pccl_connection *connection);
/* Ends the connection, which may already be closing, to make room for another one. */
void pccl_connection_drop(struct pccl_connection *connection);

#endif
