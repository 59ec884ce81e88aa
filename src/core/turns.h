/*
 * Queue in which addresses take turns: the oldest entry of the next address is taken. It also tracks the address with
 * the most entries, so that the owner can drop entries of that address. Every function takes constant time. Pure
 * functions; the owner allocates the entries.
 */
#ifndef PCCL_CORE_TURNS_H
#define PCCL_CORE_TURNS_H

#include "core/address.h"
#include "core/list.h"

enum {
    PCCL_TURNS_SITES = 1 << 10, /* addresses that hash to the same slot count as one */
    PCCL_TURNS_MAX = 4096,
};

struct pccl_turn {
    struct pccl_list_node node; /* node in the entries of its site */
    uint16_t site;
};

struct pccl_turns_site {
    struct pccl_list_node entries; /* oldest first */
    struct pccl_list_node in_order;
    uint16_t count;
    uint16_t lighter, heavier; /* neighbors in the ring of sites with the same count */
};

struct pccl_turns {
    const struct pccl_hash_key *hash;
    uint32_t count;
    struct pccl_list_node order;       /* sites with entries; the first one has the next turn */
    uint16_t most;                     /* largest count of any site */
    uint16_t with[PCCL_TURNS_MAX + 1]; /* for each count, 1 + a site with that count; 0: no site */
    struct pccl_turns_site sites[PCCL_TURNS_SITES];
};

/* Initializes a zeroed struct. */
void pccl_turns_init(struct pccl_turns *turns, const struct pccl_hash_key *hash);
void pccl_turns_add(struct pccl_turns *turns, struct pccl_turn *turn, const struct pccl_address *from);
void pccl_turns_remove(struct pccl_turns *turns, struct pccl_turn *turn);
/* Removes and returns the entry whose turn it is, or NULL. */
struct pccl_turn *pccl_turns_take(struct pccl_turns *turns);
/* Returns the oldest entry of the site with the most entries, or NULL. */
struct pccl_turn *pccl_turns_most_crowded(const struct pccl_turns *turns);

#endif
