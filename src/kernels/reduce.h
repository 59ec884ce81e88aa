/*
 * Element-wise reduction: the scalar reference. Pure. Elements may be unaligned. Semantics:
 * integers wrap; integer AVG divides the wrapped sum at the end, truncating; floats of 8 and 16 bits
 * are added in f32 and rounded once (an owner that sees all parts); MIN/MAX of +0 and -0 follow the
 * IEEE total order (-0 < +0), so that the result does not depend on the order of the parts. NaN
 * propagates, in MIN and MAX too, and a result that is NaN is always the same one: quiet, positive,
 * without payload (0x7e00, 0x7fc0, 0x7fc00000, 0x7ff8000000000000; of 8 bits 0x7f), even of one
 * part, because processors differ in which NaN an addition returns. The thread's float mode
 * (rounding, flushed subnormals, traps) does not matter and is left as it was.
 *
 * f8e4m3fn has no infinity: what is too large for it becomes its greatest number. A bool is a byte
 * that is true unless it is 0; results are 0 or 1, and SUM and MAX are OR, PROD and MIN are AND.
 * PREMUL_SUM is a SUM here: whoever contributes a part multiplies it first (pccl_scale).
 */
#ifndef PCCL_KERNELS_REDUCE_H
#define PCCL_KERNELS_REDUCE_H

#include "core/base.h"

/* Values of pcclDataType_t and pcclRedOp_t. */
enum pccl_datatype {
    PCCL_U8,
    PCCL_I8,
    PCCL_I16,
    PCCL_U16,
    PCCL_U32,
    PCCL_I32,
    PCCL_U64,
    PCCL_I64,
    PCCL_F16,
    PCCL_BF16,
    PCCL_F32,
    PCCL_F64,
    PCCL_BOOL,
    PCCL_F8_E4M3FN,
    PCCL_F8_E5M2,
    PCCL_DATATYPES
};
enum pccl_reduce_op {
    PCCL_SUM,
    PCCL_AVG,
    PCCL_PROD,
    PCCL_MAX,
    PCCL_MIN,
    PCCL_AND,
    PCCL_OR,
    PCCL_XOR,
    PCCL_PREMUL_SUM,
    PCCL_REDUCE_OPS
};

size_t pccl_datatype_bytes(enum pccl_datatype datatype);
const char *pccl_datatype_name(enum pccl_datatype datatype);    /* "f32" */
const char *pccl_reduce_op_name(enum pccl_reduce_op reduction); /* "sum" */
bool pccl_datatype_is_float(enum pccl_datatype datatype);
/* Why such elements have no such reduction, both of which exist; NULL: they have. */
const char *pccl_reduction_misfit(enum pccl_datatype datatype, enum pccl_reduce_op reduction);

/*
 * result[i] = parts[0][i] op parts[1][i] op ..., folded left to right in the order given. result
 * may be parts[k]. part_count > 0. Here and in all that follows the reduction fits the type.
 */
void pccl_reduce_all(enum pccl_datatype datatype, enum pccl_reduce_op reduction, const void *const *parts,
                     uint32_t part_count, size_t count, void *result);

/*
 * Exact in one direction, rounded to nearest even in the other; NaN stays NaN (with what fits of
 * its payload; of 8 bits there is one, 0x7f). What is too large for e4m3fn, infinity also, becomes 448.
 */
float pccl_f16_to_f32(uint16_t bits);
uint16_t pccl_f32_to_f16(float value);
float pccl_bf16_to_f32(uint16_t bits);
uint16_t pccl_f32_to_bf16(float value);
float pccl_f8_e4m3fn_to_f32(uint8_t bits);
uint8_t pccl_f32_to_f8_e4m3fn(float value);
float pccl_f8_e5m2_to_f32(uint8_t bits);
uint8_t pccl_f32_to_f8_e5m2(float value);

#endif
