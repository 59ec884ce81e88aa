/*
 * Subgroups (PROTOCOL 15) and pairs (16): their names, and the payload of a founding. A name determines the members, so
 * other members cannot use it. The name of a subgroup is a digest of the operation that created it, and the tag of that
 * operation is a digest of the member list. The name of a pair contains the admission numbers of both members.
 */
#ifndef PCCL_WIRE_SUBGROUP_H
#define PCCL_WIRE_SUBGROUP_H

#include "wire/wire.h"

/* ---- pairs (PROTOCOL 16): not created explicitly, because the name contains the members; 0: no pair ---- */

#define PCCL_PAIR_NUMBER_MAX UINT32_MAX

/*
 * Used inside a peer in place of a pair's name, and never sent: a receive from any sender for which no sender has been
 * chosen yet. It cannot be the name of a pair, because no peer sends to itself.
 */
#define PCCL_OPEN_PAIR UINT64_MAX

/* Returns the name of the pair with these admission numbers, each from 1 to PCCL_PAIR_NUMBER_MAX. */
static inline uint64_t pccl_pair_name(uint64_t source, uint64_t destination) { return source << 32 | destination; }
static inline uint64_t pccl_pair_source(uint64_t name) { return name >> 32; }
static inline uint64_t pccl_pair_destination(uint64_t name) { return name & PCCL_PAIR_NUMBER_MAX; }

/* ---- founded subgroups ---- */

/* Returns the size of a member's contribution to a founding, which is the member list, sorted by id. */
static inline uint32_t pccl_founding_bytes(uint32_t count) { return count * (uint32_t)sizeof(struct pccl_id); }
/* Returns the size of the result of a founding, which all members keep. */
static inline uint32_t pccl_founded_bytes(uint32_t count)
{
    return PCCL_FOUNDED_COST_BYTES + count * PCCL_FOUNDED_SEAT_BYTES;
}

/* Sorts ids in ascending order. */
void pccl_ids_sort(struct pccl_id *ids, uint32_t count);
/* Returns the tag of the founding for this sorted list. */
uint64_t pccl_founding_tag(const struct pccl_id *ids, uint32_t count);
/* Returns the name of the subgroup that this operation creates. It is not 0 and is below 2^63. */
uint64_t pccl_subgroup_name(const struct pccl_instance *founding);
/*
 * Returns true if a member may contribute this list to the founding: it must be sorted, have at least two members, and
 * match the operation's tag.
 */
PCCL_MUST_CHECK bool pccl_founding_is_valid(const struct pccl_instance *founding, const struct pccl_bytes *list);
/* Returns the i-th id of a list in a payload. */
struct pccl_id pccl_founding_id(const struct pccl_bytes *list, uint32_t i);

/* One member in the result of a founding. */
struct pccl_founded_seat {
    struct pccl_id id;
    uint32_t place; /* position in the ring of the subgroup */
};

/* Write parts of a result, which has pccl_founded_bytes(count) bytes. rank: position in canonical order. */
void pccl_founded_put_cost(uint8_t *founded, const struct pccl_cost *cost);
void pccl_founded_put_seat(uint8_t *founded, uint32_t rank, const struct pccl_founded_seat *seat);
/* Read parts of a result. */
struct pccl_cost pccl_founded_cost(const struct pccl_bytes *founded);
struct pccl_founded_seat pccl_founded_seat(const struct pccl_bytes *founded, uint32_t rank);
/* Returns the number of members in a result of this length, or 0 if the length is invalid. */
uint32_t pccl_founded_count(const struct pccl_bytes *founded);
/* Lists the members sorted by id, which is the list with which the founding was launched. */
void pccl_founded_list(const struct pccl_bytes *founded, struct pccl_id *ids);
/* Returns true if all members have different positions in the ring. */
bool pccl_founded_has_ring(const struct pccl_bytes *founded);

#endif
