/*
 * Shared by the files of the codecs: the row of a codec, and the functions that process one block in each type of
 * computation.
 */
#ifndef PCCL_KERNELS_CODEC_INTERNAL_H
#define PCCL_KERNELS_CODEC_INTERNAL_H

#include "kernels/codec.h"

struct pccl_codec {
    enum pccl_codec_kind kind;
    enum pccl_datatype datatype; /* type of the elements */
    uint8_t packed_bytes;        /* size of one packed value: 1, 2 or 4 */
    uint8_t field_bytes; /* size of each of the two numbers in a block's head, which have the type of the computation */
    double limit;        /* largest finite element */
};

/* Instruction sets for which the loops are compiled. */
enum pccl_codec_variant { PCCL_CODEC_BASELINE, PCCL_CODEC_AVX2, PCCL_CODEC_AVX512, PCCL_CODEC_VARIANTS };

/* Process one block, where 0 < count <= PCCL_CODEC_BLOCK. Values are floats or doubles without alignment. */
void pccl_codec_encode_f32(const struct pccl_codec *codec, enum pccl_codec_variant variant, const uint8_t *values,
                           size_t count, uint8_t *bytes);
void pccl_codec_decode_f32(const struct pccl_codec *codec, enum pccl_codec_variant variant, const uint8_t *bytes,
                           size_t count, uint8_t *values);
void pccl_codec_encode_f64(const struct pccl_codec *codec, enum pccl_codec_variant variant, const uint8_t *values,
                           size_t count, uint8_t *bytes);
void pccl_codec_decode_f64(const struct pccl_codec *codec, enum pccl_codec_variant variant, const uint8_t *bytes,
                           size_t count, uint8_t *values);

static inline size_t pccl_codec_head_bytes(const struct pccl_codec *codec)
{
    return 1 + 2 * (size_t)codec->field_bytes;
}

#endif
