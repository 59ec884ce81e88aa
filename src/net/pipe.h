/*
 * A pipe transfers bytes in both directions between two processes of a host, through memory that both have mapped,
 * without the kernel. The Unix socket over which the pipe was agreed on stays open. It only transfers wake-up bytes,
 * which wake a side that waits for input or room, and its end is the end of the pipe.
 *
 * The side that dials offers the memory with the first bytes that it sends. The other side accepts or ignores the offer
 * before it answers, so both know the result at the end of the handshake.
 *
 * The other process is trusted like its user: its positions are checked, but not its bytes. Must be used by one thread
 * at a time.
 */
#ifndef PCCL_NET_PIPE_H
#define PCCL_NET_PIPE_H

#include "core/memory.h"
#include "os/socket.h"

struct pccl_pipe;

/* Pipes of one loop that may have to send a wake-up byte for bytes that they have moved. */
struct pccl_pipe_deferred {
    struct pccl_pipe *first;
    bool is_off; /* wake-up bytes are sent at once */
};

/*
 * Functions for large copies that bypass the caches. Other threads may read the copied bytes after `copied` has
 * returned.
 */
struct pccl_pipe_copier {
    void (*copy)(const void *context, void *to, const void *from, size_t bytes);
    void (*copied)(const void *context);
    const void *context;
};

/* ---- the agreement ---- */

/*
 * Creates a pipe to be offered. Returns NULL if this system does not support pipes, if memory or descriptors are short,
 * or if this process has offered the maximum number.
 */
struct pccl_pipe *pccl_pipe_offer(const struct pccl_memory *memory);
/* Sends bytes as pccl_socket_write does, with the offer attached to the first one. */
PCCL_MUST_CHECK ptrdiff_t pccl_pipe_send_offer(struct pccl_pipe *pipe, uv_os_sock_t socket, const uint8_t *bytes,
                                               size_t length);
/*
 * Reads bytes as pccl_socket_read does. Sets *pipe to the pipe offered with them, or to NULL if there is no usable
 * offer. Call only if the other process belongs to this user or to root, because closing a descriptor from another user
 * could block.
 */
PCCL_MUST_CHECK ptrdiff_t pccl_pipe_read_offer(const struct pccl_memory *memory, uv_os_sock_t socket, uint8_t *bytes,
                                               size_t length, struct pccl_pipe **pipe);
/* Returns true if the other side has accepted the offer. Valid once it has answered. */
bool pccl_pipe_is_agreed(const struct pccl_pipe *pipe);
/*
 * Allocates the memory that is used first, so that operations need not. Call once both sides have agreed on the pipe;
 * accepting it already does this. If memory is short, a write reports that.
 */
void pccl_pipe_prepare(struct pccl_pipe *pipe);
/* Sets functions for copying written bytes, which are used where they are faster. */
void pccl_pipe_copy_with(struct pccl_pipe *pipe, const struct pccl_pipe_copier *copier);
/*
 * Defers wake-up bytes for small pieces: they are sent by pccl_pipe_send_deferred, which the owner of `deferred` calls
 * before its loop waits, or by pccl_pipe_send_now.
 */
void pccl_pipe_defer(struct pccl_pipe *pipe, struct pccl_pipe_deferred *deferred);
/* `pipe` may be NULL. */
void pccl_pipe_destroy(struct pccl_pipe *pipe);

/* ---- bytes: like pccl_socket_read_two and pccl_socket_write_two ---- */

ptrdiff_t pccl_pipe_read(struct pccl_pipe *pipe, uv_os_sock_t socket, uint8_t *first, size_t first_length,
                         uint8_t *second, size_t second_length);
ptrdiff_t pccl_pipe_write(struct pccl_pipe *pipe, uv_os_sock_t socket, const uint8_t *first, size_t first_length,
                          const uint8_t *second, size_t second_length);

/* ---- waiting ---- */

/* Reads wake-up bytes and detects the end. Call when the socket is readable. */
void pccl_pipe_read_wake_bytes(struct pccl_pipe *pipe, uv_os_sock_t socket);
/*
 * Returns true if a wake-up byte could not be sent because the socket was full or memory was short. The loop must then
 * call pccl_pipe_send_again, otherwise the other side may wait forever.
 */
bool pccl_pipe_has_unsent_wake_byte(const struct pccl_pipe *pipe);
void pccl_pipe_send_again(struct pccl_pipe *pipe, uv_os_sock_t socket);
/* Sends deferred wake-up bytes. Returns false if one could not be sent; the loop must then call this again soon. */
PCCL_MUST_CHECK bool pccl_pipe_send_deferred(struct pccl_pipe_deferred *deferred);
/* Sends the deferred wake-up bytes of one pipe. Call before its socket is closed or passed on. NULL is allowed. */
void pccl_pipe_send_now(struct pccl_pipe *pipe);
/* Returns true if no more input will arrive beyond the bytes in the pipe. */
bool pccl_pipe_has_ended(const struct pccl_pipe *pipe);
/* Return true if there is input, and if there is enough room for a worthwhile write. */
bool pccl_pipe_has_input(const struct pccl_pipe *pipe);
bool pccl_pipe_has_room(const struct pccl_pipe *pipe);
/* Like the two functions above. If they return false, the other side will send a wake-up byte when that changes. */
PCCL_MUST_CHECK bool pccl_pipe_await_input(struct pccl_pipe *pipe);
PCCL_MUST_CHECK bool pccl_pipe_await_room(struct pccl_pipe *pipe);
/* Withdraws the request for a wake-up byte for input. One that was already sent still arrives. */
void pccl_pipe_poll_input(struct pccl_pipe *pipe);

#endif
