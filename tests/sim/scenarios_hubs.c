/* Scenarios of hubs (PROTOCOL 7.13): links on demand in a group too large for a mesh. */
#include "master/diagnosis.h"
#include "master/membership.h"
#include "master/roster.h"
#include "scenario.h"

#include <string.h>

enum { MANY = PCCL_MESH_PEERS_MAX + 4 };
static struct sim_peer *p[MANY + 1]; /* peers of the running scenario */

/* ---- state of the members ---- */

static uint32_t all_links(uint32_t count) { return scenario_links(p, count); }

/* Returns true if the view of all shows links to these hubs and from those. */
static bool all_have_hubs(uint32_t count, bool stand, uint64_t to_hubs, uint64_t from_hubs)
{
    for (uint32_t i = 0; i < count; i++) {
        struct pccl_cost cost = p[i]->machine->group.cost;
        if ((cost.mesh != 0) != stand || cost.to_hubs != to_hubs || cost.from_hubs != from_hubs)
            return false;
    }
    return true;
}

static uint64_t all_hubs(uint32_t count) { return UINT64_MAX >> (64 - count); }

/* Returns the bit of an operation's root: its number in canonical order, which is the same for all. */
static uint64_t bit_of(const struct sim_peer *peer)
{
    uint32_t count;
    const struct pccl_member *members = pccl_peer_members(p[0]->machine, &count);
    for (uint32_t i = 0; i < count; i++)
        if (pccl_id_equal(&members[i].peer, &peer->id))
            return UINT64_C(1) << i;
    return 0;
}

/* ---- operations ---- */

static void begin_of(struct sim *sim, uint32_t count)
{
    scenario_cluster(sim, p, count, 1);
    sim->bulk_by_hand = false;
    MUST(sim, all_links(count) == count && all_have_hubs(count, false, 0, 0));
}

static void begin(struct sim *sim) { begin_of(sim, MANY); }

static uint32_t number_of(const struct sim_peer *root)
{
    uint32_t number = 0;
    for (uint64_t bit = bit_of(root); bit > 1; bit /= 2)
        number++;
    return number;
}

static void launch(struct sim *sim, uint32_t count, uint8_t collective, const struct sim_peer *root,
                   struct pccl_peer_op **ops)
{
    static uint64_t step;
    struct sim_request request = {.tag = 1,
                                  .step = ++step,
                                  .collective = collective,
                                  .count = 100000,
                                  .root = root != NULL ? number_of(root) : 0};
    for (uint32_t i = 0; i < count; i++)
        ops[i] = scenario_ask(sim, p[i], &request);
}

static void must_end(struct sim *sim, uint32_t count, struct pccl_peer_op **ops, enum pccl_class class)
{
    for (uint32_t i = 0; i < count; i++) {
        WAIT(sim, 3000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == class);
    }
}

static void do_all(struct sim *sim, uint32_t count, uint8_t collective, const struct sim_peer *root)
{
    struct pccl_peer_op *ops[MANY + 1];
    launch(sim, count, collective, root, ops);
    must_end(sim, count, ops, PCCL_CLASS_NONE);
}

/* The update is over for all, and so is the view that it may have made. */
static void update(struct sim *sim, uint32_t count)
{
    scenario_update_all(sim, p, count);
    scenario_run_ms(sim, 50);
}

/* A view that only re-plans: the same ring, from the next member on. */
static void turn_ring(struct sim *sim)
{
    uint32_t order[MANY];
    struct pccl_text why;
    struct pccl_master *m = sim->master->machine;
    for (uint32_t i = 0; i < MANY; i++)
        order[i] = (i + 1) % MANY;
    MUST(sim, pccl_master_may_replan(m, m->groups[0]) && pccl_master_reorder(m, m->groups[0], order));
    pccl_text_format(&why, "another ring");
    pccl_master_replan(m, m->groups[0], &why);
    sim_master_event(sim, sim->master, &(struct pccl_master_event){.kind = PCCL_MASTER_CLOSED, .now_us = sim->now});
}

/* ---- scenarios ---- */

/*
 * A gather gets a link from each member to its root; a scatter, to each; an all-to-all links all pairs. Others use the
 * ring.
 */
SCENARIO(hubs_form)
{
    begin(sim);
    struct pccl_epoch view = p[0]->machine->view;
    do_all(sim, MANY, PCCL_ALL_REDUCE, NULL);
    do_all(sim, MANY, PCCL_REDUCE, p[3]);
    scenario_run_ms(sim, 200);
    MUST(sim, all_links(MANY) == MANY); /* no member dials a link without a request */
    do_all(sim, MANY, PCCL_GATHER, p[3]);
    scenario_run_ms(sim, 200);
    MUST(sim, all_links(MANY) == MANY + MANY - 2 && pccl_epoch_equal(&view, &p[0]->machine->view));
    MUST(sim, all_have_hubs(MANY, false, 0, 0));
    do_all(sim, MANY, PCCL_GATHER, p[3]); /* still along the ring */
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, bit_of(p[3]), 0));
    do_all(sim, MANY, PCCL_GATHER, p[3]);
    do_all(sim, MANY, PCCL_GATHER, p[4]);
    do_all(sim, MANY, PCCL_SCATTER, p[5]);
    update(sim, MANY);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, bit_of(p[3]) | bit_of(p[4]), bit_of(p[5])));
    do_all(sim, MANY, PCCL_ALL_TO_ALL, NULL);
    scenario_run_ms(sim, 300);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, all_hubs(MANY), bit_of(p[5])) && all_links(MANY) == MANY * (MANY - 1));
    do_all(sim, MANY, PCCL_ALL_TO_ALL, NULL);
    MUST(sim, scenario_departures(sim) == 0);
}

/* A scan uses links between neighbors in canonical order, and asks for all links as an all-to-all does. */
SCENARIO(hubs_scan)
{
    begin(sim);
    do_all(sim, MANY, PCCL_EXCLUSIVE_SCAN, NULL); /* along the ring */
    scenario_run_ms(sim, 300);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, all_hubs(MANY), 0));
    do_all(sim, MANY, PCCL_INCLUSIVE_SCAN, NULL);
    MUST(sim, scenario_departures(sim) == 0);
}

/* An update closes links that operations no longer use, and keeps used ones. */
SCENARIO(hubs_idle)
{
    begin(sim);
    sim->master->machine->config.hub_updates = 3;
    do_all(sim, MANY, PCCL_GATHER, p[3]);
    do_all(sim, MANY, PCCL_SCATTER, p[3]);
    scenario_run_ms(sim, 200);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, bit_of(p[3]), bit_of(p[3])));
    for (uint32_t i = 0; i < 4; i++) {
        do_all(sim, MANY, PCCL_SCATTER, p[3]);
        update(sim, MANY);
    }
    MUST(sim, all_have_hubs(MANY, true, 0, bit_of(p[3])) && all_links(MANY) == MANY + MANY - 2);
    for (uint32_t i = 0; i < 4; i++)
        update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, false, 0, 0) && all_links(MANY) == MANY);
    for (uint32_t i = 0; i < sim->master->machine->remote_count; i++)
        MUST(sim, sim->master->machine->remotes[i]->intent_count == 1);
    do_all(sim, MANY, PCCL_SCATTER, p[3]);
    MUST(sim, scenario_departures(sim) == 0);
}

/* Each member reports this rate of its ring link, and updates. */
static void measure(struct sim *sim, uint64_t rate)
{
    for (uint32_t i = 0; i < MANY; i++)
        sim_peer_measured(sim, scenario_in_ring(sim, p[0], i), &scenario_in_ring(sim, p[0], i + 1)->id, 1000, rate);
    update(sim, MANY);
}

/*
 * The master opens the links of a former hub again, and before they are up the ring becomes slower. A view with the new
 * rate would end direct exchange with the other hub. It waits for the links.
 */
SCENARIO(hubs_again)
{
    begin(sim);
    sim->master->machine->config.hub_updates = 1;
    struct sim_peer *root = scenario_in_ring(sim, p[0], 9), *far = scenario_in_ring(sim, p[0], 3),
                    *other = scenario_in_ring(sim, p[0], 14);
    do_all(sim, MANY, PCCL_GATHER, root);
    do_all(sim, MANY, PCCL_GATHER, other);
    scenario_run_ms(sim, 200);
    measure(sim, 8000000);
    MUST(sim, all_have_hubs(MANY, true, bit_of(root) | bit_of(other), 0));
    do_all(sim, MANY, PCCL_GATHER, other);
    update(sim, MANY);
    do_all(sim, MANY, PCCL_GATHER, other);
    MUST(sim, all_have_hubs(MANY, true, bit_of(other), 0) && p[0]->machine->group.cost.rate == 8000000);
    sim->master->machine->config.hub_updates = 32;
    scenario_part(sim, root, far, SIM_DROP);
    do_all(sim, MANY, PCCL_GATHER, root);
    measure(sim, 2000000);
    MUST(sim, all_have_hubs(MANY, true, bit_of(other), 0) && p[0]->machine->group.cost.rate == 8000000);
    scenario_part(sim, root, far, SIM_WHOLE);
    WAIT(sim, 1000, all_links(MANY) == MANY + 2 * (MANY - 2));
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, bit_of(root) | bit_of(other), 0));
    MUST(sim, p[0]->machine->group.cost.rate == 2000000 && scenario_departures(sim) == 0);
}

/* A link cannot be opened: no view, no removal; others become hubs, and it is tried again later. */
SCENARIO(hubs_cut)
{
    begin(sim);
    struct sim_peer *root = scenario_in_ring(sim, p[0], 9), *far = scenario_in_ring(sim, p[0], 3),
                    *other = scenario_in_ring(sim, p[0], 14);
    scenario_part(sim, root, far, SIM_REFUSE);
    struct pccl_epoch view = p[0]->machine->view;
    do_all(sim, MANY, PCCL_GATHER, root);
    do_all(sim, MANY, PCCL_GATHER, other);
    scenario_run_ms(sim, 1500);
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view));
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, bit_of(other), 0) && scenario_departures(sim) == 0);
    do_all(sim, MANY, PCCL_GATHER, root);
    MUST(sim, all_links(MANY) == MANY + MANY - 2); /* it is not asked for again so soon */
    scenario_part(sim, root, far, SIM_WHOLE);
    scenario_run_ms(sim, sim->plan.master.bad_edge_ms);
    do_all(sim, MANY, PCCL_GATHER, root);
    scenario_run_ms(sim, 300);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, bit_of(root) | bit_of(other), 0));
    do_all(sim, MANY, PCCL_GATHER, root);
}

/* The link between these two dies for good while an operation of all uses it, which fails. */
static void fail_by_link(struct sim *sim, uint8_t collective, const struct sim_peer *root, struct sim_peer *near,
                         struct sim_peer *far)
{
    struct pccl_peer_op *ops[MANY];
    sim->bulk_by_hand = true;
    launch(sim, MANY, collective, root, ops);
    scenario_part(sim, near, far, SIM_REFUSE);
    scenario_run_ms(sim, 1);
    sim_bulk_break(sim, far, ops[far->process.number], PCCL_CLASS_PEER_LOST);
    must_end(sim, MANY, ops, PCCL_CLASS_PEER_LOST);
    sim->bulk_by_hand = false;
}

/* A link of a hub dies permanently: one failure, a view without this hub, and the retry uses the ring. */
SCENARIO(hubs_die)
{
    begin(sim);
    struct sim_peer *root = scenario_in_ring(sim, p[0], 9), *far = scenario_in_ring(sim, p[0], 3),
                    *other = scenario_in_ring(sim, p[0], 14);
    do_all(sim, MANY, PCCL_GATHER, root);
    do_all(sim, MANY, PCCL_SCATTER, other);
    scenario_run_ms(sim, 200);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, bit_of(root), bit_of(other)));
    fail_by_link(sim, PCCL_GATHER, root, root, far);
    MUST(sim, all_have_hubs(MANY, true, 0, bit_of(other)) && scenario_departures(sim) == 0);
    do_all(sim, MANY, PCCL_GATHER, root);
    do_all(sim, MANY, PCCL_SCATTER, other);
    scenario_run_ms(sim, 1000);
    MUST(sim, all_links(MANY) == MANY + MANY - 2);
}

/*
 * One of the links that an all-to-all needs together dies: one failure, and the hubs requested only by it end. So the
 * next dying link of the others makes nothing fail; the root of a gather stays a hub.
 */
SCENARIO(hubs_die_together)
{
    begin(sim);
    struct sim_peer *root = scenario_in_ring(sim, p[0], 9), *far = scenario_in_ring(sim, p[0], 3),
                    *other = scenario_in_ring(sim, p[0], 14);
    do_all(sim, MANY, PCCL_ALL_TO_ALL, NULL);
    do_all(sim, MANY, PCCL_GATHER, other);
    scenario_run_ms(sim, 300);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, all_hubs(MANY), 0));
    fail_by_link(sim, PCCL_ALL_TO_ALL, NULL, root, far);
    MUST(sim, all_have_hubs(MANY, true, bit_of(other), 0));
    struct pccl_peer_op *ops[MANY];
    sim->bulk_by_hand = true;
    launch(sim, MANY, PCCL_ALL_TO_ALL, NULL, ops);
    scenario_part(sim, scenario_in_ring(sim, p[0], 5), scenario_in_ring(sim, p[0], 11), SIM_REFUSE);
    scenario_run_ms(sim, 1500);
    for (uint32_t i = 0; i < MANY; i++)
        sim_bulk_finish(sim, p[i], ops[i]);
    must_end(sim, MANY, ops, PCCL_CLASS_NONE);
    sim->bulk_by_hand = false;
    do_all(sim, MANY, PCCL_GATHER, other);
    MUST(sim, all_have_hubs(MANY, true, bit_of(other), 0) && scenario_departures(sim) == 0);
    MUST(sim, all_links(MANY) == MANY + MANY - 2);
}

/* The root dies while links to it are opened, and members and newcomers while others stand: hubs stay hubs. */
SCENARIO(hubs_kill)
{
    begin(sim);
    struct sim_peer *last = p[MANY - 1];
    do_all(sim, MANY, PCCL_GATHER, last);
    scenario_run_ms(sim, 1);
    sim_peer_kill(sim, last, false);
    WAIT(sim, 500, p[0]->machine->group.count == MANY - 1);
    scenario_run_ms(sim, 200);
    MUST(sim, all_have_hubs(MANY - 1, false, 0, 0) && all_links(MANY - 1) == MANY - 1);
    update(sim, MANY - 1);
    do_all(sim, MANY - 1, PCCL_GATHER, p[3]);
    scenario_run_ms(sim, 1);
    sim_peer_kill(sim, p[MANY - 2], false); /* its link is being opened, too */
    WAIT(sim, 500, p[0]->machine->group.count == MANY - 2);
    scenario_run_ms(sim, 200);
    update(sim, MANY - 2);
    MUST(sim, all_have_hubs(MANY - 2, true, bit_of(p[3]), 0));
    p[MANY - 2] = scenario_join(sim, MANY + 5, 0);
    scenario_run_ms(sim, 200);
    update(sim, MANY - 2);
    WAIT(sim, 1000, scenario_is_over(p[MANY - 2], PCCL_CALL_CONNECT));
    do_all(sim, MANY - 1, PCCL_GATHER, p[3]);
    update(sim, MANY - 1);
    MUST(sim, all_have_hubs(MANY - 1, true, bit_of(p[3]), 0));
    do_all(sim, MANY - 1, PCCL_GATHER, p[3]);
}

/* The master dies while links are opened; and when they stand. */
SCENARIO(hubs_restart)
{
    begin(sim);
    do_all(sim, MANY, PCCL_GATHER, p[3]);
    scenario_restart_master(sim, 100);
    WAIT(sim, 3000, sim->master->machine->member_count == MANY);
    scenario_run_ms(sim, 500);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, false, 0, 0) && all_links(MANY) == MANY); /* it has not received it */
    do_all(sim, MANY, PCCL_GATHER, p[3]);
    scenario_run_ms(sim, 200);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, bit_of(p[3]), 0));
    struct pccl_epoch view = p[0]->machine->view;
    scenario_restart_master(sim, 100);
    WAIT(sim, 3000, sim->master->machine->member_count == MANY);
    scenario_run_ms(sim, 500);
    update(sim, MANY); /* before an operation asks again */
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view) && all_have_hubs(MANY, true, bit_of(p[3]), 0));
    do_all(sim, MANY, PCCL_GATHER, p[3]);
    MUST(sim, all_links(MANY) == MANY + MANY - 2);
}

/*
 * The master dies while links of an all-to-all are opened, and a view has its hubs: its successor knows that they
 * belong together, and one link that cannot be opened ends all.
 */
SCENARIO(hubs_restart_all)
{
    begin(sim);
    scenario_part(sim, scenario_in_ring(sim, p[0], 9), scenario_in_ring(sim, p[0], 3), SIM_DROP);
    do_all(sim, MANY, PCCL_ALL_TO_ALL, NULL);
    scenario_run_ms(sim, 1);
    sim_peer_kill(sim, p[MANY - 1], false);
    WAIT(sim, 500, p[0]->machine->group.count == MANY - 1);
    scenario_run_ms(sim, 1);
    MUST(sim, all_have_hubs(MANY - 1, false, all_hubs(MANY - 1), 0));
    scenario_restart_master(sim, 100);
    WAIT(sim, 3000, sim->master->machine->member_count == MANY - 1);
    MUST(sim, all_have_hubs(MANY - 1, false, all_hubs(MANY - 1), 0));
    scenario_run_ms(sim, 3000);
    update(sim, MANY - 1);
    MUST(sim, all_have_hubs(MANY - 1, false, 0, 0) && all_links(MANY - 1) == MANY - 1);
}

/* The master dies before it has received that all are done; its successor commits, and requests the links. */
SCENARIO(hubs_restart_commit)
{
    struct pccl_peer_op *ops[MANY];
    begin(sim);
    sim->bulk_by_hand = true;
    launch(sim, MANY, PCCL_GATHER, p[3], ops);
    scenario_run_ms(sim, 20);
    sim_master_crash(sim, true);
    for (uint32_t i = 0; i < MANY; i++)
        sim_bulk_finish(sim, p[i], ops[i]);
    sim->bulk_by_hand = false;
    sim_master_start(sim);
    must_end(sim, MANY, ops, PCCL_CLASS_NONE);
    scenario_run_ms(sim, 500);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, bit_of(p[3]), 0) && scenario_departures(sim) == 0);
    do_all(sim, MANY, PCCL_GATHER, p[3]);
}

/* More members than links are allowed for: the ring. And with no hub allowed at all. */
SCENARIO(hubs_limit)
{
    begin(sim);
    sim->master->machine->config.hub_links = MANY - 1;
    do_all(sim, MANY, PCCL_GATHER, p[3]);
    scenario_run_ms(sim, 200);
    p[MANY] = scenario_join(sim, MANY + 1, 0);
    scenario_run_ms(sim, 200);
    update(sim, MANY);
    WAIT(sim, 1000, scenario_is_over(p[MANY], PCCL_CALL_CONNECT));
    scenario_run_ms(sim, 200);
    MUST(sim, all_have_hubs(MANY + 1, false, 0, 0) && all_links(MANY + 1) == MANY + 1);
    do_all(sim, MANY + 1, PCCL_GATHER, p[3]);
    update(sim, MANY + 1);
    MUST(sim, all_have_hubs(MANY + 1, false, 0, 0) && all_links(MANY + 1) == MANY + 1);
    sim_app_leave(sim, p[MANY]);
    WAIT(sim, 200, p[0]->machine->group.count == MANY);
    update(sim, MANY);
    do_all(sim, MANY, PCCL_GATHER, p[3]);
    scenario_run_ms(sim, 200);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, bit_of(p[3]), 0));
}

/* Views between the request and the update: of another group, and one that only re-plans. The links stay, or return. */
SCENARIO(hubs_and_views)
{
    begin(sim);
    p[MANY] = scenario_join(sim, MANY + 1, 7);
    scenario_run_ms(sim, 200);
    update(sim, MANY);
    WAIT(sim, 1000, scenario_is_over(p[MANY], PCCL_CALL_CONNECT));
    do_all(sim, MANY, PCCL_GATHER, p[3]);
    scenario_run_ms(sim, 200);
    struct pccl_epoch view = p[0]->machine->view, epoch = p[0]->machine->epoch;
    sim_app_leave(sim, p[MANY]);
    WAIT(sim, 200, pccl_epoch_compare(&p[0]->machine->epoch, &epoch) > 0);
    scenario_run_ms(sim, 100);
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view) && all_links(MANY) == MANY + MANY - 2);
    turn_ring(sim);
    WAIT(sim, 200, !pccl_epoch_equal(&view, &p[0]->machine->view));
    scenario_run_ms(sim, 300);
    MUST(sim, all_have_hubs(MANY, false, 0, 0));
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, bit_of(p[3]), 0));
    do_all(sim, MANY, PCCL_GATHER, p[3]);
    view = p[0]->machine->view;
    turn_ring(sim);
    WAIT(sim, 200, !pccl_epoch_equal(&view, &p[0]->machine->view));
    do_all(sim, MANY, PCCL_GATHER, p[3]);
    MUST(sim, all_have_hubs(MANY, true, bit_of(p[3]), 0) && scenario_departures(sim) == 1); /* the one that left */
}

/* If all pairs have links, so has a subgroup, while it lives. */
SCENARIO(hubs_subgroup)
{
    begin(sim);
    sim->master->machine->config.hub_updates = 1;
    do_all(sim, MANY, PCCL_ALL_TO_ALL, NULL);
    scenario_run_ms(sim, 300);
    update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, true, all_hubs(MANY), 0));
    struct pccl_id list[4];
    struct pccl_peer_op *ops[4];
    for (uint32_t i = 0; i < 4; i++)
        list[i] = p[i]->id;
    for (uint32_t i = 0; i < 4; i++)
        ops[i] =
            scenario_ask(sim, p[i],
                         &(struct sim_request){
                             .collective = PCCL_FOUND, .tiny = true, .count = 4, .members = list, .member_count = 4});
    uint64_t name = 0;
    for (uint32_t i = 0; i < 4; i++) {
        WAIT(sim, 500, scenario_is_decided(ops[i]));
        const struct pccl_peer_subgroup *subgroup = pccl_peer_founded(p[i]->machine, ops[i]);
        MUST(sim, subgroup != NULL && subgroup->all.cost.mesh == 1);
        name = subgroup->name;
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    }
    for (uint32_t i = 0; i < 3; i++)
        update(sim, MANY);
    MUST(sim, all_have_hubs(MANY, false, 0, 0));
    uint32_t links = all_links(MANY);
    MUST(sim, links >= MANY + 12 - 4 && links <= MANY + 12);
    for (uint32_t i = 0; i < 4; i++)
        ops[i] =
            scenario_ask(sim, p[i],
                         &(struct sim_request){
                             .subgroup = name, .tag = 5, .step = 1, .collective = PCCL_ALL_TO_ALL, .count = 100000});
    must_end(sim, 4, ops, PCCL_CLASS_NONE);
}
