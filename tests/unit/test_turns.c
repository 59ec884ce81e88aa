/* core/turns: addresses take turns, and the most crowded one is known. */
#include "unit.h"

#include <string.h>

#include "core/prng.h"
#include "core/turns.h"

enum { HOSTS = 60, ENTRIES = 400 };

static struct pccl_address address_of(uint32_t host) { return pccl_address_v4(10, 0, 0, (uint8_t)(host + 1), 0); }

TEST(addresses_take_turns)
{
    static struct pccl_turns turns;
    static struct pccl_turn of_site[100], others[3];
    struct pccl_hash_key hash;
    pccl_hash_key_init(&hash, 7);
    pccl_turns_init(&turns, &hash);
    struct pccl_address from = address_of(0);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(of_site); i++)
        pccl_turns_add(&turns, &of_site[i], &from);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(others); i++) {
        from = address_of(i + 1);
        pccl_turns_add(&turns, &others[i], &from);
    }
    assert_ptr_equal(pccl_turns_most_crowded(&turns), &of_site[0]);
    assert_ptr_equal(pccl_turns_take(&turns), &of_site[0]);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(others); i++)
        assert_ptr_equal(pccl_turns_take(&turns), &others[i]);
    for (uint32_t i = 1; i < PCCL_COUNT_OF(of_site); i++)
        assert_ptr_equal(pccl_turns_take(&turns), &of_site[i]);
    assert_null(pccl_turns_take(&turns));
    assert_null(pccl_turns_most_crowded(&turns));
}

/* Compared with plain counting, in a random order of additions, removals and turns. */
TEST(the_most_crowded_is_known)
{
    static struct pccl_turns turns;
    static struct pccl_turn entries[ENTRIES];
    static bool waits[ENTRIES];
    struct pccl_hash_key hash;
    struct pccl_prng draw;
    pccl_hash_key_init(&hash, 3);
    pccl_prng_seed(&draw, 5);
    pccl_turns_init(&turns, &hash);
    for (int step = 0; step < 20000; step++) {
        uint32_t index = (uint32_t)pccl_prng_below(&draw, ENTRIES);
        if (!waits[index]) {
            struct pccl_address from = address_of(index % HOSTS * (index % 7) / 6);
            pccl_turns_add(&turns, &entries[index], &from);
            waits[index] = true;
        } else if (pccl_prng_below(&draw, 2)) {
            pccl_turns_remove(&turns, &entries[index]);
            waits[index] = false;
        } else {
            const struct pccl_turn *taken = pccl_turns_take(&turns);
            waits[taken - entries] = false;
        }
        static uint32_t counts[PCCL_TURNS_SITES];
        uint32_t most = 0, count = 0;
        memset(counts, 0, sizeof counts);
        for (uint32_t i = 0; i < ENTRIES; i++)
            if (waits[i])
                most = pccl_max_u32(most, ++counts[entries[i].site]), count++;
        assert_int_equal(turns.count, count);
        assert_int_equal(turns.most, most);
        const struct pccl_turn *crowded = pccl_turns_most_crowded(&turns);
        if (count > 0)
            assert_int_equal(counts[crowded->site], most);
    }
}
