/*
 * How application threads wait. One of them, the leader, polls the connection to the master and steps the machine
 * itself: an answer then reaches its caller without a switch to the control thread, which is told not to look at that
 * connection meanwhile. The others wait on a condition variable.
 */
#include "drive/comm_machine.h"
#include "drive/comm_wait.h"

#include "net/guard.h"
#include "net/socket.h"

/* A condition of one's own spares the others the wake-up; where it could not be made, the common one does. */
static void signal_waiter(struct pcclComm_t *comm, struct pccl_waiter *waiter)
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

static void wait_for_signal(struct pcclComm_t *comm, struct pccl_waiter *waiter, uint64_t deadline_us)
{
    if (!waiter->has_cond)
        waiter->has_cond = uv_cond_init(&waiter->cond) == 0;
    waiter->next = comm->waiting.blocked;
    comm->waiting.blocked = waiter;
    pccl_comm_publish(comm);
    uv_cond_t *cond = waiter->has_cond ? &waiter->cond : &comm->changed;
    if (deadline_us == UINT64_MAX)
        uv_cond_wait(cond, &comm->lock);
    else
        (void)uv_cond_timedwait(cond, &comm->lock, left_us(deadline_us) * 1000);
    for (struct pccl_waiter **i = &comm->waiting.blocked; *i; i = &(*i)->next) {
        if (*i == waiter) {
            *i = waiter->next;
            break;
        }
    }
}

struct taking {
    struct pccl_connection *connection;
    bool taken;
};

static void take(void *argument)
{
    struct taking *taking = argument;
    taking->taken = pccl_connection_take(taking->connection);
}

/* false: it has to be looked at by the loop, or is over. */
static bool take_guarded(struct pcclComm_t *comm, struct pccl_connection *connection)
{
    struct taking taking = {.connection = connection};
    if (pccl_guard_run(take, &taking))
        return taking.taken;
    pccl_socket_shutdown(connection->channel.socket);
    pccl_comm_unseat_leader(comm);
    comm->master.connection = NULL; /* it stays behind */
    pccl_comm_break(comm, "while a call was waiting");
    return false;
}

static void lead(struct pcclComm_t *comm, struct pccl_waiter *waiter, uint64_t deadline_us)
{
    struct pccl_connection *connection = comm->master.connection;
    uv_os_sock_t socket = connection->channel.socket;
    waiter->leads = true;
    comm->waiting.is_led = true;
    comm->waiting.leader = waiter;
    while (!waiter->fired && comm->waiting.leader == waiter && !is_due(deadline_us)) {
        int wake = comm->waiting.wake;
        pccl_comm_leave(comm);
        pccl_socket_wait_for(socket, wake, left_ms(deadline_us));
        pccl_comm_enter(comm);
        if (comm->waiting.leader != waiter)
            break; /* unseated: the connection is gone */
        waiter->steps = true;
        bool taken = take_guarded(comm, connection);
        waiter->steps = false;
        if (!taken && comm->waiting.leader == waiter) {
            pccl_comm_unseat_leader(comm);
            pccl_comm_wake_loop(comm);
        }
    }
    waiter->steps = true; /* it is no longer to be woken */
    if (comm->waiting.leader == waiter)
        pccl_comm_unseat_leader(comm);
    waiter->leads = waiter->steps = false;
    comm->waiting.is_led = false;
}

static bool may_lead(const struct pcclComm_t *comm)
{
    return !comm->waiting.is_led && comm->waiting.wake >= 0 && comm->master.connection && !comm->master.connection->unread &&
           pccl_connection_watch_input(comm->master.connection, false);
}

static bool wait_until(struct pcclComm_t *comm, struct pccl_waiter *waiter, uint64_t deadline_us)
{
    while (!waiter->fired && !is_due(deadline_us)) {
        if (may_lead(comm))
            lead(comm, waiter, deadline_us);
        else
            wait_for_signal(comm, waiter, deadline_us);
    }
    bool fired = waiter->fired;
    if (waiter->has_cond)
        uv_cond_destroy(&waiter->cond);
    waiter->has_cond = waiter->fired = false;
    if (!comm->waiting.is_led && comm->waiting.blocked) /* somebody else may lead now */
        signal_waiter(comm, comm->waiting.blocked);
    return fired;
}

void pccl_comm_wait(struct pcclComm_t *comm, struct pccl_waiter *waiter) { (void)wait_until(comm, waiter, UINT64_MAX); }

bool pccl_comm_wait_until(struct pcclComm_t *comm, struct pccl_waiter *waiter, uint64_t deadline_us)
{
    return wait_until(comm, waiter, deadline_us);
}

void pccl_comm_attend(struct pcclComm_t *comm, struct pccl_call_slot *slot, void (*work)(void *session), void *session)
{
    struct pccl_waiter waiter = {0};
    slot->waiter = &waiter;
    while (!slot->done) {
        pccl_comm_wait(comm, &waiter);
        if (slot->done)
            break;
        pccl_comm_leave(comm);
        work(session);
        pccl_comm_enter(comm);
    }
    slot->waiter = NULL;
}

void pccl_comm_fire(struct pcclComm_t *comm, struct pccl_waiter *waiter)
{
    if (!waiter || waiter->fired)
        return;
    waiter->fired = true;
    if (waiter->steps)
        return;
    if (waiter->leads)
        pccl_socket_wake(comm->waiting.wake);
    else
        signal_waiter(comm, waiter);
}

void pccl_comm_unseat_leader(struct pcclComm_t *comm)
{
    struct pccl_waiter *leader = comm->waiting.leader;
    if (!leader)
        return;
    comm->waiting.leader = NULL;
    if (comm->master.connection)
        (void)pccl_connection_watch_input(comm->master.connection, true);
    if (!leader->steps && !leader->fired)
        pccl_socket_wake(comm->waiting.wake);
}
