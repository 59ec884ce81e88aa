/*
 * Tiny operations, whose data passes through the master (PROTOCOL 5.8): checks the contributions and computes the
 * results.
 */
#include "master/operations_internal.h"
#include "core/bytes.h"
#include "wire/coalesced.h"
#include "wire/subgroup.h"
#include "wire/tiny.h"

#include <string.h>

static bool is_founder(const struct pccl_msg_done *done, const struct pccl_remote *from)
{
    for (uint32_t i = 0; i < done->descriptor.count; i++) {
        struct pccl_id id = pccl_founding_id(&done->payload, i);
        if (pccl_id_equal(&id, &from->id))
            return true;
    }
    return false;
}

/* Returns true if the descriptor and the name of a send agree on whether this member is the source. */
static bool fits_pair(const struct pccl_msg_done *done, const struct pccl_remote *from)
{
    bool is_source = pccl_pair_source(done->instance.pair) == from->admitted;
    return pccl_id_equal(&done->descriptor.root, &from->id) == is_source;
}

bool pccl_master_contribution_fits(const struct pccl_msg_done *done, const struct pccl_remote *from, uint32_t world,
                                   uint32_t most)
{
    bool is_root = pccl_id_equal(&done->descriptor.root, &from->id);
    if (done->descriptor.collective == PCCL_SEND && !fits_pair(done, from))
        return false;
    if (done->tiny == 0)
        return true;
    if (!pccl_tiny_contribution_fits(&done->descriptor, world, is_root, &done->payload, most))
        return false;
    return done->descriptor.collective != PCCL_FOUND ||
           (pccl_founding_is_valid(&done->instance, &done->payload) && is_founder(done, from));
}

void pccl_master_free_result(struct pccl_master *m, struct pccl_operation *op)
{
    pccl_release(&m->memory, op->result, op->result_bytes);
    op->result = NULL;
    op->result_bytes = 0;
    op->combined = false;
}

/* Allocates the result. Returns false if out of memory. */
static bool make_result(struct pccl_master *m, struct pccl_operation *op, uint32_t bytes)
{
    PCCL_ASSERT(op->tiny && !op->combined);
    op->result = bytes > 0 ? pccl_allocate(&m->memory, bytes) : NULL;
    op->combined = bytes == 0 || op->result != NULL;
    op->result_bytes = op->combined ? bytes : 0;
    return op->combined;
}

bool pccl_master_set_result(struct pccl_master *m, struct pccl_operation *op, const struct pccl_bytes *result)
{
    if (!make_result(m, op, result->length))
        return false;
    if (op->result != NULL)
        memcpy(op->result, result->data, result->length);
    return true;
}

static void fold(struct pccl_master *m, const struct pccl_operation *op, const void **parts, uint32_t count,
                 uint8_t *result)
{
    const enum pccl_datatype datatype = (enum pccl_datatype)op->descriptor.datatype;
    const enum pccl_reduce_op reduction = (enum pccl_reduce_op)op->descriptor.operation;
    if (count == 0)
        pccl_fill_identity(datatype, reduction, (size_t)op->descriptor.count, result);
    else
        pccl_combine_all(m->config.kernels, datatype, reduction, parts, count, (size_t)op->descriptor.count, result);
}

/*
 * Reduces section by section, using the table of sections in the first part. All parts have the same length, so a false
 * table can only spoil the sums, as false data from its sender could.
 */
static void fold_sections(struct pccl_master *m, const struct pccl_operation *op, const void **parts)
{
    const uint8_t *table = parts[0];
    const uint32_t count = pccl_sections_count(table);
    size_t from = 0, at = (size_t)pccl_sections_table_bytes(count);
    memcpy(op->result, table, op->result_bytes); /* including the bytes between sections */
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_section section = pccl_sections_read(table, i);
        PCCL_ASSERT(at + pccl_section_bytes(&section) <= op->result_bytes);
        for (uint32_t part = 0; part < op->part_count; part++)
            parts[part] = (const uint8_t *)parts[part] + at - from;
        pccl_combine_all(m->config.kernels, (enum pccl_datatype)section.datatype,
                         (enum pccl_reduce_op)section.operation, parts, op->part_count, (size_t)section.count,
                         op->result + at);
        from = at;
        at += (size_t)pccl_section_bytes(&section);
    }
}

static uint32_t seat_at(const struct pccl_participants *all, uint32_t place)
{
    return all->ring != NULL ? all->ring[place] : place;
}

static uint32_t rank_of(const struct pccl_participants *all, uint32_t seat)
{
    return all->ranks != NULL ? all->ranks[seat] : all->members[seat]->rank;
}

/* Reduces whole inputs in ring order. Also used for shares of given sizes, because only the members know the sizes. */
static void reduce(struct pccl_master *m, const struct pccl_participants *all, const struct pccl_operation *op,
                   const void **parts)
{
    for (uint32_t i = 0; i < op->part_count; i++) {
        const struct pccl_part *part = &op->parts[seat_at(all, i)];
        PCCL_ASSERT(part->payload_bytes == op->result_bytes);
        parts[i] = part->payload;
    }
    if (pccl_collective(op->descriptor.collective)->of == PCCL_OF_TENSORS)
        fold_sections(m, op, parts);
    else
        fold(m, op, parts, op->part_count, op->result);
}

/* Reduces each member's share in ring order, from its successor to the member itself, as peers do (PROTOCOL 7.8). */
static void reduce_shares(struct pccl_master *m, const struct pccl_participants *all, const struct pccl_operation *op,
                          const void **parts)
{
    size_t bytes = op->result_bytes / op->part_count;
    PCCL_ASSERT(bytes * op->part_count == op->result_bytes);
    for (uint32_t i = 0; i < op->part_count; i++)
        PCCL_ASSERT(op->parts[i].payload_bytes == op->result_bytes);
    for (uint32_t owner = 0; owner < op->part_count; owner++) {
        size_t at = rank_of(all, seat_at(all, owner)) * bytes;
        for (uint32_t i = 0; i < op->part_count; i++)
            parts[i] = op->parts[seat_at(all, (owner + 1 + i) % op->part_count)].payload + at;
        fold(m, op, parts, op->part_count, op->result + at);
    }
}

/* For each member, reduces the parts of the members before it and, in an inclusive scan, its own part. */
static void scan(struct pccl_master *m, const struct pccl_participants *all, const struct pccl_operation *op,
                 const void **parts)
{
    const bool inclusive = pccl_collective(op->descriptor.collective)->scan == PCCL_INCLUSIVE;
    const size_t bytes = op->result_bytes / op->part_count;
    for (uint32_t i = 0; i < op->part_count; i++) {
        PCCL_ASSERT(op->parts[i].payload_bytes == bytes);
        parts[rank_of(all, i)] = op->parts[i].payload;
    }
    for (uint32_t rank = 0; rank < op->part_count; rank++)
        fold(m, op, parts, rank + inclusive, op->result + rank * bytes);
}

/* Concatenates the contributions in canonical order. A blob is preceded by its length. */
static void gather(const struct pccl_participants *all, const struct pccl_operation *op, const void **parts)
{
    bool lengths = pccl_collective_is_of_blobs(op->descriptor.collective);
    uint8_t *at = op->result;
    for (uint32_t i = 0; i < op->part_count; i++)
        parts[rank_of(all, i)] = &op->parts[i];
    for (uint32_t i = 0; i < op->part_count; i++) {
        const struct pccl_part *part = parts[i];
        if (lengths) {
            pccl_put(at, PCCL_TINY_LENGTH_BYTES, part->payload_bytes);
            at += PCCL_TINY_LENGTH_BYTES;
        }
        if (part->payload_bytes > 0)
            memcpy(at, part->payload, part->payload_bytes);
        at += part->payload_bytes;
    }
    PCCL_ASSERT(at == op->result + op->result_bytes);
}

/*
 * Returns the size of the result: one part for a reduction; all parts for a gather, with lengths if these may differ.
 */
static uint32_t result_bytes_of(const struct pccl_operation *op)
{
    const enum pccl_tiny_kind kind = pccl_tiny_kind(&op->descriptor);
    if (kind == PCCL_TINY_REDUCTION || kind == PCCL_TINY_SHARES)
        return op->parts[0].payload_bytes;
    bool lengths = pccl_collective_is_of_blobs(op->descriptor.collective);
    uint32_t bytes = lengths ? PCCL_TINY_LENGTH_BYTES * op->part_count : 0;
    for (uint32_t i = 0; i < op->part_count; i++)
        bytes += op->parts[i].payload_bytes;
    return bytes;
}

static void make(struct pccl_master *m, const struct pccl_participants *all, const struct pccl_operation *op,
                 const void **parts)
{
    switch (pccl_tiny_kind(&op->descriptor)) {
    case PCCL_TINY_CONTRIBUTIONS: gather(all, op, parts); break;
    case PCCL_TINY_REDUCTION: reduce(m, all, op, parts); break;
    case PCCL_TINY_SHARES: reduce_shares(m, all, op, parts); break;
    case PCCL_TINY_SCANS: scan(m, all, op, parts); break;
    case PCCL_TINY_GROUP: break; /* see combine_founding */
    }
}

static bool combine_founding(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op)
{
    if (make_result(m, op, pccl_founded_bytes(op->part_count)) && pccl_master_found(m, group, op))
        return true;
    pccl_master_free_result(m, op);
    return false;
}

bool pccl_master_combine(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op)
{
    struct pccl_participants all = pccl_master_participants(group, op);
    PCCL_ASSERT(op->part_count > 0 && op->done_count == op->part_count && op->part_count == all.count);
    if (op->descriptor.collective == PCCL_FOUND)
        return combine_founding(m, group, op);
    size_t bytes = op->part_count * sizeof(void *);
    const void **parts = pccl_allocate(&m->memory, bytes);
    bool made = parts != NULL && make_result(m, op, result_bytes_of(op));
    if (made && op->result != NULL) /* the result of a barrier is empty */
        make(m, &all, op, parts);
    pccl_release(&m->memory, parts, bytes);
    return made;
}
