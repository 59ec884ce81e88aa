/*
 * The caller's memory where it is not one tensor but several: as if they lay one behind the other. A
 * stretch of it is whole if it lies in one tensor; of the others, bytes are copied. Pure.
 */
#ifndef PCCL_COLLECTIVE_TENSORS_H
#define PCCL_COLLECTIVE_TENSORS_H

#include "core/memory.h"
#include "kernels/kernels.h"
#include "wire/coalesced.h"

struct pccl_coalesced_tensor {
    const void *input;
    void *result; /* may be the input */
    uint64_t count;
    enum pccl_datatype datatype;
    enum pccl_reduce_op reduction;
};

/* Whether the tensor in this place of the list is not like the one before it. */
bool pccl_tensors_begin_section(const struct pccl_coalesced_tensor *list, uint32_t index);
/* Writes their sections, of which there are `count` at most, and returns how many there are. */
uint32_t pccl_tensors_sections(const struct pccl_coalesced_tensor *list, uint32_t count, struct pccl_section *sections);

struct pccl_tensor_place {
    size_t at, bytes;
    const uint8_t *input;
    uint8_t *result;
};

struct pccl_tensors {
    const struct pccl_memory *memory;
    struct pccl_tensor_place *places; /* in order, without gaps */
    uint32_t count;
    size_t room_bytes;
    uint8_t *input_room, *result_room; /* for a stretch that is not whole */
};

/* No stretch for whose bytes room is asked for is longer than room_bytes. false: memory is short. */
PCCL_MUST_CHECK bool pccl_tensors_init(struct pccl_tensors *tensors, const struct pccl_memory *memory,
                                       const struct pccl_coalesced_tensor *list, uint32_t count, size_t room_bytes);
void pccl_tensors_fini(struct pccl_tensors *tensors);

bool pccl_tensors_are_whole(const struct pccl_tensors *tensors, size_t at, size_t bytes);
/* The input of a stretch: where it lies, or a copy of it, which holds until the next one is asked for. */
const uint8_t *pccl_tensors_input(const struct pccl_tensors *tensors, size_t at, size_t bytes);
/* Copies the input of a stretch. */
void pccl_tensors_take(const struct pccl_tensors *tensors, size_t at, size_t bytes, uint8_t *to);
/* Where the result of a stretch is to be written, before pccl_tensors_written. */
uint8_t *pccl_tensors_result(const struct pccl_tensors *tensors, size_t at, size_t bytes);
void pccl_tensors_written(const struct pccl_tensors *tensors, size_t at, size_t bytes);
/* Copies between the result of a stretch and other memory; with kernels past the caches (pccl_copy_streaming). */
void pccl_tensors_read(const struct pccl_tensors *tensors, size_t at, size_t bytes, uint8_t *to,
                       const struct pccl_kernels *streaming);
void pccl_tensors_write(const struct pccl_tensors *tensors, size_t at, size_t bytes, const uint8_t *from,
                        const struct pccl_kernels *streaming);

#endif
