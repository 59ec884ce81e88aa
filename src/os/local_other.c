#include "os/local.h"

int pccl_local_open(struct pccl_local *local, const char *asked, struct pccl_text *reason)
{
    (void)local;
    (void)asked;
    pccl_text_format(reason, "this system does not support local sockets");
    return UV_ENOTSUP;
}

void pccl_local_close(struct pccl_local *local) { (void)local; }

int pccl_local_listen(const struct pccl_local *local, const struct pccl_id *id, uv_os_sock_t *socket)
{
    (void)local;
    (void)id;
    (void)socket;
    return UV_ENOTSUP;
}

void pccl_local_remove(const struct pccl_local *local, const struct pccl_id *id)
{
    (void)local;
    (void)id;
}

bool pccl_local_let_in(uv_os_sock_t accepted, bool takes)
{
    (void)accepted;
    (void)takes;
    return false;
}

int pccl_local_dial(const struct pccl_local *local, const struct pccl_id *id, uv_os_sock_t *socket)
{
    return pccl_local_listen(local, id, socket);
}

int pccl_local_is_let_in(uv_os_sock_t dialed, bool *takes)
{
    (void)dialed;
    (void)takes;
    return UV_ENOTSUP;
}
