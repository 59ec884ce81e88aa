/*
 * The only file that knows the system's socket calls. Every socket is non-blocking, closed on exec
 * and in forked children, and never raises SIGPIPE. Results are 0 or a negative libuv error
 * (UV_EAGAIN, UV_ECONNREFUSED ...), so that callers need neither errno nor the system's headers.
 * EINTR is handled here.
 */
#ifndef PCCL_OS_SOCKET_H
#define PCCL_OS_SOCKET_H

#include "core/address.h"
#include "core/base.h"
#include "core/id.h"
#include "core/text.h"

#include <uv.h>

#define PCCL_NO_SOCKET ((uv_os_sock_t)-1)

/*
 * Starts a TCP connection. 0: connected or in progress; pccl_socket_outcome tells the result once
 * the socket is writable.
 */
PCCL_MUST_CHECK int pccl_socket_dial(const struct pccl_address *address, uv_os_sock_t *socket);
bool pccl_socket_is_shortage(int error); /* this host is short of memory or descriptors; it may work later */
/* Says what an error means: for want of descriptors with the limit, and what raises it. */
void pccl_socket_explain(int error, struct pccl_text *reason);
/* Returns about how many more sockets this process can open. loop: any. */
uint32_t pccl_socket_count_free(const uv_loop_t *loop);
bool pccl_socket_lacks_family(int error); /* this host has no such address, or none of its family */
/*
 * The result of a connection attempt: 0, or why it failed. Also tunes the socket, because now the
 * path is known.
 */
PCCL_MUST_CHECK int pccl_socket_outcome(uv_os_sock_t socket);
/*
 * Listens on the address. "::" accepts IPv4 too where the system can, unless another socket has the
 * port there.
 */
PCCL_MUST_CHECK int pccl_socket_listen(const struct pccl_address *address, uv_os_sock_t *socket);
/*
 * Listens at a unix socket of this user's alone, in the place of one that nobody listens at any more. UV_EADDRINUSE:
 * somebody does.
 */
PCCL_MUST_CHECK int pccl_socket_listen_local(const char *path, uv_os_sock_t *socket);
/*
 * Opens a Unix socket that listens at a path or is connected to it, and accepts no descriptors. POSIX only; those of
 * os/local.h on Linux only.
 */
PCCL_MUST_CHECK int pccl_socket_listen_at(const char *path, uv_os_sock_t *socket);
PCCL_MUST_CHECK int pccl_socket_dial_at(const char *path, uv_os_sock_t *socket);
/* Returns false if no process of this host has a socket bound there. Does not affect a bound socket. */
bool pccl_socket_is_bound_at(const char *path);
/* Returns true if the process at the other end of the Unix socket is of this user. */
bool pccl_socket_is_of_this_user(uv_os_sock_t connected);
/* Sets whether the other end may pass descriptors. Systems before Linux 6.16 ignore this. */
void pccl_socket_take_descriptors(uv_os_sock_t socket, bool takes);
/*
 * UV_EAGAIN: no connection waits; UV_EMFILE, UV_ENFILE ...: no descriptor is free; others: try
 * again.
 */
PCCL_MUST_CHECK int pccl_socket_accept(uv_os_sock_t listening, uv_os_sock_t *socket, struct pccl_address *from);

/*
 * Returns the bytes moved, or a negative error: UV_EOF if the other side has closed; UV_EPROTO for passed descriptors.
 * length > 0.
 */
ptrdiff_t pccl_socket_read(uv_os_sock_t socket, uint8_t *bytes, size_t length);
ptrdiff_t pccl_socket_write(uv_os_sock_t socket, const uint8_t *bytes, size_t length);

/* Waits until the socket is readable or writable, or has failed. Returns false after the limit. */
bool pccl_socket_await(uv_os_sock_t socket, bool writable, uint32_t limit_ms);
/* Reads the bytes without taking them. */
ptrdiff_t pccl_socket_peek(uv_os_sock_t socket, uint8_t *bytes, size_t length);
/* Sets the number of bytes from which on the socket is readable. Systems may ignore it. */
void pccl_socket_wait_bytes(uv_os_sock_t socket, int count);

/* The same into or out of two places in one call; either length may be 0, not both. */
ptrdiff_t pccl_socket_read_two(uv_os_sock_t socket, uint8_t *first, size_t first_length, uint8_t *second,
                               size_t second_length);
ptrdiff_t pccl_socket_write_two(uv_os_sock_t socket, const uint8_t *first, size_t first_length, const uint8_t *second,
                                size_t second_length);

/* The same, with a descriptor that goes to the other process, over a Unix socket. */
ptrdiff_t pccl_socket_write_with(uv_os_sock_t socket, const uint8_t *bytes, size_t length, uv_os_fd_t descriptor);
/* *descriptor: the descriptor that came with the bytes, owned by the caller; PCCL_NO_FD: none, or several. Takes no
 * more. */
ptrdiff_t pccl_socket_read_with(uv_os_sock_t socket, uint8_t *bytes, size_t length, uv_os_fd_t *descriptor);
/* Closes a descriptor of an unexpected kind. Does not wait. */
void pccl_socket_refuse_descriptor(uv_os_fd_t descriptor);

void pccl_socket_shutdown_write(uv_os_sock_t socket);
void pccl_socket_shutdown(uv_os_sock_t socket); /* both ways: the next read sees the end */
void pccl_socket_close(uv_os_sock_t socket);
/* The same, but discards data in flight; the other side sees a reset. */
void pccl_socket_abort(uv_os_sock_t socket);

/* false: unknown (the connection has broken). */
PCCL_MUST_CHECK bool pccl_socket_local(uv_os_sock_t socket, struct pccl_address *address);
/*
 * Makes an open connection break with UV_ETIMEDOUT when its other host has answered nothing for
 * about this time.
 */
void pccl_socket_limit_silence(uv_os_sock_t socket, uint32_t silence_ms);
/* Whether it is a connection on this host that is not TCP: the system measures nothing of it. */
bool pccl_socket_is_here(uv_os_sock_t socket);
/* The system's measure of an open connection's round trip, in microseconds; 0: unknown. */
uint32_t pccl_socket_rtt_us(uv_os_sock_t socket);
/* The local address that this host would use toward `address`. Sends nothing. false: no route. */
PCCL_MUST_CHECK bool pccl_socket_route(const struct pccl_address *address, struct pccl_address *local);

#endif
