/* Operands and results of scripted reductions. */
#ifndef PCCL_TESTS_E2E_VALUES_H
#define PCCL_TESTS_E2E_VALUES_H

#include "marks.h"

struct values {
    void *send, *recv;             /* the same when in place */
    void *original;                /* what send held; NULL: too large to keep, the pattern tells */
    void *send_block, *recv_block; /* owned */
    size_t bytes;
    struct marks marks; /* kind MARKS_NONE: the pattern is another one */
};

/*
 * By name: u8 i8 i16 u16 u32 i32 u64 i64 f16 bf16 f32 f64; a number stands for itself. -1: no such
 * type.
 */
int values_type(const char *name);
/* sum avg prod max min; a number stands for itself. */
int values_op(const char *name);

/* ---- elements; unknown types count as u64 */

size_t values_element_bytes(int type);
bool values_is_float(int type);
bool values_is_small_float(int type);                   /* 16 bits */
double values_wrapped(int type, double number);         /* as the type holds it: integers wrap; floats unchanged */
void values_store(uint8_t *at, int type, double value); /* to the nearest, even */
double values_load(int type, const uint8_t *at);

/* ---- buffers */

struct values_wish {
    int type, op;
    size_t count;
    const char *pattern;
    uint64_t salt; /* of marks */
    bool in_place;
    bool rough;    /* the result is quantized */
    size_t offset; /* how many bytes beyond an aligned address the buffers begin */
};

/*
 * Patterns: those of marks.h, const:<value>, ramp:<first>:<step>, rand:<seed> (any
 * bits; floats between -1 and 1). false: the pattern does not fit.
 */
bool values_make(struct values *values, const struct values_wish *wish);
/* Is the input as it was? After a success in place there is nothing to compare. */
bool values_intact(const struct values *values, bool success);
uint64_t values_digest(const void *bytes, size_t length, uint64_t seed);
void values_free(struct values *values);

#endif
