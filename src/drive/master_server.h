/*
 * A master in this process: the master's state machine (src/master) on a thread with an event loop and sockets. A
 * stranger can affect only its own connections.
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
    PCCL_MASTER_HTTP_MAX = 4, /* maximum number of HTTP addresses; each may resolve to several */
    PCCL_MASTER_HTTP_PORT = 48180,
};

struct pccl_master_server;

/* Returns the config from the parameters, without boot and seeds. */
struct pccl_master_config pccl_master_server_config(const struct pccl_params *params);
/*
 * Creates a server without using the network; pccl_master_server_run sets boot and seeds of the config. Returns NULL if
 * out of memory.
 */
struct pccl_master_server *pccl_master_server_create(const struct pccl_master_config *config,
                                                     const struct pccl_host *hosts, uint32_t host_count);
/*
 * Sets a function that is called on the master's thread every `period_ms` (> 0) while its loop runs. It must not block.
 * Call before run.
 */
void pccl_master_server_set_beat(struct pccl_master_server *server, uint32_t period_ms,
                                 void (*beat)(void *context, const struct pccl_master_counts *counts), void *context);
/*
 * Sets the parameters that belong neither to the state machine nor to the credentials. Serves HTTP at the addresses
 * `http`, at most PCCL_MASTER_HTTP_MAX (ops/web.h). Call before run.
 */
void pccl_master_server_set_params(struct pccl_master_server *server, const struct pccl_params *params,
                                   const struct pccl_host *http, uint32_t http_count);
/*
 * Encrypts all connections with these credentials and takes ownership of their keys and tokens. Without keys, the
 * server warns about addresses that other machines can reach, unless `insecure` is true. Call before run.
 */
void pccl_master_server_secure(struct pccl_master_server *server, const struct pccl_credentials *credentials,
                               bool insecure);
/*
 * Binds, listens and starts the thread. On failure returns a reason; after INTERNAL an invariant broke and the server
 * can only be destroyed, after any other failure run may be called again. Must not be called again after a success.
 */
PCCL_MUST_CHECK enum pccl_status pccl_master_server_run(struct pccl_master_server *server, struct pccl_text *reason);
/* Returns the port on which the host with this index listens. Only after run. */
uint16_t pccl_master_server_port(const struct pccl_master_server *server, uint32_t index);
/* Returns the port of the first HTTP address; 0: no address. Only after run. */
uint16_t pccl_master_server_http_port(const struct pccl_master_server *server);
/*
 * Requests that the thread notify all peers and end. Does not wait. Callable on any thread and in signal handlers, any
 * number of times, after run.
 */
void pccl_master_server_interrupt(struct pccl_master_server *server);
/* Requests that the thread reread its certificates and log the result. Callable like pccl_master_server_interrupt. */
void pccl_master_server_reload(struct pccl_master_server *server);
/*
 * Waits until the thread has ended. Call once. Returns INTERNAL if an invariant broke; the peers' connections were then
 * closed without a message.
 */
enum pccl_status pccl_master_server_join(struct pccl_master_server *server);
/* Frees a server that never ran, was joined, or broke in run. */
void pccl_master_server_destroy(struct pccl_master_server *server);

#endif
