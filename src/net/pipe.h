/*
 * A pipe: bytes in both directions between two processes of one host, through memory that both have mapped. They are
 * copied into it and out of it without the kernel. The Unix socket over which the pipe was agreed stays open beside it
 * and carries only wake-up bytes: single bytes that wake the side that waits for input or room. The end of the socket
 * is the end of the pipe.
 *
 * The side that dials offers the memory with the first bytes that it sends. The other side accepts the offer, or does
 * not, before it answers; so both know the result when the handshake is over.
 *
 * Trusts the other process as much as its user: checks its positions, but not its bytes. One thread at a time.
 */
#ifndef PCCL_NET_PIPE_H
#define PCCL_NET_PIPE_H

#include "core/memory.h"
#include "os/socket.h"

struct pccl_pipe;

/* Functions for large copies that bypass the caches. Other threads may read the copies after a call of `copied`. */
struct pccl_pipe_copier {
    void (*copy)(const void *context, void *to, const void *from, size_t bytes);
    void (*copied)(const void *context);
    const void *context;
};

/* ---- the agreement ---- */

/*
 * Creates a pipe to offer. Returns NULL if this system has none, if memory or descriptors are short, or if this process
 * has offered the maximum number.
 */
struct pccl_pipe *pccl_pipe_offer(const struct pccl_memory *memory);
/* Sends bytes as pccl_socket_write does, and the offer with the first of them. */
PCCL_MUST_CHECK ptrdiff_t pccl_pipe_send_offer(struct pccl_pipe *pipe, uv_os_sock_t socket, const uint8_t *bytes,
                                               size_t length);
/*
 * Reads bytes as pccl_socket_read does. Sets *pipe to the pipe that was offered with them, or to NULL if there is no
 * usable offer. Call only for a process of this user, or of root: closing a descriptor that another user has sent could
 * take long.
 */
PCCL_MUST_CHECK ptrdiff_t pccl_pipe_read_offer(const struct pccl_memory *memory, uv_os_sock_t socket, uint8_t *bytes,
                                               size_t length, struct pccl_pipe **pipe);
/* Returns true if the other side has accepted the offer; known once it has answered. */
bool pccl_pipe_is_agreed(const struct pccl_pipe *pipe);
/* Sets functions that copy written bytes where they are faster. */
void pccl_pipe_copy_with(struct pccl_pipe *pipe, const struct pccl_pipe_copier *copier);
/* NULL is allowed. */
void pccl_pipe_destroy(struct pccl_pipe *pipe);

/* ---- bytes: as pccl_socket_read_two and pccl_socket_write_two ---- */

ptrdiff_t pccl_pipe_read(struct pccl_pipe *pipe, uv_os_sock_t socket, uint8_t *first, size_t first_length,
                         uint8_t *second, size_t second_length);
ptrdiff_t pccl_pipe_write(struct pccl_pipe *pipe, uv_os_sock_t socket, const uint8_t *first, size_t first_length,
                          const uint8_t *second, size_t second_length);

/* ---- waiting ---- */

/* Reads wake-up bytes and notes the end. Call when the socket is readable. */
void pccl_pipe_read_wake_bytes(struct pccl_pipe *pipe, uv_os_sock_t socket);
/*
 * Returns true if a wake-up byte could not be sent, because the socket was full or memory short. The loop must then
 * call pccl_pipe_ring_again, or the other side could wait forever.
 */
bool pccl_pipe_owes_wake_byte(const struct pccl_pipe *pipe);
void pccl_pipe_ring_again(struct pccl_pipe *pipe, uv_os_sock_t socket);
/* Returns true if no more input will arrive after the bytes that are in the pipe. */
bool pccl_pipe_has_ended(const struct pccl_pipe *pipe);
/* Returns true if there is input; the second, if there is enough room for a worthwhile write. */
bool pccl_pipe_has_input(const struct pccl_pipe *pipe);
bool pccl_pipe_has_room(const struct pccl_pipe *pipe);
/* Returns true as the two functions above; on false, the other side will send a wake-up byte when that changes. */
PCCL_MUST_CHECK bool pccl_pipe_await_input(struct pccl_pipe *pipe);
PCCL_MUST_CHECK bool pccl_pipe_await_room(struct pccl_pipe *pipe);

#endif
