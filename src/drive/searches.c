#include "drive/searches.h"

#include "net/guard.h"

#include <stdatomic.h>
#include <string.h>

struct pccl_search {
    uv_work_t work;
    struct pccl_searches *searches;
    struct pccl_search *newer, *older;
    uint64_t ticket;
    atomic_bool stopped;
    bool ended;                       /* its result can be taken */
    struct pccl_ring_problem problem; /* points to the copies below */
    uint64_t *rates;
    uint32_t *rtts_us, *before; /* `before` is NULL without a previous ring */
    /* Written by the worker: */
    uint32_t *ring;
    struct pccl_ring_answer answer;
    enum pccl_status status;
};

/* ---- memory ---- */

static size_t cells(const struct pccl_search *search) { return (size_t)search->problem.count * search->problem.count; }

static void destroy(struct pccl_search *search)
{
    const struct pccl_memory *memory = search->searches->memory;
    pccl_release(memory, search->rates, cells(search) * sizeof *search->rates);
    pccl_release(memory, search->rtts_us, cells(search) * sizeof *search->rtts_us);
    pccl_release(memory, search->before, search->problem.count * sizeof *search->before);
    pccl_release(memory, search->ring, search->problem.count * sizeof *search->ring);
    pccl_release(memory, search, sizeof *search);
}

static void *copy(const struct pccl_memory *memory, const void *from, size_t bytes)
{
    void *to = pccl_allocate(memory, bytes);
    if (to)
        memcpy(to, from, bytes);
    return to;
}

/* Copies the problem. Returns false if out of memory. */
static bool take(struct pccl_search *search, const struct pccl_ring_problem *problem)
{
    const struct pccl_memory *memory = search->searches->memory;
    search->problem = *problem;
    search->problem.rates = search->rates = copy(memory, problem->rates, cells(search) * sizeof *search->rates);
    search->problem.rtts_us = search->rtts_us = copy(memory, problem->rtts_us, cells(search) * sizeof *search->rtts_us);
    search->ring = pccl_allocate(memory, problem->count * sizeof *search->ring);
    if (problem->ring)
        search->before = copy(memory, problem->ring, problem->count * sizeof *search->before);
    search->problem.ring = search->before;
    return search->rates && search->rtts_us && search->ring && (search->before || !problem->ring);
}

static struct pccl_search *create(struct pccl_searches *searches, const struct pccl_ring_problem *problem)
{
    struct pccl_search *search = pccl_allocate(searches->memory, sizeof *search);
    if (!search)
        return NULL;
    search->searches = searches;
    if (take(search, problem))
        return search;
    destroy(search);
    return NULL;
}

/* ---- on a worker thread ---- */

static bool go_on(void *context)
{
    struct pccl_search *search = context;
    return !atomic_load_explicit(&search->stopped, memory_order_relaxed);
}

static void solve(void *argument)
{
    struct pccl_search *search = argument;
    search->status =
        pccl_ring_solve(&search->problem, search->searches->memory, go_on, search, search->ring, &search->answer);
}

static void on_work(uv_work_t *work)
{
    struct pccl_search *search = work->data;
    if (!pccl_guard_run(solve, search))
        search->status = PCCL_INTERNAL;
}

/* ---- on the loop ---- */

static void remove_from_list(struct pccl_search *search)
{
    struct pccl_searches *searches = search->searches;
    if (search->newer)
        search->newer->older = search->older;
    else
        searches->newest = search->older;
    if (search->older)
        search->older->newer = search->newer;
    searches->ended -= search->ended;
}

static void drop(struct pccl_search *search)
{
    remove_from_list(search);
    destroy(search);
}

static void on_worked(uv_work_t *work, int error)
{
    struct pccl_search *search = work->data;
    if (error != 0 || atomic_load(&search->stopped)) {
        drop(search);
        return;
    }
    search->ended = true;
    search->searches->ended++;
}

static bool has_refused(const struct pccl_searches *searches)
{
    return searches->refused_end > searches->refused_first;
}

static void refuse(struct pccl_searches *searches, uint64_t ticket)
{
    if (!has_refused(searches))
        searches->refused_first = ticket;
    searches->refused_end = ticket + 1;
}

void pccl_searches_start(struct pccl_searches *searches, uint64_t ticket, const struct pccl_ring_problem *problem)
{
    struct pccl_search *search = create(searches, problem);
    if (!search) {
        refuse(searches, ticket);
        return;
    }
    search->ticket = ticket;
    search->work.data = search;
    if (uv_queue_work(searches->loop, &search->work, on_work, on_worked) != 0) {
        destroy(search);
        refuse(searches, ticket);
        return;
    }
    search->older = searches->newest;
    if (search->older)
        search->older->newer = search;
    searches->newest = search;
}

static struct pccl_search *find(const struct pccl_searches *searches, uint64_t ticket)
{
    for (struct pccl_search *search = searches->newest; search; search = search->older)
        if (search->ticket == ticket)
            return search;
    return NULL;
}

static void stop(struct pccl_search *search)
{
    if (search->ended) {
        drop(search);
        return;
    }
    /* uv_cancel fails once the work has begun; on_worked is called in both cases. */
    if (!atomic_exchange(&search->stopped, true))
        (void)uv_cancel((uv_req_t *)&search->work);
}

void pccl_searches_stop(struct pccl_searches *searches, uint64_t ticket)
{
    struct pccl_search *search = find(searches, ticket);
    if (search)
        stop(search);
}

static void drop_taken(struct pccl_searches *searches)
{
    if (searches->taken)
        destroy(searches->taken);
    searches->taken = NULL;
}

void pccl_searches_stop_all(struct pccl_searches *searches)
{
    for (struct pccl_search *search = searches->newest, *older; search; search = older) {
        older = search->older;
        stop(search);
    }
    drop_taken(searches);
    searches->refused_end = searches->refused_first;
}

bool pccl_searches_has_results(const struct pccl_searches *searches)
{
    return searches->ended > 0 || has_refused(searches);
}

/*
 * Answers every ticket of the range, because a list of the refused ones would need memory. Skips started tickets within
 * the range; the owner ignores answers to tickets that were already answered.
 */
static bool take_refused(struct pccl_searches *searches, struct pccl_search_result *result)
{
    while (has_refused(searches)) {
        uint64_t ticket = searches->refused_first++;
        if (find(searches, ticket))
            continue;
        *result = (struct pccl_search_result){.ticket = ticket, .status = PCCL_MEMORY};
        return true;
    }
    return false;
}

bool pccl_searches_take(struct pccl_searches *searches, struct pccl_search_result *result)
{
    drop_taken(searches);
    if (take_refused(searches, result))
        return true;
    struct pccl_search *search = searches->newest;
    while (search && !search->ended)
        search = search->older;
    if (!search)
        return false;
    remove_from_list(search);
    searches->taken = search;
    *result = (struct pccl_search_result){.ticket = search->ticket, .status = search->status};
    if (search->status == PCCL_OK) {
        result->answer = &search->answer;
        result->ring = search->ring;
    }
    return true;
}
