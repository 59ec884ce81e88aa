/* Creates plans: checks the descriptor, chooses the schedule, and divides the elements. */
#include "collective/plan.h"

#include "core/limits.h"
#include "wire/cost.h"

/* Tuning constants. They must be the same on every peer. */
enum {
    SEGMENT_BYTES_MOST = 256 << 10,     /* small enough for several segments to fit in a core's cache */
    LONG_SEGMENT_BYTES_MOST = 64 << 10, /* small enough to distribute the work over several connections */
    SEGMENT_BYTES_STEP = 64,            /* a cache line */
    CHAIN_SEGMENT_BYTES_LEAST = 16 << 10,
    SEGMENT_BYTES_LEAST = 16 << 10, /* minimum for the ring of a large group whose links are fast enough */
    LEAST_RTT_US_MOST = 400,
    CACHED_BYTES_MOST = 4 << 20, /* a result up to this size may still be in a cache when the caller reads it */
    DIRECT_BYTES_MOST = 8 << 20,
    GUESSED_BYTES_MOST = 256 << 10, /* long path: larger operations use direct exchange only if all rates are known */
    DIRECT_WIDE_BYTES_MOST =
        64 << 20, /* maximum for operations that need more bytes along the ring; measurements end at this size */
    /* extra cost of direct exchange on its links, relative to the transfer time */
    DIRECT_COST_PERCENT = 8,
    RTT_US_DEFAULT = 100,
    STEP_RTT_US_LEAST = 100, /* even over a short path, waking the next process takes about half of this */
    TURN_COST_MOST = 4, /* a turn may continue to the end of its parts if that takes at most 1/TURN_COST_MOST longer */
};
static const uint64_t rate_default = 2000000000;
static const uint64_t rate_most = 1000000000000;

/*
 * The two schedules of each collective: along the ring, and over links between all pairs; a broadcast has a third one,
 * the star. Latency depends on the number of messages that must wait for an earlier message on another rank.
 */
struct ways {
    enum pccl_algorithm ring, direct;
    uint32_t ring_rounds;  /* number of rounds as a multiple of ranks - 1; 0: no such operation */
    uint32_t direct_steps; /* number of steps, each of which sends the whole tensor once */
    bool at_root;          /* in direct exchange, only links to or from the root transfer data */
};

static const struct ways ways_of[PCCL_COLLECTIVES] = {
    [PCCL_ALL_REDUCE] = {PCCL_RING, PCCL_DIRECT, 2, 2, false},
    [PCCL_COALESCED] = {PCCL_RING, PCCL_DIRECT, 2, 2, false},
    [PCCL_BROADCAST] = {PCCL_CHAIN, PCCL_SPREAD, 1, 2, false},
    [PCCL_SEND] = {PCCL_CHAIN, PCCL_CHAIN, 1, 1, false}, /* a send has two ranks */
    [PCCL_ALL_GATHER] = {PCCL_GATHER_RING, PCCL_GATHER_DIRECT, 1, 1, false},
    [PCCL_ALL_GATHER_V] = {PCCL_GATHER_RING, PCCL_GATHER_DIRECT, 1, 1, false},
    [PCCL_REDUCE_SCATTER] = {PCCL_SCATTER_RING, PCCL_SCATTER_DIRECT, 1, 1, false},
    [PCCL_REDUCE] = {PCCL_REDUCE_CHAIN, PCCL_REDUCE_DIRECT, 1, 1, true},
    [PCCL_GATHER] = {PCCL_TO_ROOT_CHAIN, PCCL_TO_ROOT_DIRECT, 1, 1, true},
    [PCCL_GATHER_V] = {PCCL_TO_ROOT_CHAIN, PCCL_TO_ROOT_DIRECT, 1, 1, true},
    [PCCL_SCATTER] = {PCCL_FROM_ROOT_CHAIN, PCCL_FROM_ROOT_DIRECT, 1, 1, true},
    [PCCL_SCATTER_V] = {PCCL_FROM_ROOT_CHAIN, PCCL_FROM_ROOT_DIRECT, 1, 1, true},
    [PCCL_ALL_TO_ALL] = {PCCL_EXCHANGE_RING, PCCL_EXCHANGE_DIRECT, 1, 1, false},
    [PCCL_ALL_TO_ALL_V] = {PCCL_EXCHANGE_RING, PCCL_EXCHANGE_DIRECT, 1, 1, false},
    [PCCL_EXCLUSIVE_SCAN] = {PCCL_SCAN_RING, PCCL_SCAN_DIRECT, 1, 1, false},
    [PCCL_INCLUSIVE_SCAN] = {PCCL_SCAN_RING, PCCL_SCAN_DIRECT, 1, 1, false},
};

static enum pccl_division division_of(const struct pccl_collective_row *row)
{
    if (pccl_row_exchanges(row))
        return PCCL_DIVISION_EXCHANGED;
    return row->input.amount == PCCL_PART_FOR_EACH    ? PCCL_DIVISION_SCATTERED
           : row->result.amount == PCCL_PART_FOR_EACH ? PCCL_DIVISION_GATHERED
                                                      : PCCL_DIVISION_WHOLE;
}

static enum pccl_status refuse(struct pccl_text *reason, const char *words)
{
    return pccl_fail(reason, PCCL_ARGUMENT, "%s", words);
}

static enum pccl_status take_codec(const struct pccl_descriptor *descriptor, struct pccl_plan *plan,
                                   struct pccl_text *reason)
{
    plan->folded_datatype = pccl_folded_type(plan->datatype, plan->reduction);
    if (!pccl_packing_find(descriptor, plan->datatype, &plan->packing, reason))
        return PCCL_ARGUMENT;
    if (!pccl_packing_packs(&plan->packing))
        return PCCL_OK;
    plan->folded_datatype = pccl_folded_type(plan->datatype, PCCL_SUM); /* not rounded before packing */
    bool found = pccl_packing_find(descriptor, plan->folded_datatype, &plan->folded_packing, reason);
    return found ? PCCL_OK : PCCL_ARGUMENT;
}

/* Returns true if this peer's input has a place in its result. */
static bool has_own_part(const struct pccl_descriptor *descriptor, const struct pccl_plan *plan)
{
    bool is_elsewhere = pccl_collective_has_root(descriptor->collective) && plan->seat.rank != plan->seat.root;
    return !is_elsewhere && plan->division != PCCL_DIVISION_EXCHANGED;
}

static enum pccl_status take_descriptor(const struct pccl_descriptor *descriptor, struct pccl_plan *plan,
                                        struct pccl_text *reason)
{
    pccl_text_clear(reason);
    if (descriptor->collective >= PCCL_COLLECTIVES || ways_of[descriptor->collective].ring_rounds == 0)
        return refuse(reason, "this operation does not move data between peers");
    if (descriptor->datatype >= PCCL_DATATYPES || descriptor->operation >= PCCL_REDUCE_OPS ||
        descriptor->codec >= PCCL_PACKING_KINDS || descriptor->codec_datatype >= PCCL_DATATYPES)
        return refuse(reason, "unknown data type, operation or quantization");
    const struct pccl_collective_row *row = pccl_collective(descriptor->collective);
    const char *misfit = pccl_row_misfit(row, descriptor->datatype, descriptor->operation);
    if (misfit != NULL)
        return refuse(reason, misfit);
    if (row->of == PCCL_OF_ELEMENTS && row->codecs == PCCL_NEVER_PACKED && descriptor->codec != PCCL_CODEC_NONE)
        return refuse(reason, "this collective does not support quantization");
    plan->reduces = row->reduces;
    plan->scan = row->scan;
    if (plan->seat.root >= plan->seat.ranks)
        return refuse(reason, "the root is not a member");
    plan->datatype = (enum pccl_datatype)descriptor->datatype;
    plan->reduction = (enum pccl_reduce_op)descriptor->operation;
    plan->element_bytes = (uint32_t)pccl_datatype_bytes(plan->datatype);
    plan->count = descriptor->count;
    plan->division = division_of(row);
    plan->own = has_own_part(descriptor, plan) ? plan->count : 0;
    bool equal_parts = plan->division != PCCL_DIVISION_WHOLE && pccl_id_is_zero(&descriptor->counts);
    uint64_t most = (uint64_t)PTRDIFF_MAX / plan->element_bytes / (equal_parts ? plan->seat.ranks : 1);
    if (plan->division == PCCL_DIVISION_EXCHANGED && equal_parts)
        most /= plan->seat.ranks; /* elements are numbered by sender and receiver */
    if (plan->count == 0 || plan->count > most)
        return pccl_fail(reason, PCCL_ARGUMENT, "invalid number of elements: %" PRIu64 ", expected 1 to %" PRIu64,
                         plan->count, most);
    return take_codec(descriptor, plan, reason);
}

/* Adds parts of given lengths to the plan. */
static enum pccl_status take_starts(const uint64_t *starts, struct pccl_plan *plan, struct pccl_text *reason)
{
    uint64_t all = plan->count;
    uint32_t parts = pccl_plan_parts(plan);
    bool fits = starts[0] == 0 && starts[parts] == all;
    plan->count = 0;
    for (uint32_t i = 0; i < parts; i++) {
        fits = fits && starts[i] <= starts[i + 1];
        plan->count = pccl_max_u64(plan->count, starts[i + 1] - starts[i]);
    }
    plan->starts = starts;
    return fits ? PCCL_OK : refuse(reason, "the lengths of the parts do not add up to the length of the tensor");
}

static enum pccl_status take_parts(const struct pccl_descriptor *descriptor, const uint32_t *positions,
                                   const uint64_t *starts, struct pccl_plan *plan, struct pccl_text *reason)
{
    bool given = !pccl_id_is_zero(&descriptor->counts);
    if (given != (starts != NULL))
        return refuse(reason, "the lengths of the parts differ from the lengths in the descriptor");
    if (given && take_starts(starts, plan, reason) != PCCL_OK)
        return PCCL_ARGUMENT;
    PCCL_ASSERT(positions != NULL);
    plan->positions = positions;
    uint32_t own = positions[plan->seat.rank];
    plan->own_from = pccl_plan_part_start(plan, own);
    plan->own = plan->own > 0 ? pccl_plan_part_length(plan, own) : 0;
    *(plan->division == PCCL_DIVISION_SCATTERED ? &plan->result_from : &plan->input_from) = plan->own_from;
    if (plan->division == PCCL_DIVISION_EXCHANGED)
        plan->input_from = pccl_plan_part_start(plan, own * plan->seat.ranks);
    return PCCL_OK;
}

/* ---- given lengths, along the ring: load of ranks and links ---- */

/* Returns the number of elements that one rank sends to another. */
static uint64_t between(const struct pccl_plan *plan, uint32_t from, uint32_t to)
{
    if (plan->division == PCCL_DIVISION_EXCHANGED)
        return pccl_plan_part_length(plan, pccl_plan_part_between(plan, from, to));
    uint32_t owner = plan->division == PCCL_DIVISION_SCATTERED ? to : from,
             root = plan->division == PCCL_DIVISION_SCATTERED ? from : to;
    return root == plan->seat.root ? pccl_plan_part_length(plan, plan->positions[owner]) : 0;
}

/* Returns the largest number of elements that any rank sends to the rank `places` ahead of it. */
static uint64_t longest_at(const struct pccl_plan *plan, uint32_t places)
{
    uint64_t longest = 0;
    for (uint32_t rank = 0; rank < plan->seat.ranks; rank++)
        longest = pccl_max_u64(longest, between(plan, rank, (rank + places) % plan->seat.ranks));
    return longest;
}

/* Returns the largest number of elements that any rank sends to all others, or receives from them. */
static uint64_t busiest_rank(const struct pccl_plan *plan)
{
    uint64_t most = 0;
    for (uint32_t rank = 0; rank < plan->seat.ranks; rank++) {
        uint64_t sent = 0, got = 0;
        for (uint32_t other = 0; other < plan->seat.ranks; other++) {
            sent += other != rank ? between(plan, rank, other) : 0;
            got += other != rank ? between(plan, other, rank) : 0;
        }
        most = pccl_max_u64(most, pccl_max_u64(sent, got));
    }
    return most;
}

/* Returns the average number of elements that a pair transfers. */
static uint64_t average_pair(const struct pccl_plan *plan)
{
    uint64_t all = 0, ranks = plan->seat.ranks;
    for (uint32_t rank = 0; rank < ranks; rank++)
        for (uint32_t places = 1; places < ranks; places++)
            all += between(plan, rank, (uint32_t)((rank + places) % ranks));
    return all / (ranks * (ranks - 1));
}

/* Returns the largest number of elements that cross a link of the ring. */
static uint64_t busiest_link(const struct pccl_plan *plan)
{
    uint64_t most = 0;
    uint32_t ranks = plan->seat.ranks;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint64_t passed = 0;
        for (uint32_t before = 0; before < ranks; before++)
            for (uint32_t places = before + 1; places < ranks; places++) {
                uint32_t from = (rank + ranks - before) % ranks;
                passed += between(plan, from, (from + places) % ranks);
            }
        most = pccl_max_u64(most, passed);
    }
    return most;
}

/*
 * Returns true if a turn may continue to the end of its parts, so that these are complete before others begin. All
 * ranks then wait for the longest part of each turn. If that takes much longer than the busiest rank needs, turns
 * alternate from stripe to stripe instead.
 */
static bool may_go_on(const struct pccl_plan *plan)
{
    if (plan->starts == NULL)
        return false;
    if (plan->division != PCCL_DIVISION_EXCHANGED)
        return true; /* only the root sends */
    uint64_t all = 0, most = busiest_rank(plan);
    for (uint32_t places = 1; places < plan->seat.ranks; places++)
        all += longest_at(plan, places);
    return all <= most + most / TURN_COST_MOST;
}

/* ---- choice of the schedule ---- */

/*
 * Known figures of the ring's links (rtt_us, rate) and of all links (mesh_*): the rate of a link alone, and its share
 * while all pairs send.
 */
struct paths {
    uint64_t rtt_us, rate, mesh_rtt_us, mesh_rate, mesh_share;
};

static struct paths paths_of(const struct pccl_cost *cost)
{
    struct paths paths = {.rtt_us = cost->rtt_us != 0 ? cost->rtt_us : RTT_US_DEFAULT,
                          .rate = cost->rate != 0 ? pccl_min_u64(cost->rate, rate_most) : rate_default,
                          .mesh_rate = cost->mesh_rate != 0 ? pccl_min_u64(cost->mesh_rate, rate_most) : rate_most};
    paths.mesh_rtt_us = cost->mesh_rtt_us != 0 ? cost->mesh_rtt_us : paths.rtt_us;
    paths.mesh_share = cost->mesh_share != 0 ? pccl_min_u64(cost->mesh_share, paths.mesh_rate) : paths.mesh_rate;
    return paths;
}

/*
 * Returns true if direct exchange takes less time than the ring. Compares the load of the ring's busiest link with the
 * load of the busiest rank or pair; if all pairs send, also with the average pair, because pairs may share lines.
 */
static bool is_faster_directly(const struct pccl_plan *plan, const struct pccl_cost *cost)
{
    const struct paths paths = paths_of(cost);
    uint64_t link = busiest_link(plan), rank = busiest_rank(plan), pair = 0, parts = 1;
    for (uint32_t places = 1; places < plan->seat.ranks; places++)
        pair = pccl_max_u64(pair, longest_at(plan, places));
    while (pccl_plan_whole(plan) / parts > DIRECT_WIDE_BYTES_MOST / plan->element_bytes)
        parts *= 2; /* the comparison is the same for longer tensors */
    uint64_t scale = plan->element_bytes * UINT64_C(1000000000);
    uint64_t ring_ns = link / parts * scale / paths.rate + (plan->seat.ranks - 1) * paths.rtt_us * 500;
    uint64_t direct_ns = pccl_max_u64(rank / parts * scale / paths.rate, pair / parts * scale / paths.mesh_rate);
    if (plan->division == PCCL_DIVISION_EXCHANGED)
        direct_ns = pccl_max_u64(direct_ns, average_pair(plan) / parts * scale / paths.mesh_share);
    return direct_ns + paths.mesh_rtt_us * 500 < ring_ns;
}

/* Returns true if a group that is too large for a mesh has the hubs whose links the schedule uses. */
static bool has_hubs(const struct pccl_plan *plan, bool relays, const struct pccl_cost *cost)
{
    const uint32_t ranks = plan->seat.ranks;
    if (!relays || ranks > PCCL_HUB_PEERS_MAX)
        return false;
    if (plan->division == PCCL_DIVISION_EXCHANGED || plan->scan != PCCL_NO_SCAN)
        return cost->to_hubs == pccl_all_hubs(ranks);
    const uint64_t root = pccl_hub_bit(plan->positions[plan->seat.root]);
    return ((plan->division == PCCL_DIVISION_SCATTERED ? cost->from_hubs : cost->to_hubs) & root) != 0;
}

static bool may_go_directly(const struct pccl_plan *plan, bool relays, const struct pccl_cost *cost)
{
    const bool is_small = plan->seat.ranks <= PCCL_MESH_PEERS_MAX;
    return plan->seat.ranks > 2 && cost->mesh != 0 && (is_small || has_hubs(plan, relays, cost));
}

static bool must_go_directly(const struct pccl_plan *plan)
{
    return plan->reduces && pccl_packing_is_scaled(&plan->packing);
}

/*
 * Returns true if direct exchange would rely on unknown rates, and a wrong guess would cost more than the round trips
 * that it saves. One slow pair, or one line shared by many pairs, delays the whole operation.
 */
static bool is_guess(const struct pccl_plan *plan, bool relays, const struct pccl_cost *cost)
{
    const bool known = cost->rate != 0 && cost->mesh_rate != 0;
    return plan->long_path && !known && !relays && pccl_plan_whole(plan) > GUESSED_BYTES_MOST / plan->element_bytes;
}

/*
 * Returns true if a star, with one step, is faster than the ring and than a spread, with two; ring_ns and spread_ns are
 * their times without latency.
 */
static bool is_faster_as_star(uint64_t ranks, uint64_t bytes, const struct paths *paths, uint64_t ring_ns,
                              uint64_t spread_ns)
{
    const uint64_t scale = bytes * 1000000000, step_ns = pccl_max_u64(paths->mesh_rtt_us, STEP_RTT_US_LEAST) * 500;
    uint64_t ring_step_ns = pccl_max_u64(paths->rtt_us, STEP_RTT_US_LEAST) * 500;
    uint64_t star_ns = pccl_max_u64((ranks - 1) * scale / paths->rate, scale / paths->mesh_rate) + step_ns;
    return star_ns < ring_ns + (ranks - 1) * ring_step_ns && star_ns < spread_ns + 2 * step_ns;
}

/*
 * Chooses between ring and direct exchange. `plan` is the plan for the ring. Direct exchange saves latency, because it
 * has one or two steps; it also saves bytes if sums along the ring are wide or ranks relay data for others. But it
 * loads all links, not only the links of the ring, and is as slow as the slowest pair, if that is known. A reduction
 * with a scaled codec uses direct exchange wherever possible, because along the ring each rank would pack the sum
 * again.
 */
static enum pccl_algorithm choose(const struct pccl_plan *plan, uint8_t collective, const struct pccl_cost *cost)
{
    const struct ways *ways = &ways_of[collective];
    const bool relays = pccl_row_relays(pccl_collective(collective));
    bool may_be_long = pccl_plan_is_wide(plan, 1) || relays;
    uint64_t most = (may_be_long ? DIRECT_WIDE_BYTES_MOST : DIRECT_BYTES_MOST) / plan->element_bytes;
    uint64_t whole = pccl_plan_whole(plan);
    if (!may_go_directly(plan, relays, cost))
        return ways->ring;
    if (plan->scan != PCCL_NO_SCAN) /* a ring in the order of the line needs no other links */
        return plan->line.laps > 0 ? ways->direct : ways->ring;
    if (must_go_directly(plan))
        return ways->direct;
    if ((whole > most && !relays) || is_guess(plan, relays, cost))
        return ways->ring;
    if (plan->starts != NULL && relays)
        return is_faster_directly(plan, cost) ? ways->direct : ways->ring;
    whole = pccl_min_u64(whole, most); /* the comparison gives the same result for longer tensors */
    uint64_t ranks = plan->seat.ranks, steps = ways->direct_steps;
    uint64_t bytes = pccl_plan_bytes(plan, 0, (uint32_t)whole);
    uint64_t folded_bytes = pccl_plan_bytes_most(plan, (uint32_t)whole);
    const struct paths paths = paths_of(cost);
    /* Work of the rank with the longest part, computed as if all parts were that long. */
    uint64_t part_bytes = plan->starts != NULL ? ranks * pccl_plan_bytes(plan, 0, (uint32_t)plan->count) : bytes;
    if (ways->direct == PCCL_REDUCE_DIRECT)
        part_bytes *= ranks; /* the root receives the tensors of all ranks */
    uint64_t elements_bytes =
        plan->division != PCCL_DIVISION_WHOLE ? bytes : ranks * bytes; /* all that crosses the ring except sums */
    uint64_t ring_bytes = elements_bytes + (ranks - 2) * folded_bytes;
    if (plan->division == PCCL_DIVISION_EXCHANGED)
        ring_bytes = ring_bytes * ranks / 2; /* data for other ranks crosses half of the ring on average */
    uint64_t ring_ns = ring_bytes * 1000000000 / (ranks * paths.rate);
    uint64_t pair_rate = ways->at_root ? paths.mesh_rate : paths.mesh_share;
    uint64_t pair_ns = steps * part_bytes * 1000000000 / (ranks * pair_rate);
    uint64_t direct_ns = pccl_max_u64(steps * (ranks - 1) * part_bytes * 1000000000 / (ranks * paths.rate), pair_ns);
    direct_ns += relays ? 0 : direct_ns * DIRECT_COST_PERCENT / 100;
    if (collective == PCCL_BROADCAST && is_faster_as_star(ranks, bytes, &paths, ring_ns, direct_ns))
        return PCCL_STAR;
    ring_ns += ways->ring_rounds * (ranks - 1) * paths.rtt_us * 500;
    direct_ns += steps * paths.mesh_rtt_us * 500;
    return direct_ns < ring_ns ? ways->direct : ways->ring;
}

/* Returns the bytes that step 0 sends. Above 4 G elements, any size that is too long for direct exchange suffices. */
static uint64_t first_bytes(const struct pccl_plan *plan)
{
    return pccl_plan_bytes(plan, 0, (uint32_t)pccl_min_u64(plan->count, UINT32_MAX));
}

static enum pccl_algorithm choose_for_all(const struct pccl_plan *plans, uint32_t count, const struct pccl_cost *cost)
{
    struct pccl_plan whole = plans[0];
    uint64_t bytes = 0;
    if (count == 1)
        return choose(&whole, PCCL_COALESCED, cost);
    for (uint32_t i = 0; i < count; i++) {
        if (must_go_directly(&plans[i]))
            return may_go_directly(&whole, false, cost) ? PCCL_DIRECT : PCCL_RING;
        bytes += first_bytes(&plans[i]);
    }
    whole.datatype = whole.folded_datatype = PCCL_U8;
    whole.packing = whole.folded_packing = (struct pccl_packing){.codec = NULL};
    whole.element_bytes = 1;
    whole.count = bytes;
    return choose(&whole, PCCL_COALESCED, cost);
}

/* ---- division of the elements ---- */

/*
 * Returns the desired number of elements of a segment. A chain is divided like a ring, because it can receive and send
 * at the same time only if there are several segments.
 */
static uint64_t share_of(const struct pccl_plan *plan)
{
    if (plan->positions != NULL)
        return plan->count;
    if (plan->pieces > 1 || plan->seat.ranks == 2 || pccl_schedules[plan->algorithm]->steps(plan->seat) == 1)
        return pccl_divide_up(plan->count, plan->pieces);
    return pccl_max_u64(pccl_divide_up(plan->count, plan->seat.ranks), CHAIN_SEGMENT_BYTES_LEAST / plan->element_bytes);
}

/*
 * Returns the minimum number of bytes of a segment on the ring of a large group, where the number of messages dominates
 * the cost of a small tensor; 0: no minimum. A link transfers this minimum in an eighth of its round trip, and in at
 * most 50 us, so no step takes more than a quarter longer. Links within a host have no known round trip and are fast,
 * but their rate depends on the load of the host.
 */
static uint64_t least_bytes(const struct pccl_plan *plan, const struct pccl_cost *cost)
{
    if (plan->algorithm != PCCL_RING || plan->seat.ranks <= PCCL_MESH_PEERS_MAX)
        return 0;
    if (cost->rtt_us == 0)
        return SEGMENT_BYTES_LEAST;
    const uint64_t rate = pccl_min_u64(cost->rate, rate_most), rtt_us = pccl_min_u64(cost->rtt_us, LEAST_RTT_US_MOST);
    return pccl_min_u64(rate * rtt_us / 8 / 1000000, SEGMENT_BYTES_LEAST);
}

/* Rounds up to whole cache lines, or to blocks of the codec. */
static uint64_t round_elements(const struct pccl_plan *plan, uint64_t elements)
{
    bool whole_blocks = pccl_packing_packs(&plan->packing) && elements > PCCL_PACKING_BLOCK;
    return pccl_round_up(elements, whole_blocks ? PCCL_PACKING_BLOCK : SEGMENT_BYTES_STEP / plan->element_bytes);
}

/*
 * Divides the elements into as few segments as their sizes in messages permit. More segments would overlap receiving,
 * adding and sending better, but for buffers of medium size, system calls and wake-ups would dominate.
 */
static void cut(struct pccl_plan *plan, const struct pccl_cost *cost)
{
    uint64_t traveling = pccl_plan_bytes_most(plan, PCCL_PACKING_BLOCK) / PCCL_PACKING_BLOCK;
    uint64_t most = (plan->long_path ? LONG_SEGMENT_BYTES_MOST : SEGMENT_BYTES_MOST) / pccl_max_u64(traveling, 1);
    uint64_t share = share_of(plan);
    uint64_t elements = round_elements(plan, pccl_divide_up(share, pccl_divide_up(share, most)));
    uint64_t least = round_elements(plan, least_bytes(plan, cost) / pccl_max_u64(traveling, 1));
    /* determined by segment_elements, so peers that agree on that also agree on this */
    plan->leaves_pieces = least > elements;
    plan->segment_elements = (uint32_t)pccl_max_u64(elements, least);
    uint64_t stripes = pccl_divide_up(plan->count, pccl_plan_stripe_elements(plan));
    plan->turn_stripes = plan->turns > 1 && may_go_on(plan) ? stripes : 1;
    plan->stripes = stripes * plan->turns;
}

static void take_schedule(struct pccl_plan *plan, enum pccl_algorithm algorithm, const struct pccl_cost *cost)
{
    plan->algorithm = algorithm;
    const struct pccl_schedule *schedule = pccl_schedules[plan->algorithm];
    plan->pieces = schedule->pieces(plan->seat);
    plan->turns = schedule->turns != NULL ? schedule->turns(plan->seat) : 1;
    cut(plan, cost);
}

static size_t segment_bytes(const struct pccl_plan *plan) { return pccl_plan_bytes_most(plan, plan->segment_elements); }

enum pccl_status pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                struct pccl_seat seat, const uint32_t *positions, const uint64_t *starts,
                                struct pccl_plan *plan, struct pccl_text *reason)
{
    PCCL_ASSERT(seat.ranks >= 2 && seat.rank < seat.ranks);
    struct pccl_plan made = {.seat = seat, .long_path = cost->rtt_us >= PCCL_LONG_PATH_RTT_US};
    enum pccl_status status = take_descriptor(descriptor, &made, reason);
    if (status != PCCL_OK)
        return status;
    if (made.division != PCCL_DIVISION_WHOLE)
        status = take_parts(descriptor, positions, starts, &made, reason);
    else if (made.scan != PCCL_NO_SCAN)
        made.line = pccl_line_make(seat.ranks, seat.rank, positions);
    if (status != PCCL_OK)
        return status;
    if (made.scan != PCCL_NO_SCAN)
        made.seat.line = &made.line;
    made.large = pccl_plan_whole(&made) > CACHED_BYTES_MOST / made.element_bytes;
    made.algorithm = ways_of[descriptor->collective].ring;
    take_schedule(&made, choose(&made, descriptor->collective, cost), cost);
    *plan = made;
    if (made.scan != PCCL_NO_SCAN)
        plan->seat.line = &plan->line;
    return PCCL_OK;
}

/* ---- sections ---- */

/* Plans a section. In a quantized list, only tensors of floats are packed. */
static enum pccl_status begin_section(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                      struct pccl_seat seat, const struct pccl_section *section, struct pccl_plan *plan,
                                      struct pccl_text *reason)
{
    struct pccl_descriptor one = *descriptor;
    *plan = (struct pccl_plan){.seat = seat, .long_path = cost->rtt_us >= PCCL_LONG_PATH_RTT_US};
    one.datatype = section->datatype;
    one.operation = section->operation;
    one.count = section->count;
    if (!pccl_datatype_is_float((enum pccl_datatype)section->datatype)) {
        one.codec = one.codec_datatype = one.codec_scale = one.codec_rounding = 0;
        one.codec_block = 0;
    }
    plan->algorithm = PCCL_RING;
    return take_descriptor(&one, plan, reason);
}

enum pccl_status pccl_plan_make_sections(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                         struct pccl_seat seat, const struct pccl_section *sections, uint32_t count,
                                         struct pccl_plan *plans, struct pccl_plan *whole, struct pccl_text *reason)
{
    PCCL_ASSERT(seat.ranks >= 2 && seat.rank < seat.ranks && count > 0);
    size_t bytes = 0;
    uint64_t elements = 0;
    for (uint32_t i = 0; i < count; i++) {
        enum pccl_status status = begin_section(descriptor, cost, seat, &sections[i], &plans[i], reason);
        if (status != PCCL_OK)
            return status;
        plans[i].bytes_before = bytes;
        plans[i].elements_before = elements;
        elements += plans[i].count;
        bytes += (size_t)plans[i].count * plans[i].element_bytes;
    }
    const enum pccl_algorithm algorithm = choose_for_all(plans, count, cost);
    uint64_t stripes = 0;
    uint32_t longest = 0;
    for (uint32_t i = 0; i < count; i++) {
        plans[i].large = bytes > CACHED_BYTES_MOST;
        take_schedule(&plans[i], algorithm, cost);
        plans[i].first_stripe = stripes;
        stripes += plans[i].stripes;
        if (segment_bytes(&plans[i]) > segment_bytes(&plans[longest]))
            longest = i;
    }
    *whole = plans[longest]; /* the largest segments determine the window */
    whole->first_stripe = 0;
    whole->bytes_before = 0;
    whole->stripes = stripes;
    return PCCL_OK;
}
