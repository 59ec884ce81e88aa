/*
 * Any bytes are refused by the sparse codec or decode, with equal results from scalar kernels and from the best of this
 * machine; any floats are packed into the announced number of bytes, with equal results, and these are accepted, unless
 * one of the floats is not finite.
 */
#include "fuzz.h"

#include <string.h>

#include "../unit/cpu.h"
#include "kernels/sparse.h"

enum { HEAD = 4, CHUNKS_MAX = 3 };

/* Returns a buffer of exactly this size, so that a sanitizer detects access to one byte more. */
static void *buffer(size_t bytes)
{
    void *made = calloc(bytes + (bytes == 0), 1);
    EXPECT(made != NULL);
    return made;
}

static void unpack(const struct pccl_sparse *sparse, const uint8_t *bytes, size_t length, bool must_be_valid)
{
    const struct pccl_kernels *scalar = pccl_kernels_for(0), *best = pccl_kernels_for(pccl_cpu_features());
    struct pccl_text reason;
    double square, other_square;
    const bool valid = pccl_sparse_check(sparse, scalar, bytes, length, &square, &reason);
    EXPECT(pccl_sparse_check(sparse, best, bytes, length, &other_square, &reason) == valid);
    EXPECT(valid || (!must_be_valid && reason.length > 0));
    if (!valid)
        return;
    EXPECT(memcmp(&square, &other_square, sizeof square) == 0);
    const size_t size = sparse->count * sizeof(float);
    float *one = buffer(size), *other = buffer(size);
    pccl_sparse_add(sparse, scalar, bytes, 0.7f, one);
    pccl_sparse_add(sparse, best, bytes, 0.7f, other);
    EXPECT(memcmp(one, other, size) == 0);
    free(one);
    free(other);
}

static void pack(const struct pccl_sparse *sparse, const uint8_t *elements)
{
    const struct pccl_kernels *scalar = pccl_kernels_for(0), *best = pccl_kernels_for(pccl_cpu_features());
    const size_t size = sparse->count * sizeof(float), packed = pccl_sparse_bytes(sparse);
    float *one = buffer(size), *other = buffer(size);
    uint8_t *bytes = buffer(packed), *other_bytes = buffer(packed);
    memcpy(one, elements, size);
    memcpy(other, elements, size);
    const bool packs = pccl_sparse_encode(sparse, scalar, one, bytes);
    EXPECT(pccl_sparse_encode(sparse, best, other, other_bytes) == packs);
    EXPECT(memcmp(one, other, size) == 0 && memcmp(bytes, other_bytes, packed) == 0);
    for (size_t i = 0; i < sparse->count; i++)
        EXPECT(!packs || one[i] - one[i] == 0);
    EXPECT(packs || memcmp(one, elements, size) == 0);
    if (packs)
        unpack(sparse, bytes, packed, true);
    free(one);
    free(other);
    free(bytes);
    free(other_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return 0;
    struct pccl_sparse sparse = {data[0] + 256U * data[1], 1 + (data[2] + 256U * data[3]) % PCCL_SPARSE_CHUNK_ELEMENTS};
    sparse.count %= CHUNKS_MAX * PCCL_SPARSE_CHUNK_ELEMENTS;
    data += HEAD;
    size -= HEAD;
    unpack(&sparse, data, size, false);
    if (sparse.count > size / sizeof(float))
        sparse.count = size / sizeof(float);
    pack(&sparse, data);
    return 0;
}
