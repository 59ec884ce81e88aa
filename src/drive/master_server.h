/*
 * A master in this process: the state machine of master/ in a thread with an event loop and sockets. Strangers can
 * affect only their own connections.
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
    PCCL_MASTER_HTTP_MAX = 4, /* addresses for HTTP; each may resolve to several */
    PCCL_MASTER_HTTP_PORT = 48180,
};

struct pccl_master_server;

/* Returns the config from the parameters, without boot and seeds. */
struct pccl_master_config pccl_master_server_config(const struct pccl_params *params);
/*
 * Creates a server without using the network; pccl_master_server_run fills in boot and seeds of the config. Returns
 * NULL if out of memory.
 */
struct pccl_master_server *pccl_master_server_create(const struct pccl_master_config *config,
                                                     const struct pccl_host *hosts, uint32_t host_count);
/*
 * Sets a function that is called on the master's thread every `period_ms` (> 0) while that thread's loop runs; it must
 * not block. Call before run.
 */
void pccl_master_server_set_beat(struct pccl_master_server *server, uint32_t period_ms,
                                 void (*beat)(void *context, const struct pccl_master_counts *counts), void *context);
/*
 * Takes the parameters that belong neither to the machine nor to the credentials. Serves HTTP at the addresses `http`,
 * at most PCCL_MASTER_HTTP_MAX (ops/web.h), the parameter's value. Call before run.
 */
void pccl_master_server_set_params(struct pccl_master_server *server, const struct pccl_params *params,
                                   const struct pccl_host *http, uint32_t http_count);
/*
 * Encrypts all connections with these credentials, and takes ownership of their keys and tokens. Without keys it warns
 * about addresses beyond this machine, unless `insecure`. Call before run.
 */
void pccl_master_server_secure(struct pccl_master_server *server, const struct pccl_credentials *credentials,
                               bool insecure);
/*
 * Binds, listens and starts the thread. On failure returns a reason: with INTERNAL, an invariant broke, and the server
 * can only be destroyed; otherwise run may be called again. Do not call again after a success.
 */
PCCL_MUST_CHECK enum pccl_status pccl_master_server_run(struct pccl_master_server *server, struct pccl_text *reason);
/* Returns the port on which the host of this index listens. Only after run. */
uint16_t pccl_master_server_port(const struct pccl_master_server *server, uint32_t index);
/* Returns the port of the first address for HTTP; 0: none. Only after run. */
uint16_t pccl_master_server_http_port(const struct pccl_master_server *server);
/*
 * Requests that the thread notify all peers and end. Does not wait. Any thread and signal handlers, any number of
 * times, after run.
 */
void pccl_master_server_interrupt(struct pccl_master_server *server);
/* Requests that the thread read its certificates again, and log the result. Callers as above. */
void pccl_master_server_reload(struct pccl_master_server *server);
/*
 * Waits until the thread has ended. Call once. Returns INTERNAL if an invariant broke, and peers found their
 * connections closed.
 */
enum pccl_status pccl_master_server_join(struct pccl_master_server *server);
/* Frees a server that never ran, was joined, or broke in run. */
void pccl_master_server_destroy(struct pccl_master_server *server);

#endif
