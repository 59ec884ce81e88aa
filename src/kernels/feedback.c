#include "kernels/feedback.h"

#include "kernels/float_mode.h"
#include "kernels/variant.h"

#include <string.h>

enum { AT_ONCE = 512 };

/* Adds floats to the elements and stores the sum as type `to`. The addition is in float. */
static void add(const struct pccl_kernels *kernels, enum pccl_datatype datatype, const float *floats,
                const void *elements, size_t count, enum pccl_datatype to, void *sum)
{
    const struct pccl_step step = {.datatype = datatype, .from = PCCL_F32, .to = to, .reduction = PCCL_SUM};
    pccl_combine_step(kernels, &step, sum, floats, elements, count);
}

void pccl_feedback_add(const struct pccl_kernels *kernels, enum pccl_datatype datatype, const void *elements,
                       const float *kept, size_t count, float *contribution)
{
    add(kernels, datatype, kept, elements, count, PCCL_F32, contribution);
}

/* Stores residuals. Replaces NaN, which would otherwise persist. */
static void keep_floats(const float *restrict meant, const uint8_t *restrict came, size_t count, float times,
                        float *restrict next)
{
    for (size_t i = 0; i < count; i++) {
        float what;
        uint32_t bits;
        memcpy(&what, came + i * sizeof what, sizeof what);
        what = (meant[i] - what) * times;
        memcpy(&bits, &what, sizeof bits);
        bits &= (uint32_t) - ((bits & 0x7f800000) != 0x7f800000);
        memcpy(next + i, &bits, sizeof bits);
    }
}

void pccl_feedback_keep(const struct pccl_kernels *kernels, enum pccl_datatype datatype, const float *meant,
                        const void *came, size_t count, float times, float *next)
{
    const size_t element_bytes = pccl_datatype_bytes(datatype);
    uint64_t mode = pccl_float_mode_begin();
    for (size_t first = 0, part; first < count; first += part) {
        float widened[AT_ONCE];
        const uint8_t *floats = (const uint8_t *)came + first * element_bytes;
        part = count - first < AT_ONCE ? count - first : AT_ONCE;
        if (datatype != PCCL_F32) {
            kernels->widen[datatype](widened, floats, part);
            floats = (const uint8_t *)widened;
        }
        keep_floats(meant + first, floats, part, times, next + first);
    }
    pccl_float_mode_end(mode);
}

void pccl_feedback_apply(const struct pccl_kernels *kernels, enum pccl_datatype datatype,
                         const struct pccl_feedback *feedback, const void *elements, size_t count, void *result)
{
    const size_t element_bytes = pccl_datatype_bytes(datatype);
    for (size_t first = 0, part; first < count; first += part) {
        float meant[AT_ONCE];
        uint8_t *to = (uint8_t *)result + first * element_bytes;
        part = count - first < AT_ONCE ? count - first : AT_ONCE;
        pccl_feedback_add(kernels, datatype, (const uint8_t *)elements + first * element_bytes, feedback->kept + first,
                          part, meant);
        add(kernels, datatype, feedback->kept + first, (const uint8_t *)elements + first * element_bytes, part,
            datatype, to);
        pccl_feedback_keep(kernels, datatype, meant, to, part, 1, feedback->next + first);
    }
}
