/*
 * Local sockets. Peers of one user on one host connect through socket files in a directory that only this user (and
 * root) can search. The name of a file contains the peer's id and the inode of its network namespace: peers in
 * different namespaces must connect over the network, although they may see the same files. Linux only. On other
 * systems, and if any function here fails, peers use TCP.
 *
 * A listener first sends one byte to a connected process of the same user: 1 if that process may pass a descriptor,
 * otherwise 0. The dialing process waits for this byte.
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
 * Opens the directory, and creates it if it is missing. asked: the path; "" means a subdirectory of XDG_RUNTIME_DIR or,
 * if that is not set, of /tmp. Reads the environment. On failure returns a negative libuv error with a reason: the
 * directory cannot be opened, or another user could access its files.
 */
PCCL_MUST_CHECK int pccl_local_open(struct pccl_local *local, const char *asked, struct pccl_text *reason);
void pccl_local_close(struct pccl_local *local);

/* Listens under this id. Also removes the files of peers that have died. */
PCCL_MUST_CHECK int pccl_local_listen(const struct pccl_local *local, const struct pccl_id *id, uv_os_sock_t *socket);
/* Removes the socket file. The caller closes the socket. */
void pccl_local_remove(const struct pccl_local *local, const struct pccl_id *id);
/*
 * Admits the connected process. Returns false if it belongs to another user, or if the byte cannot be sent. takes: the
 * process may pass a descriptor.
 */
PCCL_MUST_CHECK bool pccl_local_let_in(uv_os_sock_t accepted, bool takes);

/*
 * Connects to a peer's socket. Returns UV_ENOENT if the peer is on another host, in another network namespace, or of
 * another user.
 */
PCCL_MUST_CHECK int pccl_local_dial(const struct pccl_local *local, const struct pccl_id *id, uv_os_sock_t *socket);
/*
 * Returns 0 if the listener has admitted this process, and sets *takes to its byte. Returns UV_EAGAIN if the byte has
 * not arrived yet, or another error if the connection was closed.
 */
PCCL_MUST_CHECK int pccl_local_is_let_in(uv_os_sock_t dialed, bool *takes);

#endif
