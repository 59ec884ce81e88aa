/*
 * The matrix of collectives: every collective with every data type and operator, in place and not, at every root, in
 * worlds of 2 to 17 peers and in groups of some of them, on every path: through the master, directly, along the ring,
 * in bulk, packed. Launched by functions, as structs, in lists and coalesced. One driver, and one reference
 * (tests/support/collectives_reference.h). Faults are in tests/e2e and tests/rig.
 */
#define PEERS 17
#include "api_world.h"
#include "support/collectives_reference.h"

#include <stdlib.h>

enum { GUARD = 16, LARGE = 20011, CELLS_MAX = 1200, FLIGHT = 64 };

/* The peers that carry out an operation, by rank. */
struct team {
    const char *name;
    pcclComm_t *comms[PEERS];
    uint32_t world;
    bool tiny; /* small payloads are sent through the master */
};

/* One peer's memory: two blocks, or one in place, each with its expected contents. */
struct side {
    uint8_t *blocks[2], *expected[2];
    size_t bytes[2];
    void *give, *get;
    pcclOperation_t operation;
    pcclCollectiveOptions_t options;
    pcclOperationInfo_t info;
    pcclPeerId_t participants[PEERS];
    pcclAsyncReduceOp_t handle;
};

struct cell {
    const struct team *team;
    const struct collective_row *row;
    const struct datatype *type;
    pcclRedOp_t op;
    size_t count, shares[PEERS]; /* shares: of a reduce-scatter, if has_shares */
    uint32_t root;
    unsigned shift; /* bytes by which buffers are out of line */
    bool in_place, has_shares, packed;
    uint64_t tag;
    struct side sides[PEERS];
};

static const pcclRedOp_t operators[] = {pcclSum, pcclAvg, pcclProd, pcclMax,      pcclMin,
                                        pcclAnd, pcclOr,  pcclXor,  pcclPremulSum};
enum { OPERATORS = sizeof operators / sizeof *operators };

static uint64_t last_tag;
static struct cell cells[CELLS_MAX];
static size_t cell_count;

static bool is_scan(const struct cell *cell)
{
    return cell->row->id == pcclCollectiveExclusiveScan || cell->row->id == pcclCollectiveInclusiveScan;
}

/* ---- inputs and expected results ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 29;
}

static double factor_of(const struct cell *cell, uint32_t rank)
{
    static const double factors[] = {0.5, 1, -2};
    return cell->op == pcclPremulSum ? factors[rank % 3] : 1;
}

/*
 * Products stay exact. The sums behind averages are too large for types of less than 32 bits, and other sums of these
 * have more bits than they: they are rounded once.
 */
static double real_given(const struct cell *cell, uint64_t draw)
{
    static const double powers[] = {1, 2, -0.5, -1};
    const int64_t range = INT64_C(1) << cell->type->bits;
    const double value = (double)((int64_t)(draw % (uint64_t)range) - range / 2);
    if (cell->packed)
        return (double)(draw % 2019) / 1009 - 1;
    if (cell->op == pcclProd)
        return powers[draw % (cell->team->world > 5 ? 1 : 4)];
    if (cell->op == pcclAvg && cell->type->exponent_bits <= 5)
        return ldexp(value, bias_of(cell->type) - (int)cell->type->bits + 1);
    return value == 0 ? 1 : value;
}

static union number given(const struct cell *cell, uint32_t rank, size_t at)
{
    const uint64_t draw = mix((cell->tag << 40) + ((uint64_t)rank << 32) + at);
    uint64_t bits = cell->type->family == REAL ? bits_of_real(cell->type, real_given(cell, draw)) : draw;
    if (cell->type->family == TRUTH)
        return (union number){.whole = draw % 3 * 3}; /* moved unchanged */
    return read_number(cell->type, &bits);
}

/* Returns the operand of the reduction: multiplied by the factor and rounded to the type; every byte but 0 is true. */
static union number contribution(const struct cell *cell, uint32_t rank, size_t at)
{
    union number number = given(cell, rank, at);
    if (cell->type->family == TRUTH)
        number.whole = number.whole != 0;
    if (cell->op == pcclPremulSum)
        number = scale_number(cell->type, number, factor_of(cell, rank));
    return number;
}

static size_t first_of_share(const struct cell *cell, uint32_t rank)
{
    size_t first = 0;
    for (uint32_t i = 0; i < rank; i++)
        first += cell->has_shares ? cell->shares[i] : cell->count;
    return first;
}

static union number result_of(const struct cell *cell, uint32_t rank, size_t at)
{
    union number numbers[PEERS];
    const struct source source =
        source_of(cell->row->id, cell->team->world, cell->root, cell->count, rank, first_of_share(cell, rank), at);
    for (uint32_t i = 0; i < source.ranks; i++)
        numbers[i] =
            cell->row->reduces ? contribution(cell, source.first + i, source.at) : given(cell, source.first, source.at);
    return cell->row->reduces ? reduce_numbers(cell->type, cell->op, numbers, source.ranks) : numbers[0];
}

static size_t elements_of(const struct cell *cell, uint32_t rank, bool gets)
{
    const size_t elements = elements_of_rank(cell->row, gets, cell->team->world, cell->root, cell->count, rank);
    return cell->has_shares ? (gets ? cell->shares[rank] : cell->count) : elements;
}

/* In place: the smaller buffer is the rank's part of the larger one, or both are one. */
static size_t offset_in_place(const struct cell *cell, uint32_t rank, bool gets)
{
    const enum size mine = gets ? cell->row->gets : cell->row->gives, other = gets ? cell->row->gives : cell->row->gets;
    return mine == ONE_PART && other == PART_FOR_EACH ? first_of_share(cell, rank) : 0;
}

static void *new_block(struct side *side, int index, size_t bytes)
{
    side->bytes[index] = bytes + GUARD;
    side->blocks[index] = malloc(side->bytes[index]);
    side->expected[index] = malloc(side->bytes[index]);
    assert_true(side->blocks[index] != NULL && side->expected[index] != NULL);
    memset(side->blocks[index], 0x5A + index, side->bytes[index]);
    return side->blocks[index];
}

static void make_buffers(struct cell *cell, uint32_t rank)
{
    struct side *side = &cell->sides[rank];
    const size_t width = cell->type->bytes, shift = cell->shift;
    const size_t gives = elements_of(cell, rank, false), gets = elements_of(cell, rank, true);
    const bool one = cell->row->id == pcclCollectiveBroadcast ||
                     (cell->in_place && gives > 0 && gets > 0 && cell->row->id != pcclCollectiveAllToAll);
    const size_t most = gives > gets ? gives : gets;
    uint8_t *give = NULL, *get = NULL;
    if (one) {
        give = get = (uint8_t *)new_block(side, 0, shift + most * width) + shift;
        give += offset_in_place(cell, rank, false) * width;
        get += offset_in_place(cell, rank, true) * width;
    } else {
        give = gives > 0 ? (uint8_t *)new_block(side, 0, shift + gives * width) + shift : NULL;
        get = gets > 0 ? (uint8_t *)new_block(side, 1, shift + gets * width) + shift : NULL;
    }
    for (size_t i = 0; i < gives; i++) {
        const union number number = given(cell, rank, i);
        write_number(cell->type, number, give + i * width);
    }
    side->give = cell->row->id == pcclCollectiveBroadcast ? NULL : give;
    side->get = get;
    for (int k = 0; k < 2; k++)
        if (side->blocks[k] != NULL)
            memcpy(side->expected[k], side->blocks[k], side->bytes[k]);
    uint8_t *expected = gets == 0 ? NULL
                        : one     ? side->expected[0] + (get - side->blocks[0])
                                  : side->expected[1] + shift;
    for (size_t i = 0; i < gets; i++)
        write_number(cell->type, result_of(cell, rank, i), expected + i * width);
}

/* ---- launches ---- */

static void blame(const struct cell *cell, uint32_t rank, const char *what)
{
    cell_count = 0; /* for the next test */
    fail_msg(
        "%s: %s of %zu elements of type %d, operator %d, root %u, tag %u%s%s%s, shifted by %u, at rank %u of %u: %s",
        cell->team->name, cell->row->name, cell->count, (int)cell->type->id, (int)cell->op, cell->root,
        (unsigned)cell->tag, cell->in_place ? ", in place" : "", cell->has_shares ? ", with counts" : "",
        cell->packed ? ", packed" : "", cell->shift, rank, cell->team->world, what);
}

static void make_operation(struct cell *cell, uint32_t rank)
{
    struct side *side = &cell->sides[rank];
    side->options = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    side->options.tag = cell->tag;
    side->options.factor = factor_of(cell, rank);
    side->options.alone_ok = cell->team->world == 1;
    if (cell->has_shares) {
        side->options.counts = cell->shares;
        side->options.counts_length = cell->team->world;
    }
    if (cell->packed)
        side->options.quantization =
            (pcclQuantizationOptions_t){pcclUint8, cell->tag % 2 ? pcclQuantMinMax : pcclQuantZeroPointScale};
    side->info = (pcclOperationInfo_t)PCCL_OPERATION_INFO_INIT;
    side->info.participants = side->participants;
    side->info.participants_max = PEERS;
    side->operation = (pcclOperation_t)PCCL_OPERATION_INIT;
    side->operation.collective = cell->row->id;
    side->operation.sendbuf = side->give;
    side->operation.recvbuf = side->get;
    side->operation.count = cell->count;
    side->operation.datatype = cell->type->id;
    side->operation.op = cell->op;
    side->operation.root = cell->root;
    side->operation.options = &side->options;
}

/* Launches with the function of the collective, or with its PCCL 1.0 function if that has all arguments. */
static pcclResult_t launch_by_function(const pcclOperation_t *o, const pcclComm_t *comm, pcclAsyncReduceOp_t *handle)
{
    const pcclReduceDescriptor_t descriptor = {.count = o->count,
                                               .op = o->op,
                                               .tag = o->options->tag,
                                               .src_descriptor = {.datatype = o->datatype},
                                               .quantization_options = o->options->quantization};
    switch (o->collective) {
    case pcclCollectiveAllReduce:
        if (o->op != pcclPremulSum && !o->options->alone_ok)
            return pcclAllReduceAsync(o->sendbuf, o->recvbuf, &descriptor, (pcclComm_t *)(uintptr_t)comm, handle);
        return pcclAllReduceWithOptionsAsync(o->sendbuf, o->recvbuf, o->count, o->datatype, o->op, o->options, comm,
                                             handle);
    case pcclCollectiveBroadcast:
        return pcclBroadcastAsync(o->recvbuf, o->count, o->datatype, o->root, o->options, comm, handle);
    case pcclCollectiveAllGather:
        return pcclAllGatherAsync(o->sendbuf, o->recvbuf, o->count, o->datatype, o->options, comm, handle);
    case pcclCollectiveReduceScatter:
        return pcclReduceScatterAsync(o->sendbuf, o->recvbuf, o->count, o->datatype, o->op, o->options, comm, handle);
    case pcclCollectiveReduce:
        return pcclReduceAsync(o->sendbuf, o->recvbuf, o->count, o->datatype, o->op, o->root, o->options, comm, handle);
    case pcclCollectiveGather:
        return pcclGatherAsync(o->sendbuf, o->recvbuf, o->count, o->datatype, o->root, o->options, comm, handle);
    case pcclCollectiveScatter:
        return pcclScatterAsync(o->sendbuf, o->recvbuf, o->count, o->datatype, o->root, o->options, comm, handle);
    case pcclCollectiveAllToAll:
        return pcclAllToAllAsync(o->sendbuf, o->recvbuf, o->count, o->datatype, o->options, comm, handle);
    case pcclCollectiveExclusiveScan:
        return pcclExclusiveScanAsync(o->sendbuf, o->recvbuf, o->count, o->datatype, o->op, o->options, comm, handle);
    case pcclCollectiveInclusiveScan:
        return pcclInclusiveScanAsync(o->sendbuf, o->recvbuf, o->count, o->datatype, o->op, o->options, comm, handle);
    default: return pcclBarrierAsync(o->options, comm, handle);
    }
}

/* Functions and structs launch the same operation. Nothing of a struct is read after its launch. */
static void launch(struct cell *cell, uint32_t rank)
{
    struct side *side = &cell->sides[rank];
    const pcclComm_t *comm = cell->team->comms[rank];
    const bool by_function = (rank + cell->tag / 2) % 2 == 0;
    if ((by_function ? launch_by_function : pcclStart)(&side->operation, comm, &side->handle) != pcclSuccess)
        blame(cell, rank, pcclGetLastError(comm));
    if (!by_function)
        memset(&side->operation, 0xff, sizeof side->operation);
    memset(&side->options, 0xff, sizeof side->options);
}

/* ---- checks ---- */

/* Tags are used once, so an operation is the first of its tag; ranks are the places in the team. */
static void check_info(const struct cell *cell, uint32_t rank)
{
    const pcclOperationInfo_t *info = &cell->sides[rank].info;
    if (info->size != sizeof *info || info->tag != cell->tag || info->sequence != 0 || info->rank != rank ||
        info->world != cell->team->world)
        blame(cell, rank, "wrong info");
    for (uint32_t i = 0; i < cell->team->world; i++) {
        char id[PCCL_PEER_ID_SIZE];
        assert_int_equal(pcclGetPeerId(cell->team->comms[i], id, sizeof id), pcclSuccess);
        if (strcmp(info->participants[i].digits, id) != 0)
            blame(cell, rank, "wrong participants");
    }
}

static void check_exactly(const struct cell *cell, uint32_t rank)
{
    const struct side *side = &cell->sides[rank];
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; side->blocks[k] != NULL && i < side->bytes[k]; i++)
            if (side->blocks[k][i] != side->expected[k][i]) {
                char words[100];
                (void)snprintf(words, sizeof words, "byte %zu of %zu of the %s buffer is %02x, not %02x", i,
                               side->bytes[k], k == 0 ? "first" : "second", side->blocks[k][i], side->expected[k][i]);
                blame(cell, rank, words);
            }
}

/* Results must be near the exact ones, with equal bits where all peers get the same, and the input unchanged. */
static void check_packed(const struct cell *cell, uint32_t rank)
{
    const struct side *side = &cell->sides[rank];
    const bool one = side->blocks[1] == NULL;
    const size_t gets = elements_of(cell, rank, true);
    const bool for_all = cell->row->id == pcclCollectiveAllReduce || cell->row->id == pcclCollectiveBroadcast ||
                         cell->row->id == pcclCollectiveAllGather;
    const uint8_t *expected = gets == 0 ? NULL
                              : one     ? side->expected[0] + ((uint8_t *)side->get - side->blocks[0])
                                        : side->expected[1] + cell->shift;
    for (size_t i = 0; i < gets; i++) {
        float found, exact;
        memcpy(&found, (uint8_t *)side->get + i * sizeof found, sizeof found);
        memcpy(&exact, expected + i * sizeof exact, sizeof exact);
        if (!(fabsf(found - exact) < (cell->row->reduces ? 0.01f * (float)(cell->team->world + 1) : 0.005f)))
            blame(cell, rank, "far from the exact result");
    }
    if (for_all && memcmp(side->get, cell->sides[0].get, gets * sizeof(float)) != 0)
        blame(cell, rank, "not the bits of rank 0");
    if (!one && side->blocks[0] != NULL && memcmp(side->blocks[0], side->expected[0], side->bytes[0]) != 0)
        blame(cell, rank, "its input has changed");
}

/* All that is sent arrives; an all-reduce from peer to peer moves each element twice, or as float32 while it is summed.
 */
static void check_bytes(const struct cell *cell)
{
    uint64_t sent = 0, received = 0;
    for (uint32_t rank = 0; rank < cell->team->world; rank++) {
        sent += cell->sides[rank].info.tx_bytes;
        received += cell->sides[rank].info.rx_bytes;
    }
    const uint64_t bytes = cell->count * cell->type->bytes, least = 2 * (uint64_t)(cell->team->world - 1) * bytes;
    if (cell->row->id != pcclCollectiveAllReduce || (cell->team->tiny && bytes <= 8192))
        return;
    const uint64_t wider = cell->type->family == REAL && cell->type->bytes < 4 ? 4 / cell->type->bytes : 1;
    if (sent != received || (cell->packed ? sent > least / 3 : sent < least || sent > wider * least))
        blame(cell, 0, "wrong number of bytes");
}

static void check_buffers(struct cell *cell)
{
    for (uint32_t rank = 0; rank < cell->team->world; rank++)
        (cell->packed ? check_packed : check_exactly)(cell, rank);
    for (uint32_t rank = 0; rank < cell->team->world; rank++)
        for (int k = 0; k < 2; k++) {
            free(cell->sides[rank].blocks[k]);
            free(cell->sides[rank].expected[k]);
        }
}

static void check(struct cell *cell)
{
    for (uint32_t rank = 0; rank < cell->team->world; rank++)
        check_info(cell, rank);
    check_bytes(cell);
    check_buffers(cell);
}

static void begin(struct cell *cell)
{
    memset(cell->sides, 0, sizeof cell->sides);
    cell->tag = ++last_tag;
    for (uint32_t rank = 0; rank < cell->team->world; rank++) {
        make_buffers(cell, rank);
        make_operation(cell, rank);
    }
}

/* ---- the table ---- */

static void add_cell(struct cell cell)
{
    assert_true(cell_count < CELLS_MAX);
    cells[cell_count++] = cell;
}

/* Adds the cells of a row and a type: every operator or, across all calls, every `one_of`-th cell. */
static void add_cells(const struct team *team, const struct collective_row *row, const struct datatype *type,
                      const size_t *counts, size_t counts_length, unsigned one_of)
{
    static unsigned drawn;
    const unsigned variants = row->reduces ? OPERATORS : 2;
    for (unsigned i = 0; i < variants; i++) {
        struct cell cell = {.team = team, .row = row, .type = type, .op = row->reduces ? operators[i] : pcclSum};
        if (row->gives == NOTHING && type != datatypes)
            continue;
        if (row->reduces && (!fits(type, cell.op) || (is_scan(&cell) && cell.op == pcclAvg)))
            continue;
        if (drawn++ % one_of != 0)
            continue;
        const uint64_t draw = mix(drawn);
        cell.count = row->gives == NOTHING ? 0 : counts[draw % counts_length];
        cell.root = (uint32_t)(draw >> 8) % team->world;
        cell.shift = draw >> 16 & 3;
        cell.in_place = row->reduces ? (draw >> 20 & 1) : i % 2;
        add_cell(cell);
    }
}

static void add_table(const struct team *team, const size_t *counts, size_t counts_length, unsigned one_of)
{
    for (size_t r = 0; r < COLLECTIVES; r++)
        for (size_t t = 0; t < DATATYPES; t++)
            add_cells(team, &collective_rows[r], &datatypes[t], counts, counts_length, one_of);
}

/* Shares of given lengths, also empty shares, which one peer passes as NULL. */
static void add_shares(const struct team *team)
{
    static const size_t given_shares[][3] = {{2, 0, 5}, {0, 0, 1}, {LARGE, 0, 7}, {0, 3 * LARGE, 0}, {1, LARGE, 2}};
    for (size_t i = 0; i < 10; i++) {
        struct cell cell = {.team = team,
                            .row = row_of(pcclCollectiveReduceScatter),
                            .type = &datatypes[i],
                            .op = i % 2 ? pcclSum : pcclMax,
                            .in_place = i >= 5,
                            .has_shares = true};
        for (uint32_t rank = 0; rank < team->world; rank++) {
            cell.shares[rank] = given_shares[i % 5][(rank + (team->world == 2)) % 3];
            cell.count += cell.shares[rank];
        }
        add_cell(cell);
    }
}

static void add_packed(const struct team *team)
{
    static const pcclRedOp_t ops[] = {pcclSum, pcclAvg, pcclPremulSum};
    for (size_t i = 0; i < 3 * COLLECTIVES; i++) {
        struct cell cell = {.team = team,
                            .row = &collective_rows[i % COLLECTIVES],
                            .type = &datatypes[10],
                            .op = collective_rows[i % COLLECTIVES].reduces ? ops[i / COLLECTIVES] : pcclSum,
                            .count = LARGE,
                            .root = (uint32_t)i % team->world,
                            .in_place = (i / COLLECTIVES + team->world) % 2 != 0,
                            .packed = true};
        if (cell.row->has_codec)
            add_cell(cell);
    }
}

/* Runs up to FLIGHT cells at once; peers launch and await them in different orders. */
static void run_table(void)
{
    for (size_t first = 0; first < cell_count; first += FLIGHT) {
        const size_t last = first + FLIGHT < cell_count ? first + FLIGHT : cell_count;
        for (size_t i = first; i < last; i++)
            begin(&cells[i]);
        for (uint32_t rank = 0; rank < cells[first].team->world; rank++)
            for (size_t i = first; i < last; i++)
                launch(&cells[rank % 2 ? first + last - 1 - i : i], rank);
        for (uint32_t rank = 0; rank < cells[first].team->world; rank++)
            for (size_t i = first; i < last; i++) {
                struct cell *cell = &cells[rank % 3 ? i : first + last - 1 - i];
                struct side *side = &cell->sides[rank];
                if (pcclAwaitOperation(&side->handle, UINT32_MAX, &side->info) != pcclSuccess)
                    blame(cell, rank, pcclGetLastError(cell->team->comms[rank]));
            }
        for (size_t i = first; i < last; i++)
            check(&cells[i]);
    }
    cell_count = 0;
}

/* ---- lists, and tensors of one operation ---- */

struct member {
    uint32_t rank;
    bool coalesced;
    pcclResult_t result;
};

static void run_member(void *argument)
{
    struct member *member = argument;
    static pcclOperation_t entries[PEERS][CELLS_MAX];
    static pcclCoalescedTensor_t tensors[PEERS][CELLS_MAX];
    const pcclComm_t *comm = cells[0].team->comms[member->rank];
    double factor = 1; /* of all tensors */
    for (size_t i = 0; i < cell_count; i++) {
        struct side *side = &cells[i].sides[member->rank];
        factor = cells[i].op == pcclPremulSum ? factor_of(&cells[i], member->rank) : factor;
        entries[member->rank][i] = side->operation;
        entries[member->rank][i].info = &side->info;
        tensors[member->rank][i] =
            (pcclCoalescedTensor_t){side->give, side->get, cells[i].count, cells[i].type->id, cells[i].op};
    }
    struct side *first = &cells[0].sides[member->rank];
    if (member->coalesced) {
        first->options.factor = factor;
        first->operation = (pcclOperation_t)PCCL_OPERATION_INIT;
        first->operation.collective = pcclCollectiveCoalesced;
        first->operation.sendbuf = tensors[member->rank];
        first->operation.count = cell_count;
        first->operation.options = &first->options;
        member->result = member->rank % 2 ? pcclPerform(&first->operation, comm, &first->info)
                                          : pcclAllReduceCoalesced(tensors[member->rank], cell_count, &first->options,
                                                                   comm, &first->info);
    } else {
        member->result = pcclRunOperations(entries[member->rank], cell_count, NULL, comm);
    }
}

static void run_at_once(bool coalesced)
{
    const struct team *team = cells[0].team;
    struct member members[PEERS];
    uv_thread_t threads[PEERS];
    for (size_t i = 0; i < cell_count; i++)
        begin(&cells[i]);
    for (uint32_t rank = 0; rank < team->world; rank++) {
        members[rank] = (struct member){.rank = rank, .coalesced = coalesced};
        assert_int_equal(uv_thread_create(&threads[rank], run_member, &members[rank]), 0);
    }
    for (uint32_t rank = 0; rank < team->world; rank++) {
        assert_int_equal(uv_thread_join(&threads[rank]), 0);
        if (members[rank].result != pcclSuccess)
            blame(&cells[0], rank, pcclGetErrorString(members[rank].result));
    }
    for (uint32_t rank = 0; coalesced && rank < team->world; rank++)
        check_info(&cells[0], rank); /* of all */
    for (size_t i = 0; i < cell_count; i++)
        (coalesced ? check_buffers : check)(&cells[i]);
    cell_count = 0;
}

/* ---- worlds ---- */

static const size_t small[] = {1, 2, 5, 33, 128};
static const size_t large[] = {8193, 9001, LARGE};
enum { SMALL_COUNTS = sizeof small / sizeof *small, LARGE_COUNTS = sizeof large / sizeof *large };

static struct team team_of_all(const struct world *world, const char *name, bool tiny)
{
    struct team team = {.name = name, .world = (uint32_t)world->count, .tiny = tiny};
    memcpy(team.comms, world->peers, sizeof team.comms);
    return team;
}

static void grow(struct world *world, int count)
{
    while (world->count < count)
        join(world, "0");
}

static int start_tiny(void **state) { return start_world(state, 1, "8192"); }
static int start_direct(void **state) { return start_world(state, 2, "0"); }

static int start_ring(void **state)
{
    assert_int_equal(setenv("PCCL_HUB_LINKS", "0", 1), 0);
    const int result = start_world(state, PEERS, "0");
    assert_int_equal(unsetenv("PCCL_HUB_LINKS"), 0);
    return result;
}

static void in_bulk(const struct world *world)
{
    const struct team team = team_of_all(world, "in bulk", true);
    add_table(&team, large, LARGE_COUNTS, 7);
    add_shares(&team);
    add_packed(&team);
    add_cell((struct cell){.team = &team,
                           .row = row_of(pcclCollectiveAllReduce),
                           .type = &datatypes[6],
                           .op = pcclSum,
                           .count = (3 << 19) + 5, /* more than may be on its way at once */
                           .in_place = team.world == 2,
                           .shift = team.world == 3});
    run_table();
}

GROUP(start_tiny, end_world)

/* The world grows: alone, along the ring of two, and directly. */
WORLD_TEST(through_the_master_and_in_bulk)
{
    static const int worlds[] = {1, 2, 3, 5};
    for (int i = 0; i < 4; i++) {
        grow(world, worlds[i]);
        const struct team team = team_of_all(world, "through the master", true);
        add_table(&team, small, SMALL_COUNTS, 1);
        run_table();
        if (worlds[i] == 2 || worlds[i] == 3)
            in_bulk(world);
    }
}

/* In lists, each entry is an operation; coalesced, all are one. */
WORLD_TEST(at_once)
{
    for (int tiny = 0; tiny < 2; tiny++) {
        const struct team team = team_of_all(world, "in a list", tiny);
        add_table(&team, tiny ? small : large, tiny ? (size_t)SMALL_COUNTS : LARGE_COUNTS, tiny ? 5 : 17);
        run_at_once(false);
    }
    for (int tiny = 0; tiny < 2; tiny++) {
        const struct team team = team_of_all(world, "coalesced", tiny);
        for (size_t t = 0; t < DATATYPES; t++)
            add_cells(&team, row_of(pcclCollectiveAllReduce), &datatypes[t], tiny ? small : large,
                      tiny ? (size_t)SMALL_COUNTS : LARGE_COUNTS, tiny ? 1 : 5);
        run_at_once(true);
    }
}

/* ---- groups ---- */

struct founding {
    const pcclComm_t *comm;
    pcclComm_t *group;
    const pcclPeerId_t *ids;
    uint32_t count;
    pcclResult_t result;
};

static void found(void *argument)
{
    struct founding *founding = argument;
    founding->result = pcclCreateGroup(founding->comm, founding->ids, founding->count, NULL, &founding->group);
}

/* A group of three of five, whose ranks in the group differ from those in the run, for any order of the list. */
WORLD_TEST(in_a_group)
{
    static const int places[] = {1, 2, 4}; /* in the order of their ranks */
    pcclPeerId_t ids[3];
    struct founding foundings[3];
    uv_thread_t threads[3];
    struct team team = {.name = "in a group", .world = 3, .tiny = true};
    for (int i = 0; i < 3; i++)
        assert_int_equal(pcclGetPeerId(world->peers[places[i]], ids[2 - i].digits, sizeof ids->digits), pcclSuccess);
    for (int i = 0; i < 3; i++) {
        foundings[i] = (struct founding){.comm = world->peers[places[i]], .ids = ids, .count = 3};
        assert_int_equal(uv_thread_create(&threads[i], found, &foundings[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(foundings[i].result, pcclSuccess);
        team.comms[i] = foundings[i].group;
    }
    add_table(&team, small, SMALL_COUNTS, 3);
    run_table();
    add_table(&team, large, LARGE_COUNTS, 11);
    run_table();
    for (int i = 0; i < 3; i++)
        assert_int_equal(pcclDestroyCommunicator(foundings[i].group), pcclSuccess);
}

GROUP(start_direct, end_world)

WORLD_TEST(from_peer_to_peer)
{
    for (int count = 2; count <= 5; count += 1 + count / 3) {
        grow(world, count);
        const struct team team = team_of_all(world, "from peer to peer", false);
        add_table(&team, small, SMALL_COUNTS, 1);
        run_table();
    }
}

GROUP(start_ring, end_world)

WORLD_TEST(along_a_ring_of_many)
{
    static const size_t counts[] = {1, 40, 700};
    const struct team team = team_of_all(world, "along the ring", false);
    add_table(&team, counts, 3, 11);
    run_table();
}
