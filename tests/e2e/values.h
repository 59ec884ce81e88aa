/* Operands and results of scripted reductions. */
#ifndef PCCL_TESTS_E2E_VALUES_H
#define PCCL_TESTS_E2E_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct values {
    void *send, *recv;             /* the same when in place */
    void *original;                /* what send held */
    void *send_block, *recv_block; /* owned */
    size_t bytes;
};

/* By name: u8 i8 i16 u16 u32 i32 u64 i64 f16 bf16 f32 f64; a number stands for itself. -1: no such type. */
int values_type(const char *name);
/* sum avg prod max min; a number stands for itself. */
int values_op(const char *name);

/*
 * Patterns: hex:<all bytes>, const:<value>, ramp:<first>:<step>, rand:<seed> (any bits; floats between -1 and 1).
 * offset: how many bytes beyond an aligned address the buffers begin. false: the pattern does not fit.
 */
bool values_make(struct values *values, int type, size_t count, const char *pattern, bool in_place, size_t offset);
/* Is the input as it was? After a success in place there is nothing to compare. */
bool values_intact(const struct values *values, bool success);
uint64_t values_digest(const void *bytes, size_t length, uint64_t seed);
void values_free(struct values *values);

#endif
