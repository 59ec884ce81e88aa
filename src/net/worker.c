#include "net/worker.h"

#include "net/guard.h"
#include "net/heap.h"
#include "os/socket.h"

static const struct pccl_channel_events channel_events;

/* ---- life of a link ---- */

static struct pccl_worker_link *link_of(struct pccl_channel *channel)
{
    return PCCL_CONTAINER_OF(channel, struct pccl_worker_link, channel);
}

static void on_released(struct pccl_channel *channel)
{
    struct pccl_worker_link *link = link_of(channel);
    if (link->role->release)
        link->role->release(link);
    pccl_release(pccl_heap(), link, link->role->bytes);
}

static void free_unopened(struct pccl_worker_link *link)
{
    pccl_channel_fini(&link->channel);
    on_released(&link->channel);
}

/* Creates a link. Returns NULL if out of memory, without touching the socket. Any thread. */
static struct pccl_worker_link *make_link(struct pccl_worker *worker, const struct pccl_worker_role *role,
                                          const struct pccl_id *peer, uv_os_sock_t socket)
{
    struct pccl_worker_link *link = pccl_allocate(pccl_heap(), role->bytes);
    if (!link)
        return NULL;
    link->worker = worker;
    link->role = role;
    link->peer = *peer;
    pccl_channel_init(&link->channel, pccl_heap(), socket, &channel_events);
    if (role->out_max)
        link->channel.out_max = role->out_max;
    link->channel.sink = worker->sink;
    link->channel.sink_bytes = sizeof worker->sink;
    return link;
}

/* Opens a link, which owns its socket. On failure closes the socket, frees the link and returns false. */
static bool open_link(struct pccl_worker_link *link)
{
    struct pccl_worker *worker = link->worker;
    if (!pccl_channel_open(&link->channel, &worker->reactor.loop)) {
        free_unopened(link);
        return false;
    }
    if (worker->config.silence_ms)
        pccl_socket_limit_silence(link->channel.socket, worker->config.silence_ms);
    pccl_list_append(&worker->links, &link->in_links);
    return true;
}

void pccl_worker_link_close(struct pccl_worker_link *link)
{
    pccl_list_remove(&link->in_links);
    if (link->line)
        link->line->link = NULL;
    if (link->role->discards)
        pccl_channel_abort(&link->channel);
    else
        pccl_channel_close(&link->channel);
}

const struct pccl_text *pccl_worker_link_why(struct pccl_worker_link *link)
{
    if (!link->reason.length)
        pccl_text_format(&link->reason, "%s", pccl_channel_why(&link->channel));
    return &link->reason;
}

/* ---- the input of a link ---- */

enum pccl_channel_io pccl_worker_link_take(struct pccl_worker_link *link)
{
    struct pccl_msg msg;
    enum pccl_channel_io io = pccl_channel_message(&link->channel, link->worker->scratch, &msg, &link->reason);
    return io == PCCL_CHANNEL_MOVED && !link->role->message(link, &msg) ? PCCL_CHANNEL_ENDED : io;
}

static enum pccl_channel_io take_all(struct pccl_worker_link *link)
{
    enum pccl_channel_io io = PCCL_CHANNEL_MOVED;
    while (io == PCCL_CHANNEL_MOVED && !link->pauses) {
        (void)pccl_channel_move(&link->channel);
        if (link->channel.received < link->channel.expected)
            return PCCL_CHANNEL_WAITS;
        io = link->role->take ? link->role->take(link) : pccl_worker_link_take(link);
    }
    return io;
}

enum pccl_channel_io pccl_worker_link_receive(struct pccl_worker_link *link, size_t *budget)
{
    enum pccl_channel_io io = take_all(link);
    while (io == PCCL_CHANNEL_WAITS && !link->channel.dry && *budget) {
        io = pccl_channel_read(&link->channel, budget);
        if (io == PCCL_CHANNEL_MOVED)
            io = take_all(link);
    }
    return io;
}

static void on_visit(struct pccl_channel *channel, int ready)
{
    struct pccl_worker_link *link = link_of(channel);
    (void)pccl_channel_begin(channel, ready); /* result ignored: reading detects whether there is input */
    link->role->visit(link);
}

static void on_late(struct pccl_channel *channel)
{
    struct pccl_worker_link *link = link_of(channel);
    pccl_text_format(&link->reason, "no data for %s", pccl_duration_str(pccl_now_us() - channel->moved_us));
    link->role->end(link);
}

static const struct pccl_channel_events channel_events = {.visit = on_visit, .late = on_late, .released = on_released};

void pccl_worker_link_watch(struct pccl_worker_link *link, bool input, bool awaits)
{
    if (link->channel.state == PCCL_CHANNEL_CLOSED)
        return;
    pccl_channel_watch(&link->channel, input ? UV_READABLE : 0);
    pccl_channel_owed(&link->channel, awaits ? link->worker->config.silence_ms : 0);
}

/* ---- links that we dial ---- */

static void stop_waiting(struct pccl_worker_line *line)
{
    if (line->reversed && line->dialer)
        pccl_list_remove(&line->in_waiting);
}

/* Takes over a connection after its handshake. It becomes the line's link or, on failure, is closed with a reason. */
static void take_over(struct pccl_worker_line *line, struct pccl_handover *handover, struct pccl_text *reason)
{
    bool speaks = pccl_handover_has_input(handover);
    struct pccl_worker_link *link = speaks ? NULL : make_link(line->worker, line->role, &line->peer, handover->socket);
    pccl_text_format(reason, "%s", speaks ? "it sent data before a request" : pccl_status_text(PCCL_MEMORY));
    if (!link) {
        pccl_handover_drop(handover);
        return;
    }
    pccl_channel_adopt(&link->channel, handover);
    if (open_link(link)) {
        link->line = line;
        line->link = link;
    }
}

static void on_dialed(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                      const struct pccl_text *reason)
{
    struct pccl_worker_line *line = context;
    struct pccl_text why = *reason;
    struct pccl_handover handover;
    stop_waiting(line);
    line->dialer = NULL;
    if (connection) {
        line->address = connection->address;
        how = 0;
        if (pccl_connection_detach(connection, &handover)) {
            take_over(line, &handover, &why);
        } else {
            how = PCCL_LINK_CLOSED;
            pccl_text_format(&why, "it failed immediately");
            pccl_connection_close(connection, 0);
        }
    }
    line->dialed(line, how, &why);
}

/* Requests the line's connection from the other side, and waits for it. Returns false if out of memory. */
static bool begin_waiting(struct pccl_worker_line *line, uint32_t slot, uint32_t timeout_ms)
{
    struct pccl_worker *worker = line->worker;
    struct pccl_dial dial = {.waits_ms = timeout_ms, .done = on_dialed, .context = line};
    line->dialer = pccl_dialer_start(&worker->reactor.loop, pccl_heap(), &dial);
    if (!line->dialer)
        return false;
    line->number = worker->config.want_back(worker->config.context, &line->peer, worker->kind->link, slot);
    pccl_list_append(&worker->waiting, &line->in_waiting);
    return true;
}

bool pccl_worker_dial(struct pccl_worker_line *line, struct pccl_msg_link_hello *hello, struct pccl_dial *dial)
{
    struct pccl_worker *worker = line->worker;
    if (line->reversed)
        return begin_waiting(line, hello->slot, dial->timeout_ms);
    hello->lineage = worker->config.lineage;
    hello->from = worker->config.self;
    hello->to = line->peer;
    hello->kind = (uint8_t)worker->kind->link;
    dial->hello = hello;
    dial->keys = worker->config.keys;
    dial->local = worker->config.local;
    dial->stagger_ms = worker->config.stagger_ms;
    dial->done = on_dialed;
    dial->context = line;
    line->dialer = pccl_dialer_start(&worker->reactor.loop, pccl_heap(), dial);
    return line->dialer != NULL;
}

void pccl_worker_line_end(struct pccl_worker_line *line)
{
    stop_waiting(line);
    if (line->dialer)
        pccl_dialer_cancel(line->dialer);
    line->dialer = NULL;
    if (line->link)
        pccl_worker_link_close(line->link);
}

/* ---- links that others dial ---- */

static struct pccl_worker_link *link_at(struct pccl_list_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_worker_link, in_links);
}

/* If the peer has dialed the maximum number of these links, returns the oldest of them, otherwise NULL. */
static struct pccl_worker_link *find_excess(const struct pccl_worker_kind *kind, struct pccl_list_node *links,
                                            const struct pccl_id *peer)
{
    struct pccl_worker_link *oldest = NULL;
    uint32_t count = 0;
    for (struct pccl_list_node *node = links->previous; node != links; node = node->previous)
        if (link_at(node)->role == kind->accepts && pccl_id_equal(&link_at(node)->peer, peer)) {
            oldest = link_at(node);
            count++;
        }
    return count < kind->accepts_max ? NULL : oldest;
}

/* Closes a link that the loop has not opened. */
static void drop_waiting(struct pccl_worker_link *link)
{
    pccl_socket_close(link->channel.socket);
    free_unopened(link);
}

enum pccl_status pccl_worker_accept(struct pccl_worker *worker, const struct pccl_id *peer,
                                    struct pccl_handover *handover)
{
    struct pccl_worker_link *link = make_link(worker, worker->kind->accepts, peer, handover->socket), *excess = NULL;
    if (!link)
        return PCCL_MEMORY;
    uv_mutex_lock(&worker->lock);
    bool takes = !worker->leaving;
    if (takes) {
        excess = find_excess(worker->kind, &worker->accepted, peer);
        if (excess)
            pccl_list_remove(&excess->in_links);
        pccl_channel_adopt(&link->channel, handover);
        pccl_list_append(&worker->accepted, &link->in_links);
    }
    uv_mutex_unlock(&worker->lock);
    if (excess)
        drop_waiting(excess);
    if (takes)
        pccl_reactor_wake(&worker->reactor);
    else
        free_unopened(link);
    return takes ? PCCL_OK : PCCL_USAGE;
}

/* A connection that another peer has dialed for a line. */
struct answer {
    struct pccl_list_node in_answers;
    struct pccl_id peer;
    uint64_t number;
    struct pccl_handover handover;
};

enum pccl_status pccl_worker_answer(struct pccl_worker *worker, const struct pccl_id *peer, uint64_t number,
                                    struct pccl_handover *handover)
{
    struct answer *answer = pccl_allocate(pccl_heap(), sizeof *answer);
    if (!answer)
        return PCCL_MEMORY;
    *answer = (struct answer){.peer = *peer, .number = number, .handover = *handover};
    uv_mutex_lock(&worker->lock);
    bool takes = !worker->leaving;
    if (takes)
        pccl_list_append(&worker->answers, &answer->in_answers);
    uv_mutex_unlock(&worker->lock);
    if (takes)
        pccl_reactor_wake(&worker->reactor);
    else
        pccl_release(pccl_heap(), answer, sizeof *answer);
    return takes ? PCCL_OK : PCCL_USAGE;
}

/* Returns the line that waits for this connection; NULL if no line does. */
static struct pccl_worker_line *find_waiting(struct pccl_worker *worker, const struct answer *answer)
{
    for (struct pccl_list_node *node = worker->waiting.next; node != &worker->waiting; node = node->next) {
        struct pccl_worker_line *line = PCCL_CONTAINER_OF(node, struct pccl_worker_line, in_waiting);
        if (line->number == answer->number && pccl_id_equal(&line->peer, &answer->peer))
            return line;
    }
    return NULL;
}

/* Passes these connections to the lines that wait for them. Closes the others. */
static void take_answers(struct pccl_worker *worker, struct pccl_list_node *answers)
{
    while (!pccl_list_is_empty(answers)) {
        struct answer *answer = PCCL_CONTAINER_OF(answers->next, struct answer, in_answers);
        struct pccl_worker_line *line = find_waiting(worker, answer);
        struct pccl_text why;
        pccl_list_remove(&answer->in_answers);
        if (line) {
            stop_waiting(line);
            pccl_dialer_cancel(line->dialer);
            line->dialer = NULL;
            take_over(line, &answer->handover, &why);
            line->dialed(line, 0, &why);
        } else {
            pccl_handover_drop(&answer->handover);
        }
        pccl_release(pccl_heap(), answer, sizeof *answer);
    }
}

/* Closes the oldest link of a peer that has dialed too many. */
static void make_room(struct pccl_worker *worker, const struct pccl_id *peer)
{
    struct pccl_worker_link *excess = find_excess(worker->kind, &worker->links, peer);
    if (!excess)
        return;
    pccl_text_format(&excess->reason, "closed because that peer has opened %u later connections",
                     worker->kind->accepts_max);
    excess->role->end(excess);
}

/* ---- the loop ---- */

void pccl_worker_post(struct pccl_worker *worker)
{
    worker->posted = true;
    uv_mutex_unlock(&worker->lock);
    pccl_reactor_wake(&worker->reactor);
}

void pccl_worker_end(struct pccl_worker *worker)
{
    worker->leaving = true;
    pccl_reactor_wake(&worker->reactor);
}

bool pccl_worker_is_needed(struct pccl_worker *worker)
{
    uv_mutex_lock(&worker->lock);
    bool needed = !worker->leaving &&
                  (worker->posted || !pccl_list_is_empty(&worker->accepted) || !pccl_list_is_empty(&worker->answers));
    uv_mutex_unlock(&worker->lock);
    return needed;
}

/* Moves a whole list to another head. */
static void move_list(struct pccl_list_node *list, struct pccl_list_node *to)
{
    pccl_list_append(list, to);
    pccl_list_remove(list);
}

static void take_accepted(struct pccl_worker *worker, struct pccl_list_node *accepted, struct pccl_list_node *answers)
{
    uv_mutex_lock(&worker->lock);
    move_list(&worker->accepted, accepted);
    move_list(&worker->answers, answers);
    worker->posted = false;
    worker->ended = worker->leaving;
    uv_mutex_unlock(&worker->lock);
}

static struct pccl_worker *worker_of(struct pccl_reactor *reactor)
{
    return PCCL_CONTAINER_OF(reactor, struct pccl_worker, reactor);
}

static void on_wake(struct pccl_reactor *reactor)
{
    struct pccl_worker *worker = worker_of(reactor);
    struct pccl_list_node accepted, answers;
    take_accepted(worker, &accepted, &answers);
    worker->kind->woken(worker);
    take_answers(worker, &answers);
    while (!pccl_list_is_empty(&accepted)) {
        struct pccl_worker_link *link = link_at(accepted.next);
        pccl_list_remove(&link->in_links);
        make_room(worker, &link->peer);
        if (open_link(link))
            link->role->visit(link);
    }
    if (worker->ended)
        pccl_reactor_stop(reactor);
}

static void on_tick(struct pccl_reactor *reactor)
{
    struct pccl_worker *worker = worker_of(reactor);
    worker->kind->ticked(worker);
}

void pccl_worker_run(struct pccl_worker *worker)
{
    if (worker->ended || worker->broken || pccl_reactor_run(&worker->reactor))
        return;
    worker->broken = true;
    worker->config.broken(worker->config.context, worker);
}

/* ---- life ---- */

static void release(struct pccl_worker *worker)
{
    pccl_release(pccl_heap(), worker->scratch, sizeof *worker->scratch);
    pccl_release(pccl_heap(), worker, worker->kind->bytes);
}

enum pccl_status pccl_worker_create(const struct pccl_worker_kind *kind, const struct pccl_worker_config *config,
                                    struct pccl_worker **out, struct pccl_text *reason)
{
    static const struct pccl_reactor_events reactor_events = {.woken = on_wake, .ticked = on_tick};
    struct pccl_worker *worker = pccl_allocate(pccl_heap(), kind->bytes);
    int error = UV_ENOMEM;
    if (!worker)
        goto no_worker;
    worker->kind = kind;
    worker->config = *config;
    pccl_list_init(&worker->accepted);
    pccl_list_init(&worker->answers);
    pccl_list_init(&worker->links);
    pccl_list_init(&worker->waiting);
    worker->scratch = pccl_heap_raw(sizeof *worker->scratch);
    if (!worker->scratch)
        goto no_lock;
    error = uv_mutex_init(&worker->lock);
    if (error)
        goto no_lock;
    error = pccl_reactor_open(&worker->reactor, &reactor_events);
    if (error)
        goto no_reactor;
    *out = worker;
    return PCCL_OK;

no_reactor:
    uv_mutex_destroy(&worker->lock);
no_lock:
    release(worker);
no_worker:
    pccl_socket_explain(error, reason);
    return error == UV_ENOMEM ? PCCL_MEMORY : PCCL_SYSTEM;
}

static void destroy(void *argument)
{
    struct pccl_worker *worker = argument;
    while (!pccl_list_is_empty(&worker->accepted)) {
        struct pccl_worker_link *link = link_at(worker->accepted.next);
        pccl_list_remove(&link->in_links);
        drop_waiting(link);
    }
    worker->kind->release(worker);
    take_answers(worker, &worker->answers); /* no line waits */
    for (struct pccl_worker_link *link; (link = pccl_worker_link_in(worker, worker->links.previous));)
        pccl_worker_link_close(link);
    pccl_reactor_close(&worker->reactor);
    uv_mutex_destroy(&worker->lock);
    release(worker);
}

void pccl_worker_destroy(struct pccl_worker *worker)
{
    if (!worker->broken && !pccl_guard_run(destroy, worker))
        worker->broken = true;
}
