/*
 * Finds links that have become slow. Each duration is measured on a single peer's clock.
 *
 * The busy time per byte of each link forms a matrix. Each link is compared with its own past, and its change with the
 * changes of the other links. One bad cell is a slow link, a bad row a slow sender, a bad column a slow receiver.
 *
 * A row contains the reports of one peer. Any peer may lie about the others, so each has one vote, regardless of its
 * number of links. A peer is expelled only if its own report or two others show that it is slow, and most of the others
 * are faster.
 */
#include "master/verdicts_internal.h"
#include "wire/cost.h"

enum {
    LINK_BYTES_LEAST = 128 << 10,
    LOSS_BYTES_LEAST = 16 << 10,
    LOSS_LEAST = 5,          /* minimum share of resent bytes, in thousandths */
    QUEUE_US = 5000,         /* a round trip that exceeds twice the path's by this much shows a queue */
    EXCESS_US_LEAST = 50000, /* minimum time that a slow link costs, compared with a usual one */
    PAST_WEIGHT = 16,        /* weight of the past against a new report, for the usual figures of a link */
    CHANGE_MOST = 1024,      /* maximum change, in units of CHANGE_UNIT */
    CHANGE_UNIT = 1024,      /* change of a link with its usual pace */
    VOTE = 720720,           /* vote of one peer, divisible by any number of links up to 16 */
};
_Static_assert((int)PCCL_TELEMETRY_LINKS_MAX <= 16, "the links of a report share one vote");

/* ---- links ---- */

/* A cell of the matrix: one link. */
struct cell {
    uint32_t from, to; /* indices of witnesses */
    const struct pccl_seen_link *link;
    uint64_t pace;  /* busy microseconds per MiB */
    uint64_t rate;  /* bytes for each millisecond of operations */
    uint32_t loss;  /* resent bytes, in thousandths */
    uint64_t of_us; /* time covered by the figures */
    uint32_t votes; /* this link's part of the peer's vote */
    struct pccl_link_past *past;
    const struct pccl_link_past *usual; /* the past, if its figures are known and still apply; else NULL */
    uint64_t past_pace;                 /* usual pace of the link, or of its sender */
    uint64_t expected;                  /* pace that it should have */
    uint64_t change; /* pace in units of CHANGE_UNIT of the usual one of this link, if that is known */
    bool changed;    /* true if it is a verdict, and therefore not a finding */
    bool slow, lossy;
    bool excused; /* the opposite direction is even slower */
};

/* A row or a column: the number of known and of bad cells, and the median pace of a row. */
struct line {
    uint32_t known, bad;
    uint64_t pace[2]; /* as in struct usual */
};

/*
 * The usual figures. A link without a queue waits for data: after a slow link in a ring, for example, all others are
 * slower than before. A link with a queue limits the rate itself, and is compared with their figures from before.
 */
struct usual {
    uint64_t pace, change;
};

struct matrix {
    struct cell *cells; /* row by row */
    uint32_t count;
    struct line *rows, *columns;
    struct usual usual[2]; /* for links without a queue, for queued ones */
    uint64_t usual_loss, usual_lately_us;
};

static uint32_t count_links(const struct pccl_judgment *j)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        const struct pccl_witness *witness = pccl_witness_fresh(j, i);
        count += witness != NULL ? witness->link_count : 0;
    }
    return count;
}

/* Returns true if the peer's process was stalled for much of the time, so that its links are not the cause. */
static bool was_stalled(const struct pccl_witness *witness)
{
    return witness != NULL && witness->received_us != 0 && pccl_witness_stalled(witness) >= PCCL_STALLED_LEAST;
}

/* Returns the bytes that the link carried in a millisecond of operations, also while it waited for others. */
static uint64_t rate_of(const struct pccl_witness *witness, const struct pccl_seen_link *link)
{
    return link->bytes * 1000 / pccl_max_u64(witness->time_us, 1000);
}

static uint32_t loss_of_one(const struct pccl_seen_link *link)
{
    uint64_t bytes = pccl_max_u64(link->bytes, 1);
    return (uint32_t)(pccl_min_u64(link->resent, bytes) * 1000 / bytes);
}

/* A queue that was full for a moment has lost data in one report only. */
static uint32_t loss_of_both(const struct pccl_seen_link *recent, const struct pccl_seen_link *latest)
{
    return (uint32_t)pccl_min_u64(loss_of_one(recent), loss_of_one(latest));
}

static void take_cells(const struct pccl_judgment *j, struct matrix *matrix)
{
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        const struct pccl_witness *witness = pccl_witness_fresh(j, i);
        if (witness == NULL || was_stalled(witness))
            continue;
        for (uint32_t k = 0; k < witness->link_count; k++) {
            const struct pccl_seen_link *link = &witness->links[k];
            uint32_t to = j->witnesses->find(j->witnesses->context, &link->peer);
            if (link->bytes < LINK_BYTES_LEAST || link->busy_us == 0 || to == j->witnesses->count ||
                !j->witnesses->uses(j->witnesses->context, i, to) || was_stalled(j->witnesses->all[to]))
                continue;
            matrix->rows[i].known++;
            matrix->columns[to].known++;
            matrix->cells[matrix->count++] = (struct cell){.from = i,
                                                           .to = to,
                                                           .link = link,
                                                           .pace = ((uint64_t)link->busy_us << 20) / link->bytes,
                                                           .rate = rate_of(witness, link),
                                                           .loss = loss_of_both(link, &witness->latest_links[k]),
                                                           .of_us = witness->time_us};
        }
    }
}

/* Returns true if more data is in flight than the path holds, so that the link limits the rate. */
static bool has_queue(const struct cell *cell)
{
    return cell->link->lately_us > 2 * (uint64_t)cell->link->rtt_us + QUEUE_US;
}

static uint64_t pace_of(const struct cell *cell) { return cell->pace; }

static uint64_t loss_of(const struct cell *cell) { return cell->loss; }

static uint64_t change_of(const struct cell *cell) { return cell->change; }

/* The same for a comparison with queued links. */
static uint64_t pace_of_queued(const struct cell *cell)
{
    return has_queue(cell) ? cell->pace : pccl_min_u64(cell->pace, cell->past_pace);
}

static uint64_t change_of_queued(const struct cell *cell)
{
    return has_queue(cell) ? cell->change : pccl_min_u64(cell->change, CHANGE_UNIT);
}

static uint64_t lately_of(const struct cell *cell) { return cell->link->lately_us; }

/* Returns the median, weighted by votes. If there are two middle values, returns the lower or the upper one. */
static uint64_t middle(const struct matrix *matrix, uint64_t (*of)(const struct cell *), bool upper)
{
    uint64_t low = UINT64_MAX, high = 0, all = 0;
    for (uint32_t i = 0; i < matrix->count; i++) {
        low = pccl_min_u64(low, of(&matrix->cells[i]));
        high = pccl_max_u64(high, of(&matrix->cells[i]));
        all += matrix->cells[i].votes;
    }
    while (low < high) {
        uint64_t at = low + (high - low) / 2, votes = 0;
        for (uint32_t i = 0; i < matrix->count; i++)
            votes += of(&matrix->cells[i]) <= at ? matrix->cells[i].votes : 0;
        if (upper ? 2 * votes > all : 2 * votes >= all)
            high = at;
        else
            low = at + 1;
    }
    return low;
}

static uint64_t median_pace(const struct cell *cells, uint32_t count, uint64_t (*of)(const struct cell *),
                            uint64_t *values)
{
    for (uint32_t k = 0; k < count; k++)
        values[k] = of(&cells[k]);
    return pccl_verdicts_nth(values, count, (count - 1) / 2);
}

/* Gives the links of each row their part of its vote, and finds the median paces of the row. */
static void share_votes(struct matrix *matrix, uint64_t *values)
{
    for (uint32_t i = 0; i < matrix->count; i += matrix->rows[matrix->cells[i].from].known) {
        struct line *row = &matrix->rows[matrix->cells[i].from];
        for (uint32_t k = 0; k < row->known; k++)
            matrix->cells[i + k].votes = VOTE / row->known;
        row->pace[false] = median_pace(&matrix->cells[i], row->known, pace_of, values);
        row->pace[true] = median_pace(&matrix->cells[i], row->known, pace_of_queued, values);
    }
}

static bool is_slower(uint64_t pace, uint64_t than) { return 4 * pace > 7 * than; }

/* Returns true if the pace is at most a quarter slower. */
static bool is_about(uint64_t pace, uint64_t usual) { return 4 * pace <= 5 * usual; }

/* ---- the past of a link ---- */

/* Returns true if more links share the lines of the ends than in the past. */
static bool has_more_shares(const struct matrix *matrix, const struct cell *cell)
{
    return matrix->rows[cell->from].known > cell->past->out || matrix->columns[cell->to].known > cell->past->in;
}

static bool is_past_known(const struct matrix *matrix, const struct cell *cell)
{
    return cell->past->reports >= PCCL_LINK_PAST_LEAST && !has_more_shares(matrix, cell);
}

/*
 * Returns the usual pace of the link; if that is unknown, the slowest usual pace of the other links of its sender;
 * UINT64_MAX if these are unknown, too.
 */
static uint64_t past_pace(const struct pccl_witness *from, const struct cell *cell)
{
    uint64_t slowest = 0;
    for (uint32_t i = 0; i < PCCL_TELEMETRY_LINKS_MAX && cell->usual == NULL; i++)
        if (from->past[i].reports >= PCCL_LINK_PAST_LEAST)
            slowest = pccl_max_u64(slowest, from->past[i].pace);
    return cell->usual != NULL ? cell->usual->pace : slowest > 0 ? slowest : UINT64_MAX;
}

/* Compares each link with its past. One without a past has no change. */
static void compare_with_past(const struct pccl_judgment *j, struct matrix *matrix)
{
    for (uint32_t i = 0; i < matrix->count; i++) {
        struct cell *cell = &matrix->cells[i];
        cell->past = pccl_witness_past(j->witnesses->all[cell->from], &cell->link->peer);
        cell->usual = is_past_known(matrix, cell) ? cell->past : NULL;
        cell->past_pace = past_pace(j->witnesses->all[cell->from], cell);
        if (cell->usual != NULL)
            cell->change =
                pccl_min_u64(cell->pace * CHANGE_UNIT / pccl_max_u64(cell->past->pace, 1), CHANGE_MOST * CHANGE_UNIT);
    }
}

/* Finds the usual change: most links may be slower than before, for example because the host is busy. */
static uint64_t usual_change(const struct matrix *matrix, uint64_t (*of)(const struct cell *))
{
    uint64_t usual = middle(matrix, of, false);
    return 4 * usual > 5 * (uint64_t)CHANGE_UNIT ? usual : CHANGE_UNIT; /* smaller ones are noise */
}

/* Finds the usual values. Pace, loss and change use the lower median, because a bad link is above it. */
static void find_usual(struct matrix *matrix, uint64_t *values)
{
    share_votes(matrix, values);
    matrix->usual[false].pace = middle(matrix, pace_of, false);
    matrix->usual[true].pace = middle(matrix, pace_of_queued, false);
    matrix->usual_loss = middle(matrix, loss_of, false);
    matrix->usual_lately_us = middle(matrix, lately_of, true);
    for (uint32_t i = 0; i < matrix->count; i++)
        if (matrix->cells[i].usual == NULL)
            matrix->cells[i].votes = 0; /* it has no change */
    matrix->usual[false].change = usual_change(matrix, change_of);
    matrix->usual[true].change = usual_change(matrix, change_of_queued);
}

static const struct usual *usual_of(const struct matrix *matrix, const struct cell *cell)
{
    return &matrix->usual[has_queue(cell)];
}

/* Returns another link from this sender, or to this receiver, that was slow; NULL if none exists. */
static const struct pccl_open_link *find_open(const struct pccl_judgment *j, const struct cell *cell, bool sends)
{
    const struct pccl_id *from = &j->witnesses->all[cell->from]->id, *to = &cell->link->peer;
    for (uint32_t i = 0; i < PCCL_OPEN_LINKS_MAX; i++) {
        const struct pccl_open_link *open = &j->verdicts->open[i];
        bool same_from = pccl_id_equal(&open->from, from), same_to = pccl_id_equal(&open->to, to);
        if (sends ? open->sender > 0 && same_from && !same_to : open->receiver > 0 && same_to && !same_from)
            return open;
    }
    return NULL;
}

/* Returns true if another link of one end of this link has become slow, so that the end may be the cause. */
static bool has_slow_end(const struct pccl_judgment *j, const struct cell *cell)
{
    return find_open(j, cell, true) != NULL || find_open(j, cell, false) != NULL;
}

/* Returns true if the link is new, and may share the slowness of an end that is suspected. */
static bool is_unproven(const struct pccl_judgment *j, const struct matrix *matrix, const struct cell *cell)
{
    return cell->usual == NULL && has_slow_end(j, cell) && !is_about(cell->pace, usual_of(matrix, cell)->pace);
}

/*
 * Updates the usual figures of each link with a new report. When more links share its lines, its share is smaller, and
 * the figures are new. When fewer do, the share is larger, and the figures stay. A pace that is much slower than usual
 * does not count, so that a verdict does not end by itself. While a link is bad, a link without a queue waits for data,
 * and its pace does not count either.
 */
static void update_past(const struct pccl_judgment *j, const struct matrix *matrix)
{
    bool any_bad = false;
    for (uint32_t i = 0; i < matrix->count; i++)
        any_bad = any_bad || matrix->cells[i].changed;
    for (uint32_t i = 0; i < matrix->count; i++) {
        const struct cell *cell = &matrix->cells[i];
        struct pccl_link_past *past = cell->past;
        if (cell->changed || (any_bad && !has_queue(cell)) || is_unproven(j, matrix, cell) ||
            j->witnesses->all[cell->from]->judged)
            continue;
        uint32_t out = matrix->rows[cell->from].known, in = matrix->columns[cell->to].known;
        if (past->reports == 0 || has_more_shares(matrix, cell)) {
            *past = (struct pccl_link_past){past->peer, cell->pace, cell->rate, cell->loss, out, in, 1};
            continue;
        }
        bool first = past->reports < PCCL_LINK_PAST_LEAST;
        if (past->out == out && past->in == in && (first || 2 * cell->pace <= 3 * past->pace)) {
            uint32_t weight = first ? past->reports + 1 : PAST_WEIGHT;
            past->pace = (past->pace * (weight - 1) + cell->pace) / weight;
            past->rate = (past->rate * (weight - 1) + cell->rate) / weight;
            past->loss = (past->loss * (weight - 1) + cell->loss) / weight;
            past->reports += first;
        }
    }
}

/* ---- bad links ---- */

/*
 * Returns the pace that the link should have now: its own usual one, slower if most links have become slower. A link
 * without a past is compared with the others if one of its ends is suspected. Otherwise it may have been slow from the
 * start, which is no verdict.
 */
static uint64_t expected_pace(const struct pccl_judgment *j, const struct matrix *matrix, const struct cell *cell)
{
    if (j->finding)
        return cell->changed ? cell->pace : usual_of(matrix, cell)->pace;
    if (cell->usual != NULL)
        return cell->past->pace * usual_of(matrix, cell)->change / CHANGE_UNIT;
    return has_slow_end(j, cell) ? usual_of(matrix, cell)->pace : cell->pace;
}

/*
 * Returns true if the link is slower than expected. For a verdict it must also be slower than the others: otherwise
 * these would delay the run as much.
 */
static bool is_too_slow(const struct pccl_judgment *j, const struct matrix *matrix, const struct cell *cell)
{
    if (j->finding)
        return is_slower(cell->pace, cell->expected);
    return 2 * cell->pace > 3 * pccl_max_u64(cell->expected, usual_of(matrix, cell)->pace);
}

/*
 * Returns true if the link's slowness costs time. A link with a known past then carries less than before: its pace
 * alone can change without any effect, because TCP counts time with data in flight differently when the receiver's
 * window is the limit. Otherwise the excess is compared with the time of the operations.
 */
static bool costs_time(const struct pccl_judgment *j, const struct cell *cell, uint64_t excess_us)
{
    if (j->finding || cell->usual == NULL)
        return excess_us >= cell->of_us / 5;
    return 5 * cell->rate <= 4 * cell->past->rate;
}

static void judge_cell(const struct pccl_judgment *j, const struct matrix *matrix, struct cell *cell)
{
    cell->expected = expected_pace(j, matrix, cell);
    uint64_t usual_loss = matrix->usual_loss, excess_us = 0;
    cell->excused = false;
    if (cell->expected < cell->pace)
        excess_us =
            (uint64_t)((double)cell->link->busy_us * (double)(cell->pace - cell->expected) / (double)cell->pace);
    if (cell->usual != NULL && !j->finding)
        usual_loss = pccl_max_u64(usual_loss, cell->past->loss);
    /* A full queue also loses data, but it is longer than the queues of others. */
    bool queued = has_queue(cell) && 4 * (uint64_t)cell->link->lately_us > 5 * matrix->usual_lately_us;
    cell->slow = is_too_slow(j, matrix, cell) && excess_us >= EXCESS_US_LEAST && costs_time(j, cell, excess_us);
    cell->lossy = cell->loss >= LOSS_LEAST && cell->loss >= 4 * (usual_loss + 1) &&
                  cell->link->resent >= LOSS_BYTES_LEAST && !queued && !cell->changed;
    cell->changed = cell->slow || cell->lossy;
}

static bool is_bad(const struct cell *cell) { return (cell->slow && !cell->excused) || cell->lossy; }

/*
 * Returns true if `cell` is the slower of two opposite cells. The acknowledgments of one may wait in the queue of the
 * other.
 */
static bool is_worse(const struct cell *cell, const struct cell *than)
{
    uint64_t more = cell->pace * CHANGE_UNIT / pccl_max_u64(cell->expected, 1),
             less = than->pace * CHANGE_UNIT / pccl_max_u64(than->expected, 1);
    return more != less ? more > less : cell->from < than->from;
}

static void excuse_cells(struct matrix *matrix)
{
    for (uint32_t i = 0; i < matrix->count; i++) {
        struct cell *cell = &matrix->cells[i];
        for (uint32_t k = 0; k < matrix->count && cell->slow; k++) {
            const struct cell *opposite = &matrix->cells[k];
            if (opposite->from == cell->to && opposite->to == cell->from && opposite->slow)
                cell->excused = is_worse(opposite, cell);
        }
    }
}

/* Returns true if most cells of the row or column, and at least two, are bad. */
static bool is_bad_line(const struct line *line) { return line->bad >= 2 && 5 * line->bad >= 3 * line->known; }

static void add_cell(struct pccl_text *evidence, const struct matrix *matrix, const struct cell *cell)
{
    if (cell->slow)
        pccl_text_append(
            evidence,
            "%" PRIu64 " KiB were sent at %" PRIu64 " ms per MiB (usual: %" PRIu64 ", other links: %" PRIu64 ")",
            cell->link->bytes >> 10, cell->pace / 1000, cell->expected / 1000, usual_of(matrix, cell)->pace / 1000);
    if (cell->lossy)
        pccl_text_append(
            evidence, "%s%u.%u %% of the bytes were retransmitted (other links: %" PRIu64 ".%" PRIu64 " %%)",
            cell->slow ? "; " : "", cell->loss / 10, cell->loss % 10, matrix->usual_loss / 10, matrix->usual_loss % 10);
}

/* Returns true if most members send faster than this link does. */
static bool are_most_faster(const struct pccl_judgment *j, const struct matrix *matrix, const struct cell *cell)
{
    uint32_t faster = 0;
    for (uint32_t i = 0; i < j->witnesses->count; i++)
        faster += matrix->rows[i].known > 0 && is_slower(cell->pace, matrix->rows[i].pace[has_queue(cell)]);
    return pccl_verdicts_are_most(j, faster);
}

/* Returns true if at least two members complain, and these are most of the members with a link to the peer. */
static bool do_most_complain(const struct pccl_judgment *j, uint32_t peer, uint32_t complaints)
{
    uint32_t links = 0;
    for (uint32_t i = 0; i < j->witnesses->count; i++)
        links += j->witnesses->uses(j->witnesses->context, i, peer);
    return complaints >= 2 && 2 * complaints > links;
}

static void suspect_line(struct pccl_judgment *j, const struct matrix *matrix, uint32_t peer, bool sends,
                         const struct line *line)
{
    struct pccl_text evidence;
    const struct cell *example = NULL; /* the fastest bad cell */
    for (uint32_t i = 0; i < matrix->count; i++) {
        const struct cell *cell = &matrix->cells[i];
        if (is_bad(cell) && (sends ? cell->from : cell->to) == peer && (example == NULL || cell->pace < example->pace))
            example = cell;
    }
    PCCL_ASSERT(example != NULL);
    bool enough = are_most_faster(j, matrix, example) && (sends || do_most_complain(j, peer, line->bad));
    pccl_text_format(&evidence, "%u of its %u links %s others are slow; for example, ", line->bad, line->known,
                     sends ? "to" : "from");
    add_cell(&evidence, matrix, example);
    /* a peer that only receives may have sent no report */
    const struct pccl_id *id = sends ? &j->witnesses->all[peer]->id : &example->link->peer;
    pccl_verdicts_suspect_peer(j, sends ? PCCL_VERDICT_SLOW_SENDER : PCCL_VERDICT_SLOW_RECEIVER, id, enough, &evidence);
}

/* ---- a slow link, or a slow end of it? (later links of the ends show it) ---- */

static bool is_usual(const struct matrix *matrix, const struct cell *cell)
{
    return !is_bad(cell) && is_about(cell->pace, usual_of(matrix, cell)->pace);
}

/* Counts a new report of a link for or against the suspicion of its end. */
static void settle_end(uint8_t *left, const struct matrix *matrix, const struct cell *cell)
{
    if (*left > 0 && is_usual(matrix, cell))
        *left -= 1;
    else if (*left > 0 && is_bad(cell))
        *left = PCCL_OPEN_REPORTS;
}

/* Clears the suspicion of senders and receivers whose links have the usual rate. */
static void settle_open_links(const struct pccl_judgment *j, const struct matrix *matrix)
{
    for (uint32_t i = 0; i < matrix->count; i++) {
        const struct cell *cell = &matrix->cells[i];
        const struct pccl_witness *from = j->witnesses->all[cell->from];
        for (uint32_t k = 0; !from->judged && k < PCCL_OPEN_LINKS_MAX; k++) {
            struct pccl_open_link *open = &j->verdicts->open[k];
            if (pccl_id_equal(&open->from, &from->id))
                settle_end(&open->sender, matrix, cell);
            if (pccl_id_equal(&open->to, &cell->link->peer))
                settle_end(&open->receiver, matrix, cell);
        }
    }
}

/*
 * Returns true if the peer is an end of every bad link. Otherwise the peers may be at two sites, because a ring passes
 * between two sites once in each direction.
 */
static bool is_end_of_all_bad(const struct matrix *matrix, uint32_t peer)
{
    for (uint32_t i = 0; i < matrix->count; i++)
        if (is_bad(&matrix->cells[i]) && matrix->cells[i].from != peer && matrix->cells[i].to != peer)
            return false;
    return true;
}

/*
 * Suspects the common end of this slow link and of an earlier slow link. The link itself stays suspected, and the ring
 * avoids it, because a third link of that end may be faster. If the common end is the sender, it reported both links
 * itself. If it is the receiver, two members reported the links, each while it was the only sender.
 */
static void suspect_end(struct pccl_judgment *j, const struct matrix *matrix, const struct cell *cell)
{
    const struct pccl_open_link *sent = find_open(j, cell, true), *received = find_open(j, cell, false);
    struct pccl_text evidence;
    if (!cell->slow || (sent == NULL) == (received == NULL) ||
        !is_end_of_all_bad(matrix, sent != NULL ? cell->from : cell->to))
        return;
    pccl_text_format(&evidence, "its link %s peer %s was slow while in use, and now its link %s peer %s is slow too: ",
                     sent != NULL ? "to" : "from", pccl_id_str(sent != NULL ? &sent->to : &received->from),
                     sent != NULL ? "to" : "from",
                     pccl_id_str(sent != NULL ? &cell->link->peer : &j->witnesses->all[cell->from]->id));
    add_cell(&evidence, matrix, cell);
    pccl_verdicts_suspect_peer(j, sent != NULL ? PCCL_VERDICT_SLOW_SENDER : PCCL_VERDICT_SLOW_RECEIVER,
                               sent != NULL ? &j->witnesses->all[cell->from]->id : &cell->link->peer,
                               are_most_faster(j, matrix, cell), &evidence);
}

/* ---- suspicions of links ---- */

/* Returns the rate that corresponds to this pace. */
static uint64_t rate_at(uint64_t pace)
{
    return pccl_min_u64(UINT64_C(1000000) * (1 << 20) / (pace > 0 ? pace : 1), PCCL_RATE_MOST);
}

static void suspect_cell(struct pccl_judgment *j, const struct matrix *matrix, const struct cell *cell, bool alone)
{
    struct pccl_text evidence;
    pccl_text_clear(&evidence);
    add_cell(&evidence, matrix, cell);
    if (alone)
        pccl_text_add(
            &evidence,
            "; no other link of these two peers is in use, so the sender or the receiver as a whole may be slow");
    struct pccl_verdict_entry *entry = pccl_verdicts_suspect(
        j, PCCL_VERDICT_SLOW_LINK, &j->witnesses->all[cell->from]->id, &cell->link->peer, &evidence);
    if (entry == NULL)
        return;
    entry->alone = alone;
    entry->rate = cell->slow ? rate_at(cell->pace) : 0;
    entry->usual_rate = cell->slow ? rate_at(usual_of(matrix, cell)->pace) : 0;
}

/*
 * Suspects links, senders and receivers that have become slow and, in a second call with j->finding, those that have
 * always been slow.
 */
static void suspect_cells(struct pccl_judgment *j, struct matrix *matrix)
{
    struct line *rows = matrix->rows, *columns = matrix->columns;
    for (uint32_t i = 0; i < j->witnesses->count; i++)
        rows[i].bad = columns[i].bad = 0;
    for (uint32_t i = 0; i < matrix->count; i++)
        judge_cell(j, matrix, &matrix->cells[i]);
    excuse_cells(matrix);
    if (!j->finding)
        settle_open_links(j, matrix);
    for (uint32_t i = 0; i < matrix->count; i++) {
        const struct cell *cell = &matrix->cells[i];
        rows[cell->from].bad += is_bad(cell);
        columns[cell->to].bad += is_bad(cell);
    }
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        if (is_bad_line(&rows[i]))
            suspect_line(j, matrix, i, true, &rows[i]);
        else if (is_bad_line(&columns[i]))
            suspect_line(j, matrix, i, false, &columns[i]);
    }
    for (uint32_t i = 0; i < matrix->count; i++) {
        const struct cell *cell = &matrix->cells[i];
        const struct line *row = &rows[cell->from], *column = &columns[cell->to];
        /* a bad row or column of the opposite direction explains the cell */
        bool answers = is_bad_line(&rows[cell->to]) || is_bad_line(&columns[cell->from]);
        bool alone = row->known == 1 && column->known == 1;
        if (!is_bad(cell) || is_bad_line(row) || is_bad_line(column) || answers)
            continue;
        suspect_cell(j, matrix, cell, alone);
        if (alone && !j->finding)
            suspect_end(j, matrix, cell);
    }
}

void pccl_verdicts_look_for_slow_links(struct pccl_judgment *j)
{
    uint32_t room = count_links(j), peers = j->witnesses->count;
    if (room < 2)
        return;
    struct matrix matrix = {.cells = pccl_allocate(j->memory, room * sizeof *matrix.cells),
                            .rows = pccl_allocate(j->memory, 2 * peers * sizeof *matrix.rows)};
    uint64_t *values = pccl_allocate(j->memory, room * sizeof *values);
    if (matrix.cells != NULL && values != NULL && matrix.rows != NULL) {
        matrix.columns = matrix.rows + peers;
        take_cells(j, &matrix);
    }
    if (matrix.count >= 2) {
        compare_with_past(j, &matrix);
        find_usual(&matrix, values);
        suspect_cells(j, &matrix);
        update_past(j, &matrix);
        j->finding = true;
        suspect_cells(j, &matrix);
        j->finding = false;
    }
    pccl_release(j->memory, matrix.cells, room * sizeof *matrix.cells);
    pccl_release(j->memory, values, room * sizeof *values);
    pccl_release(j->memory, matrix.rows, 2 * (size_t)peers * sizeof *matrix.rows);
}
