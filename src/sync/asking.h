/* One connection to a donor. fetching.c, which has the machine and all connections, calls it; not the reverse. */
#ifndef PCCL_SYNC_ASKING_H
#define PCCL_SYNC_ASKING_H

#include "sync/internal.h"

struct pccl_sync_asker {
    struct pccl_sync_link link;
    struct pccl_sync_line *line;
    uint32_t number;                   /* the machine's number for it */
    uint32_t owed;                     /* answers not received yet */
    bool doomed;                       /* the next pccl_sync_fetching_advance closes it; link.reason says why */
    bool device_failed;                /* one of ours, so no donor can help; it is also doomed */
    uint8_t *target;                   /* of the chunk being received; NULL: it is not wanted */
    struct pccl_fetch_arrival arrival; /* of the chunk being received */
    struct pccl_sync_copiers copiers;
    struct pccl_device_copier *copier; /* for the chunk; NULL: it goes straight to host memory */
};

static inline struct pccl_sync_asker *pccl_sync_asker_of(struct pccl_sync_link *link)
{
    return PCCL_CONTAINER_OF(link, struct pccl_sync_asker, link);
}

/*
 * Takes a connection to a donor after its handshake. The role's visits call pccl_sync_asker_receive. NULL: it is
 * closed, because memory is short.
 */
struct pccl_sync_asker *pccl_sync_asker_create(const struct pccl_sync_role *role, struct pccl_sync_line *line,
                                               uint32_t number, struct pccl_handover *handover);
/* Releases its resources, except the link. */
void pccl_sync_asker_release(struct pccl_sync_asker *asker);
/*
 * Reads and takes the input that has arrived, up to the budget. Returns true if it stopped after a large chunk: the
 * machine may ask for more; the caller calls again to go on.
 */
PCCL_MUST_CHECK bool pccl_sync_asker_receive(struct pccl_sync_asker *asker, size_t *budget);
/* Appends a request to the output; a failure dooms the asker. */
void pccl_sync_asker_ask(struct pccl_sync_asker *asker, const struct pccl_msg *msg);
void pccl_sync_asker_watch(struct pccl_sync_asker *asker);

#endif
