/*
 * Any bytes decode with any scaled codec, with equal results from scalar kernels and from the best of this machine; any
 * elements are packed into the announced number of bytes, with equal results, and each is finite afterward if and only
 * if it was before.
 */
#include "fuzz.h"

#include "../unit/cpu.h"
#include "kernels/scaled.h"

enum { HEAD = 8 };

static float float_at(const uint8_t *elements, size_t index)
{
    float value;
    memcpy(&value, elements + index * sizeof value, sizeof value);
    return value;
}

static bool is_finite(float value) { return value - value == 0; }

/* Returns a buffer of exactly this size, so that a sanitizer detects access to one byte more. */
static uint8_t *buffer(size_t bytes)
{
    uint8_t *made = malloc(bytes + (bytes == 0));
    EXPECT(made != NULL);
    return made;
}

static void pack(const struct pccl_scaled *codec, const uint8_t *elements, size_t count, uint64_t seed)
{
    const struct pccl_kernels *scalar = pccl_kernels_for(0), *best = pccl_kernels_for(pccl_cpu_features());
    size_t packed = pccl_scaled_bytes(codec, count), size = count * pccl_datatype_bytes(codec->datatype);
    uint8_t *one = buffer(packed), *other = buffer(packed), *decoded = buffer(size);
    pccl_scaled_encode(codec, scalar, elements, count, 0, seed, one);
    pccl_scaled_encode(codec, best, elements, count, 0, seed, other);
    EXPECT(memcmp(one, other, packed) == 0);
    pccl_scaled_decode(codec, best, one, count, decoded);
    for (size_t i = 0; i < count && codec->datatype == PCCL_F32; i++)
        EXPECT(is_finite(float_at(elements, i)) == is_finite(float_at(decoded, i)));
    free(one);
    free(other);
    free(decoded);
}

static void unpack(const struct pccl_scaled *codec, const uint8_t *bytes, size_t size)
{
    const struct pccl_kernels *scalar = pccl_kernels_for(0), *best = pccl_kernels_for(pccl_cpu_features());
    size_t count = 0;
    while (pccl_scaled_bytes(codec, count + 1) <= size)
        count++;
    size_t decoded = count * pccl_datatype_bytes(codec->datatype);
    uint8_t *one = buffer(decoded), *other = buffer(decoded);
    pccl_scaled_decode(codec, scalar, bytes, count, one);
    pccl_scaled_decode(codec, best, bytes, count, other);
    EXPECT(memcmp(one, other, decoded) == 0);
    free(one);
    free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pccl_text reason;
    if (size < HEAD)
        return 0;
    struct pccl_scaled codec = {(enum pccl_datatype)(data[0] % (PCCL_DATATYPES + 1)),
                                (enum pccl_scaled_format)(data[1] % (PCCL_SCALED_FORMATS + 1)),
                                (enum pccl_scaled_scale)(data[2] % (PCCL_SCALED_SCALES + 1)),
                                (enum pccl_scaled_rounding)(data[3] % (PCCL_SCALED_ROUNDINGS + 1)),
                                data[4] + 256U * (data[5] % 2)};
    if (!pccl_scaled_is_valid(&codec, &reason)) {
        EXPECT(reason.length > 0);
        return 0;
    }
    pack(&codec, data + HEAD, (size - HEAD) / pccl_datatype_bytes(codec.datatype), data[6]);
    unpack(&codec, data + HEAD, size - HEAD);
    return 0;
}
