/*
 * The owner of an engine's loop: the engine's thread, a caller that waits for the result of its operation (the driver),
 * or no thread. Only the owner touches the loop and its parts; ownership passes under one lock, which is held
 * for a few instructions and never while another function is called.
 *
 * The thread owns the loop at first. It parks when a driver asks for the loop: then it sleeps, and drivers may take the
 * loop. A driver that leaves a loop with work in it wakes the thread. A parked thread also takes a loop that had no
 * driver for 2 ms; if it then finds work of which it should have been told, it counts a rescue: a bug.
 *
 * A driver either steps (its thread is in the loop) or waits (it sleeps, and its thread holds nothing). The thread
 * takes the loop from a driver that waits and does not return although the loop has input: its thread may have ended.
 */
#ifndef PCCL_DATA_OWNER_H
#define PCCL_DATA_OWNER_H

#include "core/base.h"

#include <stdint.h>
#include <uv.h>

enum pccl_owner_is {
    PCCL_OWNER_THREAD, /* the engine's thread */
    PCCL_OWNER_NOBODY, /* the thread is parked */
    PCCL_OWNER_STEPS,  /* a driver, in the loop */
    PCCL_OWNER_WAITS,  /* a driver that sleeps */
    PCCL_OWNER_GONE,   /* the loop has ended, or an invariant broke in it */
};

/* Urgency of a request. */
enum pccl_owner_haste {
    PCCL_OWNER_SOON,     /* the owner is woken; without an owner, the thread */
    PCCL_OWNER_PROMISED, /* without an owner nothing happens: the caller drives soon, or calls pccl_owner_release */
    PCCL_OWNER_LATE,     /* by the driver only: the next owner may see it */
};

struct pccl_owner {
    uv_mutex_t lock;
    uv_cond_t wanted; /* of the parked thread */
    enum pccl_owner_is is;
    uv_thread_t driver;
    uint64_t turn;     /* number of the driver's present wait */
    bool requests;     /* the inbox has requests that no owner has taken */
    bool urgent;       /* the thread must take the loop when no driver has it */
    bool asked;        /* a driver asks for the loop */
    bool dozes;        /* the parked thread sleeps for longer than 2 ms */
    uint32_t promises; /* callers that drive soon, if they can */
    uint64_t left_us;  /* time when the last driver left, or the thread parked */
    uint64_t drives, rescues;
};

/* Returns 0, or a negative libuv error. */
PCCL_MUST_CHECK int pccl_owner_init(struct pccl_owner *owner);
void pccl_owner_fini(struct pccl_owner *owner);

/* ---- requests: any thread ---- */

/*
 * Notes that the inbox has a request. Returns true if the caller must wake the loop. *promised (may be NULL) is set to
 * true if a promise was made.
 */
PCCL_MUST_CHECK bool pccl_owner_request(struct pccl_owner *owner, enum pccl_owner_haste haste, bool *promised);
/* Withdraws a promise: the caller will not drive. */
void pccl_owner_release(struct pccl_owner *owner);
/* Asks the thread for the loop, which is a promise. Returns false if it is not the owner; else wake the loop. */
PCCL_MUST_CHECK bool pccl_owner_ask(struct pccl_owner *owner);
/* Returns true if the calling thread is the driver. */
bool pccl_owner_is_driver(struct pccl_owner *owner);

/* ---- the owner ---- */

/* Clears the note of requests; the owner must look into the inbox after this call. Returns true if a driver asks for
 * the loop. */
bool pccl_owner_take_requests(struct pccl_owner *owner);

/* Returns true if there are requests that the owner has not taken. */
bool pccl_owner_has_requests(struct pccl_owner *owner);

/* ---- drivers ---- */

/* Makes the caller the driver and redeems its promise, if it made one. Returns false if the loop has an owner. */
PCCL_MUST_CHECK bool pccl_owner_begin(struct pccl_owner *owner, bool promised);
/* The driver is about to sleep. Returns false if there are requests: it must not. */
PCCL_MUST_CHECK bool pccl_owner_begin_wait(struct pccl_owner *owner, uint64_t *turn);
/* The driver has slept. Returns false if it has lost the loop. */
PCCL_MUST_CHECK bool pccl_owner_end_wait(struct pccl_owner *owner, uint64_t turn);
/* Leaves the loop. is_busy: there is work that cannot wait for the next driver. */
void pccl_owner_leave(struct pccl_owner *owner, bool is_busy);
/* The loop has ended: no owner follows. */
void pccl_owner_end(struct pccl_owner *owner);

/* ---- the thread ---- */

/* Keeps the loop, although a driver asks. */
void pccl_owner_decline(struct pccl_owner *owner);
enum pccl_owner_return {
    PCCL_OWNER_RETURNS, /* the thread owns the loop: it was woken, or has not parked */
    PCCL_OWNER_LOOKS,   /* the same, after 2 ms without a wake-up */
    PCCL_OWNER_ENDS,    /* the loop has ended */
};
/* Called under the lock. */
struct pccl_owner_calls {
    void *context;
    void (*parks)(void *context);     /* the loop is free: wakes the driver that asked */
    bool (*has_input)(void *context); /* returns true if the loop has input that its owner has not seen */
};
/*
 * Parks the thread if a driver has asked for the loop and there are no requests. is_busy: there is work, so the driver
 * must still want the loop.
 */
enum pccl_owner_return pccl_owner_park(struct pccl_owner *owner, bool is_busy, const struct pccl_owner_calls *calls);
/* Counts work that was found after PCCL_OWNER_LOOKS. */
void pccl_owner_count_rescue(struct pccl_owner *owner);
/* Any thread. drives: the times that a driver took the loop. */
void pccl_owner_counts(struct pccl_owner *owner, uint64_t *drives, uint64_t *rescues);

#endif
