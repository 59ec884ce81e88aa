/*
 * Local sockets: peers of one user on one host reach each other at files in a directory that only this user (and root)
 * can search. A file's name has the peer's id and the inode of its network namespace: a path leads across namespaces,
 * and peers in different ones must meet as the network between them allows. Linux only; elsewhere, and whenever
 * anything here fails, peers use TCP.
 *
 * The side that listens sends one byte to a process of its own user before it reads anything: 1 if that process may
 * pass a descriptor now, or 0. The side that dials waits for the byte.
 */
#ifndef PCCL_NET_LOCAL_H
#define PCCL_NET_LOCAL_H

#include "core/id.h"
#include "core/text.h"

#include <uv.h>

struct pccl_local {
    int directory; /* a descriptor */
};

/*
 * Opens the directory, and makes it if it is missing. asked: its path; "": a subdirectory of XDG_RUNTIME_DIR, or
 * else of /tmp. 0, or a negative libuv error with a reason: it cannot be opened, or another user could reach what is in
 * it. Reads the environment.
 */
PCCL_MUST_CHECK int pccl_local_open(struct pccl_local *local, const char *asked, struct pccl_text *reason);
void pccl_local_close(struct pccl_local *local);

/*
 * Listens under this id. Also removes the files of peers that have died without doing so.
 */
PCCL_MUST_CHECK int pccl_local_listen(const struct pccl_local *local, const struct pccl_id *id, uv_os_sock_t *socket);
/* Removes the file. The socket stays the caller's. */
void pccl_local_remove(const struct pccl_local *local, const struct pccl_id *id);
/* Returns false if the process that has connected is not of this user. takes: it may pass a descriptor. */
PCCL_MUST_CHECK bool pccl_local_let_in(uv_os_sock_t accepted, bool takes);

/* UV_ENOENT: this peer is not on this host, or in another network namespace, or of another user. */
PCCL_MUST_CHECK int pccl_local_dial(const struct pccl_local *local, const struct pccl_id *id, uv_os_sock_t *socket);
/*
 * 0: the other side has let this process in; *takes: as it has said. UV_EAGAIN: it has not yet. Others: it has closed.
 */
PCCL_MUST_CHECK int pccl_local_is_let_in(uv_os_sock_t dialed, bool *takes);

#endif
