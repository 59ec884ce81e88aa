/*
 * Finds stalled peers, and peers that enter operations later than the others. An operation of all members ends at about
 * the same time for all, so a member that enters late is in it for a shorter time than the others. Members report the
 * operations that begin a round of the program (wire/schema.h, seen_round), so this compares the durations of the same
 * operation.
 */
#include "master/verdicts_internal.h"

enum {
    BUSY_LEAST = 100, /* median share of stalled time, in thousandths, from which only stalled peers are examined */
    ROUNDS_LEAST = 6, /* latest rounds in which a late peer was late ... */
    MISSES_MOST = 1,  /* ... and those in between in which others were late, but not this peer */
    LATE_US_LEAST = 50000, /* a late member enters at least this long after the others */
};

/* ---- stalled peers ---- */

/* Returns true if the process was often ready but not running, so that its other figures are meaningless. */
static bool is_stalled(uint32_t stalled, uint64_t usual)
{
    return stalled >= PCCL_STALLED_LEAST && stalled >= 3 * usual + 100;
}

static void suspect_stalled(struct pccl_judgment *j, uint32_t peer, uint32_t stalled, uint64_t usual)
{
    struct pccl_text evidence;
    pccl_text_format(&evidence,
                     "its process was runnable but not running for %u %% of the time (others: %" PRIu64
                     " %%): it is repeatedly stopped, or its processors are overloaded",
                     stalled / 10, usual / 10);
    pccl_verdicts_suspect_peer(j, PCCL_VERDICT_SLOW_PEER, &j->witnesses->all[peer]->id, true, &evidence);
}

bool pccl_verdicts_look_for_stalled_peers(struct pccl_judgment *j)
{
    uint32_t room = j->witnesses->count, count = 0;
    uint64_t *values = pccl_allocate(j->memory, room * sizeof *values), usual = 0;
    for (uint32_t i = 0; i < room && values != NULL; i++)
        if (pccl_witness_fresh(j, i) != NULL)
            values[count++] = pccl_witness_stalled(j->witnesses->all[i]);
    if (count > 1)
        usual = pccl_verdicts_nth(values, count, (count - 1) / 2);
    for (uint32_t i = 0; i < room && count > 1; i++)
        if (pccl_witness_fresh(j, i) != NULL && is_stalled(pccl_witness_stalled(j->witnesses->all[i]), usual))
            suspect_stalled(j, i, pccl_witness_stalled(j->witnesses->all[i]), usual);
    pccl_release(j->memory, values, room * sizeof *values);
    return usual < BUSY_LEAST;
}

/* ---- late peers ---- */

/* The time that one member spent in one operation. */
struct stay {
    uint64_t key;
    uint32_t took_us;
};

/* An operation, by the reports of at least half of the members. */
struct round {
    uint64_t key;
    uint32_t usual_us; /* median duration, which is longer than the duration of a late member */
    bool enough;       /* true if most members agree that it took at least this long */
    bool delayed;      /* true if some member was late */
};

struct rounds {
    struct stay *stays;
    uint32_t stay_count;
    struct round *all; /* in ascending order of keys */
    uint32_t count;
};

static bool is_before(const struct stay *a, const struct stay *b)
{
    return a->key != b->key ? a->key < b->key : a->took_us < b->took_us;
}

/* Sorts by key and duration (Shell sort). */
static void sort(struct stay *stays, uint32_t count)
{
    for (uint32_t gap = count / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (uint32_t i = gap; i < count; i++) {
            struct stay moved = stays[i];
            uint32_t at = i;
            for (; at >= gap && is_before(&moved, &stays[at - gap]); at -= gap)
                stays[at] = stays[at - gap];
            stays[at] = moved;
        }
}

static uint32_t kept(const struct pccl_witness *witness)
{
    return (uint32_t)pccl_min_u64(witness->round_count, PCCL_WITNESS_ROUNDS);
}

static void collect(const struct pccl_judgment *j, struct rounds *rounds)
{
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        const struct pccl_witness *witness = j->witnesses->all[i];
        for (uint32_t k = 0; witness != NULL && k < kept(witness); k++)
            rounds->stays[rounds->stay_count++] =
                (struct stay){.key = witness->rounds[k].key, .took_us = witness->rounds[k].took_us};
    }
    sort(rounds->stays, rounds->stay_count);
}

/* Returns the time by which the member was late; 0 if that is not worth mentioning. */
static uint64_t late_us_of(uint32_t took_us, uint32_t usual_us)
{
    uint64_t late_us = usual_us - pccl_min_u64(usual_us, took_us);
    return late_us >= LATE_US_LEAST && late_us >= usual_us / 5 ? late_us : 0;
}

static void match(const struct pccl_judgment *j, struct rounds *rounds)
{
    uint32_t same = 0;
    for (uint32_t i = 0; i < rounds->stay_count; i += same) {
        const struct stay *stays = &rounds->stays[i];
        for (same = 1; i + same < rounds->stay_count && stays[same].key == stays->key;)
            same++;
        if (same < 2 || 2 * same < j->witnesses->count)
            continue;
        uint32_t middle = same / 2;
        while (middle > 0 && stays[middle - 1].took_us == stays[middle].took_us)
            middle--;
        rounds->all[rounds->count++] = (struct round){.key = stays->key,
                                                      .usual_us = stays[middle].took_us,
                                                      .delayed = late_us_of(stays->took_us, stays[middle].took_us) > 0,
                                                      .enough = pccl_verdicts_are_most(j, same - middle)};
    }
}

static const struct round *find(const struct rounds *rounds, uint64_t key)
{
    uint32_t low = 0, high = rounds->count;
    while (low < high) {
        uint32_t at = low + (high - low) / 2;
        if (rounds->all[at].key < key)
            low = at + 1;
        else
            high = at;
    }
    return low < rounds->count && rounds->all[low].key == key ? &rounds->all[low] : NULL;
}

/* Figures of the latest rounds of one member. */
struct lateness {
    uint32_t late, missed;      /* numbers of delayed rounds in which it was late, and was not */
    uint32_t calm, resting;     /* number of rounds in which no member was late, and those since this one was late */
    uint64_t late_us, usual_us; /* sums */
    uint64_t since_us;          /* time of the report of the first late one */
    bool enough;
};

static void add_round(struct lateness *all, const struct pccl_witness_round *stay, const struct round *round)
{
    uint64_t late_us = late_us_of(stay->took_us, round->usual_us);
    all->calm += !round->delayed;
    all->resting += !round->delayed && all->late == 0;
    all->missed += round->delayed && late_us == 0;
    if (late_us == 0)
        return;
    all->late++;
    all->late_us += late_us;
    all->usual_us += round->usual_us;
    all->since_us = stay->received_us;
    all->enough = all->enough && round->enough;
}

static struct lateness lateness_of(const struct rounds *rounds, const struct pccl_witness *witness)
{
    struct lateness all = {.since_us = witness->received_us, .enough = true};
    for (uint64_t n = witness->round_count; n > witness->round_count - kept(witness) && all.missed <= MISSES_MOST;
         n--) {
        const struct pccl_witness_round *stay = &witness->rounds[(n - 1) % PCCL_WITNESS_ROUNDS];
        const struct round *round = find(rounds, stay->key);
        if (round != NULL)
            add_round(&all, stay, round);
    }
    return all;
}

/*
 * Returns true if the member was late again and again, and still is: since it was last late, no more than twice the
 * usual number of rounds, and three, have passed without a delay.
 */
static bool is_late(const struct lateness *all, const struct pccl_witness *witness)
{
    return all->late >= ROUNDS_LEAST && all->resting * all->late <= 2 * (all->calm - all->resting) + 3 * all->late &&
           20 * all->late_us >= witness->received_us - all->since_us;
}

static void suspect_late(struct pccl_judgment *j, const struct rounds *rounds)
{
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        const struct pccl_witness *witness = j->witnesses->all[i];
        if (witness == NULL || witness->received_us == 0 || pccl_witness_stalled(witness) >= PCCL_STALLED_LEAST)
            continue;
        const struct lateness all = lateness_of(rounds, witness);
        if (!is_late(&all, witness))
            continue;
        struct pccl_text evidence;
        pccl_text_format(&evidence,
                         "it entered %u of the last %u operations later than the others, by %s on average; these "
                         "operations took the others %s",
                         all.late, all.late + all.calm + (all.missed > 0 ? MISSES_MOST : 0),
                         pccl_duration_str(all.late_us / all.late), pccl_duration_str(all.usual_us / all.late));
        pccl_verdicts_suspect_peer(j, PCCL_VERDICT_SLOW_COMPUTATION, &witness->id, all.enough, &evidence);
    }
}

void pccl_verdicts_look_for_late_peers(struct pccl_judgment *j)
{
    uint32_t room = j->witnesses->count * PCCL_WITNESS_ROUNDS;
    struct rounds rounds = {.stays = pccl_allocate(j->memory, room * sizeof *rounds.stays),
                            .all = pccl_allocate(j->memory, room * sizeof *rounds.all)};
    if (rounds.stays != NULL && rounds.all != NULL) {
        collect(j, &rounds);
        match(j, &rounds);
        suspect_late(j, &rounds);
    }
    pccl_release(j->memory, rounds.stays, room * sizeof *rounds.stays);
    pccl_release(j->memory, rounds.all, room * sizeof *rounds.all);
}
