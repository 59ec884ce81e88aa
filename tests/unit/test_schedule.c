/*
 * Schedules alone, without the engine: all ranks run one group of pieces in memory. A piece is a text of the ranks that
 * have been folded into it, so the order shows; messages are delivered in any order.
 */
#include "unit.h"
#include "collective/schedule.h"
#include "core/prng.h"
#include "unit/support.h"

#include <string.h>

HANDLE_ASSERTS

enum { RANKS_MOST = 17, STEPS_MOST = 2 * RANKS_MOST, MESSAGES_MOST = 4096 };

/* Purpose of a schedule. */
enum goal { REDUCE, GATHER, SCATTER, EXCHANGE, BROADCAST, REDUCE_TO_ROOT, GATHER_TO_ROOT, SCATTER_FROM_ROOT, SCAN };
static const enum goal goals[PCCL_ALGORITHMS] = {
    [PCCL_RING] = REDUCE,
    [PCCL_DIRECT] = REDUCE,
    [PCCL_CHAIN] = BROADCAST,
    [PCCL_SPREAD] = BROADCAST,
    [PCCL_STAR] = BROADCAST,
    [PCCL_GATHER_RING] = GATHER,
    [PCCL_GATHER_DIRECT] = GATHER,
    [PCCL_SCATTER_RING] = SCATTER,
    [PCCL_SCATTER_DIRECT] = SCATTER,
    [PCCL_REDUCE_CHAIN] = REDUCE_TO_ROOT,
    [PCCL_REDUCE_DIRECT] = REDUCE_TO_ROOT,
    [PCCL_TO_ROOT_CHAIN] = GATHER_TO_ROOT,
    [PCCL_TO_ROOT_DIRECT] = GATHER_TO_ROOT,
    [PCCL_FROM_ROOT_CHAIN] = SCATTER_FROM_ROOT,
    [PCCL_FROM_ROOT_DIRECT] = SCATTER_FROM_ROOT,
    [PCCL_EXCHANGE_RING] = EXCHANGE,
    [PCCL_EXCHANGE_DIRECT] = EXCHANGE,
    [PCCL_SCAN_RING] = SCAN,
    [PCCL_SCAN_DIRECT] = SCAN,
};

struct parts {
    uint8_t ranks[RANKS_MOST];
    uint32_t count;
};

struct message {
    uint32_t sender, receiver, step, piece;
    struct parts parts;
};

struct seat {
    struct parts collected[RANKS_MOST]; /* by sender */
    uint32_t collected_count;
    bool sent[RANKS_MOST][STEPS_MOST]; /* by receiver */
    bool received[RANKS_MOST][STEPS_MOST];
};

struct group {
    const struct pccl_schedule *schedule;
    enum goal goal;
    uint32_t ranks, root, turn, pieces; /* that are not empty */
    uint32_t positions[RANKS_MOST];     /* in which a scan folds */
    struct pccl_line lines[RANKS_MOST];
    struct seat seats[RANKS_MOST];
    struct parts results[RANKS_MOST][RANKS_MOST]; /* by rank and piece, of all turns */
    struct message messages[MESSAGES_MOST];
    uint32_t message_count, sent_count;
};

static bool is_scan(const struct pccl_schedule *schedule)
{
    return schedule == &pccl_scan_ring || schedule == &pccl_scan_direct;
}

static struct pccl_seat seat_of(const struct group *group, uint32_t rank)
{
    struct pccl_seat seat = {.ranks = group->ranks, .rank = rank};
    if (is_scan(group->schedule)) {
        seat.line = &group->lines[rank];
    } else {
        seat.root = group->root;
        seat.turn = group->turn;
    }
    return seat;
}

static uint32_t piece_of(const struct group *group, uint32_t sender, uint32_t receiver, uint32_t step)
{
    const struct pccl_seat seat = seat_of(group, sender);
    if (sender == receiver || !group->schedule->sends(seat, sender, receiver))
        return PCCL_NO_PIECE;
    return group->schedule->piece(seat, sender, receiver, step);
}

static void send_message(struct group *group, uint32_t sender, uint32_t receiver, uint32_t step,
                         const struct parts *parts, uint32_t piece)
{
    assert_true(group->message_count < MESSAGES_MOST);
    assert_false(group->seats[sender].sent[receiver][step]);
    group->seats[sender].sent[receiver][step] = true;
    group->sent_count++;
    group->messages[group->message_count++] = (struct message){sender, receiver, step, piece, *parts};
}

static void set_result(struct group *group, uint32_t rank, uint32_t piece, const struct parts *parts)
{
    uint32_t places = pccl_exchange_places(seat_of(group, rank));
    assert_true(group->goal != EXCHANGE || rank == (piece + places) % group->ranks);
    assert_int_equal(group->results[rank][piece].count, 0);
    group->results[rank][piece] = *parts;
}

/* Sets the parts that each rank has, and those that it sends without a trigger. */
static void begin(struct group *group)
{
    const struct pccl_schedule *schedule = group->schedule;
    for (uint32_t rank = 0; rank < group->ranks; rank++) {
        struct parts own = {{(uint8_t)rank}, 1};
        for (uint32_t piece = 0; piece < group->pieces; piece++)
            if (schedule->keeps != NULL && schedule->keeps(seat_of(group, rank), piece))
                set_result(group, rank, piece, &own);
        for (uint32_t receiver = 0; receiver < group->ranks; receiver++) {
            uint32_t piece = piece_of(group, rank, receiver, 0);
            if (piece < group->pieces)
                send_message(group, rank, receiver, 0, &own, piece);
        }
    }
}

static void add_parts(struct parts *sum, const struct parts *parts)
{
    assert_true(sum->count + parts->count <= RANKS_MOST);
    memcpy(sum->ranks + sum->count, parts->ranks, parts->count);
    sum->count += parts->count;
}

/* Returns the parts of all ranks, in the order of the ring. */
static struct parts all_from(const struct group *group, uint32_t first)
{
    struct parts parts = {.count = group->ranks};
    for (uint32_t i = 0; i < group->ranks; i++)
        parts.ranks[i] = (uint8_t)((first + i) % group->ranks);
    return parts;
}

/* Returns all ranks up to this one, in the order of the scan. */
static struct parts all_up_to(const struct group *group, uint32_t rank)
{
    struct parts parts = {.count = group->positions[rank] + 1};
    for (uint32_t i = 0; i < group->ranks; i++)
        if (group->positions[i] < parts.count)
            parts.ranks[group->positions[i]] = (uint8_t)i;
    return parts;
}

/* Returns the parts that the rank's result of the piece must have; no part if it has no result. */
static struct parts expected_at(const struct group *group, uint32_t rank, uint32_t piece)
{
    const struct parts none = {.count = 0};
    switch (group->goal) {
    case REDUCE: return all_from(group, piece);
    case BROADCAST: return (struct parts){{(uint8_t)group->root}, 1};
    case GATHER:
    case EXCHANGE: return (struct parts){{(uint8_t)piece}, 1};
    case SCATTER: return rank == piece ? all_from(group, rank + 1) : none;
    case REDUCE_TO_ROOT: return rank == group->root ? all_from(group, rank + 1) : none;
    case SCAN: return all_up_to(group, rank);
    case GATHER_TO_ROOT: return rank == group->root ? (struct parts){{(uint8_t)piece}, 1} : none;
    default: return rank == piece ? (struct parts){{(uint8_t)group->root}, 1} : none;
    }
}

static bool holds(const struct parts *parts, uint32_t rank)
{
    return memchr(parts->ranks, (int)rank, parts->count) != NULL;
}

/* Number of ranks that send a part that is not empty to this one in step 0. */
static uint32_t parts_expected(const struct group *group, uint32_t rank)
{
    uint32_t count = 0;
    for (uint32_t other = 0; other < group->ranks; other++)
        count += piece_of(group, other, rank, 0) < group->pieces;
    return count;
}

/* Returns true if the work is done; *parts then has the content of the piece. */
static bool do_work(struct group *group, const struct message *message, enum pccl_work work, struct parts *parts)
{
    uint32_t rank = message->receiver;
    struct seat *seat = &group->seats[rank];
    struct parts own = {{(uint8_t)rank}, 1};
    *parts = message->parts;
    if (work == PCCL_WORK_FOLD || work == PCCL_WORK_FINISH || work == PCCL_WORK_SCAN)
        add_parts(parts, &own);
    if (work != PCCL_WORK_COLLECT)
        return true;
    assert_int_equal(message->step, 0);
    seat->collected[message->sender] = message->parts;
    if (++seat->collected_count < parts_expected(group, rank))
        return false;
    parts->count = 0;
    for (uint32_t i = 1; i < group->ranks; i++)
        add_parts(parts, &seat->collected[(rank + i) % group->ranks]);
    add_parts(parts, &own);
    return true;
}

static void deliver(struct group *group, const struct message *message)
{
    const struct pccl_schedule *schedule = group->schedule;
    uint32_t rank = message->receiver;
    struct pccl_seat seat = seat_of(group, rank);
    struct seat *receiver = &group->seats[rank];
    struct parts parts;
    assert_int_equal(message->piece, piece_of(group, message->sender, rank, message->step));
    assert_false(receiver->received[message->sender][message->step]);
    receiver->received[message->sender][message->step] = true;
    enum pccl_content content = schedule->carries(seat, message->step);
    struct pccl_task task = schedule->arrived(seat, message->step);
    assert_true((content == PCCL_CONTENT_RESULT) == (task.work == PCCL_WORK_STORE));
    assert_true(content != PCCL_CONTENT_PART || message->parts.count == 1);
    if (content == PCCL_CONTENT_RESULT && schedule->spent == NULL)
        assert_false(holds(&message->parts, rank));
    if (content == PCCL_CONTENT_RESULT && schedule->spent != NULL) {
        struct pccl_sending spent = schedule->spent(seat, message->piece);
        assert_true(receiver->sent[spent.to][spent.step]);
    }
    if (!do_work(group, message, task.work, &parts))
        return;
    if (task.work != PCCL_WORK_FOLD && task.work != PCCL_WORK_PASS)
        set_result(group, rank, message->piece, &parts);
    for (uint32_t to = task.to, left = task.to_count; left > 0; to = pccl_seat_next(seat, to)) {
        assert_int_not_equal(to, rank);
        if (!schedule->sends(seat, rank, to)) {
            assert_int_not_equal(to, task.to);
            continue;
        }
        assert_int_equal(piece_of(group, rank, to, task.step), message->piece);
        send_message(group, rank, to, task.step, &parts, message->piece);
        left--;
    }
}

static void check_sent(const struct group *group)
{
    uint32_t expected = 0;
    for (uint32_t sender = 0; sender < group->ranks; sender++)
        for (uint32_t receiver = 0; receiver < group->ranks; receiver++)
            for (uint32_t step = 0; step < group->schedule->steps(seat_of(group, 0)); step++)
                expected += piece_of(group, sender, receiver, step) < group->pieces;
    assert_int_equal(group->sent_count, expected);
}

static void check_results(const struct group *group)
{
    for (uint32_t rank = 0; rank < group->ranks; rank++)
        for (uint32_t piece = 0; piece < group->pieces; piece++) {
            const struct parts result = group->results[rank][piece];
            const struct parts right = expected_at(group, rank, piece);
            assert_int_equal(result.count, right.count);
            assert_memory_equal(result.ranks, right.ranks, right.count);
        }
}

static uint32_t turns_of(const struct pccl_schedule *schedule, struct pccl_seat seat)
{
    return schedule->turns != NULL ? schedule->turns(seat) : 1;
}

static void run(unsigned algorithm, struct pccl_seat seat, uint32_t pieces, struct pccl_prng *prng)
{
    static struct group group;
    memset(&group, 0, sizeof group);
    group.schedule = pccl_schedules[algorithm];
    group.goal = goals[algorithm];
    group.ranks = seat.ranks;
    group.root = seat.root;
    group.pieces = pieces;
    for (uint32_t i = 0; i < seat.ranks; i++) {
        const uint32_t other = (uint32_t)pccl_prng_below(prng, i + 1);
        group.positions[i] = group.positions[other];
        group.positions[other] = i;
    }
    for (uint32_t i = 0; i < seat.ranks; i++)
        group.lines[i] = pccl_line_make(seat.ranks, i, group.positions);
    for (; group.turn < turns_of(group.schedule, seat); group.turn++) {
        memset(group.seats, 0, sizeof group.seats);
        group.sent_count = 0;
        begin(&group);
        while (group.message_count > 0) {
            uint32_t i = (uint32_t)pccl_prng_below(prng, group.message_count);
            struct message message = group.messages[i];
            group.messages[i] = group.messages[--group.message_count];
            deliver(&group, &message);
        }
        check_sent(&group);
    }
    check_results(&group);
}

/* All results arrive, folded in one order, in any order of arrival, and nothing is left over. */
TEST(everybody_gets_every_result)
{
    struct pccl_prng prng = unit_prng(1);
    for (unsigned algorithm = 0; algorithm < PCCL_ALGORITHMS; algorithm++)
        for (struct pccl_seat seat = {.ranks = 2}; seat.ranks <= RANKS_MOST; seat.ranks++)
            for (seat.root = 0; seat.root < (goals[algorithm] >= BROADCAST ? seat.ranks : 1); seat.root++) {
                uint32_t pieces = pccl_schedules[algorithm]->pieces(seat);
                for (uint32_t filled = 1; filled <= pieces; filled++)
                    run(algorithm, seat, filled, &prng);
            }
}

/* Returns the same seat; in a scan, with the line as its ring. */
static struct pccl_seat in_line(const struct pccl_schedule *schedule, struct pccl_seat seat)
{
    static struct pccl_line line;
    uint32_t positions[RANKS_MOST];
    for (uint32_t i = 0; i < seat.ranks; i++)
        positions[i] = i;
    line = pccl_line_make(seat.ranks, seat.rank, positions);
    if (is_scan(schedule))
        seat.line = &line;
    return seat;
}

/* Rules that the engine depends on (schedule.h). */
TEST(sums_travel_in_step_one_if_at_all)
{
    for (unsigned algorithm = 0; algorithm < PCCL_ALGORITHMS; algorithm++)
        for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks++) {
            const struct pccl_schedule *schedule = pccl_schedules[algorithm];
            const struct pccl_seat seat = in_line(schedule, (struct pccl_seat){.ranks = ranks});
            bool travel = false;
            for (uint32_t step = 0; step < schedule->steps(seat); step++)
                travel = travel || schedule->carries(seat, step) == PCCL_CONTENT_SUM;
            assert_int_equal(schedule->carries(seat, 1) == PCCL_CONTENT_SUM, travel);
            assert_int_equal(schedule->carries(seat, 0) == PCCL_CONTENT_SUM, goals[algorithm] == SCAN);
        }
}

static bool is_sent(const struct pccl_schedule *schedule, struct pccl_seat seat, uint32_t piece, uint32_t step)
{
    for (uint32_t to = 0; to < seat.ranks; to++)
        if (schedule->sends(seat, seat.rank, to) && schedule->piece(seat, seat.rank, to, step) == piece)
            return true;
    return false;
}

static void check_kept(const struct pccl_schedule *schedule, struct pccl_seat seat)
{
    for (uint32_t piece = 0; piece < schedule->pieces(seat); piece++) {
        if (!schedule->keeps(seat, piece))
            continue;
        assert_int_equal(is_sent(schedule, seat, piece, 0), !schedule->keeps_unsent);
        for (uint32_t step = 1; step < schedule->steps(seat); step++)
            assert_false(is_sent(schedule, seat, piece, step));
        assert_int_not_equal(schedule->arrived(seat, 0).work, PCCL_WORK_COLLECT);
    }
}

/* So that a packed part that is sent can make the result here, too. */
TEST(what_is_kept_is_sent_at_once_or_never)
{
    for (unsigned algorithm = 0; algorithm < PCCL_ALGORITHMS; algorithm++)
        for (struct pccl_seat seat = {.ranks = 2}; seat.ranks <= RANKS_MOST; seat.ranks++)
            for (seat.rank = 0; seat.rank < seat.ranks; seat.rank++)
                for (seat.root = 0; seat.root < seat.ranks; seat.root++)
                    for (seat.turn = 0; seat.turn < turns_of(pccl_schedules[algorithm], seat); seat.turn++)
                        if (pccl_schedules[algorithm]->keeps != NULL)
                            check_kept(pccl_schedules[algorithm], in_line(pccl_schedules[algorithm], seat));
}

/* So that each rank is compared with the next one, even if that one is the root. */
TEST(the_next_rank_is_always_sent_to)
{
    for (unsigned algorithm = 0; algorithm < PCCL_ALGORITHMS; algorithm++)
        for (struct pccl_seat seat = {.ranks = 2}; seat.ranks <= RANKS_MOST; seat.ranks++)
            for (seat.rank = 0; seat.rank < seat.ranks; seat.rank++)
                for (seat.root = 0; seat.root < seat.ranks; seat.root++)
                    assert_true(pccl_schedules[algorithm]->sends(seat, seat.rank, pccl_seat_next(seat, seat.rank)));
}
