/*
 * Finds the cheapest successors: cycles with the smallest total latency that cover all members (the assignment problem,
 * solved by shortest augmenting paths with prices). No ring is cheaper. If round trips differ by direction, joining
 * these cycles gives a good ring.
 */
#include "topology/internal.h"

#define NO_MEMBER PCCL_SOLVE_NO_MEMBER

static int64_t price_of(const struct pccl_assign *assign, uint32_t from, uint32_t to)
{
    uint32_t known = assign->costs[(size_t)from * assign->count + to];
    return (known == PCCL_TOUR_BANNED ? PCCL_TOUR_BANNED_COST : (int64_t)known) - assign->prices[to];
}

/* Sets initial prices with which many members can be assigned their cheapest successor. */
static void begin(struct pccl_assign *assign, struct pccl_cover *cover)
{
    uint32_t count = assign->count;
    for (uint32_t to = 0; to < count; to++) {
        assign->prices[to] = INT64_MAX;
        cover->next[to] = cover->before[to] = NO_MEMBER;
    }
    for (uint32_t from = 0; from < count; from++) {
        const uint32_t *row = assign->costs + (size_t)from * count;
        for (uint32_t to = 0; to < count; to++) {
            int64_t here = row[to] == PCCL_TOUR_BANNED ? PCCL_TOUR_BANNED_COST : (int64_t)row[to];
            assign->prices[to] = here < assign->prices[to] ? here : assign->prices[to];
        }
    }
    for (uint32_t from = 0; from < count; from++) {
        int64_t least = INT64_MAX;
        for (uint32_t to = 0; to < count; to++) {
            int64_t here = price_of(assign, from, to);
            least = here < least ? here : least;
        }
        for (uint32_t to = 0; to < count && cover->next[from] == NO_MEMBER; to++) {
            if (cover->before[to] == NO_MEMBER && price_of(assign, from, to) == least) {
                cover->next[from] = to;
                cover->before[to] = from;
            }
        }
    }
    (void)pccl_solve_spend(cover->work, 3 * (uint64_t)count * count);
}

/*
 * Assigns a successor to `start`, which has none, along the cheapest alternating path. reached[to] is the cost of the
 * cheapest path to `to`; `waiting` contains the finished members first, then the others.
 */
static bool augment(struct pccl_assign *assign, struct pccl_cover *cover, uint32_t start)
{
    PCCL_ASSERT(cover->next[start] == NO_MEMBER);
    uint32_t count = assign->count, done = 0, end = NO_MEMBER, member = start;
    uint32_t *waiting = cover->queue, *parent = cover->from;
    int64_t so_far = 0, own = 0;
    for (uint32_t to = 0; to < count; to++) {
        assign->reached[to] = INT64_MAX;
        waiting[to] = to;
    }
    while (end == NO_MEMBER) {
        /* Extends the paths from `member`, whose present successor, if it has one, is the end of a cheapest path. */
        if (member != start)
            own = price_of(assign, member, cover->next[member]);
        uint32_t best = done;
        for (uint32_t k = done; k < count; k++) {
            uint32_t to = waiting[k];
            int64_t here = so_far + price_of(assign, member, to) - own;
            if (here < assign->reached[to]) {
                assign->reached[to] = here;
                parent[to] = member;
            }
            if (assign->reached[to] < assign->reached[waiting[best]])
                best = k;
        }
        uint32_t next = waiting[best];
        waiting[best] = waiting[done];
        waiting[done++] = next;
        so_far = assign->reached[next];
        member = cover->before[next];
        if (member == NO_MEMBER)
            end = next;
        if (!pccl_solve_spend(cover->work, count - done + 1))
            return false;
    }
    for (uint32_t k = 0; k < done; k++)
        assign->prices[waiting[k]] += assign->reached[waiting[k]] - so_far;
    for (uint32_t to = end, owner = NO_MEMBER; owner != start;) {
        owner = parent[to];
        uint32_t given_up = cover->next[owner];
        cover->next[owner] = to;
        cover->before[to] = owner;
        to = given_up;
    }
    return true;
}

bool pccl_assign(struct pccl_assign *assign, struct pccl_cover *cover, uint64_t *latency_us)
{
    begin(assign, cover);
    for (uint32_t member = 0; member < assign->count; member++)
        if (cover->next[member] == NO_MEMBER && !augment(assign, cover, member))
            return false;
    *latency_us = 0;
    for (uint32_t member = 0; member < assign->count; member++)
        *latency_us += assign->costs[(size_t)member * assign->count + cover->next[member]];
    return true;
}
