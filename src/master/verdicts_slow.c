/*
 * Finds peers and links that are slower than the others. Each duration is measured on a single peer's clock.
 *
 * Computation: operations of all members end at about the same time for all, so a member that enters late spends less
 * time in them than the others. Links: the busy time per byte of each link forms a matrix. One bad cell is a slow link,
 * a bad row a slow sender, a bad column a slow receiver.
 *
 * A row contains the reports of one peer. Any peer may lie about the others, so each has one vote, regardless of its
 * number of links. A peer is expelled only if its own report or two others show that it is slow, and most of the others
 * are faster.
 */
#include "master/verdicts_internal.h"
#include "wire/cost.h"

enum {
    OPERATIONS_LEAST = 6,  /* minimum number of operations for a comparison of entry times */
    LATE_US_LEAST = 50000, /* a late member enters at least this long after the others */
    STALLED_LEAST = 300,   /* minimum share of the time in which a peer was stalled, in thousandths */
    LINK_BYTES_LEAST = 128 << 10,
    LOSS_BYTES_LEAST = 16 << 10,
    LOSS_LEAST = 5,          /* minimum share of resent bytes, in thousandths */
    QUEUE_US = 5000,         /* a round trip that exceeds twice the path's by this much shows a queue */
    EXCESS_US_LEAST = 50000, /* minimum time that a slow link costs, compared with a usual one */
    VOTE = 720720,           /* vote of one peer, divisible by any number of links up to 16 */
};
_Static_assert((int)PCCL_TELEMETRY_LINKS_MAX <= 16, "the links of a report share one vote");

static uint64_t nth(uint64_t *values, uint32_t count, uint32_t n)
{
    uint32_t low = 0, high = count - 1;
    while (low < high) {
        uint64_t pivot = values[low + (high - low) / 2];
        uint32_t i = low, k = high;
        for (;;) {
            while (values[i] < pivot)
                i++;
            while (values[k] > pivot)
                k--;
            if (i >= k)
                break;
            uint64_t value = values[i];
            values[i++] = values[k];
            values[k--] = value;
        }
        if (n <= k)
            high = k;
        else
            low = k + 1;
    }
    return values[n];
}

/*
 * `others` is the number of other members whose own reports agree. Returns true if it is at least two and a majority.
 */
static bool are_most(const struct pccl_judgment *j, uint32_t others)
{
    return others >= 2 && 2 * others >= j->witnesses->count;
}

/* Adds a suspicion. `enough`: this comparison suffices to expel the peer if the verdict persists. */
static void suspect(struct pccl_judgment *j, enum pccl_verdict_class class, const struct pccl_id *peer, bool enough,
                    const struct pccl_text *evidence)
{
    struct pccl_verdict_entry *entry = pccl_verdicts_suspect(j, class, peer, NULL, evidence);
    if (entry != NULL)
        entry->enough = entry->enough || enough;
}

/* ---- peers ---- */

/* Figures of a peer's latest operations. */
struct pace {
    uint32_t index;      /* index of the witness */
    uint32_t operations; /* number of operations; 0 if there are too few */
    uint64_t mean_us;    /* mean time in an operation */
    uint64_t period_us;  /* mean time from one operation to the next */
    double error;        /* squared standard error of the mean */
    uint32_t stalled;    /* stalled share of the time in the latest report, in thousandths */
};

static void sum_operations(const struct pccl_witness *witness, struct pace *pace)
{
    uint64_t took_us = 0, squares = 0, window_us = 0, kept = pccl_min_u64(witness->count, PCCL_WITNESS_WINDOWS);
    for (uint64_t i = 0; i < kept && pace->operations < OPERATIONS_LEAST; i++) {
        const struct pccl_witness_window *window = &witness->windows[(witness->count - 1 - i) % PCCL_WITNESS_WINDOWS];
        pace->operations += window->operations;
        took_us += window->took_us;
        squares += window->took_squares;
        window_us += window->window_ms * UINT64_C(1000);
    }
    if (pace->operations < OPERATIONS_LEAST) {
        pace->operations = 0;
        return;
    }
    pace->mean_us = took_us / pace->operations;
    pace->period_us = window_us / pace->operations;
    double mean = (double)took_us / 100 / pace->operations;
    double variance = (double)squares / pace->operations - mean * mean;
    pace->error = variance > 0 ? variance * 10000 / pace->operations : 0;
}

/* Fills in the figures of all peers with a fresh report. Returns their number. */
static uint32_t take_paces(const struct pccl_judgment *j, struct pace *paces)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        const struct pccl_witness *witness = pccl_witness_fresh(j, i);
        if (witness == NULL)
            continue;
        const struct pccl_witness_window *latest = pccl_witness_latest(witness);
        struct pace *pace = &paces[count++];
        *pace =
            (struct pace){.index = i, .stalled = (uint32_t)(latest->stalled_ms * UINT64_C(1000) / latest->window_ms)};
        sum_operations(witness, pace);
    }
    return count;
}

/* Returns true if the process was often ready but not running, so that its other figures are meaningless. */
static bool is_stalled(const struct pace *pace, uint64_t usual)
{
    return pace->stalled >= STALLED_LEAST && pace->stalled >= 3 * usual + 100;
}

static void suspect_stalled(struct pccl_judgment *j, const struct pace *paces, uint32_t count, uint64_t *values)
{
    for (uint32_t i = 0; i < count; i++)
        values[i] = paces[i].stalled;
    uint64_t usual = count > 1 ? nth(values, count, (count - 1) / 2) : 0;
    for (uint32_t i = 0; i < count; i++) {
        struct pccl_text evidence;
        if (count < 2 || !is_stalled(&paces[i], usual))
            continue;
        pccl_text_format(&evidence,
                         "its process was runnable but not running for %u %% of the time (others: %" PRIu64
                         " %%): it is repeatedly stopped, or its processors are overloaded",
                         paces[i].stalled / 10, usual / 10);
        suspect(j, PCCL_VERDICT_SLOW_PEER, &j->witnesses->all[paces[i].index]->id, true, &evidence);
    }
}

static uint64_t distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

/* Returns the median deviation of the other peers from the usual value. */
static uint64_t spread_of_others(const struct pace *paces, uint32_t count, const struct pace *but, uint64_t usual_us,
                                 uint64_t *values)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < count; i++)
        if (&paces[i] != but && paces[i].operations > 0)
            values[others++] = distance(paces[i].mean_us, usual_us);
    return nth(values, others, others / 2);
}

/* Counts the members whose operations take the usual time or longer. */
static uint32_t count_usual(const struct pace *paces, uint32_t count, uint64_t usual_us)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += paces[i].operations > 0 && paces[i].mean_us >= usual_us;
    return found;
}

static void suspect_late(struct pccl_judgment *j, const struct pace *paces, uint32_t count, uint64_t *values)
{
    uint32_t known = 0;
    double error = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (paces[i].operations == 0)
            continue;
        values[known++] = paces[i].mean_us;
        error += paces[i].error;
    }
    if (known < 2)
        return;
    error /= known;
    /* the median of the others, because a suspected peer is below it */
    uint64_t usual_us = nth(values, known, known / 2);
    bool enough = are_most(j, count_usual(paces, count, usual_us));
    for (uint32_t i = 0; i < count; i++) {
        const struct pace *pace = &paces[i];
        uint64_t late_us = usual_us - pccl_min_u64(usual_us, pace->mean_us);
        if (pace->operations == 0 || pace->stalled >= STALLED_LEAST || late_us < LATE_US_LEAST ||
            late_us < usual_us / 5 || late_us < pace->period_us / 20 ||
            (double)late_us * (double)late_us < 16 * (pace->error + error) ||
            late_us < 4 * spread_of_others(paces, count, pace, usual_us, values))
            continue;
        struct pccl_text evidence;
        pccl_text_format(
            &evidence,
            "it entered its last %u operations %s later than the others on average; the operations took the others %s",
            pace->operations, pccl_duration_str(late_us), pccl_duration_str(usual_us));
        suspect(j, PCCL_VERDICT_SLOW_COMPUTATION, &j->witnesses->all[pace->index]->id, enough, &evidence);
    }
}

void pccl_verdicts_look_for_slow_peers(struct pccl_judgment *j)
{
    uint32_t room = j->witnesses->count;
    struct pace *paces = pccl_allocate(j->memory, room * sizeof *paces);
    uint64_t *values = pccl_allocate(j->memory, room * sizeof *values);
    if (paces != NULL && values != NULL) {
        uint32_t count = take_paces(j, paces);
        suspect_stalled(j, paces, count, values);
        suspect_late(j, paces, count, values);
    }
    pccl_release(j->memory, paces, room * sizeof *paces);
    pccl_release(j->memory, values, room * sizeof *values);
}

/* ---- links ---- */

/* A cell of the matrix: one link. */
struct cell {
    uint32_t from, to; /* indices of witnesses */
    const struct pccl_seen_link *link;
    uint64_t pace;  /* busy microseconds per MiB */
    uint32_t loss;  /* resent bytes, in thousandths */
    uint64_t of_us; /* time covered by the figures */
    uint32_t votes; /* this link's part of the peer's vote */
    bool slow, lossy;
    bool excused; /* the opposite direction is even slower */
};

/* A row or a column: the number of known and of bad cells, and the median pace of a row. */
struct line {
    uint32_t known, bad;
    uint64_t pace;
};

struct matrix {
    struct cell *cells; /* row by row */
    uint32_t count;
    struct line *rows, *columns;
    uint64_t usual_pace, usual_loss, usual_lately_us;
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
    if (witness == NULL || witness->count == 0)
        return false;
    const struct pccl_witness_window *latest = pccl_witness_latest(witness);
    return latest->stalled_ms * UINT64_C(1000) / latest->window_ms >= STALLED_LEAST;
}

/*
 * Returns the usual time in operations among the peers that report links. A late peer spends little time in operations,
 * so even a normal link takes a large part of it; its links are compared with the time of the others.
 */
static uint64_t usual_time_us(const struct pccl_judgment *j, uint64_t *values)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        const struct pccl_witness *witness = pccl_witness_fresh(j, i);
        if (witness != NULL && witness->link_count > 0)
            values[count++] = witness->time_us;
    }
    return count > 0 ? nth(values, count, count / 2) : 0;
}

static void take_cells(const struct pccl_judgment *j, struct matrix *matrix, uint64_t usual_us)
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
                                                           .loss = (uint32_t)(link->resent * 1000 / link->bytes),
                                                           .of_us = pccl_max_u64(witness->time_us, usual_us)};
        }
    }
}

static uint64_t pace_of(const struct cell *cell) { return cell->pace; }

static uint64_t loss_of(const struct cell *cell) { return cell->loss; }

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

/* Finds the usual values. Pace and loss use the lower median, because a bad link is above it. */
static void find_usual(struct matrix *matrix, uint64_t *values)
{
    for (uint32_t i = 0; i < matrix->count; i += matrix->rows[matrix->cells[i].from].known) {
        struct line *row = &matrix->rows[matrix->cells[i].from];
        for (uint32_t k = 0; k < row->known; k++) {
            values[k] = matrix->cells[i + k].pace;
            matrix->cells[i + k].votes = VOTE / row->known;
        }
        row->pace = nth(values, row->known, (row->known - 1) / 2);
    }
    matrix->usual_pace = middle(matrix, pace_of, false);
    matrix->usual_loss = middle(matrix, loss_of, false);
    matrix->usual_lately_us = middle(matrix, lately_of, true);
}

static bool is_slower(uint64_t pace, uint64_t than) { return 4 * pace > 7 * than; }

static void judge_cell(const struct matrix *matrix, struct cell *cell)
{
    uint64_t usual_us = pccl_min_u64(matrix->usual_pace * (cell->link->bytes >> 10) >> 10, cell->link->busy_us);
    uint64_t excess_us = cell->link->busy_us - usual_us;
    /* A full queue also loses data, but it is longer than the queues of others. */
    bool queued = cell->link->lately_us > 2 * (uint64_t)cell->link->rtt_us + QUEUE_US &&
                  4 * (uint64_t)cell->link->lately_us > 5 * matrix->usual_lately_us;
    cell->slow =
        is_slower(cell->pace, matrix->usual_pace) && excess_us >= EXCESS_US_LEAST && excess_us >= cell->of_us / 5;
    cell->lossy = cell->loss >= LOSS_LEAST && cell->loss >= 4 * (matrix->usual_loss + 1) &&
                  cell->link->resent >= LOSS_BYTES_LEAST && !queued;
}

static bool is_bad(const struct cell *cell) { return (cell->slow && !cell->excused) || cell->lossy; }

/*
 * Returns true if `cell` is the slower of two opposite cells. The acknowledgments of one may wait in the queue of the
 * other.
 */
static bool is_worse(const struct cell *cell, const struct cell *than)
{
    return cell->pace != than->pace ? cell->pace > than->pace : cell->from < than->from;
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
        pccl_text_append(evidence, "%" PRIu64 " KiB were sent at %" PRIu64 " ms per MiB (other links: %" PRIu64 ")",
                         cell->link->bytes >> 10, cell->pace / 1000, matrix->usual_pace / 1000);
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
        faster += matrix->rows[i].known > 0 && is_slower(cell->pace, matrix->rows[i].pace);
    return are_most(j, faster);
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
    suspect(j, sends ? PCCL_VERDICT_SLOW_SENDER : PCCL_VERDICT_SLOW_RECEIVER, id, enough, &evidence);
}

/* ---- a slow link, or a slow end of it? (later links of the ends show it) ---- */

static bool is_usual(const struct matrix *matrix, const struct cell *cell)
{
    return !is_bad(cell) && 4 * cell->pace <= 5 * matrix->usual_pace;
}

/* Clears the suspicion of the sender and the receiver of every link with the usual rate. */
static void settle_open_links(const struct pccl_judgment *j, const struct matrix *matrix)
{
    for (uint32_t i = 0; i < matrix->count; i++) {
        const struct cell *cell = &matrix->cells[i];
        for (uint32_t k = 0; is_usual(matrix, cell) && k < PCCL_OPEN_LINKS_MAX; k++) {
            struct pccl_open_link *open = &j->verdicts->open[k];
            open->sender = open->sender && !pccl_id_equal(&open->from, &j->witnesses->all[cell->from]->id);
            open->receiver = open->receiver && !pccl_id_equal(&open->to, &cell->link->peer);
        }
    }
}

/* Returns another link from this sender, or to this receiver, that was slow; NULL if none exists. */
static const struct pccl_open_link *find_open(const struct pccl_judgment *j, const struct cell *cell, bool sends)
{
    const struct pccl_id *from = &j->witnesses->all[cell->from]->id, *to = &cell->link->peer;
    for (uint32_t i = 0; i < PCCL_OPEN_LINKS_MAX; i++) {
        const struct pccl_open_link *open = &j->verdicts->open[i];
        bool same_from = pccl_id_equal(&open->from, from), same_to = pccl_id_equal(&open->to, to);
        if (sends ? open->sender && same_from && !same_to : open->receiver && same_to && !same_from)
            return open;
    }
    return NULL;
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
    suspect(j, sent != NULL ? PCCL_VERDICT_SLOW_SENDER : PCCL_VERDICT_SLOW_RECEIVER,
            sent != NULL ? &j->witnesses->all[cell->from]->id : &cell->link->peer, are_most_faster(j, matrix, cell),
            &evidence);
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
    entry->usual_rate = cell->slow ? rate_at(matrix->usual_pace) : 0;
}

static void suspect_cells(struct pccl_judgment *j, struct matrix *matrix)
{
    struct line *rows = matrix->rows, *columns = matrix->columns;
    for (uint32_t i = 0; i < matrix->count; i++)
        judge_cell(matrix, &matrix->cells[i]);
    excuse_cells(matrix);
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
        if (alone)
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
        take_cells(j, &matrix, usual_time_us(j, values));
    }
    if (matrix.count >= 2) {
        find_usual(&matrix, values);
        suspect_cells(j, &matrix);
    }
    pccl_release(j->memory, matrix.cells, room * sizeof *matrix.cells);
    pccl_release(j->memory, values, room * sizeof *values);
    pccl_release(j->memory, matrix.rows, 2 * (size_t)peers * sizeof *matrix.rows);
}
