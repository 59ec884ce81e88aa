/*
 * The interface between asking.c, which handles one connection to a donor, and fetching.c, which
 * holds the machine and all connections.
 */
#ifndef PCCL_SYNC_ASKING_H
#define PCCL_SYNC_ASKING_H

#include "sync/internal.h"

struct pccl_sync_asker {
    struct pccl_sync_link link;
    struct pccl_sync_line *line;
    uint32_t number;                   /* the machine's number for it */
    uint32_t owed;                     /* answers not received yet */
    bool doomed;                       /* the next pccl_sync_fetching_advance closes it; link.reason says why */
    uint8_t *target;                   /* of the chunk being received; NULL: it is not wanted */
    struct pccl_fetch_arrival arrival; /* of the chunk being received */
    struct pccl_sync_lanes lanes;
    struct pccl_device_lane *lane; /* for the chunk; NULL: it goes straight to host memory */
};

/*
 * Takes a connection to a donor after its handshake. NULL: it is closed, because memory is short.
 */
struct pccl_sync_asker *pccl_sync_asker_create(struct pccl_sync_line *line, uint32_t number,
                                               struct pccl_handover *handover);
/* Appends a request to the output; a failure dooms the asker. */
void pccl_sync_asker_ask(struct pccl_sync_asker *asker, const struct pccl_msg *msg);
void pccl_sync_asker_watch(struct pccl_sync_asker *asker);

#endif
