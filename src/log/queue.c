#include "log/queue.h"

#include "log/stderr.h"
#include "net/heap.h"
#include "os/fork.h"
#include "os/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines lost at one place in the queue, and their highest level, at which the loss is reported. */
struct loss {
    uint64_t lines;
    enum pccl_log_level level;
};

struct line {
    struct line *newer;
    struct loss before;
    enum pccl_log_level level;
    size_t bytes;        /* size of this block */
    const char *message; /* points into text, after the subsystem */
    char text[];
};

enum { EXIT_PATIENCE_MS = 1000 };

static uv_once_t once = UV_ONCE_INIT;
static uv_mutex_t lock; /* never locked while a callback runs or a line is written */
static uv_cond_t changed;

static pcclLogCallback_t sink;
static void *sink_user;
static bool changing; /* true while the callback is being changed, which is done by one thread at a time */
static struct line *oldest, *newest;
static struct loss loss;                     /* lines lost after the newest line */
static uint64_t put, taken, handed;          /* total numbers of lines queued, taken by the worker, and delivered */
static uint64_t barrier;                     /* during a change: number of lines that go to the previous callback */
static bool busy;                            /* the worker is delivering a line */
static enum { NONE, RUNNING, ENDED } worker; /* ENDED: not joined yet */
static uv_thread_t thread;

static _Thread_local bool inside;

bool pccl_log_queue_inside(void) { return inside; }

/* ---- start, end and fork of the process ---- */

static void free_lines(void)
{
    while (oldest) {
        struct line *line = oldest;
        oldest = line->newer;
        pccl_release(pccl_heap(), line, line->bytes);
    }
    newest = NULL;
}

static void before_fork(void) { uv_mutex_lock(&lock); }
static void after_fork(void) { uv_mutex_unlock(&lock); }

/* Resets the queue in a forked child, which has only the forking thread. The queued lines belong to the parent. */
static void after_fork_in_child(void)
{
    free_lines();
    loss.lines = 0;
    put = taken;
    changing = false;
    if (!inside) { /* if a callback forked, it continues in the child as well */
        handed = taken;
        busy = false;
        worker = NONE;
    }
    (void)uv_cond_init(&changed);
    uv_mutex_unlock(&lock);
}

static void wait_at_exit(void) { pccl_log_queue_wait(EXIT_PATIENCE_MS); }

static void begin(void)
{
    (void)uv_mutex_init(&lock); /* never fails on supported systems */
    (void)uv_cond_init(&changed);
    pccl_fork_call(before_fork, after_fork, after_fork_in_child);
    (void)atexit(wait_at_exit);
}

/* ---- the thread ---- */

static void hand_over(pcclLogCallback_t callback, void *user, enum pccl_log_level level, const char *subsystem,
                      const char *message)
{
    if (callback)
        callback((pcclLogLevel_t)level, subsystem, message, user);
    else /* a callback removed itself while lines were queued */
        pccl_log_stderr(level, subsystem, message, NULL);
}

static void tell_loss(pcclLogCallback_t callback, void *user, const struct loss *lost)
{
    char message[128];
    (void)snprintf(message, sizeof message, "%llu log lines dropped here: the log consumer is too slow",
                   (unsigned long long)lost->lines);
    hand_over(callback, user, lost->level, "log", message);
}

static bool may_take_line(void) { return oldest && !(changing && taken == barrier); }

/* Delivers a line. The caller holds the lock, which is released during the callback. */
static void take_one(void)
{
    struct line *line = may_take_line() ? oldest : NULL;
    struct loss lost = line ? line->before : loss;
    pcclLogCallback_t callback = sink;
    void *user = sink_user;
    if (line) {
        oldest = line->newer;
        newest = oldest ? newest : NULL;
        taken++;
    } else {
        loss.lines = 0;
    }
    busy = true;
    uv_mutex_unlock(&lock);
    if (lost.lines > 0)
        tell_loss(callback, user, &lost);
    if (line) {
        hand_over(callback, user, line->level, line->text, line->message);
        pccl_release(pccl_heap(), line, line->bytes);
    }
    uv_mutex_lock(&lock);
    busy = false;
    handed = taken;
    uv_cond_broadcast(&changed);
}

static void work(void *argument)
{
    (void)argument;
    inside = true;
    uv_mutex_lock(&lock);
    while (sink || oldest) {
        if (may_take_line() || (!oldest && loss.lines > 0))
            take_one();
        else
            uv_cond_wait(&changed, &lock);
    }
    worker = ENDED;
    uv_cond_broadcast(&changed);
    uv_mutex_unlock(&lock);
}

/* Joins a thread that has ended. The caller holds the lock, which that thread no longer needs. */
static void join(void)
{
    if (worker == ENDED) {
        (void)uv_thread_join(&thread);
        worker = NONE;
    }
}

static bool start(void)
{
    join();
    if (worker == NONE && pccl_thread_start(&thread, work, NULL) == 0)
        worker = RUNNING;
    return worker == RUNNING;
}

/* ---- lines ---- */

static struct line *make(enum pccl_log_level level, const char *subsystem, const char *message)
{
    size_t subsystem_bytes = strlen(subsystem) + 1, message_bytes = strlen(message) + 1;
    size_t bytes = sizeof(struct line) + subsystem_bytes + message_bytes;
    struct line *line = pccl_allocate(pccl_heap(), bytes);
    if (!line)
        return NULL;
    line->level = level;
    line->bytes = bytes;
    memcpy(line->text, subsystem, subsystem_bytes);
    line->message = memcpy(line->text + subsystem_bytes, message, message_bytes);
    return line;
}

static void append(struct line *line)
{
    line->before = loss;
    loss.lines = 0;
    if (newest)
        newest->newer = line;
    else
        oldest = line;
    newest = line;
    put++;
}

static void lose(enum pccl_log_level level)
{
    if (loss.lines++ == 0 || level > loss.level)
        loss.level = level;
}

bool pccl_log_queue_put(enum pccl_log_level level, const char *subsystem, const char *message)
{
    uv_once(&once, begin);
    uv_mutex_lock(&lock);
    bool wanted = sink != NULL;
    if (wanted) {
        bool room = put - handed < PCCL_LOG_QUEUE_MAX;
        struct line *line = start() && room ? make(level, subsystem, message) : NULL;
        if (line)
            append(line);
        else
            lose(level);
        uv_cond_broadcast(&changed);
    }
    uv_mutex_unlock(&lock);
    return wanted;
}

/* ---- changes ---- */

static bool is_under_way(uint64_t until)
{
    return worker == RUNNING && (handed < until || (!oldest && (busy || loss.lines > 0)));
}

static void change(pcclLogCallback_t callback, void *user)
{
    sink = callback;
    sink_user = user;
    uv_cond_broadcast(&changed);
}

void pccl_log_queue_set(pcclLogCallback_t callback, void *user)
{
    uv_once(&once, begin);
    uv_mutex_lock(&lock);
    while (changing && !inside)
        uv_cond_wait(&changed, &lock);
    if (inside) { /* the callback itself made this call, so waiting for it would never end */
        change(callback, user);
        uv_mutex_unlock(&lock);
        return;
    }
    changing = true;
    barrier = put;
    while (busy || is_under_way(barrier))
        uv_cond_wait(&changed, &lock);
    changing = false;
    change(callback, user);
    while (!sink && worker == RUNNING)
        uv_cond_wait(&changed, &lock);
    if (!sink)
        join();
    uv_mutex_unlock(&lock);
}

void pccl_log_queue_wait(uint32_t milliseconds)
{
    if (inside)
        return;
    uv_once(&once, begin);
    uint64_t end_ns = uv_hrtime() + milliseconds * UINT64_C(1000000);
    uv_mutex_lock(&lock);
    uint64_t until = put;
    for (uint64_t now_ns = uv_hrtime(); is_under_way(until) && now_ns < end_ns; now_ns = uv_hrtime())
        (void)uv_cond_timedwait(&changed, &lock, end_ns - now_ns);
    uv_mutex_unlock(&lock);
}
