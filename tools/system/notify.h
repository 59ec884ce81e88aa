/*
 * What the service manager is told: datagrams to the socket that NOTIFY_SOCKET names, as
 * sd_notify(3) describes them. Without one nothing happens. Nothing here blocks or fails the
 * caller.
 */
#ifndef PCCL_TOOLS_SYSTEM_NOTIFY_H
#define PCCL_TOOLS_SYSTEM_NOTIFY_H

#include "master/master.h"

struct notify {
    int socket;       /* -1: nobody listens */
    char to[108];     /* path, or name after an '@' */
    uint32_t beat_ms; /* how often beat is to be called; 0: never */
    bool watched;     /* the manager wants WATCHDOG=1 */
    char status[160]; /* as told last */
};

void notify_open(struct notify *notify);
void notify_say(const struct notify *notify, const char *message);
/* On the master's thread: it turns, and this is what it has. */
void notify_beat(void *notify, const struct pccl_master_counts *counts);
void notify_close(struct notify *notify);

#endif
