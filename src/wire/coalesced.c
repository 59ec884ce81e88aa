#include "wire/coalesced.h"

#include "core/bytes.h"
#include "kernels/reduce.h"

enum { COUNT_AT = 2, COUNT_BYTES = 6 };

uint64_t pccl_section_bytes(const struct pccl_section *section)
{
    return pccl_round_up(section->count * pccl_datatype_bytes((enum pccl_datatype)section->datatype),
                         PCCL_SECTION_BYTES);
}

uint64_t pccl_sections_table_bytes(uint32_t count) { return (count + UINT64_C(1)) * PCCL_SECTION_BYTES; }

void pccl_sections_write(const struct pccl_section *sections, uint32_t count, uint8_t *table)
{
    pccl_put(table, PCCL_SECTION_BYTES, count);
    for (uint32_t i = 0; i < count; i++) {
        table += PCCL_SECTION_BYTES;
        table[0] = sections[i].datatype;
        table[1] = sections[i].operation;
        pccl_put(table + COUNT_AT, COUNT_BYTES, sections[i].count);
    }
}

uint32_t pccl_sections_count(const uint8_t *bytes) { return (uint32_t)pccl_get(bytes, PCCL_SECTION_BYTES); }

struct pccl_section pccl_sections_read(const uint8_t *bytes, uint32_t index)
{
    const uint8_t *at = bytes + pccl_sections_table_bytes(index);
    return (struct pccl_section){at[0], at[1], pccl_get(at + COUNT_AT, COUNT_BYTES)};
}

static bool is_reducible(const struct pccl_section *section)
{
    return section->count > 0 && section->datatype < PCCL_DATATYPES && section->operation < PCCL_REDUCE_OPS &&
           pccl_reduction_misfit((enum pccl_datatype)section->datatype, (enum pccl_reduce_op)section->operation) ==
               NULL;
}

bool pccl_sections_are_valid(const struct pccl_bytes *bytes)
{
    if (bytes->length < PCCL_SECTION_BYTES)
        return false;
    uint64_t count = pccl_get(bytes->data, PCCL_SECTION_BYTES);
    if (count == 0 || count >= bytes->length / PCCL_SECTION_BYTES)
        return false;
    uint64_t rest = bytes->length - pccl_sections_table_bytes((uint32_t)count);
    for (uint32_t i = 0; i < count; i++) {
        struct pccl_section section = pccl_sections_read(bytes->data, i);
        if (!is_reducible(&section) || pccl_section_bytes(&section) > rest)
            return false;
        rest -= pccl_section_bytes(&section);
    }
    return rest == 0;
}
