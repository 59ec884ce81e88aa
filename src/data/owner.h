/*
 * The owner of an engine's loop: the engine's thread, a caller that waits for the result of its operation (the driver),
 * or no thread. Only the owner uses the loop and its handles. The owner changes under a lock, which is held only
 * briefly.
 *
 * Initially the thread owns the loop. When a driver requests the loop, the thread parks: it sleeps, and drivers may
 * take the loop. A driver that leaves the loop wakes the thread if the remaining work is urgent. The parked thread also
 * takes a loop that has had no driver for 2 ms. If it then finds work for which it should have been woken, it counts a
 * rescue, which indicates a bug.
 *
 * A driver either runs the loop (STEPS) or sleeps (WAITS). If a sleeping driver does not return although the loop has
 * input, the engine's thread takes the loop, because the driver's thread may have ended.
 */
#ifndef PCCL_DATA_OWNER_H
#define PCCL_DATA_OWNER_H

#include "core/base.h"

#include <stdint.h>
#include <uv.h>

enum pccl_owner_is {
    PCCL_OWNER_THREAD, /* the engine's thread */
    PCCL_OWNER_NOBODY, /* no owner; the thread is parked */
    PCCL_OWNER_STEPS,  /* a driver that runs the loop */
    PCCL_OWNER_WAITS,  /* a driver that sleeps */
    PCCL_OWNER_GONE,   /* the loop has ended, or an invariant broke in it */
};

/* Urgency of a request. */
enum pccl_owner_haste {
    PCCL_OWNER_SOON,     /* wakes the owner, or the thread if there is no owner */
    PCCL_OWNER_PROMISED, /* without an owner, wakes no thread: the caller soon drives or calls pccl_owner_release */
    PCCL_OWNER_LATE,     /* from the driver: may be left to the next owner; otherwise like PCCL_OWNER_SOON */
};

/* Requests in the inbox that no owner has taken. */
enum pccl_owner_requests {
    PCCL_OWNER_NO_REQUESTS,
    PCCL_OWNER_LATE_REQUESTS, /* may be left to the next owner */
    PCCL_OWNER_DUE_REQUESTS,
};

struct pccl_owner {
    uv_mutex_t lock;
    uv_cond_t wanted; /* signaled to wake the parked thread */
    enum pccl_owner_is is;
    uv_thread_t driver;
    uint64_t turn; /* number of the driver's current wait */
    enum pccl_owner_requests requests;
    bool urgent;       /* the thread must take the loop when no driver has it */
    bool asked;        /* a driver has requested the loop */
    bool sleeps_long;  /* the parked thread sleeps for longer than 2 ms */
    uint32_t promises; /* number of callers that have promised to drive soon */
    uint64_t left_us;  /* time when the last driver left, or the thread parked */
    uint64_t drives, rescues;
};

/* Returns 0, or a negative libuv error. */
PCCL_MUST_CHECK int pccl_owner_init(struct pccl_owner *owner);
void pccl_owner_fini(struct pccl_owner *owner);

/* ---- requests: any thread ---- */

/*
 * Records that the inbox has a request. Returns true if the caller must wake the loop. Sets *promised to true if this
 * made a promise; `promised` may be NULL unless haste is PCCL_OWNER_PROMISED.
 */
PCCL_MUST_CHECK bool pccl_owner_request(struct pccl_owner *owner, enum pccl_owner_haste haste, bool *promised);
/* Withdraws a promise: the caller will not drive. */
void pccl_owner_release(struct pccl_owner *owner);
/*
 * Requests the loop from the thread, and promises to drive soon. Returns false if the thread is not the owner; after
 * true, the caller must wake the loop.
 */
PCCL_MUST_CHECK bool pccl_owner_ask(struct pccl_owner *owner);
/* Returns true if the calling thread is the driver. */
bool pccl_owner_is_driver(struct pccl_owner *owner);

/* ---- the owner ---- */

/*
 * Clears `requests` and `urgent`; the owner must check the inbox after this call. Returns true if a driver has
 * requested the loop.
 */
bool pccl_owner_take_requests(struct pccl_owner *owner);

/* Returns true if there are requests that the owner has not taken. */
bool pccl_owner_has_requests(struct pccl_owner *owner);

/* ---- drivers ---- */

/* Makes the caller the driver and fulfills its promise, if it made one. Returns false if the loop has an owner. */
PCCL_MUST_CHECK bool pccl_owner_begin(struct pccl_owner *owner, bool promised);
/* Begins a wait of the driver. Returns false if there are requests; the driver must then not sleep. */
PCCL_MUST_CHECK bool pccl_owner_begin_wait(struct pccl_owner *owner, uint64_t *turn);
/* Ends this wait of the driver. Returns false if the driver has lost the loop. */
PCCL_MUST_CHECK bool pccl_owner_end_wait(struct pccl_owner *owner, uint64_t turn);
/* Gives up the loop if the caller is the driver. is_busy: there is work that cannot wait for the next driver. */
void pccl_owner_leave(struct pccl_owner *owner, bool is_busy);
/* Records that the loop has ended. It will have no other owner. */
void pccl_owner_end(struct pccl_owner *owner);

/* ---- the thread ---- */

/* Refuses a driver's request, so that the thread keeps the loop. */
void pccl_owner_decline(struct pccl_owner *owner);
enum pccl_owner_return {
    PCCL_OWNER_RETURNS,   /* the thread owns the loop: it was woken, or did not park */
    PCCL_OWNER_TIMED_OUT, /* the same, after 2 ms without a wake-up */
    PCCL_OWNER_RESCUES,   /* the same, with requests for which the thread should have been woken */
    PCCL_OWNER_ENDS,      /* the loop has ended */
};
/* Callbacks, called under the lock. */
struct pccl_owner_calls {
    void *context;
    void (*parks)(void *context);     /* wakes the driver that requested the loop, which is now free */
    bool (*has_input)(void *context); /* returns true if the loop has input that its owner has not handled */
};
/*
 * Parks the thread if a driver has requested the loop and there are no requests in the inbox. If is_busy (there is
 * work), parks it only if a caller has promised to drive.
 */
enum pccl_owner_return pccl_owner_park(struct pccl_owner *owner, bool is_busy, const struct pccl_owner_calls *calls);
/* Counts a rescue: work for which the thread should have been woken. */
void pccl_owner_count_rescue(struct pccl_owner *owner);
/* Returns the number of times that a driver has taken the loop, and the number of rescues. Any thread. */
void pccl_owner_counts(struct pccl_owner *owner, uint64_t *drives, uint64_t *rescues);

#endif
