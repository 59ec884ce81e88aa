/*
 * Element-wise reduction: the scalar reference. Pure. Elements may be unaligned.
 *
 * Semantics: integers wrap. Integer AVG divides the wrapped sum at the end, truncating. Floats of 8 and 16 bits are
 * added in f32 and rounded once (if all parts are available). MIN and MAX of +0 and -0 follow the IEEE total order (-0
 * < +0), so that the result does not depend on the order of the parts. NaN propagates, even through MIN and MAX. A NaN
 * result, even of a single part, is always the same canonical NaN, because processors return different NaNs from an
 * addition: quiet, positive, without payload (0x7e00, 0x7fc0, 0x7fc00000, 0x7ff8000000000000; 0x7f for 8 bits). The
 * thread's float mode (rounding, flushed subnormals, traps) has no effect and is preserved.
 *
 * f8e4m3fn has no infinity: values that are too large become its greatest number. A bool is a byte that is true unless
 * it is 0. Results are 0 or 1; SUM and MAX are OR, PROD and MIN are AND. PREMUL_SUM is a SUM here, because contributors
 * multiply their parts first (pccl_scale).
 */
#ifndef PCCL_KERNELS_REDUCE_H
#define PCCL_KERNELS_REDUCE_H

#include "core/base.h"

/* Types of elements, by value of pcclDataType_t: name, text, size, kind. */
#define PCCL_DATATYPE_ROWS(T)                                                                                          \
    T(U8, u8, 1, UNSIGNED)                                                                                             \
    T(I8, i8, 1, SIGNED)                                                                                               \
    T(I16, i16, 2, SIGNED)                                                                                             \
    T(U16, u16, 2, UNSIGNED)                                                                                           \
    T(U32, u32, 4, UNSIGNED)                                                                                           \
    T(I32, i32, 4, SIGNED)                                                                                             \
    T(U64, u64, 8, UNSIGNED)                                                                                           \
    T(I64, i64, 8, SIGNED)                                                                                             \
    T(F16, f16, 2, FLOAT)                                                                                              \
    T(BF16, bf16, 2, FLOAT)                                                                                            \
    T(F32, f32, 4, FLOAT)                                                                                              \
    T(F64, f64, 8, FLOAT)                                                                                              \
    T(BOOL, bool, 1, BOOLEAN)                                                                                          \
    T(F8_E4M3FN, f8e4m3fn, 1, FLOAT)                                                                                   \
    T(F8_E5M2, f8e5m2, 1, FLOAT)

/* Reductions, by value of pcclRedOp_t: name, text, whether it adds, accepted types. */
#define PCCL_REDUCE_OP_ROWS(R)                                                                                         \
    R(SUM, "sum", true, ALL)                                                                                           \
    R(AVG, "avg", true, NUMBERS)                                                                                       \
    R(PROD, "prod", false, ALL)                                                                                        \
    R(MAX, "max", false, ALL)                                                                                          \
    R(MIN, "min", false, ALL)                                                                                          \
    R(AND, "and", false, BITS)                                                                                         \
    R(OR, "or", false, BITS)                                                                                           \
    R(XOR, "xor", false, BITS)                                                                                         \
    R(PREMUL_SUM, "premultiplied sum", true, FLOATS)

#define PCCL_ENUMERATOR(name, ...) PCCL_##name,
enum pccl_datatype { PCCL_DATATYPE_ROWS(PCCL_ENUMERATOR) PCCL_DATATYPES };
enum pccl_reduce_op { PCCL_REDUCE_OP_ROWS(PCCL_ENUMERATOR) PCCL_REDUCE_OPS };
#undef PCCL_ENUMERATOR
enum pccl_datatype_kind { PCCL_UNSIGNED = 1, PCCL_SIGNED = 2, PCCL_FLOAT = 4, PCCL_BOOLEAN = 8 };

size_t pccl_datatype_bytes(enum pccl_datatype datatype);
const char *pccl_datatype_name(enum pccl_datatype datatype);    /* "f32" */
const char *pccl_reduce_op_name(enum pccl_reduce_op reduction); /* "sum" */
enum pccl_datatype_kind pccl_datatype_kind(enum pccl_datatype datatype);
static inline bool pccl_datatype_is_float(enum pccl_datatype datatype)
{
    return pccl_datatype_kind(datatype) == PCCL_FLOAT;
}
bool pccl_reduce_op_adds(enum pccl_reduce_op reduction);
/*
 * Returns NULL if this reduction is supported for these elements, otherwise the reason why it is not. Both must be
 * valid values.
 */
const char *pccl_reduction_misfit(enum pccl_datatype datatype, enum pccl_reduce_op reduction);

/*
 * Computes result[i] = parts[0][i] op parts[1][i] op ..., folded from left to right in this order. result may be
 * parts[k]. part_count > 0. For this and the functions below, the reduction must fit the type.
 */
void pccl_reduce_all(enum pccl_datatype datatype, enum pccl_reduce_op reduction, const void *const *parts,
                     uint32_t part_count, size_t count, void *result);

/* Fills the result with the identity of the reduction: 0, 1, the least or the greatest value. AVG has no identity. */
void pccl_fill_identity(enum pccl_datatype datatype, enum pccl_reduce_op reduction, size_t count, void *result);

/*
 * Convert to f32 exactly, and from f32 by rounding to nearest, ties to even. NaN stays NaN, with the upper bits of its
 * payload; the only NaN with 8 bits is 0x7f. Values too large for e4m3fn, including infinity, become 448.
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
