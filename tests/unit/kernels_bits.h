/*
 * The bits that kernels and codecs give on every system, with every compiler: digests of their results from fixed
 * input, compared with a table. The other checks compare variants of one build with each other; these compare builds.
 * Included after kernels_check.h.
 */
#ifndef PCCL_TESTS_UNIT_KERNELS_BITS_H
#define PCCL_TESTS_UNIT_KERNELS_BITS_H

#include "kernels/feedback.h"
#include "kernels/packing.h"

enum { BITS_COUNT = 4 * PCCL_CODEC_BLOCK + 77, BITS_ROW_NAME = 48 };

struct bits_row {
    const char *name;
    uint64_t digest;
};
static const struct bits_row bits_table[] = {
#include "kernels_bits_table.h"
    {NULL, 0},
};

struct bits {
    const struct pccl_kernels *kernels;
    bool prints; /* the table, in place of a comparison */
    bool passed;
    size_t row;
    uint64_t digest;
    struct pccl_prng prng;
};

static void bits_begin(struct bits *bits)
{
    bits->digest = UINT64_C(0xcbf29ce484222325);
    pccl_prng_seed(&bits->prng, bits->row + 1);
}

/* FNV-1a: nothing of the library. */
static void bits_add(struct bits *bits, const void *bytes, size_t count)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < count; i++)
        bits->digest = (bits->digest ^ byte[i]) * UINT64_C(0x100000001b3);
}

static void bits_end(struct bits *bits, const char *what, const char *first, const char *second)
{
    char name[BITS_ROW_NAME];
    const struct bits_row *row = &bits_table[pccl_min_u64(bits->row++, PCCL_COUNT_OF(bits_table) - 1)];
    (void)snprintf(name, sizeof name, "%s %s %s", what, first, second);
    if (bits->prints) {
        printf("    {\"%s\", UINT64_C(0x%016" PRIx64 ")},\n", name, bits->digest);
    } else if (!row->name || strcmp(row->name, name) != 0 || row->digest != bits->digest) {
        printf("%s: %s: digest %016" PRIx64 ", the table has %016" PRIx64 " for %s\n", pccl_kernels_name(bits->kernels),
               name, bits->digest, row->digest, row->name ? row->name : "nothing");
        bits->passed = false;
    }
}

/* Floats of both signs from 2^-8 to 2^8, by exact conversions. */
static void bits_fill_floats(struct bits *bits, float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t random = (uint32_t)pccl_prng_u64(&bits->prng);
        uint32_t pattern = (random & 0x807fffff) | (119 + (random >> 23 & 15)) << 23;
        memcpy(&values[i], &pattern, sizeof pattern);
    }
}

static void bits_fill_numbers(struct bits *bits, enum pccl_datatype type, uint8_t *elements)
{
    static float values[BITS_COUNT];
    bits_fill_floats(bits, values, BITS_COUNT);
    for (size_t i = 0; i < BITS_COUNT; i++) {
        const double wide = (double)values[i] + (double)values[(i + 1) % BITS_COUNT] * 0x1p-30;
        uint64_t pattern = 0;
        switch (type) {
        case PCCL_F64: memcpy(&pattern, &wide, sizeof wide); break;
        case PCCL_F32: memcpy(&pattern, &values[i], sizeof values[i]); break;
        case PCCL_F16: pattern = pccl_f32_to_f16(values[i]); break;
        case PCCL_BF16: pattern = pccl_f32_to_bf16(values[i]); break;
        case PCCL_F8_E4M3FN: pattern = pccl_f32_to_f8_e4m3fn(values[i]); break;
        case PCCL_F8_E5M2: pattern = pccl_f32_to_f8_e5m2(values[i]); break;
        default: pattern = pccl_prng_u64(&bits->prng); break;
        }
        put(elements, i, pccl_datatype_bytes(type), pattern);
    }
}

static void bits_of_reduction(struct bits *bits, enum pccl_datatype type, enum pccl_reduce_op reduction)
{
    static uint8_t third[BITS_COUNT * 8], sum[BITS_COUNT * 8];
    const size_t bytes = BITS_COUNT * pccl_datatype_bytes(type);
    const void *const parts[] = {left.bytes, right.bytes, third};
    const enum pccl_datatype folded = pccl_folded_type(type, reduction);
    const struct pccl_step begin = {.datatype = type, .from = type, .to = folded, .reduction = reduction},
                           end = {.datatype = type, .from = folded, .to = type, .reduction = reduction, .ranks = 3};
    bits_begin(bits);
    fill(&bits->prng, type, left.bytes, BITS_COUNT);
    fill(&bits->prng, type, right.bytes, BITS_COUNT);
    fill(&bits->prng, type, third, BITS_COUNT);
    pccl_combine(bits->kernels, type, reduction, result.bytes, left.bytes, right.bytes, BITS_COUNT);
    bits_add(bits, result.bytes, bytes);
    pccl_combine_all(bits->kernels, type, reduction, parts, 3, BITS_COUNT, result.bytes);
    bits_add(bits, result.bytes, bytes);
    pccl_combine_step(bits->kernels, &begin, sum, left.bytes, right.bytes, BITS_COUNT);
    pccl_combine_step(bits->kernels, &end, result.bytes, sum, third, BITS_COUNT);
    bits_add(bits, result.bytes, bytes);
    bits_end(bits, "reduce", pccl_datatype_name(type), pccl_reduce_op_name(reduction));
}

static void bits_of_scale(struct bits *bits, enum pccl_datatype type)
{
    static const double factors[] = {1.0 / 3, -1e-3, 1e30};
    bits_begin(bits);
    fill(&bits->prng, type, left.bytes, BITS_COUNT);
    for (size_t i = 0; i < PCCL_COUNT_OF(factors); i++) {
        pccl_scale(bits->kernels, type, result.bytes, left.bytes, BITS_COUNT, factors[i]);
        bits_add(bits, result.bytes, BITS_COUNT * pccl_datatype_bytes(type));
    }
    bits_end(bits, "scale", pccl_datatype_name(type), "");
}

/*
 * Adds the packed form of the elements, and the result of unpacking it: first for numbers, then also for special
 * values.
 */
static void bits_add_packing(struct bits *bits, enum pccl_datatype type, const struct pccl_packing *packing)
{
    for (int special_too = 0; special_too < 2; special_too++) {
        if (special_too)
            fill(&bits->prng, type, left.bytes, BITS_COUNT);
        else
            bits_fill_numbers(bits, type, left.bytes);
        pccl_packing_encode(packing, bits->kernels, left.bytes, BITS_COUNT, 256, 99, result.bytes);
        bits_add(bits, result.bytes, pccl_packing_bytes(packing, BITS_COUNT));
        pccl_packing_decode(packing, bits->kernels, result.bytes, BITS_COUNT, right.bytes);
        bits_add(bits, right.bytes, BITS_COUNT * pccl_datatype_bytes(type));
    }
}

static void bits_of_codecs(struct bits *bits, enum pccl_datatype type, enum pccl_codec_kind kind)
{
    for (int packed = 0; packed < PCCL_DATATYPES; packed++) {
        struct pccl_text reason;
        struct pccl_packing packing = {.codec =
                                           pccl_codec_find(kind, type, (enum pccl_datatype)packed, PCCL_SUM, &reason)};
        if (!packing.codec)
            continue;
        bits_begin(bits);
        bits_add_packing(bits, type, &packing);
        char name[32];
        (void)snprintf(name, sizeof name, "%s %s", pccl_codec_kind_name(kind), pccl_datatype_name(type));
        bits_end(bits, name, "as", pccl_datatype_name((enum pccl_datatype)packed));
    }
}

static void bits_of_scaled(struct bits *bits, enum pccl_datatype type, enum pccl_scaled_format format)
{
    struct pccl_text reason;
    bits_begin(bits);
    for (int scale = 0; scale < PCCL_SCALED_SCALES; scale++)
        for (int rounding = 0; rounding < PCCL_SCALED_ROUNDINGS; rounding++)
            for (uint32_t block = PCCL_SCALED_BLOCK_MIN; block <= PCCL_SCALED_BLOCK_MAX; block *= 4) {
                struct pccl_packing packing = {.scaled = {.datatype = type,
                                                          .format = format,
                                                          .scale = (enum pccl_scaled_scale)scale,
                                                          .rounding = (enum pccl_scaled_rounding)rounding,
                                                          .block = block}};
                if (pccl_scaled_is_valid(&packing.scaled, &reason))
                    bits_add_packing(bits, type, &packing);
            }
    bits_end(bits, "scaled", pccl_datatype_name(type), pccl_scaled_format_name(format));
}

static void bits_of_feedback(struct bits *bits, enum pccl_datatype type)
{
    static float kept[BITS_COUNT], next[BITS_COUNT];
    bits_begin(bits);
    fill(&bits->prng, type, left.bytes, BITS_COUNT);
    bits_fill_floats(bits, kept, BITS_COUNT);
    pccl_feedback_add(bits->kernels, type, left.bytes, kept, BITS_COUNT, next);
    bits_add(bits, next, sizeof next);
    pccl_feedback_keep(bits->kernels, type, kept, left.bytes, BITS_COUNT, 1.0F / 3, next);
    bits_add(bits, next, sizeof next);
    bits_end(bits, "feedback", pccl_datatype_name(type), "");
}

static void bits_of_sparse(struct bits *bits)
{
    static const uint32_t kept[] = {1, 41, 1024, 4096};
    static float elements[BITS_COUNT], sums[BITS_COUNT];
    for (size_t i = 0; i < PCCL_COUNT_OF(kept); i++) {
        const struct pccl_sparse sparse = {.count = BITS_COUNT, .kept = kept[i]};
        struct pccl_text reason;
        double square = 0;
        char name[12];
        bits_begin(bits);
        bits_fill_floats(bits, elements, BITS_COUNT);
        bits_fill_floats(bits, sums, BITS_COUNT);
        bool passed =
            pccl_sparse_encode(&sparse, bits->kernels, elements, result.bytes) &&
            pccl_sparse_check(&sparse, bits->kernels, result.bytes, pccl_sparse_bytes(&sparse), &square, &reason);
        pccl_sparse_add(&sparse, bits->kernels, result.bytes, 1.0F / 3, sums);
        bits->passed = bits->passed && passed;
        bits_add(bits, result.bytes, pccl_sparse_bytes(&sparse));
        bits_add(bits, elements, sizeof elements);
        bits_add(bits, &square, sizeof square);
        bits_add(bits, sums, sizeof sums);
        (void)snprintf(name, sizeof name, "%" PRIu32, kept[i]);
        bits_end(bits, "sparse", name, "");
    }
}

static void bits_of_digests(struct bits *bits)
{
    static const size_t lengths[] = {0, 3, 100, 240, 5000, 1 << 18};
    bits_begin(bits);
    fill(&bits->prng, PCCL_U8, left.bytes, 1 << 18);
    for (size_t i = 0; i < PCCL_COUNT_OF(lengths); i++) {
        uint64_t halves[2];
        uint8_t hash[PCCL_SHA256_BYTES];
        pccl_digest_128(bits->kernels, left.bytes, lengths[i], halves);
        bits_add(bits, halves, sizeof halves);
        pccl_bulk_hash(bits->kernels, left.bytes, lengths[i], hash);
        bits_add(bits, hash, sizeof hash);
    }
    bits_end(bits, "digests", "", "");
}

static void bits_of_all(struct bits *bits)
{
    for (int type = 0; type < PCCL_DATATYPES; type++)
        for (int reduction = 0; reduction < PCCL_REDUCE_OPS; reduction++)
            if (!pccl_reduction_misfit((enum pccl_datatype)type, (enum pccl_reduce_op)reduction))
                bits_of_reduction(bits, (enum pccl_datatype)type, (enum pccl_reduce_op)reduction);
    for (int i = 0; i < PCCL_DATATYPES; i++) {
        const enum pccl_datatype type = (enum pccl_datatype)i;
        if (!pccl_datatype_is_float(type))
            continue;
        bits_of_scale(bits, type);
        for (int kind = PCCL_CODEC_MIN_MAX; kind < PCCL_CODEC_KINDS; kind++)
            bits_of_codecs(bits, type, (enum pccl_codec_kind)kind);
        if (type != PCCL_F16 && type != PCCL_BF16 && type != PCCL_F32)
            continue;
        bits_of_feedback(bits, type);
        for (int format = 0; format < PCCL_SCALED_FORMATS; format++)
            bits_of_scaled(bits, type, (enum pccl_scaled_format)format);
    }
    bits_of_sparse(bits);
    bits_of_digests(bits);
}

static bool bits_are_those_of_the_table(const struct pccl_kernels *kernels)
{
    struct bits bits = {.kernels = kernels, .passed = true};
    bits_of_all(&bits);
    if (bits.row + 1 != PCCL_COUNT_OF(bits_table)) {
        printf("%zu rows, the table has %zu\n", bits.row, PCCL_COUNT_OF(bits_table) - 1);
        return false;
    }
    return bits.passed;
}

#endif
