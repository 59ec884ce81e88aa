/*
 * An abstract data path: a bulk operation completes at a peer some time after every member of its start view has
 * started the same (instance, start view) and the links it needs are up (direct exchange: all pairs, or only the
 * root's; otherwise the ring), unless a member died or was cut off before its part had left. A member that starts
 * announces it to the members it receives from. The real data path (segments, restore, buffers) has separate rigs.
 */
#include "peer/subgroups.h"
#include "sim.h"
#include "wire/choice.h"
#include "wire/subgroup.h"

#include <stdlib.h>
#include <string.h>

struct part {
    struct part *next;
    struct sim_peer *peer; /* NULL: the process is gone */
    struct pccl_peer_op *op;
    struct pccl_descriptor descriptor;
    bool stopped, complete; /* outcome known; result complete (or failed) */
    bool gone;
    bool lost;     /* complete, but its sent data may not have arrived */
    bool clean;    /* gone or stopped after its part had left */
    bool restarts; /* stopped, waits for another start */
};
struct sim_bulk {
    struct sim_bulk *next, *same_hash;
    struct pccl_id lineage;
    uint32_t group;
    struct pccl_instance instance;
    struct pccl_epoch view;
    uint32_t world, started;
    struct pccl_id *ring; /* owned; ring of the view */
    enum way { ALONG_THE_RING, OF_ALL_PAIRS, TO_THE_ROOT, FROM_THE_ROOT, IN_LINE, OF_A_PAIR } way;
    uint32_t root;       /* its place in the ring, if data moves directly to or from it */
    uint32_t *positions; /* owned; positions of places in the ring, in canonical order */
    struct part *parts;
};

/* Returns true for a link that carries data; or, as always to the next in the ring, at least READY. */
static bool is_needed(const struct sim_bulk *bulk, uint32_t from, uint32_t to)
{
    bool directly = bulk->way == OF_ALL_PAIRS ||
                    (bulk->way == IN_LINE && bulk->positions[to] == bulk->positions[from] + 1) ||
                    (bulk->way == TO_THE_ROOT && to == bulk->root) ||
                    ((bulk->way == FROM_THE_ROOT || bulk->way == OF_A_PAIR) && from == bulk->root);
    return from != to && (directly || (bulk->way != OF_A_PAIR && (from + 1) % bulk->world == to));
}

static uint32_t place_of(const struct sim_bulk *bulk, const struct pccl_id *id)
{
    uint32_t place = 0;
    while (place < bulk->world && !pccl_id_equal(&bulk->ring[place], id))
        place++;
    return place;
}

/* Returns true if both ends of the connection are up. */
static bool is_whole(const struct sim_peer *to, const struct sim_link *outgoing)
{
    bool whole = false;
    for (uint32_t i = 0; to != NULL && i < to->link_count; i++)
        whole = whole || (to->links[i].up && to->links[i].incoming && to->links[i].conn == outgoing->conn);
    return whole && outgoing->up && !outgoing->incoming;
}

/* Returns true if data can flow along a link that the operation needs. */
static bool is_open(struct sim *sim, const struct pccl_id *from_id, const struct pccl_id *to_id)
{
    const struct sim_peer *from = sim_peer_find(sim, from_id), *to = sim_peer_find(sim, to_id);
    bool up = false;
    for (uint32_t i = 0; from != NULL && i < from->link_count; i++)
        up = up || is_whole(to, &from->links[i]);
    return up && to != NULL && sim_net_state(sim, from->process.host, to->process.host, SIM_DATA) == SIM_WHOLE;
}

/*
 * Returns the way of an operation of these members. In a large group only gathers, scatters and exchanges have a direct
 * one.
 */
static enum way way_of(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost, uint32_t count,
                       uint32_t root_position)
{
    const uint8_t collective = descriptor->collective;
    const uint64_t root = UINT64_C(1) << root_position % 64;
    const bool scans = collective == PCCL_EXCLUSIVE_SCAN || collective == PCCL_INCLUSIVE_SCAN;
    if (cost->mesh == 0)
        return ALONG_THE_RING;
    if (scans && (count <= PCCL_MESH_PEERS_MAX || cost->to_hubs == UINT64_MAX >> (64 - count)))
        return IN_LINE;
    if (count <= PCCL_MESH_PEERS_MAX)
        return OF_ALL_PAIRS;
    if (collective == PCCL_ALL_TO_ALL || collective == PCCL_ALL_TO_ALL_V)
        return cost->to_hubs == UINT64_MAX >> (64 - count) ? OF_ALL_PAIRS : ALONG_THE_RING;
    if ((collective == PCCL_GATHER || collective == PCCL_GATHER_V) && (cost->to_hubs & root) != 0)
        return TO_THE_ROOT;
    if ((collective == PCCL_SCATTER || collective == PCCL_SCATTER_V) && (cost->from_hubs & root) != 0)
        return FROM_THE_ROOT;
    return ALONG_THE_RING;
}

static struct sim_bulk *find_bulk(struct sim *sim, const struct sim_peer *peer, const struct pccl_peer_op *op,
                                  bool create)
{
    const struct pccl_id *lineage = pccl_peer_lineage(peer->machine);
    uint64_t hash = sim_mix(op->instance.tag, op->instance.use);
    struct sim_bulk **first = &sim->bulks_by_name[hash % PCCL_COUNT_OF(sim->bulks_by_name)];
    for (struct sim_bulk *bulk = *first; bulk != NULL; bulk = bulk->same_hash)
        if (bulk->group == peer->group && pccl_instance_equal(&bulk->instance, &op->instance) &&
            pccl_epoch_equal(&bulk->view, &op->start_view) && pccl_id_equal(&bulk->lineage, lineage))
            return bulk;
    if (!create)
        return NULL;
    struct sim_bulk *bulk = calloc(1, sizeof *bulk);
    if (bulk == NULL)
        abort();
    bulk->lineage = *lineage;
    bulk->group = peer->group;
    bulk->instance = op->instance;
    bulk->view = op->start_view;
    bulk->world = op->world;
    struct pccl_peer_pair pair;
    const struct pccl_peer_participants *all = pccl_peer_members_of(peer->machine, &op->instance, &pair);
    bool is_pair = op->instance.pair != 0;
    const uint32_t count = all->count;
    const struct pccl_id *ring = all->ring;
    bulk->ring = malloc(count * sizeof *ring);
    if (bulk->ring == NULL || count != op->world)
        abort();
    memcpy(bulk->ring, ring, count * sizeof *ring);
    uint32_t root = pccl_id_find(bulk->ring, count, &op->descriptor.root);
    bulk->root = root;
    bulk->positions = malloc(count * sizeof *bulk->positions);
    if (bulk->positions == NULL)
        abort();
    memcpy(bulk->positions, all->positions, count * sizeof *bulk->positions);
    bulk->way =
        is_pair ? OF_A_PAIR : way_of(&op->descriptor, &all->cost, count, root < count ? all->positions[root] : 0);
    bulk->next = sim->bulks;
    sim->bulks = bulk;
    bulk->same_hash = *first;
    *first = bulk;
    return bulk;
}

static struct part *find_part(const struct sim_bulk *bulk, const struct sim_peer *peer)
{
    for (struct part *part = bulk->parts; part != NULL; part = part->next)
        if (part->peer == peer && !part->gone)
            return part;
    return NULL;
}

static bool part_is_open(const struct part *part) { return !part->gone && !part->stopped && !part->complete; }

static void fail(struct sim *sim, const struct part *part, enum pccl_class class, const struct pccl_text *reason)
{
    sim_check_failing(sim, part->peer, part->op);
    sim_peer_tell(
        sim, part->peer,
        &(struct pccl_peer_event){.kind = PCCL_PEER_OP_FAILED, .op = part->op, .class = class, .reason = reason});
}

static void fail_part(struct sim *sim, void *subject, uint64_t class, uint64_t unused)
{
    struct part *part = subject;
    if (!part_is_open(part))
        return;
    if (!sim_peer_runs(part->peer)) {
        sim_at(sim, pccl_max_u64(sim->now + SIM_MS, part->peer->process.stopped_until), fail_part, part, class, 0);
        return;
    }
    struct pccl_text reason;
    pccl_text_clear(&reason);
    pccl_text_add(&reason, class == PCCL_CLASS_MISMATCH   ? "the descriptors differ"
                           : class == PCCL_CLASS_INTERNAL ? "an invalid message"
                                                          : "the simulated data path failed");
    part->complete = true;
    sim_note(sim, "p%u: bulk tag %llu use %u fails, class %u", part->peer->process.number,
             (unsigned long long)part->op->instance.tag, part->op->instance.use, (unsigned)class);
    fail(sim, part, (enum pccl_class) class, &reason);
}

/* Fails a part whose result is complete, because a connection broke that it had sent over. */
static void fail_behind_done(struct sim *sim, void *subject, uint64_t unused_a, uint64_t unused_b)
{
    struct part *part = subject;
    if (part->gone || part->stopped)
        return;
    if (!sim_peer_runs(part->peer)) {
        sim_at(sim, pccl_max_u64(sim->now + SIM_MS, part->peer->process.stopped_until), fail_behind_done, part, 0, 0);
        return;
    }
    struct pccl_text reason;
    pccl_text_format(&reason, "a connection was lost behind the data");
    sim_note(sim, "p%u: bulk tag %llu use %u fails behind done", part->peer->process.number,
             (unsigned long long)part->op->instance.tag, part->op->instance.use);
    fail(sim, part, PCCL_CLASS_PEER_LOST, &reason);
}

/*
 * Returns true if data can travel between the two: in direct exchange over their links, otherwise around the whole
 * ring.
 */
static bool reaches(struct sim *sim, const struct sim_bulk *bulk, const struct sim_peer *mine,
                    const struct sim_peer *other)
{
    uint32_t here = place_of(bulk, &mine->id), there = place_of(bulk, &other->id);
    if (bulk->way != ALONG_THE_RING)
        return (!is_needed(bulk, here, there) || is_open(sim, &mine->id, &other->id)) &&
               (!is_needed(bulk, there, here) || is_open(sim, &other->id, &mine->id));
    for (uint32_t i = 0; i < bulk->world; i++)
        if (!is_open(sim, &bulk->ring[i], &bulk->ring[(i + 1) % bulk->world]))
            return false;
    return true;
}

/* Returns true if all data from other members has arrived. */
static bool can_complete(struct sim *sim, const struct sim_bulk *bulk, const struct part *mine, bool *never)
{
    for (const struct part *other = bulk->parts; other != NULL; other = other->next) {
        if (other == mine || (other->complete && !other->lost))
            continue;
        if (other->lost) {
            *never = true;
            return false;
        }
        if (other->gone || other->stopped) {
            if (other->clean)
                continue;
            *never = true;
            return false;
        }
        if (!sim_peer_runs(other->peer) || !reaches(sim, bulk, mine->peer, other->peer))
            return false;
    }
    return true;
}

static void complete_part(struct sim *sim, void *subject, uint64_t unused_a, uint64_t unused_b)
{
    struct part *part = subject;
    if (!part_is_open(part))
        return;
    bool never = false;
    const struct sim_bulk *bulk = find_bulk(sim, part->peer, part->op, false);
    if (!sim->bulk_by_hand && (!sim_peer_runs(part->peer) || !can_complete(sim, bulk, part, &never))) {
        if (!never)
            sim_at(sim, pccl_max_u64(sim->now + 20 * SIM_MS, part->peer->process.stopped_until), complete_part, part, 0,
                   0);
        return;
    }
    part->complete = true;
    sim_note(sim, "p%u: bulk tag %llu use %u done", part->peer->process.number,
             (unsigned long long)part->op->instance.tag, part->op->instance.use);
    sim_check_done(sim, part->peer, part->op);
    sim_peer_tell(sim, part->peer, &(struct pccl_peer_event){.kind = PCCL_PEER_OP_DONE, .op = part->op});
}

void sim_bulk_finish(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op)
{
    struct part *part = find_part(find_bulk(sim, peer, op, true), peer);
    if (part != NULL)
        complete_part(sim, part, 0, 0);
}

void sim_bulk_break(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op, enum pccl_class class)
{
    struct part *part = find_part(find_bulk(sim, peer, op, true), peer);
    if (part != NULL)
        fail_part(sim, part, (uint64_t) class, 0);
}

/* Checks A1: two members of a view that request the same with an automatic codec have chosen the same. */
static void check_level(struct sim *sim, const struct part *mine, const struct part *other)
{
    struct pccl_descriptor same = other->descriptor;
    pccl_choice_apply(PCCL_LEVEL_EXACT, &same, &same);
    struct pccl_descriptor exact = mine->descriptor;
    pccl_choice_apply(PCCL_LEVEL_EXACT, &exact, &exact);
    if (!pccl_choice_is_automatic(&exact) || !pccl_descriptor_equal(&exact, &same) ||
        pccl_descriptor_equal(&mine->descriptor, &other->descriptor))
        return;
    sim_fail(sim, "A1 tag %llu use %u: p%u chose codec %u, and p%u codec %u",
             (unsigned long long)mine->op->instance.tag, mine->op->instance.use, mine->peer->process.number,
             mine->descriptor.codec, other->peer->process.number, other->descriptor.codec);
}

static void compare_descriptors(struct sim *sim, const struct sim_bulk *bulk)
{
    bool differ = false;
    for (const struct part *part = bulk->parts; part->next != NULL; part = part->next)
        differ = differ || !pccl_descriptor_equal(&part->descriptor, &part->next->descriptor);
    for (struct part *part = bulk->parts; differ && part != NULL; part = part->next)
        if (part == bulk->parts || sim_chance(sim, 60))
            sim_at(sim, sim->now + sim_random(sim, 2 * SIM_MS), fail_part, part, PCCL_CLASS_MISMATCH, 0);
    for (struct part *part = bulk->parts; !differ && part != NULL; part = part->next)
        sim_at(sim, sim->now + sim_between(sim, 500, sim->plan.bulk_us), complete_part, part, 0, 0);
}

/* Delivers a part's READY to the member at this place, or waits for a link to it. */
static void announce_part(struct sim *sim, void *subject, uint64_t place, uint64_t unused)
{
    struct part *part = subject;
    if (!part_is_open(part))
        return;
    const struct sim_bulk *bulk = find_bulk(sim, part->peer, part->op, false);
    struct sim_peer *to = sim_peer_find(sim, &bulk->ring[place]);
    if (to == NULL || !to->process.alive || find_part(bulk, to) != NULL)
        return;
    bool along = bulk->way == OF_A_PAIR && place != bulk->root; /* from the source, over its outgoing link */
    if (!sim_peer_runs(to) || !is_open(sim, along ? &part->peer->id : &to->id, along ? &to->id : &part->peer->id)) {
        sim_at(sim, pccl_max_u64(sim->now + 20 * SIM_MS, to->process.stopped_until), announce_part, part, place, 0);
        return;
    }
    struct pccl_msg_ready ready = {
        .instance = bulk->instance, .view = bulk->view, .descriptor = part->descriptor, .segment_elements = 1};
    struct sim_peer *from = part->peer;
    sim_note(sim, "p%u: p%u announces tag %llu use %u", to->process.number, from->process.number,
             (unsigned long long)bulk->instance.tag, bulk->instance.use);
    sim_peer_tell(sim, to, &(struct pccl_peer_event){.kind = PCCL_PEER_ANNOUNCED, .peer = from->id, .ready = &ready});
}

void sim_bulk_start(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op)
{
    struct sim_bulk *bulk = find_bulk(sim, peer, op, true);
    sim_check_started(sim, peer, op);
    struct part *part = calloc(1, sizeof *part);
    if (part == NULL)
        abort();
    if (find_part(bulk, peer) != NULL)
        sim_fail(sim, "I3 p%u starts the same operation twice", peer->process.number);
    if (bulk->world < 2)
        sim_fail(sim, "I4 p%u moves data, and there is nobody else", peer->process.number);
    *part = (struct part){.next = bulk->parts, .peer = peer, .op = op, .descriptor = op->descriptor};
    bulk->parts = part;
    bulk->started++;
    for (const struct part *other = part->next; other != NULL; other = other->next)
        if (other->peer != NULL)
            check_level(sim, part, other);
    if (bulk->world != op->world)
        sim_fail(sim, "I1 tag %llu use %u: members of one view count %u and %u", (unsigned long long)op->instance.tag,
                 op->instance.use, bulk->world, op->world);
    if (!sim->faults_stopped && sim_chance(sim, sim->plan.bulk_failure_percent))
        sim_at(sim, sim->now + sim_random(sim, 20 * SIM_MS), fail_part, part,
               sim_chance(sim, 50) ? PCCL_CLASS_PEER_LOST : PCCL_CLASS_INTERNAL, 0);
    uint32_t mine = place_of(bulk, &peer->id);
    for (uint32_t place = 0; place < bulk->world; place++)
        if (is_needed(bulk, place, mine) || (bulk->way == OF_A_PAIR && place != mine))
            sim_at(sim, sim->now + sim_between(sim, 1, 2 * SIM_MS), announce_part, part, place, 0);
    if (bulk->started == bulk->world && !sim->bulk_by_hand)
        compare_descriptors(sim, bulk);
}

/* Returns the peer's part in the latest view, with its bulk; NULL if it does not move, and will not. */
static struct part *latest_part(struct sim *sim, const struct sim_peer *peer, const struct pccl_peer_op *op,
                                struct sim_bulk **bulk)
{
    for (*bulk = sim->bulks; *bulk != NULL; *bulk = (*bulk)->next) {
        struct part *part = find_part(*bulk, peer);
        if (part != NULL && part->op == op && (!part->stopped || part->restarts))
            return part;
    }
    return NULL;
}

static void stop(struct sim *sim, const struct sim_bulk *bulk, struct part *part)
{
    part->stopped = true;
    part->clean = part->complete || (bulk->started == bulk->world && sim_chance(sim, 50));
}

void sim_bulk_stop(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op)
{
    struct sim_bulk *bulk;
    struct part *part = latest_part(sim, peer, op, &bulk);
    if (part == NULL)
        sim_fail(sim, "I4 p%u stops an operation that does not move", peer->process.number);
    if (!part->stopped)
        stop(sim, bulk, part);
    part->restarts = false;
}

static void start_again(struct sim *sim, void *subject, uint64_t unused_a, uint64_t unused_b)
{
    struct part *part = subject;
    if (part->gone || !part->restarts)
        return;
    if (!sim_peer_runs(part->peer)) {
        sim_at(sim, pccl_max_u64(sim->now + SIM_MS, part->peer->process.stopped_until), start_again, part, 0, 0);
        return;
    }
    part->restarts = false;
    sim_bulk_start(sim, part->peer, part->op);
}

/* Restarts a part after a delay: the data path takes a while to restore the input. */
void sim_bulk_restart(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op)
{
    struct sim_bulk *bulk;
    struct part *part = latest_part(sim, peer, op, &bulk);
    if (part == NULL)
        sim_fail(sim, "I4 p%u starts an operation again that does not move", peer->process.number);
    if (part->restarts)
        return; /* starts in the latest view */
    stop(sim, bulk, part);
    part->restarts = true;
    sim_at(sim, sim->now + sim_log_between(sim, 10, 20 * SIM_MS), start_again, part, 0, 0);
}

bool sim_bulk_is_moving(struct sim *sim, const struct sim_peer *peer, const struct pccl_peer_op *op)
{
    struct sim_bulk *bulk = find_bulk(sim, peer, op, false);
    struct part *part = bulk != NULL ? find_part(bulk, peer) : NULL;
    return part != NULL && !part->stopped;
}

void sim_bulk_peer_gone(struct sim *sim, struct sim_peer *peer)
{
    for (struct sim_bulk *bulk = sim->bulks; bulk != NULL; bulk = bulk->next) {
        struct part *part = find_part(bulk, peer);
        if (part == NULL)
            continue;
        part->gone = true;
        part->clean = part->clean || part->complete || (bulk->started == bulk->world && sim_chance(sim, 50));
    }
}

void sim_bulk_link_down(struct sim *sim, struct sim_peer *peer, const struct pccl_id *other, bool invalid)
{
    struct sim_peer *far = sim_peer_find(sim, other);
    for (struct sim_bulk *bulk = sim->bulks; bulk != NULL; bulk = bulk->next) {
        struct part *part = find_part(bulk, peer);
        if (part == NULL || part->stopped || part->lost || far == NULL)
            continue;
        uint32_t here = place_of(bulk, &peer->id), there = place_of(bulk, other);
        bool takes_part = false;
        for (const struct part *p = bulk->parts; p != NULL; p = p->next)
            takes_part = takes_part || p->peer == far;
        bool concerned = takes_part && (is_needed(bulk, here, there) || is_needed(bulk, there, here));
        if (concerned && invalid && !part->complete)
            sim_at(sim, sim->now + sim_random(sim, SIM_MS), fail_part, part, PCCL_CLASS_INTERNAL, 0);
        if (!concerned || invalid || sim->bulk_by_hand || !sim_chance(sim, 50)) /* bytes of it were in flight */
            continue;
        part->lost = part->complete;
        if (part->lost)
            sim_at(sim, sim->now + sim_random(sim, SIM_MS), fail_behind_done, part, 0, 0);
        else
            sim_at(sim, sim->now + sim_random(sim, SIM_MS), fail_part, part, PCCL_CLASS_PEER_LOST, 0);
    }
}

void sim_bulk_fini(struct sim *sim)
{
    memset(sim->bulks_by_name, 0, sizeof sim->bulks_by_name);
    while (sim->bulks != NULL) {
        struct sim_bulk *bulk = sim->bulks;
        sim->bulks = bulk->next;
        free(bulk->ring);
        free(bulk->positions);
        while (bulk->parts != NULL) {
            struct part *part = bulk->parts;
            bulk->parts = part->next;
            free(part);
        }
        free(bulk);
    }
}
