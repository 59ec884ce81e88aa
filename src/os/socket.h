/*
 * The system's sockets. Every socket is non-blocking, closed on exec and in forked children, and never raises SIGPIPE.
 * Results are 0 or a negative libuv error (UV_EAGAIN, UV_ECONNREFUSED ...), so that callers need neither errno nor the
 * system's headers. EINTR is handled here.
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
 * Starts a TCP connection. Returns 0 if connected or in progress; pccl_socket_outcome returns the result once the
 * socket is writable.
 */
PCCL_MUST_CHECK int pccl_socket_dial(const struct pccl_address *address, uv_os_sock_t *socket);
bool pccl_socket_is_shortage(int error); /* this host is short of memory or descriptors; it may work later */
/* Explains an error; for a shortage of descriptors, with the limit and a way to raise it. */
void pccl_socket_explain(int error, struct pccl_text *reason);
/* Returns an estimate of the number of sockets that this process can still open. loop: any. */
uint32_t pccl_socket_count_free(const uv_loop_t *loop);
bool pccl_socket_lacks_family(int error); /* this host has no such address, or none of its family */
/* Returns the result of a connection attempt. Also tunes the socket, because the path is now known. */
PCCL_MUST_CHECK int pccl_socket_outcome(uv_os_sock_t socket);
/*
 * Listens on the address. "::" accepts IPv4 too if the system supports that, unless another socket has the port there.
 */
PCCL_MUST_CHECK int pccl_socket_listen(const struct pccl_address *address, uv_os_sock_t *socket);
/*
 * Listens at a Unix socket that only this user can access. Replaces an abandoned one; returns UV_EADDRINUSE if a
 * process accepts connections there.
 */
PCCL_MUST_CHECK int pccl_socket_listen_local(const char *path, uv_os_sock_t *socket);
/*
 * Opens a Unix socket that listens at a path or is connected to it, and accepts no descriptors. POSIX only; the sockets
 * of os/local.h are for Linux only.
 */
PCCL_MUST_CHECK int pccl_socket_listen_at(const char *path, uv_os_sock_t *socket);
PCCL_MUST_CHECK int pccl_socket_dial_at(const char *path, uv_os_sock_t *socket);
/* Returns false if no process of this host has a socket bound there. Does not affect a bound socket. */
bool pccl_socket_is_bound_at(const char *path);
/* Returns true if the process at the other end of the Unix socket belongs to this user. */
bool pccl_socket_is_of_this_user(uv_os_sock_t connected);
/* Sets whether the other end may pass descriptors. Systems before Linux 6.16 ignore this. */
void pccl_socket_take_descriptors(uv_os_sock_t socket, bool takes);
/*
 * Accepts a connection. Returns UV_EAGAIN if no connection waits, and UV_EMFILE, UV_ENFILE ... if no descriptor is
 * free; after other errors, try again.
 */
PCCL_MUST_CHECK int pccl_socket_accept(uv_os_sock_t listening, uv_os_sock_t *socket, struct pccl_address *from);

/*
 * Reads or writes bytes. Returns their number, or a negative error: UV_EOF if the other side has closed; UV_EPROTO for
 * passed descriptors. length > 0.
 */
ptrdiff_t pccl_socket_read(uv_os_sock_t socket, uint8_t *bytes, size_t length);
ptrdiff_t pccl_socket_write(uv_os_sock_t socket, const uint8_t *bytes, size_t length);

/* Waits until the socket is readable or writable, or has failed. Returns false after the limit. */
bool pccl_socket_await(uv_os_sock_t socket, bool writable, uint32_t limit_ms);
/* Reads the bytes without consuming them. */
ptrdiff_t pccl_socket_peek(uv_os_sock_t socket, uint8_t *bytes, size_t length);
/* Sets the number of received bytes at which the socket becomes readable. Systems may ignore it. */
void pccl_socket_wait_bytes(uv_os_sock_t socket, int count);

/* Reads or writes two places in one call; either length may be 0, not both. */
ptrdiff_t pccl_socket_read_two(uv_os_sock_t socket, uint8_t *first, size_t first_length, uint8_t *second,
                               size_t second_length);
ptrdiff_t pccl_socket_write_two(uv_os_sock_t socket, const uint8_t *first, size_t first_length, const uint8_t *second,
                                size_t second_length);

/* Writes bytes and passes a descriptor to the other process, over a Unix socket. */
ptrdiff_t pccl_socket_write_with(uv_os_sock_t socket, const uint8_t *bytes, size_t length, uv_os_fd_t descriptor);
/*
 * Reads bytes and a descriptor that was passed with them, which the caller then owns; *descriptor is PCCL_NO_FD if
 * there was no descriptor, or several. Accepts no more descriptors once bytes have arrived.
 */
ptrdiff_t pccl_socket_read_with(uv_os_sock_t socket, uint8_t *bytes, size_t length, uv_os_fd_t *descriptor);
/* Closes a descriptor of an unexpected kind. Does not wait. */
void pccl_socket_refuse_descriptor(uv_os_fd_t descriptor);

void pccl_socket_shutdown_write(uv_os_sock_t socket);
void pccl_socket_shutdown(uv_os_sock_t socket); /* in both directions: the next read returns the end */
void pccl_socket_close(uv_os_sock_t socket);
/* Closes the socket, but discards data in flight; the other side sees a reset. */
void pccl_socket_abort(uv_os_sock_t socket);

/* Determines the local address. Returns false if the connection has broken, or for a Unix socket. */
PCCL_MUST_CHECK bool pccl_socket_local(uv_os_sock_t socket, struct pccl_address *address);
/* Makes an open connection break with UV_ETIMEDOUT when the other host has not answered for about this time. */
void pccl_socket_limit_silence(uv_os_sock_t socket, uint32_t silence_ms);
/* Returns true for a Unix socket, for which the system measures no path. */
bool pccl_socket_is_local(uv_os_sock_t socket);
/* Returns the system's measure of an open connection's round trip, in microseconds; 0: unknown. */
uint32_t pccl_socket_rtt_us(uv_os_sock_t socket);
/*
 * Determines the local address that this host would use toward `address`. Sends nothing. Returns false if there is no
 * route.
 */
PCCL_MUST_CHECK bool pccl_socket_route(const struct pccl_address *address, struct pccl_address *local);

#endif
