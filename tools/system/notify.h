/*
 * Messages to the service manager: datagrams to the socket in NOTIFY_SOCKET, as in sd_notify(3). Without one these
 * functions do nothing. They never block, and never fail the caller.
 */
#ifndef PCCL_TOOLS_SYSTEM_NOTIFY_H
#define PCCL_TOOLS_SYSTEM_NOTIFY_H

#include "master/master.h"

struct notify {
    int socket;       /* -1: no manager */
    char to[108];     /* path, or name after an '@' */
    uint32_t beat_ms; /* interval of notify_beat; 0: never */
    bool watched;     /* the manager wants WATCHDOG=1 */
    char status[160]; /* status sent last */
};

void notify_open(struct notify *notify);
void notify_say(const struct notify *notify, const char *message);
/* Reports that the master's thread runs, with its counts. On that thread. */
void notify_beat(void *notify, const struct pccl_master_counts *counts);
void notify_close(struct notify *notify);

#endif
