#include "drive/comm_machine.h"
#include "drive/comm_master.h"
#include "drive/comm_wait.h"
#include "drive/communicator.h"
#include "log/logger.h"
#include "net/build.h"
#include "net/heap.h"
#include "os/socket.h"
#include "wire/greeting.h"

/* ---- the connection ---- */

static void on_received(struct pccl_connection *connection, const struct pccl_frame *frame)
{
    static const struct pccl_sides sides = {.here = "this peer", .there = "the master"};
    struct pccl_communicator *comm = connection->owner;
    struct pccl_msg msg;
    struct pccl_text reason;
    if (connection != comm->master.connection)
        return;
    if (frame->type == PCCL_MSG_hello_ok &&
        pccl_greeting_is_foreign(pccl_build_own(), &sides, frame, &reason)) { /* a master sends no other greeting */
        pccl_comm_step(
            comm, &(struct pccl_peer_event){.kind = PCCL_PEER_MASTER_GARBAGE, .reason = &reason, .other_build = true});
        return;
    }
    if (pccl_wire_decode(frame->type, frame->body, frame->length, comm->scratch, &msg, &reason) == PCCL_OK) {
        if (msg.type == PCCL_MSG_refused && msg.as.refused.code == PCCL_REFUSAL_IDENTITY)
            comm->master.is_rejected = true;
        if (msg.type == PCCL_MSG_hello_ok && comm->keys)
            pccl_keys_set_open_links(comm->keys, msg.as.hello_ok.open_links);
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_MASTER_RECEIVED, .frame = frame, .msg = &msg});
        struct pccl_comm_op *due = comm->operations.due;
        if (due)
            due->composed->go_on(comm, due);
        return;
    }
    pccl_comm_step(comm,
                   &(struct pccl_peer_event){.kind = PCCL_PEER_MASTER_GARBAGE, .frame = frame, .reason = &reason});
}

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason)
{
    struct pccl_communicator *comm = connection->owner;
    if (connection != comm->master.connection)
        return; /* already in the list `closing` */
    pccl_comm_replace_leader(comm);
    comm->master.connection = NULL;
    comm->master.is_rejected |= connection->channel.secure && pccl_secure_is_revoked(connection->channel.secure);
    bool foreign = connection->channel.ended == UV_EPROTO; /* encryption failed; the channel has the reason */
    pccl_connection_close(connection, 0);
    enum pccl_peer_event_kind kind =
        how == PCCL_END_GARBAGE && !foreign ? PCCL_PEER_MASTER_GARBAGE : PCCL_PEER_MASTER_DOWN;
    bool hung_up = how == PCCL_END_CLOSED || how == PCCL_END_RESET;
    pccl_comm_step(comm, &(struct pccl_peer_event){.kind = kind, .reason = reason, .hung_up = hung_up});
}

/* Does the work requested for the connection before a callback uses it. Other work runs after the next poll. */
static void enter(void *context)
{
    pccl_comm_loop_enter(context);
    pccl_comm_master_apply(context);
}

static const struct pccl_connection_events master_events = {
    .enter = enter, .leave = pccl_comm_loop_leave, .received = on_received, .ended = on_ended};

/* ---- dialing ---- */

static void master_down(struct pccl_communicator *comm, const struct pccl_text *reason)
{
    pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_MASTER_DOWN, .reason = reason});
}

static void on_dialed(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                      const struct pccl_text *reason)
{
    struct pccl_communicator *comm = context;
    (void)how;
    comm->master.dialer = NULL;
    if (connection) {
        connection->events = &master_events;
        connection->owner = comm;
        comm->master.connection = connection;
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_MASTER_UP});
    } else {
        master_down(comm, reason);
    }
}

static void out_of_memory(struct pccl_communicator *comm)
{
    struct pccl_text reason;
    pccl_text_format(&reason, "out of memory while connecting");
    master_down(comm, &reason);
}

static void dial(struct pccl_communicator *comm, const struct pccl_address *addresses, uint32_t count)
{
    struct pccl_text reason;
    comm->master.is_rejected = false;
    if (comm->local) /* opened before connecting, because the master gives this peer's id to the other peers */
        pccl_listener_open_local(&comm->listener, &comm->id);
    if (comm->keys && !pccl_keys_reload(comm->keys, &reason))
        pccl_logger_print(PCCL_LOG_WARN, "peer", "keeping the previously loaded certificate: %s", reason.bytes);
    struct pccl_dial dial = {.addresses = addresses,
                             .count = (uint32_t)pccl_min_u64(count, PCCL_DIAL_ADDRESSES_MAX),
                             .stagger_ms = PCCL_COMMUNICATOR_STAGGER_MS,
                             .timeout_ms = comm->params.connect_timeout_ms,
                             .keys = comm->keys,
                             .done = on_dialed,
                             .context = comm,
                             .enter = enter,
                             .leave = pccl_comm_loop_leave,
                             .owner = comm};
    comm->master.dialer = pccl_dialer_start(&comm->reactor.loop, pccl_heap(), &dial);
    if (!comm->master.dialer)
        out_of_memory(comm);
}

static void on_resolved(void *context, const struct pccl_address *addresses, uint32_t count,
                        const struct pccl_text *reason)
{
    struct pccl_communicator *comm = context;
    comm->master.resolver = NULL;
    if (count)
        dial(comm, addresses, count);
    else
        master_down(comm, reason);
}

static void start_dialing(struct pccl_communicator *comm)
{
    struct pccl_address addresses[PCCL_MASTER_ADDRESSES_MAX];
    uint32_t numeric = 0;
    while (numeric < comm->master.host_count && pccl_resolve_numeric(&comm->master.hosts[numeric], &addresses[numeric]))
        numeric++;
    if (numeric == comm->master.host_count) {
        dial(comm, addresses, numeric);
        return;
    }
    struct pccl_resolve resolve = {.hosts = comm->master.hosts,
                                   .count = comm->master.host_count,
                                   .done = on_resolved,
                                   .context = comm,
                                   .enter = enter,
                                   .leave = pccl_comm_loop_leave,
                                   .owner = comm};
    comm->master.resolver = pccl_resolver_start(&comm->reactor.loop, pccl_heap(), &resolve);
    if (!comm->master.resolver)
        out_of_memory(comm);
}

void pccl_comm_master_arm(struct pccl_comm_master *master)
{
    if (!master->connection)
        return;
    (void)pccl_connection_flush(master->connection);
    pccl_connection_arm(master->connection);
}

void pccl_comm_master_say_last(struct pccl_comm_master *master)
{
    for (struct pccl_connection *last = master->closing; last; last = last->next_dirty) {
        (void)pccl_connection_flush(last); /* includes the state machine's goodbye */
        pccl_socket_shutdown_write(last->channel.socket);
    }
}

static void close_noted(struct pccl_comm_master *master)
{
    while (master->closing) {
        struct pccl_connection *closing = master->closing;
        master->closing = closing->next_dirty;
        pccl_connection_close(closing, PCCL_COMMUNICATOR_LINGER_MS);
    }
}

static void apply_once(struct pccl_communicator *comm)
{
    close_noted(&comm->master);
    if (comm->master.cancel) {
        comm->master.cancel = false;
        if (comm->master.dialer)
            pccl_dialer_cancel(comm->master.dialer);
        if (comm->master.resolver && pccl_resolver_cancel(comm->master.resolver))
            comm->stuck = true;
        comm->master.dialer = NULL;
        comm->master.resolver = NULL;
    }
    if (comm->master.dial) {
        comm->master.dial = false;
        start_dialing(comm);
    }
}

void pccl_comm_master_apply(struct pccl_communicator *comm)
{
    while (pccl_comm_master_has_notes(&comm->master))
        apply_once(
            comm); /* repeated, because a dial that fails immediately steps the machine, which may request more work */
}
