/*
 * The world of an optimization of the topology: tests of paths, and searches for rings in another thread.
 *
 * Between any two hosts there is a path of some latency and rate, from the seed; measurements of it vary a little. A
 * test ends a while after its request, at its limit at the latest: with the path's figures, if the tested peer runs, is
 * in the call, and is reached; otherwise with the reason. Some stall forever, and a few fail for other reasons. The
 * real solver does a search, and the answer arrives after a while: sometimes with the failure of memory for it, and
 * often when it is no longer needed.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { DIAL_US = 30000, REACH_US = 400000, QUESTIONS_MAX = 40 };

/* ---- the paths ---- */

struct sim_path sim_path(const struct sim *sim, uint32_t from, uint32_t to)
{
    uint64_t hash = sim_mix(sim_mix(sim->seed, from), to);
    struct sim_path path = {.rate = UINT64_C(100000) << hash % 21, .rtt_us = 20u << hash / 64 % 14};
    if (sim->plan.equal_paths)
        path = (struct sim_path){.rate = 100000000, .rtt_us = 1000};
    else if (sim_mix(hash, 0x0a11) % 1000 < sim->plan.wayless_permille)
        path.rate = 0;
    if (sim->path_rates[from][to] != 0)
        path.rate = sim->path_rates[from][to] == SIM_RATE_NONE ? 0 : sim->path_rates[from][to];
    return path;
}

void sim_path_set(struct sim *sim, const struct sim_peer *from, const struct sim_peer *to, uint64_t rate)
{
    sim->path_rates[from->process.host][to->process.host] = rate != 0 ? rate : SIM_RATE_NONE;
}

/* ---- tests ---- */

static void report(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_measurement *measurement)
{
    peer->test.running = false;
    sim->totals.tests++;
    sim->totals.tests_failed += measurement->failed;
    sim_note(sim, "p%u: test %llu: %s %u, %llu bytes/s", peer->process.number, (unsigned long long)measurement->test,
             measurement->failed ? "failed" : "done", measurement->how, (unsigned long long)measurement->rate);
    sim_peer_tell(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_TEST_DONE, .measurement = measurement});
}

/* Does it let this one measure? As its driver would judge the first message of the connection. */
static bool answers(const struct sim_peer *other, const struct sim_peer *peer)
{
    struct pccl_msg_link_hello hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                        .build = *sim_build(),
                                        .lineage = *pccl_peer_lineage(peer->machine),
                                        .from = peer->id,
                                        .to = other->id,
                                        .kind = PCCL_LINK_MEASURE,
                                        .authentication = pccl_bytes_of_secret(&peer->test.ticket)};
    enum pccl_refusal refusal;
    struct pccl_text reason;
    pccl_text_clear(&reason);
    return pccl_peer_judge_link(other->machine, &hello, &refusal, &reason) == PCCL_OK;
}

static struct pccl_peer_measurement measure(struct sim *sim, const struct sim_peer *peer)
{
    struct pccl_peer_measurement seen = {.test = peer->test.number, .failed = true};
    const struct sim_peer *other = sim_peer_find(sim, &peer->test.peer);
    uint32_t from = peer->process.host, to = other != NULL ? other->process.host : 0;
    struct sim_path path = sim_path(sim, from, to);
    enum sim_cut cut = other != NULL ? sim_net_between(sim, &peer->process, &other->process) : SIM_WHOLE;
    enum pccl_link_end shaken = 0;
    if (peer->process.starved)
        return seen;
    if (other == NULL || sim->host_down[to] || cut == SIM_DROP || path.rate == 0)
        seen.how = PCCL_LINK_TIMEOUT;
    else if (cut == SIM_REFUSE || !other->process.alive)
        seen.how = PCCL_LINK_REFUSED;
    else if (!sim_peer_runs(other))
        seen.how = PCCL_LINK_SILENT;
    else if (other->process.starved)
        seen.how = PCCL_LINK_TIMEOUT;
    else if ((shaken = sim_shake_outcome(sim, from, to)) != 0)
        seen.how = (uint8_t)shaken;
    else if (!answers(other, peer))
        seen.how = 0; /* it does not blame the path */
    else
        seen = (struct pccl_peer_measurement){
            .test = peer->test.number,
            .rtt_us = path.rtt_us,
            .rate = sim->plan.equal_paths ? path.rate : path.rate * sim_between(sim, 92, 108) / 100};
    return seen;
}

static bool is_current(const struct sim_peer *peer, uint64_t generation)
{
    return peer->process.alive && peer->machine != NULL && peer->test.running && peer->test.generation == generation;
}

static void on_test(struct sim *sim, void *subject, uint64_t generation, uint64_t breaks)
{
    struct sim_peer *peer = subject;
    if (!is_current(peer, generation))
        return;
    if (!sim_peer_runs(peer)) {
        sim_at(sim, pccl_max_u64(sim->now + SIM_MS, peer->process.stopped_until), on_test, peer, generation, breaks);
        return;
    }
    struct pccl_peer_measurement seen = measure(sim, peer);
    if (breaks != 0)
        seen = (struct pccl_peer_measurement){.test = peer->test.number, .failed = true};
    report(sim, peer, &seen);
}

void sim_test_begin(struct sim *sim, struct sim_peer *peer, const struct pccl_peer_test *test)
{
    PCCL_ASSERT(test->candidate_count > 0 && test->limit_ms > 0 && !pccl_id_equal(&test->peer, &peer->id));
    sim->totals.tests_begun++;
    peer->test = (struct sim_test){.running = true,
                                   .number = test->number,
                                   .peer = test->peer,
                                   .ticket = test->ticket,
                                   .generation = peer->test.generation + 1};
    sim_note(sim, "p%u: is to test its way to %02x%02x for %u ms", peer->process.number, test->peer.bytes[0],
             test->peer.bytes[1], test->limit_ms);
    if (sim->tests_by_hand)
        return;
    bool wrong = !sim->faults_stopped;
    if (wrong && sim_random(sim, 1000) < sim->plan.stall_permille)
        return; /* for ever */
    uint64_t most_us = sim->plan.test_us != 0 ? sim->plan.test_us : test->limit_ms * SIM_MS;
    uint64_t after = sim_between(sim, SIM_MS, most_us + DIAL_US);
    if (sim_chance(sim, 10))
        after += sim_random(sim, REACH_US);
    sim_at(sim, sim->now + after, on_test, peer, peer->test.generation, wrong && sim_chance(sim, 3));
}

void sim_test_finish(struct sim *sim, struct sim_peer *peer)
{
    if (!peer->test.running)
        sim_fail(sim, "p%u tests nothing", peer->process.number);
    struct pccl_peer_measurement seen = measure(sim, peer);
    report(sim, peer, &seen);
}

/* ---- searches ---- */

struct sim_search {
    struct sim_search *next;
    uint64_t boot, ticket;
    struct pccl_ring_problem problem;
    bool stopped, over;
    void *rates, *rtts_us, *ring; /* owned: the problem's */
};

static void *copy(const void *from, size_t bytes)
{
    void *to = malloc(bytes);
    if (to == NULL)
        abort();
    memcpy(to, from, bytes);
    return to;
}

static bool go_on(void *context)
{
    uint32_t *questions = context;
    return ++*questions < QUESTIONS_MAX;
}

static void tell(struct sim *sim, struct sim_search *search, enum pccl_status status,
                 const struct pccl_ring_answer *found, const uint32_t *ring)
{
    search->over = true;
    sim->totals.searches++;
    sim_note(sim, "search %llu is over: %s, slowest %llu%s", (unsigned long long)search->ticket,
             pccl_status_name(status), (unsigned long long)found->worth.slowest, found->proven ? "" : ", not proven");
    struct pccl_master_event event = {.kind = PCCL_MASTER_SOLVED,
                                      .now_us = sim->now,
                                      .ticket = search->ticket,
                                      .status = status,
                                      .answer = found,
                                      .ring = ring};
    sim_master_event(sim, sim->master, &event);
}

/* Hands in the real answer or, if `broken`, that the search could not be tried. */
static void answer(struct sim *sim, struct sim_search *search, bool broken)
{
    uint32_t *ring = calloc(search->problem.count, sizeof *ring), questions = 0;
    struct pccl_ring_answer found = {0};
    if (ring == NULL)
        abort();
    enum pccl_status status = PCCL_MEMORY;
    if (!broken)
        status = pccl_ring_solve(&search->problem, &sim->driver_hook, go_on, &questions, ring, &found);
    tell(sim, search, status, &found, ring);
    free(ring);
}

static void on_search(struct sim *sim, void *subject, uint64_t broken, uint64_t unused)
{
    struct sim_search *search = subject;
    if (search->over || !sim_master_is_up(sim) || sim->master->config.boot != search->boot)
        return;
    if (search->stopped && sim_chance(sim, 50)) {
        search->over = true; /* in time */
        return;
    }
    if (!sim_process_runs(&sim->master->process)) {
        sim_at(sim, pccl_max_u64(sim->now + SIM_MS, sim->master->process.stopped_until), on_search, search, broken, 0);
        return;
    }
    answer(sim, search, broken != 0);
}

void sim_search_begin(struct sim *sim, const struct sim_master *master, uint64_t ticket,
                      const struct pccl_ring_problem *problem)
{
    size_t cells = (size_t)problem->count * problem->count;
    struct sim_search *search = calloc(1, sizeof *search);
    if (search == NULL)
        abort();
    *search = (struct sim_search){.next = sim->searches,
                                  .boot = master->config.boot,
                                  .ticket = ticket,
                                  .problem = *problem,
                                  .rates = copy(problem->rates, cells * sizeof *problem->rates),
                                  .rtts_us = copy(problem->rtts_us, cells * sizeof *problem->rtts_us),
                                  .ring = copy(problem->ring, problem->count * sizeof *problem->ring)};
    search->problem.rates = search->rates;
    search->problem.rtts_us = search->rtts_us;
    search->problem.ring = search->ring;
    sim->searches = search;
    sim_note(sim, "search %llu for a ring of %u", (unsigned long long)ticket, problem->count);
    if (sim->searches_by_hand)
        return;
    bool broken = !sim->faults_stopped && sim_random(sim, 1000) < sim->plan.search_failure_permille;
    sim_at(sim, sim->now + sim_between(sim, 50, sim->plan.search_us), on_search, search, broken, 0);
}

void sim_search_stop(struct sim *sim, const struct sim_master *master, uint64_t ticket)
{
    for (struct sim_search *search = sim->searches; search != NULL; search = search->next)
        if (search->boot == master->config.boot && search->ticket == ticket)
            search->stopped = true;
}

/* The latest that is not over; or NULL. */
static struct sim_search *open_search(const struct sim *sim)
{
    struct sim_search *search = sim->searches;
    while (search != NULL && (search->over || search->boot != sim->master->config.boot))
        search = search->next;
    return search;
}

bool sim_search_is_open(const struct sim *sim) { return sim_master_is_up(sim) && open_search(sim) != NULL; }

const struct pccl_ring_problem *sim_search_problem(const struct sim *sim)
{
    PCCL_ASSERT(sim_search_is_open(sim));
    return &open_search(sim)->problem;
}

void sim_search_finish(struct sim *sim, bool broken)
{
    if (!sim_search_is_open(sim))
        sim_fail(sim, "nothing is searched for");
    answer(sim, open_search(sim), broken);
}

void sim_search_answer(struct sim *sim, const uint32_t *ring, bool proven)
{
    if (!sim_search_is_open(sim))
        sim_fail(sim, "nothing is searched for");
    struct sim_search *search = open_search(sim);
    uint32_t *members = calloc(search->problem.count, sizeof *members);
    if (members == NULL)
        abort();
    for (uint32_t i = 0; i < search->problem.count; i++)
        members[i] = search->problem.ring[ring[i]];
    struct pccl_ring_answer found = {pccl_ring_worth(&search->problem, members), proven};
    tell(sim, search, PCCL_OK, &found, members);
    free(members);
}

void sim_searches_fini(struct sim *sim)
{
    while (sim->searches != NULL) {
        struct sim_search *search = sim->searches;
        sim->searches = search->next;
        free(search->rates);
        free(search->rtts_us);
        free(search->ring);
        free(search);
    }
}
