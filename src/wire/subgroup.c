#include "wire/subgroup.h"

#include "core/bytes.h"
#include "core/siphash.h"
#include "wire/cost.h"

#include <string.h>

/* ---- lists and names ---- */

static void sift_down(struct pccl_id *ids, uint32_t from, uint32_t count)
{
    for (uint32_t child; (child = 2 * from + 1) < count; from = child) {
        if (child + 1 < count && pccl_id_compare(&ids[child], &ids[child + 1]) < 0)
            child++;
        if (pccl_id_compare(&ids[from], &ids[child]) >= 0)
            return;
        struct pccl_id id = ids[from];
        ids[from] = ids[child];
        ids[child] = id;
    }
}

void pccl_ids_sort(struct pccl_id *ids, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(ids, i, count);
    for (uint32_t end = count; end-- > 1;) {
        struct pccl_id id = ids[0];
        ids[0] = ids[end];
        ids[end] = id;
        sift_down(ids, 0, end);
    }
}

/* Returns a digest. The bytes are public, so the key may be public, too. */
static uint64_t digest_of(const void *bytes, size_t length)
{
    static const uint8_t key[PCCL_SIPHASH_KEY_BYTES] = "a PCCL subgroup";
    uint8_t digest[PCCL_SIPHASH_BYTES];
    pccl_siphash(key, bytes, length, digest);
    return pccl_get(digest, sizeof(uint64_t));
}

uint64_t pccl_founding_tag(const struct pccl_id *ids, uint32_t count) { return digest_of(ids, count * sizeof *ids); }

uint64_t pccl_subgroup_name(const struct pccl_instance *founding)
{
    uint8_t bytes[28];
    pccl_put(bytes, 8, founding->joint);
    pccl_put(bytes + 8, 8, founding->sync);
    pccl_put(bytes + 16, 8, founding->tag);
    pccl_put(bytes + 24, 4, founding->use);
    uint64_t name = digest_of(bytes, sizeof bytes) & PCCL_FOUNDING / 2;
    return name != 0 ? name : 1;
}

struct pccl_id pccl_founding_id(const struct pccl_bytes *list, uint32_t i)
{
    struct pccl_id id;
    memcpy(&id, list->data + i * sizeof id, sizeof id);
    return id;
}

bool pccl_founding_is_valid(const struct pccl_instance *founding, const struct pccl_bytes *list)
{
    uint32_t count = list->length / (uint32_t)sizeof(struct pccl_id);
    if (count < 2 || count > PCCL_PEERS_MAX || list->length != pccl_founding_bytes(count))
        return false;
    for (uint32_t i = 0; i + 1 < count; i++) {
        struct pccl_id one = pccl_founding_id(list, i), next = pccl_founding_id(list, i + 1);
        if (pccl_id_compare(&one, &next) >= 0)
            return false;
    }
    return digest_of(list->data, list->length) == founding->tag;
}

/* ---- results ---- */

void pccl_founded_put_cost(uint8_t *founded, const struct pccl_cost *cost)
{
    founded[0] = cost->mesh;
    pccl_put(founded + 1, 4, cost->rtt_us);
    pccl_put(founded + 5, 8, cost->rate);
    pccl_put(founded + 13, 4, cost->mesh_rtt_us);
    pccl_put(founded + 17, 8, cost->mesh_rate);
    pccl_put(founded + 25, 8, cost->mesh_share);
}

struct pccl_cost pccl_founded_cost(const struct pccl_bytes *founded)
{
    const uint8_t *at = founded->data;
    const uint32_t count = pccl_founded_count(founded);
    const bool has_hubs = at[0] != 0 && count > PCCL_MESH_PEERS_MAX && count <= PCCL_HUB_PEERS_MAX;
    return (struct pccl_cost){.mesh = at[0] != 0,
                              .rtt_us = (uint32_t)pccl_get(at + 1, 4),
                              .rate = pccl_get(at + 5, 8),
                              .mesh_rtt_us = (uint32_t)pccl_get(at + 13, 4),
                              .mesh_rate = pccl_get(at + 17, 8),
                              .mesh_share = pccl_get(at + 25, 8),
                              .to_hubs = has_hubs ? pccl_all_hubs(count) : 0};
}

void pccl_founded_put_seat(uint8_t *founded, uint32_t rank, const struct pccl_founded_seat *seat)
{
    uint8_t *at = founded + pccl_founded_bytes(rank);
    memcpy(at, &seat->id, sizeof seat->id);
    pccl_put(at + sizeof seat->id, 2, seat->place);
}

struct pccl_founded_seat pccl_founded_seat(const struct pccl_bytes *founded, uint32_t rank)
{
    struct pccl_founded_seat seat;
    const uint8_t *at = founded->data + pccl_founded_bytes(rank);
    memcpy(&seat.id, at, sizeof seat.id);
    seat.place = (uint32_t)pccl_get(at + sizeof seat.id, 2);
    return seat;
}

uint32_t pccl_founded_count(const struct pccl_bytes *founded)
{
    uint32_t count = founded->length < PCCL_FOUNDED_COST_BYTES
                         ? 0
                         : (founded->length - PCCL_FOUNDED_COST_BYTES) / PCCL_FOUNDED_SEAT_BYTES;
    return count <= PCCL_PEERS_MAX && founded->length == pccl_founded_bytes(count) ? count : 0;
}

void pccl_founded_list(const struct pccl_bytes *founded, struct pccl_id *ids)
{
    uint32_t count = pccl_founded_count(founded);
    for (uint32_t rank = 0; rank < count; rank++)
        ids[rank] = pccl_founded_seat(founded, rank).id;
    pccl_ids_sort(ids, count);
}

bool pccl_founded_has_ring(const struct pccl_bytes *founded)
{
    uint64_t taken[PCCL_PEERS_MAX / 64] = {0};
    uint32_t count = pccl_founded_count(founded);
    for (uint32_t rank = 0; rank < count; rank++) {
        uint32_t place = pccl_founded_seat(founded, rank).place;
        if (place >= count || (taken[place / 64] >> place % 64 & 1) != 0)
            return false;
        taken[place / 64] |= UINT64_C(1) << place % 64;
    }
    return true;
}
