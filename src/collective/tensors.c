#include "collective/tensors.h"

#include <string.h>

bool pccl_tensors_begin_section(const struct pccl_coalesced_tensor *list, uint32_t index)
{
    const struct pccl_coalesced_tensor *tensor = &list[index];
    return index == 0 || tensor->datatype != tensor[-1].datatype || tensor->reduction != tensor[-1].reduction;
}

uint32_t pccl_tensors_sections(const struct pccl_coalesced_tensor *list, uint32_t count, struct pccl_section *sections)
{
    uint32_t made = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (pccl_tensors_begin_section(list, i))
            sections[made++] = (struct pccl_section){(uint8_t)list[i].datatype, (uint8_t)list[i].reduction, 0};
        sections[made - 1].count += list[i].count;
    }
    return made;
}

bool pccl_tensors_init(struct pccl_tensors *tensors, const struct pccl_memory *memory,
                       const struct pccl_coalesced_tensor *list, uint32_t count, size_t room_bytes)
{
    size_t at = 0;
    *tensors = (struct pccl_tensors){.memory = memory, .count = count, .room_bytes = room_bytes};
    tensors->places = pccl_allocate(memory, count * sizeof *tensors->places);
    tensors->input_room = pccl_allocate(memory, room_bytes);
    tensors->result_room = pccl_allocate(memory, room_bytes);
    if (tensors->places == NULL || tensors->input_room == NULL || tensors->result_room == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = (size_t)list[i].count * pccl_datatype_bytes(list[i].datatype);
        tensors->places[i] = (struct pccl_tensor_place){at, bytes, list[i].input, list[i].result};
        at += bytes;
    }
    return true;
}

void pccl_tensors_fini(struct pccl_tensors *tensors)
{
    if (tensors->memory == NULL)
        return;
    pccl_release(tensors->memory, tensors->places, tensors->count * sizeof *tensors->places);
    pccl_release(tensors->memory, tensors->input_room, tensors->room_bytes);
    pccl_release(tensors->memory, tensors->result_room, tensors->room_bytes);
}

/* The tensor in which the first of these bytes lies. */
static const struct pccl_tensor_place *find(const struct pccl_tensors *tensors, size_t at, size_t bytes)
{
    PCCL_ASSERT(tensors->count > 0);
    const struct pccl_tensor_place *last = &tensors->places[tensors->count - 1];
    PCCL_ASSERT(at + bytes <= last->at + last->bytes);
    uint32_t low = 0, high = tensors->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (tensors->places[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    return &tensors->places[low];
}

static bool has_all(const struct pccl_tensor_place *place, size_t at, size_t bytes)
{
    return at + bytes <= place->at + place->bytes;
}

bool pccl_tensors_are_whole(const struct pccl_tensors *tensors, size_t at, size_t bytes)
{
    return has_all(find(tensors, at, bytes), at, bytes);
}

/* Of the stretch, what lies in this tensor. */
static size_t part_of(const struct pccl_tensor_place *place, size_t at, size_t bytes)
{
    size_t rest = place->at + place->bytes - at;
    return bytes < rest ? bytes : rest;
}

static void copy(uint8_t *to, const uint8_t *from, size_t bytes, const struct pccl_kernels *streaming)
{
    if (streaming != NULL)
        pccl_copy_streaming(streaming, to, from, bytes);
    else
        memcpy(to, from, bytes);
}

static void copied(const struct pccl_kernels *streaming)
{
    if (streaming != NULL)
        pccl_copied_streaming(streaming);
}

static void collect(const struct pccl_tensor_place *place, size_t at, size_t bytes, bool input, uint8_t *to,
                    const struct pccl_kernels *streaming)
{
    for (size_t part; bytes > 0; place++, at += part, to += part, bytes -= part) {
        part = part_of(place, at, bytes);
        copy(to, (input ? place->input : place->result) + (at - place->at), part, streaming);
    }
    copied(streaming);
}

const uint8_t *pccl_tensors_input(const struct pccl_tensors *tensors, size_t at, size_t bytes)
{
    const struct pccl_tensor_place *place = find(tensors, at, bytes);
    if (has_all(place, at, bytes))
        return place->input + (at - place->at);
    PCCL_ASSERT(bytes <= tensors->room_bytes);
    collect(place, at, bytes, true, tensors->input_room, NULL);
    return tensors->input_room;
}

void pccl_tensors_take(const struct pccl_tensors *tensors, size_t at, size_t bytes, uint8_t *to)
{
    collect(find(tensors, at, bytes), at, bytes, true, to, NULL);
}

uint8_t *pccl_tensors_result(const struct pccl_tensors *tensors, size_t at, size_t bytes)
{
    const struct pccl_tensor_place *place = find(tensors, at, bytes);
    PCCL_ASSERT(bytes <= tensors->room_bytes);
    return has_all(place, at, bytes) ? place->result + (at - place->at) : tensors->result_room;
}

void pccl_tensors_written(const struct pccl_tensors *tensors, size_t at, size_t bytes)
{
    if (!pccl_tensors_are_whole(tensors, at, bytes))
        pccl_tensors_write(tensors, at, bytes, tensors->result_room, NULL);
}

void pccl_tensors_read(const struct pccl_tensors *tensors, size_t at, size_t bytes, uint8_t *to,
                       const struct pccl_kernels *streaming)
{
    collect(find(tensors, at, bytes), at, bytes, false, to, streaming);
}

void pccl_tensors_write(const struct pccl_tensors *tensors, size_t at, size_t bytes, const uint8_t *from,
                        const struct pccl_kernels *streaming)
{
    const struct pccl_tensor_place *place = find(tensors, at, bytes);
    for (size_t part; bytes > 0; place++, at += part, from += part, bytes -= part) {
        part = part_of(place, at, bytes);
        copy(place->result + (at - place->at), from, part, streaming);
    }
    copied(streaming);
}
