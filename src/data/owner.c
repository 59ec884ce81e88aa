#include "data/owner.h"

#include "net/clock.h"

enum {
    TAKE_BACK_US = 2000,   /* time without a driver after which the parked thread takes the loop */
    SLEEP_MAX_US = 100000, /* longest sleep of the parked thread while a driver has the loop */
};

int pccl_owner_init(struct pccl_owner *owner)
{
    *owner = (struct pccl_owner){.is = PCCL_OWNER_THREAD};
    int error = uv_mutex_init(&owner->lock);
    if (error)
        return error;
    error = uv_cond_init(&owner->wanted);
    if (error)
        uv_mutex_destroy(&owner->lock);
    return error;
}

void pccl_owner_fini(struct pccl_owner *owner)
{
    uv_cond_destroy(&owner->wanted);
    uv_mutex_destroy(&owner->lock);
}

static bool has_driver(const struct pccl_owner *owner)
{
    return owner->is == PCCL_OWNER_STEPS || owner->is == PCCL_OWNER_WAITS;
}

/* Caller holds the lock. */
static bool is_driver(const struct pccl_owner *owner)
{
    uv_thread_t self = uv_thread_self();
    return has_driver(owner) && uv_thread_equal(&self, &owner->driver);
}

/* Makes the parked thread take the loop, unless a driver takes it first. Caller holds the lock. */
static void want_thread(struct pccl_owner *owner)
{
    owner->urgent = true;
    if (owner->is == PCCL_OWNER_NOBODY)
        uv_cond_signal(&owner->wanted);
}

/* ---- requests ---- */

/* Caller holds the lock. */
static bool request(struct pccl_owner *owner, enum pccl_owner_haste haste, bool *promised)
{
    if (haste != PCCL_OWNER_LATE)
        owner->requests = PCCL_OWNER_DUE_REQUESTS;
    else if (owner->requests == PCCL_OWNER_NO_REQUESTS)
        owner->requests = PCCL_OWNER_LATE_REQUESTS;
    if (is_driver(owner)) {
        owner->urgent = owner->urgent || haste != PCCL_OWNER_LATE;
        return false;
    }
    if (owner->is == PCCL_OWNER_NOBODY && haste == PCCL_OWNER_PROMISED) {
        owner->promises++;
        *promised = true;
        return false;
    }
    if (owner->is == PCCL_OWNER_NOBODY || has_driver(owner))
        want_thread(owner);
    return owner->is == PCCL_OWNER_THREAD || has_driver(owner);
}

bool pccl_owner_request(struct pccl_owner *owner, enum pccl_owner_haste haste, bool *promised)
{
    uv_mutex_lock(&owner->lock);
    bool wake = request(owner, haste, promised);
    uv_mutex_unlock(&owner->lock);
    return wake;
}

void pccl_owner_release(struct pccl_owner *owner)
{
    uv_mutex_lock(&owner->lock);
    owner->promises--;
    if (owner->is == PCCL_OWNER_NOBODY)
        want_thread(owner);
    uv_mutex_unlock(&owner->lock);
}

bool pccl_owner_ask(struct pccl_owner *owner)
{
    uv_mutex_lock(&owner->lock);
    bool may = owner->is == PCCL_OWNER_THREAD;
    owner->asked = owner->asked || may;
    owner->promises += may;
    uv_mutex_unlock(&owner->lock);
    return may;
}

bool pccl_owner_is_driver(struct pccl_owner *owner)
{
    uv_mutex_lock(&owner->lock);
    bool is = is_driver(owner);
    uv_mutex_unlock(&owner->lock);
    return is;
}

/* ---- the owner ---- */

bool pccl_owner_take_requests(struct pccl_owner *owner)
{
    uv_mutex_lock(&owner->lock);
    owner->requests = PCCL_OWNER_NO_REQUESTS;
    owner->urgent = false;
    bool asked = owner->asked;
    uv_mutex_unlock(&owner->lock);
    return asked;
}

bool pccl_owner_has_requests(struct pccl_owner *owner)
{
    uv_mutex_lock(&owner->lock);
    bool has = owner->requests != PCCL_OWNER_NO_REQUESTS;
    uv_mutex_unlock(&owner->lock);
    return has;
}

/* ---- drivers ---- */

bool pccl_owner_begin(struct pccl_owner *owner, bool promised)
{
    uv_mutex_lock(&owner->lock);
    bool may = owner->is == PCCL_OWNER_NOBODY;
    owner->promises -= promised;
    if (may) {
        owner->is = PCCL_OWNER_STEPS;
        owner->drives++;
        owner->driver = uv_thread_self();
    }
    uv_mutex_unlock(&owner->lock);
    return may;
}

bool pccl_owner_begin_wait(struct pccl_owner *owner, uint64_t *turn)
{
    uv_mutex_lock(&owner->lock);
    bool may = owner->requests == PCCL_OWNER_NO_REQUESTS;
    if (may)
        owner->is = PCCL_OWNER_WAITS;
    *turn = ++owner->turn;
    uv_mutex_unlock(&owner->lock);
    return may;
}

bool pccl_owner_end_wait(struct pccl_owner *owner, uint64_t turn)
{
    uv_mutex_lock(&owner->lock);
    bool still = owner->is == PCCL_OWNER_WAITS && owner->turn == turn;
    if (still)
        owner->is = PCCL_OWNER_STEPS;
    uv_mutex_unlock(&owner->lock);
    return still;
}

void pccl_owner_leave(struct pccl_owner *owner, bool is_busy)
{
    uv_mutex_lock(&owner->lock);
    if (is_driver(owner)) {
        owner->is = PCCL_OWNER_NOBODY;
        owner->left_us = pccl_now_us();
        if (is_busy || owner->urgent)
            want_thread(owner);
        else if (owner->sleeps_long)
            uv_cond_signal(&owner->wanted);
    }
    uv_mutex_unlock(&owner->lock);
}

void pccl_owner_end(struct pccl_owner *owner)
{
    uv_mutex_lock(&owner->lock);
    owner->is = PCCL_OWNER_GONE;
    uv_cond_signal(&owner->wanted);
    uv_mutex_unlock(&owner->lock);
}

/* ---- the thread ---- */

void pccl_owner_decline(struct pccl_owner *owner)
{
    uv_mutex_lock(&owner->lock);
    owner->asked = false;
    uv_mutex_unlock(&owner->lock);
}

/* Returns the time that remains until the thread takes a loop without a driver. */
static uint64_t left_us(const struct pccl_owner *owner)
{
    uint64_t due_us = owner->left_us + TAKE_BACK_US, now_us = pccl_now_us();
    return due_us > now_us ? due_us - now_us : 0;
}

/* Makes the thread the owner of a loop that has none. Returns the reason. */
static enum pccl_owner_return take_back(struct pccl_owner *owner)
{
    owner->is = PCCL_OWNER_THREAD;
    if (owner->urgent || owner->promises > 0)
        return PCCL_OWNER_RETURNS;
    return owner->requests == PCCL_OWNER_DUE_REQUESTS ? PCCL_OWNER_RESCUES : PCCL_OWNER_TIMED_OUT;
}

/*
 * Sleeps while a driver has the loop, longer each time, or until the thread may take a loop without a driver. If the
 * driver has slept through the longest of these periods although the loop has input, takes the loop from it. Caller
 * holds the lock.
 */
static enum pccl_owner_return sleep_until_wanted(struct pccl_owner *owner, const struct pccl_owner_calls *calls)
{
    enum pccl_owner_return returns = PCCL_OWNER_RETURNS;
    uint64_t period_us = TAKE_BACK_US;
    while (owner->is != PCCL_OWNER_THREAD && owner->is != PCCL_OWNER_GONE) {
        const bool driven = has_driver(owner);
        const uint64_t turn = owner->turn, us = driven ? period_us : left_us(owner);
        if (!driven && (owner->urgent || us == 0)) {
            returns = take_back(owner);
            break;
        }
        owner->sleeps_long = us > TAKE_BACK_US;
        bool passed = uv_cond_timedwait(&owner->wanted, &owner->lock, us * 1000) != 0;
        owner->sleeps_long = false;
        bool waits = passed && owner->is == PCCL_OWNER_WAITS && owner->turn == turn;
        if (waits && us >= SLEEP_MAX_US && calls->has_input(calls->context))
            owner->is = PCCL_OWNER_THREAD;
        period_us = driven && passed && has_driver(owner) ? pccl_min_u64(period_us * 2, SLEEP_MAX_US) : TAKE_BACK_US;
    }
    return owner->is == PCCL_OWNER_GONE ? PCCL_OWNER_ENDS : returns;
}

enum pccl_owner_return pccl_owner_park(struct pccl_owner *owner, bool is_busy, const struct pccl_owner_calls *calls)
{
    enum pccl_owner_return returns = PCCL_OWNER_RETURNS;
    uv_mutex_lock(&owner->lock);
    bool asked = owner->asked;
    const bool has_requests = owner->requests != PCCL_OWNER_NO_REQUESTS;
    owner->asked = asked && has_requests; /* requests must be handled before the thread parks */
    if (owner->is == PCCL_OWNER_GONE) {
        returns = PCCL_OWNER_ENDS;
    } else if (asked && !has_requests && (owner->promises > 0 || !is_busy)) {
        owner->is = PCCL_OWNER_NOBODY;
        owner->left_us = pccl_now_us();
        owner->urgent = false;
        calls->parks(calls->context);
        returns = sleep_until_wanted(owner, calls);
    }
    uv_mutex_unlock(&owner->lock);
    return returns;
}

void pccl_owner_counts(struct pccl_owner *owner, uint64_t *drives, uint64_t *rescues)
{
    uv_mutex_lock(&owner->lock);
    *drives = owner->drives;
    *rescues = owner->rescues;
    uv_mutex_unlock(&owner->lock);
}

void pccl_owner_count_rescue(struct pccl_owner *owner)
{
    uv_mutex_lock(&owner->lock);
    owner->rescues++;
    uv_mutex_unlock(&owner->lock);
}
