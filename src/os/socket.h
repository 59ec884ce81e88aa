/*
 * The system's sockets. Every socket is non-blocking, is closed on exec and in forked children, and never raises
 * SIGPIPE. Functions return 0 or a negative libuv error (UV_EAGAIN, UV_ECONNREFUSED ...), so callers need neither errno
 * nor the system's headers. EINTR is handled here.
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
 * Starts a TCP connection. Returns 0 if it is connected or in progress. Once the socket is writable,
 * pccl_socket_outcome returns the result.
 */
PCCL_MUST_CHECK int pccl_socket_dial(const struct pccl_address *address, uv_os_sock_t *socket);
/* true if this host is short of memory or descriptors, so that a later attempt may succeed */
bool pccl_socket_is_shortage(int error);
/* Explains an error. For a shortage of descriptors, includes the limit and how to raise it. */
void pccl_socket_explain(int error, struct pccl_text *reason);
/* Estimates the number of sockets that this process can still open. loop: any open loop. */
uint32_t pccl_socket_count_free(const uv_loop_t *loop);
/* true if this host does not have the address, or does not support its family */
bool pccl_socket_lacks_family(int error);
/* Returns the result of a connection attempt. Also tunes the socket, because the path is known now. */
PCCL_MUST_CHECK int pccl_socket_outcome(uv_os_sock_t socket);
/*
 * Listens on the address. "::" also accepts IPv4 if the system supports that, unless another socket uses the port
 * there.
 */
PCCL_MUST_CHECK int pccl_socket_listen(const struct pccl_address *address, uv_os_sock_t *socket);
/*
 * Listens at a Unix socket that only this user can access. Replaces an abandoned socket file. Returns UV_EADDRINUSE if
 * a process accepts connections there.
 */
PCCL_MUST_CHECK int pccl_socket_listen_local(const char *path, uv_os_sock_t *socket);
/*
 * Open a Unix socket that listens at a path, or is connected to it, and accepts no descriptors. For all POSIX systems,
 * unlike the sockets of os/local.h.
 */
PCCL_MUST_CHECK int pccl_socket_listen_at(const char *path, uv_os_sock_t *socket);
PCCL_MUST_CHECK int pccl_socket_dial_at(const char *path, uv_os_sock_t *socket);
/* Returns false if no process of this host has bound a socket there. Does not affect a bound socket. */
bool pccl_socket_is_bound_at(const char *path);
/* Returns true if the process at the other end of this Unix socket belongs to this user. */
bool pccl_socket_is_of_this_user(uv_os_sock_t connected);
/* Sets whether the other end may pass descriptors. Has no effect before Linux 6.16. */
void pccl_socket_take_descriptors(uv_os_sock_t socket, bool takes);
/*
 * Accepts a connection. Returns UV_EAGAIN if none is waiting, and UV_EMFILE, UV_ENFILE etc. if no descriptor is free.
 * After other errors, try again.
 */
PCCL_MUST_CHECK int pccl_socket_accept(uv_os_sock_t listening, uv_os_sock_t *socket, struct pccl_address *from);

/*
 * Read or write bytes; length must not be 0. Return the number of bytes, or a negative error: UV_EOF if the other side
 * has closed the socket, UV_EPROTO if it has passed descriptors.
 */
ptrdiff_t pccl_socket_read(uv_os_sock_t socket, uint8_t *bytes, size_t length);
ptrdiff_t pccl_socket_write(uv_os_sock_t socket, const uint8_t *bytes, size_t length);

/* Waits until the socket is readable or writable, or has failed. Returns false after limit_ms. */
bool pccl_socket_await(uv_os_sock_t socket, bool writable, uint32_t limit_ms);
/* Reads bytes without consuming them. */
ptrdiff_t pccl_socket_peek(uv_os_sock_t socket, uint8_t *bytes, size_t length);
/* Sets the minimum number of received bytes for which the socket is readable. Some systems ignore it. */
void pccl_socket_wait_bytes(uv_os_sock_t socket, int count);

/* Read or write two places in one call. One of the lengths may be 0. */
ptrdiff_t pccl_socket_read_two(uv_os_sock_t socket, uint8_t *first, size_t first_length, uint8_t *second,
                               size_t second_length);
ptrdiff_t pccl_socket_write_two(uv_os_sock_t socket, const uint8_t *first, size_t first_length, const uint8_t *second,
                                size_t second_length);

/* Writes bytes to a Unix socket, and passes a descriptor to the other process with them. */
ptrdiff_t pccl_socket_write_with(uv_os_sock_t socket, const uint8_t *bytes, size_t length, uv_os_fd_t descriptor);
/*
 * Reads bytes and a descriptor that was passed with them, which the caller then owns. Sets *descriptor to PCCL_NO_FD if
 * none or several were passed. Once bytes have arrived, accepts no more descriptors.
 */
ptrdiff_t pccl_socket_read_with(uv_os_sock_t socket, uint8_t *bytes, size_t length, uv_os_fd_t *descriptor);
/* Closes a descriptor of an unexpected kind, without blocking. */
void pccl_socket_refuse_descriptor(uv_os_fd_t descriptor);

void pccl_socket_shutdown_write(uv_os_sock_t socket);
void pccl_socket_shutdown(uv_os_sock_t socket); /* in both directions; the next read then returns UV_EOF */
void pccl_socket_close(uv_os_sock_t socket);
/* Like pccl_socket_close, but discards data in flight, and the other side sees a reset. */
void pccl_socket_abort(uv_os_sock_t socket);

/* Determines the local address. Returns false if the connection has broken, or if it is a Unix socket. */
PCCL_MUST_CHECK bool pccl_socket_local(uv_os_sock_t socket, struct pccl_address *address);
enum { PCCL_KEEP_ALIVE_MS = 30000 }; /* half of the shortest time after which routers forget idle connections */
/*
 * Makes an open connection fail with UV_ETIMEDOUT when the other host has not answered for about this time. An idle
 * connection sends a keep-alive after half of it, at most PCCL_KEEP_ALIVE_MS.
 */
void pccl_socket_limit_silence(uv_os_sock_t socket, uint32_t silence_ms);
/* Returns true for a Unix socket, for which the system measures no round trip or rate. */
bool pccl_socket_is_local(uv_os_sock_t socket);
/* Returns the system's measurement of an open connection's round trip in microseconds; 0: unknown. */
uint32_t pccl_socket_rtt_us(uv_os_sock_t socket);
/*
 * Determines the local address that this host would use to reach `address`. Sends nothing. Returns false if there is no
 * route.
 */
PCCL_MUST_CHECK bool pccl_socket_route(const struct pccl_address *address, struct pccl_address *local);

#endif
