/* The names of subgroups, and the content of the messages that create them (wire/subgroup.h). */
#include "unit.h"

#include <string.h>

#include "core/prng.h"
#include "wire/subgroup.h"

enum { MOST = 70 };

static void draw(struct pccl_prng *prng, struct pccl_id *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ids[i] = pccl_prng_id(prng);
}

static struct pccl_bytes bytes_of(const struct pccl_id *ids, uint32_t count)
{
    return (struct pccl_bytes){ids->bytes, pccl_founding_bytes(count)};
}

TEST(ids_are_sorted)
{
    struct pccl_prng prng;
    struct pccl_id ids[MOST], before[MOST];
    pccl_prng_seed(&prng, 1);
    for (uint32_t count = 0; count <= MOST; count++) {
        draw(&prng, ids, count);
        if (count > 2)
            ids[count / 2] = ids[0];
        memcpy(before, ids, sizeof ids);
        pccl_ids_sort(ids, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(i == 0 || pccl_id_compare(&ids[i - 1], &ids[i]) <= 0);
            assert_true(pccl_id_find(ids, count, &before[i]) < count);
        }
    }
}

TEST(names_of_pairs_say_who_they_are)
{
    const uint64_t numbers[] = {1, 2, 3, 1000000, PCCL_PAIR_NUMBER_MAX};
    for (size_t i = 0; i < PCCL_COUNT_OF(numbers); i++)
        for (size_t k = 0; k < PCCL_COUNT_OF(numbers); k++) {
            uint64_t name = pccl_pair_name(numbers[i], numbers[k]);
            assert_true(name != 0 && (name != PCCL_OPEN_PAIR || i == k));
            assert_true(pccl_pair_source(name) == numbers[i] && pccl_pair_destination(name) == numbers[k]);
        }
}

TEST(a_list_must_be_ascending_and_of_its_tag)
{
    struct pccl_prng prng;
    struct pccl_id ids[MOST];
    pccl_prng_seed(&prng, 2);
    draw(&prng, ids, MOST);
    pccl_ids_sort(ids, MOST);
    for (uint32_t count = 0; count <= MOST; count++) {
        struct pccl_instance founding = {.tag = pccl_founding_tag(ids, count)};
        struct pccl_bytes list = bytes_of(ids, count);
        assert_int_equal(pccl_founding_is_valid(&founding, &list), count >= 2);
        list.length++;
        assert_false(pccl_founding_is_valid(&founding, &list));
    }
    struct pccl_bytes list = bytes_of(ids, MOST);
    struct pccl_instance founding = {.tag = pccl_founding_tag(ids, MOST) + 1};
    assert_false(pccl_founding_is_valid(&founding, &list));
    struct pccl_id id = ids[3];
    ids[3] = ids[4];
    founding.tag = pccl_founding_tag(ids, MOST);
    assert_false(pccl_founding_is_valid(&founding, &list));
    ids[4] = ids[3];
    founding.tag = pccl_founding_tag(ids, MOST);
    assert_false(pccl_founding_is_valid(&founding, &list));
    ids[3] = id;
    id = pccl_founding_id(&list, 3);
    assert_true(pccl_id_equal(&id, &ids[3]));
}

TEST(names_differ)
{
    const struct pccl_instance foundings[] = {{PCCL_FOUNDING, 0, 1, 2, 3, 4},
                                              {PCCL_FOUNDING, 0, 2, 2, 3, 4},
                                              {PCCL_FOUNDING, 0, 1, 3, 3, 4},
                                              {PCCL_FOUNDING, 0, 1, 2, 4, 4},
                                              {PCCL_FOUNDING, 0, 1, 2, 3, 5}};
    for (size_t i = 0; i < PCCL_COUNT_OF(foundings); i++) {
        uint64_t name = pccl_subgroup_name(&foundings[i]);
        assert_true(name != 0 && name <= PCCL_FOUNDING / 2);
        for (size_t k = 0; k < PCCL_COUNT_OF(foundings); k++)
            assert_int_equal(pccl_subgroup_name(&foundings[k]) == name, i == k);
    }
    /* other implementations must compute the same */
    assert_true(pccl_subgroup_name(&foundings[0]) == UINT64_C(0x5dd53a5d89b53210));
}

TEST(a_result_is_read_as_it_was_written)
{
    struct pccl_prng prng;
    struct pccl_id ids[MOST], sorted[MOST];
    uint8_t bytes[PCCL_FOUNDED_COST_BYTES + MOST * PCCL_FOUNDED_SEAT_BYTES];
    struct pccl_bytes founded = {bytes, sizeof bytes};
    const struct pccl_cost cost = {
        .mesh = 1, .rtt_us = 200, .rate = UINT64_MAX - 1, .mesh_rtt_us = 300, .mesh_rate = 7, .mesh_share = 5};
    pccl_prng_seed(&prng, 3);
    draw(&prng, ids, MOST);
    pccl_founded_put_cost(bytes, &cost);
    for (uint32_t rank = 0; rank < MOST; rank++)
        pccl_founded_put_seat(bytes, rank, &(struct pccl_founded_seat){ids[rank], (rank + 9) % MOST});
    struct pccl_cost read = pccl_founded_cost(&founded);
    assert_true(read.mesh == cost.mesh && read.rtt_us == cost.rtt_us && read.rate == cost.rate);
    assert_true(read.mesh_rtt_us == cost.mesh_rtt_us && read.mesh_rate == cost.mesh_rate);
    assert_true(read.mesh_share == cost.mesh_share);
    assert_int_equal(pccl_founded_count(&founded), MOST);
    assert_true(pccl_founded_has_ring(&founded));
    for (uint32_t rank = 0; rank < MOST; rank++) {
        struct pccl_founded_seat seat = pccl_founded_seat(&founded, rank);
        assert_true(pccl_id_equal(&seat.id, &ids[rank]) && seat.place == (rank + 9) % MOST);
    }
    pccl_founded_list(&founded, sorted);
    pccl_ids_sort(ids, MOST);
    assert_memory_equal(sorted, ids, sizeof ids);
    pccl_founded_put_seat(bytes, 0, &(struct pccl_founded_seat){ids[0], 10});
    assert_false(pccl_founded_has_ring(&founded));
    pccl_founded_put_seat(bytes, 0, &(struct pccl_founded_seat){ids[0], MOST});
    assert_false(pccl_founded_has_ring(&founded));
    founded.length--;
    assert_int_equal(pccl_founded_count(&founded), 0);
    founded.length = PCCL_FOUNDED_COST_BYTES - 1;
    assert_int_equal(pccl_founded_count(&founded), 0);
}
