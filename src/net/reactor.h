/*
 * One event loop: how it begins, how other threads wake it, that what has arrived is handled before time judges anyone,
 * and how it ends. Whoever needs a loop of its own has one of these as part of a struct.
 *
 * Owns the libuv loop, the descriptors by which it waits and is woken, and one timer. Knows nothing of the sockets and
 * timers that others put into `loop` (net/channel, net/listener, net/dialer ...), of locks, nor of who runs it: a
 * thread that was made for it, or a caller's.
 *
 * Threads: pccl_reactor_wake may come from any thread, or the handler of a signal, while the reactor is open: an owner
 * that closes it sees to it that nobody wakes it any more. All else belongs to the thread that runs it, or before and
 * after that to whoever has the struct.
 *
 * When an invariant breaks on the loop, pccl_reactor_run returns false. The loop was left in the middle: it stays
 * behind, with all that is in it, and neither it nor its memory is touched or freed (net/guard).
 */
#ifndef PCCL_NET_REACTOR_H
#define PCCL_NET_REACTOR_H

#include "core/base.h"

#include <stdint.h>
#include <uv.h>

struct pccl_reactor;

/* On the loop's thread. Each may be NULL. */
struct pccl_reactor_events {
    /* At least once after each wake-up: what was written before it can be seen. */
    void (*woken)(struct pccl_reactor *reactor);
    /* The loop is about to wait: the timers' turn is over. */
    void (*polling)(struct pccl_reactor *reactor);
    /* It has waited, and what had arrived by heard_us (pccl_now_us) has been given to its owners. */
    void (*polled)(struct pccl_reactor *reactor, uint64_t heard_us);
    /* The time that was set had come by then. Just before `polled`; once, until it is set anew. */
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

/* 0, or a negative libuv error: no memory, no descriptor; then nothing is left, and the struct may be freed. */
PCCL_MUST_CHECK int pccl_reactor_open(struct pccl_reactor *reactor, const struct pccl_reactor_events *events);
/* `woken` follows, once for many; from inside `woken`, again. Also before the loop runs. */
void pccl_reactor_wake(struct pccl_reactor *reactor);
/* Until it is stopped, or ended and nothing is left in the loop. false: an invariant broke. */
PCCL_MUST_CHECK bool pccl_reactor_run(struct pccl_reactor *reactor);
/* `ticked` and `polled` come at that time of pccl_now_us() or soon after, never before; what was set before no longer
 * counts. UINT64_MAX: never. */
void pccl_reactor_set_due(struct pccl_reactor *reactor, uint64_t due_us);
/* The next poll takes what is there, and does not wait. */
void pccl_reactor_hurry(struct pccl_reactor *reactor);
/* pccl_reactor_run returns after this turn, whatever is left, and time no longer ticks. What is in the loop stays. */
void pccl_reactor_stop(struct pccl_reactor *reactor);
/* No events any more. The loop goes on for what others have in it, until they have closed it all. Once. */
void pccl_reactor_end(struct pccl_reactor *reactor);
/* The owner has closed what it put into the loop: releases it, ends if it did not, and frees the loop. */
void pccl_reactor_close(struct pccl_reactor *reactor);

#endif
