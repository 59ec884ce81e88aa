/*
 * A coalesced all-reduce is of several tensors. Neighbors in its list that have the same type and are
 * reduced alike form a section, which is reduced like one tensor. Peers compare a digest of the list.
 *
 * A tiny one contributes its sections and then their elements, so that the master can reduce them:
 * the number of sections in 8 bytes; of each the type, the reduction and, in 6 bytes, the count; then the
 * elements of each, padded to a multiple of 8 bytes. The result is alike. `count` of the descriptor says
 * how long all this is, in bytes, whether it is sent or not, and its type is u8.
 */
#ifndef PCCL_WIRE_COALESCED_H
#define PCCL_WIRE_COALESCED_H

#include "wire/wire.h"

enum { PCCL_SECTION_BYTES = 8 }; /* of one in the table; elements begin at multiples of it */

struct pccl_section {
    uint8_t datatype, operation;
    uint64_t count; /* elements */
};

uint64_t pccl_section_bytes(const struct pccl_section *section); /* of its elements, padded */
/* Where the elements of the first section begin. */
uint64_t pccl_sections_table_bytes(uint32_t count);
/* table: of pccl_sections_table_bytes. */
void pccl_sections_write(const struct pccl_section *sections, uint32_t count, uint8_t *table);
/* What was written so; only of bytes that are valid. */
uint32_t pccl_sections_count(const uint8_t *bytes);
struct pccl_section pccl_sections_read(const uint8_t *bytes, uint32_t index);
/* Whether these are sections, which can be reduced, and their elements, and nothing else. */
PCCL_MUST_CHECK bool pccl_sections_are_valid(const struct pccl_bytes *bytes);

#endif
