/* Public functions of masters. */
#include "ccoip.h"
#include "api/api.h"
#include "drive/credentials.h"
#include "drive/master_server.h"
#include "os/fork.h"
#include "net/heap.h"

enum state { CREATED, RUNNING, ENDED };

struct pcclMasterInstanceState_t {
    struct pccl_master_server *server;
    uint32_t generation; /* fork generation of the process that created the master (os/fork.h) */
    _Atomic enum state state;
    enum pccl_status end; /* result of the thread, valid once ENDED */
};

static enum pccl_status create(struct pccl_api_call *call, const pcclOptions_t *options, const struct pccl_host *hosts,
                               uint32_t count, pcclMasterInstance_t **master_out)
{
    struct pccl_params params;
    struct pccl_text *reason = &call->why.reason;
    enum pccl_status status = pccl_params_load(options, pcclParameterMaster, &params, reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_host http[PCCL_MASTER_HTTP_MAX];
    uint32_t http_count = 0;
    if (params.http[0])
        status = pccl_api_hosts(params.http, PCCL_MASTER_HTTP_PORT, http, PCCL_MASTER_HTTP_MAX, &http_count, reason);
    struct pccl_credentials credentials;
    if (status == PCCL_OK)
        status = pccl_credentials_of_master(&params, &credentials, reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_master_config config = pccl_master_server_config(&params);
    pcclMasterInstance_t *master = pccl_allocate(pccl_heap(), sizeof *master);
    struct pccl_master_server *server = master ? pccl_master_server_create(&config, hosts, count) : NULL;
    if (!server) {
        pccl_release(pccl_heap(), master, sizeof *master);
        pccl_credentials_end(&credentials);
        return pccl_fail(reason, PCCL_MEMORY, "out of memory for a master");
    }
    master->server = server;
    pccl_master_server_secure(server, &credentials, params.insecure);
    pccl_master_server_set_params(server, &params, http, http_count);
    master->generation = pccl_fork_generation();
    *master_out = master;
    return PCCL_OK;
}

static enum pccl_status create_master(struct pccl_api_call *call, const ccoip_socket_address_t *listen_address,
                                      pcclMasterInstance_t **master_out)
{
    struct pccl_host host;
    if (!master_out)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclCreateMaster: master_out is NULL");
    enum pccl_status status = pccl_api_host(listen_address, &host, &call->why.reason);
    return status == PCCL_OK ? create(call, NULL, &host, 1, master_out) : status;
}

pcclResult_t pcclCreateMaster(ccoip_socket_address_t listen_address, pcclMasterInstance_t **master_out)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_MASTER, create_master(call, &listen_address, master_out));
}

static enum pccl_status create_with_options(struct pccl_api_call *call, const char *listen_addresses,
                                            const pcclOptions_t *options, pcclMasterInstance_t **master_out)
{
    struct pccl_host hosts[PCCL_MASTER_HOSTS_MAX];
    struct pccl_text *reason = &call->why.reason;
    uint32_t count;
    call->extended = true;
    if (!listen_addresses || !master_out)
        return pccl_fail(reason, PCCL_ARGUMENT, "pcclCreateMasterWithOptions: listen_addresses or master_out is NULL");
    enum pccl_status status =
        pccl_api_hosts(listen_addresses, CCOIP_PROTOCOL_PORT_MASTER, hosts, PCCL_MASTER_HOSTS_MAX, &count, reason);
    return status == PCCL_OK ? create(call, options, hosts, count, master_out) : status;
}

pcclResult_t pcclCreateMasterWithOptions(const char *listen_addresses, const pcclOptions_t *options,
                                         pcclMasterInstance_t **master_out)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_MASTER, create_with_options(call, listen_addresses, options, master_out));
}

static enum pccl_status check(struct pccl_api_call *call, const pcclMasterInstance_t *master)
{
    if (!master)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "master is NULL");
    if (master->generation != pccl_fork_generation())
        return pccl_fail(&call->why.reason, PCCL_USAGE,
                         "this master belongs to the parent process and cannot be used after a fork");
    return PCCL_OK;
}

static enum pccl_status check_run(struct pccl_api_call *call, const pcclMasterInstance_t *master)
{
    enum pccl_status status = check(call, master);
    if (status == PCCL_OK && atomic_load(&master->state) == CREATED)
        status = pccl_fail(&call->why.reason, PCCL_USAGE, "this master was never run");
    return status;
}

static enum pccl_status run_master(struct pccl_api_call *call, pcclMasterInstance_t *master)
{
    enum pccl_status status = check(call, master);
    if (status != PCCL_OK)
        return status;
    if (atomic_load(&master->state) != CREATED)
        return pccl_fail(&call->why.reason, PCCL_USAGE, "this master has already been run");
    status = pccl_master_server_run(master->server, &call->why.reason);
    if (status == PCCL_INTERNAL) {
        master->end = status;
        atomic_store(&master->state, ENDED);
    }
    if (status == PCCL_OK)
        atomic_store(&master->state, RUNNING);
    return status;
}

pcclResult_t pcclRunMaster(pcclMasterInstance_t *master)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_MASTER, run_master(call, master));
}

static enum pccl_status get_port(struct pccl_api_call *call, const pcclMasterInstance_t *master, uint16_t *port_out)
{
    if (!port_out)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclMasterGetPort: port_out is NULL");
    enum pccl_status status = check_run(call, master);
    if (status == PCCL_OK)
        *port_out = pccl_master_server_port(master->server, 0);
    return status;
}

pcclResult_t pcclMasterGetPort(const pcclMasterInstance_t *master, uint16_t *port_out)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_MASTER, get_port(call, master, port_out));
}

static enum pccl_status wake(struct pccl_api_call *call, const pcclMasterInstance_t *master,
                             void (*tell)(struct pccl_master_server *server))
{
    enum pccl_status status = check_run(call, master);
    if (status == PCCL_OK)
        tell(master->server);
    return status;
}

pcclResult_t pcclReloadMaster(pcclMasterInstance_t *master)
{
    PCCL_API_SIGNAL_CALL(PCCL_FAMILY_MASTER, wake(call, master, pccl_master_server_reload));
}

pcclResult_t pcclInterruptMaster(pcclMasterInstance_t *master)
{
    PCCL_API_SIGNAL_CALL(PCCL_FAMILY_MASTER, wake(call, master, pccl_master_server_interrupt));
}

static enum pccl_status await_termination(struct pccl_api_call *call, pcclMasterInstance_t *master)
{
    enum pccl_status status = check_run(call, master);
    if (status != PCCL_OK)
        return status;
    if (atomic_load(&master->state) != ENDED) {
        master->end = pccl_master_server_join(master->server);
        atomic_store(&master->state, ENDED);
    }
    return master->end == PCCL_OK
               ? PCCL_OK
               : pccl_fail(&call->why.reason, master->end, "the master ended because of an internal error");
}

pcclResult_t pcclMasterAwaitTermination(pcclMasterInstance_t *master)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_MASTER, await_termination(call, master));
}

static enum pccl_status destroy_master(struct pccl_api_call *call, pcclMasterInstance_t *master)
{
    if (!master)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "master is NULL");
    if (master->generation != pccl_fork_generation())
        return PCCL_OK; /* forked child: the parent runs the thread, and the sockets are already closed here */
    if (atomic_load(&master->state) == RUNNING)
        return pccl_fail(&call->why.reason, PCCL_USAGE,
                         "this master is running, or its termination has not been awaited");
    pccl_master_server_destroy(master->server);
    pccl_release(pccl_heap(), master, sizeof *master);
    return PCCL_OK;
}

pcclResult_t pcclDestroyMaster(pcclMasterInstance_t *master)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_MASTER, destroy_master(call, master));
}
