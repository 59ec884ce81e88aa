/* Operands and results of scripted reductions. */
#ifndef PCCL_TESTS_E2E_VALUES_H
#define PCCL_TESTS_E2E_VALUES_H

#include "../support/numbers.h"
#include "marks.h"

struct values {
    void *send, *recv;             /* equal when in place */
    void *original;                /* copy of `send`; NULL for sparse marks, which are too large to keep */
    void *send_block, *recv_block; /* owned */
    size_t bytes;
    struct marks marks; /* MARKS_NONE: another pattern */
};

/*
 * Returns the type of this name: u8 i8 i16 u16 u32 i32 u64 i64 f16 bf16 f32 f64, or a number. Returns -1 if there is no
 * such type.
 */
int values_type(const char *name);
/* Returns the operation of this name: sum avg prod max min, or a number. */
int values_op(const char *name);

/* ---- elements; unknown types count as u64 */

const struct datatype *values_datatype(int type);
size_t values_element_bytes(int type);

/* ---- buffers */

struct values_wish {
    int type, op;
    size_t count;
    const char *pattern;
    uint64_t salt; /* salt of marks */
    bool in_place;
    bool rough;    /* the result is quantized */
    size_t offset; /* offset of the buffers from an aligned address */
};

/*
 * Makes buffers with a pattern of marks.h, or const:<value>, ramp:<first>:<step>, rand:<seed> (any bits; floats between
 * -1 and 1). Returns false if the pattern does not fit.
 */
bool values_make(struct values *values, const struct values_wish *wish);
/* Returns true if the input is unchanged, or was overwritten by a success in place. */
bool values_intact(const struct values *values, bool success);
uint64_t values_digest(const void *bytes, size_t length, uint64_t seed);
void values_free(struct values *values);

#endif
