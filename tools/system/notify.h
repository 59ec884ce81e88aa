/*
 * Messages to the service manager: datagrams to the socket in NOTIFY_SOCKET, as in sd_notify(3). If it is not set,
 * these functions do nothing. They never block, and ignore errors.
 */
#ifndef PCCL_TOOLS_SYSTEM_NOTIFY_H
#define PCCL_TOOLS_SYSTEM_NOTIFY_H

#include "master/master.h"

struct notify {
    int socket;       /* -1: there is no manager */
    char to[108];     /* path, or an abstract name after '@' */
    uint32_t beat_ms; /* interval at which notify_beat must be called; 0: never */
    bool watched;     /* true if the manager expects WATCHDOG=1 */
    char status[160]; /* last status sent */
};

void notify_open(struct notify *notify);
void notify_say(const struct notify *notify, const char *message);
/* Reports that the master's thread is running, with its counts. Call on that thread. */
void notify_beat(void *notify, const struct pccl_master_counts *counts);
void notify_close(struct notify *notify);

#endif
