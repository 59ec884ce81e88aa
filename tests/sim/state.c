/*
 * The transfer of shared state, abstracted. A caller's memory is one number, and one more for the tensors that may
 * differ between peers. A caller that must fetch writes its memory at a random moment after the plan, and has
 * everything a while later, if one of the named donors then gives it: one that runs, whose call of the same round has
 * not ended, that holds the elected content, and that the network reaches. If no donor does for long, the transfer
 * fails with a reason. A later plan replaces an earlier one; everything ends with the call. The real transfer (chunks,
 * digests, connections) has separate tests.
 */
#include "sim.h"

#include "peer/state.h"

enum { NO_DONOR_US = 2000000, AGAIN_US = 20000 };

struct pccl_digest sim_state_digest(uint64_t content)
{
    return (struct pccl_digest){.low = sim_mix(content, 1), .high = sim_mix(content, 2)};
}

struct pccl_digest sim_state_shown(const struct sim_state *state)
{
    return sim_state_digest(state->mimics != 0 ? state->mimics : state->content);
}

struct pccl_proof sim_state_proof(uint64_t content)
{
    struct pccl_proof proof = {0};
    for (unsigned i = 0; i < sizeof proof.low.bytes; i++)
        proof.low.bytes[i] = (uint8_t)(sim_mix(content, 3 + i / 8) >> i % 8 * 8);
    return proof;
}

static bool holds(const struct sim_state *state, const struct pccl_digest *content)
{
    struct pccl_digest mine = sim_state_shown(state);
    return !state->torn && mine.low == content->low && mine.high == content->high;
}

void sim_state_init(struct sim *sim, struct sim_peer *peer)
{
    peer->state.content = sim_mix(sim->seed ^ 0x57a7e, peer->process.number);
    peer->state.own = sim_mix(sim->seed ^ 0x0e11, peer->process.number);
}

/* ---- donors ---- */

/* Returns true if it gives the content. Its data is checked by the master's proof. */
static bool serves(struct sim *sim, const struct sim_peer *from, const struct sim_peer *to)
{
    struct pccl_proof proof = sim_state_proof(from->state.content);
    return pccl_proof_equal(&proof, &to->state.proof) && sim_peer_runs(from) &&
           from->machine->state == PCCL_PEER_MEMBER && from->machine->calls[PCCL_ROUND_SYNC].outstanding &&
           pccl_peer_sync_round(from->machine) == to->state.plan.round &&
           holds(&from->state, &to->state.plan.content) &&
           sim_net_between(sim, &from->process, &to->process) == SIM_WHOLE &&
           sim_shake_outcome(sim, to->process.host, from->process.host) == 0;
}

/* Finds a donor that gives everything, if the tensors that may differ are wanted. */
static const struct sim_peer *find_server(struct sim *sim, const struct sim_peer *to)
{
    for (uint32_t i = 0; i < to->state.donor_count; i++) {
        const struct sim_donor *donor = &to->state.donors[i];
        const struct sim_peer *from = sim_peer_find(sim, &donor->id);
        if (from != NULL && serves(sim, from, to) && (donor->holds_unequal || !to->state.plan.takes_unequal))
            return from;
    }
    return NULL;
}

/* ---- the transfer ---- */

static void tell(struct sim *sim, struct sim_peer *peer, bool complete, const char *why)
{
    struct pccl_text reason;
    pccl_text_clear(&reason);
    pccl_text_add(&reason, why);
    peer->state.fetching = false;
    peer->state.failed = !complete;
    *(complete ? &sim->totals.fetches : &sim->totals.fetches_failed) += 1;
    sim_note(sim, "p%u: shared state %s%s", peer->process.number, complete ? "is there" : "cannot be had: ", why);
    sim_peer_tell(sim, peer,
                  &(struct pccl_peer_event){.kind = PCCL_PEER_SYNC_DONE, .complete = complete, .reason = &reason});
}

static void touch(struct sim *sim, struct sim_peer *peer)
{
    if (holds(&peer->state, &peer->state.plan.content))
        return; /* nothing of it differs */
    sim_note(sim, "p%u: shared state is written to", peer->process.number);
    sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_SYNC_TOUCHED});
    peer->state.content = sim_mix(peer->state.content, 0x7047);
    peer->state.torn = true;
}

static void complete(struct sim *sim, struct sim_peer *peer, const struct sim_peer *from)
{
    touch(sim, peer);
    peer->state.content = from->state.content;
    peer->state.torn = false;
    if (peer->state.plan.takes_unequal)
        peer->state.own = from->state.own;
    tell(sim, peer, true, "");
}

static bool is_current(const struct sim_peer *peer, uint64_t generation)
{
    return peer->process.alive && peer->machine != NULL && peer->state.fetching && peer->state.generation == generation;
}

static void on_fetch(struct sim *sim, void *subject, uint64_t generation, uint64_t writes)
{
    struct sim_peer *peer = subject;
    if (!is_current(peer, generation))
        return;
    if (!sim_peer_runs(peer)) {
        sim_at(sim, pccl_max_u64(sim->now + SIM_MS, peer->process.stopped_until), on_fetch, peer, generation, writes);
        return;
    }
    const struct sim_peer *from = find_server(sim, peer);
    if (from == NULL) {
        if (peer->state.alone_since == 0)
            peer->state.alone_since = sim->now;
        if (sim->now >= peer->state.alone_since + NO_DONOR_US)
            tell(sim, peer, false, "nobody who was named gives it");
        else
            sim_at(sim, sim->now + AGAIN_US, on_fetch, peer, generation, writes);
        return;
    }
    peer->state.alone_since = 0;
    if (writes == 0) {
        touch(sim, peer);
        sim_at(sim, sim->now + sim_between(sim, 100, sim->plan.state_us), on_fetch, peer, generation, 1);
        return;
    }
    complete(sim, peer, from);
}

static void on_break(struct sim *sim, void *subject, uint64_t generation, uint64_t unused)
{
    struct sim_peer *peer = subject;
    if (is_current(peer, generation) && sim_peer_runs(peer))
        tell(sim, peer, false, "the simulated transfer failed");
}

/* ---- requests of the machine ---- */

static void on_proven(struct sim *sim, void *subject, uint64_t generation, uint64_t unused)
{
    struct sim_peer *peer = subject;
    if (!peer->process.alive || peer->machine == NULL || peer->state.generation != generation)
        return;
    if (!sim_peer_runs(peer)) {
        sim_at(sim, pccl_max_u64(sim->now + SIM_MS, peer->process.stopped_until), on_proven, peer, generation, 0);
        return;
    }
    struct pccl_proof proof = sim_state_proof(peer->state.content);
    sim_note(sim, "p%u: its shared state is proven", peer->process.number);
    sim_peer_tell(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_SYNC_PROVEN, .proof = &proof});
}

void sim_state_planned(struct sim *sim, struct sim_peer *peer, const struct pccl_sync_plan *plan)
{
    struct sim_state *state = &peer->state;
    state->plan = *plan;
    state->generation++;
    state->donor_count = 0;
    state->alone_since = 0;
    state->fetching = plan->requests;
    sim_note(sim, "p%u: %s shared state of revision %llu%s", peer->process.number,
             plan->requests ? "fetches" : "serves", (unsigned long long)plan->revision,
             plan->takes_unequal ? ", all tensors" : "");
    uint64_t prove_us = state->prove_us != 0 ? state->prove_us : sim_between(sim, 100, 5 * SIM_MS);
    sim_at(sim, sim->now + prove_us, on_proven, peer, state->generation, 0);
    if (!plan->requests || sim->state_by_hand)
        return;
    sim_at(sim, sim->now + sim_between(sim, 100, sim->plan.state_us), on_fetch, peer, state->generation, 0);
    if (!sim->faults_stopped && sim_chance(sim, sim->plan.state_failure_percent))
        sim_at(sim, sim->now + sim_random(sim, sim->plan.state_us), on_break, peer, state->generation, 0);
}

void sim_state_donor(struct sim *sim, struct sim_peer *peer, const struct pccl_id *donor, bool holds_unequal,
                     const struct pccl_proof *proof)
{
    struct sim_state *state = &peer->state;
    state->proof = *proof;
    if (pccl_id_equal(donor, &peer->id))
        sim_fail(sim, "S3 p%u is to fetch from itself", peer->process.number);
    for (uint32_t i = 0; i < state->donor_count; i++)
        if (pccl_id_equal(&state->donors[i].id, donor))
            sim_fail(sim, "S3 p%u is told of the same peer twice", peer->process.number);
    if (state->donor_count == SIM_DONORS_MAX)
        sim_fail(sim, "I11 p%u is told of too many peers to fetch from", peer->process.number);
    state->donors[state->donor_count++] = (struct sim_donor){*donor, holds_unequal};
}

void sim_state_over(struct sim_peer *peer)
{
    peer->state.fetching = false;
    peer->state.generation++;
}

/* ---- by hand ---- */

void sim_state_touch(struct sim *sim, struct sim_peer *peer)
{
    if (!peer->state.fetching)
        sim_fail(sim, "p%u fetches nothing", peer->process.number);
    touch(sim, peer);
}

bool sim_state_finish(struct sim *sim, struct sim_peer *peer)
{
    const struct sim_peer *from = peer->state.fetching ? find_server(sim, peer) : NULL;
    if (from != NULL)
        complete(sim, peer, from);
    return from != NULL;
}

void sim_state_break(struct sim *sim, struct sim_peer *peer)
{
    if (!peer->state.fetching)
        sim_fail(sim, "p%u fetches nothing", peer->process.number);
    tell(sim, peer, false, "broken by hand");
}
