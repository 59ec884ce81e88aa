/*
 * One connection that carries frames only, before and after its other end is known: dialing,
 * handing out frames under the owner's lock, on the loop or on a thread that waits for them, how
 * the connection ended, and lists of strangers. net/channel moves the bytes. Knows nothing of the
 * meaning of frames.
 *
 * Threads: everything here runs on the loop's thread, except pccl_connection_send and
 * pccl_connection_flush, which any thread may call while it holds the owner's lock (`enter` in the
 * events). Ownership: created by pccl_connection_create and given up by pccl_connection_close;
 * freed when the loop has released it.
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
    PCCL_END_RESET,       /* it broke */
    PCCL_END_SILENT,      /* it was open, and the other host no longer answers */
    PCCL_END_REFUSED,     /* dialing: nobody listens there */
    PCCL_END_UNREACHABLE, /* dialing: no path there */
    PCCL_END_TIMEOUT,     /* the time limit set by pccl_connection_limit passed */
    PCCL_END_GARBAGE,     /* bytes that are no frame */
    PCCL_END_OVERFLOW,    /* too much unsent output */
    PCCL_END_MEMORY,      /* out of memory */
    PCCL_END_DROPPED,     /* a stranger was dropped to make room */
};

struct pccl_connection_events {
    /* Called around every visit of the loop, for the owner's lock. May be NULL. */
    void (*enter)(void *owner);
    void (*leave)(void *owner);
    /* The visit left input unread, which the loop's next iteration reads. May be NULL. */
    void (*more)(void *owner);
    void (*connected)(struct pccl_connection *connection);
    /*
     * The frame is a view that is valid during the call. The call may close the connection or give
     * it other events.
     */
    void (*received)(struct pccl_connection *connection, const struct pccl_frame *frame);
    /*
     * The connection has ended; the owner must close it, now or later. At most once, and never
     * after close. After PCCL_END_GARBAGE an answer can still be sent.
     */
    void (*ended)(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason);
};

struct pccl_connection_list {
    struct pccl_list_node connections; /* the oldest first */
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
    void *item; /* the owner's object that it belongs to */
    uint64_t id;
    struct pccl_table_node node;
    struct pccl_address address; /* the other end */
    bool dirty;
    struct pccl_connection *next_dirty;
    /* its own */
    struct pccl_channel channel;
    enum pccl_connection_state state;
    bool is_local;         /* over a Unix socket */
    bool takes_descriptor; /* the other side, which was dialed there, takes one */
    bool unread;           /* pccl_connection_take left frames, garbage or the end to the loop */
    bool garbage;          /* it ended because of its input, so the other side can still read an answer */
    uint64_t accepted_ms;  /* by the loop's clock */
    struct pccl_connection_list *list;
    struct pccl_list_node in_list;
};

enum {
    PCCL_CONNECTION_OUT_HELLO = 64 << 10,
    PCCL_CONNECTION_OUT_MAX = PCCL_SESSION_BYTES_MAX + (8 << 20), /* a session may have to resend everything it keeps */
};

/*
 * Takes the socket in any case. dialing: the connection attempt is in progress. NULL: out of memory
 * or descriptors.
 */
struct pccl_connection *pccl_connection_create(uv_loop_t *loop, const struct pccl_memory *memory, uv_os_sock_t socket,
                                               bool dialing, const struct pccl_connection_events *events, void *owner);
/*
 * Right after its creation: encrypts it. Takes `secure` in any case; NULL: out of memory, with which the
 * connection will end.
 */
void pccl_connection_secure(struct pccl_connection *connection, struct pccl_secure *secure);
/* The other side is known: allows larger frames and more unsent output. */
void pccl_connection_raise(struct pccl_connection *connection);
/* Ends with PCCL_END_TIMEOUT unless called again in time; 0: no limit. */
void pccl_connection_limit(struct pccl_connection *connection, uint32_t limit_ms);

/*
 * Appends bytes to the unsent output; pccl_connection_flush sends them. Never blocks; a failure is
 * reported by `ended`.
 */
void pccl_connection_send(struct pccl_connection *connection, const uint8_t *bytes, size_t length);
/* Encodes and sends one message that is not numbered. */
void pccl_connection_send_message(struct pccl_connection *connection, const struct pccl_msg *msg);
/* true: the kernel has taken everything. false: the loop's thread must call pccl_connection_arm. */
bool pccl_connection_flush(struct pccl_connection *connection);
/*
 * On the loop's thread, with the owner's lock: watches for room if output is unsent, and handles
 * what pccl_connection_take left, so it may call `received` or `ended`.
 */
void pccl_connection_arm(struct pccl_connection *connection);

/*
 * On any thread that holds the owner's lock: reads all input that is there and hands out the frames, as the loop
 * would. false: the loop's thread must call pccl_connection_arm. The loop, not this call, reports
 * an end of the connection.
 */
PCCL_MUST_CHECK bool pccl_connection_take(struct pccl_connection *connection);
/*
 * As pccl_socket_share_input. On any thread that holds the owner's lock. Turned off before the connection is closed.
 * false: not possible now, or on this system.
 */
bool pccl_connection_share_input(struct pccl_connection *connection, const struct pccl_socket_wait *wait, bool on);
/* On the loop's thread, with the owner's lock, right after the loop has polled: from now on input may be shared. */
void pccl_connection_polled(struct pccl_connection *connection);

/*
 * No events follow. Sends the output and discards input until the other side's end, so that no
 * reset overtakes our last bytes, for at most linger_ms; 0 closes at once.
 */
void pccl_connection_close(struct pccl_connection *connection, uint32_t linger_ms);

/*
 * Passes the open connection to the caller and frees the struct; no events follow. false: nothing
 * was done, because the connection has broken or its output cannot be sent at once.
 */
PCCL_MUST_CHECK bool pccl_connection_detach(struct pccl_connection *connection, struct pccl_handover *out);

/* What the error of a connection attempt means. */
enum pccl_connection_end pccl_connection_dial_end(int error);

/*
 * A connection is in at most one list and leaves it when its socket is closed. New ones are added
 * at the newest end.
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
/* Ends the connection, which may be closing already, to make room. */
void pccl_connection_drop(struct pccl_connection *connection);

#endif
