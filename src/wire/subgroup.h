/*
 * Subgroups (PROTOCOL 15) and pairs (16): how they are named, and what a founding carries. The name
 * of one binds its members, so nobody can give it others: it is a digest of the name of the
 * operation that founded it, whose tag is a digest of the list; or the numbers of a pair.
 */
#ifndef PCCL_WIRE_SUBGROUP_H
#define PCCL_WIRE_SUBGROUP_H

#include "wire/wire.h"

/* ---- pairs: they need no founding, and the name identifies the members (PROTOCOL 16); 0: no pair ---- */

#define PCCL_PAIR_NUMBER_MAX UINT32_MAX

/*
 * In the place of a pair's name, at a peer alone and never on the wire: of a receive from anybody for which nobody is
 * chosen yet. No pair has this name, since no peer sends to itself.
 */
#define PCCL_OPEN_PAIR UINT64_MAX

/* Returns the name for these numbers of admission, each from 1 to PCCL_PAIR_NUMBER_MAX. */
static inline uint64_t pccl_pair_name(uint64_t source, uint64_t destination) { return source << 32 | destination; }
static inline uint64_t pccl_pair_source(uint64_t name) { return name >> 32; }
static inline uint64_t pccl_pair_destination(uint64_t name) { return name & PCCL_PAIR_NUMBER_MAX; }

/* ---- subgroups that are founded ---- */

/* The contribution of each member to a founding: the list, ascending by id. */
static inline uint32_t pccl_founding_bytes(uint32_t count) { return count * (uint32_t)sizeof(struct pccl_id); }
/* The result of a founding, which all members keep. */
static inline uint32_t pccl_founded_bytes(uint32_t count)
{
    return PCCL_FOUNDED_COST_BYTES + count * PCCL_FOUNDED_SEAT_BYTES;
}

/* Sorts ids: ascending. */
void pccl_ids_sort(struct pccl_id *ids, uint32_t count);
/* The tag of the founding by this list, which is ascending. */
uint64_t pccl_founding_tag(const struct pccl_id *ids, uint32_t count);
/* Returns the name of the subgroup that this operation founds: not 0, and below 2^63. */
uint64_t pccl_subgroup_name(const struct pccl_instance *founding);
/*
 * Is this what a member may contribute to this founding: a list of 2 or more, ascending, whose tag
 * is the operation's?
 */
PCCL_MUST_CHECK bool pccl_founding_is_valid(const struct pccl_instance *founding, const struct pccl_bytes *list);
/* Reads id i of a list in a payload. */
struct pccl_id pccl_founding_id(const struct pccl_bytes *list, uint32_t i);

/* One member in the result of a founding. */
struct pccl_founded_seat {
    struct pccl_id id;
    uint32_t place; /* in the ring of the subgroup */
};

/* Writes pccl_founded_bytes(count) bytes, piece by piece: rank is the place in canonical order. */
void pccl_founded_put_cost(uint8_t *founded, const struct pccl_cost *cost);
void pccl_founded_put_seat(uint8_t *founded, uint32_t rank, const struct pccl_founded_seat *seat);
/* Reads them. */
struct pccl_cost pccl_founded_cost(const struct pccl_bytes *founded);
struct pccl_founded_seat pccl_founded_seat(const struct pccl_bytes *founded, uint32_t rank);
/* How many members a result of this length is of; 0: it has a length that none has. */
uint32_t pccl_founded_count(const struct pccl_bytes *founded);
/* Its members, ascending by id, as the list that the founding was launched with. */
void pccl_founded_list(const struct pccl_bytes *founded, struct pccl_id *ids);
/* Each member has a place of its own in the ring. */
bool pccl_founded_has_ring(const struct pccl_bytes *founded);

#endif
