/*
 * Lifecycle of a communicator: its control thread, its state machine and its end. This is the only file that connects
 * all modules with the state machine's effects and with the loop, without depending on their details.
 */
#include "drive/communicator.h"
#include "drive/comm_broken.h"
#include "drive/comm_callers.h"
#include "drive/comm_engine.h"
#include "drive/comm_links.h"
#include "drive/comm_machine.h"
#include "drive/comm_master.h"
#include "drive/comm_sync.h"
#include "drive/comm_topology.h"
#include "drive/comm_wait.h"

#include "drive/comm_op.h"
#include "os/random.h"
#include "log/logger.h"
#include "net/build.h"
#include "net/guard.h"
#include "net/heap.h"
#include "os/interfaces.h"
#include "os/socket.h"
#include "os/thread.h"
#include "peer/queries.h"

#include <stdio.h>
#include <string.h>

/* Does the work that the state machine's effects have requested. */
static void apply_notes(struct pccl_communicator *comm)
{
    for (;;) {
        pccl_comm_master_apply(comm);
        pccl_comm_links_apply(comm);
        if (comm->starved) {
            comm->starved = false;
            pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_LEAVE});
        }
        pccl_comm_master_arm(&comm->master);
        if (!pccl_comm_has_notes(comm))
            return;
    }
}

/* ---- effects that need no loop ---- */

static void effect_call_done(void *context, enum pccl_call call, enum pccl_status status, bool value)
{
    struct pccl_communicator *comm = context;
    struct pccl_call_slot *slot = &comm->calls[call];
    slot->value = value;
    if (status != PCCL_OK)
        pccl_peer_departed(comm->peer, &slot->known, NULL, &slot->departed);
    if (call == PCCL_CALL_SYNC)
        slot->revision = pccl_peer_sync_revision(comm->peer);
    if (call == PCCL_CALL_CONNECT && status == PCCL_OK)
        comm->time.joined_us = comm->stepped_us;
    pccl_comm_call_done(comm, slot, status);
}

/* Does nothing: the subgroup's operations have been decided individually, and further launches are refused. */
static void effect_subgroup_ended(void *context, uint64_t name)
{
    (void)context;
    (void)name;
}

static void effect_log(void *context, enum pccl_log_level level, const char *text)
{
    struct pccl_communicator *comm = context;
    pccl_comm_log_note(&comm->log, level, text);
}

/* ---- the loop ---- */

/* Returns the longest time between wake-ups. Many members may share a host, and each wake-up costs processor time. */
static uint64_t tick_us(const struct pccl_communicator *comm)
{
    uint64_t most_ms = comm->operations.expiring_waits ? PCCL_COMMUNICATOR_TICK_MS : PCCL_COMMUNICATOR_TICK_MAX_MS;
    uint64_t tick_ms = pccl_max_u64(PCCL_COMMUNICATOR_TICK_MS, pccl_peer_attributes_now(comm->peer).world);
    return pccl_min_u64(tick_ms, most_ms) * 1000;
}

static void arm(struct pccl_communicator *comm)
{
    uint64_t deadline = comm->peer ? pccl_peer_deadline(comm->peer) : UINT64_MAX;
    if (comm->peer && (pccl_peer_is_connected(comm->peer) || comm->calls[PCCL_CALL_CONNECT].outstanding))
        deadline = pccl_min_u64(deadline, pccl_now_us() + tick_us(comm));
    deadline = pccl_min_u64(deadline, pccl_comm_watch_due(comm));
    comm->armed_us = deadline;
    pccl_reactor_set_due(&comm->reactor, deadline);
}

static void begin_shutdown(struct pccl_communicator *comm)
{
    comm->is_shut_down = true;
    pccl_listener_close(&comm->listener);
    pccl_comm_links_close_all(comm);
    pccl_comm_effect_close_master(comm);
    apply_notes(comm);
    pccl_reactor_end(&comm->reactor);
    if (comm->stuck)
        uv_cond_broadcast(&comm->changed);
}

static void on_polled(struct pccl_reactor *reactor, uint64_t received_us)
{
    struct pccl_communicator *comm = PCCL_CONTAINER_OF(reactor, struct pccl_communicator, reactor);
    pccl_comm_loop_enter(comm);
    if (comm->master.connection)
        pccl_connection_polled(comm->master.connection);
    if (pccl_comm_has_notes(comm))
        apply_notes(comm);
    if (comm->peer && pccl_peer_deadline(comm->peer) <= received_us)
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_TICK});
    pccl_comm_begin_drain(comm);
    pccl_comm_ops_expire_waits(comm);
    pccl_comm_watch_polled(comm, received_us);
    if (comm->stop) {
        begin_shutdown(comm);
    } else {
        apply_notes(comm); /* may make the deadline earlier */
        arm(comm);
    }
    pccl_comm_loop_rest(comm);
}

/* Closes connections and the listener, so that other peers do not wait for a thread that no longer runs. */
static void close_doors(void *argument)
{
    struct pccl_communicator *comm = argument;
    pccl_comm_master_say_last(&comm->master);
    pccl_listener_close(&comm->listener);
}

/* Handles a broken invariant on this thread. Does not free the loop and the objects in it. */
static void mark_broken(struct pccl_communicator *comm)
{
    pccl_comm_enter_after_fault(comm);
    comm->on_loop = false;
    comm->is_shut_down = comm->loop_broken = true;
    pccl_comm_break(comm, "on the control thread");
    (void)pccl_guard_run(close_doors, comm);
    if (comm->stuck)
        uv_cond_broadcast(&comm->changed);
    pccl_comm_leave(comm);
}

static void free_all(struct pccl_communicator *comm);

static void thread_main(void *argument)
{
    struct pccl_communicator *comm = argument;
    if (!pccl_reactor_run(&comm->reactor))
        mark_broken(comm);
    uv_mutex_lock(&comm->lock);
    comm->ended = true;
    bool orphan = comm->orphan;
    uv_cond_broadcast(&comm->changed);
    uv_mutex_unlock(&comm->lock);
    if (orphan)
        free_all(comm);
}

/* ---- starting ---- */

static enum pccl_status open_reactor(struct pccl_communicator *comm, struct pccl_text *reason)
{
    static const struct pccl_reactor_events events = {.polled = on_polled};
    int error = pccl_reactor_open(&comm->reactor, &events);
    if (error) {
        pccl_text_format(reason, "cannot create an event loop: %s", uv_strerror(error));
        return pccl_errors_of_system(error);
    }
    comm->armed_us = UINT64_MAX;
    return PCCL_OK;
}

/* Resolves a parameter with a list of hosts. Returns 0 with a reason on failure. */
static uint32_t resolve_list(const char *list, uint16_t port, struct pccl_address *addresses, uint32_t max,
                             struct pccl_text *reason)
{
    uint32_t count = 0;
    for (;;) {
        struct pccl_endpoint endpoint;
        struct pccl_host host;
        bool more;
        if (pccl_endpoint_next(&list, port, &endpoint, &more, reason) != PCCL_OK || !more || count == max)
            return count;
        host.port = endpoint.port;
        memcpy(host.name, endpoint.host, sizeof host.name);
        count += pccl_resolve_now(&host, 1, addresses + count, max - count, reason);
    }
}

/* Returns the addresses to listen on: the configured one, or the wildcard addresses of both families. */
static uint32_t bind_addresses(const struct pccl_communicator *comm, struct pccl_address *addresses, uint32_t max,
                               struct pccl_text *reason)
{
    const char *asked = comm->params.bind_address;
    return resolve_list(asked[0] ? asked : "::,0.0.0.0", comm->listener.port, addresses, max, reason);
}

static void open_local(struct pccl_communicator *comm)
{
    struct pccl_text reason;
    if (!pccl_params_use_local_sockets(&comm->params))
        return;
    int error = pccl_local_open(&comm->local_directory, comm->params.local_dir, &reason);
    if (error == 0)
        comm->local = &comm->local_directory;
    else if (error != UV_ENOTSUP)
        pccl_logger_print(PCCL_LOG_WARN, "peer", "local sockets unavailable, using TCP for peers on this host: %s",
                          reason.bytes);
}

static void close_local(struct pccl_communicator *comm)
{
    if (comm->local)
        pccl_local_close(&comm->local_directory);
    comm->local = NULL;
}

/* Appends to the reason the ports that were in use and the parameters that select others. */
static void add_ports_tried(const struct pccl_params *params, struct pccl_text *reason)
{
    uint32_t last = (uint32_t)pccl_min_u64(params->port + UINT64_C(1) * params->port_range - 1, UINT16_MAX);
    if (last > params->port)
        pccl_text_append(reason, ": all %u ports from %u to %u are in use", last - params->port + 1, params->port,
                         last);
    pccl_text_append(reason, ": raise PCCL_PORT_RANGE (%u) or change PCCL_PORT", params->port_range);
}

static enum pccl_status open_listener(struct pccl_communicator *comm, struct pccl_text *reason)
{
    struct pccl_address addresses[PCCL_LISTEN_ADDRESSES_MAX];
    uint32_t count = bind_addresses(comm, addresses, PCCL_COUNT_OF(addresses), reason);
    if (count == 0)
        return PCCL_SYSTEM;
    open_local(comm);
    comm->listener = (struct pccl_listener){.loop = &comm->reactor.loop,
                                            .local = comm->local,
                                            .accepts_pipes = pccl_params_use_pipes(&comm->params),
                                            .memory = pccl_heap(),
                                            .hash = &comm->hash,
                                            .strangers_max = PCCL_STRANGERS_MAX,
                                            .hello_ms = comm->params.connect_timeout_ms,
                                            .greeting_ms = comm->params.connect_timeout_ms,
                                            .queue_max = PCCL_STRANGERS_MAX,
                                            .events = &pccl_comm_link_events,
                                            .owner = comm,
                                            .keys = comm->keys,
                                            .role = PCCL_SECURE_ACCEPTED,
                                            .accepted = pccl_comm_link_accepted,
                                            .starved = pccl_comm_links_starved};
    int error = UV_EAFNOSUPPORT;
    /* "::" accepts IPv4, too; the next address is the IPv4 one, for hosts without IPv6. */
    bool any = comm->params.bind_address[0] == 0;
    for (uint32_t i = 0; i < (any ? count : 1) && error == UV_EAFNOSUPPORT; i++)
        error = pccl_listener_open(&comm->listener, addresses + i, any ? 1 : count, (uint16_t)comm->params.port,
                                   comm->params.port_range, reason);
    if (error == UV_EADDRINUSE && comm->params.port != 0)
        add_ports_tried(&comm->params, reason);
    return error ? pccl_errors_of_system(error) : PCCL_OK;
}

static enum pccl_status start(struct pccl_communicator *comm, struct pccl_text *reason)
{
    enum pccl_status status = open_reactor(comm, reason);
    if (status != PCCL_OK)
        return status;
    status = pccl_comm_engine_start(comm, reason);
    if (status == PCCL_OK)
        status = open_listener(comm, reason); /* links may arrive from now on, and the engine takes them */
    if (status != PCCL_OK)
        goto out;
    int error = pccl_thread_start(&comm->thread, thread_main, comm);
    if (error) {
        pccl_text_format(reason, "cannot start a thread: %s", uv_strerror(error));
        status = pccl_errors_of_system(error);
    }
out:
    if (status != PCCL_OK) {
        pccl_listener_close(&comm->listener);
        close_local(comm);
        pccl_reactor_close(&comm->reactor);
    }
    pccl_comm_enter(comm);
    comm->started = status == PCCL_OK;
    pccl_comm_leave(comm);
    return status;
}

/* ---- creating and retiring a state machine ---- */

static enum pccl_status find_candidates(const struct pccl_communicator *comm, struct pccl_peer_config *config,
                                        struct pccl_text *reason)
{
    struct pccl_address toward, master;
    if (comm->params.advertise_addresses[0] != 0) {
        config->candidate_count = resolve_list(comm->params.advertise_addresses, comm->listener.port,
                                               config->candidates, PCCL_CANDIDATES_MAX, reason);
        return config->candidate_count ? PCCL_OK : PCCL_SYSTEM;
    }
    if (comm->params.bind_address[0] != 0) {
        config->candidate_count = bind_addresses(comm, config->candidates, PCCL_CANDIDATES_MAX, reason);
        if (config->candidate_count && !pccl_address_is_unspecified(&config->candidates[0]))
            return PCCL_OK;
    }
    bool known =
        pccl_resolve_now(comm->master.hosts, 1, &master, 1, reason) == 1 && pccl_socket_route(&master, &toward);
    config->candidate_count = pccl_interfaces_candidates(known ? &toward : NULL, comm->listener.port,
                                                         config->candidates, PCCL_CANDIDATES_MAX);
    return PCCL_OK;
}

/* Names a peer after its host and process if its user has not set a name. */
static void invent_name(char *name, size_t size)
{
    char host[UV_MAXHOSTNAMESIZE];
    size_t length = sizeof host;
    if (uv_os_gethostname(host, &length) != 0)
        (void)snprintf(host, sizeof host, "host");
    (void)snprintf(name, size, "%.48s:%d", host, (int)uv_os_getpid());
}

static enum pccl_status configure(const struct pccl_communicator *comm, struct pccl_peer_config *config,
                                  struct pccl_text *reason)
{
    const struct pccl_params *params = &comm->params;
    *config = pccl_peer_defaults();
    if (!pccl_random_id(&config->id) || !pccl_random_id(&config->token) || !pccl_random_id(&config->link_key))
        return pccl_fail(reason, PCCL_SYSTEM, "cannot get random bytes from the system");
    config->build = *pccl_build_own();
    config->hash_seed = comm->hash_seed;
    config->group = params->peer_group;
    config->port = comm->listener.port;
#define TAKE(X, name, ...) config->name = params->name;
    PCCL_PEER_PARAMS(TAKE, )
    config->stuck_is_set = params->given[PCCL_PARAM_stuck_ms];
    config->named = params->name[0] != '\0';
    if (config->named)
        (void)snprintf(config->name, sizeof config->name, "%.*s", PCCL_NAME_MAX, params->name);
    else
        invent_name(config->name, sizeof config->name);
    return find_candidates(comm, config, reason);
}

/* Frees the state machine of the last connect, which has ended. Keeps the outcomes of operations not awaited yet. */
static void retire_machine(struct pccl_communicator *comm)
{
    pccl_comm_ops_detach(comm);
    pccl_comm_links_close_all(comm);
    pccl_comm_effect_close_master(comm);
    pccl_peer_destroy(comm->peer);
    comm->peer = NULL;
}

enum pccl_status pccl_comm_prepare(struct pccl_communicator *comm, struct pccl_peer_config *config,
                                   struct pccl_text *reason)
{
    enum pccl_status status = comm->started ? PCCL_OK : start(comm, reason);
    return status == PCCL_OK ? configure(comm, config, reason) : status;
}

enum pccl_status pccl_comm_create_machine(struct pccl_communicator *comm, const struct pccl_peer_config *config,
                                          struct pccl_text *reason)
{
    struct pccl_peer_effects effects = {.context = comm,
                                        .dial_master = pccl_comm_effect_dial_master,
                                        .close_master = pccl_comm_effect_close_master,
                                        .send_master = pccl_comm_effect_send_master,
                                        .accept_master = pccl_comm_effect_accept_master,
                                        .dial_link = pccl_comm_effect_dial_link,
                                        .dial_back = pccl_comm_effect_dial_back,
                                        .close_link = pccl_comm_effect_close_link,
                                        .cut_link = pccl_comm_effect_cut_link,
                                        .call_done = effect_call_done,
                                        .op_decided = pccl_comm_effect_op_decided,
                                        .op_start = pccl_comm_effect_op_start,
                                        .op_stop = pccl_comm_effect_op_stop,
                                        .op_restart = pccl_comm_effect_op_restart,
                                        .op_gone = pccl_comm_effect_op_gone,
                                        .subgroup_ended = effect_subgroup_ended,
                                        .ring_changed = pccl_comm_effect_ring_changed,
                                        .sync_plan = pccl_comm_effect_sync_plan,
                                        .sync_donor = pccl_comm_effect_sync_donor,
                                        .measure = pccl_comm_effect_measure,
                                        .described = pccl_comm_effect_described,
                                        .log = effect_log};
    pccl_comm_op_jobs_await(comm); /* jobs of the last state machine, which were stopped when it ended */
    if (comm->leaving)
        return pccl_fail(reason, PCCL_USAGE, "%s", PCCL_BEING_DESTROYED);
    if (comm->defect)
        return pccl_fail(reason, PCCL_INTERNAL, "%s", pccl_status_text(PCCL_INTERNAL));
    if (comm->peer)
        retire_machine(comm);
    pccl_engine_rename(comm->data.engine, &config->id);
    comm->peer = pccl_peer_create(config, pccl_heap(), &effects, pccl_now_us());
    comm->id = config->id;
    if (comm->peer)
        return PCCL_OK;
    return pccl_fail(reason, PCCL_MEMORY, "out of memory for a peer");
}

/* ---- creation and destruction ---- */

struct pccl_communicator *pccl_comm_create(const struct pccl_params *params, const struct pccl_host *masters,
                                           uint32_t master_count)
{
    PCCL_ASSERT(master_count > 0 && master_count <= PCCL_MASTER_ADDRESSES_MAX);
    struct pccl_communicator *comm = pccl_allocate(pccl_heap(), sizeof *comm);
    if (!comm)
        return NULL;
    comm->scratch = pccl_heap_raw(sizeof *comm->scratch);
    if (!comm->scratch)
        goto no_scratch;
    if (uv_mutex_init(&comm->lock) != 0)
        goto no_lock;
    if (uv_cond_init(&comm->changed) != 0)
        goto no_condition;
    pccl_handle_init(&comm->handle, comm, params->extended_results);
    comm->params = *params;
    comm->master.host_count = master_count;
    memcpy(comm->master.hosts, masters, master_count * sizeof *masters);
    /* Without entropy, connecting also fails, so no remote peer reaches tables with this seed. */
    if (!pccl_random_u64(&comm->hash_seed))
        comm->hash_seed = comm->handle.key;
    pccl_hash_key_init(&comm->hash, comm->hash_seed);
    pccl_list_init(&comm->groups);
    pccl_list_init(&comm->lists);
    pccl_table_init(&comm->operations.by_tag, pccl_heap(), &comm->hash);
    pccl_table_init(&comm->feedbacks.by_tag, pccl_heap(), &comm->hash);
    pccl_table_init(&comm->links.by_peer, pccl_heap(), &comm->hash);
    pccl_list_init(&comm->links.backs);
    if (!pccl_comm_telemetry_init(comm))
        goto no_recorder;
    pccl_comm_waiting_init(&comm->waiting);
    return comm;

no_recorder:
    uv_cond_destroy(&comm->changed);
no_condition:
    uv_mutex_destroy(&comm->lock);
no_lock:
    pccl_release(pccl_heap(), comm->scratch, sizeof *comm->scratch);
no_scratch:
    pccl_release(pccl_heap(), comm, sizeof *comm);
    return NULL;
}

/* Returns the ticket for a link from a peer. Called under the lock when the hello of an accepted link is read. */
static bool ticket_of(void *context, const struct pccl_id *from, const struct pccl_id *to, struct pccl_id *ticket)
{
    const struct pccl_communicator *comm = context;
    if (!comm->peer || !pccl_id_equal(to, &comm->id))
        return false;
    *ticket = pccl_peer_ticket(comm->peer, from);
    return true;
}

void pccl_comm_secure(struct pccl_communicator *comm, struct pccl_keys *keys)
{
    comm->keys = keys;
    if (!keys)
        return;
    pccl_keys_set_tickets(keys, ticket_of, comm);
    pccl_logger_print(PCCL_LOG_INFO, "peer", "connections are encrypted by %s", pccl_keys_library(keys));
}

static void free_parts(void *argument)
{
    struct pccl_communicator *comm = argument;
    if (comm->data.engine)
        pccl_engine_destroy(comm->data.engine);
    if (comm->loop_broken)
        return; /* threads that resolve names may still use the loop */
    close_local(comm);
    if (comm->started)
        pccl_reactor_close(&comm->reactor);
    if (comm->peer)
        pccl_peer_destroy(comm->peer);
    pccl_keys_destroy(comm->keys);
    pccl_comm_ops_free(comm);
    pccl_comm_feedbacks_drop(comm, NULL);
    pccl_table_fini(&comm->feedbacks.by_tag);
    pccl_table_fini(&comm->links.by_peer);
    pccl_comm_telemetry_fini(comm);
    pccl_comm_watch_fini(comm);
    pccl_comm_waiting_fini(&comm->waiting);
    uv_cond_destroy(&comm->changed);
    uv_mutex_destroy(&comm->lock);
    pccl_release(pccl_heap(), comm->scratch, sizeof *comm->scratch);
    pccl_release(pccl_heap(), comm, sizeof *comm);
}

/* Frees everything. After a broken invariant the rest is leaked, because no caller is left to receive an error. */
static void free_all(struct pccl_communicator *comm) { (void)pccl_guard_run(free_parts, comm); }

static void evict_callers(struct pccl_communicator *comm)
{
    comm->leaving = true;
    if (comm->peer)
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_LEAVE});
}

void pccl_comm_ask_drain(struct pccl_communicator *comm) { atomic_store(&comm->drain_asked, true); }

void pccl_comm_begin_drain(struct pccl_communicator *comm)
{
    if (comm->peer && atomic_load(&comm->drain_asked))
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_DRAIN});
}

void pccl_comm_evict_callers(struct pccl_communicator *comm)
{
    pccl_comm_enter(comm);
    evict_callers(comm);
    pccl_comm_leave(comm);
}

void pccl_comm_destroy(struct pccl_communicator *comm)
{
    pccl_comm_enter(comm);
    evict_callers(comm);
    pccl_comm_op_jobs_await(comm);
    pccl_comm_await_callers(comm);
    pccl_comm_groups_abandon(comm);
    bool started = comm->started;
    comm->stop = true;
    pccl_comm_wake_loop(comm);
    pccl_comm_leave(comm);
    if (!started) {
        free_all(comm);
        return;
    }
    uv_mutex_lock(&comm->lock);
    while (!comm->ended && !comm->stuck)
        uv_cond_wait(&comm->changed, &comm->lock);
    comm->orphan = !comm->ended;
    bool orphan = comm->orphan;
    uv_thread_t thread = comm->thread;
    uv_mutex_unlock(&comm->lock);
    if (orphan) {
        pccl_thread_detach(thread);
        return;
    }
    (void)uv_thread_join(&thread);
    free_all(comm);
}
