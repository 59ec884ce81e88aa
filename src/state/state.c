#include "state/internal.h"

#include "core/bytes.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { DIGEST_BYTES = 16, BATCH = 32 /* number of digests passed to the hash at once */ };

static struct pccl_digest digest_of(XXH128_hash_t hash)
{
    return (struct pccl_digest){.low = hash.low64, .high = hash.high64};
}

static struct pccl_digest finish(const XXH3_state_t *hash) { return digest_of(XXH3_128bits_digest(hash)); }

struct pccl_digest pccl_digest_bytes(const struct pccl_kernels *kernels, const void *bytes, size_t length)
{
    uint64_t halves[2];
    pccl_digest_128(kernels, bytes, length, halves);
    return (struct pccl_digest){.low = halves[0], .high = halves[1]};
}

static void put_digest(uint8_t *bytes, const struct pccl_digest *digest)
{
    pccl_put(bytes, 8, digest->low);
    pccl_put(bytes + 8, 8, digest->high);
}

struct pccl_digest pccl_digest_root(uint64_t tensor_bytes, const struct pccl_digest *chunks, uint64_t count)
{
    XXH3_state_t hash;
    uint8_t batch[BATCH * DIGEST_BYTES];
    (void)XXH3_128bits_reset(&hash);
    pccl_put(batch, 8, tensor_bytes);
    (void)XXH3_128bits_update(&hash, batch, 8);
    for (uint64_t first = 0; first < count; first += BATCH) {
        size_t filled = (size_t)pccl_min_u64(BATCH, count - first);
        for (size_t i = 0; i < filled; i++)
            put_digest(batch + i * DIGEST_BYTES, &chunks[first + i]);
        (void)XXH3_128bits_update(&hash, batch, filled * DIGEST_BYTES);
    }
    return finish(&hash);
}

static struct pccl_digest content_of(const struct pccl_state *state)
{
    XXH3_state_t hash;
    uint8_t bytes[DIGEST_BYTES];
    (void)XXH3_128bits_reset(&hash);
    for (uint32_t i = 0; i < state->tensor_count; i++) {
        if (state->tensors[i].unequal)
            continue;
        put_digest(bytes, &state->tensors[i].root);
        (void)XXH3_128bits_update(&hash, bytes, sizeof bytes);
    }
    return finish(&hash);
}

/* ---- proofs ---- */

_Static_assert(sizeof(struct pccl_proof) == PCCL_SHA256_BYTES, "same bytes as the hash");

static struct pccl_proof proof_of(const uint8_t hash[PCCL_SHA256_BYTES])
{
    struct pccl_proof proof;
    memcpy(&proof, hash, sizeof proof);
    return proof;
}

static struct pccl_proof finish_proof(struct pccl_sha256 *sha)
{
    uint8_t hash[PCCL_SHA256_BYTES];
    pccl_sha256_end(sha, hash);
    return proof_of(hash);
}

struct pccl_proof pccl_proof_bytes(const struct pccl_kernels *kernels, const void *bytes, size_t length)
{
    uint8_t hash[PCCL_SHA256_BYTES];
    pccl_bulk_hash(kernels, bytes, length, hash);
    return proof_of(hash);
}

struct pccl_proof pccl_proof_root(const struct pccl_kernels *kernels, uint64_t tensor_bytes,
                                  const struct pccl_proof *chunks, uint64_t count)
{
    struct pccl_sha256 sha;
    uint8_t length[8];
    pccl_sha256_begin(&sha, kernels);
    pccl_put(length, sizeof length, tensor_bytes);
    pccl_sha256_add(&sha, length, sizeof length);
    pccl_sha256_add(&sha, chunks, (size_t)count * sizeof *chunks);
    return finish_proof(&sha);
}

struct pccl_proof pccl_proof_content(const struct pccl_state *state, const struct pccl_proof *roots)
{
    struct pccl_sha256 sha;
    pccl_sha256_begin(&sha, state->kernels);
    for (uint32_t i = 0; i < state->tensor_count; i++)
        if (!state->tensors[i].unequal)
            pccl_sha256_add(&sha, roots != NULL ? &roots[i] : &state->tensors[i].proof, sizeof *roots);
    return finish_proof(&sha);
}

/* ---- structure ---- */

/* Returns the length of a name of any length. The loop is written so that compilers do not turn it into strlen. */
static uint32_t length_of(const char *name)
{
    uint32_t length = 0;
    while (length < UINT32_MAX && name[length] != '\0')
        length++;
    return length;
}

static void hash_shape(XXH3_state_t *hash, const struct pccl_tensor *tensor)
{
    uint32_t length = length_of(tensor->name);
    uint8_t bytes[10];
    pccl_put(bytes, 4, length);
    (void)XXH3_128bits_update(hash, bytes, 4);
    (void)XXH3_128bits_update(hash, tensor->name, length);
    bytes[0] = tensor->datatype;
    bytes[1] = tensor->unequal;
    pccl_put(bytes + 2, 8, tensor->count);
    (void)XXH3_128bits_update(hash, bytes, sizeof bytes);
}

static void describe(struct pccl_state *state)
{
    XXH3_state_t whole, one;
    (void)XXH3_128bits_reset(&whole);
    for (uint32_t i = 0; i < state->tensor_count; i++) {
        (void)XXH3_128bits_reset(&one);
        hash_shape(&one, &state->tensors[i]);
        hash_shape(&whole, &state->tensors[i]);
        state->shapes[i].hash = (uint32_t)finish(&one).low;
    }
    state->structure = finish(&whole);
}

/* ---- the state ---- */

/* Counts all chunks. Returns false if there are too many bytes or chunks. */
static bool count_chunks(const struct pccl_tensor *tensors, uint32_t count, uint64_t *chunks)
{
    uint64_t bytes = 0;
    *chunks = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (tensors[i].bytes > INT64_MAX - bytes)
            return false;
        bytes += tensors[i].bytes;
        *chunks += pccl_chunks_of(tensors[i].bytes);
    }
    return *chunks <= SIZE_MAX / sizeof(struct pccl_proof);
}

static bool allocate(struct pccl_state *state)
{
    const struct pccl_memory *memory = &state->memory;
    if (state->tensor_count > 0) {
        state->tensors = pccl_allocate(memory, state->tensor_count * sizeof *state->tensors);
        state->shapes = pccl_allocate(memory, state->tensor_count * sizeof *state->shapes);
        if (state->tensors == NULL || state->shapes == NULL)
            return false;
    }
    if (state->chunk_count > 0) {
        state->chunks = pccl_allocate(memory, (size_t)state->chunk_count * sizeof *state->chunks);
        state->proofs = pccl_allocate(memory, (size_t)state->chunk_count * sizeof *state->proofs);
    }
    return (state->chunks != NULL && state->proofs != NULL) || state->chunk_count == 0;
}

enum pccl_status pccl_state_init(struct pccl_state *state, const struct pccl_kernels *kernels,
                                 const struct pccl_memory *memory, const struct pccl_tensor *tensors, uint32_t count)
{
    *state = (struct pccl_state){.kernels = kernels, .memory = *memory, .tensor_count = count};
    if (count > PCCL_TENSORS_MAX || !count_chunks(tensors, count, &state->chunk_count)) {
        *state = (struct pccl_state){0};
        return PCCL_LIMIT;
    }
    if (!allocate(state)) {
        pccl_state_fini(state);
        return PCCL_MEMORY;
    }
    uint64_t first = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct pccl_tensor *tensor = &state->tensors[i];
        *tensor = tensors[i];
        tensor->first_chunk = first;
        tensor->chunks = pccl_chunks_of(tensor->bytes);
        tensor->root = (struct pccl_digest){0};
        tensor->proof = (struct pccl_proof){0};
        first += tensor->chunks;
        state->unequal = state->unequal || tensor->unequal;
    }
    describe(state);
    return PCCL_OK;
}

void pccl_state_fini(struct pccl_state *state)
{
    const struct pccl_memory memory = state->memory;
    pccl_release(&memory, state->tensors, state->tensor_count * sizeof *state->tensors);
    pccl_release(&memory, state->shapes, state->tensor_count * sizeof *state->shapes);
    pccl_release(&memory, state->chunks, (size_t)state->chunk_count * sizeof *state->chunks);
    pccl_release(&memory, state->proofs, (size_t)state->chunk_count * sizeof *state->proofs);
    *state = (struct pccl_state){0};
}

uint32_t pccl_state_chunk_length(const struct pccl_tensor *tensor, uint64_t chunk)
{
    PCCL_ASSERT(chunk < tensor->chunks);
    return (uint32_t)pccl_min_u64(PCCL_STATE_CHUNK_BYTES, tensor->bytes - chunk * PCCL_STATE_CHUNK_BYTES);
}

void pccl_state_seal(struct pccl_state *state)
{
    for (uint32_t i = 0; i < state->tensor_count; i++) {
        struct pccl_tensor *tensor = &state->tensors[i];
        const struct pccl_digest *chunks = tensor->chunks > 0 ? state->chunks + tensor->first_chunk : NULL;
        tensor->root = pccl_digest_root(tensor->bytes, chunks, tensor->chunks);
    }
    state->content = content_of(state);
}

void pccl_state_prove_tensor(struct pccl_state *state, uint32_t number)
{
    PCCL_ASSERT(number < state->tensor_count);
    struct pccl_tensor *tensor = &state->tensors[number];
    const struct pccl_proof *chunks = tensor->chunks > 0 ? state->proofs + tensor->first_chunk : NULL;
    tensor->proof = pccl_proof_root(state->kernels, tensor->bytes, chunks, tensor->chunks);
}

void pccl_state_prove_content(struct pccl_state *state) { state->proof = pccl_proof_content(state, NULL); }

void pccl_state_prove(struct pccl_state *state)
{
    for (uint32_t i = 0; i < state->tensor_count; i++)
        pccl_state_prove_tensor(state, i);
    pccl_state_prove_content(state);
}
