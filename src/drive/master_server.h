/*
 * A master in this process: the state machine of master/ in a thread with an event loop and
 * sockets. Strangers can harm only their own connections.
 */
#ifndef PCCL_DRIVE_MASTER_SERVER_H
#define PCCL_DRIVE_MASTER_SERVER_H

#include "core/status.h"
#include "core/text.h"
#include "config/params.h"
#include "drive/credentials.h"
#include "master/master.h"
#include "os/resolve.h"

enum {
    PCCL_MASTER_HOSTS_MAX = 16,
    PCCL_MASTER_HTTP_MAX = 4, /* addresses for HTTP, each of which may have several */
    PCCL_MASTER_HTTP_PORT = 48180,
};

struct pccl_master_server;

/* The config that these parameters ask for, without boot and seeds. */
struct pccl_master_config pccl_master_server_config(const struct pccl_params *params);
/*
 * Touches no network; pccl_master_server_run fills in boot and seeds of the config. NULL: out of
 * memory.
 */
struct pccl_master_server *pccl_master_server_create(const struct pccl_master_config *config,
                                                     const struct pccl_host *hosts, uint32_t host_count);
/*
 * Before run: beat is called on the master's thread every period_ms (> 0) as long as that thread's
 * loop runs; it must not block.
 */
void pccl_master_server_set_beat(struct pccl_master_server *server, uint32_t period_ms,
                                 void (*beat)(void *context, const struct pccl_master_counts *counts), void *context);
/*
 * Before run: takes the parameters that are not of the machine or the credentials. Answers HTTP at the addresses
 * `http`, at most PCCL_MASTER_HTTP_MAX (ops/web.h), which are those of the parameter of that name.
 */
void pccl_master_server_set_params(struct pccl_master_server *server, const struct pccl_params *params,
                                   const struct pccl_host *http, uint32_t http_count);
/*
 * Before run: all connections are encrypted with these credentials, whose keys and tokens are the server's from now
 * on. Without keys it warns about addresses beyond this machine, unless `insecure`.
 */
void pccl_master_server_secure(struct pccl_master_server *server, const struct pccl_credentials *credentials,
                               bool insecure);
/*
 * Binds, listens and starts the thread. SYSTEM or MEMORY with a reason: it may be called again.
 * INTERNAL with a reason: an invariant broke, and the server can only be destroyed. Must not be
 * called again after a success.
 */
PCCL_MUST_CHECK enum pccl_status pccl_master_server_run(struct pccl_master_server *server, struct pccl_text *reason);
/* The port on which the host of this index listens. Only after run. */
uint16_t pccl_master_server_port(const struct pccl_master_server *server, uint32_t index);
/* The port of the first address for HTTP; 0: none. Only after run. */
uint16_t pccl_master_server_http_port(const struct pccl_master_server *server);
/*
 * Asks the thread to tell all peers and to end. Does not wait. Any thread and signal handlers, any
 * number of times, after run.
 */
void pccl_master_server_interrupt(struct pccl_master_server *server);
/* Asks the thread to read its certificates again, and to log how that went; otherwise the same. */
void pccl_master_server_reload(struct pccl_master_server *server);
/*
 * Waits until the thread has ended. To be called once. INTERNAL: an invariant broke, and peers
 * found their connections closed.
 */
enum pccl_status pccl_master_server_join(struct pccl_master_server *server);
/* For a server that never ran, was joined, or broke in run. */
void pccl_master_server_destroy(struct pccl_master_server *server);

#endif
