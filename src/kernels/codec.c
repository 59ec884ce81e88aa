#include "kernels/codec_internal.h"
#include "kernels/float_mode.h"
#include "kernels/prefetch.h"
#include "kernels/variant.h"

#include <float.h>

#define F16_MAX 65504.0
#define BF16_MAX 0x1.fep127

#define ROWS(kind)                                                                                                     \
    {kind, PCCL_F16, 1, 4, F16_MAX}, {kind, PCCL_BF16, 1, 4, BF16_MAX}, {kind, PCCL_F32, 1, 4, (double)FLT_MAX},       \
        {kind, PCCL_F32, 2, 4, (double)FLT_MAX}, {kind, PCCL_F64, 1, 8, DBL_MAX}, {kind, PCCL_F64, 2, 8, DBL_MAX},     \
    {                                                                                                                  \
        kind, PCCL_F64, 4, 8, DBL_MAX                                                                                  \
    }

static const struct pccl_codec codecs[] = {ROWS(PCCL_CODEC_MIN_MAX), ROWS(PCCL_CODEC_ZERO_POINT_SCALE)};

const char *pccl_codec_kind_name(enum pccl_codec_kind kind)
{
    static const char *const names[PCCL_CODEC_KINDS] = {"none", "minmax", "zeropointscale"};
    return (unsigned)kind < PCCL_CODEC_KINDS ? names[kind] : "?";
}

/* ---- selection of a codec ---- */

/* Writes the reason why there is no such codec; writes nothing if there is one. */
static void explain(enum pccl_codec_kind kind, enum pccl_datatype datatype, enum pccl_datatype packed,
                    enum pccl_reduce_op reduction, struct pccl_text *reason)
{
    const char *name = pccl_codec_kind_name(kind);
    const char *packed_name = pccl_datatype_name(packed);
    const char *misfit = pccl_reduction_misfit(datatype, reduction);
    if (misfit != NULL)
        pccl_text_format(reason, "%s", misfit);
    else if (!pccl_datatype_is_float(datatype))
        pccl_text_format(reason, "%s quantizes floats, not %s", name, pccl_datatype_name(datatype));
    else if ((pccl_datatype_kind(packed) & (PCCL_UNSIGNED | PCCL_SIGNED)) == 0)
        pccl_text_format(reason, "%s packs into integers, not into %s", name, packed_name);
    else if (kind == PCCL_CODEC_MIN_MAX && pccl_datatype_kind(packed) == PCCL_SIGNED)
        pccl_text_format(reason, "%s packs into unsigned integers, not into %s", name, packed_name);
    else if (kind == PCCL_CODEC_ZERO_POINT_SCALE && !pccl_reduce_op_adds(reduction))
        pccl_text_format(reason, "%s supports only sum and average; use minmax for %s", name,
                         pccl_reduce_op_name(reduction));
}

/* Returns true if all arguments are values of their enumerations. */
static bool known(enum pccl_codec_kind kind, enum pccl_datatype datatype, enum pccl_datatype packed,
                  enum pccl_reduce_op reduction, struct pccl_text *reason)
{
    if ((unsigned)kind >= PCCL_CODEC_KINDS)
        pccl_text_format(reason, "unknown quantization: %u", kind);
    else if ((unsigned)datatype >= PCCL_DATATYPES)
        pccl_text_format(reason, "unknown data type: %u", datatype);
    else if (kind != PCCL_CODEC_NONE && (unsigned)packed >= PCCL_DATATYPES)
        pccl_text_format(reason, "unknown quantized data type: %u", packed);
    else if ((unsigned)reduction >= PCCL_REDUCE_OPS)
        pccl_text_format(reason, "unknown reduction: %u", reduction);
    return reason->length == 0;
}

const struct pccl_codec *pccl_codec_find(enum pccl_codec_kind kind, enum pccl_datatype datatype,
                                         enum pccl_datatype packed, enum pccl_reduce_op reduction,
                                         struct pccl_text *reason)
{
    pccl_text_clear(reason);
    if (!known(kind, datatype, packed, reduction, reason) || kind == PCCL_CODEC_NONE || packed == datatype)
        return NULL;
    explain(kind, datatype, packed, reduction, reason);
    if (reason->length > 0)
        return NULL;
    for (size_t i = 0; i < PCCL_COUNT_OF(codecs); i++) {
        const struct pccl_codec *codec = &codecs[i];
        if (codec->kind == kind && codec->datatype == datatype && codec->packed_bytes == pccl_datatype_bytes(packed))
            return codec;
    }
    return NULL; /* elements are sent unpacked, because packing would not make them narrower */
}

/* ---- elements to bytes and back, block by block ---- */

size_t pccl_codec_bytes(const struct pccl_codec *codec, size_t count)
{
    size_t blocks = count / PCCL_CODEC_BLOCK + (count % PCCL_CODEC_BLOCK != 0);
    return blocks * pccl_codec_head_bytes(codec) + count * codec->packed_bytes;
}

/* Returns the fastest variant that the features of these kernels support. */
static enum pccl_codec_variant variant_for(const struct pccl_kernels *kernels)
{
    return (kernels->features & PCCL_CPU_AVX512) != 0 ? PCCL_CODEC_AVX512
           : (kernels->features & PCCL_CPU_AVX2) != 0 ? PCCL_CODEC_AVX2
                                                      : PCCL_CODEC_BASELINE;
}

/* Encodes a block. 16-bit elements are converted to floats first. */
static void encode_block(const struct pccl_codec *codec, const struct pccl_kernels *kernels, const uint8_t *elements,
                         size_t count, uint8_t *bytes)
{
    enum pccl_codec_variant variant = variant_for(kernels);
    if (codec->datatype == PCCL_F64) {
        pccl_codec_encode_f64(codec, variant, elements, count, bytes);
    } else if (codec->datatype == PCCL_F32) {
        pccl_codec_encode_f32(codec, variant, elements, count, bytes);
    } else {
        float values[PCCL_CODEC_BLOCK];
        kernels->widen[codec->datatype](values, elements, count);
        pccl_codec_encode_f32(codec, variant, (const uint8_t *)values, count, bytes);
    }
}

static void decode_block(const struct pccl_codec *codec, const struct pccl_kernels *kernels, const uint8_t *bytes,
                         size_t count, uint8_t *elements)
{
    enum pccl_codec_variant variant = variant_for(kernels);
    if (codec->datatype == PCCL_F64) {
        pccl_codec_decode_f64(codec, variant, bytes, count, elements);
    } else if (codec->datatype == PCCL_F32) {
        pccl_codec_decode_f32(codec, variant, bytes, count, elements);
    } else {
        float values[PCCL_CODEC_BLOCK];
        pccl_codec_decode_f32(codec, variant, bytes, count, (uint8_t *)values);
        kernels->narrow[codec->datatype](elements, values, count);
    }
}

void pccl_codec_encode(const struct pccl_codec *codec, const struct pccl_kernels *kernels, const void *elements,
                       size_t count, uint8_t *bytes)
{
    uint64_t mode = pccl_float_mode_begin();
    const uint8_t *from = elements;
    while (count > 0) {
        size_t part = count < PCCL_CODEC_BLOCK ? count : PCCL_CODEC_BLOCK;
        if (count > part)
            pccl_prefetch(from + part * pccl_datatype_bytes(codec->datatype),
                          part * pccl_datatype_bytes(codec->datatype));
        encode_block(codec, kernels, from, part, bytes);
        from += part * pccl_datatype_bytes(codec->datatype);
        bytes += pccl_codec_bytes(codec, part);
        count -= part;
    }
    pccl_float_mode_end(mode);
}

static void decode(const struct pccl_codec *codec, const struct pccl_kernels *kernels, const uint8_t *bytes,
                   size_t count, uint8_t *to, bool away)
{
    _Alignas(PCCL_CACHE_LINE) uint8_t block[PCCL_CODEC_BLOCK * sizeof(double)];
    size_t element_bytes = pccl_datatype_bytes(codec->datatype);
    uint64_t mode = pccl_float_mode_begin();
    while (count > 0) {
        size_t part = count < PCCL_CODEC_BLOCK ? count : PCCL_CODEC_BLOCK;
        if (count > part)
            pccl_prefetch(bytes + pccl_codec_bytes(codec, part), pccl_codec_bytes(codec, part));
        decode_block(codec, kernels, bytes, part, away ? block : to);
        if (away)
            pccl_copy_streaming(kernels, to, block, part * element_bytes);
        to += part * element_bytes;
        bytes += pccl_codec_bytes(codec, part);
        count -= part;
    }
    pccl_float_mode_end(mode);
}

void pccl_codec_decode(const struct pccl_codec *codec, const struct pccl_kernels *kernels, const uint8_t *bytes,
                       size_t count, void *elements)
{
    decode(codec, kernels, bytes, count, elements, false);
}

void pccl_codec_decode_streaming(const struct pccl_codec *codec, const struct pccl_kernels *kernels,
                                 const uint8_t *bytes, size_t count, void *elements)
{
    decode(codec, kernels, bytes, count, elements, true);
}
