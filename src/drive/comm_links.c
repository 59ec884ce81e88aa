/*
 * Links to other peers: each has an outgoing direction, for the data of this peer, and an incoming one. The sender of
 * the data dials, unless its link is reversed: then it requests each connection from the other end and accepts it.
 * Every connection begins with link_hello and the answer; after that the engine owns it.
 *
 * The state machine sees one link in each direction, which is up while it has any connection. The state machine
 * requests the first connection (slot 0) and receives its result; the other slots are dialed in the background, and
 * redialed when they end. The state machine is notified when the last connection has ended, or when a connection
 * detects that the other host is silent, because this is evidence of a death.
 */
#include "drive/communicator.h"
#include "drive/comm_links.h"
#include "drive/comm_links_serve.h"
#include "drive/comm_machine.h"

#include "net/handshake.h"
#include "net/heap.h"
#include "os/interfaces.h"
#include "peer/queries.h"

#include <string.h>

enum {
    LONG_PATH_SLOTS = 6,
    BACKS_MAX = 4096,     /* maximum number of connections that this peer dials in place of the other ends */
    WAITED_DIALS = 2,     /* time limit for a connection that the other end dials, in times of one attempt to dial */
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
        link->slots[i].awaited = false;
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

/* `reversed` is true for an incoming link that this peer has dialed. */
static void link_up(struct pccl_comm_link *link, bool incoming, bool reversed, uint32_t rtt_us)
{
    struct pccl_peer_event event = {
        .kind = PCCL_PEER_LINK_UP, .peer = link->peer, .incoming = incoming, .reversed = reversed, .rtt_us = rtt_us};
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

static void end_gone(struct pccl_communicator *comm, const struct pccl_id *peer, uint64_t number,
                     enum pccl_link_end how)
{
    if (number != 0)
        pccl_comm_step(
            comm, &(struct pccl_peer_event){.kind = PCCL_PEER_END_GONE, .peer = *peer, .number = number, .how = how});
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
            end_gone(comm, peer, link->slots[i].accepted, 0);
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

void pccl_comm_link_take_incoming(struct pccl_comm_link *link, struct pccl_connection *connection, uint32_t slot,
                                  uint64_t number, bool reversed)
{
    uint64_t before = link->incoming;
    link->slots[slot].accepted = number;
    bool is_accepted = hand_over(link, connection, false, slot);
    pccl_comm_link_queue(link); /* the loop frees an unused link */
    if (is_accepted)
        link_up(link, true, reversed, 0);
    else
        end_gone(link->comm, &link->peer, number, 0);
    if (before && !link->incoming)
        link_down(link, true, PCCL_LINK_UNREACHABLE, false, NULL); /* closed by this peer, so no evidence of a death */
}

static void on_dialed(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                      const struct pccl_text *reason);

void pccl_comm_link_end_wait(struct pccl_comm_slot *slot, struct pccl_connection *connection)
{
    struct pccl_text none;
    pccl_text_clear(&none);
    pccl_dialer_cancel(slot->dialer);
    on_dialed(slot, connection, PCCL_LINK_UNREACHABLE, &none);
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

void pccl_comm_links_enter(void *owner)
{
    pccl_comm_loop_enter(owner);
    pccl_comm_links_apply(owner);
}

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
    link_up(link, false, link->reversed, rtt_us);
}

static void on_dialed(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                      const struct pccl_text *reason)
{
    struct pccl_comm_slot *slot = context;
    struct pccl_comm_link *link = slot->link;
    slot->dialer = NULL;
    slot->awaited = false;
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

static struct pccl_dial dial_of(struct pccl_communicator *comm, const struct pccl_msg_link_hello *hello,
                                struct pccl_address *addresses, const struct pccl_address *candidates, uint32_t count)
{
    return (struct pccl_dial){.addresses = addresses,
                              .count = pccl_interfaces_plausible(candidates, count, addresses),
                              .local = comm->local,
                              .offers_pipe = pccl_params_use_pipes(&comm->params),
                              .stagger_ms = PCCL_COMMUNICATOR_STAGGER_MS,
                              .timeout_ms = comm->params.connect_timeout_ms,
                              .hello = hello,
                              .keys = comm->keys,
                              .enter = pccl_comm_links_enter,
                              .leave = pccl_comm_loop_leave,
                              .owner = comm};
}

/* Starts to dial the slot. Returns NULL if out of memory. */
static struct pccl_dialer *start_dialing(struct pccl_comm_slot *slot)
{
    struct pccl_comm_link *link = slot->link;
    struct pccl_communicator *comm = link->comm;
    struct pccl_msg_link_hello hello = {.lineage = *pccl_peer_lineage(comm->peer),
                                        .from = comm->id,
                                        .to = link->peer,
                                        .kind = PCCL_LINK_RING,
                                        .slot = (uint8_t)(slot - link->slots),
                                        .number = slot->dialed,
                                        .authentication = pccl_bytes_of_secret(&link->ticket)};
    struct pccl_address addresses[PCCL_CANDIDATES_MAX];
    struct pccl_dial dial = dial_of(comm, &hello, addresses, link->candidates, link->candidate_count);
    dial.done = on_dialed;
    dial.context = slot;
    return pccl_dialer_start(&comm->reactor.loop, pccl_heap(), &dial);
}

/* Requests the slot's connection from the other end, and waits for it. Returns NULL if out of memory. */
static struct pccl_dialer *start_waiting(struct pccl_comm_slot *slot)
{
    struct pccl_communicator *comm = slot->link->comm;
    struct pccl_dial dial = {.waits_ms = WAITED_DIALS * comm->params.connect_timeout_ms,
                             .done = on_dialed,
                             .context = slot,
                             .enter = pccl_comm_links_enter,
                             .leave = pccl_comm_loop_leave,
                             .owner = comm};
    struct pccl_dialer *dialer = pccl_dialer_start(&comm->reactor.loop, pccl_heap(), &dial);
    slot->awaited = dialer != NULL;
    return dialer;
}

/* Starts to open the slot's connection. Returns false if out of memory. */
static bool start_opening(struct pccl_comm_slot *slot)
{
    struct pccl_comm_link *link = slot->link;
    slot->dialed = ++link->comm->links.dialed;
    slot->dialer = link->reversed ? start_waiting(slot) : start_dialing(slot);
    if (slot->awaited)
        pccl_comm_step(link->comm, &(struct pccl_peer_event){.kind = PCCL_PEER_WANT_BACK,
                                                             .link = PCCL_LINK_RING,
                                                             .peer = link->peer,
                                                             .slot = (uint32_t)(slot - link->slots),
                                                             .number = slot->dialed});
    return slot->dialer != NULL;
}

static void dial_for_machine(struct pccl_comm_link *link)
{
    struct pccl_communicator *comm = link->comm;
    if (!comm->peer)
        return;
    link->asked = true;
    if (comm->data.engine && start_opening(&link->slots[0]))
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
    pccl_comm_links_enter(comm);
    if (pause->link) { /* entering may have canceled the pause */
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
        if ((link->outgoing & bit(i)) || link->slots[i].dialer || start_opening(&link->slots[i]))
            continue;
        link->troubled = true;
        note_trouble(link);
        return;
    }
}

/* ---- connections that this peer dials in place of the other end ---- */

/* A requested connection, until its handshake has ended. */
struct back {
    struct pccl_list_node in_backs;
    struct pccl_communicator *comm;
    struct pccl_dialer *dialer; /* NULL: the loop has not begun to dial it */
    struct pccl_msg_dial_back request;
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    bool declined; /* true if the other end has refused the connection */
};

static struct back *back_at(struct pccl_list_node *node) { return PCCL_CONTAINER_OF(node, struct back, in_backs); }

static void drop_back(struct back *back)
{
    if (back->dialer)
        pccl_dialer_cancel(back->dialer);
    pccl_list_remove(&back->in_backs);
    pccl_release(pccl_heap(), back, sizeof *back);
}

void pccl_comm_effect_dial_back(void *context, const struct pccl_msg_dial_back *request)
{
    struct pccl_communicator *comm = context;
    struct back *back = pccl_allocate(pccl_heap(), sizeof *back);
    if (!back) {
        comm->starved = true;
        return;
    }
    PCCL_ASSERT(request->candidates_count <= PCCL_CANDIDATES_MAX);
    back->comm = comm;
    back->request = *request;
    if (request->candidates_count)
        memcpy(back->candidates, request->candidates, request->candidates_count * sizeof *request->candidates);
    back->request.candidates = back->candidates;
    pccl_list_append(&comm->links.backs, &back->in_backs);
    comm->links.backs_due = true;
}

static void serve(struct pccl_communicator *comm, struct pccl_connection *connection,
                  const struct pccl_msg_dial_back *request)
{
    struct pccl_text reason;
    if (pccl_comm_has_use_for(comm, request->kind, &reason))
        pccl_comm_pass_on(comm, connection, request->kind, &request->peer, 0, true);
    else
        pccl_connection_close(connection, 0);
}

static void on_dialed_back(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                           const struct pccl_text *reason)
{
    struct back *back = context;
    struct pccl_communicator *comm = back->comm;
    const struct pccl_msg_dial_back *request = &back->request;
    struct pccl_comm_link *link =
        connection && request->kind == PCCL_LINK_RING ? pccl_comm_link_make(comm, &request->peer) : NULL;
    back->dialer = NULL;
    if (!connection && how == 0)
        report_shortage(comm, reason);
    if (link)
        pccl_comm_link_take_incoming(link, connection, request->slot, request->number, true);
    else if (connection && request->kind == PCCL_LINK_RING)
        pccl_connection_close(connection, 0);
    else if (connection)
        serve(comm, connection, request);
    else if (request->kind == PCCL_LINK_RING && !back->declined)
        end_gone(comm, &request->peer, request->number, how);
    drop_back(back);
}

static bool start_back(struct back *back)
{
    struct pccl_communicator *comm = back->comm;
    const struct pccl_msg_dial_back *request = &back->request;
    struct pccl_msg_link_hello hello = {.lineage = *pccl_peer_lineage(comm->peer),
                                        .from = comm->id,
                                        .to = request->peer,
                                        .kind = request->kind,
                                        .slot = request->slot,
                                        .reversed = 1,
                                        .number = request->number,
                                        .authentication = pccl_bytes_of_secret(&request->ticket)};
    struct pccl_address plausible[PCCL_CANDIDATES_MAX];
    struct pccl_dial dial = dial_of(comm, &hello, plausible, back->candidates, request->candidates_count);
    dial.declined = &back->declined;
    dial.done = on_dialed_back;
    dial.context = back;
    back->dialer = pccl_dialer_start(&comm->reactor.loop, pccl_heap(), &dial);
    return back->dialer != NULL;
}

static bool is_same(const struct back *one, const struct back *other)
{
    return one->request.kind == other->request.kind && one->request.slot == other->request.slot &&
           pccl_id_equal(&one->request.peer, &other->request.peer);
}

/* Drops earlier requests that this one replaces and, if there are too many, the oldest one. */
static void make_room(struct pccl_communicator *comm, const struct back *back)
{
    uint32_t count = 0;
    for (struct pccl_list_node *node = comm->links.backs.next, *next; node != &comm->links.backs; node = next) {
        next = node->next;
        count++;
        if (back_at(node) == back)
            break;
        if (is_same(back_at(node), back))
            drop_back(back_at(node));
    }
    if (count > BACKS_MAX)
        drop_back(back_at(comm->links.backs.next));
}

static void dial_backs(struct pccl_communicator *comm)
{
    comm->links.backs_due = false;
    for (struct pccl_list_node *node = comm->links.backs.next, *next; node != &comm->links.backs; node = next) {
        struct back *back = back_at(node);
        next = node->next;
        if (back->dialer)
            continue;
        make_room(comm, back);
        if (start_back(back))
            continue;
        pccl_comm_links_starved(comm, UV_ENOMEM);
        end_gone(comm, &back->request.peer, back->request.number, 0);
        drop_back(back);
    }
}

static void cancel_backs(struct pccl_communicator *comm, const struct pccl_id *peer)
{
    for (struct pccl_list_node *node = comm->links.backs.next, *next; node != &comm->links.backs; node = next) {
        const struct pccl_msg_dial_back *request = &back_at(node)->request;
        next = node->next;
        if (!peer || (request->kind == PCCL_LINK_RING && pccl_id_equal(&request->peer, peer)))
            drop_back(back_at(node));
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

/* Ends the waits for connections that the other end cannot dial. */
static void end_refused_waits(struct pccl_comm_link *link)
{
    for (uint32_t i = 0; i < PCCL_POOL_MAX; i++)
        if (link->slots[i].awaited && link->slots[i].dialed == 0)
            pccl_comm_link_end_wait(&link->slots[i], NULL);
}

static void apply(struct pccl_comm_link *link)
{
    bool dial = link->dial;
    if (link->close_outgoing || dial)
        close_direction(link, true);
    if (link->close_incoming) {
        close_direction(link, false);
        cancel_backs(link->comm, &link->peer);
    }
    if (link->close_outgoing || dial || (!link->outgoing && !link->asked)) {
        cancel_dials(link);
        end_pause(link);
    }
    link->dial = link->close_outgoing = link->close_incoming = false;
    end_refused_waits(link);
    if (dial)
        dial_for_machine(link);
    else if (link->outgoing && link->comm->peer)
        dial_missing_slots(link);
}

void pccl_comm_links_apply(struct pccl_communicator *comm)
{
    if (comm->links.backs_over)
        cancel_backs(comm, NULL);
    comm->links.backs_over = false;
    if (comm->links.backs_due && comm->peer && comm->data.engine)
        dial_backs(comm);
    comm->links.backs_due = false;
    while (comm->links.queued) {
        struct pccl_comm_link *link = comm->links.queued;
        comm->links.queued = link->next_queued;
        link->queued = false;
        apply(link);
        release_if_unused(link);
    }
}
