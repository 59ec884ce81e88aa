/*
 * Links to other peers: each has an outgoing direction, which this peer dials, and an incoming one, which it accepts.
 * Every connection begins with link_hello and the answer; after that the engine owns it.
 *
 * The state machine sees one link in each direction, which is up while it has any connection. The state machine
 * requests the first connection (slot 0) and receives its result; the other slots are dialed in the background, and
 * redialed when they end. The state machine is notified when the last connection has ended, or when a connection
 * detects that the other host is silent, because this is evidence of a death.
 */
#include "drive/communicator.h"
#include "drive/comm_links.h"
#include "drive/comm_machine.h"

#include "net/handshake.h"
#include "net/heap.h"
#include "os/interfaces.h"
#include "peer/queries.h"

enum {
    LONG_PATH_SLOTS = 6,
    SLOT_PAUSE_MS = 1000, /* pause between attempts to dial the other slots; doubles up to SLOT_PAUSE_MAX_MS */
    SLOT_PAUSE_MAX_MS = 30000,
    SLOT_FORGIVEN_US = 60000000, /* time without trouble after which the pause is reset */
};

/* ---- the table of links ---- */

static void cancel_dials(struct pccl_comm_link *link)
{
    for (uint32_t i = 0; i < PCCL_POOL_MAX; i++) {
        if (link->slots[i].dialer)
            pccl_dialer_cancel(link->slots[i].dialer);
        link->slots[i].dialer = NULL;
    }
    link->asked = false;
}

static bool is_dialing(const struct pccl_comm_link *link)
{
    for (uint32_t i = 0; i < PCCL_POOL_MAX; i++)
        if (link->slots[i].dialer)
            return true;
    return false;
}

static void release_if_unused(struct pccl_comm_link *link)
{
    if (link->outgoing || link->incoming || link->queued || is_dialing(link))
        return;
    PCCL_ASSERT(!link->pause);
    pccl_table_remove(&link->comm->links.by_peer, &link->by_peer);
    pccl_release(pccl_heap(), link, sizeof *link);
}

_Static_assert(PCCL_POOL_MAX <= 64, "the slots of a link are bits of a word");
static uint64_t bit(uint32_t slot) { return UINT64_C(1) << slot; }

/* ---- events ---- */

static void link_up(struct pccl_comm_link *link, bool incoming, uint32_t rtt_us)
{
    struct pccl_peer_event event = {
        .kind = PCCL_PEER_LINK_UP, .peer = link->peer, .incoming = incoming, .rtt_us = rtt_us};
    pccl_comm_step(link->comm, &event);
}

/*
 * Reports to the state machine that one direction of the link is down. `rejected` is the reason why a message was
 * invalid, or NULL.
 */
static void link_down(struct pccl_comm_link *link, bool incoming, enum pccl_link_end how, bool purposely,
                      const struct pccl_text *rejected)
{
    struct pccl_peer_event event = {.kind = PCCL_PEER_LINK_DOWN,
                                    .peer = link->peer,
                                    .incoming = incoming,
                                    .how = how,
                                    .purposely = purposely,
                                    .reason = rejected};
    pccl_comm_step(link->comm, &event);
}

/* Reports that an incoming connection has ended here, which its sender may not notice. */
static void end_gone(struct pccl_comm_link *link, uint32_t slot)
{
    struct pccl_peer_event event = {
        .kind = PCCL_PEER_END_GONE, .peer = link->peer, .number = link->slots[slot].accepted};
    if (event.number != 0)
        pccl_comm_step(link->comm, &event);
}

void pccl_comm_link_ended(struct pccl_communicator *comm, const struct pccl_id *peer, bool outgoing, uint32_t slot,
                          enum pccl_link_end how, bool purposely, const struct pccl_text *rejected)
{
    struct pccl_comm_link *link = pccl_comm_link_find(comm, peer);
    if (!link || pccl_engine_holds(comm->data.engine, peer, outgoing, slot))
        return; /* closed or replaced in the meantime */
    uint64_t *standing = outgoing ? &link->outgoing : &link->incoming;
    if (!(*standing & bit(slot)))
        return;
    uint64_t ended = bit(slot);
    if (how == PCCL_LINK_SILENT && *standing != ended) {
        /* The whole host is silent, so the other connections would fail one after the other. */
        pccl_engine_close(comm->data.engine, peer, outgoing, PCCL_POOL_MAX);
        ended = *standing;
    }
    *standing &= ~ended;
    for (uint32_t i = 0; i < PCCL_POOL_MAX && !outgoing && !purposely && !rejected; i++)
        if (ended & bit(i))
            end_gone(link, i);
    link->troubled = link->troubled || outgoing;
    link->in_no_hurry = link->in_no_hurry || (outgoing && (purposely || rejected));
    pccl_comm_link_queue(link); /* the loop redials, or frees an unused link */
    if (*standing == 0)
        link_down(link, !outgoing, how, purposely, rejected);
}

/*
 * Passes the connection to the engine after its handshake. Returns false if the connection was closed because it broke
 * or memory ran out.
 */
static bool hand_over(struct pccl_comm_link *link, struct pccl_connection *connection, bool outgoing, uint32_t slot)
{
    struct pccl_communicator *comm = link->comm;
    struct pccl_handover handover;
    pccl_socket_limit_silence(connection->channel.socket, comm->params.link_silence_ms);
    if (!pccl_connection_detach(connection, &handover)) {
        pccl_connection_close(connection, 0);
        return false;
    }
    uint64_t *standing = outgoing ? &link->outgoing : &link->incoming;
    if (*standing & bit(slot)) /* the dialing side has noticed before this peer that the old connection is dead */
        pccl_engine_close(comm->data.engine, &link->peer, outgoing, slot);
    *standing &= ~bit(slot);
    if (pccl_engine_add(comm->data.engine, &link->peer, outgoing, slot, &handover) != PCCL_OK) {
        pccl_handover_drop(&handover);
        return false;
    }
    *standing |= bit(slot);
    return true;
}

static struct pccl_call_slot *call_of(struct pccl_communicator *comm, uint8_t kind)
{
    return &comm->calls[kind == PCCL_LINK_STATE ? PCCL_CALL_SYNC : PCCL_CALL_OPTIMIZE];
}

/* Returns true unless the connection is for a call that is not in progress; in that case sets a reason. */
static bool has_use_for(struct pccl_communicator *comm, uint8_t kind, struct pccl_text *reason)
{
    bool serves_call = kind == PCCL_LINK_STATE || kind == PCCL_LINK_MEASURE;
    if (!serves_call || call_of(comm, kind)->worker)
        return true;
    pccl_text_format(reason, "no %s in progress on this peer",
                     kind == PCCL_LINK_STATE ? "synchronization of shared state" : "optimization");
    return false;
}

/*
 * Passes the connection to the worker of its call. A tester waits for echoes before it loads the path, so data that
 * immediately follows the handshake violates the protocol.
 */
static void pass_to_worker(struct pccl_communicator *comm, struct pccl_connection *connection,
                           const struct pccl_msg_link_hello *hello)
{
    struct pccl_call_slot *slot = call_of(comm, hello->kind);
    struct pccl_handover handover;
    pccl_listener_adopt(connection);
    pccl_socket_limit_silence(connection->channel.socket, comm->params.link_silence_ms);
    if (!pccl_connection_detach(connection, &handover)) {
        pccl_connection_close(connection, 0);
        return;
    }
    bool violates = hello->kind == PCCL_LINK_MEASURE && pccl_handover_has_input(&handover);
    if (violates || pccl_worker_accept(slot->worker, &hello->from, &handover) != PCCL_OK)
        pccl_handover_drop(&handover);
    else
        pccl_comm_signal(comm, slot->waiter); /* the worker now has work */
}

static void take_ring_link(struct pccl_communicator *comm, struct pccl_connection *connection,
                           const struct pccl_msg_link_hello *hello)
{
    struct pccl_comm_link *link = pccl_comm_link_make(comm, &hello->from);
    if (!link) {
        pccl_connection_close(connection, 0);
        return;
    }
    uint64_t before = link->incoming;
    link->slots[hello->slot].accepted = hello->number;
    pccl_listener_adopt(connection);
    bool is_accepted = hand_over(link, connection, false, hello->slot);
    pccl_comm_link_queue(link); /* the loop frees an unused link */
    if (is_accepted)
        link_up(link, true, 0);
    else
        end_gone(link, hello->slot);
    if (before && !link->incoming)
        link_down(link, true, PCCL_LINK_UNREACHABLE, false, NULL); /* closed by this peer, so no evidence of a death */
}

static void greet(struct pccl_communicator *comm, struct pccl_connection *connection,
                  const struct pccl_msg_link_hello *hello)
{
    struct pccl_text reason;
    enum pccl_refusal refusal = PCCL_REFUSAL_IDENTITY;
    pccl_text_format(&reason, "this peer is not connected to a run");
    if (!comm->data.engine || !comm->peer || pccl_peer_judge_link(comm->peer, hello, &refusal, &reason) != PCCL_OK) {
        pccl_handshake_refuse(connection, refusal, &reason, PCCL_COMMUNICATOR_LINGER_MS);
        return;
    }
    if (!has_use_for(comm, hello->kind, &reason)) {
        refusal = hello->kind == PCCL_LINK_STATE ? PCCL_REFUSAL_STATE : PCCL_REFUSAL_MALFORMED;
        pccl_handshake_refuse(connection, refusal, &reason, PCCL_COMMUNICATOR_LINGER_MS);
        return;
    }
    pccl_handshake_welcome(connection, &comm->id);
    if (hello->kind == PCCL_LINK_PROBE)
        pccl_connection_close(connection, PCCL_COMMUNICATOR_LINGER_MS);
    else if (hello->kind == PCCL_LINK_RING)
        take_ring_link(comm, connection, hello);
    else
        pass_to_worker(comm, connection, hello);
}

static void on_received(struct pccl_connection *connection, const struct pccl_frame *frame)
{
    struct pccl_communicator *comm = connection->owner;
    struct pccl_msg msg;
    if (pccl_handshake_is_understood(connection, frame, comm->scratch, &msg, PCCL_COMMUNICATOR_LINGER_MS))
        greet(comm, connection, &msg.as.link_hello);
}

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason)
{
    if (how == PCCL_END_GARBAGE)
        pccl_handshake_refuse(connection, PCCL_REFUSAL_MALFORMED, reason, PCCL_COMMUNICATOR_LINGER_MS);
    else
        pccl_connection_close(connection, 0);
}

static void report_shortage(struct pccl_communicator *comm, const struct pccl_text *reason)
{
    if (comm->peer)
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_SHORTAGE, .reason = reason});
}

void pccl_comm_links_starved(void *owner, int error)
{
    struct pccl_text reason;
    pccl_socket_explain(error, &reason);
    report_shortage(owner, &reason);
}

void pccl_comm_link_accepted(void *owner, struct pccl_connection *connection)
{
    (void)owner;
    (void)connection; /* unknown until its hello arrives */
}

/* Does the work requested for links before a callback uses them. Other work runs after the next poll. */
static void enter(void *context)
{
    pccl_comm_loop_enter(context);
    pccl_comm_links_apply(context);
}

const struct pccl_connection_events pccl_comm_link_events = {
    .enter = enter, .leave = pccl_comm_loop_leave, .received = on_received, .ended = on_ended};

/* ---- dialing ---- */

uint32_t pccl_comm_pool_size(const struct pccl_communicator *comm, uint32_t rtt_us)
{
    if (comm->params.connection_pool_size)
        return (uint32_t)pccl_min_u64(comm->params.connection_pool_size, PCCL_POOL_MAX);
    return rtt_us < PCCL_LONG_PATH_RTT_US ? 1 : LONG_PATH_SLOTS;
}

/* Handles the result of a dial that the state machine requested. */
static void asked_dial_over(struct pccl_comm_link *link, bool is_accepted, enum pccl_link_end how, uint32_t rtt_us)
{
    link->asked = false;
    if (!is_accepted) {
        link_down(link, false, how, false, NULL);
        return;
    }
    link->wanted = pccl_comm_pool_size(link->comm, rtt_us);
    link->pause_ms = 0;
    link->troubled = link->in_no_hurry = false;
    link_up(link, false, rtt_us);
}

static void on_dialed(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                      const struct pccl_text *reason)
{
    struct pccl_comm_slot *slot = context;
    struct pccl_comm_link *link = slot->link;
    slot->dialer = NULL;
    if (!connection && how == 0)
        report_shortage(link->comm, reason);
    uint32_t rtt_us = connection ? pccl_socket_rtt_us(connection->channel.socket) : 0;
    bool is_gone = connection && slot->dialed == 0;
    if (is_gone)
        pccl_connection_close(connection, 0);
    bool is_accepted = connection && !is_gone && hand_over(link, connection, true, (uint32_t)(slot - link->slots));
    link->troubled = link->troubled || !is_accepted;
    pccl_comm_link_queue(link);
    if (link->asked)
        asked_dial_over(link, is_accepted, connection ? PCCL_LINK_UNREACHABLE : how, rtt_us);
}

/* Starts to dial the slot. Returns false if out of memory. */
static bool start_dialing(struct pccl_comm_slot *slot)
{
    struct pccl_comm_link *link = slot->link;
    struct pccl_communicator *comm = link->comm;
    slot->dialed = ++comm->links.dialed;
    struct pccl_msg_link_hello hello = {.lineage = *pccl_peer_lineage(comm->peer),
                                        .from = comm->id,
                                        .to = link->peer,
                                        .kind = PCCL_LINK_RING,
                                        .slot = (uint8_t)(slot - link->slots),
                                        .number = slot->dialed,
                                        .authentication = pccl_bytes_of_secret(&link->ticket)};
    struct pccl_address plausible[PCCL_CANDIDATES_MAX];
    struct pccl_dial dial = {.addresses = plausible,
                             .count = pccl_interfaces_plausible(link->candidates, link->candidate_count, plausible),
                             .local = comm->local,
                             .offers_pipe = pccl_params_use_pipes(&comm->params),
                             .stagger_ms = PCCL_COMMUNICATOR_STAGGER_MS,
                             .timeout_ms = comm->params.connect_timeout_ms,
                             .hello = &hello,
                             .keys = comm->keys,
                             .done = on_dialed,
                             .context = slot,
                             .enter = enter,
                             .leave = pccl_comm_loop_leave,
                             .owner = comm};
    slot->dialer = pccl_dialer_start(&comm->reactor.loop, pccl_heap(), &dial);
    return slot->dialer != NULL;
}

static void dial_for_machine(struct pccl_comm_link *link)
{
    struct pccl_communicator *comm = link->comm;
    if (!comm->peer)
        return;
    link->asked = true;
    if (comm->data.engine && start_dialing(&link->slots[0]))
        return;
    link->asked = false;
    pccl_comm_links_starved(comm, UV_ENOMEM);
    link_down(link, false, 0, false, NULL);
}

/* ---- additional slots ---- */

/* Pause between background attempts. No slot is dialed until it ends. */
struct pccl_comm_pause {
    uv_timer_t timer;
    struct pccl_communicator *comm;
    struct pccl_comm_link *link; /* NULL once canceled */
};

static void on_pause_closed(uv_handle_t *handle)
{
    pccl_release(pccl_heap(), handle->data, sizeof(struct pccl_comm_pause));
}

static void end_pause(struct pccl_comm_link *link)
{
    if (!link->pause)
        return;
    link->pause->link = NULL;
    uv_close((uv_handle_t *)&link->pause->timer, on_pause_closed);
    link->pause = NULL;
}

static void on_pause_over(uv_timer_t *timer)
{
    struct pccl_comm_pause *pause = timer->data;
    struct pccl_communicator *comm = pause->comm;
    enter(comm);
    if (pause->link) { /* enter() may have canceled the pause */
        pccl_comm_link_queue(pause->link);
        end_pause(pause->link);
    }
    pccl_comm_loop_leave(comm);
}

static void begin_pause(struct pccl_comm_link *link)
{
    struct pccl_comm_pause *pause = pccl_allocate(pccl_heap(), sizeof *pause);
    if (!pause)
        return; /* the next event of the link tries again */
    (void)uv_timer_init(&link->comm->reactor.loop, &pause->timer);
    pause->timer.data = pause;
    pause->comm = link->comm;
    pause->link = link;
    link->pause = pause;
    uv_update_time(&link->comm->reactor.loop);
    (void)uv_timer_start(&pause->timer, on_pause_over, link->pause_ms, 0);
}

/*
 * Handles a slot that has ended or could not be dialed: redials immediately the first time, then after increasing
 * pauses.
 */
static void note_trouble(struct pccl_comm_link *link)
{
    uint64_t now_us = pccl_now_us();
    bool forgiven = now_us - link->troubled_us > SLOT_FORGIVEN_US;
    link->troubled = false;
    link->troubled_us = now_us;
    if (link->pause)
        return;
    if (forgiven)
        link->pause_ms = 0;
    if (link->in_no_hurry)
        link->pause_ms = (uint32_t)pccl_max_u64(link->pause_ms, SLOT_PAUSE_MS);
    link->in_no_hurry = false;
    if (link->pause_ms)
        begin_pause(link);
    link->pause_ms =
        (uint32_t)pccl_min_u64(pccl_max_u64(link->pause_ms * UINT64_C(2), SLOT_PAUSE_MS), SLOT_PAUSE_MAX_MS);
}

static void dial_missing_slots(struct pccl_comm_link *link)
{
    if (link->troubled)
        note_trouble(link);
    for (uint32_t i = 0; i < link->wanted && !link->pause; i++) {
        if ((link->outgoing & bit(i)) || link->slots[i].dialer || start_dialing(&link->slots[i]))
            continue;
        link->troubled = true;
        note_trouble(link);
        return;
    }
}

/* ---- work requested by effects ---- */

static void close_direction(struct pccl_comm_link *link, bool outgoing)
{
    uint64_t *standing = outgoing ? &link->outgoing : &link->incoming;
    if (*standing)
        pccl_engine_close(link->comm->data.engine, &link->peer, outgoing, PCCL_POOL_MAX);
    *standing = 0;
}

static void apply(struct pccl_comm_link *link)
{
    bool dial = link->dial;
    if (link->close_outgoing || dial)
        close_direction(link, true);
    if (link->close_incoming)
        close_direction(link, false);
    if (link->close_outgoing || dial || (!link->outgoing && !link->asked)) {
        cancel_dials(link);
        end_pause(link);
    }
    link->dial = link->close_outgoing = link->close_incoming = false;
    if (dial)
        dial_for_machine(link);
    else if (link->outgoing && link->comm->peer)
        dial_missing_slots(link);
}

void pccl_comm_links_apply(struct pccl_communicator *comm)
{
    while (comm->links.queued) {
        struct pccl_comm_link *link = comm->links.queued;
        comm->links.queued = link->next_queued;
        link->queued = false;
        apply(link);
        release_if_unused(link);
    }
}
