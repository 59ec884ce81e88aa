/* Public functions of masters. */
#include "ccoip.h"
#include "api/api.h"
#include "drive/credentials.h"
#include "drive/master_server.h"
#include "net/fork.h"
#include "net/heap.h"

enum state { CREATED, RUNNING, ENDED };

struct pcclMasterInstanceState_t {
    struct pccl_master_server *server;
    uint32_t generation; /* of the process: net/fork.h */
    _Atomic enum state state;
    enum pccl_status end; /* when ENDED */
};

static pcclResult_t fail(bool extended, enum pccl_status status, const char *reason)
{
    return pccl_errors_fail(0, PCCL_FAMILY_MASTER, extended, status, "%s", reason);
}

static pcclResult_t create(const pcclOptions_t *options, const struct pccl_host *hosts, uint32_t count, bool extended,
                           pcclMasterInstance_t **master_out)
{
    struct pccl_params params;
    struct pccl_text reason;
    enum pccl_status status = pccl_params_load(options, pcclParameterMaster, &params, &reason);
    if (status != PCCL_OK)
        return fail(extended, status, reason.bytes);
    struct pccl_host http[PCCL_MASTER_HTTP_MAX];
    uint32_t http_count = 0;
    if (params.http[0])
        status = pccl_api_hosts(params.http, PCCL_MASTER_HTTP_PORT, http, PCCL_MASTER_HTTP_MAX, &http_count, &reason);
    struct pccl_credentials credentials;
    if (status == PCCL_OK)
        status = pccl_credentials_of_master(&params, &credentials, &reason);
    if (status != PCCL_OK)
        return fail(extended, status, reason.bytes);
    struct pccl_master_config config = pccl_master_server_config(&params);
    pcclMasterInstance_t *master = pccl_allocate(pccl_heap(), sizeof *master);
    struct pccl_master_server *server = master ? pccl_master_server_create(&config, hosts, count) : NULL;
    if (!server) {
        pccl_release(pccl_heap(), master, sizeof *master);
        pccl_credentials_end(&credentials);
        return fail(extended, PCCL_MEMORY, "out of memory for a master");
    }
    master->server = server;
    pccl_master_server_secure(server, &credentials, params.insecure);
    pccl_master_server_set_params(server, &params, http, http_count);
    master->generation = pccl_fork_generation();
    *master_out = master;
    return pcclSuccess;
}

static pcclResult_t create_master(ccoip_socket_address_t listen_address, pcclMasterInstance_t **master_out)
{
    struct pccl_host host;
    struct pccl_text reason;
    if (!master_out)
        return fail(false, PCCL_ARGUMENT, "pcclCreateMaster: master_out is NULL");
    enum pccl_status status = pccl_api_host(&listen_address, &host, &reason);
    if (status != PCCL_OK)
        return fail(false, status, reason.bytes);
    return create(NULL, &host, 1, false, master_out);
}

pcclResult_t pcclCreateMaster(ccoip_socket_address_t listen_address, pcclMasterInstance_t **master_out)
{
    PCCL_API_GUARDED(PCCL_FAMILY_MASTER, create_master(listen_address, master_out));
}

static pcclResult_t create_master_with_options(const char *listen_addresses, const pcclOptions_t *options,
                                               pcclMasterInstance_t **master_out)
{
    struct pccl_host hosts[PCCL_MASTER_HOSTS_MAX];
    struct pccl_text reason;
    uint32_t count;
    if (!listen_addresses || !master_out)
        return fail(true, PCCL_ARGUMENT, "pcclCreateMasterWithOptions: listen_addresses or master_out is NULL");
    enum pccl_status status =
        pccl_api_hosts(listen_addresses, CCOIP_PROTOCOL_PORT_MASTER, hosts, PCCL_MASTER_HOSTS_MAX, &count, &reason);
    if (status != PCCL_OK)
        return fail(true, status, reason.bytes);
    return create(options, hosts, count, true, master_out);
}

pcclResult_t pcclCreateMasterWithOptions(const char *listen_addresses, const pcclOptions_t *options,
                                         pcclMasterInstance_t **master_out)
{
    PCCL_API_GUARDED(PCCL_FAMILY_MASTER, create_master_with_options(listen_addresses, options, master_out));
}

/* pcclSuccess, or what is wrong with the handle. */
static pcclResult_t check(const pcclMasterInstance_t *master)
{
    if (!master)
        return fail(false, PCCL_ARGUMENT, "master is NULL");
    if (master->generation != pccl_fork_generation())
        return fail(false, PCCL_USAGE, "this master belongs to the parent process; after a fork it cannot be used");
    return pcclSuccess;
}

static pcclResult_t check_run(const pcclMasterInstance_t *master)
{
    pcclResult_t result = check(master);
    if (result == pcclSuccess && atomic_load(&master->state) == CREATED)
        result = fail(false, PCCL_USAGE, "this master was never run");
    return result;
}

static pcclResult_t run_master(pcclMasterInstance_t *master)
{
    struct pccl_text reason;
    pcclResult_t result = check(master);
    if (result != pcclSuccess)
        return result;
    if (atomic_load(&master->state) != CREATED)
        return fail(false, PCCL_USAGE, "this master was run before");
    enum pccl_status status = pccl_master_server_run(master->server, &reason);
    if (status == PCCL_INTERNAL) {
        master->end = status;
        atomic_store(&master->state, ENDED);
    }
    if (status != PCCL_OK)
        return fail(false, status, reason.bytes);
    atomic_store(&master->state, RUNNING);
    return pcclSuccess;
}

pcclResult_t pcclRunMaster(pcclMasterInstance_t *master) { PCCL_API_GUARDED(PCCL_FAMILY_MASTER, run_master(master)); }

pcclResult_t pcclMasterGetPort(const pcclMasterInstance_t *master, uint16_t *port_out)
{
    if (!port_out)
        return fail(true, PCCL_ARGUMENT, "pcclMasterGetPort: port_out is NULL");
    pcclResult_t result = check_run(master);
    if (result == pcclSuccess)
        *port_out = pccl_master_server_port(master->server, 0);
    return result;
}

/* No guard: handlers of signals call it, and the next one. */
pcclResult_t pcclReloadMaster(pcclMasterInstance_t *master)
{
    pcclResult_t result = check_run(master);
    if (result == pcclSuccess)
        pccl_master_server_reload(master->server);
    return result;
}

pcclResult_t pcclInterruptMaster(pcclMasterInstance_t *master)
{
    pcclResult_t result = check_run(master);
    if (result == pcclSuccess)
        pccl_master_server_interrupt(master->server);
    return result;
}

static pcclResult_t await_termination(pcclMasterInstance_t *master)
{
    pcclResult_t result = check_run(master);
    if (result != pcclSuccess)
        return result;
    if (atomic_load(&master->state) != ENDED) {
        master->end = pccl_master_server_join(master->server);
        atomic_store(&master->state, ENDED);
    }
    return master->end == PCCL_OK ? pcclSuccess
                                  : fail(false, master->end, "the master ended because of an internal error");
}

pcclResult_t pcclMasterAwaitTermination(pcclMasterInstance_t *master)
{
    PCCL_API_GUARDED(PCCL_FAMILY_MASTER, await_termination(master));
}

static pcclResult_t destroy_master(pcclMasterInstance_t *master)
{
    if (!master)
        return fail(false, PCCL_ARGUMENT, "master is NULL");
    if (master->generation != pccl_fork_generation())
        return pcclSuccess; /* its thread is the parent's; its sockets are closed here already */
    if (atomic_load(&master->state) == RUNNING)
        return fail(false, PCCL_USAGE, "this master runs, or its termination was not awaited");
    pccl_master_server_destroy(master->server);
    pccl_release(pccl_heap(), master, sizeof *master);
    return pcclSuccess;
}

pcclResult_t pcclDestroyMaster(pcclMasterInstance_t *master)
{
    PCCL_API_GUARDED(PCCL_FAMILY_MASTER, destroy_master(master));
}
