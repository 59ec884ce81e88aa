/*
 * Waiting of application threads. One of them, the leader, polls the connection to the master and steps the state
 * machine, so that an answer reaches its caller without a switch to the control thread. The control thread handles the
 * connection's input only while there is no leader. A leader that waits for an operation that it has just launched, or
 * for the only one that runs, also drives the engine's loop in the same wait. The other threads wait on condition
 * variables.
 */
#include "drive/comm_wait.h"
#include "drive/comm_callers.h"
#include "drive/comm_progress.h"
#include "drive/communicator.h"

enum { PROGRESS_AFTER_MS = 2000, PROGRESS_EVERY_US = 1000000 };

/*
 * Wakes the waiter's thread. Each waiter has a condition variable, so that only its thread wakes; if that could not be
 * created, comm->changed is used.
 */
static void signal_waiter(struct pccl_communicator *comm, struct pccl_waiter *waiter)
{
    if (waiter->has_cond)
        uv_cond_signal(&waiter->cond);
    else
        uv_cond_broadcast(&comm->changed);
}

static uint64_t left_us(uint64_t deadline_us)
{
    uint64_t now_us = pccl_now_us();
    return deadline_us > now_us ? deadline_us - now_us : 0;
}

static bool is_due(uint64_t deadline_us) { return deadline_us != UINT64_MAX && left_us(deadline_us) == 0; }

static int left_ms(uint64_t deadline_us)
{
    return deadline_us == UINT64_MAX ? -1 : (int)pccl_min_u64((left_us(deadline_us) + 999) / 1000, 1 << 30);
}

static void take_out(struct pccl_communicator *comm, const struct pccl_waiter *waiter)
{
    for (struct pccl_waiter **i = &comm->waiting.blocked; *i; i = &(*i)->next) {
        if (*i == waiter) {
            *i = waiter->next;
            return;
        }
    }
}

/* Withdraws this thread's promise to drive, so that the engine's thread carries out the operation. */
static void keep_promise(struct pccl_communicator *comm)
{
    if (comm->data.promised)
        pccl_engine_release(comm->data.engine);
    comm->data.promised = comm->data.wants_loop = false;
}

static void wait_for_signal(struct pccl_communicator *comm, struct pccl_waiter *waiter, uint64_t deadline_us)
{
    keep_promise(comm);
    if (!waiter->has_cond)
        waiter->has_cond = uv_cond_init(&waiter->cond) == 0;
    waiter->next = comm->waiting.blocked;
    comm->waiting.blocked = waiter;
    pccl_comm_flush(comm);
    uv_cond_t *cond = waiter->has_cond ? &waiter->cond : &comm->changed;
    if (deadline_us == UINT64_MAX)
        uv_cond_wait(cond, &comm->lock);
    else
        (void)uv_cond_timedwait(cond, &comm->lock, left_us(deadline_us) * 1000);
    take_out(comm, waiter);
}

/* Hides the master's input from the control thread while this thread drives and polls for that input itself. */
static void hide_input(struct pccl_communicator *comm, const struct pccl_waiter *waiter)
{
    if (waiter->drives && comm->params.spin_us > 0)
        pccl_connection_hide_input(comm->master.connection, true);
}

/* Takes or requests the engine's loop for the operation that this thread is about to wait for. */
static void begin_driving(struct pccl_communicator *comm, struct pccl_waiter *waiter)
{
    struct pccl_comm_data *data = &comm->data;
    if (!data->wants_loop)
        return;
    waiter->drives = pccl_engine_drive_begin(data->engine, &comm->waiting.input, data->promised);
    waiter->asks = !waiter->drives && pccl_engine_ask(data->engine, &comm->waiting.input);
    data->wants_loop = data->promised = false;
    hide_input(comm, waiter);
}

/* Takes the requested loop if the engine's thread has released it. */
static void drive_if_free(struct pccl_communicator *comm, struct pccl_waiter *waiter)
{
    if (!waiter->asks)
        return;
    waiter->drives = pccl_engine_drive_begin(comm->data.engine, &comm->waiting.input, false);
    waiter->asks = !waiter->drives;
    if (waiter->drives)
        pccl_engine_release(comm->data.engine);
    hide_input(comm, waiter);
}

/* Gives up the loop or the request for it. This thread must not be in the loop. */
static void end_driving(struct pccl_communicator *comm, struct pccl_waiter *waiter)
{
    if (waiter->drives)
        pccl_engine_drive_end(comm->data.engine);
    if (comm->waiting.leader == waiter)
        pccl_connection_hide_input(comm->master.connection, false);
    if (waiter->asks)
        pccl_engine_release(comm->data.engine);
    waiter->drives = waiter->asks = false;
}

/* Releases the lock, and waits. Returns true if the connection to the master may have input. */
static bool wait_for_input(struct pccl_communicator *comm, struct pccl_waiter *waiter, uint64_t deadline_us)
{
    enum pccl_engine_drive news = PCCL_DRIVE_INPUT;
    pccl_comm_leave(comm);
    if (waiter->drives)
        news = pccl_engine_drive(comm->data.engine, &comm->waiting.input, &waiter->fired, deadline_us);
    else
        pccl_socket_wait_for(&comm->waiting.input, left_ms(deadline_us));
    pccl_comm_enter(comm);
    waiter->drives = waiter->drives && news != PCCL_DRIVE_LOST;
    return news != PCCL_DRIVE_WOKEN;
}

static void lead(struct pccl_communicator *comm, struct pccl_waiter *waiter, uint64_t deadline_us)
{
    struct pccl_connection *connection = comm->master.connection;
    waiter->leads = true;
    comm->waiting.is_led = true;
    comm->waiting.leader = waiter;
    begin_driving(comm, waiter);
    while (!waiter->fired && comm->waiting.leader == waiter && !is_due(deadline_us)) {
        bool has_input = wait_for_input(comm, waiter, deadline_us);
        if (comm->waiting.leader != waiter)
            break; /* replaced because the connection is closing */
        drive_if_free(comm, waiter);
        if (has_input && !pccl_connection_take(connection) && comm->waiting.leader == waiter) {
            pccl_comm_replace_leader(comm);
            pccl_comm_wake_loop(comm);
        }
    }
    end_driving(comm, waiter);
    if (comm->waiting.leader == waiter)
        comm->waiting.leader = NULL;
    waiter->leads = false;
    comm->waiting.is_led = false;
}

static bool may_lead(const struct pccl_communicator *comm)
{
    return !comm->waiting.is_led && comm->waiting.may_lead && comm->master.connection &&
           !comm->master.connection->unread &&
           pccl_connection_share_input(comm->master.connection, &comm->waiting.input, true);
}

static void drop_cond(struct pccl_waiter *waiter)
{
    if (waiter->has_cond)
        uv_cond_destroy(&waiter->cond);
    waiter->has_cond = false;
}

/* Runs the progress callback on any waiting thread, one thread at a time. Releases the lock during the callback. */
static void tell_progress(struct pccl_communicator *comm)
{
    struct pccl_comm_waiting *waiting = &comm->waiting;
    pcclProgressCallback_t tell = waiting->on_progress;
    void *user_data = waiting->on_progress_data;
    pcclProgress_t progress = PCCL_PROGRESS_INIT;
    waiting->progress_due_us = pccl_now_us() + PROGRESS_EVERY_US;
    if (waiting->tells_progress)
        return;
    pccl_comm_progress(comm, &progress);
    if (progress.call == pcclProgressNone || progress.elapsed_ms < PROGRESS_AFTER_MS)
        return;
    waiting->tells_progress = true;
    pccl_comm_leave(comm);
    tell(&progress, user_data);
    pccl_comm_enter(comm);
    waiting->tells_progress = false;
}

bool pccl_comm_wait_until(struct pccl_communicator *comm, struct pccl_waiter *waiter, uint64_t deadline_us)
{
    const struct pccl_comm_waiting *waiting = &comm->waiting;
    while (!waiter->fired && !is_due(deadline_us)) {
        uint64_t due_us = waiting->on_progress ? waiting->progress_due_us : UINT64_MAX;
        uint64_t until_us = pccl_min_u64(deadline_us, due_us);
        if (is_due(due_us))
            tell_progress(comm);
        else if (may_lead(comm))
            lead(comm, waiter, until_us);
        else
            wait_for_signal(comm, waiter, until_us);
    }
    bool fired = waiter->fired;
    drop_cond(waiter);
    waiter->fired = false;
    if (!comm->waiting.is_led && comm->waiting.blocked) /* another waiter may lead now */
        signal_waiter(comm, comm->waiting.blocked);
    return fired;
}

void pccl_comm_wait(struct pccl_communicator *comm, struct pccl_waiter *waiter)
{
    bool fired = pccl_comm_wait_until(comm, waiter, UINT64_MAX);
    PCCL_ASSERT(fired);
}

void pccl_comm_signal(struct pccl_communicator *comm, struct pccl_waiter *waiter)
{
    if (!waiter || waiter->fired)
        return;
    waiter->fired = true;
    if (pccl_caller_owns(waiter))
        return;
    if (waiter->leads)
        pccl_socket_wake(&comm->waiting.input);
    else
        signal_waiter(comm, waiter);
}

void pccl_comm_replace_leader(struct pccl_communicator *comm)
{
    const struct pccl_waiter *leader = comm->waiting.leader;
    comm->waiting.leader = NULL;
    if (comm->master.connection && comm->waiting.may_lead)
        (void)pccl_connection_share_input(comm->master.connection, &comm->waiting.input, false);
    if (leader && !pccl_caller_owns(leader) && !leader->fired)
        pccl_socket_wake(&comm->waiting.input);
}

static bool can_drive(const struct pccl_communicator *comm)
{
    return comm->waiting.may_lead && !comm->waiting.is_led && comm->master.connection && comm->data.engine;
}

void pccl_comm_drive_next(struct pccl_communicator *comm) { comm->data.caller_drives = can_drive(comm); }

void pccl_comm_drive_for(struct pccl_communicator *comm, const struct pccl_comm_op *operation)
{
    const struct pccl_comm_op_job *job = operation->job;
    comm->data.wants_loop = can_drive(comm) && job && job == comm->data.lone && !job->stopped && !job->at_rest;
}

void pccl_comm_drive_over(struct pccl_communicator *comm)
{
    comm->data.caller_drives = false;
    keep_promise(comm);
}

void pccl_comm_waiting_init(struct pccl_comm_waiting *waiting)
{
    *waiting = (struct pccl_comm_waiting){0};
    waiting->may_lead = pccl_socket_wait_open(&waiting->input) == 0;
}

void pccl_comm_waiting_fini(const struct pccl_comm_waiting *waiting)
{
    if (waiting->may_lead)
        pccl_socket_wait_close(&waiting->input);
}

/* ---- removing a waiter ---- */

void pccl_comm_forget_waiter(struct pccl_communicator *comm, struct pccl_waiter *waiter)
{
    take_out(comm, waiter);
    keep_promise(comm);
    end_driving(comm, waiter);
    if (waiter->leads)
        comm->waiting.is_led = false;
    if (comm->waiting.leader == waiter)
        pccl_comm_replace_leader(comm);
    drop_cond(waiter);
}
