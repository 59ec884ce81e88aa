/* Scenarios of lists of members, and of collectives with data through the master. */
#include "core/bytes.h"
#include "scenario.h"
#include "master/roster.h"

#include <string.h>

static struct sim_peer *p[8]; /* peers of the running scenario */

/* ---- launching ---- */

struct list {
    struct pccl_id members[SIM_HOSTS_MAX];
    uint32_t count;
};

/* Returns the list that its callers count on now. */
static struct list list_of(const struct sim_peer *peer)
{
    struct list list;
    list.count = sim_members(peer, list.members, SIM_HOSTS_MAX);
    return list;
}

/* Members in the order of their admission. */
static void cluster(struct sim *sim, uint32_t count)
{
    scenario_cluster(sim, p, count, 1);
    struct list list = list_of(p[0]);
    for (uint32_t i = 0; i < count; i++)
        p[i] = sim_peer_find(sim, &list.members[i]);
}

/* Launches with this list, or without one (NULL). */
static struct pccl_peer_op *launch(struct sim *sim, struct sim_peer *peer, struct sim_request request,
                                   const struct list *list)
{
    request.members = list != NULL ? list->members : NULL;
    request.member_count = list != NULL ? list->count : 0;
    return scenario_ask(sim, peer, &request);
}

/* All end with this class. */
static void take_all(struct sim *sim, struct sim_peer **peers, struct pccl_peer_op **ops, uint32_t count,
                     enum pccl_class class)
{
    for (uint32_t i = 0; i < count; i++) {
        WAIT(sim, 3000, scenario_is_decided(ops[i]));
        if (ops[i]->class != class)
            sim_fail(sim, "p%u: class %d instead of %d: %s", peers[i]->process.number, (int)ops[i]->class, (int)class,
                     ops[i]->reason.bytes);
        (void)scenario_take(sim, peers[i], ops[i]);
    }
}

static void all_end(struct sim *sim, struct sim_peer **peers, uint32_t count, struct sim_request request,
                    enum pccl_class class)
{
    struct pccl_peer_op *ops[SIM_HOSTS_MAX];
    for (uint32_t i = 0; i < count; i++)
        ops[i] = launch(sim, peers[i], request, NULL);
    for (uint32_t i = 0; i < count && !request.tiny; i++)
        sim_bulk_finish(sim, peers[i], ops[i]);
    take_all(sim, peers, ops, count, class);
}

static const struct sim_request gather = {.tag = 1, .step = 1, .collective = PCCL_ALL_GATHER, .tiny = true, .count = 2};
static const struct sim_request bulk_gather = {.tag = 2, .step = 1, .collective = PCCL_ALL_GATHER, .count = 100000};
static const struct sim_request barrier = {.tag = 3, .step = 1, .collective = PCCL_BARRIER, .tiny = true};
static const struct sim_request broadcast = {
    .tag = 4, .step = 1, .collective = PCCL_BROADCAST, .tiny = true, .count = 2, .root = 2};
static const struct sim_request blobs = {
    .tag = 5, .step = 1, .collective = PCCL_ALL_GATHER_V, .tiny = true, .count = 5000, .counted = true};
static const struct sim_request scatter = {
    .tag = 6, .step = 1, .collective = PCCL_REDUCE_SCATTER, .tiny = true, .count = 2};

static const struct sim_request reduce = {
    .tag = 7, .step = 1, .collective = PCCL_REDUCE, .tiny = true, .count = 2, .root = 2};
static const struct sim_request to_root = {
    .tag = 8, .step = 1, .collective = PCCL_GATHER, .tiny = true, .count = 2, .root = 1};
static const struct sim_request from_root = {
    .tag = 9, .step = 1, .collective = PCCL_SCATTER, .tiny = true, .count = 2, .root = 2};
static const struct sim_request all_to_all = {
    .tag = 10, .step = 1, .collective = PCCL_ALL_TO_ALL, .tiny = true, .count = 2};
static const struct sim_request coalesced = {
    .tag = 11, .step = 1, .collective = PCCL_COALESCED, .tiny = true, .count = 3};

static const struct sim_request exclusive_scan = {
    .tag = 14, .step = 1, .collective = PCCL_EXCLUSIVE_SCAN, .tiny = true, .count = 2, .reduction = PCCL_MIN};
static const struct sim_request inclusive_scan = {
    .tag = 15, .step = 1, .collective = PCCL_INCLUSIVE_SCAN, .tiny = true, .count = 2, .reduction = PCCL_SUM};

static const struct sim_request blobs_to_root = {
    .tag = 11, .step = 1, .collective = PCCL_GATHER_V, .tiny = true, .count = 5000, .root = 1};
static const struct sim_request blobs_from_root = {
    .tag = 12, .step = 1, .collective = PCCL_SCATTER_V, .tiny = true, .count = 5000, .root = 2};
static const struct sim_request blobs_for_all = {
    .tag = 13, .step = 1, .collective = PCCL_ALL_TO_ALL_V, .tiny = true, .count = 5000};

static bool names(const struct pccl_peer_op *op, const char *words, const struct sim_peer *peer)
{
    struct pccl_text expected;
    pccl_text_format(&expected, "%speer %s", words, pccl_id_str(&peer->id));
    return strstr(op->reason.bytes, expected.bytes) != NULL;
}

/* ---- lists that have changed ---- */

/* One has died. A launch with the old list is refused for all; then they have the new one. */
SCENARIO(members_changed)
{
    const struct sim_request *const kinds[] = {&gather, &bulk_gather, &scatter, &blobs};
    for (uint32_t kind = 0; kind < PCCL_COUNT_OF(kinds); kind++) {
        struct pccl_peer_op *ops[2];
        if (kind == 0)
            cluster(sim, 6);
        uint32_t left = 5 - kind; /* p[0] ... p[left - 1] and the one that dies */
        scenario_run_ms(sim, 20);
        all_end(sim, p, left + 1, barrier, PCCL_CLASS_NONE);
        sim_peer_kill(sim, p[left], false);
        WAIT(sim, 1000, p[0]->machine->group.count == left && p[1]->machine->group.count == left);
        scenario_run_ms(sim, 20);
        for (uint32_t i = 0; i < 2; i++)
            ops[i] = launch(sim, p[i], *kinds[kind], NULL);
        WAIT(sim, 500, scenario_is_decided(ops[0]));
        MUST(sim, names(ops[0], "not a current member: ", p[left]));
        take_all(sim, p, ops, 2, PCCL_CLASS_MEMBERS_CHANGED);
        scenario_run_ms(sim, 20);
        for (uint32_t i = 2; i < left; i++) { /* they launch later, and find that it has ended */
            struct pccl_peer_op *late = launch(sim, p[i], *kinds[kind], NULL);
            MUST(sim, scenario_is_decided(late) && scenario_take(sim, p[i], late) == PCCL_CLASS_MEMBERS_CHANGED);
        }
        all_end(sim, p, left, *kinds[kind], PCCL_CLASS_NONE);
    }
}

/* One counts on a list from before a newcomer joined; the others have the new list, and have begun. */
SCENARIO(members_newcomer)
{
    const struct sim_request *const kinds[] = {&gather, &bulk_gather, &scatter};
    cluster(sim, 2);
    struct list before = list_of(p[0]);
    p[2] = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 1000, pccl_peer_is_connected(p[2]->machine));
    scenario_run_ms(sim, 20);
    MUST(sim, list_of(p[0]).count == 3 && pccl_id_equal(&list_of(p[1]).members[2], &p[2]->id));
    for (uint32_t kind = 0; kind < PCCL_COUNT_OF(kinds); kind++) {
        struct pccl_peer_op *ops[3];
        for (uint32_t i = 3; i-- > 0;)
            ops[i] = launch(sim, p[i], *kinds[kind], i == 0 ? &before : NULL);
        WAIT(sim, 500, scenario_is_decided(ops[1]));
        MUST(sim, names(ops[1], "new: ", p[2]) && names(ops[1], "", p[0]));
        take_all(sim, p, ops, 3, PCCL_CLASS_MEMBERS_CHANGED);
        all_end(sim, p, 3, *kinds[kind], PCCL_CLASS_NONE);
    }
}

/* The same members in another order have their parts in other places. */
SCENARIO(members_order)
{
    struct pccl_peer_op *ops[3];
    cluster(sim, 3);
    struct list list = list_of(p[0]), turned = list;
    turned.members[0] = list.members[1];
    turned.members[1] = list.members[0];
    for (uint32_t i = 0; i < 3; i++)
        ops[i] = launch(sim, p[i], gather, &turned);
    WAIT(sim, 500, scenario_is_decided(ops[0]));
    MUST(sim, strstr(ops[0]->reason.bytes, "in another order") != NULL);
    take_all(sim, p, ops, 3, PCCL_CLASS_MEMBERS_CHANGED);
    struct sim_request counted = {.tag = 1, .step = 2, .tiny = true, .count = 1, .counted = true};
    for (uint32_t i = 0; i < 3; i++) /* an all-reduce counts on members if its caller requests it */
        ops[i] = launch(sim, p[i], counted, i == 2 ? &turned : NULL);
    take_all(sim, p, ops, 3, PCCL_CLASS_MEMBERS_CHANGED);
    all_end(sim, p, 3, counted, PCCL_CLASS_NONE);
}

/*
 * One has not received the view in which the other's list is refused: both end as lost, like all operations that the
 * view ended.
 */
SCENARIO(members_unheard)
{
    struct pccl_peer_op *ops[2];
    cluster(sim, 3);
    scenario_control(sim, p[1], false);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 1000, p[0]->machine->group.count == 2);
    ops[0] = launch(sim, p[0], gather, NULL);
    ops[1] = launch(sim, p[1], gather, NULL);
    scenario_run_ms(sim, 20);
    MUST(sim, ops[0]->abort_sent && !scenario_is_decided(ops[0]) && p[1]->machine->group.count == 3);
    scenario_control(sim, p[1], true);
    take_all(sim, p, ops, 2, PCCL_CLASS_PEER_LOST);
    all_end(sim, p, 2, gather, PCCL_CLASS_NONE);
}

/* The master restarts before it has received the refusal of a list. */
SCENARIO(members_restart)
{
    struct pccl_peer_op *ops[3];
    cluster(sim, 4);
    sim_peer_kill(sim, p[3], false);
    WAIT(sim, 1000,
         p[0]->machine->group.count == 3 && p[1]->machine->group.count == 3 && p[2]->machine->group.count == 3);
    struct list list = list_of(p[0]);
    all_end(sim, p, 3, barrier, PCCL_CLASS_NONE);
    sim_master_crash(sim, true);
    for (uint32_t i = 0; i < 3; i++)
        ops[i] = launch(sim, p[i], gather, i == 0 ? &list : NULL);
    scenario_run_ms(sim, 100);
    sim_master_start(sim);
    WAIT(sim, 6000, scenario_is_decided(ops[0]));
    take_all(sim, p, ops, 3, PCCL_CLASS_MEMBERS_CHANGED);
    all_end(sim, p, 3, gather, PCCL_CLASS_NONE);
}

/* A peer alone learns that, for every list. */
SCENARIO(members_alone)
{
    cluster(sim, 2);
    sim_peer_kill(sim, p[1], false);
    WAIT(sim, 1000, p[0]->machine->group.count == 1);
    MUST(sim, list_of(p[0]).count == 2);
    struct pccl_peer_op *op = NULL;
    MUST(sim, sim_app_launch(sim, p[0], &gather, &op) == PCCL_TOO_FEW_PEERS);
    sim_check_peer(sim, p[0]);
    MUST(sim, list_of(p[0]).count == 1);
}

/*
 * One gives up an operation that the others are in, or launch later, tiny and bulk: all learn that, and it does not
 * start.
 */
SCENARIO(members_given_up)
{
    static const enum pccl_class classes[] = {PCCL_CLASS_ABORTED, PCCL_CLASS_MEMBERS_CHANGED};
    const struct sim_request requests[] = {gather, bulk_gather, barrier};
    struct pccl_peer_op *ops[3];
    cluster(sim, 3);
    for (uint32_t k = 0; k < 2 * PCCL_COUNT_OF(requests); k++) {
        struct sim_request request = requests[k / 2];
        struct sim_request given_up = request;
        given_up.given_up = classes[k % 2];
        ops[0] = launch(sim, p[0], request, NULL);
        ops[1] = launch(sim, p[1], given_up, NULL);
        MUST(sim, !ops[1]->started && !ops[1]->complete);
        WAIT(sim, 500, scenario_is_decided(ops[0]));
        ops[2] = launch(sim, p[2], request, NULL);
        take_all(sim, p, ops, 3, classes[k % 2]);
        all_end(sim, p, 3, request, PCCL_CLASS_NONE);
    }
}

/*
 * The same while the master is away, and again before all members have the outcome: a peer that gives up may lack the
 * complete descriptor, because its driver prepared none, and reports the known part.
 */
SCENARIO(members_given_up_restart)
{
    const struct sim_request requests[] = {gather, bulk_gather, barrier, broadcast, blobs, blobs_to_root};
    struct pccl_peer_op *ops[3];
    cluster(sim, 3);
    for (uint32_t k = 0; k < PCCL_COUNT_OF(requests); k++) {
        struct sim_request given_up = requests[k];
        given_up.given_up = PCCL_CLASS_ABORTED;
        sim_master_crash(sim, true);
        ops[1] = launch(sim, p[1], given_up, NULL);
        scenario_run_ms(sim, 100);
        sim_master_start(sim);
        WAIT(sim, 6000, scenario_is_decided(ops[1]));
        scenario_control(sim, p[2], false); /* it does not receive the outcome */
        scenario_restart_master(sim, 100);
        scenario_control(sim, p[2], true);
        WAIT(sim, 6000, !sim->master->machine->recovering && sim->master->machine->member_count == 3);
        ops[0] = launch(sim, p[0], requests[k], NULL);
        ops[2] = launch(sim, p[2], requests[k], NULL);
        take_all(sim, p, ops, 3, PCCL_CLASS_ABORTED);
    }
    all_end(sim, p, 3, gather, PCCL_CLASS_NONE);
}

/* ---- numbers of admission ---- */

static void must_be_in_order(struct sim *sim, const struct sim_peer *of, struct sim_peer *const *order, uint32_t count)
{
    struct list list = list_of(of);
    MUST(sim, list.count == count);
    for (uint32_t i = 0; i < count; i++)
        MUST(sim, pccl_id_equal(&list.members[i], &order[i]->id));
}

/* The order remains over restarts of the master; a later member is last, although others have departed. */
SCENARIO(numbers_restart)
{
    cluster(sim, 3);
    for (uint32_t turn = 0; turn < 2; turn++) {
        scenario_restart_master(sim, 200);
        WAIT(sim, 6000, !sim->master->machine->recovering && sim->master->machine->member_count == 3 + turn);
        scenario_run_ms(sim, 50);
        p[3 + turn] = scenario_join(sim, 6 + turn, 0);
        scenario_run_ms(sim, 200);
        scenario_update_all(sim, p, 3 + turn);
        WAIT(sim, 1000, pccl_peer_is_connected(p[3 + turn]->machine));
        scenario_run_ms(sim, 20);
        for (uint32_t i = 0; i < 4 + turn; i++)
            must_be_in_order(sim, p[i], p, 4 + turn);
        all_end(sim, p, 4 + turn, gather, PCCL_CLASS_NONE);
    }
    sim_peer_kill(sim, p[0], false);
    WAIT(sim, 1000, p[1]->machine->group.count == 4);
    scenario_restart_master(sim, 200);
    WAIT(sim, 6000, !sim->master->machine->recovering && sim->master->machine->member_count == 4);
    scenario_run_ms(sim, 50);
    p[5] = scenario_join(sim, 9, 0);
    scenario_run_ms(sim, 200);
    scenario_update_all(sim, p + 1, 4);
    WAIT(sim, 1000, pccl_peer_is_connected(p[5]->machine));
    scenario_run_ms(sim, 20);
    for (uint32_t i = 1; i < 6; i++)
        must_be_in_order(sim, p[i], p + 1, 5);
    all_end(sim, p + 1, 5, gather, PCCL_CLASS_NONE);
}

static void controls(struct sim *sim, uint32_t first, uint32_t end, bool whole)
{
    for (uint32_t i = first; i < end; i++)
        scenario_control(sim, p[i], whole);
}

/*
 * A newcomer never receives its admission, is removed, and is admitted again after a restart of the master, with
 * another number. More members sleep through that than continue, and after another restart they report first. Their
 * reports of its number are honest, and count for nothing.
 */
SCENARIO(numbers_anew)
{
    enum { all = 6, awake = 2 };
    cluster(sim, all);
    struct sim_peer *newcomer = p[all] = scenario_join(sim, 9, 0);
    scenario_run_ms(sim, 200);
    for (uint32_t i = 1; i < all; i++)
        scenario_update(sim, p[i]);
    scenario_run_ms(sim, 20);
    scenario_control(sim, newcomer, false);
    scenario_update(sim, p[0]);
    for (uint32_t i = 0; i < all; i++)
        WAIT(sim, 1000, scenario_is_over(p[i], PCCL_CALL_UPDATE) && p[i]->machine->member_count == all + 1);
    controls(sim, awake, all, false);
    WAIT(sim, 8000, p[0]->machine->member_count == awake && p[1]->machine->member_count == awake);
    sim_master_crash(sim, true);
    scenario_control(sim, newcomer, true);
    sim_master_start(sim);
    WAIT(sim, 6000, !sim->master->machine->recovering && sim->master->machine->member_count == awake);
    WAIT(sim, 6000, sim->master->machine->newcomer_count == 1);
    scenario_run_ms(sim, 200);
    scenario_update_all(sim, p, awake);
    WAIT(sim, 1000, pccl_peer_is_connected(newcomer->machine) && p[0]->machine->member_count == awake + 1);
    scenario_run_ms(sim, 20);
    sim_master_crash(sim, true);
    controls(sim, 0, awake, false);
    scenario_control(sim, newcomer, false);
    controls(sim, awake, all, true);
    sim_master_start(sim);
    WAIT(sim, 4000, sim->master->machine->remote_count == all - awake);
    scenario_run_ms(sim, 100);
    MUST(sim, sim->master->machine->recovering);
    controls(sim, 0, awake, true);
    scenario_control(sim, newcomer, true);
    WAIT(sim, 8000, !sim->master->machine->recovering && sim->master->machine->member_count == awake + 1);
    for (uint32_t i = awake; i < all; i++)
        WAIT(sim, 2000, p[i]->machine->state == PCCL_PEER_OVER);
    p[awake] = newcomer;
    scenario_run_ms(sim, 50);
    all_end(sim, p, awake + 1, gather, PCCL_CLASS_NONE);
}

/*
 * A member reports after a restart that it was admitted before the others, many times over. Its epoch is later than the
 * others' by `later`.
 */
static void lie_about_numbers(struct sim *sim, struct sim_peer *liar, const struct sim_peer *honest, uint32_t times,
                              int later)
{
    static struct pccl_member members[64];
    const struct pccl_peer *machine = honest->machine;
    struct pccl_msg hello = scenario_hello_of(liar, liar->machine->boot), end = {.type = PCCL_MSG_resume_end};
    struct pccl_peer_config config = liar->machine->config;
    hello.as.hello.run_key = liar->machine->run_key;
    hello.as.hello.candidates = config.candidates; /* the machine ends */
    sim_master_crash(sim, true);
    sim_peer_kill(sim, liar, false);
    scenario_lie(sim, liar);
    sim_master_start(sim);
    struct sim_conn *conn = scenario_dial_master(sim);
    scenario_say(sim, conn, &hello, 0);
    uint32_t count = machine->member_count;
    MUST(sim, count * times <= PCCL_COUNT_OF(members));
    for (uint32_t i = 0; i < count * times; i++) {
        members[i] = machine->members[i % count];
        members[i].admitted = 1000 - members[i].admitted; /* the other way round */
    }
    struct pccl_msg report = {.type = PCCL_MSG_resume,
                              .as.resume = {.epoch = machine->epoch,
                                            .view = machine->view,
                                            .update = machine->rounds[PCCL_ROUND_UPDATE],
                                            .members = members,
                                            .members_count = count * times,
                                            .ring = machine->group.ring,
                                            .ring_count = machine->group.count,
                                            .cost = machine->group.cost}};
    report.as.resume.epoch.number += (uint64_t)later;
    if (later < 0)
        report.as.resume.view = report.as.resume.epoch;
    scenario_say(sim, conn, &report, 1);
    scenario_say(sim, conn, &end, 2);
}

/* Most reports are right, regardless of the highest epoch and of repetitions. */
SCENARIO(lying_numbers)
{
    cluster(sim, 5);
    for (uint32_t turn = 0; turn < 2; turn++) {
        uint32_t left = 4 - turn;
        lie_about_numbers(sim, p[left], p[0], 1 + turn * 6, turn == 0 ? 1 : -1);
        WAIT(sim, 20000, !sim->master->machine->recovering && sim->master->machine->member_count == left);
        for (uint32_t i = 0; i < left; i++)
            WAIT(sim, 1000, p[i]->machine->greeted && !p[i]->machine->resuming && p[i]->machine->group.count == left);
        MUST(sim, sim->master->machine->admissions == left);
        all_end(sim, p, left, barrier, PCCL_CLASS_NONE);
        must_be_in_order(sim, p[1], p, left);
        all_end(sim, p, left, gather, PCCL_CLASS_NONE);
    }
}

/* One report against one: whichever wins, all have the same. */
SCENARIO(lying_numbers_tie)
{
    cluster(sim, 2);
    lie_about_numbers(sim, p[1], p[0], 1, 0);
    WAIT(sim, 20000, sim->master->machine->member_count > 0);
    WAIT(sim, 1000, p[0]->machine->greeted && !p[0]->machine->resuming);
    const struct pccl_remote *remote = pccl_master_find(sim->master->machine, &p[0]->id);
    uint32_t count;
    const struct pccl_member *members = pccl_peer_view_members(p[0]->machine, &count);
    for (uint32_t i = 0; i < count; i++)
        MUST(sim, !pccl_id_equal(&members[i].peer, &p[0]->id) || members[i].admitted == remote->admitted);
    MUST(sim, remote->admitted == 999 && pccl_peer_is_connected(p[0]->machine));
}

/* ---- through the master ---- */

/* Every kind, in a group that has lost one, has a newcomer, and has another ring than at first. */
SCENARIO(tiny_kinds)
{
    const struct sim_request *const kinds[] = {&gather,     &barrier,        &broadcast,       &blobs,
                                               &scatter,    &reduce,         &to_root,         &from_root,
                                               &all_to_all, &blobs_to_root,  &blobs_from_root, &blobs_for_all,
                                               &coalesced,  &exclusive_scan, &inclusive_scan};
    cluster(sim, 5);
    sim_peer_kill(sim, p[1], false);
    p[1] = p[4];
    WAIT(sim, 1000, p[0]->machine->group.count == 4);
    p[4] = scenario_join(sim, 9, 0);
    scenario_run_ms(sim, 200);
    scenario_update_all(sim, p, 4);
    WAIT(sim, 1000, pccl_peer_is_connected(p[4]->machine));
    scenario_run_ms(sim, 20);
    for (uint32_t kind = 0; kind < PCCL_COUNT_OF(kinds); kind++)
        for (uint32_t step = 0; step < 4; step++) {
            struct sim_request request = *kinds[kind];
            request.step = step;
            request.root = step;
            all_end(sim, p, 5, request, PCCL_CLASS_NONE);
        }
}

/* One in the middle of the line dies when some have their results: none keeps one, and the others scan again. */
SCENARIO(scan_dies)
{
    struct pccl_peer_op *ops[5];
    cluster(sim, 5);
    const uint8_t kinds[] = {PCCL_EXCLUSIVE_SCAN, PCCL_INCLUSIVE_SCAN};
    for (uint32_t kind = 0; kind < 2; kind++) {
        const uint32_t left = 4 - kind;
        struct sim_request request = {.tag = 16, .step = kind + 1, .collective = kinds[kind], .count = 100000};
        scenario_run_ms(sim, 20);
        all_end(sim, p, left + 1, barrier, PCCL_CLASS_NONE);
        sim->bulk_by_hand = true;
        for (uint32_t i = 0; i <= left; i++)
            ops[i] = launch(sim, p[i], request, NULL);
        sim_bulk_finish(sim, p[0], ops[0]);
        sim_bulk_finish(sim, p[left - 1], ops[left - 1]);
        sim_peer_kill(sim, p[left], false);
        WAIT(sim, 1000, p[0]->machine->group.count == left && p[1]->machine->group.count == left);
        take_all(sim, p, ops, left, PCCL_CLASS_PEER_LOST);
        sim->bulk_by_hand = false;
        scenario_run_ms(sim, 20);
        all_end(sim, p, left, request, PCCL_CLASS_NONE);
    }
}

/* Operations that do not fit are refused at the launch, and the tag stays free. */
SCENARIO(tiny_limits)
{
    cluster(sim, 3);
    static uint8_t payload[PCCL_TINY_BYTES_MAX];
    uint32_t most = sim->plan.master.tiny_bytes_max;
    struct list list = list_of(p[0]);
    pccl_put(payload, 8, most / 3 - 3 - 8);
    struct pccl_launch launch = {
        .tag = 1, .tiny = true, .payload = payload, .members = list.members, .member_count = 3};
    struct pccl_peer_event event = {.kind = PCCL_PEER_LAUNCH, .launch = &launch};
    const struct {
        uint8_t collective;
        uint64_t count;
        uint32_t payload_bytes;
        bool bulk;
    } refused[] = {
        {PCCL_ALL_GATHER, most / 8 / 3 + 1, (most / 8 / 3 + 1) * 8, false},     /* the result is too long */
        {PCCL_ALL_GATHER, 2, 48, false},                                        /* it is not of all */
        {PCCL_REDUCE_SCATTER, 2, 16, false},                                    /* it is of all */
        {PCCL_ALL_GATHER_V, 9, most / 3 - 3, false},                            /* too long with its length */
        {PCCL_ALL_GATHER_V, 9, most / 3 - 5, false},                            /* shorter than its stated length */
        {PCCL_ALL_TO_ALL, 2, 16, false},                                        /* it is not for all */
        {PCCL_ALL_TO_ALL, most / 8 / 9 + 1, (most / 8 / 9 + 1) * 24, false},    /* the result is too long */
        {PCCL_EXCLUSIVE_SCAN, 2, 48, false},                                    /* it is of all */
        {PCCL_INCLUSIVE_SCAN, most / 8 / 3 + 1, (most / 8 / 3 + 1) * 8, false}, /* the result is too long */
        {PCCL_GATHER_V, 9, most / 3 - 3, false},                                /* the blobs of all are */
        {PCCL_SCATTER_V, 9, 24, false},                                         /* it is not the root's */
        {PCCL_ALL_TO_ALL_V, 9, 16, false},                                      /* not for all members */
        {PCCL_ALL_TO_ALL_V, 9, most / 3 - 5, false},                            /* shorter than its stated length */
        {PCCL_BARRIER, 0, 1, false},
        {PCCL_BARRIER, 0, 0, true},
    };
    for (uint32_t i = 0; i < PCCL_COUNT_OF(refused); i++) {
        launch.descriptor = (struct pccl_descriptor){.collective = refused[i].collective, .count = refused[i].count};
        if (pccl_collective_has_root(refused[i].collective))
            launch.descriptor.root = list.members[1];
        launch.descriptor.datatype = refused[i].collective == PCCL_BARRIER ? 0 : PCCL_U64;
        launch.payload_bytes = refused[i].payload_bytes;
        launch.tiny = !refused[i].bulk;
        if (sim_peer_step(sim, p[0], &event) != PCCL_ARGUMENT)
            sim_fail(sim, "launch %u is not refused", i);
    }
    all_end(sim, p, 3, gather, PCCL_CLASS_NONE);
}

/* The master restarts when some have contributed: they report it, and the others follow. */
SCENARIO(tiny_restart)
{
    const struct sim_request *const kinds[] = {
        &gather,    &broadcast,  &blobs,         &scatter,         &barrier,       &reduce,         &to_root,
        &from_root, &all_to_all, &blobs_to_root, &blobs_from_root, &blobs_for_all, &exclusive_scan, &inclusive_scan};
    struct pccl_peer_op *ops[3];
    cluster(sim, 3);
    for (uint32_t kind = 0; kind < PCCL_COUNT_OF(kinds); kind++) {
        ops[0] = launch(sim, p[0], *kinds[kind], NULL);
        ops[1] = launch(sim, p[1], *kinds[kind], NULL);
        scenario_run_ms(sim, 20);
        scenario_restart_master(sim, 100);
        scenario_run_ms(sim, 20);
        ops[2] = launch(sim, p[2], *kinds[kind], NULL);
        WAIT(sim, 6000, scenario_is_decided(ops[0]));
        take_all(sim, p, ops, 3, PCCL_CLASS_NONE);
        MUST(sim, scenario_departures(sim) == 0);
    }
}

/* It is committed, one has received that, and the master restarts: the others receive it, also with an empty result. */
SCENARIO(tiny_commit_restart)
{
    const struct sim_request *const kinds[] = {&barrier, &gather, &blobs};
    struct pccl_peer_op *ops[3];
    cluster(sim, 3);
    for (uint32_t kind = 0; kind < PCCL_COUNT_OF(kinds); kind++) {
        ops[0] = launch(sim, p[0], *kinds[kind], NULL);
        ops[1] = launch(sim, p[1], *kinds[kind], NULL);
        scenario_run_ms(sim, 20);
        scenario_control(sim, p[0], false);
        scenario_control(sim, p[1], false);
        ops[2] = launch(sim, p[2], *kinds[kind], NULL);
        WAIT(sim, 500, scenario_is_decided(ops[2]));
        sim_master_crash(sim, true);
        scenario_control(sim, p[0], true);
        scenario_control(sim, p[1], true);
        sim_master_start(sim);
        WAIT(sim, 6000, scenario_is_decided(ops[0]));
        take_all(sim, p, ops, 3, PCCL_CLASS_NONE);
        MUST(sim, scenario_departures(sim) == 0);
    }
}

/* Moves the blobs with the known lengths. */
static struct pccl_peer_op *follow(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op,
                                   const struct list *list)
{
    struct sim_request request;
    MUST(sim, scenario_is_decided(op) && op->class == PCCL_CLASS_NONE);
    MUST(sim, sim_follows(op, list->count, &request));
    request.step = 1;
    request.after = op;
    return launch(sim, peer, request, list);
}

/* Makes a step in which a member sends only the lengths of its blobs. */
static struct sim_request long_blobs(struct sim *sim, struct sim_peer **peers, uint32_t count,
                                     const struct sim_request *kind)
{
    static uint8_t part[PCCL_TINY_BYTES_MAX];
    struct sim_request request = *kind;
    request.counted = false;
    for (bool some_are_long = false; !some_are_long;) {
        request.step++;
        MUST(sim, request.step < 100);
        struct pccl_descriptor descriptor = {.collective = request.collective, .root = peers[request.root]->id};
        for (uint32_t i = 0; i < count; i++) {
            uint32_t bytes = sim_contribution(&descriptor, request.step, request.tag, count, peers[i], part);
            some_are_long = some_are_long || (bytes > 0 && bytes % 8 == 0 && pccl_get(part, 8) > (bytes - 1) / 8 * 8);
        }
    }
    return request;
}

enum two_steps { UNDISTURBED, RESTARTED, KILLED };

/*
 * Blobs of `count` members that are moved when their lengths are known: undisturbed, when the master restarts before
 * all know them, and when the last one dies then. The remaining members learn their list only when that call ends.
 */
static void in_two_steps(struct sim *sim, const struct sim_request *kind, uint32_t count, enum two_steps how)
{
    struct pccl_peer_op *ops[6];
    const uint32_t last = count - 1;
    struct list list = {.count = count};
    uint32_t known;
    const struct pccl_member *members = pccl_peer_view_members(p[0]->machine, &known);
    MUST(sim, known == count && count <= PCCL_COUNT_OF(ops));
    for (uint32_t i = 0; i < count; i++)
        list.members[i] = members[i].peer;
    const struct sim_request request = long_blobs(sim, p, count, kind);
    for (uint32_t i = 0; i < count; i++) {
        ops[i] = launch(sim, p[i], request, kind->collective == PCCL_ALL_GATHER_V ? NULL : &list);
        if (how == RESTARTED && i + 1 == last) {
            scenario_run_ms(sim, 20);
            scenario_control(sim, p[0], false);
        }
    }
    WAIT(sim, 500, scenario_is_decided(ops[last]));
    ops[last] = follow(sim, p[last], ops[last], &list);
    scenario_run_ms(sim, 20);
    if (how == RESTARTED) {
        sim_master_crash(sim, true);
        scenario_control(sim, p[0], true);
        sim_master_start(sim);
    }
    for (uint32_t i = 0; i < last; i++)
        WAIT(sim, 6000, scenario_is_decided(ops[i]));
    for (uint32_t i = 0; i < last; i++)
        ops[i] = follow(sim, p[i], ops[i], &list);
    if (how == KILLED)
        sim_peer_kill(sim, p[last], false);
    for (uint32_t i = 0; i < count && how != KILLED; i++)
        sim_bulk_finish(sim, p[i], ops[i]);
    take_all(sim, p, ops, how == KILLED ? last : count, how == KILLED ? PCCL_CLASS_PEER_LOST : PCCL_CLASS_NONE);
}

/* Lets one more die, before a call has reported it to the remaining members. */
static void lose_one(struct sim *sim, uint32_t left)
{
    cluster(sim, left + 1);
    sim_peer_kill(sim, p[left], false);
    WAIT(sim, 1000, p[0]->machine->group.count == left);
    scenario_run_ms(sim, 20);
}

/* Blobs are moved after their lengths are known. */
SCENARIO(blobs_in_two_steps)
{
    lose_one(sim, 4);
    for (enum two_steps how = UNDISTURBED; how <= KILLED; how++)
        in_two_steps(sim, &blobs, 4, how);
    all_end(sim, p, 3, blobs, PCCL_CLASS_NONE);
}

/* With a root, and of all for all: these count on the members. */
SCENARIO(blobs_for_some)
{
    const struct sim_request *const kinds[] = {&blobs_to_root, &blobs_from_root, &blobs_for_all};
    lose_one(sim, 6);
    for (uint32_t kind = 0; kind < PCCL_COUNT_OF(kinds); kind++) {
        for (enum two_steps how = UNDISTURBED; how <= KILLED; how++)
            in_two_steps(sim, kinds[kind], 6 - kind, how);
        WAIT(sim, 1000, p[0]->machine->group.count == 5 - kind);
        scenario_run_ms(sim, 20);
        all_end(sim, p, 5 - kind, *kinds[kind], PCCL_CLASS_NONE);
    }
}

/* The root dies, before it has contributed and after: it is in no later list. */
SCENARIO(root_dies)
{
    struct pccl_peer_op *ops[3];
    cluster(sim, 5);
    for (uint32_t turn = 0; turn < 2; turn++) {
        struct sim_peer *root = p[4 - turn];
        struct sim_request request = broadcast;
        request.root = 4 - turn;
        all_end(sim, p, 5 - turn, request, PCCL_CLASS_NONE);
        if (turn == 1)
            (void)launch(sim, root, request, NULL);
        for (uint32_t i = 0; i < 2; i++)
            ops[i] = launch(sim, p[i], request, NULL);
        scenario_run_ms(sim, 20);
        sim_peer_kill(sim, root, false);
        take_all(sim, p, ops, 2, PCCL_CLASS_PEER_LOST);
        WAIT(sim, 1000, p[2]->machine->group.count == 4 - turn);
        scenario_run_ms(sim, 20);
        for (uint32_t i = 2; i < 4 - turn; i++) {
            struct pccl_peer_op *late = launch(sim, p[i], request, NULL);
            MUST(sim, scenario_is_decided(late) && scenario_take(sim, p[i], late) == PCCL_CLASS_PEER_LOST);
        }
        all_end(sim, p, 4 - turn, request, PCCL_CLASS_NONE); /* from another one */
    }
}

/* One dies on the way to a barrier. */
SCENARIO(barrier_kill)
{
    struct pccl_peer_op *ops[3];
    cluster(sim, 4);
    for (uint32_t i = 0; i < 2; i++)
        ops[i] = launch(sim, p[i], barrier, NULL);
    scenario_run_ms(sim, 3000);
    MUST(sim, !scenario_is_decided(ops[0]));
    MUST(sim, strstr(pccl_peer_waiting(p[0]->machine)->bytes, "barrier tag 3 waits for ") != NULL);
    ops[2] = launch(sim, p[2], barrier, NULL);
    scenario_run_ms(sim, 20);
    sim_peer_kill(sim, p[3], false);
    take_all(sim, p, ops, 3, PCCL_CLASS_PEER_LOST);
    all_end(sim, p, 3, barrier, PCCL_CLASS_NONE);
}

/* Contributions of another length than is right: as one that is no root, or as one of fewer members. */
SCENARIO(lying_sizes)
{
    static const uint8_t payload[64];
    const struct sim_request *const kinds[] = {&gather,        &broadcast,       &scatter,      &blobs,      &blobs,
                                               &blobs,         &barrier,         &from_root,    &all_to_all, &reduce,
                                               &blobs_to_root, &blobs_from_root, &blobs_for_all};
    static const uint32_t lengths[] = {8, 16, 32, 342, 333, 7, 8, 48, 16, 8, 7, 24, 16};
    struct pccl_peer_op *ops[2];
    static uint8_t blob[512];
    cluster(sim, 2);
    pccl_put(blob, 8, 342 - 8); /* too long, or not of the stated length */
    for (uint32_t kind = 0; kind < PCCL_COUNT_OF(kinds); kind++) {
        p[2] = scenario_join(sim, 6 + kind, 0);
        scenario_run_ms(sim, 200);
        scenario_update_all(sim, p, 2);
        WAIT(sim, 1000, pccl_peer_is_connected(p[2]->machine));
        scenario_run_ms(sim, 20);
        struct sim_request request = *kinds[kind];
        request.root = 0; /* p[0] */
        for (uint32_t i = 0; i < 2; i++)
            ops[i] = launch(sim, p[i], request, NULL);
        scenario_lie(sim, p[2]);
        struct pccl_msg done = {.type = PCCL_MSG_done,
                                .as.done = {.instance = ops[0]->instance,
                                            .view = p[2]->machine->view,
                                            .descriptor = ops[0]->descriptor,
                                            .tiny = 1,
                                            .payload = {kinds[kind] == &blobs ? blob : payload, lengths[kind]}}};
        scenario_forge(sim, p[2], &done);
        take_all(sim, p, ops, 2, PCCL_CLASS_PEER_LOST);
        WAIT(sim, 1000, !pccl_peer_is_connected(p[2]->machine));
        all_end(sim, p, 2, request, PCCL_CLASS_NONE);
    }
}
