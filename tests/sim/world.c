/* The world: the heap of events, randomness, memory with an account, the trace, and how a failed run ends. */
#include "sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- events ---- */

static bool earlier(const struct sim_event *a, const struct sim_event *b)
{
    return a->time != b->time ? a->time < b->time : a->sequence < b->sequence;
}

void sim_at(struct sim *sim, uint64_t time, void (*run)(struct sim *, void *, uint64_t, uint64_t), void *subject,
            uint64_t a, uint64_t b)
{
    if (sim->heap_count == sim->heap_capacity) {
        sim->heap_capacity = sim->heap_capacity != 0 ? sim->heap_capacity * 2 : 256;
        sim->heap = realloc(sim->heap, sim->heap_capacity * sizeof *sim->heap);
        if (sim->heap == NULL)
            abort();
    }
    struct sim_event event = {pccl_max_u64(time, sim->now), ++sim->sequence, run, subject, a, b};
    uint32_t at = sim->heap_count++;
    while (at > 0 && earlier(&event, &sim->heap[(at - 1) / 2])) {
        sim->heap[at] = sim->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim->heap[at] = event;
}

static struct sim_event take_first(struct sim *sim)
{
    struct sim_event first = sim->heap[0], last = sim->heap[--sim->heap_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= sim->heap_count)
            break;
        if (child + 1 < sim->heap_count && earlier(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!earlier(&sim->heap[child], &last))
            break;
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    if (sim->heap_count > 0)
        sim->heap[at] = last;
    return first;
}

bool sim_step(struct sim *sim)
{
    if (sim->heap_count == 0)
        return false;
    struct sim_event event = take_first(sim);
    sim->now = event.time;
    sim->hash = sim_mix(sim->hash, event.time ^ event.sequence);
    sim->totals.events++;
    event.run(sim, event.subject, event.a, event.b);
    return true;
}

bool sim_run_until(struct sim *sim, uint64_t time, bool (*done)(struct sim *))
{
    for (;;) {
        if (done != NULL && done(sim))
            return true;
        if (sim->heap_count == 0 || sim->heap[0].time > time)
            break;
        sim_step(sim);
    }
    sim->now = pccl_max_u64(sim->now, time);
    return done != NULL && done(sim);
}

/* ---- randomness ---- */

uint64_t sim_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b;
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    return x;
}

uint64_t sim_random(struct sim *sim, uint64_t below) { return pccl_prng_below(&sim->prng, below); }

bool sim_chance(struct sim *sim, uint32_t percent) { return percent > 0 && sim_random(sim, 100) < percent; }

uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high) { return low + sim_random(sim, high - low + 1); }

uint64_t sim_log_between(struct sim *sim, uint64_t low, uint64_t high)
{
    uint32_t doublings = 0;
    while ((low << doublings) < high)
        doublings++;
    uint64_t bottom = low << sim_random(sim, doublings + 1u);
    return pccl_min_u64(high, sim_between(sim, bottom, bottom * 2));
}

/* ---- trace ---- */

void sim_note(struct sim *sim, const char *format, ...)
{
    if (!sim->trace)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("%11.6f  ", (double)sim->now / 1e6);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    char reason[384];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    snprintf(sim->failure, sizeof sim->failure, "seed %llu at %.6f s: %s", (unsigned long long)sim->seed,
             (double)sim->now / 1e6, reason);
    if (sim->trace)
        printf("FAILED %s\n", sim->failure);
    longjmp(*(jmp_buf *)sim->jump, 1);
}

/* ---- memory ---- */

enum { MEMORY_HEADER = 16 };

static bool runs_out(struct sim *sim)
{
    if (sim->oom_paused || sim->faults_stopped)
        return false;
    uint64_t number = ++sim->oom_count;
    bool fails = sim->oom_at != 0 && number >= sim->oom_at && number < sim->oom_at + sim->oom_length;
    if (fails)
        sim_note(sim, "FAULT allocation %llu fails", (unsigned long long)number);
    return fails;
}

static void *resize(void *context, void *block, size_t old_bytes, size_t new_bytes)
{
    struct sim_memory *memory = context;
    uint8_t *base = block != NULL ? (uint8_t *)block - MEMORY_HEADER : NULL;
    if (base != NULL) {
        size_t known;
        memcpy(&known, base, sizeof known);
        if (known != old_bytes)
            sim_fail(memory->sim, "MEMORY a block of %zu bytes was given back as %zu", known, old_bytes);
    }
    if (new_bytes == 0) {
        memory->bytes -= base != NULL ? old_bytes : 0;
        free(base);
        return NULL;
    }
    memory->allocations++;
    if (memory->fail_at != 0 && memory->allocations == memory->fail_at)
        return NULL;
    if (memory != &memory->sim->driver_memory && runs_out(memory->sim))
        return NULL;
    uint8_t *grown = realloc(base, new_bytes + MEMORY_HEADER);
    if (grown == NULL)
        abort();
    memory->bytes += new_bytes - (base != NULL ? old_bytes : 0);
    if (memory->bytes > memory->peak)
        memory->peak = memory->bytes;
    memcpy(grown, &new_bytes, sizeof new_bytes);
    return grown + MEMORY_HEADER;
}

struct pccl_memory sim_memory_hook(struct sim_memory *memory)
{
    return (struct pccl_memory){.resize = resize, .context = memory};
}

/* ---- life ---- */

void sim_init(struct sim *sim, uint64_t seed, bool trace, bool mute_uses)
{
    struct sim_event *heap = sim->heap;
    uint32_t heap_capacity = sim->heap_capacity;
    memset(sim, 0, offsetof(struct sim, scratch));
    sim->heap = heap;
    sim->heap_capacity = heap_capacity;
    sim->seed = seed;
    sim->trace = trace;
    sim->mute_uses = mute_uses;
    sim->now = 10 * SIM_S; /* so that 0 is never mistaken for "never" */
    pccl_prng_seed(&sim->prng, seed * UINT64_C(0x9e3779b97f4a7c15) + 1);
    for (uint32_t i = 0; i < SIM_HOSTS_MAX; i++)
        sim->next_port[i] = SIM_PEER_PORT;
    sim->driver_memory.sim = sim;
    sim->driver_hook = sim_memory_hook(&sim->driver_memory);
    sim_check_init(sim);
}

void sim_fini(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        struct sim_peer *peer = sim->peers[i];
        pccl_peer_destroy(peer->machine);
        if (peer->machine != NULL && peer->process.memory.bytes != 0)
            sim_fail(sim, "MEMORY peer p%u left %zu bytes", peer->process.number, peer->process.memory.bytes);
        peer->machine = NULL;
    }
    if (sim->master != NULL && sim->master->machine != NULL) {
        pccl_master_destroy(sim->master->machine);
        sim->master->machine = NULL;
        if (sim->master->process.memory.bytes != 0)
            sim_fail(sim, "MEMORY the master left %zu bytes", sim->master->process.memory.bytes);
    }
    sim_net_fini(sim);
    sim_bulk_fini(sim);
    sim_searches_fini(sim);
    sim_check_fini(sim);
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        sim_process_fini(&sim->peers[i]->process);
        free(sim->peers[i]);
    }
    while (sim->master != NULL) {
        struct sim_master *older = sim->master->older;
        sim_process_fini(&sim->master->process);
        free(sim->master);
        sim->master = older;
    }
    sim->peer_count = 0;
    sim->heap_count = 0;
}
