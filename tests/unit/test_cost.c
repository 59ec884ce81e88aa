/* When the figure of a link counts as changed, and which links a view counts on. */
#include "unit.h"
#include "wire/cost.h"

TEST(rates_move_by_a_factor_of_two)
{
    assert_true(pccl_rate_moved(1000, 2000));
    assert_false(pccl_rate_moved(1000, 1999));
    assert_true(pccl_rate_moved(1000, 500));
    assert_false(pccl_rate_moved(1000, 501));
    assert_false(pccl_rate_moved(1, 1));
    assert_true(pccl_rate_moved(1, UINT64_MAX));
    assert_true(pccl_rate_moved(UINT64_MAX, 1));
    assert_false(pccl_rate_moved(PCCL_RATE_MOST, UINT64_MAX));
    assert_false(pccl_rate_moved(PCCL_RATE_MOST / 2 + 1, UINT64_MAX));
    assert_true(pccl_rate_moved(PCCL_RATE_MOST / 2, UINT64_MAX));
    assert_string_equal(pccl_rate_str(PCCL_RATE_MOST - 1), "9999999999 bytes/s");
    assert_string_equal(pccl_rate_str(PCCL_RATE_MOST), "10000000000 bytes/s or more");
}

TEST(round_trips_move_by_a_factor_of_two)
{
    assert_true(pccl_rtt_moved(100, 200));
    assert_false(pccl_rtt_moved(100, 199));
    assert_true(pccl_rtt_moved(100, 1)); /* 50 and less count as equal */
    assert_false(pccl_rtt_moved(99, 1));
    assert_false(pccl_rtt_moved(1, 50));
    assert_true(pccl_rtt_moved(UINT32_MAX, UINT32_MAX / 2));
    assert_false(pccl_rtt_moved(UINT32_MAX, UINT32_MAX / 2 + 1));
}

TEST(what_becomes_known_has_moved_and_what_is_forgotten_has_not)
{
    assert_true(pccl_rate_moved(0, 1));
    assert_false(pccl_rate_moved(1, 0));
    assert_false(pccl_rate_moved(0, 0));
    assert_true(pccl_rtt_moved(0, 1));
    assert_false(pccl_rtt_moved(1, 0));
    assert_false(pccl_rtt_moved(0, 0));
}

TEST(small_groups_want_all_pairs_and_large_ones_their_hubs)
{
    const struct pccl_cost none = {.mesh = 1}, hubs = {.mesh = 1, .to_hubs = 1 << 3, .from_hubs = UINT64_C(1) << 19};
    for (uint32_t members = 2; members <= PCCL_HUB_PEERS_MAX + 1; members++)
        for (uint32_t from = 0; from < members; from++)
            for (uint32_t to = 0; to < members; to++) {
                bool small = members <= PCCL_MESH_PEERS_MAX, large = members > PCCL_HUB_PEERS_MAX;
                bool hub = !small && !large && (to == 3 || from == 19);
                assert_int_equal(pccl_cost_wants(&none, members, from, to), small && from != to);
                assert_int_equal(pccl_cost_wants(&hubs, members, from, to), (small || hub) && from != to);
            }
    const struct pccl_cost all = {.mesh = 1, .to_hubs = pccl_all_hubs(20)}, down = {.to_hubs = pccl_all_hubs(20)};
    assert_true(pccl_cost_has_all_pairs(&none, PCCL_MESH_PEERS_MAX) && pccl_cost_has_all_pairs(&all, 20));
    assert_false(pccl_cost_has_all_pairs(&all, 21) || pccl_cost_has_all_pairs(&down, 20));
    assert_false(pccl_cost_has_all_pairs(&hubs, 20) || pccl_cost_has_all_pairs(&none, 20));
    assert_true(pccl_all_hubs(PCCL_HUB_PEERS_MAX) == UINT64_MAX);
}
