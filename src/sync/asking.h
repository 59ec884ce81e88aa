/* One connection to a donor. fetching.c owns the machine and all connections, and calls these functions. */
#ifndef PCCL_SYNC_ASKING_H
#define PCCL_SYNC_ASKING_H

#include "sync/internal.h"

struct pccl_sync_asker {
    struct pccl_worker_link link;
    uint32_t number;      /* number of the connection in the machine */
    uint32_t outstanding; /* number of outstanding answers */
    bool doomed;          /* true if the next pccl_sync_fetching_advance must close it */
    /* true if one of this peer's devices has failed, so that no donor can help; `doomed` is then also set */
    bool device_failed;
    uint8_t *target;                   /* destination of the chunk being received; NULL if it is not wanted */
    struct pccl_fetch_arrival arrival; /* description of the chunk being received */
    struct pccl_sync_copiers copiers;
    struct pccl_device_copier *copier; /* copier for the chunk; NULL if it is received directly in host memory */
};

static inline struct pccl_sync_asker *pccl_sync_asker_of(struct pccl_worker_link *link)
{
    return PCCL_CONTAINER_OF(link, struct pccl_sync_asker, link);
}

/* Functions of the role that fetching.c defines. */
bool pccl_sync_asker_message(struct pccl_worker_link *link, const struct pccl_msg *msg);
enum pccl_channel_io pccl_sync_asker_take(struct pccl_worker_link *link);
void pccl_sync_asker_release(struct pccl_worker_link *link);
/*
 * Reads and handles the input that has arrived, up to the budget. Returns true if it stopped after a large chunk, so
 * that the machine can request more; call again to continue.
 */
PCCL_MUST_CHECK bool pccl_sync_asker_receive(struct pccl_sync_asker *asker, size_t *budget);
/* Appends a request to the output. A failure sets `doomed`. */
void pccl_sync_asker_ask(struct pccl_sync_asker *asker, const struct pccl_msg *msg);
void pccl_sync_asker_watch(struct pccl_sync_asker *asker);

#endif
