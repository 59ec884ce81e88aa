/* The sparse codec, for callers that exchange packed elements themselves. */
#include "api/api.h"
#include "os/cpu.h"
#include "kernels/sparse.h"

_Static_assert(PCCL_SPARSE_CHUNK_ELEMENTS == PCCL_SPARSE_CHUNK, "the public limit");

static const struct pccl_kernels *kernels(void) { return pccl_kernels_for(pccl_cpu_features()); }

static bool is_codec(const struct pccl_sparse *sparse, struct pccl_text *reason)
{
    if (sparse->kept < 1 || sparse->kept > PCCL_SPARSE_CHUNK)
        pccl_text_format(reason, "invalid kept for chunks of %u elements: expected 1 to %u, not %u",
                         (unsigned)PCCL_SPARSE_CHUNK, (unsigned)PCCL_SPARSE_CHUNK, sparse->kept);
    else if (sparse->count > SIZE_MAX / sizeof(float))
        pccl_text_format(reason, "too many floats: %zu", sparse->count);
    else
        return true;
    return false;
}

static enum pccl_status sizes(const struct pccl_sparse *sparse, size_t *bytes, struct pccl_text *reason)
{
    if (!bytes)
        return pccl_fail(reason, PCCL_ARGUMENT, "bytes_out is NULL");
    if (!is_codec(sparse, reason))
        return PCCL_ARGUMENT;
    *bytes = pccl_sparse_bytes(sparse);
    return PCCL_OK;
}

static enum pccl_status pack(const struct pccl_sparse *sparse, float *elements, void *packed, size_t bytes,
                             struct pccl_text *reason)
{
    if ((!elements || !packed) && sparse->count > 0)
        return pccl_fail(reason, PCCL_ARGUMENT, "elements or packed is NULL");
    if (!is_codec(sparse, reason))
        return PCCL_ARGUMENT;
    if (bytes != pccl_sparse_bytes(sparse))
        return pccl_fail(reason, PCCL_ARGUMENT, "wrong buffer size: %zu bytes for %zu elements, expected %zu", bytes,
                         sparse->count, pccl_sparse_bytes(sparse));
    if (!pccl_sparse_encode(sparse, kernels(), elements, packed))
        return pccl_fail(reason, PCCL_ARGUMENT, "an element is not finite");
    return PCCL_OK;
}

static enum pccl_status check(const struct pccl_sparse *sparse, const void *packed, size_t bytes, double *square,
                              struct pccl_text *reason)
{
    if ((!packed && bytes > 0) || !square)
        return pccl_fail(reason, PCCL_ARGUMENT, "packed or square_out is NULL");
    double found;
    if (!is_codec(sparse, reason) || !pccl_sparse_check(sparse, kernels(), packed, bytes, &found, reason))
        return PCCL_ARGUMENT;
    *square = found;
    return PCCL_OK;
}

static enum pccl_status add(const struct pccl_sparse *sparse, const void *packed, size_t bytes, float factor,
                            float *sums, struct pccl_text *reason)
{
    double square;
    if (!sums && sparse->count > 0)
        return pccl_fail(reason, PCCL_ARGUMENT, "sums is NULL");
    enum pccl_status status = check(sparse, packed, bytes, &square, reason);
    if (status == PCCL_OK)
        pccl_sparse_add(sparse, kernels(), packed, factor, sums);
    return status;
}

pcclResult_t pcclGetSparseBytes(size_t count, uint32_t kept, size_t *bytes_out)
{
    const struct pccl_sparse sparse = {count, kept};
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, sizes(&sparse, bytes_out, &call->why.reason));
}

pcclResult_t pcclPackSparse(float *elements, size_t count, uint32_t kept, void *packed, size_t bytes)
{
    const struct pccl_sparse sparse = {count, kept};
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, pack(&sparse, elements, packed, bytes, &call->why.reason));
}

pcclResult_t pcclCheckSparse(const void *packed, size_t bytes, size_t count, uint32_t kept, double *square_out)
{
    const struct pccl_sparse sparse = {count, kept};
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, check(&sparse, packed, bytes, square_out, &call->why.reason));
}

pcclResult_t pcclAddSparse(const void *packed, size_t bytes, size_t count, uint32_t kept, float factor, float *sums)
{
    const struct pccl_sparse sparse = {count, kept};
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, add(&sparse, packed, bytes, factor, sums, &call->why.reason));
}
