/*
 * Fetching: the machine, the donors of the plan, and their connections. A donor that cannot be reached or is lost is
 * dialed again a few times; after that it is given up, and a waiting donor replaces it.
 */
#include "net/heap.h"
#include "os/interfaces.h"
#include "os/socket.h"
#include "sync/asking.h"

#include <string.h>

/* Divisors of the patience; the results are the pauses before the second and later attempts. */
static const uint32_t pauses[PCCL_SYNC_ATTEMPTS_MAX - 1] = {40, 10, 2};

static const struct pccl_worker_role asking;
static void on_dialed(struct pccl_worker_line *dialed, enum pccl_link_end how, const struct pccl_text *reason);

/* ---- donors ---- */

static uint64_t patience_us(const struct pccl_synchronizer *synchronizer)
{
    return synchronizer->config.patience_ms * UINT64_C(1000);
}

static bool is_open(const struct pccl_sync_donor *donor)
{
    for (uint32_t i = 0; i < PCCL_SYNC_SLOTS; i++)
        if (pccl_worker_line_is_active(&donor->lines[i].line))
            return true;
    return donor->again_us != UINT64_MAX;
}

static uint32_t number_of(const struct pccl_sync_line *line)
{
    return line->donor->seat * PCCL_SYNC_SLOTS + (uint32_t)(line - line->donor->lines);
}

static void release_donor(struct pccl_sync_donor *donor) { pccl_release(pccl_heap(), donor, sizeof *donor); }

static struct pccl_sync_donor **find(struct pccl_sync_fetching *fetching, const struct pccl_id *peer)
{
    struct pccl_sync_donor **place = &fetching->donors;
    while (*place && !pccl_id_equal(&(*place)->peer, peer))
        place = &(*place)->next;
    return place;
}

/* Begins to fetch the content that the first named donor specifies. */
static void learn(struct pccl_synchronizer *synchronizer, const struct pccl_proof *proof)
{
    struct pccl_sync_fetching *fetching = &synchronizer->fetching;
    if (fetching->begun)
        return;
    fetching->begun = true;
    pccl_fetch_begin(fetching->machine, pccl_now_us(), synchronizer->config.round, proof, fetching->takes_unequal);
}

void pccl_sync_fetching_add(struct pccl_synchronizer *synchronizer, struct pccl_sync_donor *donor)
{
    struct pccl_sync_fetching *fetching = &synchronizer->fetching;
    struct pccl_sync_donor **place = find(fetching, &donor->peer);
    if (!fetching->running || *place) {
        release_donor(donor);
        return;
    }
    learn(synchronizer, &donor->proof);
    donor->next = NULL;
    donor->synchronizer = synchronizer;
    donor->seated = false;
    donor->tried = 0;
    donor->again_us = 0;
    for (uint32_t i = 0; i < PCCL_SYNC_SLOTS; i++)
        donor->lines[i] = (struct pccl_sync_line){.line = {.worker = &synchronizer->worker,
                                                           .role = &asking,
                                                           .peer = donor->peer,
                                                           .reversed = donor->reversed,
                                                           .dialed = on_dialed},
                                                  .donor = donor};
    *place = donor;
}

/* Gives up a donor that has no connections and no attempts left. */
static void give_up(struct pccl_synchronizer *synchronizer, struct pccl_sync_donor *donor)
{
    struct pccl_sync_fetching *fetching = &synchronizer->fetching;
    pccl_log_line(&synchronizer->worker.config.log, PCCL_LOG_WARN, "state: no longer fetching from peer %s: %s",
                  pccl_id_str(&donor->peer), fetching->last_reason.bytes);
    *find(fetching, &donor->peer) = donor->next;
    if (donor->seated)
        fetching->seats[donor->seat] = false;
    release_donor(donor);
}

/* Ends a connection that was lost or could not be opened. */
static void end_line(struct pccl_sync_line *line, const struct pccl_text *reason)
{
    struct pccl_sync_donor *donor = line->donor;
    struct pccl_synchronizer *synchronizer = donor->synchronizer;
    synchronizer->fetching.last_reason = *reason;
    pccl_log_line(&synchronizer->worker.config.log, PCCL_LOG_INFO, "state: connection %u to peer %s: %s",
                  (unsigned)(line - donor->lines), pccl_id_str(&donor->peer), reason->bytes);
    if (line == donor->lines && donor->tried < PCCL_SYNC_ATTEMPTS_MAX)
        donor->again_us = pccl_now_us() + patience_us(synchronizer) / pauses[donor->tried - 1];
    if (!is_open(donor))
        give_up(synchronizer, donor);
}

/* ---- dialing ---- */

static void dial(struct pccl_sync_line *line)
{
    const struct pccl_sync_donor *donor = line->donor;
    struct pccl_msg_link_hello hello = {.slot = (uint8_t)(line - donor->lines),
                                        .authentication = pccl_bytes_of_secret(&donor->ticket)};
    struct pccl_address plausible[PCCL_CANDIDATES_MAX];
    struct pccl_dial dial = {.addresses = plausible,
                             .count = pccl_interfaces_plausible(donor->candidates, donor->candidate_count, plausible),
                             .timeout_ms = line->line.worker->config.silence_ms};
    struct pccl_text reason;
    if (pccl_worker_dial(&line->line, &hello, &dial))
        return;
    pccl_text_format(&reason, "%s", pccl_status_text(PCCL_MEMORY));
    end_line(line, &reason);
}

static void dial_first(struct pccl_sync_donor *donor)
{
    donor->again_us = UINT64_MAX;
    donor->tried++;
    dial(donor->lines);
}

/* Dials further connections, because a long path needs several to be filled. */
static void dial_further(struct pccl_sync_donor *donor)
{
    for (uint32_t i = 1; i < PCCL_SYNC_SLOTS; i++)
        if (!pccl_worker_line_is_active(&donor->lines[i].line))
            dial(&donor->lines[i]);
}

/* Enables the machine to send requests over a new connection. */
static void begin_asking(struct pccl_sync_line *line)
{
    struct pccl_sync_asker *asker = pccl_sync_asker_of(line->line.link);
    struct pccl_sync_donor *donor = line->donor;
    struct pccl_sync_fetching *fetching = &donor->synchronizer->fetching;
    uint32_t rtt_us = pccl_socket_rtt_us(asker->link.channel.socket);
    asker->number = number_of(line);
    fetching->askers[asker->number] = asker;
    pccl_frame_reader_raise(&asker->link.channel.reader, PCCL_FRAME_BODY_MAX);
    pccl_fetch_donor_up(fetching->machine, pccl_now_us(), asker->number, donor->holds_unequal, rtt_us);
    if (line == donor->lines && rtt_us >= PCCL_LONG_PATH_RTT_US)
        dial_further(donor);
}

static void on_dialed(struct pccl_worker_line *dialed, enum pccl_link_end how, const struct pccl_text *reason)
{
    struct pccl_sync_line *line = pccl_sync_line_of(dialed);
    struct pccl_synchronizer *synchronizer = line->donor->synchronizer;
    (void)how;
    if (dialed->link)
        begin_asking(line);
    else
        end_line(line, reason);
    pccl_sync_fetching_advance(synchronizer);
}

/* ---- effects of the machine ---- */

static void effect_send(void *context, uint32_t number, const struct pccl_msg *msg)
{
    struct pccl_synchronizer *synchronizer = context;
    struct pccl_sync_asker *asker = synchronizer->fetching.askers[number];
    if (asker)
        pccl_sync_asker_ask(asker, msg);
}

static void effect_drop(void *context, uint32_t number, const char *reason)
{
    struct pccl_synchronizer *synchronizer = context;
    struct pccl_sync_asker *asker = synchronizer->fetching.askers[number];
    if (!asker)
        return;
    asker->doomed = true;
    pccl_text_format(&asker->link.reason, "%s", reason);
}

/* ---- ending ---- */

/* Closes all connections and stops dialing. */
static void release_donors_left(struct pccl_synchronizer *synchronizer)
{
    struct pccl_sync_fetching *fetching = &synchronizer->fetching;
    memset(fetching->askers, 0, sizeof fetching->askers);
    for (uint32_t number = 0; number < PCCL_FETCH_DONORS && fetching->machine; number++)
        pccl_fetch_donor_down(fetching->machine, pccl_now_us(), number); /* does nothing for a donor that is not up */
    while (fetching->donors) {
        struct pccl_sync_donor *donor = fetching->donors;
        fetching->donors = donor->next;
        for (uint32_t i = 0; i < PCCL_SYNC_SLOTS; i++)
            pccl_worker_line_end(&donor->lines[i].line);
        release_donor(donor);
    }
    memset(fetching->seats, 0, sizeof fetching->seats);
}

static void stop(struct pccl_synchronizer *synchronizer)
{
    synchronizer->fetching.running = false;
    release_donors_left(synchronizer);
    pccl_reactor_set_due(&synchronizer->worker.reactor, UINT64_MAX);
}

static void conclude(struct pccl_synchronizer *synchronizer, bool complete, const struct pccl_text *reason)
{
    struct pccl_text copy = *reason;
    stop(synchronizer);
    synchronizer->config.fetched(synchronizer->config.worker.context, complete, &copy);
}

static void fail(struct pccl_synchronizer *synchronizer, const struct pccl_text *reason)
{
    release_donors_left(synchronizer);
    pccl_fetch_give_up(synchronizer->fetching.machine, reason->bytes);
}

/* ---- advancing ---- */

/* Closes doomed connections. Returns true if there were any. */
static bool drop_doomed(struct pccl_synchronizer *synchronizer)
{
    struct pccl_sync_fetching *fetching = &synchronizer->fetching;
    bool changed = false;
    for (uint32_t number = 0; number < PCCL_FETCH_DONORS; number++) {
        struct pccl_sync_asker *asker = fetching->askers[number];
        if (!asker)
            continue;
        if (!asker->doomed && pccl_channel_push(&asker->link.channel) == PCCL_CHANNEL_ENDED)
            asker->doomed = true;
        if (!asker->doomed) {
            pccl_sync_asker_watch(asker);
            continue;
        }
        struct pccl_sync_line *line = pccl_sync_line_of(asker->link.line);
        fetching->broken = fetching->broken || asker->device_failed;
        fetching->askers[number] = NULL;
        pccl_fetch_donor_down(fetching->machine, pccl_now_us(), number);
        pccl_worker_link_close(&asker->link);
        end_line(line, pccl_worker_link_why(&asker->link));
        changed = true;
    }
    return changed;
}

static bool take_seat(struct pccl_sync_fetching *fetching, struct pccl_sync_donor *donor)
{
    for (uint32_t i = 0; i < PCCL_STATE_DONORS_MAX && !donor->seated; i++)
        if (!fetching->seats[i]) {
            fetching->seats[i] = donor->seated = true;
            donor->seat = i;
        }
    return donor->seated;
}

static void dial_those_due(struct pccl_sync_fetching *fetching)
{
    uint64_t now_us = pccl_now_us();
    for (struct pccl_sync_donor *donor = fetching->donors, *next; donor; donor = next) {
        next = donor->next; /* dial_first may free this donor, but no other one */
        if (donor->again_us <= now_us && take_seat(fetching, donor))
            dial_first(donor);
    }
}

/* Returns true if another donor may still be reached. */
static bool expects_donors(const struct pccl_sync_fetching *fetching)
{
    for (const struct pccl_sync_donor *donor = fetching->donors; donor; donor = donor->next) {
        bool expected = donor->again_us != UINT64_MAX;
        for (uint32_t i = 0; i < PCCL_SYNC_SLOTS; i++)
            expected = expected || donor->lines[i].line.dialer;
        if (expected && donor->seated)
            return true;
    }
    return false;
}

static void note_whether_alone(struct pccl_synchronizer *synchronizer)
{
    struct pccl_sync_fetching *fetching = &synchronizer->fetching;
    struct pccl_text reason;
    uint64_t now_us = pccl_now_us();
    if (!pccl_fetch_is_starved(fetching->machine) || expects_donors(fetching)) {
        fetching->alone_us = UINT64_MAX;
    } else if (fetching->alone_us == UINT64_MAX) {
        fetching->alone_us = now_us;
    } else if (now_us - fetching->alone_us >= patience_us(synchronizer)) {
        pccl_text_format(&reason, "no donor of the shared state is left");
        if (fetching->last_reason.length)
            pccl_text_append(&reason, ": %s", fetching->last_reason.bytes);
        fail(synchronizer, &reason);
    }
}

static uint64_t deadline(const struct pccl_synchronizer *synchronizer)
{
    const struct pccl_sync_fetching *fetching = &synchronizer->fetching;
    uint64_t due_us = pccl_fetch_deadline(fetching->machine);
    for (const struct pccl_sync_donor *donor = fetching->donors; donor; donor = donor->next)
        if (donor->seated)
            due_us = pccl_min_u64(due_us, donor->again_us);
    if (fetching->alone_us != UINT64_MAX)
        due_us = pccl_min_u64(due_us, fetching->alone_us + patience_us(synchronizer));
    return due_us;
}

void pccl_sync_fetching_advance(struct pccl_synchronizer *synchronizer)
{
    struct pccl_sync_fetching *fetching = &synchronizer->fetching;
    if (!fetching->running || !fetching->begun)
        return;
    while (drop_doomed(synchronizer))
        continue;
    if (fetching->broken && pccl_fetch_status(fetching->machine) == PCCL_FETCH_RUNNING)
        fail(synchronizer, &fetching->last_reason);
    if (pccl_fetch_status(fetching->machine) == PCCL_FETCH_RUNNING) {
        dial_those_due(fetching);
        note_whether_alone(synchronizer);
    }
    switch (pccl_fetch_status(fetching->machine)) {
    case PCCL_FETCH_RUNNING: pccl_reactor_set_due(&synchronizer->worker.reactor, deadline(synchronizer)); break;
    case PCCL_FETCH_COMPLETE: conclude(synchronizer, true, pccl_fetch_reason(fetching->machine)); break;
    case PCCL_FETCH_FAILED: conclude(synchronizer, false, pccl_fetch_reason(fetching->machine)); break;
    }
}

void pccl_sync_fetching_tick(struct pccl_synchronizer *synchronizer)
{
    if (synchronizer->fetching.running && synchronizer->fetching.begun)
        pccl_fetch_tick(synchronizer->fetching.machine, pccl_now_us());
    pccl_sync_fetching_advance(synchronizer);
}

/* ---- visits of connections to donors ---- */

static void visit(struct pccl_worker_link *link)
{
    struct pccl_sync_asker *asker = pccl_sync_asker_of(link);
    size_t budget = PCCL_SYNC_VISIT_BYTES;
    while (pccl_sync_asker_receive(asker, &budget))
        pccl_sync_fetching_advance(pccl_sync_of(link->worker)); /* requests more */
    pccl_sync_fetching_advance(pccl_sync_of(link->worker));     /* also sends the requests */
    pccl_sync_asker_watch(asker);
}

static void end(struct pccl_worker_link *link)
{
    pccl_sync_asker_of(link)->doomed = true;
    pccl_sync_fetching_advance(pccl_sync_of(link->worker));
}

static const struct pccl_worker_role asking = {.bytes = sizeof(struct pccl_sync_asker),
                                               .visit = visit,
                                               .message = pccl_sync_asker_message,
                                               .take = pccl_sync_asker_take,
                                               .end = end,
                                               .release = pccl_sync_asker_release};

/* ---- begin and end ---- */

bool pccl_sync_is_servable(const struct pccl_synchronizer *synchronizer)
{
    const struct pccl_sync_fetching *fetching = &synchronizer->fetching;
    if (!synchronizer->proven)
        return false;
    return !fetching->asked || (fetching->begun && pccl_fetch_status(fetching->machine) == PCCL_FETCH_COMPLETE);
}

void pccl_sync_fetching_begin(struct pccl_synchronizer *synchronizer, const struct pccl_sync_order *order)
{
    struct pccl_sync_fetching *fetching = &synchronizer->fetching;
    struct pccl_fetch_effects effects = {.context = synchronizer, .send = effect_send, .drop = effect_drop};
    struct pccl_text reason;
    stop(synchronizer);
    fetching->asked = order->requests;
    if (!order->requests)
        return;
    fetching->touched = fetching->broken = fetching->begun = false;
    fetching->alone_us = UINT64_MAX;
    pccl_text_clear(&fetching->last_reason);
    if (!fetching->machine)
        fetching->machine = pccl_fetch_create(&synchronizer->state, pccl_heap(), &effects);
    if (!fetching->machine) {
        pccl_text_format(&reason, "%s", pccl_status_text(PCCL_MEMORY));
        synchronizer->config.fetched(synchronizer->config.worker.context, false, &reason);
        return;
    }
    fetching->running = true;
    fetching->takes_unequal = order->takes_unequal;
}

void pccl_sync_fetching_lose_donor(struct pccl_synchronizer *synchronizer, const struct pccl_proof *proof)
{
    struct pccl_sync_fetching *fetching = &synchronizer->fetching;
    pccl_text_format(&fetching->last_reason, "%s", pccl_status_text(PCCL_MEMORY));
    if (fetching->running)
        learn(synchronizer, proof);
}

void pccl_sync_fetching_destroy(struct pccl_synchronizer *synchronizer)
{
    stop(synchronizer);
    if (synchronizer->fetching.machine)
        pccl_fetch_destroy(synchronizer->fetching.machine);
}
