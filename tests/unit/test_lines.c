/* topology/lines: rates of links while all of them are in use. */
#include "unit.h"
#include "core/prng.h"
#include "topology/lines.h"

#include <stdlib.h>

enum { MBIT = 125000, INSIDE_US = 600, ACROSS_US = 20000 };

struct figures {
    uint32_t count;
    uint64_t rates[PCCL_MESH_PEERS_MAX][PCCL_MESH_PEERS_MAX];
    uint32_t rtts_us[PCCL_MESH_PEERS_MAX][PCCL_MESH_PEERS_MAX];
};

/* Packs the figures as pccl_pairs expects them, in blocks of exactly that size: the sanitizer detects other reads. */
static uint64_t share_of(const struct figures *figures)
{
    uint64_t *rates = calloc((size_t)figures->count * figures->count, sizeof *rates);
    uint32_t *rtts_us = calloc((size_t)figures->count * figures->count, sizeof *rtts_us);
    assert_true(rates != NULL && rtts_us != NULL);
    for (uint32_t i = 0; i < figures->count; i++)
        for (uint32_t k = 0; k < figures->count; k++) {
            rates[i * figures->count + k] = figures->rates[i][k];
            rtts_us[i * figures->count + k] = figures->rtts_us[i][k];
        }
    uint64_t share = pccl_pairs_share(&(struct pccl_pairs){figures->count, rates, rtts_us});
    free(rates);
    free(rtts_us);
    return share;
}

/* Each link has the same rate and round trip. */
static struct figures even(uint32_t count, uint64_t rate, uint32_t rtt_us)
{
    struct figures pairs = {.count = count};
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++) {
            pairs.rates[i][k] = i != k ? rate : 0;
            pairs.rtts_us[i][k] = i != k ? rtt_us : 0;
        }
    return pairs;
}

/* Members that alternate between two sites. */
static struct figures two_sites(uint32_t count, uint64_t within, uint64_t across)
{
    struct figures pairs = even(count, within, INSIDE_US);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (i % 2 != k % 2) {
                pairs.rates[i][k] = across;
                pairs.rtts_us[i][k] = ACROSS_US;
            }
    return pairs;
}

TEST(a_members_line_is_shared_by_its_links)
{
    for (uint32_t count = 2; count <= PCCL_MESH_PEERS_MAX; count++)
        for (uint32_t rtt_us = 0; rtt_us <= ACROSS_US; rtt_us += ACROSS_US / 2) {
            struct figures pairs = even(count, 100 * MBIT, rtt_us);
            assert_int_equal(share_of(&pairs), 100 * MBIT / (count - 1));
            for (uint32_t k = 0; k + 1 < count; k++)
                pairs.rates[count - 1][k] = 10 * MBIT; /* sent by one member */
            assert_int_equal(share_of(&pairs), 10 * MBIT / (count - 1));
            pairs = even(count, 100 * MBIT, rtt_us);
            for (uint32_t k = 0; k + 1 < count; k++)
                pairs.rates[k][count - 1] = 20 * MBIT; /* received by one member */
            assert_int_equal(share_of(&pairs), 20 * MBIT / (count - 1));
        }
}

TEST(a_slow_pair_has_no_more_than_its_own_rate)
{
    struct figures pairs = even(8, 100 * MBIT, ACROSS_US);
    pairs.rates[2][5] = 2 * MBIT;
    assert_int_equal(share_of(&pairs), 2 * MBIT);
}

TEST(a_sites_line_is_shared_by_all_links_that_cross_it)
{
    struct figures pairs = two_sites(8, 100 * MBIT, 25 * MBIT);
    assert_int_equal(share_of(&pairs), 25 * MBIT / 16);
    pairs.rates[0][1] = 5 * MBIT; /* measured while others were measured: the line carries more */
    assert_int_equal(share_of(&pairs), 25 * MBIT / 16);
    for (uint32_t i = 1; i < 8; i += 2) /* one direction is narrower */
        for (uint32_t k = 0; k < 8; k += 2)
            pairs.rates[i][k] = 10 * MBIT;
    assert_int_equal(share_of(&pairs), 10 * MBIT / 16);
    pairs = two_sites(2, 100 * MBIT, 25 * MBIT); /* a member alone is a site */
    assert_int_equal(share_of(&pairs), 25 * MBIT);
}

/* Links that cross as fast as others share no line that is narrower than the lines of the members. */
TEST(fast_links_between_sites_share_no_line)
{
    struct figures pairs = two_sites(8, 100 * MBIT, 90 * MBIT);
    assert_int_equal(share_of(&pairs), 100 * MBIT / 7);
    pairs = two_sites(8, 100 * MBIT, 69 * MBIT);
    assert_int_equal(share_of(&pairs), 69 * MBIT / 16);
}

/* A chain of short round trips makes one site, and one direction is enough. */
TEST(sites_are_connected_by_short_round_trips)
{
    struct figures pairs = two_sites(8, 100 * MBIT, 25 * MBIT);
    pairs.rtts_us[2][3] = PCCL_LONG_PATH_RTT_US;
    assert_int_equal(share_of(&pairs), 25 * MBIT / 16);
    pairs.rtts_us[2][3] = PCCL_LONG_PATH_RTT_US - 1;
    assert_int_equal(share_of(&pairs), 100 * MBIT / 7);
}

/* Without sites of several members the lines add no limit below the ring's slowest link. */
TEST(without_sites_the_ring_says_as_much)
{
    struct pccl_prng prng = unit_prng(48);
    for (uint32_t run = 0; run < 2000; run++) {
        const uint32_t count = 3 + (uint32_t)pccl_prng_below(&prng, PCCL_MESH_PEERS_MAX - 2);
        struct figures pairs = even(count, 1, run % 2 == 0 ? ACROSS_US : 0);
        uint64_t slowest = UINT64_MAX, ring = UINT64_MAX;
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < count; k++)
                if (i != k) {
                    pairs.rates[i][k] = 1000 + pccl_prng_below(&prng, 100 * MBIT);
                    slowest = pccl_min_u64(slowest, pairs.rates[i][k]);
                    ring = k == (i + 1) % count ? pccl_min_u64(ring, pairs.rates[i][k]) : ring;
                }
        assert_true(share_of(&pairs) >= pccl_min_u64(slowest, ring / (count - 1)));
        assert_true(share_of(&pairs) <= slowest);
    }
}

/* For any reports of members: at least 1, since 0 means unknown. */
TEST(absurd_rates_have_a_share)
{
    struct figures pairs = even(PCCL_MESH_PEERS_MAX, 1, ACROSS_US);
    assert_int_equal(share_of(&pairs), 1);
    pairs = even(PCCL_MESH_PEERS_MAX, UINT64_MAX, 0);
    assert_true(share_of(&pairs) <= UINT64_MAX / (PCCL_MESH_PEERS_MAX - 1));
    pairs = two_sites(PCCL_MESH_PEERS_MAX, UINT64_C(10000000000), 1);
    assert_int_equal(share_of(&pairs), 1);
}
