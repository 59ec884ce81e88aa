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
    if (turns->with[turns->most] == 0) /* the only site with the largest count has lost an entry */
        turns->most = site->count;
}

/* ---- entries ---- */

void pccl_turns_init(struct pccl_turns *turns, const struct pccl_hash_key *hash)
{
    turns->hash = hash;
    pccl_list_init(&turns->order);
    for (uint32_t i = 0; i < PCCL_TURNS_SITES; i++)
        pccl_list_init(&turns->sites[i].entries);
}

void pccl_turns_add(struct pccl_turns *turns, struct pccl_turn *turn, const struct pccl_address *from)
{
    PCCL_ASSERT(turns->count < PCCL_TURNS_MAX);
    turn->site = site_of(turns, from);
    struct pccl_turns_site *site = &turns->sites[turn->site];
    if (site->count == 0)
        pccl_list_append(&turns->order, &site->in_order);
    pccl_list_append(&site->entries, &turn->node);
    turns->count++;
    count_site(turns, turn->site, true);
}

void pccl_turns_remove(struct pccl_turns *turns, struct pccl_turn *turn)
{
    struct pccl_turns_site *site = &turns->sites[turn->site];
    pccl_list_remove(&turn->node);
    turns->count--;
    count_site(turns, turn->site, false);
    if (site->count == 0)
        pccl_list_remove(&site->in_order);
}

static struct pccl_turn *oldest(const struct pccl_turns_site *site)
{
    return PCCL_CONTAINER_OF(site->entries.next, struct pccl_turn, node);
}

struct pccl_turn *pccl_turns_take(struct pccl_turns *turns)
{
    if (turns->count == 0)
        return NULL;
    struct pccl_turns_site *site = PCCL_CONTAINER_OF(turns->order.next, struct pccl_turns_site, in_order);
    struct pccl_turn *turn = oldest(site);
    pccl_list_remove(&site->in_order);
    pccl_list_append(&turns->order, &site->in_order);
    pccl_turns_remove(turns, turn);
    return turn;
}

struct pccl_turn *pccl_turns_most_crowded(const struct pccl_turns *turns)
{
    return turns->count > 0 ? oldest(&turns->sites[turns->with[turns->most] - 1]) : NULL;
}
