#include "drive/master_server.h"

#include "os/cpu.h"
#include "drive/credentials.h"
#include "config/errors.h"
#include "drive/guard.h"
#include "ops/alerts.h"
#include "ops/control.h"
#include "ops/web.h"
#include "log/logger.h"
#include "drive/report_file.h"
#include "os/random.h"
#include "drive/run_file.h"
#include "os/secret_file.h"
#include "drive/searches.h"
#include "net/build.h"
#include "net/clock.h"
#include "net/dialer.h"
#include "net/guard.h"
#include "net/heap.h"
#include "net/listener.h"
#include "net/reactor.h"
#include "os/socket.h"
#include "os/thread.h"
#include "wire/greeting.h"

#include <stdatomic.h>
#include <string.h>

enum {
    LINGER_MS = 500, /* time limit for sending the last messages on a closing connection */
    PROBE_MS = 3000,
    BUSY_ITERATIONS_MAX = 64, /* maximum number of loop iterations for which unread input may postpone IDLE */
};

#define WORDS(number) #number
#define VERSION_WORDS(major, minor, patch) WORDS(major) "." WORDS(minor) "." WORDS(patch)
static const char own_version[] = VERSION_WORDS(PCCL_VERSION_MAJOR, PCCL_VERSION_MINOR, PCCL_VERSION_PATCH);

struct probe {
    struct pccl_master_server *server;
    struct pccl_dialer *dialer;
    struct pccl_id peer;
    struct pccl_list_node node;
};

struct pccl_master_server {
    struct pccl_master_config config;
    struct pccl_host hosts[PCCL_MASTER_HOSTS_MAX];
    uint32_t host_count;
    struct pccl_master *machine;
    struct pccl_wire_scratch *scratch;                                    /* owned */
    void (*beat)(void *context, const struct pccl_master_counts *counts); /* may be NULL */
    void *beat_context;
    uint32_t beat_ms;
    struct pccl_report_files report_files;
    struct pccl_host http_hosts[PCCL_MASTER_HTTP_MAX];
    uint32_t http_host_count;
    char admin_token_file[PCCL_PARAM_BYTES_MAX + 1]; /* empty: no file */
    struct pccl_web pages;
    struct pccl_events events;
    struct pccl_alerts alerts;
    uint64_t turned_away;
    struct pccl_credentials credentials; /* owned; without keys, connections are not encrypted */
    struct pccl_control control;
    struct pccl_run_file run_file;
    bool insecure; /* the user has accepted connections without encryption */

    struct pccl_reactor reactor;
    uv_thread_t thread;
    uv_timer_t beat_timer;
    struct pccl_listener listeners[PCCL_MASTER_HOSTS_MAX];

    struct pccl_hash_key hash;
    struct pccl_table connections; /* struct pccl_connection, keyed by id */
    uint64_t last_id;
    struct pccl_connection *dirty; /* list of connections with output to flush */
    struct pccl_list_node probes;
    struct pccl_searches searches;
    uint32_t busy_iterations;
    bool busy; /* input was left unread in this iteration */

    uv_mutex_t lock; /* held while waking the loop, so that the loop still exists */
    bool ended;      /* the loop can no longer be woken; under the lock */
    bool broken;     /* an invariant broke: the loop is neither used nor freed */
    bool defect;     /* `broken`, or an invariant broke in the state machine or while freeing it */
    atomic_bool interrupted, reloads;
};

/* ---- connections ---- */

static struct pccl_connection *find(struct pccl_master_server *server, pccl_conn id)
{
    struct pccl_table_node *node = pccl_table_find(&server->connections, id);
    return node ? PCCL_CONTAINER_OF(node, struct pccl_connection, node) : NULL;
}

static void forget(struct pccl_master_server *server, struct pccl_connection *connection)
{
    if (connection->id == 0)
        return;
    pccl_table_remove(&server->connections, &connection->node);
    connection->id = 0;
}

struct visit {
    struct pccl_master *machine;
    const struct pccl_master_event *event;
};

static void visit_machine(void *argument)
{
    struct visit *visit = argument;
    pccl_master_step(visit->machine, visit->event);
}

/* Steps the state machine, which is leaked if an invariant breaks in the step; on_polled then ends the thread. */
static void step(struct pccl_master_server *server, struct pccl_master_event *event)
{
    if (!server->machine)
        return;
    event->now_us = pccl_now_us();
    if (pccl_guard_run(visit_machine, &(struct visit){server->machine, event}))
        return;
    server->machine = NULL;
    server->defect = true;
}

static void on_accepted(void *owner, struct pccl_connection *connection)
{
    struct pccl_master_server *server = owner;
    connection->id = ++server->last_id;
    pccl_table_insert(&server->connections, &connection->node, connection->id);
    step(server, &(struct pccl_master_event){
                     .kind = PCCL_MASTER_OPENED, .conn = connection->id, .address = connection->address});
}

static const struct pccl_log_fields of_refusals = {.cause = PCCL_LOG_CAUSE_REFUSED, .event = PCCL_EVENT_REFUSED};

static void effect_log(void *context, enum pccl_log_level level, const char *line, const struct pccl_log_fields *fields)
{
    struct pccl_master_server *server = context;
    pccl_events_log(&server->events, level, line, fields);
    pccl_alerts_note(&server->alerts, fields, line);
}

static struct pccl_master_counts counts_for_alerts(void *context)
{
    struct pccl_master_server *server = context;
    return server->machine ? pccl_master_count(server->machine) : (struct pccl_master_counts){.members = 0};
}

static void step_garbage(struct pccl_master_server *server, const struct pccl_connection *connection,
                         const struct pccl_frame *frame, bool other_build, const struct pccl_text *reason)
{
    step(server, &(struct pccl_master_event){.kind = PCCL_MASTER_GARBAGE,
                                             .conn = connection->id,
                                             .reason = reason,
                                             .frame = frame,
                                             .other_build = other_build});
}

static void refuse_for_lack_of_descriptors(void *owner, struct pccl_connection *connection)
{
    static const char reason[] = "the master has no free file descriptor; try again later";
    (void)owner;
    pccl_connection_send_message(connection,
                                 &(struct pccl_msg){.type = PCCL_MSG_refused,
                                                    .as.refused = {.version = PCCL_PROTOCOL_VERSION,
                                                                   .code = PCCL_REFUSAL_FULL,
                                                                   .reason = pccl_bytes_of_string(reason)}});
}

static void on_dropped(void *owner, const struct pccl_address *from, enum pccl_arrival_end why)
{
    struct pccl_master_server *server = owner;
    const struct pccl_keys *keys = server->credentials.keys;
    const char *const words[] = {
        [PCCL_ARRIVAL_EARLY] = "it did not start encryption in time",
        [PCCL_ARRIVAL_CROWDED] = "too many handshakes in progress, most of them from this address",
        [PCCL_ARRIVAL_PLAIN] = pccl_secure_plain_words(keys, PCCL_SECURE_MASTER),
        [PCCL_ARRIVAL_MISSING] = "no token of this master: not a peer, or a peer with an older version of PCCL",
        [PCCL_ARRIVAL_WRONG] = pccl_keys_has_files(keys) ? "a token instead of a certificate, or not a peer"
                                                         : "a token of another master, or not a peer"};
    bool refused = why >= PCCL_ARRIVAL_PLAIN;
    struct pccl_text reason;
    server->turned_away += !refused;
    pccl_text_format(&reason, "%s %s: %s", refused ? "refused" : "dropped", pccl_address_str(from), words[why]);
    effect_log(server, PCCL_LOG_WARN, reason.bytes, &of_refusals);
}

/*
 * Returns true for the hello of a new peer, which may be refused. An admitted peer would reconnect after a refusal, and
 * each refusal would delay its group.
 */
static bool is_newcomer(const struct pccl_msg *msg) { return msg->type == PCCL_MSG_hello && msg->as.hello.boot == 0; }

static bool can_keep(struct pccl_master_server *server, struct pccl_connection *connection)
{
    bool can = true;
    for (uint32_t i = 0; i < server->host_count; i++)
        can = pccl_listener_can_keep(&server->listeners[i], connection) && can;
    return can;
}

static void turn_away(struct pccl_master_server *server, struct pccl_connection *connection)
{
    struct pccl_text reason;
    pccl_text_format(&reason, "refused %s: no free file descriptor", pccl_address_str(&connection->address));
    effect_log(server, PCCL_LOG_WARN, reason.bytes, &of_refusals);
    refuse_for_lack_of_descriptors(server, connection);
    server->turned_away++;
    step(server, &(struct pccl_master_event){.kind = PCCL_MASTER_CLOSED, .conn = connection->id, .reason = &reason});
    forget(server, connection);
    pccl_connection_close(connection, LINGER_MS);
}

/*
 * Returns true if the token of this connection admits the hello, and sets *pass to the number of the token. Always true
 * without tokens, and with certificates, which have already admitted the connection. Later messages, including a second
 * hello, belong to the admitted peer while its token is not revoked.
 */
static bool is_fit(struct pccl_master_server *server, struct pccl_connection *connection, const struct pccl_msg *msg,
                   uint32_t *pass, struct pccl_text *reason)
{
    struct pccl_tokens *tokens = server->credentials.tokens;
    uint8_t key[PCCL_PUBLIC_BYTES];
    *pass = 0;
    if (!tokens || pccl_keys_has_files(server->credentials.keys) || msg->type != PCCL_MSG_hello || !connection->list)
        return true;
    if (pccl_secure_shown(connection->channel.secure, key))
        return pccl_tokens_admit(tokens, key, &msg->as.hello.token, pass, reason) == PCCL_OK;
    pccl_text_format(reason, "it has no token");
    return false;
}

static void log_token(const struct pccl_id *peer, const struct pccl_text *token)
{
    struct pccl_text text;
    pccl_text_format(&text, "peer %s uses token %s", pccl_id_str(peer), token->bytes);
    pccl_logger_write_fields(PCCL_LOG_INFO, "master", text.bytes,
                             &(struct pccl_log_fields){.peer = peer, .cause = PCCL_LOG_CAUSE_NEWCOMER});
}

static void on_received(struct pccl_connection *connection, const struct pccl_frame *frame)
{
    static const struct pccl_sides sides = {.here = "this master", .there = "the peer"};
    struct pccl_master_server *server = connection->owner;
    struct pccl_msg msg;
    struct pccl_text reason;
    uint32_t pass;
    bool other_build = pccl_greeting_is_foreign(&server->config.build, &sides, frame, &reason);
    if (other_build ||
        pccl_wire_decode(frame->type, frame->body, frame->length, server->scratch, &msg, &reason) != PCCL_OK) {
        step_garbage(server, connection, frame, other_build, &reason);
        return;
    }
    if (!can_keep(server, connection) && is_newcomer(&msg)) {
        turn_away(server, connection);
        return;
    }
    bool fit = is_fit(server, connection, &msg, &pass, &reason);
    if (fit && pass != 0)
        log_token(&msg.as.hello.peer, &reason);
    step(server, &(struct pccl_master_event){.kind = PCCL_MASTER_RECEIVED,
                                             .conn = connection->id,
                                             .frame = frame,
                                             .msg = &msg,
                                             .pass = pass,
                                             .unfit = fit ? NULL : &reason});
}

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason)
{
    struct pccl_master_server *server = connection->owner;
    pccl_conn id = connection->id;
    if (id && how == PCCL_END_GARBAGE)
        step_garbage(server, connection, NULL, false, reason);
    else if (id)
        step(server, &(struct pccl_master_event){.kind = PCCL_MASTER_CLOSED, .conn = id, .reason = reason});
    if (connection->id) {
        forget(server, connection);
        pccl_connection_close(connection, 0);
    }
}

static void on_more(void *owner)
{
    struct pccl_master_server *server = owner;
    server->busy = true;
}

static const struct pccl_connection_events connection_events = {
    .received = on_received, .ended = on_ended, .more = on_more};

/* ---- effects ---- */

static void effect_send(void *context, pccl_conn conn, const uint8_t *bytes, size_t length)
{
    struct pccl_master_server *server = context;
    struct pccl_connection *connection = find(server, conn);
    if (!connection)
        return;
    pccl_connection_send(connection, bytes, length);
    if (connection->dirty)
        return;
    connection->dirty = true;
    connection->next_dirty = server->dirty;
    server->dirty = connection;
}

static void effect_accept(void *context, pccl_conn conn)
{
    struct pccl_connection *connection = find(context, conn);
    if (!connection)
        return;
    pccl_listener_adopt(connection);
    pccl_connection_raise(connection);
}

static void effect_close(void *context, pccl_conn conn)
{
    struct pccl_connection *connection = find(context, conn);
    if (!connection)
        return;
    forget(context, connection);
    pccl_connection_close(connection, LINGER_MS);
}

static void drop_probe(struct probe *probe)
{
    pccl_list_remove(&probe->node);
    pccl_release(pccl_heap(), probe, sizeof *probe);
}

static void on_probed(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                      const struct pccl_text *reason)
{
    struct probe *probe = context;
    struct pccl_master_server *server = probe->server;
    struct pccl_master_event event = {
        .kind = PCCL_MASTER_PROBED, .peer = probe->peer, .answered = connection != NULL, .how = how, .reason = reason};
    if (connection)
        pccl_connection_close(connection, 0);
    drop_probe(probe);
    step(server, &event);
}

static bool effect_probe(void *context, const struct pccl_id *peer, const struct pccl_id *lineage,
                         const struct pccl_id *ticket, const struct pccl_address *address)
{
    struct pccl_master_server *server = context;
    struct probe *probe = pccl_allocate(pccl_heap(), sizeof *probe);
    if (!probe)
        return false;
    struct pccl_msg_link_hello hello = {.lineage = *lineage, .to = *peer, .kind = PCCL_LINK_PROBE};
    if (server->credentials.keys)
        hello.authentication = (struct pccl_bytes){ticket->bytes, sizeof ticket->bytes};
    probe->server = server;
    probe->peer = *peer;
    pccl_list_append(&server->probes, &probe->node);
    struct pccl_dial dial = {.addresses = address,
                             .count = 1,
                             .stagger_ms = PROBE_MS,
                             .timeout_ms = PROBE_MS,
                             .hello = &hello,
                             .keys = server->credentials.keys,
                             .done = on_probed,
                             .context = probe};
    probe->dialer = pccl_dialer_start(&server->reactor.loop, pccl_heap(), &dial);
    if (probe->dialer)
        return true;
    drop_probe(probe);
    return false;
}

static void take_rings(struct pccl_master_server *server)
{
    struct pccl_search_result found;
    while (pccl_searches_take(&server->searches, &found))
        step(server, &(struct pccl_master_event){.kind = PCCL_MASTER_SOLVED,
                                                 .ticket = found.ticket,
                                                 .status = found.status,
                                                 .answer = found.answer,
                                                 .ring = found.ring});
}

static void effect_solve(void *context, uint64_t ticket, const struct pccl_ring_problem *problem)
{
    struct pccl_master_server *server = context;
    pccl_searches_start(&server->searches, ticket, problem);
    if (pccl_searches_has_results(&server->searches))
        pccl_reactor_hurry(&server->reactor); /* on_polled follows soon and takes the result */
}

static void effect_stop_solving(void *context, uint64_t ticket)
{
    struct pccl_master_server *server = context;
    pccl_searches_stop(&server->searches, ticket);
}

static void effect_topology_report(void *context, uint32_t group, const char *text, size_t length)
{
    struct pccl_master_server *server = context;
    struct pccl_text reason;
    if (pccl_report_file_write(&server->report_files, group, text, length, &reason) != PCCL_OK)
        pccl_logger_write(PCCL_LOG_WARN, "master", reason.bytes);
}

static void effect_note_run(void *context, const struct pccl_id *lineage)
{
    struct pccl_master_server *server = context;
    pccl_run_file_note(&server->run_file, lineage, pccl_now_us());
}

/* ---- the loop ---- */

static void flush_all(struct pccl_master_server *server)
{
    while (server->dirty) {
        struct pccl_connection *connection = server->dirty;
        server->dirty = connection->next_dirty;
        connection->dirty = false;
        /* A connection that was closed in the meantime is freed only after this phase of the loop. */
        if (connection->state == PCCL_CONNECTION_OPEN && !pccl_connection_flush(connection))
            pccl_connection_arm(connection);
    }
}

static void on_beat(uv_timer_t *timer)
{
    struct pccl_master_server *server = timer->data;
    if (!server->machine)
        return;
    struct pccl_master_counts counts = pccl_master_count(server->machine);
    server->beat(server->beat_context, &counts);
}

/* Ends the server after SHUTDOWN of the state machine. The loop ends when the last messages have been sent. */
static void begin_shutdown(struct pccl_master_server *server)
{
    uv_mutex_lock(&server->lock);
    server->ended = true;
    uv_mutex_unlock(&server->lock);
    for (uint32_t i = 0; i < server->host_count; i++)
        pccl_listener_close(&server->listeners[i]);
    pccl_web_close(&server->pages);
    pccl_control_close(&server->control);
    while (!pccl_list_is_empty(&server->probes)) {
        struct probe *probe = PCCL_CONTAINER_OF(server->probes.next, struct probe, node);
        pccl_dialer_cancel(probe->dialer);
        drop_probe(probe);
    }
    pccl_searches_stop_all(&server->searches);
    pccl_alerts_close(&server->alerts);
    pccl_events_close(&server->events, server->defect ? "master ended because of a defect" : "master ended",
                      pccl_now_us());
    struct pccl_table_node *node;
    while ((node = pccl_table_first(&server->connections))) {
        struct pccl_connection *connection = PCCL_CONTAINER_OF(node, struct pccl_connection, node);
        forget(server, connection);
        pccl_connection_close(connection, LINGER_MS);
    }
    uv_close((uv_handle_t *)&server->beat_timer, NULL);
    pccl_reactor_end(&server->reactor);
}

static struct pccl_master_server *server_of(struct pccl_reactor *reactor)
{
    return PCCL_CONTAINER_OF(reactor, struct pccl_master_server, reactor);
}

static void on_polling(struct pccl_reactor *reactor)
{
    struct pccl_master_server *server = server_of(reactor);
    flush_all(server); /* sends the output of this iteration's timers */
    if (pccl_web_are_open(&server->pages))
        pccl_web_note_turn(&server->pages, &reactor->loop, pccl_now_us());
    server->busy = false;
}

/* Serves HTTP clients, once the peers have been served. */
static void show(struct pccl_master_server *server)
{
    struct pccl_driver_figures driver = {.version = own_version,
                                         .connections = server->connections.count,
                                         .accepted = server->last_id,
                                         .turned_away = server->turned_away};
    if (server->machine && pccl_web_are_open(&server->pages) &&
        pccl_web_work(&server->pages, server->machine, &driver, pccl_now_us()))
        pccl_reactor_hurry(&server->reactor);
}

/* Passes the operators' requests of this iteration to the state machine. */
static void take_commands(struct pccl_master_server *server)
{
    uint32_t pass;
    struct pccl_master_event event = {.kind = PCCL_MASTER_COMMAND};
    while ((pass = pccl_control_take_revoked(&server->control)) != 0)
        step(server, &(struct pccl_master_event){.kind = PCCL_MASTER_REVOKED, .pass = pass});
    while (pccl_web_next_command(&server->pages, &event.command, &event.peer)) {
        struct pccl_master_answer answer = {.done = false};
        pccl_text_format(&answer.words, "the master is shutting down");
        event.result = &answer;
        step(server, &event);
        pccl_web_answer_command(&server->pages, &answer);
    }
}

static void reload(struct pccl_master_server *server)
{
    struct pccl_text reason;
    const struct pccl_credentials *has = &server->credentials;
    if (pccl_credentials_reload(&server->credentials, &reason) != PCCL_OK)
        pccl_logger_print(PCCL_LOG_ERROR, "master", "keeping the previously loaded certificate: %s", reason.bytes);
    else if (has->pages || (has->keys && pccl_keys_has_files(has->keys)))
        pccl_logger_write(PCCL_LOG_INFO, "master", "certificates reloaded");
    pccl_web_print_fingerprint(&server->pages);
}

static void on_polled(struct pccl_reactor *reactor, uint64_t received_us)
{
    struct pccl_master_server *server = server_of(reactor);
    if (atomic_exchange(&server->reloads, false))
        reload(server);
    if (atomic_load(&server->interrupted) || !server->machine) {
        pccl_tokens_save(server->credentials.tokens); /* before this iteration's answers are sent */
        step(server, &(struct pccl_master_event){.kind = PCCL_MASTER_SHUTDOWN});
        flush_all(server);
        begin_shutdown(server);
        return;
    }
    if (pccl_searches_has_results(&server->searches))
        take_rings(server);
    take_commands(server);
    if (server->machine && pccl_master_deadline(server->machine) <= received_us)
        step(server, &(struct pccl_master_event){.kind = PCCL_MASTER_TICK});
    if (!server->busy || ++server->busy_iterations > BUSY_ITERATIONS_MAX) {
        server->busy_iterations = 0;
        step(server, &(struct pccl_master_event){.kind = PCCL_MASTER_IDLE});
    }
    pccl_tokens_save(server->credentials.tokens);
    flush_all(server);
    pccl_run_file_retry(&server->run_file, pccl_now_us());
    show(server);
    if (server->machine)
        pccl_reactor_set_due(reactor, pccl_master_deadline(server->machine));
    else /* an invariant broke in the state machine; the next iteration ends the thread */
        pccl_reactor_hurry(reactor);
}

static void close_doors(void *argument)
{
    struct pccl_master_server *server = argument;
    for (struct pccl_table_node *node = pccl_table_first(&server->connections); node;
         node = pccl_table_after(&server->connections, node))
        pccl_socket_shutdown(PCCL_CONTAINER_OF(node, struct pccl_connection, node)->channel.socket);
    for (uint32_t i = 0; i < server->host_count; i++)
        pccl_listener_close(&server->listeners[i]);
    pccl_http_close(&server->pages.http);
    pccl_control_close(&server->control);
}

/* Handles a broken invariant. Does not free the loop and the objects in it; closes the peers' connections. */
static void mark_broken(struct pccl_master_server *server)
{
    server->machine = NULL;
    server->broken = server->defect = true;
    (void)pccl_guard_run(close_doors, server);
    pccl_signals before;
    pccl_thread_block_signals(&before);
    uv_mutex_lock(&server->lock);
    server->ended = true;
    uv_mutex_unlock(&server->lock);
    pccl_thread_restore_signals(&before);
}

static void thread_main(void *argument)
{
    struct pccl_master_server *server = argument;
    if (pccl_reactor_run(&server->reactor))
        pccl_events_end(&server->events);
    else
        mark_broken(server);
}

/* ---- creation, start and destruction ---- */

struct pccl_master_config pccl_master_server_config(const struct pccl_params *params)
{
    struct pccl_master_config config = pccl_master_defaults();
#define TAKE(X, name, ...) config.name = params->name;
    PCCL_MASTER_PARAMS(TAKE, PCCL_MASTER_NO_FIELD, )
    config.expel_slow_peers = strcmp(params->slow_peer, "expel") == 0;
    config.kernels = pccl_kernels_for(pccl_cpu_features());
    return config;
}

static void release(struct pccl_master_server *server)
{
    pccl_credentials_end(&server->credentials);
    pccl_release(pccl_heap(), server->scratch, sizeof *server->scratch);
    pccl_release(pccl_heap(), server, sizeof *server);
}

struct pccl_master_server *pccl_master_server_create(const struct pccl_master_config *config,
                                                     const struct pccl_host *hosts, uint32_t host_count)
{
    PCCL_ASSERT(host_count > 0 && host_count <= PCCL_MASTER_HOSTS_MAX);
    struct pccl_master_server *server = pccl_allocate(pccl_heap(), sizeof *server);
    if (!server)
        return NULL;
    server->scratch = pccl_heap_raw(sizeof *server->scratch);
    if (!server->scratch || uv_mutex_init(&server->lock) != 0) {
        release(server);
        return NULL;
    }
    server->config = *config;
    server->host_count = host_count;
    memcpy(server->hosts, hosts, host_count * sizeof *hosts);
    pccl_table_init(&server->connections, pccl_heap(), &server->hash);
    pccl_list_init(&server->probes);
    return server;
}

void pccl_master_server_secure(struct pccl_master_server *server, const struct pccl_credentials *credentials,
                               bool insecure)
{
    server->credentials = *credentials;
    server->insecure = insecure;
    server->config.open_links = credentials->keys && pccl_keys_open_links(credentials->keys);
    if (credentials->keys)
        pccl_logger_print(PCCL_LOG_INFO, "master", "connections are encrypted by %s",
                          pccl_keys_library(credentials->keys));
}

void pccl_master_server_set_beat(struct pccl_master_server *server, uint32_t period_ms,
                                 void (*beat)(void *context, const struct pccl_master_counts *counts), void *context)
{
    PCCL_ASSERT(period_ms > 0);
    server->beat = beat;
    server->beat_context = context;
    server->beat_ms = period_ms;
}

void pccl_master_server_set_params(struct pccl_master_server *server, const struct pccl_params *params,
                                   const struct pccl_host *http, uint32_t http_count)
{
    memcpy(server->report_files.path, params->topology_file, sizeof params->topology_file);
    memcpy(server->admin_token_file, params->admin_token_file, sizeof params->admin_token_file);
    memcpy(server->alerts.command, params->alert_command, sizeof params->alert_command);
    server->alerts.limit_s = params->alert_limit_s;
    server->alerts.stall_s = params->alert_stall_s;
    PCCL_ASSERT(http_count <= PCCL_COUNT_OF(server->http_hosts));
    server->http_host_count = http_count;
    memcpy(server->http_hosts, http, http_count * sizeof *http);
}

static enum pccl_status listen_for_http(struct pccl_master_server *server, struct pccl_text *reason)
{
    struct pccl_web *pages = &server->pages;
    if (server->http_host_count == 0 && server->admin_token_file[0] == '\0')
        return PCCL_OK;
    if (server->http_host_count == 0)
        return pccl_fail(reason, PCCL_ARGUMENT, "admin_token_file requires http: commands are sent over HTTP");
    *pages = (struct pccl_web){
        .http = {.loop = &server->reactor.loop, .hash = &server->hash, .keys = server->credentials.pages},
        .tokens = server->credentials.state[0] ? server->credentials.tokens : NULL,
        .insecure = server->insecure,
        .events = &server->events,
        .host_name_count = server->http_host_count};
    for (uint32_t i = 0; i < server->http_host_count; i++)
        pages->host_names[i] = server->http_hosts[i].name;
    if (server->admin_token_file[0] != '\0') {
        enum pccl_status status = pccl_web_read_token(server->admin_token_file, pages->token, reason);
        if (status != PCCL_OK)
            return status;
    }
    return pccl_web_open(&server->pages, server->http_hosts, server->http_host_count, reason);
}

static void keep_peer(void *context, uint32_t pass, const struct pccl_id *token)
{
    struct pccl_master_server *server = context;
    pccl_tokens_keep(server->credentials.tokens, pass, token);
}

static void keep_peers(void *context, uint32_t pass)
{
    struct pccl_master_server *server = context;
    if (server->machine)
        pccl_master_each_of_pass(server->machine, pass, keep_peer, server);
}

/* Locks the state directory, which only one master may use at a time, and reads its files. */
static enum pccl_status open_state(struct pccl_master_server *server, struct pccl_text *reason)
{
    const struct pccl_credentials *credentials = &server->credentials;
    enum pccl_status status = PCCL_OK;
    if (credentials->state[0]) {
        server->control = (struct pccl_control){.tokens = credentials->tokens};
        status = pccl_secret_directory(credentials->state, reason);
        if (status == PCCL_OK)
            status = pccl_control_open(&server->control, &server->reactor.loop, credentials->state, reason);
        if (status == PCCL_OK)
            status = pccl_run_file_open(&server->run_file, credentials->state, &server->config.run_noted, reason);
    }
    if (status != PCCL_OK || !credentials->tokens)
        return status;
    pccl_tokens_set_peers(credentials->tokens, keep_peers, server);
    return pccl_tokens_begin(credentials->tokens, reason);
}

static enum pccl_status listen_all(struct pccl_master_server *server, struct pccl_text *reason)
{
    for (uint32_t i = 0; i < server->host_count; i++) {
        struct pccl_address addresses[PCCL_LISTEN_ADDRESSES_MAX];
        uint32_t count = pccl_resolve_now(&server->hosts[i], 1, addresses, PCCL_COUNT_OF(addresses), reason);
        if (count == 0)
            return PCCL_SYSTEM;
        struct pccl_listener *listener = &server->listeners[i];
        *listener = (struct pccl_listener){.loop = &server->reactor.loop,
                                           .memory = pccl_heap(),
                                           .hash = &server->hash,
                                           .strangers_max = PCCL_STRANGERS_MAX,
                                           .events = &connection_events,
                                           .owner = server,
                                           .keys = server->credentials.keys,
                                           .role = PCCL_SECURE_MASTER,
                                           .queue_max = PCCL_TURNS_MAX,
                                           .sharers = server->host_count,
                                           .greeting_ms = server->config.hello_ms,
                                           .accepted = on_accepted,
                                           .wants_spare = true,
                                           .crowded_out = refuse_for_lack_of_descriptors,
                                           .dropped = on_dropped};
        int error = pccl_listener_open(listener, addresses, count, server->hosts[i].port, 1, reason);
        if (error)
            return pccl_errors_of_system(error);
        if (!server->insecure)
            pccl_credentials_warn_of_port(&server->credentials, addresses, count, listener->port);
    }
    return listen_for_http(server, reason);
}

/* Undoes a start before the thread runs. */
static void abandon(struct pccl_master_server *server)
{
    for (uint32_t i = 0; i < server->host_count; i++) {
        pccl_listener_close(&server->listeners[i]);
        server->listeners[i] = (struct pccl_listener){0};
    }
    pccl_web_close(&server->pages);
    pccl_control_close(&server->control);
    pccl_alerts_close(&server->alerts);
    pccl_events_close(&server->events, "master did not start", pccl_now_us());
    uv_close((uv_handle_t *)&server->beat_timer, NULL);
    pccl_reactor_close(&server->reactor);
    pccl_events_end(&server->events);
    pccl_table_fini(&server->connections);
    if (server->machine)
        pccl_master_destroy(server->machine);
    server->machine = NULL;
}

static enum pccl_status open_reactor(struct pccl_master_server *server, struct pccl_text *reason)
{
    static const struct pccl_reactor_events events = {.polling = on_polling, .polled = on_polled};
    int error = pccl_reactor_open(&server->reactor, &events);
    if (error) {
        pccl_text_format(reason, "cannot create an event loop: %s", uv_strerror(error));
        return pccl_errors_of_system(error);
    }
    (void)uv_timer_init(&server->reactor.loop, &server->beat_timer);
    server->beat_timer.data = server;
    if (server->beat)
        (void)uv_timer_start(&server->beat_timer, on_beat, 0, server->beat_ms);
    server->searches = (struct pccl_searches){.loop = &server->reactor.loop, .memory = pccl_heap()};
    return PCCL_OK;
}

static enum pccl_status start(struct pccl_master_server *server, struct pccl_text *reason)
{
    static const struct pccl_master_effects effects = {.send = effect_send,
                                                       .accept = effect_accept,
                                                       .close = effect_close,
                                                       .probe = effect_probe,
                                                       .solve = effect_solve,
                                                       .stop_solving = effect_stop_solving,
                                                       .log = effect_log};
    struct pccl_master_effects bound = effects;
    bound.context = server;
    if (server->report_files.path[0])
        bound.report = effect_topology_report;
    server->config.build = *pccl_build_own();
    if (server->credentials.state[0])
        bound.note_run = effect_note_run;
    if (!pccl_random_u64(&server->config.boot) || !pccl_random_u64(&server->config.seed) ||
        !pccl_random_u64(&server->config.hash_seed) || !pccl_random_id(&server->config.secret)) {
        return pccl_fail(reason, PCCL_SYSTEM, "cannot get random bytes from the system");
    }
    pccl_hash_key_init(&server->hash, server->config.hash_seed);
    enum pccl_status status = open_reactor(server, reason);
    if (status != PCCL_OK)
        return status;
    status = open_state(server, reason);
    if (status == PCCL_OK)
        status = listen_all(server, reason);
    if (status != PCCL_OK)
        goto out;
    pccl_events_open(&server->events, pccl_heap(), &server->reactor.loop, server->credentials.state, own_version,
                     pccl_now_us());
    server->machine = pccl_master_create(&server->config, pccl_heap(), &bound, pccl_now_us());
    if (!server->machine) {
        pccl_text_format(reason, "out of memory for a master");
        status = PCCL_MEMORY;
        goto out;
    }
    server->alerts.counts = counts_for_alerts;
    server->alerts.log = effect_log;
    server->alerts.context = server;
    pccl_alerts_open(&server->alerts, &server->reactor.loop, pccl_now_us());
    int error = pccl_thread_start(&server->thread, thread_main, server);
    if (error) {
        pccl_text_format(reason, "cannot start a thread: %s", uv_strerror(error));
        status = PCCL_SYSTEM;
    }
out:
    if (status != PCCL_OK)
        abandon(server);
    return status;
}

struct starting {
    struct pccl_master_server *server;
    struct pccl_text *reason;
    enum pccl_status status;
};

static void start_guarded(void *argument)
{
    struct starting *starting = argument;
    starting->status = start(starting->server, starting->reason);
}

enum pccl_status pccl_master_server_run(struct pccl_master_server *server, struct pccl_text *reason)
{
    struct starting starting = {.server = server, .reason = reason};
    pccl_guard_install();
    if (pccl_guard_run(start_guarded, &starting))
        return starting.status;
    mark_broken(server);
    return pccl_fail(reason, PCCL_INTERNAL, "%s", pccl_status_text(PCCL_INTERNAL));
}

uint16_t pccl_master_server_port(const struct pccl_master_server *server, uint32_t index)
{
    return server->listeners[index].port;
}

uint16_t pccl_master_server_http_port(const struct pccl_master_server *server)
{
    return pccl_web_are_open(&server->pages) ? server->pages.http.port : 0;
}

static void ask_for(struct pccl_master_server *server, atomic_bool *what)
{
    pccl_signals before; /* signal handlers also call this function, and may interrupt another call to it */
    pccl_thread_block_signals(&before);
    uv_mutex_lock(&server->lock);
    atomic_store(what, true);
    if (!server->ended)
        pccl_reactor_wake(&server->reactor);
    uv_mutex_unlock(&server->lock);
    pccl_thread_restore_signals(&before);
}

void pccl_master_server_interrupt(struct pccl_master_server *server) { ask_for(server, &server->interrupted); }

void pccl_master_server_reload(struct pccl_master_server *server) { ask_for(server, &server->reloads); }

static void free_machine(void *argument)
{
    struct pccl_master_server *server = argument;
    pccl_table_fini(&server->connections);
    if (server->machine)
        pccl_master_destroy(server->machine);
}

enum pccl_status pccl_master_server_join(struct pccl_master_server *server)
{
    (void)uv_thread_join(&server->thread);
    if (!server->broken) {
        pccl_reactor_close(&server->reactor);
        if (!pccl_guard_run(free_machine, server))
            server->defect = true;
        server->machine = NULL;
    }
    return server->defect ? PCCL_INTERNAL : PCCL_OK;
}

void pccl_master_server_destroy(struct pccl_master_server *server)
{
    if (server->broken)
        return; /* threads that search for rings may still use the server */
    uv_mutex_destroy(&server->lock);
    release(server);
}
