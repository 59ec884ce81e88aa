/*
 * Rings that the search (topology/solve.h) finds where it is not exact:
 *   bench_rings STEPS SEEDS
 * For each kind of network, over 16, 24, 32, 48 and 64 members and the seeds, geometric means: rate
 * of the ring's slowest link, rate of an all-reduce of 64 MiB and of 1 MiB as predicted from that
 * link and the ring's round trips, and processor time of one search. The same arguments give the
 * same problems, so the lines of two builds can be compared.
 */
#include "core/prng.h"
#include "net/heap.h"
#include "topology/matrix.h"
#include "topology/solve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MEMBERS_MAX = 64, SITES = 6, REGIONS = 6 };
#define MBIT 125e3 /* bytes per second */

static const uint32_t counts[] = {16, 24, 32, 48, 64};
static struct pccl_prng prng;
static uint32_t count, order[MEMBERS_MAX], present[MEMBERS_MAX], rtts_us[MEMBERS_MAX * MEMBERS_MAX];
static uint64_t rates[MEMBERS_MAX * MEMBERS_MAX];
static double site_rates[SITES][SITES], site_rtts[SITES][SITES]; /* between sites */
static double out_rates[MEMBERS_MAX], in_rates[MEMBERS_MAX], near_us[MEMBERS_MAX], x[MEMBERS_MAX], y[MEMBERS_MAX];

static double uniform(double low, double high)
{
    return low + (high - low) * (double)pccl_prng_below(&prng, 1 << 30) / (1 << 30);
}
static double scaled(double low, double high) { return low * pow(high / low, uniform(0, 1)); }
static double noisy(double value, double share) { return value * uniform(1 - share, 1 + share); }

static void shuffle(void)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = (uint32_t)pccl_prng_below(&prng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

struct path {
    double rate, rtt_us;
};

static struct path local(void) { return (struct path){noisy(10000 * MBIT, .1), noisy(200, .2)}; }
static uint32_t site_of(uint32_t member, uint32_t sites) { return order[member] % sites; }

/* Four sites with slow crossings. */
static struct path sites(uint32_t a, uint32_t b)
{
    uint32_t from = site_of(a, 4), to = site_of(b, 4);
    return from == to ? local() : (struct path){noisy(site_rates[from][to], .1), noisy(site_rtts[from][to], .05)};
}
/* Two members of each site have fast crossings. */
static struct path gates(uint32_t a, uint32_t b)
{
    struct path path = sites(a, b);
    if (site_of(a, 4) != site_of(b, 4))
        path.rate = noisy(order[a] < 8 && order[b] < 8 ? 1000 * MBIT : 100 * MBIT, .1);
    return path;
}
/* Crossings are fast from each site to the next one only. */
static struct path one_way(uint32_t a, uint32_t b)
{
    uint32_t from = site_of(a, 5), to = site_of(b, 5), apart = from > to ? from - to : to - from;
    return from == to ? local() : (struct path){to == (from + 1) % 5 ? 1000 * MBIT : 80 * MBIT, 20000 + 1000.0 * apart};
}
/* A fifth of the paths is unreachable, a fifth unknown. */
static struct path partial(uint32_t a, uint32_t b)
{
    double chance = uniform(0, 1);
    return chance < .2 ? (struct path){0, 0} : chance < .4 ? (struct path){PCCL_RATE_UNKNOWN, 0} : sites(a, b);
}
static struct path homes(uint32_t a, uint32_t b)
{
    double rtt_us = near_us[a] + near_us[b] + 8000 * hypot(x[a] - x[b], y[a] - y[b]);
    return (struct path){noisy(fmin(out_rates[a], in_rates[b]), .1), noisy(rtt_us, .05)};
}
static struct path clouds(uint32_t a, uint32_t b)
{
    double apart = hypot(x[a] - x[b], y[a] - y[b]);
    return (struct path){noisy(fmin(5000 * MBIT, 2000 * MBIT / (.3 + apart)), .2), noisy(300 + 10000 * apart, .05)};
}
static struct path slow_pair(uint32_t a, uint32_t b)
{
    return (struct path){order[a] + order[b] == 1 ? 38 * MBIT : noisy(1000 * MBIT, .1), noisy(200, .2)};
}
static struct path noise(uint32_t a, uint32_t b)
{
    (void)a;
    (void)b;
    return (struct path){noisy(400 * MBIT, .4), noisy(30000, .3)};
}
static struct path chance(uint32_t a, uint32_t b)
{
    (void)a;
    (void)b;
    return (struct path){scaled(10 * MBIT, 1000 * MBIT), scaled(1000, 200000)};
}
/* Six paths out of each member, and a ring. */
static struct path sparse(uint32_t a, uint32_t b)
{
    bool exists = order[b] == (order[a] + 1) % count || uniform(0, 1) < 6.0 / count;
    return exists ? chance(a, b) : (struct path){0, 0};
}

static const struct kind {
    const char *name;
    struct path (*path)(uint32_t a, uint32_t b);
} kinds[] = {{"sites", sites},   {"gates", gates},   {"one way", one_way},     {"partial", partial},
             {"homes", homes},   {"clouds", clouds}, {"slow pair", slow_pair}, {"noise", noise},
             {"random", chance}, {"sparse", sparse}};

static void make(const struct kind *kind, uint64_t seed)
{
    static const double region_x[REGIONS] = {0, 1, 8, 9, 16, 4}, region_y[REGIONS] = {0, 2, 1, 4, 3, 7};
    pccl_prng_seed(&prng, seed * 1000 + count);
    shuffle();
    for (uint32_t a = 0; a < SITES; a++) {
        for (uint32_t b = 0; b < SITES; b++) {
            site_rates[a][b] = scaled(100 * MBIT, 1000 * MBIT);
            site_rtts[a][b] = a < b ? scaled(10000, 150000) : site_rtts[b][a];
        }
    }
    for (uint32_t a = 0; a < count; a++) {
        present[a] = a;
        out_rates[a] = scaled(10 * MBIT, 100 * MBIT);
        in_rates[a] = out_rates[a] * scaled(1, 10);
        near_us[a] = scaled(2000, 15000);
        x[a] = region_x[order[a] % REGIONS] + uniform(0, 1);
        y[a] = region_y[order[a] % REGIONS] + uniform(0, 1);
    }
    for (uint32_t a = 0; a < count; a++) {
        for (uint32_t b = 0; b < count; b++) {
            struct path path = kind->path(a, b);
            rates[a * count + b] = path.rate > 1 ? pccl_rate_rounded((uint64_t)path.rate) : (uint64_t)path.rate;
            rtts_us[a * count + b] = (uint32_t)path.rtt_us;
        }
    }
}

static double all_reduce_rate(const struct pccl_ring_worth *worth, double bytes)
{
    double share = (double)(count - 1) / count;
    return bytes / (share * (2 * bytes / (double)worth->slowest + (double)worth->latency_us / 1e6));
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    uint64_t steps = strtoull(argv[1], NULL, 10), seeds = strtoull(argv[2], NULL, 10);
    printf("network     slowest   64 MiB    1 MiB  Mbit/s     ms  without\n");
    for (size_t k = 0; k < PCCL_COUNT_OF(kinds); k++) {
        double sums[3] = {0}, found = 0, all = 0;
        clock_t begin = clock();
        for (uint64_t problem = 0; problem < seeds * PCCL_COUNT_OF(counts); problem++) {
            uint32_t ring[MEMBERS_MAX];
            struct pccl_ring_answer answer;
            count = counts[problem % PCCL_COUNT_OF(counts)];
            make(&kinds[k], problem / PCCL_COUNT_OF(counts));
            struct pccl_ring_problem asked = {count, rates, rtts_us, present, problem + 1, steps};
            if (pccl_ring_solve(&asked, pccl_heap(), NULL, NULL, ring, &answer) != PCCL_OK)
                return 1;
            all++;
            if (!answer.worth.exists)
                continue;
            found++;
            sums[0] += log((double)answer.worth.slowest);
            sums[1] += log(all_reduce_rate(&answer.worth, 64 << 20));
            sums[2] += log(all_reduce_rate(&answer.worth, 1 << 20));
        }
        printf("%-10s", kinds[k].name);
        for (size_t i = 0; i < PCCL_COUNT_OF(sums); i++)
            printf(" %8.2f", exp(sums[i] / found) / MBIT);
        printf("         %6.1f  %.0f\n", 1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC / all, all - found);
    }
    return 0;
}
