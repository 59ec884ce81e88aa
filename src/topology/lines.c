#include "topology/lines.h"

/* if links between sites reach this percentage of the rate within a site, they share no line */
enum { FREE_PERCENT = 70 };

/* ---- sites ---- */

static bool is_near(const struct pccl_pairs *pairs, uint32_t a, uint32_t b)
{
    return pairs->rtts_us[a][b] < PCCL_LONG_PATH_RTT_US || pairs->rtts_us[b][a] < PCCL_LONG_PATH_RTT_US;
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
            if (sites[a] != sites[b] && is_near(pairs, a, b))
                join_sites(sites, pairs->count, sites[b], sites[a]);
}

/* ---- lines ---- */

/* Returns the rate of the link from or to a member. */
static uint64_t rate_of(const struct pccl_pairs *pairs, uint32_t member, uint32_t other, bool sends)
{
    return sends ? pairs->rates[member][other] : pairs->rates[other][member];
}

/* Sorts `values` and returns the median, or the lower of the two middle values; 0 if count is 0. */
static uint64_t median_of(uint64_t *values, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k > 0 && values[k - 1] > values[k]; k--) {
            uint64_t lower = values[k];
            values[k] = values[k - 1];
            values[k - 1] = lower;
        }
    return count > 0 ? values[(count - 1) / 2] : 0;
}

/*
 * Returns the median rate of a site's links in one direction: either links within the site or links that cross its
 * line.
 */
static uint64_t usual_rate(const struct pccl_pairs *pairs, const uint32_t *sites, uint32_t site, bool sends,
                           bool crossing)
{
    uint64_t values[PCCL_MESH_PEERS_MAX * PCCL_MESH_PEERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < pairs->count; i++)
        for (uint32_t k = 0; sites[i] == site && k < pairs->count; k++)
            if (i != k && (sites[k] != site) == crossing)
                values[count++] = rate_of(pairs, i, k, sends);
    return median_of(values, count);
}

/* Returns the capacity of a site's line in one direction. */
static uint64_t site_capacity(const struct pccl_pairs *pairs, const uint32_t *sites, uint32_t site, bool sends)
{
    uint64_t fastest = 0, sum = 0;
    for (uint32_t i = 0; i < pairs->count; i++) {
        uint64_t own = 0;
        for (uint32_t k = 0; sites[i] == site && k < pairs->count; k++)
            own = sites[k] != site ? pccl_max_u64(own, rate_of(pairs, i, k, sends)) : own;
        fastest = pccl_max_u64(fastest, own);
        sum += own;
    }
    uint64_t crossing = usual_rate(pairs, sites, site, sends, true);
    uint64_t within = usual_rate(pairs, sites, site, sends, false);
    return crossing >= within / 100 * FREE_PERCENT ? sum : fastest;
}

static uint64_t share_of_sites(const struct pccl_pairs *pairs, const uint32_t *sites)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t site = 0; site < pairs->count; site++) {
        uint64_t members = 0;
        for (uint32_t i = 0; i < pairs->count; i++)
            members += sites[i] == site;
        uint64_t flows = members * (pairs->count - members);
        for (uint32_t sends = 0; flows > 0 && sends < 2; sends++)
            least = pccl_min_u64(least, site_capacity(pairs, sites, site, sends != 0) / flows);
    }
    return least;
}

static uint64_t share_of_members(const struct pccl_pairs *pairs)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < pairs->count; i++) {
        uint64_t sent = 0, received = 0;
        for (uint32_t k = 0; k < pairs->count; k++) {
            if (k == i)
                continue;
            sent = pccl_max_u64(sent, rate_of(pairs, i, k, true));
            received = pccl_max_u64(received, rate_of(pairs, i, k, false));
            least = pccl_min_u64(least, rate_of(pairs, i, k, true));
        }
        least = pccl_min_u64(least, pccl_min_u64(sent, received) / (pairs->count - 1));
    }
    return least;
}

uint64_t pccl_pairs_share(const struct pccl_pairs *pairs)
{
    PCCL_ASSERT(pairs->count >= 2 && pairs->count <= PCCL_MESH_PEERS_MAX);
    uint32_t sites[PCCL_MESH_PEERS_MAX];
    find_sites(pairs, sites);
    return pccl_max_u64(1, pccl_min_u64(share_of_members(pairs), share_of_sites(pairs, sites)));
}
