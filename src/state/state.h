/*
 * Digests of a shared state: named tensors, each divided into chunks of PCCL_STATE_CHUNK_BYTES; a digest of each chunk,
 * a root of each tensor over its chunks' digests, and two digests of the whole, which the master compares. Pure. The
 * caller computes the chunks' digests (in several threads, or from memory of a device).
 *
 * Digests show cheaply whether honest peers have the same content, but other bytes with the same digest can be
 * constructed. Therefore a peer that fetches content from another checks proofs, which cannot be forged:
 *   Chunk:     pccl_bulk_hash of its bytes.
 *   Root:      SHA-256 of the tensor's length in bytes (u64) and its chunks' proofs.
 *   Content:   SHA-256 of the roots of all tensors that must be equal everywhere, in order.
 *
 * Digests:
 *   Chunk:     XXH3-128 of its bytes.
 *   Root:      XXH3-128 of the tensor's length in bytes (u64) and its chunks' digests (low, high), little-endian.
 *   Content:   XXH3-128 of the roots of all tensors that must be equal everywhere, in order.
 *   Structure: XXH3-128 of each tensor's name (u32 length, bytes), type (u8), flag (u8) and count (u64), in order. The
 *              shape of a tensor is the low 32 bits of the same hash of that tensor alone.
 */
#ifndef PCCL_STATE_STATE_H
#define PCCL_STATE_STATE_H

#include "core/memory.h"
#include "core/status.h"
#include "kernels/kernels.h"
#include "wire/wire.h"

struct pccl_tensor {
    const char *name; /* owned by the caller */
    uint64_t count;   /* number of elements */
    uint64_t bytes;   /* at most INT64_MAX */
    uint8_t datatype;
    bool unequal;         /* true if peers may have different contents */
    uint64_t first_chunk; /* number of its first chunk among the state's chunks */
    uint64_t chunks;      /* 0 for an empty tensor */
    struct pccl_digest root;
    struct pccl_proof proof;
};

struct pccl_state {
    const struct pccl_kernels *kernels; /* for digests and proofs */
    struct pccl_memory memory;
    struct pccl_tensor *tensors;
    uint32_t tensor_count;
    uint64_t chunk_count;
    struct pccl_digest *chunks; /* digests of the chunks of all tensors, in order */
    struct pccl_shape *shapes;  /* one for each tensor */
    struct pccl_digest structure, content;
    struct pccl_proof *proofs; /* proofs of all chunks, in order */
    struct pccl_proof proof;   /* proof of the content */
    bool unequal;              /* true if some tensor is unequal */
};

/*
 * Fills in everything that does not depend on the content, from name, count, bytes, datatype and unequal of `tensors`,
 * which are copied except for the names. Returns LIMIT for more than PCCL_TENSORS_MAX tensors or too many bytes, or
 * MEMORY, with nothing to free.
 */
PCCL_MUST_CHECK enum pccl_status pccl_state_init(struct pccl_state *state, const struct pccl_kernels *kernels,
                                                 const struct pccl_memory *memory, const struct pccl_tensor *tensors,
                                                 uint32_t count);
void pccl_state_fini(struct pccl_state *state);
/* Returns the length of a chunk of a tensor. All chunks but the last have PCCL_STATE_CHUNK_BYTES. */
uint32_t pccl_state_chunk_length(const struct pccl_tensor *tensor, uint64_t chunk);
/* Computes the roots and the content from all chunks' digests. */
void pccl_state_seal(struct pccl_state *state);
/* Compute proofs from the proofs of the chunks: all roots and the content; the root of one tensor; the content. */
void pccl_state_prove(struct pccl_state *state);
void pccl_state_prove_tensor(struct pccl_state *state, uint32_t tensor);
void pccl_state_prove_content(struct pccl_state *state);

struct pccl_digest pccl_digest_bytes(const struct pccl_kernels *kernels, const void *bytes, size_t length);
struct pccl_digest pccl_digest_root(uint64_t tensor_bytes, const struct pccl_digest *chunks, uint64_t count);
struct pccl_proof pccl_proof_bytes(const struct pccl_kernels *kernels, const void *bytes, size_t length);
struct pccl_proof pccl_proof_root(const struct pccl_kernels *kernels, uint64_t tensor_bytes,
                                  const struct pccl_proof *chunks, uint64_t count);

#endif
