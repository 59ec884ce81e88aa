/*
 * One event loop: its start, wake-ups by other threads, and its end. Guarantees that pending input is handled before a
 * due time is judged. A thread that needs a loop embeds a reactor in a struct.
 *
 * Owns the libuv loop, the descriptors with which it polls and is woken, and one timer. Independent of the sockets and
 * timers that other modules (net/channel, net/listener, net/dialer ...) put into `loop`, of locks, and of the thread
 * that runs it.
 *
 * Threads: any thread or signal handler may call pccl_reactor_wake while the reactor is open; before closing it, the
 * owner must make sure that no such calls follow. All other functions belong to the thread that runs the loop, and to
 * the owner of the struct before and after that.
 *
 * If an invariant breaks on the loop, the loop is abandoned and pccl_reactor_run returns false. The loop and everything
 * in it must then be neither used nor freed (net/guard).
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
     * The reactor was woken. Called at least once after each pccl_reactor_wake, and sees all earlier writes of the
     * calling thread.
     */
    void (*woken)(struct pccl_reactor *reactor);
    /* The loop is about to wait; due timers have run. */
    void (*polling)(struct pccl_reactor *reactor);
    /*
     * The loop has waited, and all input that had arrived by received_us (a time of pccl_now_us) has been passed to its
     * owners.
     */
    void (*polled)(struct pccl_reactor *reactor, uint64_t received_us);
    /* The due time has passed by received_us. Called directly before `polled`, once for each pccl_reactor_set_due. */
    void (*ticked)(struct pccl_reactor *reactor);
};

struct pccl_reactor {
    uv_loop_t loop;
    const struct pccl_reactor_events *events;
    uv_async_t wake;
    uv_timer_t timer;
    uv_idle_t idle; /* active if the next poll must not wait */
    uv_prepare_t prepare;
    uv_check_t check;
    uint64_t due_us; /* UINT64_MAX: never */
    uint64_t received_us;
};

/*
 * Opens a reactor. On failure (out of memory or descriptors) undoes everything and returns a negative libuv error; the
 * struct may then be freed.
 */
PCCL_MUST_CHECK int pccl_reactor_open(struct pccl_reactor *reactor, const struct pccl_reactor_events *events);
/*
 * Wakes the loop, which calls `woken`, once for several wake-ups. May be called inside `woken`, or before the loop
 * runs.
 */
void pccl_reactor_wake(struct pccl_reactor *reactor);
/* Runs the loop until it is stopped, or until it was ended and is empty. Returns false if an invariant broke. */
PCCL_MUST_CHECK bool pccl_reactor_run(struct pccl_reactor *reactor);
/*
 * Sets the due time and replaces the previous one: the loop calls `ticked` at this time of pccl_now_us() or shortly
 * after, never before. UINT64_MAX: never.
 */
void pccl_reactor_set_due(struct pccl_reactor *reactor, uint64_t due_us);
/* Makes the next poll return immediately, with the input that has arrived. */
void pccl_reactor_hurry(struct pccl_reactor *reactor);
/* Makes pccl_reactor_run return after the current iteration, and cancels the due time. Handles remain in the loop. */
void pccl_reactor_stop(struct pccl_reactor *reactor);
/*
 * Closes the reactor's handles. No events follow. The loop continues until all other handles have been closed. Call
 * once.
 */
void pccl_reactor_end(struct pccl_reactor *reactor);
/*
 * Frees the reactor after the owner has closed its handles. Lets the loop release them, and ends the loop first if
 * pccl_reactor_end was not called.
 */
void pccl_reactor_close(struct pccl_reactor *reactor);

#endif
