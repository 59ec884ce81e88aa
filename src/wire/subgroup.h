/*
 * Subgroups (PROTOCOL 15) and pairs (16): their names, and the payload of a founding. A name binds its members, so that
 * it cannot be used for others: it is a digest of the name of the operation that founded it, whose tag is a digest of
 * the list; or the numbers of a pair.
 */
#ifndef PCCL_WIRE_SUBGROUP_H
#define PCCL_WIRE_SUBGROUP_H

#include "wire/wire.h"

/* ---- pairs: they need no founding, and the name identifies the members (PROTOCOL 16); 0: no pair ---- */

#define PCCL_PAIR_NUMBER_MAX UINT32_MAX

/*
 * In place of a pair's name, only within a peer and never on the wire: a receive from any sender whose sender is not
 * chosen yet. No pair has this name, since no peer sends to itself.
 */
#define PCCL_OPEN_PAIR UINT64_MAX

/* Returns the name for these numbers of admission, each from 1 to PCCL_PAIR_NUMBER_MAX. */
static inline uint64_t pccl_pair_name(uint64_t source, uint64_t destination) { return source << 32 | destination; }
static inline uint64_t pccl_pair_source(uint64_t name) { return name >> 32; }
static inline uint64_t pccl_pair_destination(uint64_t name) { return name & PCCL_PAIR_NUMBER_MAX; }

/* ---- founded subgroups ---- */

/* Returns the size of a member's contribution to a founding: the list, ascending by id. */
static inline uint32_t pccl_founding_bytes(uint32_t count) { return count * (uint32_t)sizeof(struct pccl_id); }
/* Returns the size of a founding's result, which all members keep. */
static inline uint32_t pccl_founded_bytes(uint32_t count)
{
    return PCCL_FOUNDED_COST_BYTES + count * PCCL_FOUNDED_SEAT_BYTES;
}

/* Sorts ids in ascending order. */
void pccl_ids_sort(struct pccl_id *ids, uint32_t count);
/* Returns the tag of the founding with this ascending list. */
uint64_t pccl_founding_tag(const struct pccl_id *ids, uint32_t count);
/* Returns the name of the subgroup that this operation founds: not 0, and below 2^63. */
uint64_t pccl_subgroup_name(const struct pccl_instance *founding);
/*
 * Returns true if a member may contribute this to the founding: an ascending list of 2 or more, whose tag is the
 * operation's.
 */
PCCL_MUST_CHECK bool pccl_founding_is_valid(const struct pccl_instance *founding, const struct pccl_bytes *list);
/* Reads id i of a list in a payload. */
struct pccl_id pccl_founding_id(const struct pccl_bytes *list, uint32_t i);

/* One member in the result of a founding. */
struct pccl_founded_seat {
    struct pccl_id id;
    uint32_t place; /* in the ring of the subgroup */
};

/* Write the pccl_founded_bytes(count) bytes, piece by piece. rank: place in canonical order. */
void pccl_founded_put_cost(uint8_t *founded, const struct pccl_cost *cost);
void pccl_founded_put_seat(uint8_t *founded, uint32_t rank, const struct pccl_founded_seat *seat);
/* Read them. */
struct pccl_cost pccl_founded_cost(const struct pccl_bytes *founded);
struct pccl_founded_seat pccl_founded_seat(const struct pccl_bytes *founded, uint32_t rank);
/* Returns the number of members in a result of this length; 0 if the length is invalid. */
uint32_t pccl_founded_count(const struct pccl_bytes *founded);
/* Lists the members by ascending id: the list with which the founding was launched. */
void pccl_founded_list(const struct pccl_bytes *founded, struct pccl_id *ids);
/* Returns true if each member has a different place in the ring. */
bool pccl_founded_has_ring(const struct pccl_bytes *founded);

#endif
