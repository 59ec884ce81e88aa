/*
 * One event loop: its start, wake-ups by other threads, its end, and the rule that it handles pending input before any
 * due time is judged. A thread that needs a loop has a reactor as part of a struct.
 *
 * Owns the libuv loop, the descriptors by which it waits and is woken, and one timer. Knows nothing of the sockets and
 * timers that others put into `loop` (net/channel, net/listener, net/dialer ...), of locks, nor of the thread that runs
 * it.
 *
 * Threads: any thread or signal handler may call pccl_reactor_wake while the reactor is open; an owner that closes it
 * makes sure that no calls follow. All else belongs to the thread that runs it, and before and after that to the owner
 * of the struct.
 *
 * When an invariant breaks on the loop, it is abandoned and pccl_reactor_run returns false. Neither the loop nor
 * anything in it is used or freed after that (net/guard).
 */
#ifndef PCCL_NET_REACTOR_H
#define PCCL_NET_REACTOR_H

#include "core/base.h"

#include <stdint.h>
#include <uv.h>

struct pccl_reactor;

/* Events, on the loop's thread. Each may be NULL. */
struct pccl_reactor_events {
    /*
     * The reactor was woken. Called at least once after each pccl_reactor_wake; sees all earlier writes of that thread.
     */
    void (*woken)(struct pccl_reactor *reactor);
    /* The loop is about to wait; due timers have run. */
    void (*polling)(struct pccl_reactor *reactor);
    /*
     * The loop has waited. All input that had arrived by received_us (a time of pccl_now_us) has been passed to its
     * owners.
     */
    void (*polled)(struct pccl_reactor *reactor, uint64_t received_us);
    /* The due time is not after received_us. Called just before `polled`, once for each pccl_reactor_set_due. */
    void (*ticked)(struct pccl_reactor *reactor);
};

struct pccl_reactor {
    uv_loop_t loop;
    const struct pccl_reactor_events *events;
    uv_async_t wake;
    uv_timer_t timer;
    uv_idle_t idle; /* active: the next poll does not wait */
    uv_prepare_t prepare;
    uv_check_t check;
    uint64_t due_us; /* UINT64_MAX: never */
    uint64_t received_us;
};

/*
 * Opens a reactor. Returns 0, or a negative libuv error if out of memory or descriptors; everything is then undone, and
 * the struct may be freed.
 */
PCCL_MUST_CHECK int pccl_reactor_open(struct pccl_reactor *reactor, const struct pccl_reactor_events *events);
/* Wakes the loop: `woken` follows, once for several calls. May be called inside `woken`, or before the loop runs. */
void pccl_reactor_wake(struct pccl_reactor *reactor);
/* Runs the loop until it is stopped, or has ended and is empty. Returns false if an invariant broke. */
PCCL_MUST_CHECK bool pccl_reactor_run(struct pccl_reactor *reactor);
/*
 * Sets the due time, in place of the previous one: `ticked` follows at this time of pccl_now_us() or soon after, never
 * before. UINT64_MAX: never.
 */
void pccl_reactor_set_due(struct pccl_reactor *reactor, uint64_t due_us);
/* Makes the next poll return at once, with the input that has arrived. */
void pccl_reactor_hurry(struct pccl_reactor *reactor);
/* Makes pccl_reactor_run return after this turn, and cancels the due time. Handles in the loop stay. */
void pccl_reactor_stop(struct pccl_reactor *reactor);
/*
 * Closes the reactor's handles; no events follow. The loop runs on until others have closed all of their handles. Call
 * once.
 */
void pccl_reactor_end(struct pccl_reactor *reactor);
/*
 * Frees the reactor after the owner has closed its handles: lets the loop release them, and ends the loop if
 * pccl_reactor_end was not called.
 */
void pccl_reactor_close(struct pccl_reactor *reactor);

#endif
