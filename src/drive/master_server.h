/*
 * A master in this process: the state machine of master/ in a thread with an event loop and sockets. What strangers
 * send costs nobody but them.
 */
#ifndef PCCL_DRIVE_MASTER_SERVER_H
#define PCCL_DRIVE_MASTER_SERVER_H

#include "core/status.h"
#include "core/text.h"
#include "config/params.h"
#include "master/master.h"
#include "net/resolve.h"

enum { PCCL_MASTER_HOSTS_MAX = 16 };

struct pccl_master_server;

/* As the parameters say; boot and seeds are not set. */
struct pccl_master_config pccl_master_server_config(const struct pccl_params *params);
/* boot and seeds of the config are filled in when it starts. NULL: out of memory. Touches no network. */
struct pccl_master_server *pccl_master_server_create(const struct pccl_master_config *config,
                                                     const struct pccl_host *hosts, uint32_t host_count);
/*
 * Before run: beat is called on the master's thread every period_ms (> 0) as long as that thread turns; it must not
 * block.
 */
void pccl_master_server_set_beat(struct pccl_master_server *server, uint32_t period_ms,
                                 void (*beat)(void *context, const struct pccl_master_counts *counts), void *context);
/* Before run: what is known of the links is written there after each optimization (report_file.h). "": nowhere. */
void pccl_master_server_set_report_file(struct pccl_master_server *server, const char *path);
/*
 * Binds, listens and starts the thread. SYSTEM or MEMORY with a reason; then it can be tried again. At most once on
 * success. INTERNAL with a reason: an invariant broke, and it can only be destroyed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_master_server_run(struct pccl_master_server *server, struct pccl_text *reason);
/* The port of the host of this index. Only after run. */
uint16_t pccl_master_server_port(const struct pccl_master_server *server, uint32_t index);
/* Asks the thread to tell all peers and to end. Any thread, any number of times, after run. Does not wait. */
void pccl_master_server_interrupt(struct pccl_master_server *server);
/* Waits until the thread has ended. Once. INTERNAL: an invariant broke, and peers found their connections closed. */
enum pccl_status pccl_master_server_join(struct pccl_master_server *server);
/* Never run, joined, or broken in run. */
void pccl_master_server_destroy(struct pccl_master_server *server);

#endif
