#include "wire/packing.h"

#include "core/prng.h"

static bool is_scaled(const struct pccl_descriptor *descriptor) { return descriptor->codec >= PCCL_PACKING_SCALED; }

static struct pccl_scaled scaled_of(const struct pccl_descriptor *descriptor, enum pccl_datatype datatype)
{
    return (struct pccl_scaled){.datatype = datatype,
                                .format = (enum pccl_scaled_format)(descriptor->codec - PCCL_PACKING_SCALED),
                                .scale = (enum pccl_scaled_scale)descriptor->codec_scale,
                                .rounding = (enum pccl_scaled_rounding)descriptor->codec_rounding,
                                .block = descriptor->codec_block};
}

bool pccl_packing_find(const struct pccl_descriptor *descriptor, enum pccl_datatype datatype,
                       struct pccl_packing *packing, struct pccl_text *reason)
{
    *packing = (struct pccl_packing){0};
    if (!is_scaled(descriptor)) {
        packing->codec = pccl_codec_find((enum pccl_codec_kind)descriptor->codec, datatype,
                                         (enum pccl_datatype)descriptor->codec_datatype,
                                         (enum pccl_reduce_op)descriptor->operation, reason);
        return reason->length == 0;
    }
    const struct pccl_scaled scaled = scaled_of(descriptor, datatype);
    if (!pccl_scaled_is_valid(&scaled, reason))
        return false;
    packing->scaled = scaled;
    return true;
}

bool pccl_packing_equal(const struct pccl_descriptor *a, const struct pccl_descriptor *b)
{
    return a->codec == b->codec && a->codec_datatype == b->codec_datatype && a->codec_scale == b->codec_scale &&
           a->codec_rounding == b->codec_rounding && a->codec_block == b->codec_block;
}

void pccl_packing_describe(struct pccl_text *words, const struct pccl_descriptor *descriptor)
{
    static const char *const scales[] = {"f32 scales", "bf16 scales", "powers of two as scales"};
    static const char *const roundings[] = {"rounded to the nearest", "rounded stochastically"};
    pccl_text_add(words, pccl_packing_kind_name(descriptor->codec));
    if (is_scaled(descriptor))
        pccl_text_append(words, " in blocks of %u with %s, %s", descriptor->codec_block,
                         scales[descriptor->codec_scale], roundings[descriptor->codec_rounding]);
    else if (descriptor->codec != PCCL_CODEC_NONE || descriptor->codec_datatype != 0)
        pccl_text_append(words, " to %s", pccl_datatype_name((enum pccl_datatype)descriptor->codec_datatype));
}

/* Performs one step of splitmix64 for each number of the instance and the rank. */
uint64_t pccl_packing_seed(const struct pccl_instance *instance, uint32_t rank)
{
    const uint64_t numbers[] = {instance->subgroup, instance->joint, instance->sync,
                                instance->tag,      instance->use,   rank};
    uint64_t seed = 0;
    for (uint32_t i = 0; i < PCCL_COUNT_OF(numbers); i++)
        seed = pccl_prng_mix(seed ^ numbers[i]);
    return seed;
}
