/*
 * Local sockets: peers of one user on one host connect at socket files in a directory that only this user (and root)
 * can search. A file's name holds the peer's id and the inode of its network namespace, because a path works across
 * namespaces, and peers in different ones must connect over the network. Linux only. On other systems, and if any
 * function here fails, peers use TCP.
 *
 * The listener first sends one byte to a connected process of the same user: 1 if that process may pass a descriptor,
 * else 0. The dialer waits for the byte.
 */
#ifndef PCCL_OS_LOCAL_H
#define PCCL_OS_LOCAL_H

#include "core/id.h"
#include "core/text.h"

#include <uv.h>

struct pccl_local {
    int directory; /* descriptor of the directory */
};

/*
 * Opens the directory, and makes it if it is missing. asked: its path; "": a subdirectory of XDG_RUNTIME_DIR, or
 * else of /tmp. Reads the environment. Returns 0, or a negative libuv error with a reason: it cannot be opened, or
 * another user could reach its files.
 */
PCCL_MUST_CHECK int pccl_local_open(struct pccl_local *local, const char *asked, struct pccl_text *reason);
void pccl_local_close(struct pccl_local *local);

/* Listens under this id. Also removes the files of peers that have died. */
PCCL_MUST_CHECK int pccl_local_listen(const struct pccl_local *local, const struct pccl_id *id, uv_os_sock_t *socket);
/* Removes the file. The caller closes the socket. */
void pccl_local_remove(const struct pccl_local *local, const struct pccl_id *id);
/*
 * Lets the connected process in. Returns false if it belongs to another user, or the byte cannot be sent. takes: it may
 * pass a descriptor.
 */
PCCL_MUST_CHECK bool pccl_local_let_in(uv_os_sock_t accepted, bool takes);

/*
 * Connects to a peer's socket. Returns UV_ENOENT if the peer is not on this host, in another network namespace, or of
 * another user.
 */
PCCL_MUST_CHECK int pccl_local_dial(const struct pccl_local *local, const struct pccl_id *id, uv_os_sock_t *socket);
/*
 * Returns 0 if the listener has let this process in, and sets *takes to its byte; UV_EAGAIN if it has not done so yet;
 * another error if it has closed the connection.
 */
PCCL_MUST_CHECK int pccl_local_is_let_in(uv_os_sock_t dialed, bool *takes);

#endif
