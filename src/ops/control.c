#include "ops/control.h"

#include "config/params.h"
#include "net/heap.h"
#include "os/file.h"
#include "os/socket.h"

#include <stdio.h>
#include <string.h>

enum { PAUSE_MS = 50 /* pause after a shortage of descriptors or memory */ };

static const char in_use[] = "in use by another master";

struct pccl_control_visitor {
    struct pccl_control *control; /* NULL once it is no longer counted and only waits for the loop to release it */
    struct pccl_list_node node;
    struct pccl_channel channel;
    struct pccl_print answer;
    const uint8_t *payload;
    uint8_t *room; /* address of `command`, for the channel */
    uint8_t command[PCCL_TOKENS_COMMAND_MAX + 1];
};

/* ---- visitors ---- */

static struct pccl_control_visitor *visitor_of(struct pccl_channel *channel)
{
    return PCCL_CONTAINER_OF(channel, struct pccl_control_visitor, channel);
}

static void leave(struct pccl_control_visitor *visitor)
{
    struct pccl_control *control = visitor->control;
    if (!control)
        return;
    pccl_list_remove(&visitor->node);
    control->visitor_count--;
    visitor->control = NULL;
}

/* Overwrites the answer, which may contain a token. */
static void wipe_answer(struct pccl_control_visitor *visitor)
{
    if (visitor->answer.bytes)
        pccl_wipe(visitor->answer.bytes, visitor->answer.length);
    pccl_print_fini(&visitor->answer);
}

static void on_released(struct pccl_channel *channel)
{
    struct pccl_control_visitor *visitor = visitor_of(channel);
    leave(visitor);
    wipe_answer(visitor);
    pccl_release(channel->memory, visitor, sizeof *visitor);
}

static void close_at_once(struct pccl_control_visitor *visitor)
{
    leave(visitor);
    pccl_channel_close(&visitor->channel);
}

static void on_parted(struct pccl_channel *channel) { leave(visitor_of(channel)); }

static void on_late(struct pccl_channel *channel) { close_at_once(visitor_of(channel)); }

/* Executes a complete command and sends the answer. */
static void answer(struct pccl_control_visitor *visitor, char *end)
{
    struct pccl_control *control = visitor->control;
    uint32_t revoked = 0;
    *end = '\0';
    if (control->tokens)
        pccl_tokens_command(control->tokens, (const char *)visitor->command, &visitor->answer, &revoked);
    else
        pccl_print_add(&visitor->answer, "no\nthe master runs without encryption, so it has no tokens\n");
    if (revoked) { /* a client accepted in this iteration of the loop is read in the next one, so there is room */
        PCCL_ASSERT(control->revoked_count < PCCL_COUNT_OF(control->revoked));
        control->revoked[control->revoked_count++] = revoked;
    }
    visitor->payload = (const uint8_t *)visitor->answer.bytes;
    if (!visitor->answer.failed)
        pccl_channel_put_payload(&visitor->channel, &visitor->payload, visitor->answer.length);
    pccl_channel_leave(&visitor->channel, false, PCCL_CONTROL_MS);
}

static void on_visit(struct pccl_channel *channel, int ready)
{
    struct pccl_control_visitor *visitor = visitor_of(channel);
    size_t budget = sizeof visitor->command;
    (void)pccl_channel_begin(channel, ready);
    enum pccl_channel_io io = pccl_channel_read(channel, &budget);
    char *end = io == PCCL_CHANNEL_MOVED ? memchr(visitor->command, '\n', channel->received) : NULL;
    if (end)
        answer(visitor, end);
    else if (io == PCCL_CHANNEL_ENDED || channel->received == sizeof visitor->command)
        close_at_once(visitor);
    if (channel->state == PCCL_CHANNEL_OPEN)
        pccl_channel_watch(channel, UV_READABLE);
}

static void welcome(struct pccl_control *control, uv_os_sock_t socket)
{
    static const struct pccl_channel_events events = {
        .visit = on_visit, .late = on_late, .parted = on_parted, .released = on_released};
    struct pccl_control_visitor *visitor =
        control->visitor_count < PCCL_CONTROL_VISITORS_MAX ? pccl_allocate(pccl_heap(), sizeof *visitor) : NULL;
    if (!visitor) {
        pccl_socket_close(socket);
        return;
    }
    pccl_print_init(&visitor->answer, pccl_heap(), PCCL_TOKENS_ANSWER_MAX);
    pccl_channel_init(&visitor->channel, pccl_heap(), socket, &events);
    if (!pccl_channel_open(&visitor->channel, control->poll.loop)) {
        pccl_channel_fini(&visitor->channel);
        pccl_release(pccl_heap(), visitor, sizeof *visitor);
        return;
    }
    visitor->control = control;
    pccl_list_append(&control->visitors, &visitor->node);
    control->visitor_count++;
    visitor->room = visitor->command;
    pccl_channel_expect(&visitor->channel, &visitor->room, sizeof visitor->command);
    pccl_channel_limit(&visitor->channel, PCCL_CONTROL_MS);
    pccl_channel_watch(&visitor->channel, UV_READABLE);
}

static void on_pause_over(uv_timer_t *timer);

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct pccl_control *control = poll->data;
    struct pccl_address from;
    uv_os_sock_t accepted;
    (void)status;
    (void)events;
    int error = pccl_socket_accept(control->listening, &accepted, &from);
    if (error == 0)
        welcome(control, accepted);
    else if (pccl_socket_is_shortage(error)) { /* otherwise the loop would spin */
        (void)uv_poll_stop(poll);
        (void)uv_timer_start(&control->pause, on_pause_over, PAUSE_MS, 0);
    }
}

static void on_pause_over(uv_timer_t *timer)
{
    struct pccl_control *control = timer->data;
    (void)uv_poll_start(&control->poll, UV_READABLE, on_readable);
}

/* ---- life ---- */

static int listen_there(struct pccl_control *control, uv_loop_t *loop)
{
    int error = pccl_socket_listen_local(control->path, &control->listening);
    if (error)
        return error;
    error = uv_poll_init_socket(loop, &control->poll, control->listening);
    if (error) {
        pccl_socket_close(control->listening);
        return error;
    }
    control->poll.data = control;
    (void)uv_timer_init(loop, &control->pause);
    control->pause.data = control;
    (void)uv_poll_start(&control->poll, UV_READABLE, on_readable);
    return 0;
}

/*
 * Locks the directory, because several masters may start at the same time. The system unlocks it if this process dies.
 */
static enum pccl_status take_lock(struct pccl_control *control, const char *state, struct pccl_text *reason)
{
    char path[PCCL_PARAM_BYTES_MAX + sizeof "/lock"];
    int length = snprintf(path, sizeof path, "%s/lock", state);
    bool opened = false;
    int error =
        length > 0 && (size_t)length < sizeof path ? pccl_file_lock(path, &control->lock, &opened) : UV_ENAMETOOLONG;
    if (error == 0)
        return PCCL_OK;
    return pccl_fail(reason, PCCL_SYSTEM, "cannot %s %s: %s", opened ? "lock" : "open", path,
                     opened && error == UV_EAGAIN ? in_use : uv_strerror(error));
}

/*
 * Listens on the control socket. This process holds the lock, so an existing socket is abandoned if it does not answer;
 * if it answers, it belongs to an older version, which does not lock.
 */
static enum pccl_status take_socket(struct pccl_control *control, uv_loop_t *loop, const char *state,
                                    struct pccl_text *reason)
{
    int length = snprintf(control->path, sizeof control->path, "%s/control", state);
    int error = length > 0 && (size_t)length < sizeof control->path ? listen_there(control, loop) : UV_ENAMETOOLONG;
    if (error == 0)
        return PCCL_OK;
    return pccl_fail(reason, PCCL_SYSTEM, "cannot create the socket %s/control: %s", state,
                     error == UV_EADDRINUSE     ? in_use
                     : error == UV_ENAMETOOLONG ? "the path is too long: expected at most 107 bytes"
                                                : uv_strerror(error));
}

enum pccl_status pccl_control_open(struct pccl_control *control, uv_loop_t *loop, const char *state,
                                   struct pccl_text *reason)
{
    enum pccl_status status = take_lock(control, state, reason);
    if (status != PCCL_OK)
        return status;
    status = take_socket(control, loop, state, reason);
    pccl_list_init(&control->visitors);
    control->is_open = status == PCCL_OK;
    if (!control->is_open)
        pccl_file_unlock(control->lock);
    return status;
}

uint32_t pccl_control_take_revoked(struct pccl_control *control)
{
    return control->revoked_count > 0 ? control->revoked[--control->revoked_count] : 0;
}

void pccl_control_close(struct pccl_control *control)
{
    if (!control->is_open)
        return;
    control->is_open = false;
    pccl_file_remove(control->path);
    uv_close((uv_handle_t *)&control->poll, NULL);
    uv_close((uv_handle_t *)&control->pause, NULL);
    pccl_socket_close(control->listening);
    while (!pccl_list_is_empty(&control->visitors))
        close_at_once(PCCL_CONTAINER_OF(control->visitors.next, struct pccl_control_visitor, node));
    pccl_file_unlock(control->lock);
}
