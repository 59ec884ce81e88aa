/*
 * Callers that create subgroups: in most chapters of half of the seeds, by overlapping lists of some of the members at
 * the beginning of the chapter. The members of a subgroup work in it in parallel with the whole group, on the same
 * tags. It is closed, or lives on over eras, and if it ends early the remaining members create it again. Launches in it
 * depend on its name and its number of steps, so that they match at all members; but some may be a chapter behind.
 * That, and creation by differing lists, ends by a deadline, and then a member that learns of it closes the subgroup.
 * In half of the seeds some steps are sends between two members, which the others skip.
 */
#include "check.h"
#include "support/peer_check.h"

#include <string.h>

enum { FOUND_AGAIN_MAX = 2, ATTEMPTS_MAX = 6, TIMEOUT_MS = 1500, SENDS_PERCENT = 30 };

static uint64_t hash_of(const struct sim *sim, const struct sim_app *app, uint32_t slot, uint64_t salt)
{
    return sim_app_hash(sim, app, 0x5b90000 + slot * 1000 + salt);
}

static uint64_t hash_of_step(const struct sim *sim, const struct sim_circle *circle, uint32_t tag, uint64_t salt)
{
    return sim_mix(sim_mix(sim->seed ^ circle->name, tag << 20 | circle->made[tag]), salt);
}

/* ---- chapters ---- */

static bool lives(const struct sim_peer *peer, const struct sim_circle *circle)
{
    const struct pccl_peer_subgroup *subgroup = pccl_peer_subgroup(peer->machine, circle->name);
    return subgroup != NULL && !subgroup->all.ended;
}

static void draw_list(const struct sim *sim, const struct sim_peer *peer, uint32_t slot, struct sim_circle *circle)
{
    const struct sim_app *app = &peer->app;
    bool with_me = false;
    circle->count = 0;
    for (uint32_t i = 0; i < app->member_count; i++) {
        if (hash_of(sim, app, slot, 100 + i) % 100 >= 60)
            continue;
        circle->list[circle->count++] = app->members[i];
        with_me = with_me || pccl_id_equal(&app->members[i], &peer->id);
    }
    if (circle->count < 2 || !with_me)
        circle->count = 0;
}

void sim_subgroups_begin(struct sim *sim, struct sim_peer *peer)
{
    for (uint32_t slot = 0; slot < SIM_CIRCLES; slot++) {
        struct sim_circle *circle = &peer->app.circles[slot];
        for (uint32_t i = 0; i < SIM_CIRCLE_LANES; i++) {
            memset(&circle->lanes[i], 0, sizeof circle->lanes[i]);
            circle->lanes[i].steps = (uint32_t)(hash_of(sim, &peer->app, slot, 10 + i) % 4);
        }
        circle->foundings = 0;
        circle->state = SIM_CIRCLE_OVER;
        if (!sim->plan.subgroups)
            continue;
        if (circle->name != 0 && lives(peer, circle)) {
            circle->state = SIM_CIRCLE_WORKING;
            continue;
        }
        if (circle->name != 0)
            sim_subgroup_close(sim, peer, circle);
        if (hash_of(sim, &peer->app, slot, 1) % 100 < 60 && !sim->resting)
            draw_list(sim, peer, slot, circle);
        else
            circle->count = 0;
        circle->state = circle->count > 0 ? SIM_CIRCLE_FOUNDING : SIM_CIRCLE_OVER;
    }
}

void sim_subgroup_close(struct sim *sim, struct sim_peer *peer, struct sim_circle *circle)
{
    sim_note(sim, "p%u closes subgroup %llx", peer->process.number, (unsigned long long)circle->name);
    sim_check_closing(sim, peer, circle->name);
    sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_SUBGROUP_CLOSE, .subgroup = circle->name});
    circle->name = 0;
    if (!pccl_peer_is_connected(peer->machine)) /* memory was short for the message */
        sim_app_later(sim, peer, 0);
}

/* ---- creation ---- */

/*
 * Keeps the members of the list that are still members. Returns false if too few are left, or this peer is not among
 * them.
 */
static bool renew_list(struct sim_peer *peer, struct sim_circle *circle)
{
    struct pccl_id members[SIM_HOSTS_MAX];
    uint32_t count = sim_members(peer, members, SIM_HOSTS_MAX), kept = 0;
    for (uint32_t i = 0; i < circle->count; i++)
        if (pccl_id_find(members, count, &circle->list[i]) < count)
            circle->list[kept++] = circle->list[i];
    circle->count = kept;
    return kept > 1;
}

/* Returns true if its tag is in use: the other subgroup of this peer is being created with the same list. */
static bool is_doubled(const struct sim_peer *peer, const struct sim_circle *circle)
{
    for (uint32_t slot = 0; slot < SIM_CIRCLES; slot++) {
        const struct sim_circle *other = &peer->app.circles[slot];
        if (other != circle && other->state == SIM_CIRCLE_FOUNDING && other->lanes[0].state == SIM_LANE_FLYING &&
            other->count == circle->count &&
            memcmp(other->list, circle->list, circle->count * sizeof *circle->list) == 0)
            return true;
    }
    return false;
}

static void found(struct sim *sim, struct sim_peer *peer, struct sim_circle *circle)
{
    struct sim_lane *lane = &circle->lanes[0];
    struct sim_request request = {.collective = PCCL_FOUND,
                                  .step = 1,
                                  .tiny = true,
                                  .count = circle->count,
                                  .members = circle->list,
                                  .member_count = circle->count,
                                  .timeout_ms = TIMEOUT_MS};
    if (!renew_list(peer, circle) || is_doubled(peer, circle) || circle->foundings++ > FOUND_AGAIN_MAX) {
        circle->state = SIM_CIRCLE_OVER;
        return;
    }
    request.count = request.member_count = circle->count;
    enum pccl_status status = sim_lane_launch(sim, peer, lane, &request);
    if (status == PCCL_OK) {
        sim->totals.foundings++;
    } else if (status == PCCL_MEMORY && sim->oom_at != 0) {
        lane->act_at = sim->now + sim_random(sim, sim->plan.pause_us);
        circle->foundings--;
    } else if (pccl_peer_is_connected(peer->machine)) {
        sim_fail(sim, "I12 p%u: a founding is refused: %s", peer->process.number, pccl_status_name(status));
    }
}

static void take_founded(struct sim *sim, struct sim_peer *peer, struct sim_circle *circle)
{
    struct sim_lane *lane = &circle->lanes[0];
    enum pccl_class class = lane->op->class;
    const struct pccl_peer_subgroup *subgroup = pccl_peer_founded(peer->machine, lane->op);
    if ((subgroup != NULL) != (class == PCCL_CLASS_NONE))
        sim_fail(sim, "E1 p%u: a founding ended with class %d, and there is %s", peer->process.number, (int)class,
                 subgroup != NULL ? "a subgroup" : "none");
    circle->name = subgroup != NULL ? subgroup->name : 0;
    memset(circle->made, 0, sizeof circle->made);
    for (uint32_t tag = 0; tag < SIM_CIRCLE_LANES; tag++)
        circle->lanes[tag].attempt = 0; /* all count in the same way, regardless of the subgroup before */
    (void)sim_lane_release(sim, peer, lane);
    lane->act_at = sim->now + sim_random(sim, sim->plan.pause_us);
    sim->totals.founded += subgroup != NULL;
    if (subgroup != NULL)
        circle->state = SIM_CIRCLE_WORKING;
    else if (class == PCCL_CLASS_DEADLINE || class == PCCL_CLASS_ABORTED)
        circle->state = SIM_CIRCLE_OVER; /* others have other lists */
}

/* ---- working ---- */

static void take_launched(struct sim *sim, struct sim_peer *peer, const struct sim_circle *circle,
                          struct sim_lane *lane, enum pccl_status status)
{
    switch (status) {
    case PCCL_OK: break;
    case PCCL_MEMORY:
        if (sim->oom_at == 0)
            sim_fail(sim, "I12 p%u: a launch is refused: out of memory", peer->process.number);
        lane->act_at = sim->now + sim_random(sim, sim->plan.pause_us);
        break;
    case PCCL_PEER_LOST:
        if (lives(peer, circle))
            sim_fail(sim, "E1 p%u: a launch is refused in a subgroup that lives", peer->process.number);
        break;
    default:
        if (pccl_peer_is_connected(peer->machine))
            sim_fail(sim, "I12 p%u: a launch in a subgroup is refused: %s", peer->process.number,
                     pccl_status_name(status));
        break;
    }
}

static uint64_t step_of(const struct sim_circle *circle, uint32_t tag) { return circle->name ^ circle->made[tag]; }

/* Launches the second step with the known lengths: the same caller moves the blobs, or leaves the run if it cannot. */
static void follow(struct sim *sim, struct sim_peer *peer, const struct sim_circle *circle, struct sim_lane *lane,
                   struct sim_request *request)
{
    request->step = step_of(circle, (uint32_t)request->tag);
    request->timeout_ms = TIMEOUT_MS;
    enum pccl_status status = sim_lane_follow(sim, peer, lane, request);
    take_launched(sim, peer, circle, lane, status);
    if (status == PCCL_MEMORY)
        sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_LEAVE});
}

/* Returns true if the step is a send. The step determines the two participants. */
static bool is_send(const struct sim *sim, uint64_t hash) { return sim->plan.pairs && hash % 100 < SENDS_PERCENT; }

/*
 * Draws a send. Returns false if it is between two other members. Some members receive from any peer; all sends to one
 * have one form.
 */
static bool draw_send(const struct sim *sim, const struct sim_peer *peer, const struct sim_circle *circle,
                      uint64_t hash, struct sim_request *request)
{
    const struct pccl_peer_participants *all = pccl_peer_participants(peer->machine, circle->name);
    uint32_t count = all->count, rank = all->positions[all->place], source = (uint32_t)(hash / 128 % count);
    uint32_t destination = (source + 1 + (uint32_t)(hash / 4096 % (count - 1))) % count;
    uint64_t form = sim_mix(sim_mix(sim->seed ^ circle->name, destination), request->tag);
    request->collective = PCCL_SEND;
    request->sends = rank == source;
    request->other = *pccl_peer_member_at(all, request->sends ? destination : source);
    request->anybody = form % 100 < 40 && !request->sends;
    if (form % 100 >= 40)
        form = sim_mix(hash, 0x5e4d);
    request->tiny = form / 128 % 100 >= sim->plan.bulk_percent;
    request->count = request->tiny ? 1 + form / 16384 % SIM_ELEMENTS : 100000;
    return request->sends || rank == destination;
}

static void leave_out(struct sim *sim, struct sim_circle *circle, uint32_t tag)
{
    struct sim_lane *lane = &circle->lanes[tag];
    lane->attempt = 0;
    lane->step++;
    circle->made[tag]++;
    lane->act_at = sim->now + 1 + sim_random(sim, sim->plan.pause_us);
}

static void launch_lane(struct sim *sim, struct sim_peer *peer, uint32_t slot, uint32_t tag)
{
    struct sim_circle *circle = &peer->app.circles[slot];
    struct sim_lane *lane = &circle->lanes[tag];
    uint64_t hash = hash_of_step(sim, circle, tag, 1), drawn = sim_mix(hash, 0x9a1e);
    struct sim_request request = {.subgroup = circle->name,
                                  .tag = tag,
                                  .step = step_of(circle, tag),
                                  .timeout_ms = TIMEOUT_MS,
                                  .tiny = hash % 100 >= sim->plan.bulk_percent,
                                  .reduction = hash / 128 % 4 == 0 ? PCCL_MAX : PCCL_SUM};
    sim_draw_budget(sim, &request);
    request.count = request.tiny ? 1 + hash / 1024 % SIM_ELEMENTS : 100000;
    if (!is_send(sim, drawn)) {
        sim_draw_collective(&request, sim_mix(hash, 0xc012));
    } else if (!draw_send(sim, peer, circle, drawn, &request)) {
        leave_out(sim, circle, tag);
        return;
    }
    enum pccl_status status = sim_lane_launch(sim, peer, lane, &request);
    if (status == PCCL_LIMIT && request.collective == PCCL_SEND && peer->machine->group.count > PCCL_MESH_PEERS_MAX)
        leave_out(sim, circle, tag);
    else
        take_launched(sim, peer, circle, lane, status);
}

/* Handles an outcome, as all other members that see the same do. */
static void take_outcome(struct sim *sim, struct sim_peer *peer, uint32_t slot, uint32_t tag)
{
    struct sim_circle *circle = &peer->app.circles[slot];
    struct sim_lane *lane = &circle->lanes[tag];
    struct sim_request blobs;
    if (sim_follows(lane->op, pccl_peer_participants(peer->machine, circle->name)->count, &blobs)) {
        follow(sim, peer, circle, lane, &blobs);
        return;
    }
    enum pccl_class class = sim_lane_release(sim, peer, lane);
    sim->totals.subgroup_commits += class == PCCL_CLASS_NONE;
    bool fails = class != PCCL_CLASS_NONE && class != PCCL_CLASS_MISMATCH && lane->attempt < ATTEMPTS_MAX;
    bool again = fails && hash_of_step(sim, circle, tag, 2 + lane->attempt) % 100 < 70;
    lane->attempt = again ? lane->attempt + 1 : 0;
    lane->step += again ? 0 : 1;
    circle->made[tag] += again ? 0 : 1;
    lane->act_at = sim->now + (again ? 0 : sim_random(sim, sim->plan.pause_us));
}

/* Works on the next step of each lane. Returns true if all are finished. */
static bool work_lanes(struct sim *sim, struct sim_peer *peer, uint32_t slot)
{
    struct sim_circle *circle = &peer->app.circles[slot];
    bool finished = true;
    for (uint32_t tag = 0; tag < SIM_CIRCLE_LANES && pccl_peer_is_connected(peer->machine); tag++) {
        struct sim_lane *lane = &circle->lanes[tag];
        bool late = lane->state == SIM_LANE_FLYING && lane->decided && lane->op->class == PCCL_CLASS_DEADLINE;
        if (lane->state == SIM_LANE_FLYING && lane->decided)
            take_outcome(sim, peer, slot, tag);
        if (late) {
            sim_subgroup_close(sim, peer, circle);
            circle->state = SIM_CIRCLE_LEAVING;
            return false;
        }
        if (lane->state == SIM_LANE_IDLE && lane->step < lane->steps && sim->now >= lane->act_at && lives(peer, circle))
            launch_lane(sim, peer, slot, tag);
        bool through = lane->state == SIM_LANE_IDLE && (lane->step >= lane->steps || !lives(peer, circle));
        finished = finished && through;
    }
    return finished;
}

static void work_in(struct sim *sim, struct sim_peer *peer, uint32_t slot)
{
    struct sim_circle *circle = &peer->app.circles[slot];
    if (!sim->faults_stopped && sim_chance(sim, 1) && lives(peer, circle)) { /* its caller leaves the common program */
        sim_subgroup_close(sim, peer, circle);
        circle->state = SIM_CIRCLE_LEAVING;
        return;
    }
    if (!work_lanes(sim, peer, slot) || !pccl_peer_is_connected(peer->machine))
        return;
    if (!lives(peer, circle)) {
        bool again = hash_of(sim, &peer->app, slot, 2) % 100 < 60;
        sim_subgroup_close(sim, peer, circle);
        circle->state = again && !sim->resting ? SIM_CIRCLE_FOUNDING : SIM_CIRCLE_OVER;
    } else {
        if (hash_of(sim, &peer->app, slot, 3) % 100 < 40)
            sim_subgroup_close(sim, peer, circle);
        circle->state = SIM_CIRCLE_OVER;
    }
}

/* Waits for launched operations after its caller has closed it. */
static void leave(struct sim *sim, struct sim_peer *peer, struct sim_circle *circle)
{
    bool flying = false;
    for (uint32_t tag = 0; tag < SIM_CIRCLE_LANES; tag++) {
        struct sim_lane *lane = &circle->lanes[tag];
        if (lane->state == SIM_LANE_FLYING && lane->decided) {
            sim_app_release(sim, peer, lane->op);
            lane->op = NULL;
            lane->state = SIM_LANE_IDLE;
        }
        flying = flying || lane->state == SIM_LANE_FLYING;
    }
    if (!flying)
        circle->state = SIM_CIRCLE_OVER;
}

bool sim_subgroups_work(struct sim *sim, struct sim_peer *peer)
{
    bool over = true;
    for (uint32_t slot = 0; slot < SIM_CIRCLES && pccl_peer_is_connected(peer->machine); slot++) {
        struct sim_circle *circle = &peer->app.circles[slot];
        struct sim_lane *lane = &circle->lanes[0];
        if (circle->state == SIM_CIRCLE_FOUNDING && lane->state == SIM_LANE_FLYING && lane->decided)
            take_founded(sim, peer, circle);
        if (circle->state == SIM_CIRCLE_FOUNDING && lane->state == SIM_LANE_IDLE && sim->now >= lane->act_at)
            found(sim, peer, circle);
        if (circle->state == SIM_CIRCLE_WORKING)
            work_in(sim, peer, slot);
        if (circle->state == SIM_CIRCLE_LEAVING)
            leave(sim, peer, circle);
        over = over && circle->state == SIM_CIRCLE_OVER;
    }
    return over;
}

void sim_subgroups_wait(struct sim *sim, struct sim_peer *peer)
{
    for (uint32_t slot = 0; slot < SIM_CIRCLES; slot++) {
        const struct sim_circle *circle = &peer->app.circles[slot];
        for (uint32_t tag = 0; tag < SIM_CIRCLE_LANES && circle->state != SIM_CIRCLE_OVER; tag++) {
            const struct sim_lane *lane = &circle->lanes[tag];
            if (lane->state == SIM_LANE_IDLE && lane->act_at > sim->now)
                sim_app_later(sim, peer, lane->act_at - sim->now);
            else if (lane->state == SIM_LANE_FLYING ? lane->decided : tag == 0 && circle->state == SIM_CIRCLE_FOUNDING)
                sim_app_later(sim, peer, 0); /* a tombstone; or it must be created again */
        }
    }
}

void sim_subgroups_over(struct sim *sim, struct sim_peer *peer)
{
    for (uint32_t slot = 0; slot < SIM_CIRCLES; slot++) {
        struct sim_circle *circle = &peer->app.circles[slot];
        for (uint32_t tag = 0; tag < SIM_CIRCLE_LANES; tag++) {
            struct sim_lane *lane = &circle->lanes[tag];
            if (lane->state != SIM_LANE_FLYING)
                continue;
            if (!lane->decided)
                sim_fail(sim, "I12 p%u is unconnected and tag %u of a subgroup never ended", peer->process.number, tag);
            sim_app_release(sim, peer, lane->op);
            lane->state = SIM_LANE_IDLE;
        }
        if (circle->name != 0 && lives(peer, circle))
            sim_fail(sim, "E1 p%u is unconnected and its subgroup lives", peer->process.number);
    }
}
