/* I2-I6, I8: outcomes at the peers, and messages between peers and master. */
#include "master/roster.h"
#include "check.h"
#include "peer/members.h"
#include "peer/pairs.h"
#include "peer/op_table.h"
#include "peer/subgroups.h"
#include "wire/subgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table of launches ---- */

static uint64_t hash_name(const struct pccl_id *lineage, uint32_t group, const struct pccl_instance *name)
{
    uint64_t hash = sim_mix(sim_mix(group, name->joint), name->sync);
    hash = sim_mix(hash, name->tag + name->subgroup + name->pair);
    return sim_mix(hash ^ lineage->bytes[0] ^ (uint64_t)lineage->bytes[1] << 8, name->use);
}

const char *sim_instance_text(const struct pccl_instance *name)
{
    static char text[2][128];
    static int turn;
    turn = 1 - turn;
    int length =
        snprintf(text[turn], sizeof text[turn], "(era %llu %llu, tag %llu, use %u", (unsigned long long)name->joint,
                 (unsigned long long)name->sync, (unsigned long long)name->tag, name->use);
    snprintf(text[turn] + length, sizeof text[turn] - (size_t)length,
             pccl_is_of_whole_group(name) ? ")" : ", subgroup %llx, pair %llx)", (unsigned long long)name->subgroup,
             (unsigned long long)name->pair);
    return text[turn];
}

struct sim_instance *sim_instance_find(struct sim *sim, const struct pccl_id *lineage, uint32_t group,
                                       const struct pccl_instance *name, bool create)
{
    struct sim_instance **bucket = &sim->checks->buckets[hash_name(lineage, group, name) % INSTANCE_BUCKETS];
    for (struct sim_instance *instance = *bucket; instance != NULL; instance = instance->next_hashed)
        if (instance->group == group && pccl_instance_equal(&instance->name, name) &&
            pccl_id_equal(&instance->lineage, lineage))
            return instance;
    if (!create)
        return NULL;
    struct sim_instance *instance = calloc(1, sizeof *instance);
    if (instance == NULL)
        abort();
    instance->name = *name;
    instance->group = group;
    instance->lineage = *lineage;
    instance->next_hashed = *bucket;
    *bucket = instance;
    return instance;
}

struct sim_launch *sim_launch_of(const struct sim_instance *instance, const struct sim_peer *peer)
{
    for (struct sim_launch *launch = instance != NULL ? instance->launches : NULL; launch != NULL;
         launch = launch->next)
        if (launch->peer == peer)
            return launch;
    return NULL;
}

static struct sim_instance *instance_of(struct sim *sim, const struct sim_peer *peer, const struct pccl_instance *name)
{
    return sim_instance_find(sim, &peer->machine->lineage, peer->group, name, true);
}

static struct sim_use *use_of(struct sim_peer *peer, const struct pccl_instance *name)
{
    if (pccl_is_of_whole_group(name))
        return &peer->uses[name->tag % SIM_TAGS_KNOWN];
    struct sim_use *use = peer->subgroup_uses;
    while (use != NULL && (use->subgroup != name->subgroup || use->pair != name->pair || use->tag != name->tag))
        use = use->next_of_subgroup;
    if (use != NULL)
        return use;
    use = calloc(1, sizeof *use);
    if (use == NULL)
        abort();
    *use = (struct sim_use){
        .next_of_subgroup = peer->subgroup_uses, .subgroup = name->subgroup, .pair = name->pair, .tag = name->tag};
    peer->subgroup_uses = use;
    return use;
}

/* Returns true if the source has given up this use; a receive from any sender skips it. */
static bool is_given_up(struct sim *sim, const struct sim_peer *peer, const struct pccl_instance *name, uint32_t use)
{
    struct pccl_instance passed = *name;
    passed.use = use;
    return instance_of(sim, peer, &passed)->failure_asked;
}

/* I6: uses of a tag count up from 0 in each era, without a gap. */
static void check_use(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op)
{
    const struct pccl_instance *name = &op->instance;
    struct sim_use *use = use_of(peer, name);
    if (use->joint != name->joint || use->sync != name->sync || !use->begun)
        use->next = 0;
    use->begun = true;
    use->joint = name->joint;
    use->sync = name->sync;
    while (op->from_any && use->next < name->use && is_given_up(sim, peer, name, use->next))
        use->next++;
    if (name->use != use->next && !sim->mute_uses)
        sim_fail(sim, "I6 p%u launches %s, expected use %u", peer->process.number, sim_instance_text(name), use->next);
    use->next++;
    if (name->joint != pccl_peer_joint(peer->machine) || name->sync != peer->machine->rounds[PCCL_ROUND_SYNC])
        sim_fail(sim, "I7 p%u launches %s in another era", peer->process.number, sim_instance_text(name));
    if (peer->machine->calls[PCCL_ROUND_UPDATE].outstanding || peer->machine->calls[PCCL_ROUND_SYNC].outstanding ||
        peer->machine->calls[PCCL_ROUND_OPTIMIZE].outstanding)
        sim_fail(sim, "I7 p%u launches %s while its era is about to change", peer->process.number,
                 sim_instance_text(name));
    if (pccl_is_of_whole_group(name) && !pccl_peer_is_decided(op) &&
        !pccl_epoch_equal(&op->start_view, &peer->machine->view))
        sim_fail(sim, "I5 p%u launches %s with a start view that is not its view", peer->process.number,
                 sim_instance_text(name));
}

static void take_list(struct sim_launch *launch, const struct pccl_id *members, uint32_t count)
{
    launch->world = count;
    launch->list = malloc(count * sizeof *launch->list + 1);
    if (launch->list == NULL)
        abort();
    memcpy(launch->list, members, count * sizeof *launch->list);
}

/*
 * Returns true if there is a view of this group later than `after` and not later than `until` (NULL: any) that did not
 * only re-plan. `undone`: counts those, too, that a restart of the master has undone; a disconnected peer may have
 * received them.
 */
static bool has_firm_view(const struct sim *sim, const struct sim_instance *instance, const struct pccl_epoch *after,
                          const struct pccl_epoch *until, bool undone)
{
    for (const struct view_seen *view = sim->checks->views; view != NULL; view = view->next)
        if (!view->replans && (undone || !view->undone) && view->group == instance->group &&
            pccl_id_equal(&view->lineage, &instance->lineage) && pccl_epoch_compare(&view->view, after) > 0 &&
            (until == NULL || pccl_epoch_compare(&view->view, until) <= 0))
            return true;
    return false;
}

/* I2: an operation continues in another view only if all views since then have only re-planned. */
static void follow(struct sim *sim, const struct sim_peer *peer, const struct sim_instance *instance,
                   struct sim_launch *launch, const struct pccl_peer_op *op)
{
    if (pccl_epoch_equal(&launch->start_view, &op->start_view))
        return;
    if (pccl_epoch_compare(&op->start_view, &launch->start_view) < 0 ||
        has_firm_view(sim, instance, &launch->start_view, &op->start_view, false))
        sim_fail(sim, "I2 p%u goes on with %s in a view that ended it", peer->process.number,
                 sim_instance_text(&instance->name));
    launch->start_view = op->start_view;
    launch->complete = launch->done_sent = false;
    launch->restarts++;
    sim->totals.restarts++;
}

static struct sim_launch *book(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op);

/*
 * Enters the earlier receives from any sender of the same pair: their choices arrive in order, but while the master is
 * away no check sees them.
 */
static void book_earlier(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op)
{
    if (op->instance.pair == 0)
        return;
    for (const struct pccl_peer_op *other = peer->machine->oldest; other != NULL; other = other->newer)
        if (other->from_any && other->instance.subgroup == op->instance.subgroup &&
            other->instance.pair == op->instance.pair && other->instance.tag == op->instance.tag &&
            other->instance.use < op->instance.use)
            (void)book(sim, peer, other);
}

static struct sim_launch *book(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op)
{
    struct sim_checks *checks = sim->checks;
    struct sim_instance *instance = instance_of(sim, peer, &op->instance);
    struct sim_launch *launch = sim_launch_of(instance, peer);
    if (launch != NULL && pccl_is_of_whole_group(&op->instance) && !launch->stillborn)
        follow(sim, peer, instance, launch, op);
    if (launch != NULL)
        return launch;
    if (checks->launching != peer && !op->from_any)
        sim_fail(sim, "I2 p%u: outcome of %s, which it never launched, reaches the caller", peer->process.number,
                 sim_instance_text(&op->instance));
    book_earlier(sim, peer, op);
    check_use(sim, peer, op);
    launch = calloc(1, sizeof *launch);
    if (launch == NULL)
        abort();
    launch->peer = peer;
    launch->stillborn = pccl_peer_is_decided(op);
    launch->start_view = pccl_is_of_whole_group(&op->instance) ? peer->machine->view : op->start_view;
    launch->step = checks->step;
    launch->descriptor = op->descriptor;
    launch->tiny = op->tiny;
    launch->world = pccl_is_of_whole_group(&op->instance) ? peer->machine->group.count : op->world;
    const struct pccl_id ends[] = {peer->id, op->from_any ? op->descriptor.root : checks->launch->other};
    if (op->from_any) {
        const struct sim_launch *sent = sim_launch_of(instance, sim_peer_find(sim, &op->descriptor.root));
        if (sent == NULL)
            sim_fail(sim, "I3 p%u receives %s from a peer that has not sent it", peer->process.number,
                     sim_instance_text(&op->instance));
        launch->step = sent->step;
        sim->totals.chosen++;
    }
    bool sends = pccl_id_equal(&op->descriptor.root, &peer->id);
    const struct pccl_id pair[] = {ends[sends ? 0 : 1], ends[sends ? 1 : 0]};
    if (op->instance.pair != 0)
        take_list(launch, pair, 2);
    else if (!op->from_any && checks->launch->members != NULL)
        take_list(launch, checks->launch->members, checks->launch->member_count);
    launch->next = instance->launches;
    instance->launches = launch;
    return launch;
}

void sim_check_about_to_launch(struct sim *sim, struct sim_peer *peer, uint64_t step, const struct pccl_launch *launch)
{
    sim->checks->launching = peer;
    sim->checks->step = step;
    sim->checks->launch = launch;
}

void sim_check_launched(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op)
{
    bool open = op != NULL && op->instance.pair == PCCL_OPEN_PAIR;
    const struct pccl_launch *asked = sim->checks->launch;
    if (op != NULL && asked->descriptor.collective != PCCL_FOUND && op->instance.subgroup != asked->subgroup)
        sim_fail(sim, "E4 p%u launches %s in another group than its caller asked for", peer->process.number,
                 sim_instance_text(&op->instance));
    struct sim_launch *launch = op != NULL && !open ? book(sim, peer, op) : NULL;
    if (launch != NULL && op->state == PCCL_OP_DECIDED && !launch->decided)
        sim_check_decided(sim, peer, op); /* a tombstone is decided by launching it */
    sim->checks->launching = NULL;
    peer->attributes_may_change = peer->attributes_may_change || op == NULL; /* TOO_FEW_PEERS shows that it is alone */
}

void sim_check_restart(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op)
{
    (void)book(sim, peer, op);
}

void sim_check_started(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op)
{
    if (op->from_any) /* a sender is chosen */
        (void)book(sim, peer, op);
}

void sim_check_done(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op)
{
    struct sim_launch *launch = book(sim, peer, op);
    launch->complete = true;
}

void sim_check_failing(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op)
{
    instance_of(sim, peer, &op->instance)->failure_asked = true;
}

/* ---- I2: agreement ---- */

bool sim_is_survivor(const struct sim *sim, const struct sim_peer *peer)
{
    if (!peer->process.alive || peer->machine == NULL || peer->machine->state != PCCL_PEER_MEMBER)
        return false;
    if (!sim_master_is_up(sim) || sim->master->machine->recovering)
        return false;
    const struct pccl_remote *remote = pccl_master_find(sim->master->machine, &peer->id);
    return remote != NULL && pccl_master_is_living_member(remote);
}

void sim_check_conflicts(struct sim *sim)
{
    for (struct conflict *conflict = sim->checks->conflicts; conflict != NULL; conflict = conflict->next)
        if (sim_is_survivor(sim, conflict->one) && sim_is_survivor(sim, conflict->other))
            sim_fail(sim, "I2 p%u and p%u, both members, decided %s differently", conflict->one->process.number,
                     conflict->other->process.number, sim_instance_text(&conflict->name));
}

static void note_conflict(struct sim *sim, struct sim_peer *one, struct sim_peer *other,
                          const struct pccl_instance *name)
{
    struct conflict *conflict = calloc(1, sizeof *conflict);
    if (conflict == NULL)
        abort();
    *conflict = (struct conflict){sim->checks->conflicts, one, other, *name};
    sim->checks->conflicts = conflict;
    sim_note(sim, "p%u and p%u differ on %s", one->process.number, other->process.number, sim_instance_text(name));
    sim_check_conflicts(sim);
}

/* ---- I3: launches, members, and bits ---- */

static void combine(enum pccl_reduce_op reduction, uint64_t *into, uint64_t value)
{
    switch (reduction) {
    case PCCL_MAX: *into = value > *into ? value : *into; break;
    case PCCL_MIN: *into = value < *into ? value : *into; break;
    default: *into += value; break;
    }
}

static uint64_t identity_of(enum pccl_reduce_op reduction) { return reduction == PCCL_MIN ? UINT64_MAX : 0; }

/* Result so far, to which each member's input is added. */
struct outcome {
    uint8_t bytes[PCCL_TINY_BYTES_MAX];
    uint32_t length;
    uint64_t scanned[PCCL_TINY_BYTES_MAX / sizeof(uint64_t)]; /* combination of all inputs so far */
};

static void add_element(struct outcome *result, const uint8_t *part, uint32_t at, enum pccl_reduce_op reduction)
{
    uint64_t value, into;
    memcpy(&value, part + at, sizeof value);
    memcpy(&into, result->bytes + at, sizeof into);
    combine(reduction, &into, value);
    memcpy(result->bytes + at, &into, sizeof into);
}

static void add_sections(struct outcome *result, const uint8_t *part, const struct pccl_descriptor *descriptor)
{
    struct pccl_section sections[2];
    uint32_t at = sim_sections(descriptor, sections);
    for (uint32_t i = 0; i < 2; i++)
        for (uint64_t k = 0; k < sections[i].count; k++, at += sizeof(uint64_t))
            add_element(result, part, at, (enum pccl_reduce_op)sections[i].operation);
}

/* Appends the result of the next member of a scan. */
static void add_scan(struct outcome *result, const uint8_t *part, uint32_t length, bool inclusive,
                     enum pccl_reduce_op reduction)
{
    const bool is_first = result->length == 0;
    for (uint32_t i = 0; i < length / sizeof(uint64_t); i++) {
        uint64_t before = is_first ? identity_of(reduction) : result->scanned[i], value;
        memcpy(&value, part + i * sizeof value, sizeof value);
        result->scanned[i] = before;
        combine(reduction, &result->scanned[i], value);
        memcpy(result->bytes + result->length + i * sizeof value, inclusive ? &result->scanned[i] : &before,
               sizeof value);
    }
    result->length += length;
}

static void add_part(struct outcome *result, const struct sim_launch *launch, const struct sim_instance *instance)
{
    uint8_t part[PCCL_TINY_BYTES_MAX];
    const struct pccl_descriptor *descriptor = &launch->descriptor;
    uint32_t length = sim_contribution(descriptor, launch->step, instance->name.tag, launch->world, launch->peer, part);
    bool reduces = descriptor->collective == PCCL_ALL_REDUCE || descriptor->collective == PCCL_REDUCE_SCATTER ||
                   descriptor->collective == PCCL_REDUCE;
    if (descriptor->collective == PCCL_COALESCED && result->length > 0) {
        add_sections(result, part, descriptor);
        return;
    }
    if (descriptor->collective == PCCL_EXCLUSIVE_SCAN || descriptor->collective == PCCL_INCLUSIVE_SCAN) {
        add_scan(result, part, length, descriptor->collective == PCCL_INCLUSIVE_SCAN,
                 (enum pccl_reduce_op)descriptor->operation);
        return;
    }
    for (uint32_t at = 0; reduces && at < length && result->length > 0; at += sizeof(uint64_t))
        add_element(result, part, at, (enum pccl_reduce_op)descriptor->operation);
    if (reduces && result->length > 0)
        return;
    if (sim_is_of_blobs(descriptor->collective)) {
        for (uint32_t i = 0; i < 4; i++)
            result->bytes[result->length++] = (uint8_t)(length >> (8 * i));
    }
    memcpy(result->bytes + result->length, part, length);
    result->length += length;
}

/* The participants of an operation: the members of its start view, of its subgroup, or of its list. */
struct participants {
    const struct pccl_id *ids; /* in canonical order; for a list, in any order; NULL: unknown */
    uint32_t count;
};

static struct participants participants_of(const struct sim *sim, const struct sim_instance *instance,
                                           const struct sim_launch *mine)
{
    uint64_t name = instance->name.subgroup;
    if (name == PCCL_FOUNDING || instance->name.pair != 0)
        return (struct participants){mine->list, mine->world};
    const struct subgroup_seen *seen = name != 0 ? sim_subgroup_find(sim, &instance->lineage, name) : NULL;
    if (name != 0)
        return seen != NULL ? (struct participants){seen->members, seen->count} : (struct participants){NULL, 0};
    const struct view_seen *view = sim_view_find(sim, &instance->lineage, instance->group, &mine->start_view);
    return view != NULL ? (struct participants){view->order, view->count} : (struct participants){NULL, 0};
}

/*
 * Checks that all lists of members are equal to the members of the view, in canonical order; or creations have the same
 * list.
 */
static void check_list(struct sim *sim, const struct participants *all, const struct sim_instance *instance,
                       const struct sim_launch *launch)
{
    bool differs = false;
    if (launch->list == NULL)
        return;
    for (uint32_t i = 0; instance->name.subgroup == PCCL_FOUNDING && i < all->count; i++)
        differs = differs || pccl_id_find(launch->list, launch->world, &all->ids[i]) == launch->world;
    if (instance->name.subgroup != PCCL_FOUNDING)
        differs = launch->world != all->count || memcmp(launch->list, all->ids, all->count * sizeof *all->ids) != 0;
    if (differs || launch->world != all->count)
        sim_fail(sim, "I3 %s committed, and p%u counted on other members than its view has",
                 sim_instance_text(&instance->name), launch->peer->process.number);
}

/* Computes the expected result. All participants must have launched the same. */
static void expected_result(struct sim *sim, const struct sim_instance *instance, const struct sim_launch *mine,
                            struct outcome *result)
{
    struct participants all = participants_of(sim, instance, mine);
    if (all.ids == NULL)
        sim_fail(sim, "I1 p%u works in a view or subgroup that nobody has seen", mine->peer->process.number);
    result->length = 0;
    for (uint32_t i = 0; i < all.count; i++) {
        const struct sim_launch *launch = sim_launch_of(instance, sim_peer_find(sim, &all.ids[i]));
        if (launch == NULL)
            sim_fail(sim, "I3 p%u: %s committed, and a member of its view never launched it",
                     mine->peer->process.number, sim_instance_text(&instance->name));
        const char *differs = !pccl_epoch_equal(&launch->start_view, &mine->start_view)        ? "start view"
                              : !pccl_descriptor_equal(&launch->descriptor, &mine->descriptor) ? "descriptor"
                              : launch->tiny != mine->tiny                                     ? "way"
                              : launch->step != mine->step && !sim->plan.divergent             ? "step"
                                                                                               : NULL;
        if (differs != NULL)
            sim_fail(sim, "I3 %s committed, but p%u and p%u launched it with a different %s",
                     sim_instance_text(&instance->name), mine->peer->process.number, launch->peer->process.number,
                     differs);
        check_list(sim, &all, instance, launch);
        if (mine->tiny && mine->descriptor.collective != PCCL_FOUND)
            add_part(result, launch, instance);
    }
}

static void check_commit(struct sim *sim, struct sim_peer *peer, const struct sim_instance *instance,
                         struct sim_launch *mine, const struct pccl_peer_op *op)
{
    static struct outcome expected;
    expected_result(sim, instance, mine, &expected);
    if (op->instance.subgroup == PCCL_FOUNDING) {
        sim_check_subgroup_founded(sim, peer, op);
        return;
    }
    if (op->instance.subgroup != 0)
        sim_check_subgroup_commit(sim, peer, op);
    if (!op->tiny) {
        if (!mine->complete)
            sim_fail(sim, "I3 p%u: %s committed before its own part was complete", peer->process.number,
                     sim_instance_text(&instance->name));
        return;
    }
    if (op->payload_bytes != expected.length ||
        (expected.length > 0 && memcmp(op->payload, expected.bytes, expected.length) != 0))
        sim_fail(sim, "I3 p%u: the result of %s does not follow from what the members put in", peer->process.number,
                 sim_instance_text(&instance->name));
}

/* I4: an aborted operation leaves the input unchanged. */
static void check_input(struct sim *sim, struct sim_peer *peer, const struct sim_launch *mine,
                        const struct pccl_peer_op *op)
{
    uint8_t input[PCCL_TINY_BYTES_MAX];
    if (!op->tiny || mine->stillborn || mine->descriptor.collective == PCCL_FOUND)
        return;
    uint32_t length = sim_contribution(&mine->descriptor, mine->step, op->instance.tag, mine->world, peer, input);
    if (op->payload_bytes != length || (length > 0 && memcmp(op->payload, input, length) != 0))
        sim_fail(sim, "I4 p%u: the input of aborted %s has changed", peer->process.number,
                 sim_instance_text(&op->instance));
}

/* I8: a peer was lost only if this group's view moved, or a member of the group failed. */
static void check_cause(struct sim *sim, const struct sim_peer *peer, const struct sim_instance *instance,
                        const struct sim_launch *mine)
{
    if (instance->failure_asked)
        return;
    const struct subgroup_seen *seen = sim_subgroup_find(sim, &instance->lineage, instance->name.subgroup);
    if (seen != NULL && seen->ended_boot != 0)
        return;
    if (instance->name.pair != 0) { /* the other one is no longer a member */
        if (pccl_peer_other_of(peer->machine, instance->name.pair) != NULL)
            sim_fail(sim, "I8 p%u: %s was aborted although nothing happened to the pair", peer->process.number,
                     sim_instance_text(&instance->name));
        return;
    }
    if (has_firm_view(sim, instance, &mine->start_view, NULL, true))
        return;
    for (const struct sim_launch *launch = instance->launches; launch != NULL; launch = launch->next)
        if (has_firm_view(sim, instance, &launch->start_view, &mine->start_view, true))
            return; /* killed by the view in which this one was launched */
    const struct pccl_peer_group *group =
        sim_master_is_up(sim) ? pccl_master_group(sim->master->machine, instance->group, false) : NULL;
    if (group != NULL && pccl_epoch_compare(&group->firm, &mine->start_view) > 0)
        return;
    sim_fail(sim, "I8 p%u: %s was aborted although nothing happened in its group", peer->process.number,
             sim_instance_text(&instance->name));
}

/*
 * PROTOCOL 5.5, 15.4: a dead communicator ends everything alone, and so does a peer that closes a subgroup without a
 * master.
 */
static bool is_ended_alone(struct sim *sim, const struct sim_peer *peer, const struct pccl_peer_op *op)
{
    const struct pccl_peer *p = peer->machine;
    if (p->state != PCCL_PEER_MEMBER)
        return true;
    if (op->lost_by == PCCL_OK)
        return false;
    const struct pccl_peer_subgroup *subgroup = pccl_peer_find_subgroup(p, op->instance.subgroup);
    if (subgroup == NULL || !subgroup->all.closed || (p->greeted && !p->resuming))
        sim_fail(sim, "I2 p%u ends %s alone", peer->process.number, sim_instance_text(&op->instance));
    return true;
}

/* I2: an open receive ends only by its caller, its deadline, the loss of all others or the end of a life. */
static void check_open_end(struct sim *sim, const struct sim_peer *peer, const struct pccl_peer_op *op)
{
    sim_note(sim, "p%u: an open receive of tag %llu ends: class %d", peer->process.number,
             (unsigned long long)op->instance.tag, (int)op->class);
    bool over = peer->machine->state != PCCL_PEER_MEMBER || peer->machine->group.count < 2;
    bool alone = op->class == PCCL_CLASS_DEADLINE || op->class == PCCL_CLASS_ABORTED;
    const struct pccl_peer_subgroup *among = pccl_peer_find_subgroup(peer->machine, op->instance.subgroup);
    bool ended = op->class == PCCL_CLASS_PEER_LOST && among != NULL && (among->all.ended || among->all.closed);
    if (!over && !alone && !ended && sim->oom_at == 0)
        sim_fail(sim, "I2 p%u: an open receive ends without a cause, as class %d", peer->process.number,
                 (int)op->class);
    if (op->reason.length == 0)
        sim_fail(sim, "I2 p%u: an open receive ends without a word", peer->process.number);
}

void sim_check_decided(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_op *op)
{
    if (op->instance.pair == PCCL_OPEN_PAIR) {
        check_open_end(sim, peer, op);
        return;
    }
    struct sim_instance *instance = instance_of(sim, peer, &op->instance);
    struct sim_launch *mine = book(sim, peer, op);
    sim_note(sim, "p%u: %s decided: class %d", peer->process.number, sim_instance_text(&op->instance), (int)op->class);
    if (mine->decided)
        sim_fail(sim, "I2 p%u decides %s twice", peer->process.number, sim_instance_text(&op->instance));
    mine->decided = true;
    mine->class = op->class;
    sim->totals.classes[op->class]++;
    *(op->class == PCCL_CLASS_NONE ? &sim->totals.commits : &sim->totals.aborts) += 1;
    if (op->class == PCCL_CLASS_NONE) {
        sim->totals.tiny_commits += op->tiny;
        sim->totals.collectives[op->descriptor.collective]++;
        check_commit(sim, peer, instance, mine, op);
    } else {
        check_input(sim, peer, mine, op);
    }
    if (is_ended_alone(sim, peer, op))
        return;
    if (op->class == PCCL_CLASS_PEER_LOST)
        check_cause(sim, peer, instance, mine);
    mine->counts = true;
    for (const struct sim_launch *other = instance->launches; other != NULL; other = other->next)
        if (other->counts && other->class != mine->class)
            note_conflict(sim, peer, other->peer, &op->instance);
}

/* ---- messages on the wire ---- */

static uint32_t get_u32(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Returns the next frame of a buffer that has whole frames. */
static bool next_frame(struct sim *sim, const uint8_t **bytes, size_t *length, uint64_t *sequence, struct pccl_msg *msg)
{
    if (*length < PCCL_FRAME_HEADER_BYTES)
        return false;
    uint32_t body = get_u32(*bytes);
    uint16_t type = (uint16_t)((*bytes)[4] | (*bytes)[5] << 8);
    *sequence = get_u32(*bytes + 8) | (uint64_t)get_u32(*bytes + 12) << 32;
    sim->hash = sim_mix(sim->hash, get_u32(*bytes + 24));
    struct pccl_text reason;
    pccl_text_clear(&reason);
    bool watched = type == PCCL_MSG_done || type == PCCL_MSG_vote || type == PCCL_MSG_failed ||
                   type == PCCL_MSG_abort_request || type == PCCL_MSG_resume_operation || type == PCCL_MSG_outcome ||
                   type == PCCL_MSG_epoch_change || type == PCCL_MSG_welcome || type == PCCL_MSG_hello_ok ||
                   type == PCCL_MSG_expelled || type == PCCL_MSG_sync_vote || type == PCCL_MSG_sync_plan ||
                   type == PCCL_MSG_sync_donor || type == PCCL_MSG_subgroup_ended || type == PCCL_MSG_round ||
                   type == PCCL_MSG_measure || type == PCCL_MSG_warm_up;
    msg->type = type;
    if (body + (size_t)PCCL_FRAME_HEADER_BYTES > *length ||
        (watched &&
         pccl_wire_decode(type, *bytes + PCCL_FRAME_HEADER_BYTES, body, &sim->tap_scratch, msg, &reason) != PCCL_OK))
        sim_fail(sim, "WIRE a machine sends a %s that it could not read itself: %s", pccl_wire_name(type),
                 reason.bytes);
    *bytes += PCCL_FRAME_HEADER_BYTES + body;
    *length -= PCCL_FRAME_HEADER_BYTES + body;
    return true;
}

static void said_done(struct sim *sim, struct sim_peer *peer, const struct pccl_instance *name,
                      const struct pccl_epoch *view)
{
    struct sim_instance *instance = instance_of(sim, peer, name);
    const struct pccl_peer_op *op = pccl_peer_find_instance(peer->machine, name);
    struct sim_launch *launch = op != NULL ? book(sim, peer, op) /* a tiny operation sends DONE while it is launched */
                                           : sim_launch_of(instance, peer);
    if (launch != NULL && launch->restarts > 0 && pccl_epoch_compare(view, &launch->start_view) < 0)
        return; /* sent again after a reconnect; it restarted since, so it is not counted */
    if (launch == NULL || !pccl_epoch_equal(&launch->start_view, view))
        sim_fail(sim, "I5 p%u says DONE of %s with a view it did not start in", peer->process.number,
                 sim_instance_text(name));
    launch->done_sent = true;
}

void sim_check_sent_by_peer(struct sim *sim, struct sim_peer *peer, const uint8_t *bytes, size_t length)
{
    struct pccl_msg msg;
    uint64_t sequence;
    while (next_frame(sim, &bytes, &length, &sequence, &msg)) {
        if (peer->machine == NULL)
            continue; /* sent while it is created */
        if (peer->lies)
            continue; /* may name operations that it never launched */
        bool over = peer->machine->state == PCCL_PEER_OVER;
        if (over && (msg.type == PCCL_MSG_done || msg.type == PCCL_MSG_vote || msg.type == PCCL_MSG_sync_vote))
            sim_fail(sim, "I9 p%u is out and still says %s", peer->process.number, pccl_wire_name(msg.type));
        if (msg.type == PCCL_MSG_done)
            said_done(sim, peer, &msg.as.done.instance, &msg.as.done.view);
        else if (msg.type == PCCL_MSG_resume_operation && msg.as.resume_operation.state == PCCL_RESUME_DONE)
            said_done(sim, peer, &msg.as.resume_operation.instance, &msg.as.resume_operation.view);
        else if (msg.type == PCCL_MSG_failed)
            instance_of(sim, peer, &msg.as.failed.instance)->failure_asked = true;
        else if (msg.type == PCCL_MSG_abort_request)
            instance_of(sim, peer, &msg.as.abort_request.instance)->failure_asked = true;
        else if (msg.type == PCCL_MSG_sync_vote)
            sim_check_sync_said(sim, peer, &msg);
    }
}

/* I5: a commit is counted right: all members of the group have sent DONE in one view; tiny: all of that view. */
static void check_counting(struct sim *sim, const struct sim_master *master, const struct sim_peer *to,
                           const struct sim_instance *instance)
{
    const struct sim_launch *mine = sim_launch_of(instance, to);
    if (mine == NULL)
        sim_fail(sim, "I3 p%u is told that %s is committed and never launched it", to->process.number,
                 sim_instance_text(&instance->name));
    struct participants all = participants_of(sim, instance, mine);
    for (uint32_t i = 0; i < all.count; i++) {
        const struct pccl_remote *remote = pccl_master_find(master->machine, &all.ids[i]);
        bool needed =
            mine->tiny || instance->name.pair != 0 || (remote != NULL && pccl_master_is_living_member(remote));
        const struct sim_launch *launch = sim_launch_of(instance, sim_peer_find(sim, &all.ids[i]));
        bool done = launch != NULL && launch->done_sent && pccl_epoch_equal(&launch->start_view, &mine->start_view);
        if (needed && !done)
            sim_fail(sim, "I5 %s is committed, and a member of its view never said DONE",
                     sim_instance_text(&instance->name));
    }
}

void sim_check_sent_by_master(struct sim *sim, struct sim_master *master, struct sim_conn *conn, const uint8_t *bytes,
                              size_t length)
{
    struct pccl_msg msg;
    uint64_t sequence;
    struct sim_peer *to =
        conn->ends[0].role == SIM_ROLE_CONTROL ? (struct sim_peer *)(void *)conn->ends[0].process : NULL;
    if (to == NULL && conn->ends[0].process != NULL && !conn->ends[0].process->is_master)
        to = (struct sim_peer *)(void *)conn->ends[0].process;
    while (next_frame(sim, &bytes, &length, &sequence, &msg)) {
        if (to == NULL)
            continue;
        struct sim_tap *tap = &to->tap;
        if (msg.type == PCCL_MSG_hello_ok && tap->boot != master->config.boot)
            *tap = (struct sim_tap){.boot = master->config.boot};
        if (sequence == 0 || sequence <= tap->sequence)
            continue; /* sent again */
        tap->sequence = sequence;
        if (msg.type == PCCL_MSG_epoch_change && msg.as.epoch_change.view_changed)
            tap->view = msg.as.epoch_change.epoch;
        if (msg.type == PCCL_MSG_expelled)
            sim_check_expelled(sim, master, to, &msg.as.expelled);
        if (msg.type == PCCL_MSG_sync_plan || msg.type == PCCL_MSG_sync_donor || msg.type == PCCL_MSG_round)
            sim_check_sync_told(sim, master, to, &msg);
        if (msg.type == PCCL_MSG_warm_up && !msg.as.warm_up.answers)
            sim_check_link_asked(sim, to, &msg.as.warm_up.peer);
        sim_check_topology_told(sim, master, to, &msg);
        sim_check_subgroups_told(sim, master, to, &msg);
        if (msg.type == PCCL_MSG_welcome)
            tap->view = msg.as.welcome.view;
        if (msg.type != PCCL_MSG_outcome || msg.as.outcome.class != PCCL_CLASS_NONE)
            continue;
        const struct sim_instance *instance =
            sim_instance_find(sim, &master->machine->lineage, to->group, &msg.as.outcome.instance, true);
        check_counting(sim, master, to, instance);
        const struct sim_launch *launch = sim_launch_of(instance, to);
        if (launch != NULL)
            sim_check_direct_use(sim, master, instance, launch);
        if (launch != NULL && pccl_view_is_past(&instance->name, &launch->start_view, &tap->view))
            sim_fail(sim, "I5 p%u is told of a newer view before the commit of %s", to->process.number,
                     sim_instance_text(&instance->name));
    }
}

/* ---- complaints of the machines ---- */

/*
 * Fails on complaints. Not on a session that cannot be continued: a hello may arrive late. A peer that receives it
 * gives up, which is checked.
 */
void sim_check_said(struct sim *sim, const char *who, uint32_t number, const char *line)
{
    static const char *const complaints[] = {"reported two different outcomes",
                                             "without this peer's vote",
                                             "invalid ring from the master",
                                             "invalid list of members from the master",
                                             "invalid welcome from the master",
                                             "its report of the run is invalid",
                                             "at the wrong time",
                                             "that was never sent",
                                             "gap in ",
                                             "answered the hello twice",
                                             "is inconsistent",
                                             "recovered an older state",
                                             "has the wrong size",
                                             "impossible operation",
                                             "of another group or of the future",
                                             "a round that is not open",
                                             "a member sent",
                                             "a newcomer sent",
                                             "voted twice",
                                             "nobody asked it to",
                                             "reports disagree",
                                             "wrong token"};
    for (size_t i = 0; i < PCCL_COUNT_OF(complaints); i++)
        if (strstr(line, complaints[i]) != NULL && !sim->lies)
            sim_fail(sim, "PEACE %s %u says: %s", who, number, line);
}

/* ---- end of the run ---- */

void sim_check_operations_fini(struct sim *sim)
{
    for (uint32_t i = 0; i < INSTANCE_BUCKETS; i++)
        while (sim->checks->buckets[i] != NULL) {
            struct sim_instance *instance = sim->checks->buckets[i];
            sim->checks->buckets[i] = instance->next_hashed;
            while (instance->launches != NULL) {
                struct sim_launch *launch = instance->launches;
                instance->launches = launch->next;
                free(launch->list);
                free(launch);
            }
            free(instance);
        }
    while (sim->checks->conflicts != NULL) {
        struct conflict *conflict = sim->checks->conflicts;
        sim->checks->conflicts = conflict->next;
        free(conflict);
    }
}

/* I6: in the same era, the remaining members have seen the same outcome of each use. */
void sim_check_histories(struct sim *sim)
{
    for (uint32_t i = 0; i < INSTANCE_BUCKETS; i++)
        for (const struct sim_instance *instance = sim->checks->buckets[i]; instance != NULL;
             instance = instance->next_hashed) {
            const struct sim_launch *first = NULL;
            for (const struct sim_launch *launch = instance->launches; launch != NULL; launch = launch->next) {
                if (!sim_is_survivor(sim, launch->peer))
                    continue;
                if (!launch->decided)
                    sim_fail(sim, "I6 everything is idle and p%u has never decided %s", launch->peer->process.number,
                             sim_instance_text(&instance->name));
                if (!launch->counts)
                    continue;
                if (first != NULL && first->class != launch->class)
                    sim_fail(sim, "I6 the histories of p%u and p%u differ at %s", first->peer->process.number,
                             launch->peer->process.number, sim_instance_text(&instance->name));
                first = launch;
            }
        }
}
