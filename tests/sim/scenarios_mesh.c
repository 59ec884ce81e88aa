/*
 * Scenarios of direct exchange (PROTOCOL 9.7, F14): links between all members of a small group, and
 * the two schedules with which an operation can be started.
 */
#include "master/roster.h"
#include "core/ticket.h"
#include "scenario.h"

#include <string.h>

enum { MANY = PCCL_MESH_PEERS_MAX };
static struct sim_peer *p[MANY + 2]; /* peers of the running scenario */

static bool all_exchange_directly(uint32_t count, bool directly)
{
    for (uint32_t i = 0; i < count; i++)
        if ((p[i]->machine->group.cost.mesh != 0) != directly)
            return false;
    return true;
}

static bool is_moved(uint32_t count, const struct pccl_epoch *view)
{
    for (uint32_t i = 0; i < count; i++)
        if (pccl_epoch_compare(&p[i]->machine->view, view) <= 0)
            return false;
    return true;
}

static uint32_t outgoing_links(const struct sim_peer *peer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < peer->link_count; i++)
        count += !peer->links[i].incoming;
    return count;
}

static void bulk_commits(struct sim *sim, uint32_t count, uint64_t tag)
{
    struct pccl_peer_op *ops[MANY + 2];
    sim->bulk_by_hand = false;
    for (uint32_t i = 0; i < count; i++)
        ops[i] = scenario_bulk(sim, p[i], tag, 1);
    for (uint32_t i = 0; i < count; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    }
}

/* All know of the mesh, and of the longest round trip of the ring. */
CLUSTER_SCENARIO(mesh_forms, 5, 1)
{
    MUST(sim, all_exchange_directly(5, true));
    uint32_t longest = 0;
    for (uint32_t i = 0; i < 5; i++) {
        MUST(sim, outgoing_links(p[i]) == 4 && p[i]->link_count == 8);
        const struct sim_peer *from = scenario_in_ring(sim, p[0], i), *to = scenario_in_ring(sim, p[0], i + 1);
        for (uint32_t k = 0; k < from->machine->link_count; k++)
            if (pccl_id_equal(&from->machine->links[k].id, &to->id))
                longest = longest > from->machine->links[k].rtt_us ? longest : from->machine->links[k].rtt_us;
    }
    MUST(sim, longest > 0 && p[3]->machine->group.cost.rtt_us == longest);
    bulk_commits(sim, 5, 1);
}

/*
 * F14: a link outside the ring fails permanently. A running operation fails once and is retried along the ring; no
 * member is removed; an update after the link is back returns to direct exchange.
 */
CLUSTER_SCENARIO(mesh_cut, 5, 1)
{
    struct pccl_epoch view = p[0]->machine->view;
    struct sim_peer *a = scenario_in_ring(sim, p[0], 0), *b = scenario_in_ring(sim, p[0], 2);
    struct pccl_peer_op *ops[5];
    for (uint32_t i = 0; i < 5; i++)
        ops[i] = scenario_bulk(sim, p[i], 1, 1);
    scenario_run_ms(sim, 10);
    scenario_part(sim, a, b, SIM_REFUSE);
    scenario_run_ms(sim, 1);
    sim_bulk_break(sim, a, ops[a->process.number], PCCL_CLASS_PEER_LOST); /* the real data path sees its bytes lost */
    WAIT(sim, 300, is_moved(5, &view));
    MUST(sim, all_exchange_directly(5, false) && scenario_departures(sim) == 0);
    struct pccl_epoch second = p[0]->machine->view;
    for (uint32_t i = 0; i < 5; i++) {
        WAIT(sim, 100, scenario_is_decided(ops[i]));
        MUST(sim, strstr(ops[i]->reason.bytes, "no direct exchange") != NULL); /* the view preceded the abort */
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_PEER_LOST);
    }
    bulk_commits(sim, 5, 1);
    scenario_run_ms(sim, 3000);
    MUST(sim, pccl_epoch_equal(&second, &p[0]->machine->view) && scenario_departures(sim) == 0);
    scenario_part(sim, a, b, SIM_WHOLE);
    scenario_run_ms(sim, 1500);
    MUST(sim, all_exchange_directly(5, false)); /* not while operations may run */
    scenario_update_all(sim, p, 5);
    MUST(sim, all_exchange_directly(5, true) && scenario_departures(sim) == 0);
    bulk_commits(sim, 5, 1);
}

/* A bulk operation that the data path itself cannot move over a cut link is not stuck: the view changes. */
CLUSTER_SCENARIO(mesh_cut_stuck, 5, 1)
{
    sim->bulk_by_hand = false;
    struct pccl_peer_op *ops[5];
    struct sim_peer *a = scenario_in_ring(sim, p[0], 1), *b = scenario_in_ring(sim, p[0], 3);
    scenario_part(sim, a, b, SIM_REFUSE);
    for (uint32_t i = 0; i < 5; i++)
        ops[i] = scenario_bulk(sim, p[i], 1, 1);
    for (uint32_t i = 0; i < 5; i++) {
        WAIT(sim, 500, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_PEER_LOST);
    }
    scenario_run_ms(sim, 300);
    MUST(sim, all_exchange_directly(5, false) && scenario_departures(sim) == 0);
    bulk_commits(sim, 5, 1);
}

/* One reset of every link: all are restored, and no view changes. */
CLUSTER_SCENARIO(mesh_reset, 4, 1)
{
    struct pccl_epoch view = p[0]->machine->view;
    struct pccl_peer_op *ops[4];
    for (uint32_t i = 0; i < 4; i++)
        ops[i] = scenario_bulk(sim, p[i], 1, 1);
    scenario_run_ms(sim, 10);
    const struct sim_peer *a = scenario_in_ring(sim, p[0], 0), *b = scenario_in_ring(sim, p[0], 2);
    scenario_part(sim, a, b, SIM_REFUSE);
    scenario_part(sim, a, b, SIM_WHOLE);
    sim_bulk_break(sim, p[0], ops[0], PCCL_CLASS_PEER_LOST);
    WAIT(sim, 60, scenario_is_decided(ops[0])); /* restored: the settling time is 100 ms */
    for (uint32_t i = 0; i < 4; i++)
        WAIT(sim, 20, scenario_is_decided(ops[i]));
    for (uint32_t i = 0; i < 4; i++)
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_PEER_LOST);
    scenario_run_ms(sim, 1000);
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view) && all_exchange_directly(4, true));
    bulk_commits(sim, 4, 1);
}

/* A newcomer that one member beside its place does not reach is admitted all the same, soon. */
CLUSTER_SCENARIO(mesh_cold, 4, 1)
{
    const struct sim_peer *middle = scenario_in_ring(sim, p[0], 1);
    sim_net_cut(sim, middle->process.host, 6, SIM_DATA, SIM_DROP);
    p[4] = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, 300);
    scenario_update_all(sim, p, 4);
    MUST(sim, !scenario_is_over(p[4], PCCL_CALL_CONNECT)); /* the link may still open */
    scenario_run_ms(sim, 300);
    scenario_update_all(sim, p, 4);
    WAIT(sim, 100, scenario_is_over(p[4], PCCL_CALL_CONNECT));
    MUST(sim, p[4]->app.call_status[PCCL_CALL_CONNECT] == PCCL_OK && all_exchange_directly(5, false));
    bulk_commits(sim, 5, 1);
    scenario_run_ms(sim, 3000);
    MUST(sim, scenario_departures(sim) == 0);
}

/* A group that grows over the limit keeps the ring's links only, and gets the others back when it is small again. */
CLUSTER_SCENARIO(mesh_limit, MANY, 1)
{
    MUST(sim, all_exchange_directly(MANY, true) && outgoing_links(p[0]) == MANY - 1);
    p[MANY] = scenario_join(sim, MANY + 1, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, MANY);
    WAIT(sim, 100, scenario_is_over(p[MANY], PCCL_CALL_CONNECT));
    scenario_run_ms(sim, 50);
    MUST(sim, all_exchange_directly(MANY + 1, false));
    for (uint32_t i = 0; i <= MANY; i++)
        MUST(sim, outgoing_links(p[i]) == 1 && p[i]->link_count == 2);
    for (uint32_t i = 0; i < sim->master->machine->remote_count; i++)
        MUST(sim, sim->master->machine->remotes[i]->intent_count == 1);
    sim_app_leave(sim, p[MANY]);
    WAIT(sim, 200, p[0]->machine->group.count == MANY);
    scenario_run_ms(sim, 100);
    MUST(sim, all_exchange_directly(MANY, false) && outgoing_links(p[3]) == MANY - 1);
    scenario_update_all(sim, p, MANY);
    MUST(sim, all_exchange_directly(MANY, true));
    bulk_commits(sim, MANY, 1);
}

/*
 * A restarted master learns the cost data from the members; views that do not move keep it, and
 * failures of such links are acted on.
 */
CLUSTER_SCENARIO(mesh_restart, 4, 1)
{
    struct pccl_epoch view = p[0]->machine->view;
    struct pccl_cost cost = p[0]->machine->group.cost;
    sim_master_crash(sim, false);
    scenario_run_ms(sim, 100);
    sim_master_start(sim);
    WAIT(sim, 3000, sim->master->machine->member_count == 4);
    scenario_run_ms(sim, 200);
    const struct pccl_peer_group *group = sim->master->machine->groups[0];
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view) && group->cost.mesh == 1);
    MUST(sim, group->cost.rtt_us == cost.rtt_us && all_exchange_directly(4, true));
    bulk_commits(sim, 4, 1);
    scenario_part(sim, scenario_in_ring(sim, p[0], 0), scenario_in_ring(sim, p[0], 2), SIM_REFUSE);
    WAIT(sim, 400, all_exchange_directly(4, false));
    MUST(sim, scenario_departures(sim) == 0);
}

/* All members see a death at once: one view, one failure. */
CLUSTER_SCENARIO(mesh_kill, 8, 1)
{
    uint64_t epoch = p[0]->machine->epoch.number;
    struct pccl_peer_op *ops[8];
    for (uint32_t i = 0; i < 8; i++)
        ops[i] = scenario_bulk(sim, p[i], 1, 1);
    scenario_run_ms(sim, 10);
    for (uint32_t i = 0; i < 7; i++)
        sim_bulk_break(sim, p[i], ops[i], PCCL_CLASS_PEER_LOST);
    sim_peer_kill(sim, p[7], false);
    for (uint32_t i = 0; i < 7; i++) {
        WAIT(sim, 60, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_PEER_LOST);
    }
    scenario_run_ms(sim, 1000);
    MUST(sim, p[0]->machine->epoch.number == epoch + 1 && all_exchange_directly(7, true));
    bulk_commits(sim, 7, 1);
}

/* A member that loses all its data links is removed, and no other. */
CLUSTER_SCENARIO(mesh_isolated, 5, 1)
{
    struct sim_peer *out = scenario_in_ring(sim, p[0], 2);
    for (uint32_t i = 0; i < 5; i++)
        if (p[i] != out)
            scenario_part(sim, out, p[i], SIM_REFUSE);
    WAIT(sim, 6000, sim->master->machine->member_count == 4);
    MUST(sim, pccl_master_find(sim->master->machine, &out->id) == NULL);
    scenario_run_ms(sim, 3000);
    MUST(sim, scenario_departures(sim) == 1);
}

/* All report their link to the next in the ring, and update. Returns true if that made a new view. */
static bool measured(struct sim *sim, uint32_t count, uint32_t rtt_us, uint64_t rate)
{
    struct pccl_epoch view = p[0]->machine->view;
    for (uint32_t i = 0; i < count; i++)
        sim_peer_measured(sim, scenario_in_ring(sim, p[0], i), &scenario_in_ring(sim, p[0], i + 1)->id, rtt_us + i,
                          rate != 0 ? rate + i : 0);
    scenario_update_all(sim, p, count);
    scenario_run_ms(sim, 10);
    for (uint32_t i = 1; i < count; i++)
        MUST(sim, pccl_epoch_equal(&p[0]->machine->view, &p[i]->machine->view));
    return !pccl_epoch_equal(&view, &p[0]->machine->view);
}

static bool cost_is(uint32_t rtt_us, uint64_t rate)
{
    struct pccl_cost cost = p[1]->machine->group.cost;
    return cost.mesh == 1 && cost.rtt_us == rtt_us && cost.rate == rate;
}

/* New figures of links that have changed make a new view at the next update; others do not. */
CLUSTER_SCENARIO(links_measured, 4, 1)
{
    struct pccl_epoch first = p[0]->machine->view;
    const uint32_t rtt_us = p[0]->machine->group.cost.rtt_us;
    MUST(sim, rtt_us > 0 && cost_is(rtt_us, 0));
    MUST(sim, !measured(sim, 4, rtt_us, 0)); /* nothing is known */
    MUST(sim, measured(sim, 4, 1000, 5000000));
    MUST(sim, cost_is(1003, 5000000));
    MUST(sim, !measured(sim, 4, 1900, 9000000)); /* not twice as much */
    MUST(sim, !measured(sim, 4, 510, 2600000));
    MUST(sim, measured(sim, 4, 1000, 10000100));
    MUST(sim, cost_is(1003, 10000100));
    MUST(sim, measured(sim, 4, 3000, 10000000));
    sim_peer_measured(sim, scenario_in_ring(sim, p[0], 2), &scenario_in_ring(sim, p[0], 3)->id, 3000, 70);
    struct pccl_epoch view = p[0]->machine->view;
    scenario_run_ms(sim, 50);
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view)); /* not while operations may run */
    scenario_update_all(sim, p, 4);
    MUST(sim, cost_is(3003, 70)); /* the slowest link */
    MUST(sim, measured(sim, 4, 3000, UINT64_MAX - 9));
    MUST(sim, !measured(sim, 4, 3000, 30000000000)); /* both more than matters */
    MUST(sim, p[0]->machine->view.number == first.number + 5 && scenario_departures(sim) == 0);
    /* A reopened link is not known to be slow or fast: its reported figures remain. */
    view = p[0]->machine->view;
    const struct sim_peer *a = scenario_in_ring(sim, p[0], 0), *b = scenario_in_ring(sim, p[0], 1);
    scenario_part(sim, a, b, SIM_REFUSE);
    scenario_part(sim, a, b, SIM_WHOLE);
    scenario_run_ms(sim, 1000);
    scenario_update_all(sim, p, 4);
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view));
    bulk_commits(sim, 4, 1);
    /* A restarted master receives them again. */
    sim_master_crash(sim, false);
    sim_master_start(sim);
    WAIT(sim, 3000, sim->master->machine->member_count == 4);
    scenario_run_ms(sim, 200);
    scenario_update_all(sim, p, 4);
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view));
    MUST(sim, measured(sim, 4, 3000, 1000000));
}

/* ---- lines that links share ---- */

enum { SITE = 3, FAST = 12000000, CROSSING = 3000000, NEAR_US = 600, FAR_US = 20000 };

typedef void telling(struct sim *sim, struct sim_peer *peer, const struct pccl_id *to, uint32_t rtt_us, uint64_t rate);

/* All links of two sites are reported: in each site, and between the two. */
static void report_pairs(struct sim *sim, telling *tell, uint64_t within, uint64_t crossing)
{
    for (uint32_t i = 0; i < 2 * SITE; i++)
        for (uint32_t k = 0; k < 2 * SITE; k++)
            if (i != k && i / SITE == k / SITE)
                tell(sim, p[i], &p[k]->id, NEAR_US, within);
            else if (i != k)
                tell(sim, p[i], &p[k]->id, FAR_US, crossing);
}

/* Updates. Returns true if the view has changed. I1 checks that all members have its cost data. */
static bool updates(struct sim *sim)
{
    struct pccl_epoch view = p[0]->machine->view;
    scenario_update_all(sim, p, 2 * SITE);
    scenario_run_ms(sim, 10);
    return !pccl_epoch_equal(&view, &p[0]->machine->view);
}

static bool mesh_is(uint64_t rate, uint64_t share)
{
    struct pccl_cost cost = p[1]->machine->group.cost;
    return cost.mesh == 1 && cost.mesh_rate == rate && cost.mesh_share == share;
}

/*
 * The cost data count all flows over the line of a site. A link measured on a shared line keeps its figure, also
 * after it was dialed again. A link measured alone takes the lower rate, so a link that became slow is found.
 */
SCENARIO(shared_lines)
{
    const uint64_t flows = SITE * SITE;
    scenario_cluster(sim, p, 2 * SITE, 1);
    report_pairs(sim, sim_peer_measured_share, FAST / 10, CROSSING / 10);
    MUST(sim, updates(sim) && mesh_is(CROSSING / 10, CROSSING / 10 / flows)); /* better than nothing */
    report_pairs(sim, sim_peer_measured, FAST, CROSSING);
    MUST(sim, updates(sim) && mesh_is(CROSSING, CROSSING / flows));
    report_pairs(sim, sim_peer_measured_share, FAST / 10, CROSSING / 10);
    MUST(sim, !updates(sim));
    scenario_part(sim, p[0], p[SITE], SIM_REFUSE);
    scenario_part(sim, p[0], p[SITE], SIM_WHOLE);
    scenario_run_ms(sim, 1000);
    report_pairs(sim, sim_peer_measured_share, FAST / 10, CROSSING / 10);
    MUST(sim, !updates(sim) && mesh_is(CROSSING, CROSSING / flows));
    sim_peer_measured(sim, p[0], &p[SITE]->id, FAR_US, CROSSING / 20);
    MUST(sim, updates(sim) && mesh_is(CROSSING / 20, CROSSING / 20));
    sim_peer_measured_share(sim, p[0], &p[SITE]->id, FAR_US, 2 * CROSSING);
    MUST(sim, updates(sim) && mesh_is(CROSSING, CROSSING / flows));
    /* A restarted master receives it again. */
    sim_master_crash(sim, false);
    sim_master_start(sim);
    WAIT(sim, 3000, sim->master->machine->member_count == 2 * SITE);
    scenario_run_ms(sim, 200);
    MUST(sim, !updates(sim) && mesh_is(CROSSING, CROSSING / flows));
    /* A member that lies changes the figures of all plans. */
    for (uint32_t i = 1; i < 2 * SITE; i++)
        sim_peer_measured(sim, p[0], &p[i]->id, FAR_US, i == 1 ? 1 : UINT64_MAX);
    MUST(sim, updates(sim) && mesh_is(1, 1));
    bulk_commits(sim, 2 * SITE, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* ---- messages to removed members ---- */

static bool hears(struct sim *sim, const struct sim_peer *peer, const char *reason)
{
    WAIT(sim, 3000, peer->machine->state == PCCL_PEER_OVER);
    return strstr(pccl_peer_last_reason(peer->machine)->bytes, reason) != NULL;
}

/* Removes a peer for its silence; it learns this later, as its connection has broken by then. */
static void be_silent(struct sim *sim, struct sim_peer *peer)
{
    uint64_t departures = scenario_departures(sim);
    scenario_control(sim, peer, false);
    WAIT(sim, 4000, scenario_departures(sim) == departures + 1);
    if (peer->control != NULL) /* else it has given the connection up itself */
        sim_conn_reset(sim, peer->control);
    scenario_control(sim, peer, true);
}

/* A peer that returns after its removal receives the reason. */
CLUSTER_SCENARIO(gone_words, 6, 1)
{
    be_silent(sim, p[1]);
    MUST(sim, hears(sim, p[1], "removed from the run: silent for 2."));
    /* A request in its name learns only that it departed. */
    p[3]->machine->config.token.bytes[0] ^= 1;
    be_silent(sim, p[3]);
    MUST(sim, hears(sim, p[3], "removed from the run") && !hears(sim, p[3], "silent for"));
    /* A master that restarted, after it has removed a member itself; and another one, without any knowledge. */
    sim_master_crash(sim, false);
    sim_master_start(sim);
    WAIT(sim, 3000, sim->master->machine->member_count == 4);
    be_silent(sim, p[2]);
    MUST(sim, hears(sim, p[2], "removed from the run: silent for 2."));
    scenario_control(sim, p[4], false);
    WAIT(sim, 4000, scenario_departures(sim) == 2);
    sim_master_crash(sim, false);
    sim_master_start(sim);
    WAIT(sim, 3000, sim->master->machine->member_count == 2);
    scenario_control(sim, p[4], true);
    MUST(sim, hears(sim, p[4], "did not reconnect in time"));
    /* For a link: the removed end learns which. */
    p[6] = scenario_join(sim, 8, 0);
    scenario_run_ms(sim, 100);
    struct sim_peer *left[] = {p[0], p[5]};
    scenario_update_all(sim, left, 2);
    WAIT(sim, 1000, scenario_is_over(p[6], PCCL_CALL_CONNECT));
    for (uint32_t i = 0; i < 2; i++)
        scenario_part(sim, p[6], left[i], SIM_REFUSE);
    MUST(sim, hears(sim, p[6], "the master removed this peer: its link to peer "));
    MUST(sim, hears(sim, p[6], "failed, and no ring without that link exists"));
}

/* ---- operations that are started with two schedules, and classes ---- */

/* The same operation is tiny at one and bulk at another: it fails for all in the same way, in any order of launches. */
CLUSTER_SCENARIO(tiny_against_bulk, 3, 1)
{
    for (uint32_t tiny = 0; tiny < 3; tiny++) {
        for (uint32_t late = 0; late < 2; late++) {
            struct pccl_peer_op *ops[3] = {NULL};
            uint64_t tag = 10 * tiny + late;
            if (late == 0)
                ops[tiny] = scenario_tiny(sim, p[tiny], tag, 1);
            for (uint32_t i = 0; i < 3; i++)
                if (i != tiny)
                    ops[i] = scenario_bulk(sim, p[i], tag, 1);
            scenario_run_ms(sim, 5);
            if (late != 0)
                ops[tiny] = scenario_tiny(sim, p[tiny], tag, 1);
            for (uint32_t i = 0; i < 3; i++) {
                WAIT(sim, 100, scenario_is_decided(ops[i]));
                MUST(sim, strstr(ops[i]->reason.bytes, " but peer ") != NULL);
                MUST(sim, strstr(ops[i]->reason.bytes, "through the master") == NULL); /* the counts differ */
                MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_MISMATCH);
                MUST(sim, p[i]->machine->announcements.count == 0);
            }
            scenario_commit_all(sim, p, 3, tag, 2);
        }
    }
}

static void announce(struct sim *sim, const struct pccl_id *from, const struct pccl_msg_ready *ready)
{
    sim_peer_step(sim, p[0], &(struct pccl_peer_event){.kind = PCCL_PEER_ANNOUNCED, .peer = *from, .ready = ready});
}

/* Announcements of newcomers abort nothing here, and take no room from members. */
CLUSTER_SCENARIO(announced_by_others, 2, 1)
{
    struct pccl_msg_ready ready = {.view = p[0]->machine->view, .descriptor = {.count = 1}, .segment_elements = 1};
    const struct pccl_id other = {{200}};
    ready.instance.joint = pccl_peer_joint(p[0]->machine);
    for (uint64_t tag = 0; tag < PCCL_OPS_PER_PEER_MAX + 100; tag++) {
        ready.instance.tag = tag;
        announce(sim, &other, &ready);
        sim_check_peer(sim, p[0]);
    }
    MUST(sim, p[0]->machine->announcements.count == PCCL_OPS_PER_PEER_MAX / 2);
    scenario_run_ms(sim, 20);                                /* all have the same state */
    struct pccl_peer_op *a = scenario_tiny(sim, p[0], 1, 1); /* announced before the launch */
    ready.instance.tag = 1;
    announce(sim, &other, &ready); /* and behind it */
    scenario_run_ms(sim, 20);
    struct pccl_peer_op *b = scenario_tiny(sim, p[1], 1, 1);
    WAIT(sim, 100, scenario_is_decided(a) && scenario_is_decided(b));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_NONE && scenario_take(sim, p[1], b) == PCCL_CLASS_NONE);
    ready.instance.tag = 3;
    announce(sim, &p[1]->id, &ready); /* a member repeats another peer's announcement */
    a = scenario_tiny(sim, p[0], 3, 1);
    WAIT(sim, 100, scenario_is_decided(a));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_MISMATCH);
}

/* A deadline in the new view meets a member that is still in the old one: the class is the view's for both. */
CLUSTER_SCENARIO(class_before_view, 3, 1)
{
    struct pccl_peer_op *old = scenario_bulk(sim, p[1], 1, 1);
    scenario_run_ms(sim, 10);
    scenario_control(sim, p[1], false);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 300, p[0]->machine->group.count == 2);
    MUST(sim, p[1]->machine->group.count == 3);
    struct pccl_peer_op *fresh = scenario_bulk(sim, p[0], 1, 1);
    scenario_abort(sim, p[0], fresh, PCCL_CLASS_DEADLINE);
    scenario_run_ms(sim, 100);
    scenario_control(sim, p[1], true);
    WAIT(sim, 1000, scenario_is_decided(old) && scenario_is_decided(fresh));
    MUST(sim, scenario_take(sim, p[1], old) == PCCL_CLASS_PEER_LOST);
    MUST(sim, scenario_take(sim, p[0], fresh) == PCCL_CLASS_PEER_LOST);
}

/* Announcements of operations that are never launched here are bounded, and do not outlive their era. */
CLUSTER_SCENARIO(announcements, 2, 1)
{
    struct pccl_msg_ready ready = {.view = p[0]->machine->view, .descriptor = {.count = 1}, .segment_elements = 1};
    ready.instance.joint = pccl_peer_joint(p[0]->machine);
    for (uint64_t tag = 0; tag < PCCL_OPS_PER_PEER_MAX + 100; tag++) {
        ready.instance.tag = tag;
        announce(sim, &p[1]->id, &ready);
        sim_check_peer(sim, p[0]);
    }
    MUST(sim, p[0]->machine->announcements.count == PCCL_OPS_PER_PEER_MAX);
    ready.instance.joint += 2; /* no peer can be so far ahead */
    announce(sim, &p[1]->id, &ready);
    scenario_update_all(sim, p, 2);
    MUST(sim, p[0]->machine->announcements.count == 0);
    ready.instance.joint = pccl_peer_joint(p[0]->machine) + 1; /* it has received an update that we have not */
    ready.instance.tag = 1;
    announce(sim, &p[1]->id, &ready);
    scenario_update_all(sim, p, 2);
    MUST(sim, p[0]->machine->announcements.count == 1);
    struct pccl_peer_op *a = scenario_tiny(sim, p[0], 1, 1);
    WAIT(sim, 100, scenario_is_decided(a));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_MISMATCH);
}

/* Gives up `count` operations, on tags from this one on, each alone; 50 at a time. */
static void give_up(struct sim *sim, struct sim_peer *peer, uint64_t tag, uint32_t count)
{
    enum { AT_ONCE = 50 };
    struct pccl_peer_op *ops[AT_ONCE];
    for (uint32_t done = 0; done < count; done += AT_ONCE) {
        for (uint32_t i = 0; i < AT_ONCE; i++)
            ops[i] = scenario_bulk(sim, peer, tag + i, 1 + done + i);
        for (uint32_t i = 0; i < AT_ONCE; i++)
            scenario_abort(sim, peer, ops[i], PCCL_CLASS_ABORTED);
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            WAIT(sim, 1000, scenario_is_decided(ops[i]));
            MUST(sim, scenario_take(sim, peer, ops[i]) == PCCL_CLASS_ABORTED);
        }
    }
}

/* One does not acknowledge outcomes, so others keep theirs; their late launches are among these. */
SCENARIO(late_launches)
{
    enum { EACH = 5000 };
    scenario_cluster(sim, p, 3, 1);
    struct sim_request request = {.tag = 1, .step = 1, .count = 100000, .reduction = PCCL_SUM};
    struct pccl_peer_op *op = NULL;
    scenario_control(sim, p[2], false);
    give_up(sim, p[1], 1, EACH);
    WAIT(sim, 1000, p[0]->machine->tombstone_count == EACH);
    give_up(sim, p[0], 101, EACH);
    for (uint32_t i = 0; i < PCCL_OPS_PER_PEER_MAX - EACH; i++)
        MUST(sim, scenario_take(sim, p[0], scenario_bulk(sim, p[0], 1 + i % 50, 1 + i)) == PCCL_CLASS_ABORTED);
    request.tag = 1 + (PCCL_OPS_PER_PEER_MAX - EACH) % 50;
    request.step = 1 + PCCL_OPS_PER_PEER_MAX - EACH;
    MUST(sim, sim_app_launch(sim, p[0], &request, &op) == PCCL_LIMIT);
    scenario_control(sim, p[2], true);
    WAIT(sim, 8000, p[0]->machine->op_count == p[0]->machine->tombstone_count);
    op = scenario_bulk(sim, p[0], request.tag, request.step);
    MUST(sim, scenario_take(sim, p[0], op) == PCCL_CLASS_ABORTED);
}

/* A member gives up one operation after another that the others never launch: in the end it is the one removed. */
CLUSTER_SCENARIO(lone_aborts, 3, 1)
{
    for (uint32_t i = 0; i < PCCL_OPS_LONE_MAX; i++) {
        struct pccl_peer_op *op = scenario_bulk(sim, p[0], 1 + i % 64, 1 + i);
        scenario_abort(sim, p[0], op, PCCL_CLASS_ABORTED);
        WAIT(sim, 1000, scenario_is_decided(op));
        MUST(sim, scenario_take(sim, p[0], op) == PCCL_CLASS_ABORTED);
    }
    WAIT(sim, 1000, p[1]->machine->tombstone_count == PCCL_OPS_LONE_MAX);
    scenario_commit_all(sim, p, 3, 0, 1); /* remembered operations do not affect others */
    struct pccl_peer_op *last = scenario_bulk(sim, p[0], 1, PCCL_OPS_LONE_MAX + 1);
    scenario_abort(sim, p[0], last, PCCL_CLASS_ABORTED);
    WAIT(sim, 1000, p[1]->machine->group.count == 2 && p[2]->machine->group.count == 2);
    scenario_commit_all(sim, p + 1, 2, 0, 2);
    scenario_update_all(sim, p + 1, 2);
    MUST(sim, p[1]->machine->tombstone_count == 0);
}

/* The members receive an admission before the newcomer does, and start an operation that it launches as a tiny one. */
CLUSTER_SCENARIO(announced_early, 2, 1)
{
    p[2] = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, 100); /* its links are up */
    scenario_control(sim, p[2], false);
    scenario_update_all(sim, p, 2);
    MUST(sim, p[0]->machine->group.count == 3);
    struct pccl_peer_op *a = scenario_bulk(sim, p[0], 1, 1), *b = scenario_bulk(sim, p[1], 1, 1);
    scenario_run_ms(sim, 100); /* announced */
    scenario_control(sim, p[2], true);
    WAIT(sim, 1000, scenario_is_over(p[2], PCCL_CALL_CONNECT));
    struct pccl_peer_op *c = scenario_tiny(sim, p[2], 1, 1);
    WAIT(sim, 1000, scenario_is_decided(a) && scenario_is_decided(b) && scenario_is_decided(c));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_MISMATCH);
    MUST(sim, scenario_take(sim, p[1], b) == PCCL_CLASS_MISMATCH);
    MUST(sim, scenario_take(sim, p[2], c) == PCCL_CLASS_MISMATCH);
}

/* ---- tickets ---- */

/* Returns the answer of p[1] to a link_hello; 0: it takes the link. */
static int answer(const struct pccl_id *from, enum pccl_link_kind kind, uint8_t slot, const struct pccl_id *ticket)
{
    struct pccl_msg_link_hello hello = {.build = *sim_build(),
                                        .lineage = *pccl_peer_lineage(p[1]->machine),
                                        .from = *from,
                                        .to = p[1]->id,
                                        .kind = (uint8_t)kind,
                                        .slot = slot};
    enum pccl_refusal refusal = 0;
    struct pccl_text reason;
    if (ticket != NULL)
        hello.authentication = pccl_bytes_of_secret(ticket);
    pccl_text_clear(&reason);
    return pccl_peer_judge_link(p[1]->machine, &hello, &refusal, &reason) == PCCL_OK ? 0 : (int)refusal;
}

static struct pccl_id ticket_of(const struct pccl_id *from, const struct sim_peer *to)
{
    return pccl_ticket(&to->config.link_key, from, &to->id);
}

static void link_with(struct sim *sim, const struct pccl_id *stranger, bool up)
{
    struct pccl_peer_event event = {.kind = up ? PCCL_PEER_LINK_UP : PCCL_PEER_LINK_DOWN,
                                    .peer = *stranger,
                                    .incoming = true,
                                    .how = PCCL_LINK_CLOSED};
    sim_peer_step(sim, p[1], &event);
}

/*
 * A peer that knows the run, all ids and other tickets is still a stranger; a probe is answered, and carries nothing.
 */
static void expect_refusals(struct sim *sim)
{
    const struct pccl_id to_other = ticket_of(&p[0]->id, p[2]), of_other = ticket_of(&p[2]->id, p[1]),
                         back = ticket_of(&p[1]->id, p[0]), good = ticket_of(&p[0]->id, p[1]);
    const struct pccl_id *const bad[] = {NULL, &to_other, &of_other, &back, &p[0]->id};
    for (uint32_t i = 0; i < PCCL_COUNT_OF(bad); i++)
        for (int kind = PCCL_LINK_RING; kind <= PCCL_LINK_MEASURE; kind++)
            MUST(sim, answer(&p[0]->id, (enum pccl_link_kind)kind, 0, bad[i]) ==
                          (kind == PCCL_LINK_PROBE ? 0 : PCCL_REFUSAL_MALFORMED));
    MUST(sim, answer(&p[0]->id, PCCL_LINK_RING, PCCL_POOL_LAST, &good) == 0 &&
                  answer(&p[0]->id, PCCL_LINK_STATE, 0, &good) == 0);
}

/* Links that the master sent before our view has the peers: only this number; members are unaffected. */
static void expect_bounds(struct sim *sim)
{
    struct pccl_id stranger = p[0]->id;
    const struct pccl_id member = ticket_of(&p[0]->id, p[1]);
    for (uint32_t i = 0; i <= PCCL_EARLY_LINKS_MAX; i++) {
        stranger.bytes[15] = (uint8_t)(p[0]->id.bytes[15] + 1 + i);
        const struct pccl_id ticket = ticket_of(&stranger, p[1]);
        bool fits = i < PCCL_EARLY_LINKS_MAX;
        MUST(sim, answer(&stranger, PCCL_LINK_STATE, 0, &ticket) == PCCL_REFUSAL_IDENTITY);
        MUST(sim, answer(&stranger, PCCL_LINK_RING, 0, &ticket) == (fits ? 0 : PCCL_REFUSAL_FULL));
        MUST(sim, answer(&stranger, PCCL_LINK_RING, PCCL_EARLY_POOL_MAX, &ticket) == PCCL_REFUSAL_FULL);
        if (fits)
            link_with(sim, &stranger, true);
        MUST(sim, answer(&stranger, PCCL_LINK_RING, 1, &ticket) == (fits ? 0 : PCCL_REFUSAL_FULL));
    }
    MUST(sim, answer(&p[0]->id, PCCL_LINK_RING, 0, &member) == 0);
    for (uint32_t i = 0; i < PCCL_EARLY_LINKS_MAX; i++) {
        stranger.bytes[15] = (uint8_t)(p[0]->id.bytes[15] + 1 + i);
        link_with(sim, &stranger, false);
    }
}

/* A peer without a ticket of the master links with no other peer; a peer with one may be ahead of the view. */
CLUSTER_SCENARIO(tickets, 3, 1)
{
    expect_refusals(sim);
    expect_bounds(sim);
    scenario_restart_master(sim, 200);
    WAIT(sim, 5000, !sim->master->machine->recovering && sim->master->machine->member_count == 3);
    expect_refusals(sim); /* tickets live as long as the peer */
    p[3] = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, 100); /* its links are up */
    scenario_update_all(sim, p, 3);
    WAIT(sim, 1000, scenario_is_over(p[3], PCCL_CALL_CONNECT));
    scenario_commit_all(sim, p, 4, 1, 1);
}
