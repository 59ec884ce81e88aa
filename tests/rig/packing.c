/*
 * All packing and unpacking of the ranks passes here, so that faults can be planted: the linker puts this in front of
 * the codecs.
 */
#include "rig.h"

#include <math.h>

void __real_pccl_packing_encode(const struct pccl_packing *packing, const struct pccl_kernels *kernels,
                                const void *elements, size_t count, uint64_t place, uint64_t seed, uint8_t *bytes);
void __wrap_pccl_packing_encode(const struct pccl_packing *packing, const struct pccl_kernels *kernels,
                                const void *elements, size_t count, uint64_t place, uint64_t seed, uint8_t *bytes);
void __real_pccl_packing_decode(const struct pccl_packing *packing, const struct pccl_kernels *kernels,
                                const uint8_t *bytes, size_t count, void *elements);
void __wrap_pccl_packing_decode(const struct pccl_packing *packing, const struct pccl_kernels *kernels,
                                const uint8_t *bytes, size_t count, void *elements);

static struct rig_world *packs_for;
static struct { /* last packed block */
    const uint8_t *bytes;
    size_t size;
    uint8_t elements[PCCL_PACKING_BLOCK * sizeof(double)];
} last;

struct rig_world *rig_packs_for(struct rig_world *world)
{
    struct rig_world *before = packs_for;
    packs_for = world;
    return before;
}

static bool is_planted(enum rig_plant plant) { return packs_for != NULL && rig_plant(packs_for, plant); }

static void remember(const void *elements, size_t size, const uint8_t *bytes)
{
    last.bytes = size <= sizeof last.elements ? bytes : NULL;
    last.size = size;
    if (last.bytes != NULL)
        memcpy(last.elements, elements, size);
}

/* Sets the first element that is not finite to 0. Returns false if all are finite. */
static bool hide(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float *element = (float *)(void *)last.elements + i;
        if (isfinite(*element))
            continue;
        *element = 0;
        return true;
    }
    return false;
}

void __wrap_pccl_packing_encode(const struct pccl_packing *packing, const struct pccl_kernels *kernels,
                                const void *elements, size_t count, uint64_t place, uint64_t seed, uint8_t *bytes)
{
    const bool scaled = pccl_packing_is_scaled(packing);
    const bool noisy = scaled && packing->scaled.rounding == PCCL_SCALED_STOCHASTIC;
    const enum pccl_datatype datatype = scaled ? packing->scaled.datatype : PCCL_U8;
    remember(elements, count * pccl_datatype_bytes(datatype), bytes);
    if (noisy && is_planted(RIG_PLANT_recounted))
        place += PCCL_PACKING_BLOCK;
    if (noisy && is_planted(RIG_PLANT_reseeded))
        seed ^= 1;
    if (datatype == PCCL_F32 && last.bytes != NULL && packs_for != NULL && packs_for->plant == RIG_PLANT_hidden &&
        hide(count) && is_planted(RIG_PLANT_hidden))
        elements = last.elements;
    __real_pccl_packing_encode(packing, kernels, elements, count, place, seed, bytes);
}

void __wrap_pccl_packing_decode(const struct pccl_packing *packing, const struct pccl_kernels *kernels,
                                const uint8_t *bytes, size_t count, void *elements)
{
    __real_pccl_packing_decode(packing, kernels, bytes, count, elements);
    if (!pccl_packing_is_scaled(packing) || bytes != last.bytes ||
        count * pccl_datatype_bytes(packing->scaled.datatype) != last.size || !is_planted(RIG_PLANT_exact_sum))
        return;
    memcpy(elements, last.elements, last.size);
}
