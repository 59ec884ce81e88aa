#include "topology/lines.h"

enum {
    FREE_PERCENT = 70, /* if links between sites reach this percentage of the rate within a site, they share no line */
    SLOW_PART = 4,     /* a link with less than this part of the rate of its lines is slow itself */
};

/* Returns the rate of the link from or to a member; 0 if unknown, or if no data arrives. */
static uint64_t rate_of(const struct pccl_pairs *pairs, uint32_t member, uint32_t other, bool sends)
{
    uint64_t rate = pairs->rates[sends ? member * pairs->count + other : other * pairs->count + member];
    return rate == PCCL_RATE_UNKNOWN ? 0 : pccl_min_u64(rate, PCCL_LINE_RATE_MOST);
}

/* ---- sites ---- */

static bool is_near(const struct pccl_pairs *pairs, uint32_t a, uint32_t b)
{
    return rate_of(pairs, a, b, true) > 0 && pairs->rtts_us[a * pairs->count + b] < PCCL_LONG_PATH_RTT_US;
}

static void join_sites(uint32_t *sites, uint32_t count, uint32_t kept, uint32_t gone)
{
    for (uint32_t i = 0; i < count; i++)
        sites[i] = sites[i] == gone ? kept : sites[i];
}

/* Identifies the site of each member by the index of one of the site's members. */
static void find_sites(const struct pccl_pairs *pairs, uint32_t *sites)
{
    for (uint32_t i = 0; i < pairs->count; i++)
        sites[i] = i;
    for (uint32_t a = 1; a < pairs->count; a++)
        for (uint32_t b = 0; b < a; b++)
            if (sites[a] != sites[b] && (is_near(pairs, a, b) || is_near(pairs, b, a)))
                join_sites(sites, pairs->count, sites[b], sites[a]);
}

static uint32_t members_of(const struct pccl_lines *lines, uint32_t site)
{
    uint32_t members = 0;
    for (uint32_t i = 0; i < lines->pairs.count; i++)
        members += lines->site[i] == site;
    return members;
}

/* ---- lines ---- */

/* Counts the known links of a site in one direction, within the site or across its line, that are slower than this. */
static uint32_t count_slower(const struct pccl_lines *lines, uint32_t site, bool sends, bool crossing, uint64_t than)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < lines->pairs.count; i++)
        for (uint32_t k = 0; lines->site[i] == site && k < lines->pairs.count; k++) {
            uint64_t rate = i != k && (lines->site[k] != site) == crossing ? rate_of(&lines->pairs, i, k, sends) : 0;
            count += rate > 0 && rate < than;
        }
    return count;
}

/* Returns the median rate of these links, or the lower of the two middle rates; 0 without links. */
static uint64_t usual_rate(const struct pccl_lines *lines, uint32_t site, bool sends, bool crossing)
{
    uint32_t count = count_slower(lines, site, sends, crossing, UINT64_MAX);
    uint64_t median = 0;
    for (uint64_t bit = PCCL_LINE_RATE_MOST; count > 0 && bit > 0; bit /= 2)
        if (count_slower(lines, site, sends, crossing, median + bit) <= (count - 1) / 2)
            median += bit;
    return median;
}

/* Returns the capacity of a site's line in one direction, or PCCL_LINE_NONE. */
static uint64_t site_capacity(const struct pccl_lines *lines, uint32_t site, bool sends)
{
    const struct pccl_pairs *pairs = &lines->pairs;
    uint64_t crossing = usual_rate(lines, site, sends, true), fastest = 0;
    if (crossing == 0 || crossing >= usual_rate(lines, site, sends, false) / 100 * FREE_PERCENT)
        return PCCL_LINE_NONE;
    for (uint32_t i = 0; i < pairs->count; i++)
        for (uint32_t k = 0; lines->site[i] == site && k < pairs->count; k++)
            if (lines->site[k] != site)
                fastest = pccl_max_u64(fastest, rate_of(pairs, i, k, sends));
    return fastest;
}

void pccl_lines_find(struct pccl_lines *lines, const struct pccl_pairs *pairs)
{
    const uint32_t count = pairs->count;
    PCCL_ASSERT(count >= 2 && count <= PCCL_TREES_PEERS_MAX);
    lines->pairs = *pairs;
    find_sites(pairs, lines->site);
    for (uint32_t i = 0; i < count; i++) {
        lines->up[i] = lines->down[i] = 0;
        for (uint32_t k = 0; k < count; k++) {
            if (k == i)
                continue;
            lines->up[i] = pccl_max_u64(lines->up[i], rate_of(pairs, i, k, true));
            lines->down[i] = pccl_max_u64(lines->down[i], rate_of(pairs, i, k, false));
        }
        lines->site_up[i] = lines->site[i] == i ? site_capacity(lines, i, true) : PCCL_LINE_NONE;
        lines->site_down[i] = lines->site[i] == i ? site_capacity(lines, i, false) : PCCL_LINE_NONE;
    }
}

/* Returns the lowest rate of the lines that a link uses. */
static uint64_t lines_of(const struct pccl_lines *lines, uint32_t from, uint32_t to)
{
    const uint32_t out = lines->site[from], in = lines->site[to];
    uint64_t rate = pccl_min_u64(lines->up[from], lines->down[to]);
    return out == in ? rate : pccl_min_u64(rate, pccl_min_u64(lines->site_up[out], lines->site_down[in]));
}

static uint64_t known_rate(const struct pccl_lines *lines, uint32_t from, uint32_t to)
{
    return lines->pairs.rates[from * lines->pairs.count + to];
}

bool pccl_lines_is_slow(const struct pccl_lines *lines, uint32_t from, uint32_t to)
{
    uint64_t known = known_rate(lines, from, to);
    return known == PCCL_RATE_NONE || (known != PCCL_RATE_UNKNOWN && known < lines_of(lines, from, to) / SLOW_PART);
}

uint64_t pccl_lines_link(const struct pccl_lines *lines, uint32_t from, uint32_t to)
{
    return pccl_lines_is_slow(lines, from, to) ? known_rate(lines, from, to) : lines_of(lines, from, to);
}

/* ---- rates while all links are in use ---- */

static uint64_t share_of_sites(const struct pccl_lines *lines)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t site = 0; site < lines->pairs.count; site++) {
        uint64_t members = members_of(lines, site);
        uint64_t flows = members * (lines->pairs.count - members);
        if (flows > 0)
            least = pccl_min_u64(least, pccl_min_u64(lines->site_up[site], lines->site_down[site]) / flows);
    }
    return least;
}

static uint64_t share_of_members(const struct pccl_lines *lines)
{
    const uint32_t count = lines->pairs.count;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < count; k++)
            least = i != k ? pccl_min_u64(least, lines->pairs.rates[i * count + k]) : least;
        least = pccl_min_u64(least, pccl_min_u64(lines->up[i], lines->down[i]) / (count - 1));
    }
    return least;
}

uint64_t pccl_pairs_share(const struct pccl_pairs *pairs)
{
    struct pccl_lines lines;
    pccl_lines_find(&lines, pairs);
    return pccl_max_u64(1, pccl_min_u64(share_of_members(&lines), share_of_sites(&lines)));
}

/* ---- all-reduce ---- */

/* Applies the limits of these lines in one direction: the slowest line alone, and all lines together. */
static void lower(struct pccl_bound *bound, const uint64_t *rates, const uint32_t *numbers, uint32_t count,
                  bool is_down, bool of_sites)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += rates[i];
        if (rates[i] < bound->rate)
            *bound = (struct pccl_bound){rates[i], of_sites ? PCCL_LIMIT_SITE : PCCL_LIMIT_MEMBER, numbers[i], is_down};
    }
    if (sum / (2 * (count - 1)) < bound->rate)
        *bound =
            (struct pccl_bound){sum / (2 * (count - 1)), of_sites ? PCCL_LIMIT_SITES : PCCL_LIMIT_MEMBERS, 0, is_down};
}

struct pccl_bound pccl_lines_bound(const struct pccl_lines *lines)
{
    const uint32_t count = lines->pairs.count;
    struct pccl_bound bound = {.rate = UINT64_MAX};
    uint32_t numbers[PCCL_TREES_PEERS_MAX] = {0}, sites = 0;
    uint64_t up[PCCL_TREES_PEERS_MAX], down[PCCL_TREES_PEERS_MAX];
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = i;
    lower(&bound, lines->up, numbers, count, false, false);
    lower(&bound, lines->down, numbers, count, true, false);
    for (uint32_t site = 0; site < count; site++) {
        uint64_t sent = 0, received = 0;
        for (uint32_t i = 0; i < count; i++) {
            sent += lines->site[i] == site ? lines->up[i] : 0;
            received += lines->site[i] == site ? lines->down[i] : 0;
        }
        if (members_of(lines, site) == 0)
            continue;
        up[sites] = pccl_min_u64(sent, lines->site_up[site]);
        down[sites] = pccl_min_u64(received, lines->site_down[site]);
        numbers[sites++] = site;
    }
    if (sites > 1 && sites < count) {
        lower(&bound, up, numbers, sites, false, true);
        lower(&bound, down, numbers, sites, true, true);
    }
    return bound;
}

uint64_t pccl_lines_ring(const struct pccl_lines *lines, const uint32_t *ring)
{
    const uint32_t count = lines->pairs.count;
    uint32_t out[PCCL_TREES_PEERS_MAX] = {0}, in[PCCL_TREES_PEERS_MAX] = {0}; /* flows across the lines of sites */
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = ring[i], to = ring[i + 1 < count ? i + 1 : 0];
        least = pccl_min_u64(least, pccl_lines_link(lines, from, to));
        out[lines->site[from]] += lines->site[from] != lines->site[to];
        in[lines->site[to]] += lines->site[from] != lines->site[to];
    }
    for (uint32_t site = 0; site < count; site++) {
        least = out[site] > 0 ? pccl_min_u64(least, lines->site_up[site] / out[site]) : least;
        least = in[site] > 0 ? pccl_min_u64(least, lines->site_down[site] / in[site]) : least;
    }
    return least * count / (2 * (count - 1)); /* each member sends 2 (n - 1) of n parts */
}
