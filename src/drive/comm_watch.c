#include "drive/comm_watch.h"
#include "drive/comm_machine.h"
#include "drive/communicator.h"

#include "log/logger.h"
#include "net/heap.h"
#include "telemetry/recorder.h"

enum {
    REPORT_US = 1000000,
    PULSE_US = 10000,             /* minimum interval between pulses while data moves */
    PULSES_PER_S_MOST = 5000,     /* limit for all members of the run together */
    LATE_US = 3000,               /* normal delay of a timer */
    MOVED_US = 3 * REPORT_US / 2, /* time without moving data after which operations need no pulses */
    MOVED_BYTES = 64 << 10,       /* minimum bytes between two reports that count as moving data */
};

_Static_assert((int)PCCL_WAIT_READY == (int)PCCL_TELEMETRY_READY &&
                   (int)PCCL_WAIT_CREDIT == (int)PCCL_TELEMETRY_CREDIT &&
                   (int)PCCL_WAIT_ROOM == (int)PCCL_TELEMETRY_ROOM && (int)PCCL_WAIT_DATA == (int)PCCL_TELEMETRY_DATA,
               "the recorder's waits travel as they are");

/* Counters of a connection at the last report. */
struct pccl_watched_link {
    struct pccl_id peer;
    uint32_t slot;
    bool seen;
    uint64_t delivered, resent, busy_us;
};

/* ---- processor time of this process ---- */

uint64_t pccl_comm_pulse_us(uint32_t members)
{
    return pccl_max_u64(PULSE_US, members * UINT64_C(1000000) / PULSES_PER_S_MOST);
}

static void take_pulse(struct pccl_communicator *comm, uint64_t received_us)
{
    struct pccl_comm_watch *watch = &comm->watch;
    if (watch->pulse_us != 0 && received_us < watch->pulse_us)
        return;
    if (watch->pulse_us != 0 && received_us - watch->pulse_us > LATE_US)
        watch->stalled_us += received_us - watch->pulse_us;
    if (!watch->moves_data && comm->data.jobs)
        watch->moved_us = received_us; /* at first, data is assumed to move */
    watch->moves_data = comm->data.jobs != NULL;
    bool moves = watch->bulk > 0 || (watch->moves_data && received_us < watch->moved_us + MOVED_US);
    uint32_t members = moves && comm->peer ? pccl_peer_attributes_now(comm->peer).world : 0;
    watch->pulse_us = moves ? pccl_now_us() + pccl_comm_pulse_us(members) : 0;
}

static bool is_idle(const struct pccl_communicator *comm)
{
    const struct pccl_comm_watch *watch = &comm->watch;
    return !watch->operations && !watch->waited && !comm->time.unreported && !comm->data.jobs &&
           !comm->operations.by_tag.count;
}

uint64_t pccl_comm_watch_due(const struct pccl_communicator *comm)
{
    uint64_t pulse_us = comm->watch.pulse_us != 0 ? comm->watch.pulse_us : UINT64_MAX;
    return is_idle(comm) ? pulse_us : pccl_min_u64(pulse_us, comm->watch.begun_us + REPORT_US);
}

/* ---- links ---- */

static struct pccl_watched_link *find_link(struct pccl_comm_watch *watch,
                                           const struct pccl_telemetry_connection *connection)
{
    for (uint32_t i = 0; i < watch->link_count; i++)
        if (watch->links[i].slot == connection->slot && pccl_id_equal(&watch->links[i].peer, &connection->peer))
            return &watch->links[i];
    struct pccl_watched_link *grown =
        pccl_grow(pccl_heap(), watch->links, &watch->link_capacity, watch->link_count + 1, sizeof *grown);
    if (!grown)
        return NULL;
    watch->links = grown;
    watch->links[watch->link_count] = (struct pccl_watched_link){.peer = connection->peer, .slot = connection->slot};
    return &watch->links[watch->link_count++];
}

static struct pccl_seen_link *find_figures(struct pccl_msg_sight *telemetry, struct pccl_seen_link *links,
                                           const struct pccl_id *peer)
{
    for (uint32_t i = 0; i < telemetry->links_count; i++)
        if (pccl_id_equal(&links[i].peer, peer))
            return &links[i];
    if (telemetry->links_count == PCCL_TELEMETRY_LINKS_MAX)
        return NULL;
    uint32_t at = telemetry->links_count++;
    for (; at > 0 && pccl_id_compare(&links[at - 1].peer, peer) > 0; at--)
        links[at] = links[at - 1];
    links[at] = (struct pccl_seen_link){.peer = *peer};
    return &links[at];
}

/* Adds the counters of a connection. The connections to one peer form one link, which is busy while any of them is. */
static void add_connection(struct pccl_comm_watch *watch, const struct pccl_telemetry_connection *connection,
                           uint64_t now_us, struct pccl_msg_sight *telemetry, struct pccl_seen_link *links)
{
    struct pccl_watched_link *link = find_link(watch, connection);
    if (!link)
        return;
    if (connection->delivered_bytes < link->delivered || connection->busy_us < link->busy_us)
        link->delivered = link->resent = link->busy_us = 0; /* a new connection has replaced it */
    uint64_t bytes = connection->delivered_bytes - link->delivered, busy_us = connection->busy_us - link->busy_us;
    uint64_t resent = connection->resent_bytes - pccl_min_u64(connection->resent_bytes, link->resent);
    link->delivered = connection->delivered_bytes;
    link->resent = connection->resent_bytes;
    link->busy_us = connection->busy_us;
    link->seen = true;
    watch->moved_us = bytes >= MOVED_BYTES ? now_us : watch->moved_us;
    struct pccl_seen_link *figures = bytes || busy_us ? find_figures(telemetry, links, &connection->peer) : NULL;
    if (!figures)
        return;
    figures->bytes += bytes;
    figures->resent += resent;
    figures->busy_us = (uint32_t)pccl_min_u64(pccl_max_u64(figures->busy_us, busy_us), UINT32_MAX);
    figures->lately_us = connection->lately_us;
    figures->rtt_us =
        figures->rtt_us ? (uint32_t)pccl_min_u64(figures->rtt_us, connection->rtt_us) : connection->rtt_us;
}

static void forget_unseen(struct pccl_comm_watch *watch)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < watch->link_count; i++) {
        bool seen = watch->links[i].seen;
        watch->links[i].seen = false;
        if (seen)
            watch->links[kept++] = watch->links[i];
    }
    watch->link_count = kept;
}

static void add_links(struct pccl_communicator *comm, uint64_t now_us, struct pccl_msg_sight *telemetry,
                      struct pccl_seen_link *links)
{
    uint32_t room = comm->data.engine ? pccl_engine_connections(comm->data.engine, NULL, 0) : 0;
    struct pccl_telemetry_connection *all = room ? pccl_allocate(pccl_heap(), room * sizeof *all) : NULL;
    if (!all)
        return;
    uint32_t count = (uint32_t)pccl_min_u64(pccl_engine_connections(comm->data.engine, all, room), room);
    for (uint32_t i = 0; i < count; i++)
        if (all[i].outgoing && all[i].known && !all[i].ended_us)
            add_connection(&comm->watch, &all[i], now_us, telemetry, links);
    forget_unseen(&comm->watch);
    pccl_release(pccl_heap(), all, room * sizeof *all);
}

/* ---- waits ---- */

/*
 * Returns the operation in progress that was launched first; a receive from any sender starts when its sender is
 * chosen.
 */
static const struct pccl_comm_op *find_oldest(const struct pccl_communicator *comm)
{
    const struct pccl_comm_op *oldest = NULL;
    const struct pccl_table *operations = &comm->operations.by_tag;
    for (struct pccl_table_node *node = pccl_table_first(operations); node; node = pccl_table_after(operations, node)) {
        const struct pccl_comm_op *operation = PCCL_CONTAINER_OF(node, struct pccl_comm_op, by_tag);
        if (pccl_comm_telemetry_is_under_way(operation) &&
            (!oldest || operation->op->launched_us < oldest->op->launched_us))
            oldest = operation;
    }
    return oldest;
}

/* Returns true if the member has granted credit to this peer, which proves that it has entered the operation. */
static bool has_granted(const struct pccl_comm_op_job *job, uint32_t rank)
{
    for (uint32_t i = 0; i < job->job.config.telemetry_count; i++)
        if (PCCL_TELEMETRY_GET(job->telemetry[i].place) == ((rank + 1) | PCCL_TELEMETRY_OUTGOING))
            return PCCL_TELEMETRY_GET(job->telemetry[i].granted_us) != 0;
    return false;
}

static void add_flow_wait(const struct pccl_comm_op *operation, const struct pccl_telemetry_flow *flow, uint64_t now_us,
                          struct pccl_msg_sight *telemetry, struct pccl_seen_wait *waits)
{
    const struct pccl_comm_op_job *job = operation->job;
    const struct pccl_recorder_entry entry = {.state = pccl_comm_telemetry_state(operation->op),
                                              .entered_us = job->started_us};
    const struct pccl_telemetry_counters counters = pccl_telemetry_read(flow);
    uint64_t since_us = now_us;
    enum pccl_telemetry_wait what =
        counters.place ? pccl_recorder_entry_waits(&entry, &counters, &since_us) : PCCL_TELEMETRY_NOTHING;
    if (what == PCCL_TELEMETRY_NOTHING || telemetry->waits_count == PCCL_TELEMETRY_WAITS_MAX)
        return;
    uint32_t rank = (counters.place & ~PCCL_TELEMETRY_OUTGOING) - 1;
    bool begun =
        counters.place & PCCL_TELEMETRY_OUTGOING ? counters.granted_us : counters.begun || has_granted(job, rank);
    since_us = pccl_max_u64(since_us, job->started_us);
    waits[telemetry->waits_count++] = (struct pccl_seen_wait){
        .peer = job->job.config.ring[rank],
        .what = (uint8_t)what,
        .begun = begun,
        .for_ms = (uint32_t)pccl_min_u64((now_us - pccl_min_u64(now_us, since_us)) / 1000, UINT32_MAX)};
}

static void add_waits(const struct pccl_communicator *comm, uint64_t now_us, struct pccl_msg_sight *telemetry,
                      struct pccl_seen_wait *waits)
{
    const struct pccl_comm_op *operation = find_oldest(comm);
    if (!operation || now_us < operation->op->launched_us + REPORT_US)
        return;
    telemetry->instance = operation->op->instance;
    const struct pccl_comm_op_job *job = operation->job;
    for (uint32_t i = 0; job && i < job->job.config.telemetry_count; i++)
        add_flow_wait(operation, &job->telemetry[i], now_us, telemetry, waits);
    if (operation->op->tiny)
        waits[telemetry->waits_count++] = (struct pccl_seen_wait){
            .what = PCCL_WAIT_OUTCOME, .for_ms = (uint32_t)((now_us - operation->op->launched_us) / 1000)};
}

/* ---- remaining work ---- */

/* Returns the operation's outgoing flow if it has exactly one, as along a ring; otherwise NULL. */
static const struct pccl_telemetry_flow *find_ring_flow(const struct pccl_comm_op_job *job)
{
    const struct pccl_telemetry_flow *found = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->job.config.telemetry_count; i++)
        if (pccl_telemetry_is_outgoing(&job->telemetry[i])) {
            found = &job->telemetry[i];
            count++;
        }
    return count == 1 ? found : NULL;
}

/*
 * Estimates the total bytes to send from the sent bytes and the number of messages in the open stripes, as all messages
 * have about the same size.
 */
static void add_ring_bytes(const struct pccl_comm_op_job *job, struct pccl_msg_sight *telemetry)
{
    const struct pccl_telemetry_flow *flow = find_ring_flow(job);
    if (!flow || !job->operation || job->operation->decided || job->restarts ||
        !pccl_is_of_whole_group(&job->job.config.instance))
        return;
    const struct pccl_telemetry_counters counters = pccl_telemetry_read(flow);
    if (counters.moved == 0 || counters.opened == 0)
        return;
    double messages = (double)counters.expected / (double)counters.opened * (double)counters.stripes;
    uint64_t bytes = (uint64_t)((double)counters.bytes / counters.moved * messages);
    telemetry->ring_bytes += bytes;
    telemetry->ring_left += bytes - pccl_min_u64(bytes, counters.bytes);
}

/* ---- reports ---- */

/* At the level TRACE, logs everything that a report contains except for the waits. */
static void log_report(const struct pccl_msg_sight *telemetry)
{
    pccl_logger_print(PCCL_LOG_TRACE, "report", "window_ms=%u stalled_ms=%u operations=%u took_us=%" PRIu64,
                      telemetry->window_ms, telemetry->stalled_ms, telemetry->operations, telemetry->took_us);
    for (uint32_t i = 0; i < telemetry->links_count; i++) {
        const struct pccl_seen_link *link = &telemetry->links[i];
        pccl_logger_print(
            PCCL_LOG_TRACE, "report", "link=%s bytes=%" PRIu64 " resent=%" PRIu64 " busy_us=%u rtt_us=%u lately_us=%u",
            pccl_id_str(&link->peer), link->bytes, link->resent, link->busy_us, link->rtt_us, link->lately_us);
    }
    for (uint32_t i = 0; i < telemetry->rounds_count; i++)
        pccl_logger_print(PCCL_LOG_TRACE, "report", "round=%" PRIx64 " took_us=%u blocked_us=%u",
                          telemetry->rounds[i].key, telemetry->rounds[i].took_us, telemetry->rounds[i].blocked_us);
}

static void report(struct pccl_communicator *comm, uint64_t now_us)
{
    struct pccl_comm_watch *watch = &comm->watch;
    struct pccl_seen_link links[PCCL_TELEMETRY_LINKS_MAX];
    struct pccl_seen_wait waits[PCCL_TELEMETRY_WAITS_MAX];
    uint64_t window_ms = (now_us - watch->begun_us) / 1000;
    struct pccl_msg_sight telemetry = {.window_ms = (uint32_t)pccl_min_u64(window_ms, 3600000),
                                       .stalled_ms = (uint32_t)(watch->stalled_us / 1000),
                                       .operations = watch->operations,
                                       .took_us = watch->took_us,
                                       .times = pccl_comm_time_sums(&comm->time, now_us),
                                       .rounds = watch->rounds,
                                       .rounds_count = watch->round_count,
                                       .links = links,
                                       .waits = waits};
    add_links(comm, now_us, &telemetry, links);
    add_waits(comm, now_us, &telemetry, waits);
    for (const struct pccl_comm_op_job *job = comm->data.jobs; job; job = job->next)
        add_ring_bytes(job, &telemetry);
    if (pccl_logger_wants(PCCL_LOG_TRACE))
        log_report(&telemetry);
    if (telemetry.operations || telemetry.waits_count || telemetry.links_count || watch->waited ||
        comm->time.unreported)
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_TELEMETRY, .telemetry = &telemetry});
    watch->waited = telemetry.waits_count > 0;
    comm->time.unreported = false;
}

static void begin_anew(struct pccl_comm_watch *watch, uint64_t now_us)
{
    watch->begun_us = now_us;
    watch->operations = watch->bulk = watch->round_count = 0;
    watch->took_us = watch->stalled_us = 0;
}

void pccl_comm_watch_polled(struct pccl_communicator *comm, uint64_t received_us)
{
    struct pccl_comm_watch *watch = &comm->watch;
    take_pulse(comm, received_us);
    const bool idle = is_idle(comm);
    bool due = received_us >= watch->begun_us + REPORT_US;
    if (due && !idle && pccl_comm_is_connected(comm))
        report(comm, received_us);
    if (due || idle)
        begin_anew(watch, received_us);
}

void pccl_comm_watch_fini(struct pccl_communicator *comm)
{
    pccl_release(pccl_heap(), comm->watch.links, comm->watch.link_capacity * sizeof *comm->watch.links);
}
