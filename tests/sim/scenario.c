/* The helpers of scenarios: peers without a program, which the scenario drives step by step. */
#include "scenario.h"
#include "master/rounds_election.h"
#include "peer/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_scenario sim_scenarios[SCENARIOS_MAX];
uint32_t sim_scenario_count;

void scenario_add(const char *identifier, void (*run)(struct sim *sim))
{
    if (sim_scenario_count == SCENARIOS_MAX)
        abort();
    struct sim_scenario *added = &sim_scenarios[sim_scenario_count++];
    added->run = run;
    (void)snprintf(added->name, sizeof added->name, "%s", identifier);
    for (char *at = added->name; (at = strchr(at, '_')) != NULL;)
        *at = '-';
}

void scenario_run_ms(struct sim *sim, uint64_t ms) { sim_run_until(sim, sim->now + ms * SIM_MS, NULL); }

static void after_call(struct sim *sim, struct sim_peer *peer)
{
    if (peer->machine == NULL)
        return;
    sim_check_peer(sim, peer);
    sim_process_arm(sim, &peer->process);
}

bool scenario_is_over(const struct sim_peer *peer, enum pccl_call call) { return peer->app.call_over[call]; }

struct sim_peer *scenario_join(struct sim *sim, uint32_t host, uint32_t group)
{
    struct sim_peer *peer = sim_peer_start(sim, host, sim->next_port[host]++, group, true);
    if (sim_peer_call(sim, peer, PCCL_CALL_CONNECT) != PCCL_OK)
        sim_fail(sim, "p%u cannot connect", peer->process.number);
    after_call(sim, peer);
    return peer;
}

void scenario_update(struct sim *sim, struct sim_peer *peer)
{
    peer->app.call_over[PCCL_CALL_UPDATE] = false;
    sim_check_asked(sim, peer, PCCL_ROUND_UPDATE);
    enum pccl_status status = sim_peer_call(sim, peer, PCCL_CALL_UPDATE);
    if (status != PCCL_OK)
        sim_fail(sim, "p%u may not update: %s", peer->process.number, pccl_status_name(status));
    after_call(sim, peer);
}

void scenario_optimize(struct sim *sim, struct sim_peer *peer)
{
    peer->app.call_over[PCCL_CALL_OPTIMIZE] = false;
    sim_check_asked(sim, peer, PCCL_ROUND_OPTIMIZE);
    enum pccl_status status = sim_peer_call(sim, peer, PCCL_CALL_OPTIMIZE);
    if (status != PCCL_OK)
        sim_fail(sim, "p%u may not optimize: %s", peer->process.number, pccl_status_name(status));
    after_call(sim, peer);
}

void scenario_optimized(struct sim *sim, struct sim_peer **peers, uint32_t count, enum pccl_status status)
{
    for (uint32_t i = 0; i < count; i++) {
        WAIT(sim, 12000, scenario_is_over(peers[i], PCCL_CALL_OPTIMIZE));
        if (peers[i]->app.call_status[PCCL_CALL_OPTIMIZE] != status)
            sim_fail(sim, "p%u: the optimization ends with %s", peers[i]->process.number,
                     pccl_status_name(peers[i]->app.call_status[PCCL_CALL_OPTIMIZE]));
    }
}

void scenario_optimize_all(struct sim *sim, struct sim_peer **peers, uint32_t count, enum pccl_status status)
{
    for (uint32_t i = 0; i < count; i++)
        scenario_optimize(sim, peers[i]);
    scenario_optimized(sim, peers, count, status);
}

void scenario_pending(struct sim *sim, struct sim_peer *peer)
{
    peer->app.call_over[PCCL_CALL_PENDING] = false;
    sim_check_asked(sim, peer, PCCL_ROUND_PENDING);
    enum pccl_status status = sim_peer_call(sim, peer, PCCL_CALL_PENDING);
    if (status != PCCL_OK)
        sim_fail(sim, "p%u may not ask for pending peers: %s", peer->process.number, pccl_status_name(status));
    after_call(sim, peer);
}

void scenario_withdraw(struct sim *sim, struct sim_peer *peer, enum pccl_call call)
{
    sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_WITHDRAW, .call = call});
    after_call(sim, peer);
}

void scenario_update_all(struct sim *sim, struct sim_peer **peers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        scenario_update(sim, peers[i]);
    for (uint32_t i = 0; i < count; i++) {
        WAIT(sim, 2000, scenario_is_over(peers[i], PCCL_CALL_UPDATE));
        MUST(sim, peers[i]->app.call_status[PCCL_CALL_UPDATE] == PCCL_OK);
    }
}

void scenario_add_seen(struct pccl_seen_link *links, uint32_t *count, struct pccl_seen_link link)
{
    uint32_t at = (*count)++;
    for (; at > 0 && pccl_id_compare(&links[at - 1].peer, &link.peer) > 0; at--)
        links[at] = links[at - 1];
    links[at] = link;
}

void scenario_cluster(struct sim *sim, struct sim_peer **peers, uint32_t count, uint32_t groups)
{
    sim_quiet_begin(sim);
    peers[0] = scenario_join(sim, 1, 0);
    WAIT(sim, 1000, scenario_is_over(peers[0], PCCL_CALL_CONNECT));
    for (uint32_t i = 1; i < count; i++)
        peers[i] = scenario_join(sim, 1 + i % (SIM_HOSTS_MAX - 1), i % groups);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, peers, 1);
    for (uint32_t i = 0; i < count; i++) {
        WAIT(sim, 1000, scenario_is_over(peers[i], PCCL_CALL_CONNECT));
        MUST(sim, peers[i]->app.call_status[PCCL_CALL_CONNECT] == PCCL_OK);
    }
    scenario_run_ms(sim, 50);
    MUST(sim, sim->master->machine->member_count == count);
}

uint32_t scenario_links(struct sim_peer **peers, uint32_t count)
{
    uint32_t links = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; peers[i]->process.alive && k < peers[i]->link_count; k++)
            links += !peers[i]->links[k].incoming && peers[i]->links[k].up;
    return links;
}

struct sim_peer *scenario_in_ring(struct sim *sim, const struct sim_peer *peer, uint32_t place)
{
    return sim_peer_find(sim, &peer->machine->group.ring[place % peer->machine->group.count]);
}

struct pccl_peer_op *scenario_ask(struct sim *sim, struct sim_peer *peer, const struct sim_request *request)
{
    struct pccl_peer_op *op = NULL;
    enum pccl_status status = sim_app_launch(sim, peer, request, &op);
    if (status != PCCL_OK)
        sim_fail(sim, "p%u may not launch: %s", peer->process.number, pccl_status_name(status));
    if (!scenario_is_decided(op))
        sim_app_await(sim, peer, op);
    after_call(sim, peer);
    return op;
}

struct pccl_peer_op *scenario_launch(struct sim *sim, struct sim_peer *peer, uint64_t tag, uint64_t step, bool tiny,
                                     uint32_t timeout_ms)
{
    struct sim_request request = {.tag = tag,
                                  .step = step,
                                  .tiny = tiny,
                                  .count = tiny ? SIM_ELEMENTS : 100000,
                                  .reduction = PCCL_SUM,
                                  .timeout_ms = timeout_ms};
    return scenario_ask(sim, peer, &request);
}

struct pccl_peer_op *scenario_tiny(struct sim *sim, struct sim_peer *peer, uint64_t tag, uint64_t step)
{
    return scenario_launch(sim, peer, tag, step, true, 0);
}

struct pccl_peer_op *scenario_bulk(struct sim *sim, struct sim_peer *peer, uint64_t tag, uint64_t step)
{
    return scenario_launch(sim, peer, tag, step, false, 0);
}

struct pccl_peer_op *scenario_send(struct sim *sim, struct sim_peer *peer, const struct sim_peer *other, bool sends,
                                   uint64_t step, bool tiny)
{
    struct sim_request request = {.tag = step / 10,
                                  .step = step,
                                  .collective = PCCL_SEND,
                                  .sends = sends,
                                  .anybody = other == NULL,
                                  .tiny = tiny,
                                  .count = tiny ? 2 : 100000};
    if (other != NULL)
        request.other = other->id;
    return scenario_ask(sim, peer, &request);
}

void scenario_abort(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op, enum pccl_class class)
{
    sim_check_failing(sim, peer, op);
    sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_OP_ABORT, .op = op, .class = class});
    after_call(sim, peer);
}

bool scenario_is_decided(const struct pccl_peer_op *op) { return op->state == PCCL_OP_DECIDED; }

enum pccl_class scenario_take(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op)
{
    MUST(sim, scenario_is_decided(op));
    enum pccl_class class = op->class;
    sim_app_release(sim, peer, op);
    after_call(sim, peer);
    return class;
}

void scenario_must_end(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op, enum pccl_class class,
                       const char *words)
{
    WAIT(sim, 15000, scenario_is_decided(op));
    if (op->class != class || strstr(op->reason.bytes, words) == NULL)
        sim_fail(sim, "p%u: class %u, and not %u: %s", peer->process.number, op->class, class, op->reason.bytes);
    (void)scenario_take(sim, peer, op);
}

void scenario_commit_all(struct sim *sim, struct sim_peer **peers, uint32_t count, uint64_t tag, uint64_t step)
{
    struct pccl_peer_op *ops[SIM_HOSTS_MAX];
    scenario_run_ms(sim, 20); /* all peers have the same state */
    for (uint32_t i = 0; i < count; i++)
        ops[i] = scenario_tiny(sim, peers[i], tag, step);
    for (uint32_t i = 0; i < count; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, peers[i], ops[i]) == PCCL_CLASS_NONE);
    }
}

void scenario_admit(struct sim *sim, struct sim_peer **peers, uint32_t count, struct sim_peer *newcomer)
{
    scenario_update_all(sim, peers, count);
    WAIT(sim, 1000, pccl_peer_is_connected(newcomer->machine));
    peers[count] = newcomer;
    scenario_run_ms(sim, 50);
    scenario_commit_all(sim, peers, count + 1, 1, 1);
}

void scenario_control(struct sim *sim, const struct sim_peer *peer, bool whole)
{
    sim_note(sim, "control of p%u is %s", peer->process.number, whole ? "whole" : "cut");
    sim_net_cut(sim, peer->process.host, 0, SIM_CONTROL, whole ? SIM_WHOLE : SIM_DROP);
}

void scenario_commit_at_first(struct sim *sim, struct sim_peer **peers, struct pccl_peer_op **ops)
{
    for (uint32_t i = 1; i < 3; i++)
        sim_bulk_finish(sim, peers[i], ops[i]);
    scenario_run_ms(sim, 20);
    for (uint32_t i = 1; i < 3; i++)
        scenario_control(sim, peers[i], false);
    sim_bulk_finish(sim, peers[0], ops[0]);
    WAIT(sim, 100, scenario_is_decided(ops[0]));
}

void scenario_deaf_after(struct sim *sim, const struct sim_peer *peer, uint16_t type)
{
    if (peer->control != NULL)
        peer->control->ends[1].last_type = type;
}

void scenario_hold(struct sim_peer *peer, uint64_t content, uint64_t revision)
{
    peer->state.content = content;
    peer->state.mimics = 0;
    peer->state.revision = revision;
}

void scenario_sync(struct sim *sim, struct sim_peer *peer, uint8_t strategy)
{
    peer->state.strategy = strategy;
    enum pccl_status status = sim_sync_ask(sim, peer);
    if (status != PCCL_OK)
        sim_fail(sim, "p%u may not synchronize: %s", peer->process.number, pccl_status_name(status));
    after_call(sim, peer);
}

enum pccl_status scenario_synced(struct sim *sim, const struct sim_peer *peer)
{
    MUST(sim, scenario_is_over(peer, PCCL_CALL_SYNC));
    return peer->app.call_status[PCCL_CALL_SYNC];
}

void scenario_sync_all(struct sim *sim, struct sim_peer **peers, uint32_t count, uint64_t content, uint64_t revision)
{
    bool by_hand = sim->state_by_hand;
    sim->state_by_hand = false;
    for (uint32_t i = 0; i < count; i++)
        scenario_sync(sim, peers[i], PCCL_ENFORCE_POPULAR);
    for (uint32_t i = 0; i < count; i++) {
        WAIT(sim, 1000, scenario_is_over(peers[i], PCCL_CALL_SYNC));
        MUST(sim, scenario_synced(sim, peers[i]) == PCCL_OK);
        MUST(sim, peers[i]->state.content == content && pccl_peer_sync_revision(peers[i]->machine) == revision);
        peers[i]->state.revision = revision;
    }
    sim->state_by_hand = by_hand;
}

void scenario_part(struct sim *sim, const struct sim_peer *a, const struct sim_peer *b, enum sim_cut how)
{
    sim_net_cut(sim, a->process.host, b->process.host, SIM_DATA, how);
    for (struct sim_conn *conn = sim->conns; how == SIM_REFUSE && conn != NULL; conn = conn->next)
        if (conn->plane == SIM_DATA && !conn->broken && conn->ends[0].open && conn->ends[1].open &&
            ((conn->ends[0].process == &a->process && conn->ends[1].process == &b->process) ||
             (conn->ends[0].process == &b->process && conn->ends[1].process == &a->process)))
            sim_conn_reset(sim, conn);
}

void scenario_restart_master(struct sim *sim, uint64_t after_ms)
{
    sim_master_crash(sim, true);
    scenario_run_ms(sim, after_ms);
    sim_master_start(sim);
}

uint64_t scenario_departures(const struct sim *sim) { return pccl_master_count(sim->master->machine).departures; }

/* ---- members that lie ---- */

/* Opens a connection to the master, from a peer unknown to the simulator. */
struct sim_conn *scenario_dial_master(struct sim *sim)
{
    struct sim_conn *conn = sim_dial(sim, NULL, SIM_ROLE_STRANGER, SIM_CONTROL, 0, SIM_MASTER_PORT);
    WAIT(sim, 100, conn->ends[0].established);
    return conn;
}

void scenario_say(struct sim *sim, struct sim_conn *conn, const struct pccl_msg *msg, uint64_t sequence)
{
    uint8_t bytes[2048];
    size_t length = pccl_frame_size(msg);
    MUST(sim, length <= sizeof bytes);
    pccl_frame_encode(msg, sequence, 0, bytes);
    sim_conn_send(sim, conn, 0, bytes, length);
}

struct pccl_msg scenario_hello_of(const struct sim_peer *peer, uint64_t boot)
{
    const struct pccl_peer_config *config = &peer->machine->config;
    return (struct pccl_msg){.type = PCCL_MSG_hello,
                             .as.hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                          .build = *sim_build(),
                                          .boot = boot,
                                          .peer = config->id,
                                          .token = config->token,
                                          .link_key = config->link_key,
                                          .group = config->group,
                                          .port = config->port,
                                          .candidates = config->candidates,
                                          .candidates_count = config->candidate_count}};
}

void scenario_forge(struct sim *sim, struct sim_peer *peer, const struct pccl_msg *msg)
{
    pccl_peer_send(peer->machine, msg);
    sim_process_arm(sim, &peer->process);
}

void scenario_lie(struct sim *sim, struct sim_peer *peer) { sim->lies = peer->lies = true; }
