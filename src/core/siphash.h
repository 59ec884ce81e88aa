/*
 * SipHash-2-4 with 128-bit output (Aumasson, Bernstein): a keyed hash of short inputs. Without the key, its values
 * cannot be predicted and collisions cannot be created.
 */
#ifndef PCCL_CORE_SIPHASH_H
#define PCCL_CORE_SIPHASH_H

#include "core/base.h"

enum { PCCL_SIPHASH_KEY_BYTES = 16, PCCL_SIPHASH_BYTES = 16 };

void pccl_siphash(const uint8_t key[PCCL_SIPHASH_KEY_BYTES], const void *input, size_t bytes,
                  uint8_t output[PCCL_SIPHASH_BYTES]);

#endif
