/*
 * Coalesced all-reduce of several tensors. Adjacent tensors in the list that have the same type and reduction form a
 * section, which is reduced like one tensor. Peers compare a digest of the list.
 *
 * A tiny contribution consists of a table of the sections, followed by their elements, so that the master can reduce
 * them: the number of sections in 8 bytes; for each section its type, its reduction and, in 6 bytes, its element count;
 * then the elements of each section, padded to a multiple of 8 bytes. The result has the same format. The descriptor's
 * `count` is the size of this format in bytes, and its type is u8, even for bulk operations.
 */
#ifndef PCCL_WIRE_COALESCED_H
#define PCCL_WIRE_COALESCED_H

#include "wire/wire.h"

enum { PCCL_SECTION_BYTES = 8 }; /* size of a table entry; elements begin at multiples of it */

struct pccl_section {
    uint8_t datatype, operation;
    uint64_t count; /* number of elements */
};

uint64_t pccl_section_bytes(const struct pccl_section *section); /* padded size of the elements in bytes */
/* Returns the offset of the first section's elements. */
uint64_t pccl_sections_table_bytes(uint32_t count);
/* Writes a table of pccl_sections_table_bytes(count) bytes. */
void pccl_sections_write(const struct pccl_section *sections, uint32_t count, uint8_t *table);
/* Read a table, which must be valid. */
uint32_t pccl_sections_count(const uint8_t *bytes);
struct pccl_section pccl_sections_read(const uint8_t *bytes, uint32_t index);
/* Returns true if the bytes are a table of reducible sections, followed by exactly their elements. */
PCCL_MUST_CHECK bool pccl_sections_are_valid(const struct pccl_bytes *bytes);

#endif
