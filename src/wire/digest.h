/*
 * Digest of the schema. Two builds have equal digests if and only if they encode all messages identically: it covers
 * message ids, the kinds, order and valid values of fields, and the values of enumerations. Names and comments have no
 * effect.
 */
#ifndef PCCL_WIRE_DIGEST_H
#define PCCL_WIRE_DIGEST_H

#include "wire/wire.h"

#define PCCL_DIGEST_START UINT64_C(0xcbf29ce484222325)

/* Adds numbers by FNV-1a over their eight bytes, lowest byte first. */
uint64_t pccl_digest_numbers(uint64_t digest, const uint64_t *numbers, size_t count);
/* Adds the fields, including the fields of nested structs. */
uint64_t pccl_digest_layout(uint64_t digest, const struct pccl_wire_layout *layout);
/* Returns the digest of schema.h. Takes about 50 us. */
uint64_t pccl_wire_digest(void);

#endif
