#include "net/reactor.h"

#include "net/clock.h"
#include "net/guard.h"
#include "os/socket.h"

enum {
    LOOP_FILES = 6 /* number of descriptors that libuv opens for the first loop of a process; later loops need four */
};

static struct pccl_reactor *reactor_of(void *handle) { return ((uv_handle_t *)handle)->data; }

static void on_wake(uv_async_t *wake)
{
    struct pccl_reactor *reactor = reactor_of(wake);
    if (reactor->events->woken)
        reactor->events->woken(reactor);
}

static void on_idle(uv_idle_t *idle) { (void)idle; }

void pccl_reactor_hurry(struct pccl_reactor *reactor) { (void)uv_idle_start(&reactor->idle, on_idle); }

/*
 * Makes the next poll return immediately. Due times are judged after it, so that input that arrived during a suspension
 * is read first.
 */
static void on_timer(uv_timer_t *timer) { pccl_reactor_hurry(reactor_of(timer)); }

/* Starts the timer. libuv's clock has milliseconds, and may fire a fraction of one early. */
static void start_timer(struct pccl_reactor *reactor)
{
    uint64_t now_us = pccl_now_us();
    uint64_t left_us = reactor->due_us > now_us ? reactor->due_us - now_us : 0;
    uv_update_time(&reactor->loop);
    (void)uv_timer_start(&reactor->timer, on_timer, (left_us + 999) / 1000, 0);
}

void pccl_reactor_set_due(struct pccl_reactor *reactor, uint64_t due_us)
{
    if (due_us == reactor->due_us)
        return;
    reactor->due_us = due_us;
    if (due_us == UINT64_MAX)
        (void)uv_timer_stop(&reactor->timer);
    else
        start_timer(reactor);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct pccl_reactor *reactor = reactor_of(prepare);
    if (reactor->events->polling)
        reactor->events->polling(reactor);
    reactor->received_us = pccl_now_us();
}

static void tick(struct pccl_reactor *reactor)
{
    pccl_reactor_set_due(reactor, UINT64_MAX);
    if (reactor->events->ticked)
        reactor->events->ticked(reactor);
}

static void on_check(uv_check_t *check)
{
    struct pccl_reactor *reactor = reactor_of(check);
    (void)uv_idle_stop(&reactor->idle);
    if (reactor->due_us <= reactor->received_us)
        tick(reactor);
    else if (reactor->due_us != UINT64_MAX && !uv_is_active((uv_handle_t *)&reactor->timer))
        start_timer(reactor);
    if (reactor->events->polled)
        reactor->events->polled(reactor, reactor->received_us);
}

static int open_file(void)
{
    uv_fs_t request;
    int opened = uv_fs_open(NULL, &request, "/dev/null", UV_FS_O_RDONLY, 0, NULL);
    uv_fs_req_cleanup(&request);
    return opened;
}

static void close_file(uv_file file)
{
    uv_fs_t request;
    (void)uv_fs_close(NULL, &request, file, NULL);
    uv_fs_req_cleanup(&request);
}

/*
 * Checks that descriptors are available. If they are short, libuv 1.44 leaks some that it has opened, and aborts the
 * process if this was the first loop.
 */
static int find_descriptors(void)
{
    uv_file files[LOOP_FILES];
    int count = 0, opened = 0;
    while (count < LOOP_FILES && (opened = open_file()) >= 0)
        files[count++] = opened;
    while (count > 0)
        close_file(files[--count]);
    return pccl_socket_is_shortage(opened) ? opened : 0;
}

int pccl_reactor_open(struct pccl_reactor *reactor, const struct pccl_reactor_events *events)
{
    int error = find_descriptors();
    if (error == 0)
        error = uv_loop_init(&reactor->loop);
    if (error)
        return error;
    error = uv_async_init(&reactor->loop, &reactor->wake, on_wake);
    if (error) {
        (void)uv_loop_close(&reactor->loop);
        return error;
    }
    reactor->events = events;
    reactor->due_us = UINT64_MAX;
    /* These cannot fail. */
    (void)uv_timer_init(&reactor->loop, &reactor->timer);
    (void)uv_idle_init(&reactor->loop, &reactor->idle);
    (void)uv_prepare_init(&reactor->loop, &reactor->prepare);
    (void)uv_check_init(&reactor->loop, &reactor->check);
    reactor->wake.data = reactor->timer.data = reactor->prepare.data = reactor->check.data = reactor;
    if (events->polling || events->polled || events->ticked) {
        (void)uv_prepare_start(&reactor->prepare, on_prepare);
        (void)uv_check_start(&reactor->check, on_check);
    }
    return 0;
}

void pccl_reactor_wake(struct pccl_reactor *reactor) { (void)uv_async_send(&reactor->wake); }

static void run(void *loop) { (void)uv_run(loop, UV_RUN_DEFAULT); }

bool pccl_reactor_run(struct pccl_reactor *reactor) { return pccl_guard_run(run, &reactor->loop); }

void pccl_reactor_stop(struct pccl_reactor *reactor)
{
    pccl_reactor_set_due(reactor, UINT64_MAX);
    uv_stop(&reactor->loop);
}

void pccl_reactor_end(struct pccl_reactor *reactor)
{
    uv_close((uv_handle_t *)&reactor->wake, NULL);
    uv_close((uv_handle_t *)&reactor->timer, NULL);
    uv_close((uv_handle_t *)&reactor->idle, NULL);
    uv_close((uv_handle_t *)&reactor->prepare, NULL);
    uv_close((uv_handle_t *)&reactor->check, NULL);
}

void pccl_reactor_close(struct pccl_reactor *reactor)
{
    if (!uv_is_closing((uv_handle_t *)&reactor->wake))
        pccl_reactor_end(reactor);
    (void)uv_run(&reactor->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&reactor->loop);
}
