/* Between asking.c, one connection to a donor, and fetching.c, which holds the machine and all of them. */
#ifndef PCCL_SYNC_ASKING_H
#define PCCL_SYNC_ASKING_H

#include "sync/internal.h"

struct pccl_sync_asker {
    struct pccl_sync_link link;
    struct pccl_sync_line *line;
    uint32_t number;                   /* of the machine's donors */
    uint32_t owed;                     /* answers */
    bool doomed;                       /* the next settle closes it; link.reason says why */
    uint8_t *target;                   /* of the chunk that is being received; NULL: nobody wants it */
    struct pccl_fetch_arrival arrival; /* of the chunk that is being received */
    struct pccl_sync_lanes lanes;
    struct pccl_device_lane *lane; /* for it; NULL: straight to its place */
};

/* A connection to a donor stands. NULL: it is closed, for want of memory. */
struct pccl_sync_asker *pccl_sync_asker_create(struct pccl_sync_line *line, uint32_t number,
                                               struct pccl_handover *handover);
/* Puts it behind what is to be sent; a failure dooms it. */
void pccl_sync_asker_ask(struct pccl_sync_asker *asker, const struct pccl_msg *msg);
void pccl_sync_asker_watch(struct pccl_sync_asker *asker);

#endif
