/*
 * Results: every collective, data type, operation, algorithm, codec and shape, in any order of
 * messages, against a reference.
 */
#include "unit.h"
#include "unit/exchange_reference.h"

static struct world world;

enum { SCRATCH = 4 << 20 };

/* ---- one operation on all ranks ---- */

struct trial {
    uint32_t ranks, connections;
    bool direct, in_place;
    struct pccl_descriptor descriptor;
    size_t window_bytes;
    bool long_path;  /* of the ring; direct exchange is tried on one */
    bool short_path; /* but not here */
    uint32_t root;
    const uint64_t *starts; /* starts of parts of given lengths */
};

static struct pccl_cost cost_for(const struct trial *trial)
{
    if (trial->direct && trial->short_path)
        return (struct pccl_cost){.mesh = 1, .rtt_us = 1999, .rate = 1000000000000, .mesh_rtt_us = 1};
    if (trial->direct)
        return (struct pccl_cost){.mesh = 1, .rtt_us = 500000, .rate = 1 << 30, .mesh_rtt_us = 1, .mesh_rate = 1 << 30};
    return (struct pccl_cost){.rtt_us = trial->long_path ? 50000 : 0};
}

static struct pccl_plan plan_of(const struct trial *trial)
{
    static uint32_t positions[RANKS_MOST];
    for (uint32_t rank = 0; rank < trial->ranks; rank++)
        positions[rank] = world_position(trial->ranks, rank);
    struct pccl_cost cost = cost_for(trial);
    struct pccl_seat seat = {.ranks = trial->ranks, .root = trial->root};
    struct pccl_plan plan;
    struct pccl_text reason;
    enum pccl_status status = pccl_plan_make(&trial->descriptor, &cost, seat, positions, trial->starts, &plan, &reason);
    assert_int_equal(status, PCCL_OK);
    return plan;
}

static void check_reduced(const struct pccl_plan *plan, const struct job *jobs, const uint8_t *result, size_t bytes)
{
    if (pccl_packing_packs(&plan->packing)) {
        expect_near(plan, jobs, result);
        return;
    }
    uint8_t *expected = malloc(bytes);
    expect_fold(plan, jobs, expected);
    assert_memory_equal(result, expected, bytes);
    free(expected);
}

static void check_reduced_at_root(const struct pccl_plan *plan, const struct job *jobs)
{
    const struct job *root = &jobs[plan->seat.root];
    check_reduced(plan, jobs, root->result, root->result_bytes);
}

static void check_all_reduced(const struct pccl_plan *plan, const struct job *jobs)
{
    for (uint32_t rank = 0; rank < plan->seat.ranks; rank++)
        assert_memory_equal(jobs[rank].result, jobs[0].result, jobs[0].bytes);
    check_reduced(plan, jobs, jobs[0].result, jobs[0].bytes);
}

/* Offset of the part of a rank, in bytes. */
static size_t part_at(const struct pccl_plan *plan, uint32_t rank)
{
    const uint32_t position = plan->positions[rank];
    const uint64_t first = plan->starts != NULL ? plan->starts[position] : position * plan->count;
    return (size_t)first * plan->element_bytes;
}

/* Position in the plan from which stochastic rounding counts, and the seed of its rank. */
struct packed_by {
    uint64_t place, seed;
};

/* Checks the result of a rank; with a codec it was packed once and unpacked, unless no rank sends it. */
static void check_copy(const struct pccl_plan *plan, const uint8_t *given, uint32_t count, const struct packed_by *by,
                       const uint8_t *result)
{
    const size_t bytes = count * plan->element_bytes;
    const struct pccl_kernels *kernels = pccl_kernels_for(0);
    uint8_t *expected = malloc(bytes), *packed = malloc(pccl_plan_bytes(plan, 0, count));
    assert_true(expected != NULL && packed != NULL);
    if (pccl_packing_packs(&plan->packing) && by != NULL) {
        pccl_packing_encode(&plan->packing, kernels, given, count, by->place, by->seed, packed);
        pccl_packing_decode(&plan->packing, kernels, packed, count, expected);
    } else {
        memcpy(expected, given, bytes);
    }
    assert_memory_equal(result, expected, bytes);
    free(expected);
    free(packed);
}

/* Checks that all ranks have the data of the segment's owner. */
static void check_copied_segment(const struct pccl_plan *plan, const struct job *jobs, uint64_t stripe, uint32_t piece)
{
    const struct pccl_segment segment = pccl_plan_segment(plan, stripe, piece);
    const uint32_t owner = plan->positions != NULL ? piece : plan->seat.root;
    const size_t at = (size_t)segment.first * plan->element_bytes;
    const uint8_t *given = jobs[owner].before + at - (plan->positions != NULL ? part_at(plan, owner) : 0);
    const struct packed_by by = {pccl_plan_place(plan, stripe, piece),
                                 pccl_packing_seed(&jobs[owner].config.instance, owner)};
    for (uint32_t rank = 0; rank < plan->seat.ranks; rank++)
        check_copy(plan, given, segment.count, &by, jobs[rank].result + at);
}

/* Compares the part of one rank with that at another rank, at the offsets there and here, cut as it was. */
static void check_part(const struct pccl_plan *plan, const struct job *from, size_t from_at, const struct job *to,
                       size_t to_at)
{
    for (uint64_t first = 0; first < plan->count; first += plan->segment_elements) {
        const uint32_t count = (uint32_t)pccl_min_u64(plan->segment_elements, plan->count - first);
        const size_t at = (size_t)first * plan->element_bytes;
        const struct packed_by nearest = {0, 0};
        check_copy(plan, from->before + from_at + at, count, from != to ? &nearest : NULL, to->result + to_at + at);
    }
}

static void check_gathered(const struct pccl_plan *plan, const struct job *jobs)
{
    for (uint32_t rank = 0; rank < plan->seat.ranks; rank++)
        check_part(plan, &jobs[rank], 0, &jobs[plan->seat.root], part_at(plan, rank));
}

static void check_given_out(const struct pccl_plan *plan, const struct job *jobs)
{
    for (uint32_t rank = 0; rank < plan->seat.ranks; rank++)
        check_part(plan, &jobs[plan->seat.root], part_at(plan, rank), &jobs[rank], 0);
}

static void check_exchanged(const struct pccl_plan *plan, const struct job *jobs)
{
    for (uint32_t from = 0; from < plan->seat.ranks; from++)
        for (uint32_t to = 0; to < plan->seat.ranks; to++)
            check_part(plan, &jobs[from], part_at(plan, to), &jobs[to], part_at(plan, from));
}

/*
 * Finds the blob that a rank gets from another one, and its distance from the beginning of the result. Returns false if
 * there is no such blob.
 */
static bool find_blob(const struct pccl_plan *plan, uint32_t from, uint32_t to, uint32_t *blob, uint64_t *at)
{
    const uint32_t ranks = plan->seat.ranks, sender = plan->positions[from], receiver = plan->positions[to];
    *blob = plan->division == PCCL_DIVISION_SCATTERED ? receiver : sender;
    *at = plan->division == PCCL_DIVISION_SCATTERED ? 0 : plan->starts[sender];
    if (plan->division != PCCL_DIVISION_EXCHANGED)
        return (plan->division == PCCL_DIVISION_SCATTERED ? from : to) == plan->seat.root;
    *blob = sender * ranks + receiver;
    *at = 0;
    for (uint32_t i = receiver; i < *blob; i += ranks)
        *at += plan->starts[i + 1] - plan->starts[i];
    return true;
}

static void check_blobs(const struct pccl_plan *plan, const struct job *jobs)
{
    for (uint32_t to = 0; to < plan->seat.ranks; to++)
        for (uint32_t from = 0; from < plan->seat.ranks; from++) {
            const struct job *giver = &jobs[from];
            uint32_t blob;
            uint64_t at;
            const bool comes = find_blob(plan, from, to, &blob, &at);
            const size_t length = comes ? (size_t)(plan->starts[blob + 1] - plan->starts[blob]) : 0;
            assert_int_equal(jobs[to].arrived >> plan->positions[from] & 1, length > 0);
            if (length == 0)
                continue;
            const uint8_t *input =
                giver->config.buffers.input.list ? giver->inputs[plan->positions[to]].memory : giver->input;
            assert_memory_equal(jobs[to].result + at, giver->before + (input - giver->input), length);
        }
}

static void check_copied(const struct pccl_plan *plan, const struct job *jobs)
{
    for (uint64_t stripe = 0; stripe < plan->stripes; stripe++)
        for (uint32_t piece = 0; piece < plan->pieces; piece++)
            if (pccl_plan_has_segment(plan, stripe, piece))
                check_copied_segment(plan, jobs, stripe, piece);
}

static void check_scattered(const struct pccl_plan *plan, const struct job *jobs)
{
    uint8_t *whole = malloc(jobs[0].bytes);
    for (uint32_t rank = 0; rank < plan->seat.ranks; rank++)
        memcpy(whole + part_at(plan, rank), jobs[rank].result, jobs[rank].result_bytes);
    check_reduced(plan, jobs, whole, jobs[0].bytes);
    free(whole);
}

/*
 * Checks the scan of a rank: the first `count` parts, folded in the order of positions; the identity if `count` is 0.
 */
static void check_scan_of(const struct pccl_plan *plan, const struct job *jobs, uint32_t rank, uint32_t count)
{
    const struct pccl_segment whole = {.count = (uint32_t)plan->count};
    const size_t bytes = plan->count * plan->element_bytes;
    uint8_t *expected = malloc(bytes);
    const void *parts[RANKS_MOST];
    for (uint32_t i = 0; i < plan->seat.ranks; i++)
        parts[world_position(plan->seat.ranks, i)] = contribution(plan, &jobs[i], whole);
    reduce_elements(&datatypes[plan->datatype], (pcclRedOp_t)plan->reduction, parts, count, plan->count, expected);
    assert_memory_equal(jobs[rank].result, expected, bytes);
    for (uint32_t i = 0; i < plan->seat.ranks; i++)
        free((void *)(uintptr_t)parts[i]);
    free(expected);
}

static void check_scanned(const struct pccl_plan *plan, const struct job *jobs)
{
    for (uint32_t rank = 0; rank < plan->seat.ranks; rank++)
        check_scan_of(plan, jobs, rank, world_position(plan->seat.ranks, rank) + (plan->scan == PCCL_INCLUSIVE));
}

static const struct {
    enum pccl_algorithm ring, direct;
    void (*check)(const struct pccl_plan *plan, const struct job *jobs);
} collectives[] = {[PCCL_ALL_REDUCE] = {PCCL_RING, PCCL_DIRECT, check_all_reduced},
                   [PCCL_BROADCAST] = {PCCL_CHAIN, PCCL_SPREAD, check_copied},
                   [PCCL_ALL_GATHER] = {PCCL_GATHER_RING, PCCL_GATHER_DIRECT, check_copied},
                   [PCCL_ALL_GATHER_V] = {PCCL_GATHER_RING, PCCL_GATHER_DIRECT, check_copied},
                   [PCCL_REDUCE_SCATTER] = {PCCL_SCATTER_RING, PCCL_SCATTER_DIRECT, check_scattered},
                   [PCCL_REDUCE] = {PCCL_REDUCE_CHAIN, PCCL_REDUCE_DIRECT, check_reduced_at_root},
                   [PCCL_GATHER] = {PCCL_TO_ROOT_CHAIN, PCCL_TO_ROOT_DIRECT, check_gathered},
                   [PCCL_SCATTER] = {PCCL_FROM_ROOT_CHAIN, PCCL_FROM_ROOT_DIRECT, check_given_out},
                   [PCCL_ALL_TO_ALL] = {PCCL_EXCHANGE_RING, PCCL_EXCHANGE_DIRECT, check_exchanged},
                   [PCCL_EXCLUSIVE_SCAN] = {PCCL_SCAN_RING, PCCL_SCAN_DIRECT, check_scanned},
                   [PCCL_INCLUSIVE_SCAN] = {PCCL_SCAN_RING, PCCL_SCAN_DIRECT, check_scanned},
                   [PCCL_GATHER_V] = {PCCL_TO_ROOT_CHAIN, PCCL_TO_ROOT_DIRECT, check_blobs},
                   [PCCL_SCATTER_V] = {PCCL_FROM_ROOT_CHAIN, PCCL_FROM_ROOT_DIRECT, check_blobs},
                   [PCCL_ALL_TO_ALL_V] = {PCCL_EXCHANGE_RING, PCCL_EXCHANGE_DIRECT, check_blobs}};

static const enum pccl_collective others[] = {PCCL_BROADCAST,  PCCL_ALL_GATHER,     PCCL_REDUCE_SCATTER,
                                              PCCL_REDUCE,     PCCL_GATHER,         PCCL_SCATTER,
                                              PCCL_ALL_TO_ALL, PCCL_EXCLUSIVE_SCAN, PCCL_INCLUSIVE_SCAN};

static bool scans(enum pccl_collective collective)
{
    return collective == PCCL_EXCLUSIVE_SCAN || collective == PCCL_INCLUSIVE_SCAN;
}

/* Checks that the input of a rank is unchanged, except where its own result belongs there and differs. */
static void check_inputs(const struct trial *trial, const struct job *jobs)
{
    const struct pccl_plan plan = plan_of(trial);
    for (uint32_t rank = 0; rank < trial->ranks; rank++) {
        const struct job *job = &jobs[rank];
        const bool changes = job->in_place && (plan.reduces || pccl_plan_keeps_sent(&plan));
        size_t own = job->result >= job->input ? (size_t)(job->result - job->input) : job->bytes;
        if (!job->gives)
            continue;
        if (!changes)
            assert_memory_equal(job->input, job->before, job->bytes);
        else if (job->bytes > job->result_bytes)
            assert_memory_equal(job->input, job->before, own);
    }
}

static void check_results(const struct trial *trial, const struct job *jobs)
{
    const unsigned collective = trial->descriptor.collective;
    struct pccl_plan plan = plan_of(trial);
    if (plan.algorithm == PCCL_STAR)
        assert_true(collective == PCCL_BROADCAST && trial->direct && trial->ranks > 2);
    else
        assert_int_equal(plan.algorithm, trial->direct && trial->ranks > 2 ? collectives[collective].direct
                                                                           : collectives[collective].ring);
    for (uint32_t rank = 0; rank < trial->ranks; rank++)
        assert_true(jobs[rank].done && jobs[rank].at_rest);
    check_inputs(trial, jobs);
    collectives[collective].check(&plan, jobs);
}

/* The most that may be in scratch by the rules: the minimal window or the budget, and departing segments. */
static void check_scratch(const struct trial *trial, size_t budget)
{
    struct pccl_plan plan = plan_of(trial);
    size_t segment = pccl_plan_bytes_most(&plan, plan.segment_elements) * 5 / 4 + 256;
    size_t buffers = !pccl_packing_packs(&plan.packing) ? plan.seat.ranks - 1 : plan.seat.ranks;
    size_t departing = trial->connections;
    const bool ring = plan.algorithm == collectives[trial->descriptor.collective].ring;
    if (pccl_packing_packs(&plan.packing) && !ring) {
        buffers = 2 * (plan.seat.ranks - 1);
        departing *= plan.seat.ranks - 1;
    }
    size_t bound = (buffers + departing) * segment;
    if (bound < budget + departing * segment)
        bound = budget + departing * segment;
    if (plan.long_path)
        bound += (ring || plan.turns == 1 ? 1 : plan.seat.ranks - 1) * PCCL_EARLY_BYTES;
    for (uint32_t rank = 0; rank < trial->ranks; rank++) {
        size_t peak;
        assert_int_equal(pccl_exchange_scratch_bytes(exchange_of(&world, rank), &peak), 0);
        assert_true(peak <= bound);
    }
}

/* Runs all ranks to the end of their transfers. value: of every element; NAN: elements of fill_input. */
static void run_start(const struct trial *trial, struct job *jobs, uint64_t seed, double value)
{
    struct pccl_cost cost = cost_for(trial);
    struct pccl_exchange_config config = {.scratch_bytes_max = SCRATCH, .window_bytes = trial->window_bytes};
    world_init(&world, seed, trial->ranks, trial->connections, trial->direct, &config);
    world.root = trial->root;
    world.starts = trial->starts;
    for (uint32_t rank = 0; rank < trial->ranks; rank++) {
        job_init(&world, &jobs[rank], rank, 7, &trial->descriptor, &cost, trial->in_place);
        fill_input(&world, &jobs[rank], rank);
        for (size_t i = 0; !isnan(value) && i < trial->descriptor.count; i++)
            put_element((enum pccl_datatype)trial->descriptor.datatype, jobs[rank].input, i, value);
    }
    struct pccl_text reason;
    for (uint32_t rank = 0; rank < trial->ranks; rank++) {
        assert_int_equal(job_start(&world, &jobs[rank], rank, &reason), PCCL_OK);
        world_run(&world, 1 + world_below(&world, 50));
    }
    world_run(&world, 0);
}

static void run_end(const struct trial *trial, struct job *jobs)
{
    for (uint32_t rank = 0; rank < trial->ranks; rank++) {
        job_stop(&world, &jobs[rank], rank, true);
        job_fini(&jobs[rank]);
    }
    check_scratch(trial, SCRATCH);
    world_fini(&world);
}

static void run_trial(const struct trial *trial, uint64_t seed)
{
    struct job jobs[RANKS_MOST];
    run_start(trial, jobs, seed, (double)NAN);
    check_results(trial, jobs);
    run_end(trial, jobs);
}

/* One of many. */
static void run_case(const struct trial *trial, uint64_t seed)
{
    if (test_is_chosen(seed))
        run_trial(trial, seed);
}

TEST(every_type_and_operation)
{
    uint64_t seed = 1;
    for (unsigned datatype = 0; datatype < PCCL_DATATYPES; datatype++)
        for (unsigned operation = 0; operation < PCCL_REDUCE_OPS; operation++)
            for (unsigned variant = 0; variant < 4 && pccl_reduction_misfit(datatype, operation) == NULL; variant++) {
                struct trial trial = {.ranks = 2 + (uint32_t)(seed % 7),
                                      .connections = 1 + (uint32_t)(seed % 3),
                                      .direct = (variant & 1) != 0,
                                      .in_place = (variant & 2) != 0,
                                      .descriptor = {.datatype = (uint8_t)datatype,
                                                     .operation = (uint8_t)operation,
                                                     .count = 1 + seed * 37 % 400}};
                run_case(&trial, seed++);
            }
}

/* Runs this reduction with this quantization: by ring and directly, in place and not. */
static void run_quantized(const struct pccl_descriptor *descriptor, uint32_t ranks, uint64_t seed)
{
    for (unsigned variant = 0; variant < 4; variant++, seed++) {
        struct trial trial = {.ranks = ranks,
                              .connections = 1 + (uint32_t)(seed % 3),
                              .direct = (variant & 1) != 0,
                              .in_place = (variant & 2) != 0,
                              .descriptor = *descriptor};
        trial.descriptor.count = 1 + seed * 397 % 6000;
        run_case(&trial, seed);
    }
}

/* All codecs that pccl_codec_find allows. */
TEST(every_codec_type_and_operation)
{
    enum { MIN_MAX = 7 * 6 /* not bitwise */, ZERO_POINT_SCALE = 2 * 7 * 3 /* signed or not; sums and avg */ };
    uint32_t found = 0;
    for (unsigned kind = PCCL_CODEC_MIN_MAX; kind < PCCL_CODEC_KINDS; kind++)
        for (unsigned datatype = 0; datatype < PCCL_DATATYPES; datatype++)
            for (unsigned packed = 0; packed < PCCL_DATATYPES; packed++)
                for (unsigned operation = 0; operation < PCCL_REDUCE_OPS; operation++) {
                    const struct pccl_descriptor descriptor = {.datatype = (uint8_t)datatype,
                                                               .operation = (uint8_t)operation,
                                                               .codec = (uint8_t)kind,
                                                               .codec_datatype = (uint8_t)packed};
                    struct pccl_text reason;
                    if (pccl_codec_find((enum pccl_codec_kind)kind, (enum pccl_datatype)datatype,
                                        (enum pccl_datatype)packed, (enum pccl_reduce_op)operation, &reason) == NULL)
                        continue;
                    run_quantized(&descriptor, 2, 1000 + 8 * found);
                    run_quantized(&descriptor, 3, 1004 + 8 * found);
                    if (found % 4 == 0)
                        run_quantized(&descriptor, 4 + found / 4 % 2, 5000 + 8 * found);
                    found++;
                }
    assert_int_equal(found, MIN_MAX + ZERO_POINT_SCALE);
}

/* The i-th scaled codec of all, for the i-th data type that it packs. */
static void use_scaled(struct pccl_descriptor *descriptor, unsigned i)
{
    static const enum pccl_datatype types[] = {PCCL_F32, PCCL_F16, PCCL_BF16};
    descriptor->datatype = (uint8_t)types[i % 3];
    descriptor->codec = (uint8_t)(PCCL_PACKING_SCALED + i % PCCL_SCALED_FORMATS);
    descriptor->codec_datatype = 0;
    descriptor->codec_scale = i / 2 % PCCL_SCALED_SCALES;
    descriptor->codec_rounding = i / 3 % PCCL_SCALED_ROUNDINGS;
    descriptor->codec_block = (uint16_t)(PCCL_SCALED_BLOCK_MIN << i / 7 % 5);
}

TEST(every_scaled_codec)
{
    static const enum pccl_reduce_op reductions[] = {PCCL_SUM, PCCL_AVG, PCCL_PREMUL_SUM, PCCL_MAX};
    for (unsigned i = 0; i < 3 * PCCL_SCALED_FORMATS * PCCL_SCALED_SCALES * PCCL_SCALED_ROUNDINGS; i++) {
        struct pccl_descriptor descriptor = {.operation = (uint8_t)reductions[i / 4 % 4]};
        use_scaled(&descriptor, i);
        run_quantized(&descriptor, 2 + i % 4, 9000 + 8 * i);
    }
}

TEST(every_shape)
{
    uint64_t seed = 2000;
    for (uint32_t ranks = 2; ranks <= 8; ranks++)
        for (uint32_t shape = 0; shape < 7; shape++)
            for (unsigned variant = 0; variant < 4; variant++) {
                const uint64_t counts[7] = {1, 2, 3, ranks - 1, ranks, ranks + 1, 1001};
                struct trial trial = {.ranks = ranks,
                                      .connections = 1 + (uint32_t)(seed % 3),
                                      .direct = (variant & 1) != 0,
                                      .in_place = (variant & 2) != 0,
                                      .descriptor = {.datatype = seed % 5 == 0 ? PCCL_F16 : PCCL_F32,
                                                     .operation = PCCL_AVG,
                                                     .codec = seed % 3 == 0 ? PCCL_CODEC_MIN_MAX : PCCL_CODEC_NONE,
                                                     .codec_datatype = PCCL_U8,
                                                     .count = counts[shape]}};
                run_case(&trial, seed++);
            }
}

/* Floats of 8 and 16 bits, with every number of peers: short and long paths, one group and several. */
TEST(narrow_floats_are_rounded_once)
{
    static const enum pccl_datatype types[] = {PCCL_BF16, PCCL_F16, PCCL_F8_E4M3FN, PCCL_F8_E5M2};
    uint64_t seed = 2500;
    for (uint32_t ranks = 2; ranks <= 8; ranks++)
        for (unsigned operation = 0; operation < PCCL_REDUCE_OPS; operation++)
            for (unsigned variant = 0; variant < 16; variant++) {
                if (pccl_reduction_misfit(PCCL_F16, operation) != NULL)
                    continue;
                struct trial trial = {.ranks = ranks,
                                      .connections = 1 + (uint32_t)(seed % 3),
                                      .direct = (variant & 1) != 0,
                                      .in_place = (variant & 2) != 0,
                                      .long_path = (variant & 8) != 0,
                                      .descriptor = {.datatype = (uint8_t)types[(variant / 4 + seed / 16) % 4],
                                                     .operation = (uint8_t)operation,
                                                     .count = 1000 + seed % 5000}};
                if (seed % 16 == 11) /* several groups */
                    trial.descriptor.count = 140000 * ranks;
                run_case(&trial, seed++);
            }
}

/*
 * The same for sums that are packed: 40,000 is exact in every block, and the sum is out of range, which shows only at
 * the end.
 */
TEST(quantized_halves_are_rounded_at_the_end)
{
    for (unsigned variant = 0; variant < 8; variant++) {
        struct trial trial = {
            .ranks = 4,
            .connections = 1,
            .direct = (variant & 1) != 0,
            .descriptor = {.datatype = PCCL_F16,
                           .operation = (variant & 4) != 0 ? PCCL_SUM : PCCL_AVG,
                           .codec = (variant & 2) != 0 ? PCCL_CODEC_MIN_MAX : PCCL_CODEC_ZERO_POINT_SCALE,
                           .codec_datatype = PCCL_U8,
                           .count = 5000}};
        const uint16_t expected = (variant & 4) != 0 ? 0x7c00 : 0x78e2; /* infinity, 40,000 */
        struct job jobs[RANKS_MOST];
        run_start(&trial, jobs, 2900 + variant, 40000);
        for (uint32_t rank = 0; rank < trial.ranks; rank++)
            for (size_t i = 0; i < trial.descriptor.count; i++)
                assert_memory_equal(jobs[rank].result + i * sizeof expected, &expected, sizeof expected);
        run_end(&trial, jobs);
    }
}

/* Several groups: with one open at a time, and with several. */
TEST(windows)
{
    uint64_t seed = 3000;
    for (uint32_t ranks = 2; ranks <= 4; ranks++)
        for (size_t window = 1; window <= (4 << 20); window += (4 << 20) - 1)
            for (unsigned variant = 0; variant < 8; variant++) {
                struct trial trial = {.ranks = ranks,
                                      .connections = 3,
                                      .direct = (variant & 1) != 0,
                                      .in_place = (variant & 2) != 0,
                                      .window_bytes = window,
                                      .descriptor = {.datatype = PCCL_F64,
                                                     .operation = PCCL_SUM,
                                                     .codec = (variant & 4) != 0 ? PCCL_CODEC_MIN_MAX : PCCL_CODEC_NONE,
                                                     .codec_datatype = PCCL_U16,
                                                     .count = (window == 1 ? 104001 : 101003) * ranks}};
                if ((variant & 4) != 0) { /* the same number of bytes on the wire */
                    trial.descriptor.datatype = PCCL_F32;
                    trial.descriptor.count *= 4;
                }
                assert_true(plan_of(&trial).stripes >= 4);
                run_case(&trial, seed++);
            }
}

/* The i-th way to carry out another collective: directly or not, in place or not, and on which path. */
static struct trial other_trial(enum pccl_collective collective, uint32_t ranks, unsigned i, uint64_t seed)
{
    static const enum pccl_datatype types[] = {PCCL_F32, PCCL_U8, PCCL_BF16, PCCL_F64, PCCL_I16};
    return (struct trial){.ranks = ranks,
                          .connections = 1 + (uint32_t)(seed % 3),
                          .direct = (i & 1) != 0,
                          .in_place = (i & 2) != 0,
                          .long_path = (i & 4) != 0,
                          .short_path = (i & 4) == 0,
                          .root = (uint32_t)(seed % ranks),
                          .descriptor = {.collective = (uint8_t)collective, .datatype = (uint8_t)types[seed % 5]}};
}

/* Fewer elements than ranks, and more. */
TEST(the_other_collectives)
{
    bool is_used[PCCL_ALGORITHMS] = {false};
    uint64_t seed = 5000;
    for (unsigned other = 0; other < PCCL_COUNT_OF(others); other++)
        for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks += ranks < 6 ? 1 : 5)
            for (unsigned i = 0; i < 3 * 8; i++, seed++) {
                struct trial trial = other_trial(others[other], ranks, i, seed);
                const uint64_t counts[3] = {1 + seed % (ranks - 1), ranks + seed % 3, 1001};
                trial.descriptor.count = counts[i / 8];
                if (pccl_collective_reduces(trial.descriptor.collective))
                    trial.descriptor.operation = seed % PCCL_REDUCE_OPS;
                if (pccl_reduction_misfit(trial.descriptor.datatype, trial.descriptor.operation) != NULL ||
                    (scans(others[other]) && trial.descriptor.operation == PCCL_AVG))
                    trial.descriptor.operation = PCCL_MIN;
                is_used[plan_of(&trial).algorithm] = true;
                run_case(&trial, seed);
            }
    assert_true(is_used[PCCL_STAR] && is_used[PCCL_SPREAD]);
}

TEST(scans_of_every_type_and_operation)
{
    uint64_t seed = 12000;
    for (unsigned datatype = 0; datatype < PCCL_DATATYPES; datatype++)
        for (unsigned operation = 0; operation < PCCL_REDUCE_OPS; operation++)
            for (unsigned i = 0; i < 8; i++, seed++) {
                const enum pccl_collective collective = i / 4 == 0 ? PCCL_EXCLUSIVE_SCAN : PCCL_INCLUSIVE_SCAN;
                struct trial trial = other_trial(collective, 2 + (uint32_t)(seed / 8 % 7), i, seed);
                trial.descriptor.datatype = (uint8_t)datatype;
                trial.descriptor.operation = (uint8_t)operation;
                trial.descriptor.count = 1 + seed * 37 % 6000;
                if (operation != PCCL_AVG && pccl_reduction_misfit(datatype, operation) == NULL)
                    run_case(&trial, seed);
            }
}

/* Gives parts these lengths, by position, repeated: some empty, some long; and computes their starts. */
static void give_lengths(struct trial *trial, const uint32_t *lengths, uint32_t length_count, uint64_t *starts)
{
    const bool exchanges = trial->descriptor.collective == PCCL_ALL_TO_ALL_V;
    const uint32_t parts = exchanges ? trial->ranks * trial->ranks : trial->ranks;
    for (uint32_t i = 0; i < parts; i++)
        starts[i + 1] = starts[i] + lengths[i % length_count];
    trial->starts = starts;
    trial->descriptor.counts = (struct pccl_id){{1}};
    trial->descriptor.count = starts[parts];
}

TEST(parts_of_given_lengths)
{
    static const uint32_t lengths[][4] = {{0, 5, 0, 0}, {700, 0, 1, 3}, {0, 0, 0, 40000}, {150000, 0, 0, 7}};
    uint64_t seed = 7000;
    for (unsigned gathers = 0; gathers < 2; gathers++)
        for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks += ranks < 6 ? 1 : 5)
            for (unsigned i = 0; i < 8 * PCCL_COUNT_OF(lengths); i++, seed++) {
                const enum pccl_collective collective = gathers != 0 ? PCCL_ALL_GATHER_V : PCCL_REDUCE_SCATTER;
                struct trial trial = other_trial(collective, ranks, i, seed);
                uint64_t starts[RANKS_MOST + 1] = {0};
                if (seed % 7 == 0) {
                    trial.descriptor.datatype = PCCL_F32;
                    trial.descriptor.codec = PCCL_CODEC_MIN_MAX;
                    trial.descriptor.codec_datatype = PCCL_U8;
                }
                trial.window_bytes = i % 3 == 0 ? 1 : 1 << 20;
                give_lengths(&trial, lengths[i / 8], 4, starts);
                if (trial.descriptor.count > 0) /* two ranks may have the first two lengths only */
                    run_case(&trial, seed);
            }
}

/* Each blob has its own memory; the turns of an all-to-all continue to the end of their parts, or change each time. */
TEST(blobs_for_each)
{
    static const enum pccl_collective kinds[] = {PCCL_GATHER_V, PCCL_SCATTER_V, PCCL_ALL_TO_ALL_V};
    static const uint32_t lengths[][5] = {
        {0, 5, 0, 0, 9}, {700, 0, 1, 3, 0}, {0, 0, 2, 0, 40000}, {300000, 0, 0, 7, 1}, {3000, 3000, 3000, 3000, 2999}};
    uint64_t seed = 12000, turns[2] = {0};
    for (unsigned kind = 0; kind < PCCL_COUNT_OF(kinds); kind++)
        for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks += ranks < 6 ? 1 : 5)
            for (unsigned i = 0; i < 8 * PCCL_COUNT_OF(lengths); i++, seed++) {
                struct trial trial = other_trial(kinds[kind], ranks, i, seed);
                uint64_t starts[RANKS_MOST * RANKS_MOST + 1] = {0};
                trial.descriptor.datatype = PCCL_U8;
                trial.window_bytes = i % 3 == 0 ? 1 : 1 << 20;
                give_lengths(&trial, lengths[i / 8], 5, starts);
                const struct pccl_plan plan = trial.descriptor.count > 0 ? plan_of(&trial) : (struct pccl_plan){0};
                turns[plan.turn_stripes > 1] += plan.division == PCCL_DIVISION_EXCHANGED && plan.stripes > plan.turns;
                if (trial.descriptor.count > 0)
                    run_case(&trial, seed);
            }
    assert_true(turns[0] > 0 && turns[1] > 0);
}

/* All codecs, for any elements. */
TEST(quantized_copies)
{
    uint64_t seed = 8000;
    for (unsigned other = 0; other < PCCL_COUNT_OF(others); other++)
        for (unsigned kind = PCCL_CODEC_MIN_MAX; kind < PCCL_CODEC_KINDS; kind++)
            for (unsigned datatype = 0; datatype < PCCL_DATATYPES; datatype++)
                for (unsigned packed = 0; packed < PCCL_DATATYPES; packed++) {
                    struct pccl_text reason;
                    if (pccl_collective_reduces((uint8_t)others[other]) ||
                        pccl_codec_find((enum pccl_codec_kind)kind, (enum pccl_datatype)datatype,
                                        (enum pccl_datatype)packed, PCCL_SUM, &reason) == NULL)
                        continue;
                    for (unsigned i = 0; i < 8; i++, seed++) {
                        struct trial trial = other_trial(others[other], 2 + (uint32_t)(seed % 4), i, seed);
                        trial.descriptor.datatype = (uint8_t)datatype;
                        trial.descriptor.codec = (uint8_t)kind;
                        trial.descriptor.codec_datatype = (uint8_t)packed;
                        trial.descriptor.count = 1 + seed * 397 % 6000;
                        run_case(&trial, seed);
                    }
                }
}

TEST(scaled_copies)
{
    static const enum pccl_collective collectives_that_move[] = {PCCL_BROADCAST, PCCL_ALL_GATHER, PCCL_GATHER,
                                                                 PCCL_SCATTER, PCCL_ALL_TO_ALL};
    for (unsigned i = 0; i < 360; i++) {
        const enum pccl_collective collective = collectives_that_move[i % 5];
        struct trial trial = other_trial(collective, 2 + i % 4, i / 5 % 8, 10000 + i);
        use_scaled(&trial.descriptor, i / 2);
        if (i % 5 > 1)
            trial.descriptor.codec_rounding = PCCL_SCALED_NEAREST;
        trial.descriptor.count = 1 + i * 397 % 6000;
        run_case(&trial, 10000 + i);
    }
}

TEST(scaled_shares)
{
    for (unsigned i = 0; i < 120; i++) {
        struct trial trial = other_trial(PCCL_REDUCE_SCATTER, 2 + i % 5, i % 8, 11000 + i);
        use_scaled(&trial.descriptor, i);
        trial.descriptor.operation = i % 2 == 0 ? PCCL_SUM : PCCL_AVG;
        trial.descriptor.count = 1 + i * 397 % 6000;
        run_case(&trial, 11000 + i);
    }
}

TEST(quantized_shares)
{
    for (unsigned i = 0; i < 2 * 48; i++) {
        struct trial trial = other_trial(i < 48 ? PCCL_REDUCE_SCATTER : PCCL_REDUCE, 2 + i % 48 / 8, i, 6000 + i);
        trial.descriptor.datatype = i % 3 == 0 ? PCCL_F16 : PCCL_F32;
        trial.descriptor.operation = PCCL_AVG;
        trial.descriptor.codec = PCCL_CODEC_MIN_MAX;
        trial.descriptor.codec_datatype = PCCL_U8;
        trial.descriptor.count = 1 + i * 397 % 6000;
        run_case(&trial, 6000 + i);
    }
}

/* Several groups: one open at a time, and several. */
TEST(the_other_collectives_in_groups)
{
    uint64_t seed = 7000;
    for (unsigned other = 0; other < PCCL_COUNT_OF(others); other++)
        for (uint32_t ranks = 2; ranks <= 4; ranks++)
            for (unsigned i = 0; i < 16; i++, seed++) {
                struct trial trial = other_trial(others[other], ranks, i, seed);
                bool whole = others[other] == PCCL_BROADCAST || others[other] == PCCL_REDUCE || scans(others[other]);
                trial.descriptor.datatype = PCCL_U32;
                trial.descriptor.count = whole ? 600001 : 150001;
                if (i >= 8 && scans(others[other])) {
                    trial.descriptor.datatype = PCCL_BF16;
                } else if (i >= 8) { /* the same number of bytes on the wire */
                    trial.descriptor.datatype = PCCL_F64;
                    trial.descriptor.codec = PCCL_CODEC_MIN_MAX;
                    trial.descriptor.codec_datatype = PCCL_U32;
                }
                trial.window_bytes = seed % 2 == 0 ? 1 : 4 << 20;
                assert_true(plan_of(&trial).stripes >= (trial.direct && ranks > 2 ? 2 : 3));
                run_case(&trial, seed);
            }
}

/* New credit is sent when a share of the window is free: on a long path a sixteenth. */
TEST(credit_is_batched)
{
    struct trial trial = {.ranks = 2,
                          .connections = 1,
                          .window_bytes = 3 << 19,
                          .long_path = true,
                          .descriptor = {.datatype = PCCL_U8, .operation = PCCL_MAX, .count = 96 * 2 * (64 << 10)}};
    assert_int_equal(plan_of(&trial).stripes, 96);
    run_trial(&trial, 4000);
    assert_in_range(world.readies, 2 * 10, 2 * 40); /* 48 groups at once, then 3 at a time */
}
