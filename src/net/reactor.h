/*
 * One event loop: how it begins, how other threads wake it, that it handles pending input before it
 * lets time pass judgment on anyone, and how it ends. A thread that needs a loop has one of these
 * as part of a struct.
 *
 * Owns the libuv loop, the descriptors by which it waits and is woken, and one timer. Knows nothing
 * of the sockets and timers that others put into `loop` (net/channel, net/listener, net/dialer
 * ...), of locks, nor of the thread that runs it: one that was made for it, or a caller's.
 *
 * Threads: pccl_reactor_wake may be called by any thread or signal handler while the reactor is
 * open; an owner that closes it makes sure that nobody wakes it any more. Everything else belongs
 * to the thread that runs it, or before and after that to whoever has the struct.
 *
 * When an invariant breaks on the loop, it is abandoned and pccl_reactor_run returns false. Neither
 * the loop nor anything in it is touched or freed any more (net/guard).
 */
#ifndef PCCL_NET_REACTOR_H
#define PCCL_NET_REACTOR_H

#include "core/base.h"

#include <stdint.h>
#include <uv.h>

struct pccl_reactor;

/* On the loop's thread. Each may be NULL. */
struct pccl_reactor_events {
    /* At least once after each wake-up; sees everything that was written before it. */
    void (*woken)(struct pccl_reactor *reactor);
    /* The loop is about to wait; the timers have had their turn. */
    void (*polling)(struct pccl_reactor *reactor);
    /*
     * The loop has waited, and what had arrived by heard_us (pccl_now_us) has been given to its
     * owners.
     */
    void (*polled)(struct pccl_reactor *reactor, uint64_t heard_us);
    /* The due time had come by then. Just before `polled`; once for each pccl_reactor_set_due. */
    void (*ticked)(struct pccl_reactor *reactor);
};

struct pccl_reactor {
    uv_loop_t loop;
    const struct pccl_reactor_events *events;
    uv_async_t wake;
    uv_timer_t timer;
    uv_idle_t idle; /* active: the poll does not wait */
    uv_prepare_t prepare;
    uv_check_t check;
    uint64_t due_us; /* UINT64_MAX: never */
    uint64_t heard_us;
};

/*
 * 0, or a negative libuv error: out of memory or descriptors; then everything is undone, and the
 * struct may be freed.
 */
PCCL_MUST_CHECK int pccl_reactor_open(struct pccl_reactor *reactor, const struct pccl_reactor_events *events);
/*
 * `woken` follows, once for several calls; also for a call from inside `woken`, or before the loop
 * runs.
 */
void pccl_reactor_wake(struct pccl_reactor *reactor);
/* Returns when the loop was stopped, or has ended and is empty. false: an invariant broke. */
PCCL_MUST_CHECK bool pccl_reactor_run(struct pccl_reactor *reactor);
/*
 * `ticked` and `polled` come at this time of pccl_now_us() or soon after, never before. Replaces
 * what was set before. UINT64_MAX: never.
 */
void pccl_reactor_set_due(struct pccl_reactor *reactor, uint64_t due_us);
/* The next poll takes what has arrived and does not wait. */
void pccl_reactor_hurry(struct pccl_reactor *reactor);
/* pccl_reactor_run returns after this turn, and the timer is off. What is in the loop stays. */
void pccl_reactor_stop(struct pccl_reactor *reactor);
/*
 * No events follow. The loop goes on until others have closed everything that they have in it. To
 * be called once.
 */
void pccl_reactor_end(struct pccl_reactor *reactor);
/*
 * After the owner has closed everything that it put into the loop: lets the loop release it, ends
 * the loop if that was not done, and frees it.
 */
void pccl_reactor_close(struct pccl_reactor *reactor);

#endif
