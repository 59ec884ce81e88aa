/*
 * Digest of the schema: equal in two builds exactly if they encode all messages alike. It covers the ids of messages,
 * the kinds, the order and the valid values of fields, and the values of enumerations; names and comments do not count.
 */
#ifndef PCCL_WIRE_DIGEST_H
#define PCCL_WIRE_DIGEST_H

#include "wire/wire.h"

#define PCCL_DIGEST_START UINT64_C(0xcbf29ce484222325)

/* Adds numbers by FNV-1a over their eight bytes, the lowest one first. */
uint64_t pccl_digest_numbers(uint64_t digest, const uint64_t *numbers, size_t count);
/* Adds the fields, with the fields of structs in them. */
uint64_t pccl_digest_layout(uint64_t digest, const struct pccl_wire_layout *layout);
/* Returns the digest of schema.h. Takes some 50 us. */
uint64_t pccl_wire_digest(void);

#endif
