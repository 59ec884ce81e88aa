/*
 * A pipe: bytes in both directions between two processes of one host, through memory that both have
 * mapped. They are copied into it and out of it and go nowhere near the kernel. The Unix socket over
 * which the pipe was agreed stays open beside it, and carries nothing any more but bells: single
 * bytes that wake whoever waits for input or room. Its end is the end of the pipe.
 *
 * The side that dials offers the memory with the first bytes that it sends. The other side takes it,
 * or does not, before it answers; so both know when the handshake is over.
 *
 * Trusts the other process as far as the user whose it is: its positions are checked, its bytes are
 * its own affair. One thread at a time.
 */
#ifndef PCCL_NET_PIPE_H
#define PCCL_NET_PIPE_H

#include "core/memory.h"
#include "os/socket.h"

struct pccl_pipe;

/* Copies of much, past the caches; other threads may read them after `copied`. */
struct pccl_pipe_copier {
    void (*copy)(const void *context, void *to, const void *from, size_t bytes);
    void (*copied)(const void *context);
    const void *context;
};

/* ---- the agreement ---- */

/* NULL: not on this system, not now, or this process has offered as many as it may. */
struct pccl_pipe *pccl_pipe_offer(const struct pccl_memory *memory);
/* Sends the bytes, and the offer with the first of them. As pccl_socket_write. */
PCCL_MUST_CHECK ptrdiff_t pccl_pipe_send_offer(struct pccl_pipe *pipe, uv_os_sock_t socket, const uint8_t *bytes,
                                               size_t length);
/*
 * As pccl_socket_read; *pipe is what came with the bytes, or NULL: no offer, or none that can be taken. Only from a
 * process of this user, or of root: to close what another one has sent could take long.
 */
PCCL_MUST_CHECK ptrdiff_t pccl_pipe_read_offer(const struct pccl_memory *memory, uv_os_sock_t socket, uint8_t *bytes,
                                               size_t length, struct pccl_pipe **pipe);
/* Whether the other side has taken the offer; known once it has answered. */
bool pccl_pipe_is_agreed(const struct pccl_pipe *pipe);
/* Where that is faster, what is written is copied by this. */
void pccl_pipe_copy_with(struct pccl_pipe *pipe, const struct pccl_pipe_copier *copier);
/* NULL is allowed. */
void pccl_pipe_destroy(struct pccl_pipe *pipe);

/* ---- bytes: as pccl_socket_read_two and pccl_socket_write_two ---- */

ptrdiff_t pccl_pipe_read(struct pccl_pipe *pipe, uv_os_sock_t socket, uint8_t *first, size_t first_length,
                         uint8_t *second, size_t second_length);
ptrdiff_t pccl_pipe_write(struct pccl_pipe *pipe, uv_os_sock_t socket, const uint8_t *first, size_t first_length,
                          const uint8_t *second, size_t second_length);

/* ---- waiting ---- */

/* The socket has something: takes the bells, and notes the end. */
void pccl_pipe_hear(struct pccl_pipe *pipe, uv_os_sock_t socket);
/*
 * A bell could not be rung, for want of memory: to be tried again, on the loop, or the other side might wait for ever.
 */
bool pccl_pipe_owes_bell(const struct pccl_pipe *pipe);
void pccl_pipe_ring_again(struct pccl_pipe *pipe, uv_os_sock_t socket);
/* Nothing comes any more, once what is in the pipe has been read. */
bool pccl_pipe_has_ended(const struct pccl_pipe *pipe);
/* Room: so much that it is worth going on. */
bool pccl_pipe_has_input(const struct pccl_pipe *pipe);
bool pccl_pipe_has_room(const struct pccl_pipe *pipe);
/* false: the other side will ring when there is some. */
PCCL_MUST_CHECK bool pccl_pipe_await_input(struct pccl_pipe *pipe);
PCCL_MUST_CHECK bool pccl_pipe_await_room(struct pccl_pipe *pipe);

#endif
