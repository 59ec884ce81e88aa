#include "core/turns.h"

static uint16_t site_of(const struct pccl_turns *turns, const struct pccl_address *from)
{
    enum { SHIFT = 54 };
    _Static_assert(UINT64_C(1) << (64 - SHIFT) == PCCL_TURNS_SITES, "a place for each");
    return (uint16_t)pccl_hash_place(turns->hash, pccl_address_site(turns->hash, from), SHIFT);
}

/* ---- sites by their number of entries ---- */

static void join_count(struct pccl_turns *turns, uint16_t place)
{
    struct pccl_turns_site *site = &turns->sites[place];
    uint16_t *first = &turns->with[site->count];
    site->lighter = site->heavier = place;
    if (*first != 0) {
        struct pccl_turns_site *other = &turns->sites[*first - 1];
        site->lighter = (uint16_t)(*first - 1);
        site->heavier = other->heavier;
        turns->sites[other->heavier].lighter = place;
        other->heavier = place;
    }
    *first = (uint16_t)(place + 1);
    if (site->count > turns->most)
        turns->most = site->count;
}

static void leave_count(struct pccl_turns *turns, uint16_t place)
{
    struct pccl_turns_site *site = &turns->sites[place];
    uint16_t *first = &turns->with[site->count];
    bool alone = site->lighter == place;
    turns->sites[site->lighter].heavier = site->heavier;
    turns->sites[site->heavier].lighter = site->lighter;
    if (*first == place + 1)
        *first = alone ? 0 : (uint16_t)(site->lighter + 1);
}

/* Changes the number of entries of a site by one. */
static void count_site(struct pccl_turns *turns, uint16_t place, bool up)
{
    struct pccl_turns_site *site = &turns->sites[place];
    if (site->count > 0)
        leave_count(turns, place);
    site->count = (uint16_t)(up ? site->count + 1 : site->count - 1);
    if (site->count > 0)
        join_count(turns, place);
    if (turns->with[turns->most] == 0) /* the only site with the most has lost one */
        turns->most = site->count;
}

/* ---- sites with entries, in the order of their turns ---- */

/* Gives a site the last turn. */
static void join_ring(struct pccl_turns *turns, uint16_t place)
{
    struct pccl_turns_site *site = &turns->sites[place], *at = &turns->sites[turns->at];
    if (turns->count == 0) {
        turns->at = site->next = site->previous = place;
        return;
    }
    site->next = turns->at;
    site->previous = at->previous;
    turns->sites[at->previous].next = place;
    at->previous = place;
}

static void leave_ring(struct pccl_turns *turns, uint16_t place)
{
    struct pccl_turns_site *site = &turns->sites[place];
    turns->sites[site->next].previous = site->previous;
    turns->sites[site->previous].next = site->next;
    if (turns->at == place)
        turns->at = site->next;
}

/* ---- entries ---- */

void pccl_turns_add(struct pccl_turns *turns, struct pccl_turn *turn, const struct pccl_address *from)
{
    PCCL_ASSERT(turns->count < PCCL_TURNS_MAX);
    turn->site = site_of(turns, from);
    struct pccl_turns_site *site = &turns->sites[turn->site];
    if (site->count == 0)
        join_ring(turns, turn->site);
    turn->newer = NULL;
    turn->older = site->newest;
    if (site->newest)
        site->newest->newer = turn;
    else
        site->oldest = turn;
    site->newest = turn;
    turns->count++;
    count_site(turns, turn->site, true);
}

void pccl_turns_remove(struct pccl_turns *turns, struct pccl_turn *turn)
{
    struct pccl_turns_site *site = &turns->sites[turn->site];
    if (turn->older)
        turn->older->newer = turn->newer;
    else
        site->oldest = turn->newer;
    if (turn->newer)
        turn->newer->older = turn->older;
    else
        site->newest = turn->older;
    turns->count--;
    count_site(turns, turn->site, false);
    if (site->count == 0)
        leave_ring(turns, turn->site);
}

struct pccl_turn *pccl_turns_take(struct pccl_turns *turns)
{
    if (turns->count == 0)
        return NULL;
    struct pccl_turn *turn = turns->sites[turns->at].oldest;
    turns->at = turns->sites[turns->at].next;
    pccl_turns_remove(turns, turn);
    return turn;
}

struct pccl_turn *pccl_turns_most_crowded(const struct pccl_turns *turns)
{
    return turns->count > 0 ? turns->sites[turns->with[turns->most] - 1].oldest : NULL;
}
