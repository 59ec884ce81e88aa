/* One connection to a donor. Called by fetching.c, which has the machine and all connections; does not call it. */
#ifndef PCCL_SYNC_ASKING_H
#define PCCL_SYNC_ASKING_H

#include "sync/internal.h"

struct pccl_sync_asker {
    struct pccl_worker_link link;
    uint32_t number;                   /* number of the connection in the machine */
    uint32_t owed;                     /* number of answers not received yet */
    bool doomed;                       /* the next pccl_sync_fetching_advance closes it */
    bool device_failed;                /* one of our devices failed, so no donor can help; also sets `doomed` */
    uint8_t *target;                   /* place for the chunk being received; NULL: it is not wanted */
    struct pccl_fetch_arrival arrival; /* description of the chunk being received */
    struct pccl_sync_copiers copiers;
    struct pccl_device_copier *copier; /* copier for the chunk; NULL: received directly in host memory */
};

static inline struct pccl_sync_asker *pccl_sync_asker_of(struct pccl_worker_link *link)
{
    return PCCL_CONTAINER_OF(link, struct pccl_sync_asker, link);
}

/* Functions of the role in fetching.c. */
bool pccl_sync_asker_message(struct pccl_worker_link *link, const struct pccl_msg *msg);
enum pccl_channel_io pccl_sync_asker_take(struct pccl_worker_link *link);
void pccl_sync_asker_release(struct pccl_worker_link *link);
/*
 * Reads and takes the input that has arrived, up to the budget. Returns true if it stopped after a large chunk, so that
 * the machine can ask for more; the caller calls again to continue.
 */
PCCL_MUST_CHECK bool pccl_sync_asker_receive(struct pccl_sync_asker *asker, size_t *budget);
/* Appends a request to the output; a failure dooms the asker. */
void pccl_sync_asker_ask(struct pccl_sync_asker *asker, const struct pccl_msg *msg);
void pccl_sync_asker_watch(struct pccl_sync_asker *asker);

#endif
