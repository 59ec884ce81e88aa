/*
 * Coalesced all-reduce of several tensors. Neighbors in its list with the same type and reduction form a section, which
 * is reduced like one tensor. Peers compare a digest of the list.
 *
 * A tiny one contributes its sections and then their elements, so that the master can reduce them: the number of
 * sections in 8 bytes; for each the type, the reduction and, in 6 bytes, the count; then the elements of each, padded
 * to a multiple of 8 bytes. The result has the same form. `count` of the descriptor is the length of this form in
 * bytes, whether it is sent or not, and its type is u8.
 */
#ifndef PCCL_WIRE_COALESCED_H
#define PCCL_WIRE_COALESCED_H

#include "wire/wire.h"

enum { PCCL_SECTION_BYTES = 8 }; /* size of one in the table; elements begin at multiples of it */

struct pccl_section {
    uint8_t datatype, operation;
    uint64_t count; /* number of elements */
};

uint64_t pccl_section_bytes(const struct pccl_section *section); /* size of its elements, padded */
/* Returns the offset of the first section's elements. */
uint64_t pccl_sections_table_bytes(uint32_t count);
/* Writes pccl_sections_table_bytes bytes. */
void pccl_sections_write(const struct pccl_section *sections, uint32_t count, uint8_t *table);
/* Read a table; its bytes must be valid. */
uint32_t pccl_sections_count(const uint8_t *bytes);
struct pccl_section pccl_sections_read(const uint8_t *bytes, uint32_t index);
/* Returns true if these are reducible sections, with their elements and nothing else. */
PCCL_MUST_CHECK bool pccl_sections_are_valid(const struct pccl_bytes *bytes);

#endif
