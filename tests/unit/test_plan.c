/* collective/plan: how an operation is cut into stripes and segments, and which schedule its cost chooses. */
#include "unit.h"
#include "collective/plan.h"
#include "unit/support.h"

HANDLE_ASSERTS

/* Positions of at most PARTS_MOST parts: not in the order of the ring. */
enum { PARTS_MOST = 96 };
static const uint32_t *mixed(uint32_t ranks)
{
    static uint32_t positions[PARTS_MOST];
    assert_true(ranks <= PARTS_MOST);
    for (uint32_t rank = 0; rank < ranks; rank++)
        positions[rank] = ranks - 1 - (rank + ranks / 2) % ranks;
    return positions;
}

/* Makes a plan with the same cost everywhere, and the root at rank 1. */
static struct pccl_plan make_for(enum pccl_collective collective, uint64_t count, enum pccl_datatype datatype,
                                 uint32_t ranks, uint32_t rank, const struct pccl_cost *cost)
{
    struct pccl_descriptor descriptor = {
        .collective = (uint8_t)collective, .datatype = (uint8_t)datatype, .count = count};
    struct pccl_seat seat = {.ranks = ranks, .rank = rank, .root = 1};
    struct pccl_plan plan;
    struct pccl_text reason;
    assert_int_equal(pccl_plan_make(&descriptor, cost, seat, mixed(ranks), NULL, &plan, &reason), PCCL_OK);
    return plan;
}

static struct pccl_plan make(uint64_t count, enum pccl_datatype datatype, uint32_t ranks, uint32_t rank,
                             const struct pccl_cost *cost)
{
    static const struct pccl_cost unknown = {0};
    struct pccl_descriptor descriptor = {.datatype = (uint8_t)datatype, .operation = PCCL_SUM, .count = count};
    struct pccl_plan plan;
    struct pccl_text reason;
    assert_int_equal(pccl_plan_make(&descriptor, cost != NULL ? cost : &unknown,
                                    (struct pccl_seat){.ranks = ranks, .rank = rank}, NULL, NULL, &plan, &reason),
                     PCCL_OK);
    return plan;
}

static void check_sizes(const struct pccl_plan *plan)
{
    size_t most = pccl_packing_packs(&plan->packing) ? pccl_plan_bytes(plan, 0, 256 << 10)
                                                     : 256 << 10; /* heads of blocks on top */
    for (uint32_t step = 0; step < pccl_schedules[plan->algorithm]->steps(plan->seat); step++) {
        assert_true(pccl_plan_bytes(plan, step, plan->segment_elements) <= most);
        assert_true(pccl_plan_bytes(plan, step, 77) <= pccl_plan_bytes_most(plan, 77));
    }
    assert_int_equal(plan->segment_elements * plan->element_bytes % 64, 0);
    if (pccl_packing_packs(&plan->packing) && plan->segment_elements > PCCL_CODEC_BLOCK)
        assert_int_equal(plan->segment_elements % PCCL_CODEC_BLOCK, 0);
}

static void check_cut(const struct pccl_plan *plan)
{
    check_sizes(plan);
    uint64_t next = 0;
    for (uint64_t stripe = 0; stripe < plan->stripes; stripe++) {
        uint32_t filled = 0, shortest = UINT32_MAX, longest = 0;
        for (uint32_t number = 0; number < plan->pieces; number++) {
            struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
            assert_int_equal(segment.first, next);
            next += segment.count;
            assert_true(segment.count <= plan->segment_elements);
            assert_true(stripe + 1 == plan->stripes || segment.count == plan->segment_elements);
            if (segment.count > 0 || !plan->leaves_pieces)
                shortest = segment.count < shortest ? segment.count : shortest;
            longest = segment.count > longest ? segment.count : longest;
            assert_int_equal(pccl_plan_has_segment(plan, stripe, number), segment.count > 0);
            if (segment.count > 0)
                assert_int_equal(filled++, number);
        }
        assert_true(filled > 0 && longest - shortest <= 1);
    }
    assert_int_equal(next, plan->count);
}

TEST(segments_cover_everything)
{
    static const uint64_t counts[] = {1,      2,      3,       7,       8,       9,       100,
                                      1000,   16384,  16385,   65535,   65536,   131072,  200000,
                                      262144, 524287, 1 << 20, 3000001, 5 << 20, 10000000};
    for (size_t i = 0; i < PCCL_COUNT_OF(counts); i++)
        for (uint32_t ranks = 2; ranks <= 9; ranks++)
            for (unsigned datatype = 0; datatype < PCCL_DATATYPES; datatype++) {
                struct pccl_plan plan = make(counts[i], (enum pccl_datatype)datatype, ranks, 0, NULL);
                check_cut(&plan);
            }
}

/* Every part is cut separately, and is at the offset of its position. */
static void check_parts(const struct pccl_plan *plan)
{
    check_sizes(plan);
    uint64_t next[PARTS_MOST] = {0};
    for (uint64_t stripe = 0; stripe < plan->stripes; stripe++) {
        for (uint32_t number = 0; number < plan->seat.ranks; number++) {
            struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
            uint64_t position = mixed(plan->seat.ranks)[number];
            uint64_t part = plan->starts != NULL ? plan->starts[position] : position * plan->count;
            assert_true(segment.count == 0 || segment.first == part + next[number]);
            assert_in_range(segment.count, plan->starts == NULL, plan->segment_elements);
            assert_int_equal(pccl_plan_has_segment(plan, stripe, number), segment.count > 0);
            next[number] += segment.count;
        }
    }
    for (uint32_t number = 0; number < plan->seat.ranks; number++) {
        uint64_t position = mixed(plan->seat.ranks)[number];
        assert_int_equal(next[number],
                         plan->starts != NULL ? plan->starts[position + 1] - plan->starts[position] : plan->count);
    }
}

/* Each turn cuts the part that all ranks get in it, and each pair of an all-to-all has a turn. */
static void check_turns(const struct pccl_plan *plan)
{
    const uint64_t ranks = plan->seat.ranks, rounds = plan->stripes / plan->turns;
    check_sizes(plan);
    assert_int_equal(plan->stripes % plan->turns, 0);
    assert_true((rounds - 1) * plan->segment_elements < plan->count && plan->count <= rounds * plan->segment_elements);
    for (uint64_t stripe = 0; stripe < plan->stripes; stripe += 1 + stripe % 7)
        for (uint32_t number = 0; number < ranks; number++) {
            const struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
            const uint64_t within = stripe / plan->turns * plan->segment_elements;
            const uint32_t places = pccl_exchange_places(pccl_plan_seat(plan, stripe));
            const uint64_t sender = mixed(plan->seat.ranks)[number];
            const uint64_t receiver = mixed(plan->seat.ranks)[(number + places) % ranks];
            const uint64_t part = plan->division == PCCL_DIVISION_EXCHANGED ? sender * ranks + receiver : sender;
            assert_int_equal(segment.first, part * plan->count + within);
            assert_int_equal(segment.count, pccl_min_u64(plan->segment_elements, plan->count - within));
            if (plan->division == PCCL_DIVISION_EXCHANGED && number == plan->seat.rank)
                assert_int_equal(pccl_plan_input_at(plan, &segment),
                                 (receiver * plan->count + within) * plan->element_bytes);
            if (plan->division == PCCL_DIVISION_EXCHANGED && (number + places) % ranks == plan->seat.rank)
                assert_int_equal(pccl_plan_result_at(plan, &segment),
                                 (sender * plan->count + within) * plan->element_bytes);
        }
}

/* Returns the starts of parts with these lengths, repeated. */
static const uint64_t *starts_of(const uint64_t *lengths, uint32_t length_count, uint32_t ranks)
{
    static uint64_t starts[PARTS_MOST + 1];
    assert_true(ranks <= PARTS_MOST);
    for (uint32_t i = 0; i < ranks; i++)
        starts[i + 1] = starts[i] + lengths[i % length_count];
    return starts;
}

static enum pccl_status make_given(enum pccl_collective collective, const uint64_t *starts, uint32_t ranks,
                                   uint32_t rank, const struct pccl_cost *cost, struct pccl_plan *plan)
{
    const uint32_t parts = collective == PCCL_ALL_TO_ALL_V ? ranks * ranks : ranks;
    struct pccl_descriptor descriptor = {.collective = (uint8_t)collective, .count = starts[parts], .counts = {{1}}};
    struct pccl_text reason;
    return pccl_plan_make(&descriptor, cost, (struct pccl_seat){.ranks = ranks, .rank = rank}, mixed(ranks), starts,
                          plan, &reason);
}

/* Lengths of parts: some are empty, some much longer than others. */
static const uint64_t part_lengths[][3] = {{0, 1, 0}, {5, 0, 7}, {1 << 20, 0, 3}, {0, 300000, 1}, {64, 64, 64}};
static const struct pccl_cost part_costs[] = {{0}, {.rtt_us = 50000}, {.mesh = 1, .rtt_us = 50000}};

TEST(parts_of_given_lengths_are_cut)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(part_lengths); i++)
        for (uint32_t ranks = 2; ranks <= 9; ranks++)
            for (size_t k = 0; k < PCCL_COUNT_OF(part_costs); k++) {
                const uint64_t *starts = starts_of(part_lengths[i], 3, ranks);
                const uint32_t rank = ranks / 2, own = mixed(ranks)[rank];
                struct pccl_plan plan;
                assert_int_equal(make_given(PCCL_REDUCE_SCATTER, starts, ranks, rank, &part_costs[k], &plan), PCCL_OK);
                check_parts(&plan);
                assert_int_equal(plan.own, part_lengths[i][own % 3]);
                assert_true(plan.result_from == starts[own] && plan.input_from == 0);
                assert_int_equal(plan.own_from, starts[own]);
                assert_int_equal(make_given(PCCL_ALL_GATHER_V, starts, ranks, rank, &part_costs[k], &plan), PCCL_OK);
                check_parts(&plan);
                assert_true(plan.input_from == starts[own] && plan.result_from == 0);
                assert_int_equal(plan.own_from, starts[own]);
            }
}

/* Lengths by pair, in the order of the positions: every element is in one segment, of the right part. */
TEST(blobs_of_pairs_are_cut)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(part_lengths); i++)
        for (uint32_t ranks = 2; ranks <= 9; ranks++)
            for (size_t k = 0; k < PCCL_COUNT_OF(part_costs); k++) {
                const uint64_t *starts = starts_of(part_lengths[i], 3, ranks * ranks);
                uint64_t next[PARTS_MOST] = {0};
                struct pccl_plan plan;
                assert_int_equal(make_given(PCCL_ALL_TO_ALL_V, starts, ranks, 1, &part_costs[k], &plan), PCCL_OK);
                assert_true(plan.input_from == starts[mixed(ranks)[1] * ranks] && plan.own == 0);
                for (uint64_t stripe = 0; stripe < plan.stripes; stripe++)
                    for (uint32_t number = 0; number < ranks; number++) {
                        const struct pccl_segment segment = pccl_plan_segment(&plan, stripe, number);
                        const uint32_t places = pccl_exchange_places(pccl_plan_seat(&plan, stripe));
                        const uint32_t from = mixed(ranks)[number], to = mixed(ranks)[(number + places) % ranks];
                        assert_int_equal(segment.part, from * ranks + to);
                        assert_true(segment.count == 0 || segment.first == starts[segment.part] + next[segment.part]);
                        next[segment.part] += segment.count;
                    }
                for (uint32_t part = 0; part < ranks * ranks; part++)
                    assert_int_equal(next[part], starts[part + 1] - starts[part]);
            }
}

/* Parts of similar lengths are completed one after the other; a much longer one does not delay the others. */
TEST(turns_go_on_where_that_costs_little)
{
    const struct pccl_cost cost = {.mesh = 1, .rtt_us = 50000, .rate = 125000000};
    static const uint64_t equal[] = {16 << 20}, similar[] = {1 << 20, 9 << 17}, uneven[] = {1 << 20, 0, 0, 1, 0};
    struct pccl_plan plan;
    assert_int_equal(make_given(PCCL_ALL_TO_ALL_V, starts_of(equal, 1, 16), 4, 0, &cost, &plan), PCCL_OK);
    assert_true(plan.algorithm == PCCL_EXCHANGE_DIRECT && plan.turn_stripes == 256 && plan.stripes == 4 * 256);
    for (uint32_t turn = 0; turn < 4; turn++) {
        assert_int_equal(pccl_plan_seat(&plan, turn * 256).turn, turn);
        assert_int_equal(pccl_plan_seat(&plan, turn * 256 + 255).turn, turn);
    }
    assert_int_equal(make_given(PCCL_ALL_TO_ALL_V, starts_of(similar, 2, 16), 4, 0, &cost, &plan), PCCL_OK);
    assert_true(plan.turn_stripes > 1);
    assert_int_equal(make_given(PCCL_ALL_TO_ALL_V, starts_of(uneven, 5, 16), 4, 0, &cost, &plan), PCCL_OK);
    assert_true(plan.turn_stripes == 1 && plan.stripes > plan.turns);
    assert_int_equal(make_given(PCCL_SCATTER_V, starts_of(uneven, 5, 4), 4, 0, &(struct pccl_cost){0}, &plan), PCCL_OK);
    assert_true(plan.algorithm == PCCL_FROM_ROOT_CHAIN && plan.turn_stripes > 1); /* only the root sends */
    assert_int_equal(make_for(PCCL_ALL_TO_ALL, 16 << 20, PCCL_U8, 4, 0, &cost).turn_stripes, 1);
}

/* Chosen by the bytes that the busiest rank, pair or link of the ring carries. */
TEST(blobs_go_directly_where_that_is_faster)
{
    const struct pccl_cost lan = {.mesh = 1}, no_mesh = {.rtt_us = 50000};
    const struct pccl_cost slow_pair = {.mesh = 1, .rtt_us = 50000, .rate = 50000000, .mesh_rate = 1000000};
    static const uint64_t much[] = {1 << 30, 1, 0, 1000, 5}, long_ones[] = {64 << 20};
    static const enum pccl_collective kinds[] = {PCCL_GATHER_V, PCCL_SCATTER_V, PCCL_ALL_TO_ALL_V};
    static const enum pccl_algorithm ways[][2] = {{PCCL_TO_ROOT_CHAIN, PCCL_TO_ROOT_DIRECT},
                                                  {PCCL_FROM_ROOT_CHAIN, PCCL_FROM_ROOT_DIRECT},
                                                  {PCCL_EXCHANGE_RING, PCCL_EXCHANGE_DIRECT}};
    for (unsigned kind = 0; kind < PCCL_COUNT_OF(kinds); kind++) {
        const uint32_t parts = kinds[kind] == PCCL_ALL_TO_ALL_V ? 16 : 4;
        struct pccl_plan plan;
        assert_int_equal(make_given(kinds[kind], starts_of(much, 5, parts), 4, 1, &lan, &plan), PCCL_OK);
        assert_int_equal(plan.algorithm, ways[kind][1]);
        assert_int_equal(make_given(kinds[kind], starts_of(much, 5, parts), 4, 1, &no_mesh, &plan), PCCL_OK);
        assert_int_equal(plan.algorithm, ways[kind][0]);
        assert_int_equal(make_given(kinds[kind], starts_of(long_ones, 1, parts), 4, 1, &slow_pair, &plan), PCCL_OK);
        assert_int_equal(plan.algorithm, ways[kind][0]);
    }
}

TEST(given_lengths_must_make_up_the_tensor)
{
    static const uint64_t good[] = {0, 3, 7}, late[] = {1, 3, 7}, back[] = {0, 8, 7};
    const struct pccl_cost cost = {0};
    struct pccl_plan plan;
    struct pccl_text reason;
    struct pccl_descriptor descriptor = {.collective = PCCL_REDUCE_SCATTER, .count = 6, .counts = {{1}}};
    const struct pccl_seat seat = {.ranks = 2};
    assert_int_equal(make_given(PCCL_REDUCE_SCATTER, good, 2, 0, &cost, &plan), PCCL_OK);
    assert_int_equal(make_given(PCCL_REDUCE_SCATTER, late, 2, 0, &cost, &plan), PCCL_ARGUMENT);
    assert_int_equal(make_given(PCCL_REDUCE_SCATTER, back, 2, 0, &cost, &plan), PCCL_ARGUMENT);
    assert_int_equal(pccl_plan_make(&descriptor, &cost, seat, mixed(2), good, &plan, &reason), PCCL_ARGUMENT);
    descriptor = (struct pccl_descriptor){.collective = PCCL_REDUCE_SCATTER, .count = 7};
    assert_int_equal(pccl_plan_make(&descriptor, &cost, seat, mixed(2), good, &plan, &reason), PCCL_ARGUMENT);
}

TEST(other_collectives_are_cut_too)
{
    const struct pccl_cost costs[] = {{0}, {.rtt_us = 50000}, {.mesh = 1, .rtt_us = 100}, {.mesh = 1, .rtt_us = 50000}};
    for (uint64_t count = 1; count < 30000000; count = count * 7 + 3)
        for (uint32_t ranks = 2; ranks <= 17; ranks++)
            for (size_t i = 0; i < PCCL_COUNT_OF(costs); i++) {
                struct pccl_plan plan = make_for(PCCL_BROADCAST, count, PCCL_U16, ranks, ranks - 1, &costs[i]);
                check_cut(&plan);
                plan = make_for(PCCL_ALL_GATHER, count, PCCL_F32, ranks, ranks - 1, &costs[i]);
                check_parts(&plan);
                plan = make_for(PCCL_REDUCE_SCATTER, count, PCCL_BF16, ranks, ranks - 1, &costs[i]);
                check_parts(&plan);
                plan = make_for(PCCL_REDUCE, count, PCCL_F16, ranks, ranks - 1, &costs[i]);
                check_cut(&plan);
                plan = make_for(PCCL_GATHER, count, PCCL_U32, ranks, ranks - 1, &costs[i]);
                check_parts(&plan);
                plan = make_for(PCCL_SCATTER, count, PCCL_I8, ranks, ranks - 1, &costs[i]);
                check_turns(&plan);
                plan = make_for(PCCL_ALL_TO_ALL, count, PCCL_F64, ranks, ranks - 1, &costs[i]);
                check_turns(&plan);
            }
}

/* Receiving and sending overlap, unless the segments would be tiny. */
TEST(chains_are_cut_like_rings)
{
    const struct pccl_cost cost = {0};
    assert_int_equal(make_for(PCCL_BROADCAST, 1 << 20, PCCL_U8, 8, 0, &cost).stripes, 8);
    assert_int_equal(make_for(PCCL_BROADCAST, 32 << 10, PCCL_U8, 8, 0, &cost).stripes, 2);
    assert_int_equal(make_for(PCCL_BROADCAST, 1 << 20, PCCL_U8, 2, 0, &cost).stripes, 4);
    assert_int_equal(make_for(PCCL_BROADCAST, 64 << 20, PCCL_U8, 8, 0, &cost).stripes, 256);
}

TEST(codecs_get_whole_blocks)
{
    for (uint64_t count = 1; count < 40000000; count = count * 3 + 1) {
        struct pccl_descriptor descriptor = {.datatype = PCCL_F32,
                                             .operation = PCCL_SUM,
                                             .codec = PCCL_CODEC_MIN_MAX,
                                             .codec_datatype = PCCL_U8,
                                             .count = count};
        struct pccl_cost cost = {0};
        struct pccl_plan plan;
        struct pccl_text reason;
        assert_int_equal(
            pccl_plan_make(&descriptor, &cost, (struct pccl_seat){.ranks = 3, .rank = 1}, NULL, NULL, &plan, &reason),
            PCCL_OK);
        assert_non_null(plan.packing.codec);
        check_cut(&plan);
        assert_int_equal(pccl_plan_bytes(&plan, 1, 5000), pccl_codec_bytes(plan.packing.codec, 5000));
    }
}

/* Directly wherever that is possible, so that nothing is packed twice; along the ring otherwise. */
TEST(scaled_codecs_reduce_directly)
{
    const struct pccl_cost mesh = {.mesh = 1, .rtt_us = 1, .rate = 1000000}, none = {.rtt_us = 1, .rate = 1000000};
    for (uint32_t ranks = 2; ranks <= 20; ranks++)
        for (unsigned format = 0; format < PCCL_SCALED_FORMATS; format++)
            for (uint64_t count = 1; count < 40000000; count = count * 7 + 1) {
                struct pccl_descriptor descriptor = {.datatype = format % 2 == 0 ? PCCL_F32 : PCCL_BF16,
                                                     .codec = (uint8_t)(PCCL_PACKING_SCALED + format),
                                                     .codec_block = 64,
                                                     .count = count};
                const struct pccl_seat seat = {.ranks = ranks, .rank = 1};
                const bool direct = ranks > 2 && ranks <= PCCL_MESH_PEERS_MAX;
                struct pccl_plan plan;
                struct pccl_text reason;
                assert_int_equal(pccl_plan_make(&descriptor, &mesh, seat, NULL, NULL, &plan, &reason), PCCL_OK);
                assert_int_equal(plan.algorithm, direct ? PCCL_DIRECT : PCCL_RING);
                assert_int_equal(plan.folded_datatype, PCCL_F32);
                check_cut(&plan);
                descriptor.collective = PCCL_REDUCE_SCATTER;
                assert_int_equal(pccl_plan_make(&descriptor, &mesh, seat, mixed(ranks), NULL, &plan, &reason), PCCL_OK);
                assert_int_equal(plan.algorithm, direct ? PCCL_SCATTER_DIRECT : PCCL_SCATTER_RING);
                assert_int_equal(pccl_plan_make(&descriptor, &none, seat, mixed(ranks), NULL, &plan, &reason), PCCL_OK);
                assert_int_equal(plan.algorithm, PCCL_SCATTER_RING);
            }
}

/* The way of several sections follows from the bytes that are sent: packed, there are fewer. */
TEST(sections_are_judged_by_what_travels)
{
    const struct pccl_cost cost = {.mesh = 1, .rtt_us = 1000, .rate = 1000000000, .mesh_rate = 100000000};
    const struct pccl_seat seat = {.ranks = 4, .rank = 1};
    bool differ = false;
    for (uint64_t count = 1000; count < 20000000; count += count / 3) {
        const struct pccl_section sections[] = {{PCCL_F32, PCCL_SUM, count}, {PCCL_I32, PCCL_MAX, count / 100}};
        struct pccl_descriptor descriptor = {.collective = PCCL_COALESCED, .counts = {{1}}};
        struct pccl_plan plans[2], whole;
        enum pccl_algorithm algorithms[2];
        struct pccl_text reason;
        for (unsigned packed = 0; packed < 2; packed++) {
            descriptor.codec = packed ? PCCL_CODEC_MIN_MAX : PCCL_CODEC_NONE;
            descriptor.codec_datatype = PCCL_U8;
            assert_int_equal(pccl_plan_make_sections(&descriptor, &cost, seat, sections, 2, plans, &whole, &reason),
                             PCCL_OK);
            const uint64_t bytes = pccl_plan_bytes(&plans[0], 0, (uint32_t)count) + count / 100 * sizeof(int32_t);
            assert_int_equal(whole.algorithm, make(bytes, PCCL_U8, 4, 1, &cost).algorithm);
            algorithms[packed] = whole.algorithm;
        }
        differ = differ || (algorithms[0] == PCCL_RING && algorithms[1] == PCCL_DIRECT);
    }
    assert_true(differ);
}

/* Only intermediate results, only if they would be rounded, and never with a codec. */
TEST(sums_of_narrow_floats_travel_wide)
{
    const struct pccl_cost mesh = {.mesh = 1, .rtt_us = 100000, .rate = 1000000000};
    for (uint32_t ranks = 2; ranks <= 5; ranks++)
        for (unsigned datatype = 0; datatype < PCCL_DATATYPES; datatype++)
            for (unsigned variant = 0; variant < 8; variant++) {
                const bool direct = (variant & 1) != 0, greatest = (variant & 2) != 0, quantized = (variant & 4) != 0;
                const bool narrow = pccl_datatype_is_float(datatype) && pccl_datatype_bytes(datatype) < 4;
                struct pccl_descriptor descriptor = {.datatype = (uint8_t)datatype,
                                                     .operation = greatest ? PCCL_MAX : PCCL_AVG,
                                                     .codec = quantized ? PCCL_CODEC_MIN_MAX : PCCL_CODEC_NONE,
                                                     .codec_datatype = PCCL_U8,
                                                     .count = 5000};
                const struct pccl_cost cost = {0};
                struct pccl_plan plan;
                struct pccl_text reason;
                if (pccl_plan_make(&descriptor, direct ? &mesh : &cost, (struct pccl_seat){.ranks = ranks}, NULL, NULL,
                                   &plan, &reason) != PCCL_OK)
                    continue;
                for (uint32_t step = 0; step < pccl_schedules[plan.algorithm]->steps(plan.seat); step++) {
                    bool between = plan.algorithm == PCCL_RING && step > 0 && step < ranks - 1;
                    bool wide = narrow && !greatest && !pccl_packing_packs(&plan.packing) && between;
                    assert_int_equal(pccl_plan_is_wide(&plan, step), wide);
                    size_t bytes = quantized && plan.packing.codec != NULL ? pccl_codec_bytes(plan.packing.codec, 1000)
                                                                           : 1000 * (wide ? 4 : plan.element_bytes);
                    assert_int_equal(pccl_plan_bytes(&plan, step, 1000), bytes);
                }
                const bool packs = pccl_packing_packs(&plan.packing);
                assert_int_equal(pccl_packing_packs(&plan.folded_packing), packs);
                if (packs)
                    assert_int_equal(pccl_packing_bytes(&plan.folded_packing, 2500),
                                     pccl_packing_bytes(&plan.packing, 2500));
            }
}

TEST(segments_are_as_large_as_they_may_be)
{
    enum { KIB = 1024 / 4 }; /* elements */
    assert_int_equal(make(4 * 128 * KIB, PCCL_F32, 4, 0, NULL).stripes, 1);
    assert_int_equal(make(8 * 128 * KIB, PCCL_F32, 4, 0, NULL).stripes, 1);
    assert_int_equal(make(16 * 128 * KIB, PCCL_F32, 4, 0, NULL).stripes, 2);
    assert_int_equal(make(16 * 128 * KIB, PCCL_F32, 4, 0, NULL).segment_elements, 256 * KIB);
    assert_int_equal(make(12 * 128 * KIB, PCCL_F32, 4, 0, NULL).stripes, 2);
    assert_int_equal(make(12 * 128 * KIB, PCCL_F32, 4, 0, NULL).segment_elements, 192 * KIB);
    assert_int_equal(make(16 * 256 * KIB, PCCL_F32, 4, 0, NULL).stripes, 4);
    assert_int_equal(make(64 * 256 * KIB, PCCL_F32, 4, 0, NULL).stripes, 16);
    assert_int_equal(make(64 * 256 * KIB, PCCL_F32, 4, 0, NULL).segment_elements, 256 * KIB);
}

static uint32_t filled_pieces(const struct pccl_plan *plan)
{
    uint32_t filled = 0;
    for (uint32_t number = 0; number < plan->pieces; number++)
        filled += pccl_plan_has_segment(plan, plan->stripes - 1, number);
    return filled;
}

/* In a large group there are fewer segments only if the view's figures show that this delays no step by much. */
TEST(small_tensors_have_few_segments_in_large_groups)
{
    static const struct {
        struct pccl_cost cost;
        uint32_t elements, filled; /* of 64 KiB in a ring of 1,000 */
    } rows[] = {
        {{.rtt_us = 0}, 4096, 4},                         /* within a host */
        {{.rate = 5000000000}, 4096, 4},                  /* the same, measured */
        {{.rate = 1000000}, 4096, 4},                     /* the same, measured while the processors were busy */
        {{.rtt_us = 50}, 32, 1000},                       /* unknown: one in each piece, of 16 or 17 */
        {{.rtt_us = 100, .rate = 125000000}, 400, 41},    /* 1 Gbit/s: an eighth of 100 us */
        {{.rtt_us = 50000, .rate = 125000000}, 1568, 11}, /* 50 us */
        {{.rtt_us = 50000, .rate = 1250000}, 32, 1000},   /* 10 Mbit/s: 62 bytes */
        {{.rtt_us = 50000, .rate = UINT64_MAX}, 4096, 4}, /* no overflow */
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(rows); i++) {
        struct pccl_plan plan = make(16384, PCCL_F32, 1000, 7, &rows[i].cost);
        check_cut(&plan);
        assert_int_equal(plan.segment_elements, rows[i].elements);
        assert_int_equal(filled_pieces(&plan), rows[i].filled);
        plan = make(16384, PCCL_F32, PCCL_MESH_PEERS_MAX, 7, &rows[i].cost);
        assert_true(!plan.leaves_pieces && filled_pieces(&plan) == PCCL_MESH_PEERS_MAX);
        plan = make(1 << 26, PCCL_F32, 1000, 7, &rows[i].cost);
        check_cut(&plan);
        assert_false(plan.leaves_pieces);
    }
    const struct pccl_cost wan = {.rtt_us = 50000, .rate = 12500000}; /* 100 Mbit/s: one in each piece, of 2 KiB */
    struct pccl_plan plan = make(16384, PCCL_F32, 32, 7, &wan);
    assert_true(plan.segment_elements == 512 && filled_pieces(&plan) == 32);
}

/*
 * `ready` names the elements of a segment: members whose figures differ, and that therefore cut in another way, detect
 * it by this number.
 */
TEST(who_agrees_on_segments_agrees_on_the_cut)
{
    static const uint64_t rates[] = {0, 1000000, 12500000, 125000000, 1250000000};
    static const uint32_t rtts_us[] = {0, 50, 100, 400, 1999};
    for (uint64_t count = 5; count < 4000000; count += count / 2)
        for (uint32_t ranks = 15; ranks <= 66; ranks += 3) {
            struct pccl_plan first = make(count, PCCL_F32, ranks, 0, NULL);
            for (size_t i = 0; i < PCCL_COUNT_OF(rates) * PCCL_COUNT_OF(rtts_us); i++) {
                const struct pccl_cost cost = {.rate = rates[i % 5], .rtt_us = rtts_us[i / 5]};
                struct pccl_plan plan = make(count, PCCL_F32, ranks, 0, &cost);
                const bool same = plan.segment_elements == first.segment_elements;
                check_cut(&plan);
                assert_true(!same || (plan.leaves_pieces == first.leaves_pieces && plan.stripes == first.stripes));
            }
        }
}

static struct pccl_segment last_segment(const struct pccl_plan *plan)
{
    uint32_t number = plan->pieces - 1;
    while (!pccl_plan_has_segment(plan, plan->stripes - 1, number))
        number--;
    return pccl_plan_segment(plan, plan->stripes - 1, number);
}

TEST(huge_buffers_do_not_overflow)
{
    const uint64_t count = (UINT64_C(1) << 40) + 12345;
    struct pccl_plan plan = make(count, PCCL_U8, 7, 3, NULL);
    struct pccl_segment last = pccl_plan_segment(&plan, plan.stripes - 1, 6);
    assert_true(last.first > UINT32_MAX);
    struct pccl_segment end = last_segment(&plan);
    assert_true(end.first + end.count == count);
    struct pccl_segment middle = pccl_plan_segment(&plan, plan.stripes / 2, 0);
    struct pccl_segment before = pccl_plan_segment(&plan, plan.stripes / 2 - 1, 6);
    assert_true(before.first + before.count == middle.first);
    plan = make((uint64_t)PTRDIFF_MAX / 8, PCCL_F64, PCCL_PEERS_MAX, 0, NULL);
    end = last_segment(&plan);
    assert_true(end.first + end.count == plan.count);
}

/* `own`: the elements that may have to be restored; only the root of a collective has any. */
TEST(only_the_root_has_both_sides)
{
    const struct pccl_cost cost = {0};
    static const enum pccl_collective rooted[] = {PCCL_BROADCAST, PCCL_REDUCE, PCCL_GATHER, PCCL_SCATTER};
    for (size_t i = 0; i < PCCL_COUNT_OF(rooted); i++)
        for (uint32_t rank = 0; rank < 3; rank++) {
            const struct pccl_plan plan = make_for(rooted[i], 5, PCCL_U8, 3, rank, &cost);
            assert_true(plan.own == (rank == 1 ? 5 : 0) && plan.count == 5);
        }
    assert_int_equal(make_for(PCCL_ALL_TO_ALL, 5, PCCL_U8, 3, 1, &cost).own, 0);
}

/* All parts of one side, and only the own part of the other one. */
TEST(parts_lie_beyond_4_gib)
{
    const uint64_t count = UINT64_C(3) << 30;
    const struct pccl_cost cost = {0};
    for (uint32_t rank = 0; rank < 5; rank++) {
        const struct pccl_plan gather = make_for(PCCL_ALL_GATHER, count, PCCL_F64, 5, rank, &cost);
        const struct pccl_plan scatter = make_for(PCCL_REDUCE_SCATTER, count, PCCL_F64, 5, rank, &cost);
        const uint64_t position = mixed(5)[rank], stripe = gather.stripes - 1;
        const size_t within = (size_t)(stripe * gather.segment_elements) * sizeof(double);
        const size_t whole = (size_t)(position * count) * sizeof(double) + within;
        const struct pccl_segment own = pccl_plan_segment(&gather, stripe, rank);
        assert_true(within > UINT32_MAX);
        assert_int_equal(pccl_plan_input_at(&gather, &own), within);
        assert_int_equal(pccl_plan_result_at(&gather, &own), whole);
        assert_int_equal(pccl_plan_input_at(&scatter, &own), whole);
        assert_int_equal(pccl_plan_result_at(&scatter, &own), within);
    }
}

TEST(the_algorithm_follows_the_cost)
{
    struct pccl_cost lan = {.mesh = 1};
    struct pccl_cost long_link = {.mesh = 1, .rtt_us = 50000, .rate = 125000000, .mesh_rate = 125000000};
    struct pccl_cost no_mesh = {.mesh = 0, .rtt_us = 50000, .rate = 125000000};
    assert_int_equal(make(1000, PCCL_F32, 4, 0, &lan).algorithm, PCCL_DIRECT);
    assert_int_equal(make(1 << 20, PCCL_F32, 4, 0, &lan).algorithm, PCCL_RING); /* 4 MiB in 3 ms; 0.2 ms are saved */
    assert_int_equal(make(1 << 20, PCCL_F32, 4, 0, &long_link).algorithm, PCCL_DIRECT);
    assert_int_equal(make((2 << 20) + 1, PCCL_F32, 4, 0, &long_link).algorithm, PCCL_RING);
    assert_int_equal(make(1000, PCCL_F32, 2, 0, &long_link).algorithm, PCCL_RING);
    assert_int_equal(make(1000, PCCL_F32, PCCL_MESH_PEERS_MAX, 0, &long_link).algorithm, PCCL_DIRECT);
    assert_int_equal(make(1000, PCCL_F32, PCCL_MESH_PEERS_MAX + 1, 0, &long_link).algorithm, PCCL_RING);
    assert_int_equal(make(1000, PCCL_F32, 4, 0, &no_mesh).algorithm, PCCL_RING);
    /* All pairs are known: one that is slow, or far away, prevents direct exchange. */
    struct pccl_cost even = {.mesh = 1, .rtt_us = 50000, .rate = 50000000, .mesh_rtt_us = 50000, .mesh_rate = 50000000};
    struct pccl_cost slow_pair = even, far_pair = even;
    slow_pair.mesh_rate = 2500000;
    far_pair.mesh_rtt_us = 160000;
    assert_int_equal(make(1 << 18, PCCL_F32, 4, 0, &even).algorithm, PCCL_DIRECT);
    assert_int_equal(make(1 << 18, PCCL_F32, 4, 0, &slow_pair).algorithm,
                     PCCL_RING); /* 2 x 262144 bytes there: 210 ms */
    assert_int_equal(make(1 << 12, PCCL_F32, 4, 0, &slow_pair).algorithm, PCCL_DIRECT);
    assert_int_equal(make(1 << 12, PCCL_F32, 4, 0, &far_pair).algorithm, PCCL_RING);
    /* If partial sums are wide, the ring has more to send; integers are not widened. */
    assert_int_equal(make(4 << 20, PCCL_F16, 4, 0, &lan).algorithm, PCCL_DIRECT);
    assert_int_equal(make(32 << 20, PCCL_BF16, 8, 0, &lan).algorithm, PCCL_DIRECT);
    assert_int_equal(make((32 << 20) + 1, PCCL_BF16, 8, 0, &lan).algorithm, PCCL_RING);
    assert_int_equal(make(32 << 20, PCCL_BF16, 8, 0, &no_mesh).algorithm, PCCL_RING);
    assert_int_equal(make(1 << 20, PCCL_BF16, 4, 0, &slow_pair).algorithm, PCCL_RING);
    assert_int_equal(make(4 << 20, PCCL_U16, 4, 0, &lan).algorithm, PCCL_RING);
    /* For any cost that a master sends. */
    struct pccl_cost extreme = {.mesh = 1, .rtt_us = UINT32_MAX, .rate = UINT64_MAX, .mesh_rate = UINT64_MAX};
    assert_int_equal(make(1 << 20, PCCL_F64, 16, 0, &extreme).algorithm, PCCL_DIRECT);
    extreme = (struct pccl_cost){.mesh = 1, .rtt_us = 1, .rate = 1};
    assert_int_equal(make(1 << 20, PCCL_F64, 16, 0, &extreme).algorithm, PCCL_RING);
    assert_int_equal(make(32 << 20, PCCL_F16, 16, 0, &extreme).algorithm, PCCL_DIRECT);
}

/*
 * With more members than a mesh has, only the bytes that the ring relays are sent directly, if the view has its hubs.
 */
TEST(hubs_are_for_what_the_ring_relays)
{
    static const struct {
        enum pccl_collective collective;
        enum pccl_algorithm ring, direct;
        bool to, from; /* it takes links to the root, or from it; neither: of all pairs */
    } rows[] = {{PCCL_GATHER, PCCL_TO_ROOT_CHAIN, PCCL_TO_ROOT_DIRECT, true, false},
                {PCCL_SCATTER, PCCL_FROM_ROOT_CHAIN, PCCL_FROM_ROOT_DIRECT, false, true},
                {PCCL_ALL_TO_ALL, PCCL_EXCHANGE_RING, PCCL_EXCHANGE_DIRECT, false, false},
                {PCCL_EXCLUSIVE_SCAN, PCCL_SCAN_RING, PCCL_SCAN_DIRECT, false, false},
                {PCCL_REDUCE, PCCL_REDUCE_CHAIN, PCCL_REDUCE_CHAIN, false, false},
                {PCCL_ALL_GATHER, PCCL_GATHER_RING, PCCL_GATHER_RING, false, false}};
    for (size_t i = 0; i < PCCL_COUNT_OF(rows); i++)
        for (uint32_t ranks = PCCL_MESH_PEERS_MAX + 1; ranks <= PCCL_HUB_PEERS_MAX + 1; ranks++) {
            const struct pccl_seat seat = {.ranks = ranks, .rank = 1, .root = 3};
            const struct pccl_descriptor descriptor = {
                .collective = (uint8_t)rows[i].collective, .datatype = PCCL_F32, .count = 1000};
            const uint32_t *positions = mixed(ranks);
            const uint64_t root = UINT64_C(1) << positions[3] % 64;
            const uint64_t all = ranks <= 64 ? UINT64_MAX >> (64 - ranks) : UINT64_MAX;
            const struct pccl_cost costs[] = {{.mesh = 1, .to_hubs = root},
                                              {.mesh = 1, .from_hubs = root},
                                              {.mesh = 1, .to_hubs = all},
                                              {.mesh = 1, .to_hubs = all & ~root, .from_hubs = all & ~root},
                                              {.to_hubs = all, .from_hubs = all}};
            const bool pairs = !rows[i].to && !rows[i].from;
            const bool directly[] = {rows[i].to, rows[i].from, rows[i].to || pairs, false, false};
            for (size_t k = 0; k < PCCL_COUNT_OF(costs); k++) {
                struct pccl_plan plan;
                struct pccl_text reason;
                assert_int_equal(pccl_plan_make(&descriptor, &costs[k], seat, positions, NULL, &plan, &reason),
                                 PCCL_OK);
                bool direct = directly[k] && ranks <= PCCL_HUB_PEERS_MAX;
                assert_int_equal(plan.algorithm, direct ? rows[i].direct : rows[i].ring);
            }
        }
}

/* If the ring has the order of members, its links are the ones that a scan needs, and no other links have to exist. */
TEST(a_scan_goes_along_a_ring_in_order)
{
    static const uint32_t in_order[] = {3, 4, 0, 1, 2}, out_of_order[] = {3, 4, 0, 2, 1};
    const struct pccl_cost cost = {.mesh = 1};
    const struct pccl_seat seat = {.ranks = 5};
    struct pccl_descriptor descriptor = {.collective = PCCL_INCLUSIVE_SCAN, .datatype = PCCL_F32, .count = 1 << 24};
    struct pccl_plan plan;
    struct pccl_text reason;
    assert_int_equal(pccl_plan_make(&descriptor, &cost, seat, in_order, NULL, &plan, &reason), PCCL_OK);
    assert_int_equal(plan.algorithm, PCCL_SCAN_RING);
    assert_int_equal(plan.line.laps, 0);
    assert_int_equal(pccl_plan_make(&descriptor, &cost, seat, out_of_order, NULL, &plan, &reason), PCCL_OK);
    assert_int_equal(plan.algorithm, PCCL_SCAN_DIRECT);
    descriptor.operation = PCCL_AVG;
    assert_int_equal(pccl_plan_make(&descriptor, &cost, seat, in_order, NULL, &plan, &reason), PCCL_ARGUMENT);
    descriptor.operation = PCCL_SUM;
    descriptor.codec = PCCL_CODEC_MIN_MAX;
    assert_int_equal(pccl_plan_make(&descriptor, &cost, seat, in_order, NULL, &plan, &reason), PCCL_ARGUMENT);
}

/* On a long path, above 256 KiB, one unknown link prevents direct exchange. */
TEST(unknown_rates_are_no_reason_to_go_directly)
{
    struct pccl_cost known = {
        .mesh = 1, .rtt_us = PCCL_LONG_PATH_RTT_US, .rate = 12500000, .mesh_rtt_us = 20000, .mesh_rate = 12500000};
    struct pccl_cost no_ring = known, no_mesh_rate = known, near = known;
    no_ring.rate = 0;
    no_mesh_rate.mesh_rate = no_mesh_rate.mesh_rtt_us = 0;
    near.rtt_us = PCCL_LONG_PATH_RTT_US - 1;
    near.mesh_rate = near.mesh_rtt_us = near.rate = 0;
    known.rtt_us = no_ring.rtt_us = no_mesh_rate.rtt_us = 20000;
    const struct pccl_cost *guesses[] = {&no_ring, &no_mesh_rate};
    for (unsigned i = 0; i < PCCL_COUNT_OF(guesses); i++) {
        assert_int_equal(make(64 << 10, PCCL_F32, 8, 0, guesses[i]).algorithm, PCCL_DIRECT);
        assert_int_equal(make((64 << 10) + 1, PCCL_F32, 8, 0, guesses[i]).algorithm, PCCL_RING);
        assert_int_equal(make_for(PCCL_BROADCAST, 1 << 18, PCCL_F32, 8, 0, guesses[i]).algorithm, PCCL_CHAIN);
        assert_int_equal(make_for(PCCL_ALL_GATHER, 1 << 18, PCCL_F32, 8, 0, guesses[i]).algorithm, PCCL_GATHER_RING);
    }
    /* If the ring relays, it sends more over any line. */
    assert_int_equal(make_for(PCCL_ALL_TO_ALL, 1 << 18, PCCL_F32, 8, 0, &no_mesh_rate).algorithm, PCCL_EXCHANGE_DIRECT);
    assert_int_equal(make((64 << 10) + 1, PCCL_F32, 8, 0, &known).algorithm, PCCL_DIRECT);
    assert_int_equal(make((64 << 10) + 1, PCCL_F32, 8, 0, &near).algorithm, PCCL_DIRECT);
}

/* The share counts where all pairs send; the rate of a pair alone where only pairs with the root send. */
TEST(a_line_that_pairs_share_holds_direct_exchange_up)
{
    struct pccl_cost cost = {
        .mesh = 1, .rtt_us = 20000, .rate = 3125000, .mesh_rtt_us = 20000, .mesh_rate = 3125000, .mesh_share = 446428};
    static const uint64_t even[] = {100000};
    struct pccl_plan plan;
    assert_int_equal(make(1 << 18, PCCL_F32, 8, 0, &cost).algorithm,
                     PCCL_DIRECT); /* one line each: an eighth of that */
    assert_int_equal(make_for(PCCL_GATHER, 1 << 18, PCCL_F32, 8, 0, &cost).algorithm, PCCL_TO_ROOT_DIRECT);
    cost.mesh_share = 3125000 / 16; /* two sites of four, whose line is shared by all sixteen pairs */
    assert_int_equal(make(1 << 18, PCCL_F32, 8, 0, &cost).algorithm, PCCL_RING);
    assert_int_equal(make_for(PCCL_BROADCAST, 1 << 18, PCCL_F32, 8, 0, &cost).algorithm, PCCL_CHAIN);
    assert_int_equal(make_for(PCCL_GATHER, 1 << 18, PCCL_F32, 8, 0, &cost).algorithm, PCCL_TO_ROOT_DIRECT);
    cost.mesh_share = 20000;
    assert_int_equal(make_given(PCCL_ALL_TO_ALL_V, starts_of(even, 1, 64), 8, 0, &cost, &plan), PCCL_OK);
    assert_int_equal(plan.algorithm, PCCL_EXCHANGE_RING);
    assert_int_equal(make_given(PCCL_GATHER_V, starts_of(even, 1, 8), 8, 0, &cost, &plan), PCCL_OK);
    assert_int_equal(plan.algorithm, PCCL_TO_ROOT_DIRECT);
    cost.mesh_share = UINT64_MAX; /* no more than each alone */
    assert_int_equal(make(1 << 18, PCCL_F32, 8, 0, &cost).algorithm, PCCL_DIRECT);
    cost.mesh_share = 1; /* for any cost that a master sends */
    assert_int_equal(make(1 << 22, PCCL_BF16, 16, 0, &cost).algorithm, PCCL_RING);
}

TEST(the_other_collectives_follow_it_too)
{
    const struct pccl_cost lan = {.mesh = 1}, no_mesh = {.rtt_us = 50000, .rate = 125000000};
    const struct pccl_cost long_link = {.mesh = 1, .rtt_us = 50000, .rate = 125000000, .mesh_rate = 125000000};
    const struct pccl_cost slow_pair = {
        .mesh = 1, .rtt_us = 50000, .rate = 50000000, .mesh_rtt_us = 50000, .mesh_rate = 1000000};
    static const struct {
        enum pccl_collective collective;
        enum pccl_algorithm ring, direct;
        bool relays; /* directly each byte uses fewer links, no matter how many there are */
    } rows[] = {{PCCL_BROADCAST, PCCL_CHAIN, PCCL_SPREAD, false},
                {PCCL_ALL_GATHER, PCCL_GATHER_RING, PCCL_GATHER_DIRECT, false},
                {PCCL_REDUCE_SCATTER, PCCL_SCATTER_RING, PCCL_SCATTER_DIRECT, false},
                {PCCL_GATHER, PCCL_TO_ROOT_CHAIN, PCCL_TO_ROOT_DIRECT, true},
                {PCCL_SCATTER, PCCL_FROM_ROOT_CHAIN, PCCL_FROM_ROOT_DIRECT, true},
                {PCCL_ALL_TO_ALL, PCCL_EXCHANGE_RING, PCCL_EXCHANGE_DIRECT, true}};
    for (size_t i = 0; i < PCCL_COUNT_OF(rows); i++) {
        const enum pccl_collective collective = rows[i].collective;
        const uint32_t whole = collective == PCCL_BROADCAST ? 1 : 8; /* parts of 8 peers */
        const enum pccl_algorithm short_one = collective == PCCL_BROADCAST ? PCCL_STAR : rows[i].direct;
        assert_int_equal(make_for(collective, 1000, PCCL_F32, 4, 0, &lan).algorithm, short_one);
        const enum pccl_algorithm long_one = rows[i].relays ? rows[i].direct : rows[i].ring;
        assert_int_equal(make_for(collective, (2 << 20) / whole, PCCL_F32, 4, 0, &lan).algorithm, long_one);
        assert_int_equal(make_for(collective, (2 << 20) / whole, PCCL_F32, 8, 0, &long_link).algorithm, rows[i].direct);
        assert_int_equal(make_for(collective, (2 << 20) / whole + 1, PCCL_F32, 8, 0, &long_link).algorithm, long_one);
        assert_int_equal(make_for(collective, UINT64_C(1) << 40, PCCL_F32, 8, 0, &long_link).algorithm, long_one);
        assert_int_equal(make_for(collective, 1000, PCCL_F32, 8, 0, &no_mesh).algorithm, rows[i].ring);
        assert_int_equal(make_for(collective, 1000, PCCL_F32, 2, 0, &long_link).algorithm, rows[i].ring);
        assert_int_equal(make_for(collective, 1000, PCCL_F32, 17, 0, &long_link).algorithm, rows[i].ring);
        assert_int_equal(make_for(collective, (1 << 21) / whole, PCCL_F32, 8, 0, &slow_pair).algorithm, rows[i].ring);
    }
}

/* One step instead of two takes 50 us less here; three times the bytes, instead of half as much again, 1.38 ns each. */
TEST(a_short_broadcast_is_a_star)
{
    const struct pccl_cost fast = {.mesh = 1, .rtt_us = 100, .rate = 1000000000};
    struct pccl_cost slow_pair = fast;
    slow_pair.mesh_rate = 100000000;
    struct pccl_plan plan = make_for(PCCL_BROADCAST, 36000, PCCL_U8, 4, 0, &fast);
    assert_true(plan.algorithm == PCCL_STAR && plan.pieces == 1 && plan.stripes == 1);
    assert_int_equal(make_for(PCCL_BROADCAST, 36500, PCCL_U8, 4, 0, &fast).algorithm, PCCL_SPREAD);
    assert_int_equal(make_for(PCCL_BROADCAST, 9000, PCCL_U8, 4, 0, &slow_pair).algorithm, PCCL_STAR);
    assert_int_equal(make_for(PCCL_BROADCAST, 36000, PCCL_U8, 4, 0, &slow_pair).algorithm, PCCL_CHAIN);
    const struct pccl_cost near = {.mesh = 1, .rtt_us = 10}; /* a step takes 50 us even there */
    assert_int_equal(make_for(PCCL_BROADCAST, 16 << 10, PCCL_U8, 8, 0, &near).algorithm, PCCL_STAR);
    assert_int_equal(make_for(PCCL_BROADCAST, 1, PCCL_U8, 3, 0, &fast).algorithm, PCCL_STAR);
    assert_int_equal(make_for(PCCL_BROADCAST, 1, PCCL_U8, 2, 0, &fast).algorithm, PCCL_CHAIN);
}

/* Nothing is sent on, so shorter segments would only be more messages. */
TEST(one_step_is_not_cut_like_a_chain)
{
    const struct pccl_cost lan = {.mesh = 1};
    struct pccl_plan plan = make_for(PCCL_REDUCE, 64 << 10, PCCL_U8, 8, 0, &lan);
    assert_true(plan.algorithm == PCCL_REDUCE_DIRECT && plan.stripes == 1);
}

TEST(a_send_goes_along_a_chain_of_two)
{
    const struct pccl_cost unknown = {.mesh = 0};
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct pccl_plan plan = make_for(PCCL_SEND, 1 << 20, PCCL_F32, 2, rank, &unknown);
        assert_true(plan.algorithm == PCCL_CHAIN && plan.pieces == 1 && plan.segment_elements == 1 << 16);
        assert_int_equal(plan.stripes, 16);
    }
}

/* Directly the root's link carries the tensors of all peers, along the chain only one. */
TEST(a_long_reduce_goes_along_the_chain)
{
    const struct pccl_cost lan = {.mesh = 1}, no_mesh = {.rtt_us = 50000};
    const struct pccl_cost long_link = {.mesh = 1, .rtt_us = 50000, .rate = 125000000, .mesh_rate = 125000000};
    assert_int_equal(make_for(PCCL_REDUCE, 1000, PCCL_F32, 4, 0, &lan).algorithm, PCCL_REDUCE_DIRECT);
    assert_int_equal(make_for(PCCL_REDUCE, 1 << 18, PCCL_F32, 4, 0, &lan).algorithm, PCCL_REDUCE_CHAIN);
    assert_int_equal(make_for(PCCL_REDUCE, 1 << 18, PCCL_F32, 4, 0, &long_link).algorithm, PCCL_REDUCE_DIRECT);
    assert_int_equal(make_for(PCCL_REDUCE, 2 << 20, PCCL_F32, 4, 0, &long_link).algorithm, PCCL_REDUCE_CHAIN);
    assert_int_equal(make_for(PCCL_REDUCE, 1000, PCCL_F32, 4, 0, &no_mesh).algorithm, PCCL_REDUCE_CHAIN);
}

TEST(bad_descriptors_are_refused)
{
    const struct pccl_descriptor bad[] = {
        {.datatype = 15, .count = 1},
        {.operation = 9, .count = 1},
        {.datatype = PCCL_F32, .operation = PCCL_XOR, .count = 1},
        {.datatype = PCCL_BOOL, .operation = PCCL_AVG, .count = 1},
        {.datatype = PCCL_I32, .operation = PCCL_PREMUL_SUM, .count = 1},
        {.codec = PCCL_PACKING_KINDS, .count = 1},
        {.datatype = PCCL_F32, .codec = PCCL_PACKING_SCALED, .count = 1},
        {.datatype = PCCL_F64, .codec = PCCL_PACKING_SCALED, .codec_block = 64, .count = 1},
        {.codec_datatype = 15, .count = 1},
        {.count = 0},
        {.datatype = PCCL_F64, .count = UINT64_MAX},
        {.datatype = PCCL_I32, .codec = PCCL_CODEC_MIN_MAX, .codec_datatype = PCCL_U8, .count = 1},
        {.collective = PCCL_BARRIER, .count = 1},
        {.collective = PCCL_COLLECTIVES, .count = 1},
        {.collective = PCCL_ALL_GATHER, .count = (uint64_t)PTRDIFF_MAX / 2 + 1},
        {.collective = PCCL_ALL_TO_ALL, .count = (uint64_t)PTRDIFF_MAX / 4 + 1},
        {.collective = PCCL_REDUCE_SCATTER, .count = 1, .counts = {{1}}},
        {.collective = PCCL_BROADCAST, .codec = PCCL_CODEC_MIN_MAX, .codec_datatype = PCCL_U16, .count = 1},
    };
    struct pccl_cost cost = {0};
    for (size_t i = 0; i < PCCL_COUNT_OF(bad); i++) {
        struct pccl_plan plan = {.count = 77};
        struct pccl_text reason;
        assert_int_equal(pccl_plan_make(&bad[i], &cost, (struct pccl_seat){.ranks = 2}, mixed(2), NULL, &plan, &reason),
                         PCCL_ARGUMENT);
        assert_true(reason.length > 0);
        assert_int_equal(plan.count, 77);
    }
    struct pccl_descriptor descriptor = {.collective = PCCL_BROADCAST, .count = 1};
    struct pccl_plan plan;
    struct pccl_text reason;
    assert_int_equal(
        pccl_plan_make(&descriptor, &cost, (struct pccl_seat){.ranks = 2, .root = 2}, NULL, NULL, &plan, &reason),
        PCCL_ARGUMENT);
}
