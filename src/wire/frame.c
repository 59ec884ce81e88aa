#include "wire/frame.h"

#include "core/bytes.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    HEADER = PCCL_FRAME_HEADER_BYTES,
    CHECKED = 24,           /* number of header bytes covered by the checksum */
    SHORT_BYTES = 240,      /* maximum length that XXH3 hashes without a state */
    BUFFER_LEAST = 1024,    /* a thousand idle connections then take a megabyte */
    BUFFER_KEPT = 16 << 10, /* an empty buffer larger than this is freed */
};

static uint32_t checksum(const uint8_t *header, const uint8_t *body, size_t length)
{
    if (CHECKED + length <= SHORT_BYTES) {
        uint8_t whole[SHORT_BYTES];
        memcpy(whole, header, CHECKED);
        memcpy(whole + CHECKED, body, length);
        return (uint32_t)XXH3_64bits(whole, CHECKED + length);
    }
    XXH3_state_t state;
    (void)XXH3_64bits_reset(&state);
    (void)XXH3_64bits_update(&state, header, CHECKED);
    (void)XXH3_64bits_update(&state, body, length);
    return (uint32_t)XXH3_64bits_digest(&state);
}

size_t pccl_frame_size(const struct pccl_msg *msg) { return HEADER + pccl_wire_size(msg); }

void pccl_frame_encode(const struct pccl_msg *msg, uint64_t sequence, uint64_t acknowledged, uint8_t *bytes)
{
    size_t length = pccl_wire_encode(msg, bytes + HEADER);
    pccl_put(bytes, 4, length);
    pccl_put(bytes + 4, 2, msg->type);
    pccl_put(bytes + 6, 2, 0);
    pccl_put(bytes + 8, 8, sequence);
    pccl_put(bytes + 16, 8, acknowledged);
    pccl_put(bytes + 24, 4, checksum(bytes, bytes + HEADER, length));
    pccl_put(bytes + 28, 4, 0);
}

/* ---- reader ---- */

void pccl_frame_reader_init(struct pccl_frame_reader *reader, const struct pccl_memory *memory)
{
    *reader = (struct pccl_frame_reader){.memory = memory, .body_max = PCCL_FRAME_HELLO_MAX};
}

static void give_back(struct pccl_frame_reader *reader)
{
    pccl_release(reader->memory, reader->buffer, reader->capacity);
    reader->buffer = NULL;
    reader->capacity = reader->start = reader->end = 0;
}

void pccl_frame_reader_fini(struct pccl_frame_reader *reader) { give_back(reader); }

void pccl_frame_reader_raise(struct pccl_frame_reader *reader, uint32_t body_max)
{
    PCCL_ASSERT(body_max >= reader->body_max && body_max <= PCCL_FRAME_BODY_MAX);
    reader->body_max = body_max;
}

/* Doubles the buffer. Its size therefore depends on the bytes received, not on the length that a stranger claims. */
static bool grow(struct pccl_frame_reader *reader)
{
    uint64_t most = (uint64_t)HEADER + reader->body_max;
    uint32_t capacity = (uint32_t)pccl_min_u64(pccl_max_u64(BUFFER_LEAST, (uint64_t)reader->capacity * 2), most);
    PCCL_ASSERT(capacity > reader->capacity); /* otherwise the buffer contains a whole frame that was not taken */
    uint8_t *buffer = reader->memory->resize(reader->memory->context, reader->buffer, reader->capacity, capacity);
    if (buffer == NULL)
        return false;
    reader->buffer = buffer;
    reader->capacity = capacity;
    return true;
}

uint8_t *pccl_frame_reader_space(struct pccl_frame_reader *reader, size_t *length)
{
    *length = 0;
    if (reader->start == reader->end) {
        reader->start = reader->end = 0;
        if (reader->capacity > BUFFER_KEPT)
            give_back(reader);
    }
    if (reader->end == reader->capacity && reader->start > 0) {
        memmove(reader->buffer, reader->buffer + reader->start, reader->end - reader->start);
        reader->end -= reader->start;
        reader->start = 0;
    }
    if (reader->end == reader->capacity && !grow(reader))
        return NULL;
    *length = reader->capacity - reader->end;
    return reader->buffer + reader->end;
}

void pccl_frame_reader_filled(struct pccl_frame_reader *reader, size_t length)
{
    PCCL_ASSERT(length <= reader->capacity - reader->end);
    reader->end += (uint32_t)length;
}

int pccl_frame_reader_next(struct pccl_frame_reader *reader, struct pccl_frame *frame, struct pccl_text *reason)
{
    uint32_t available = reader->end - reader->start;
    if (available < HEADER)
        return 0;
    const uint8_t *header = reader->buffer + reader->start;
    const uint64_t padding = pccl_get(header + 6, 2) | pccl_get(header + 28, 4), sum = pccl_get(header + 24, 4);
    *frame = (struct pccl_frame){
        .type = (uint16_t)pccl_get(header + 4, 2),
        .sequence = pccl_get(header + 8, 8),
        .acknowledged = pccl_get(header + 16, 8),
        .body = header + HEADER,
        .length = (uint32_t)pccl_get(header, 4),
    };
    if (frame->length > reader->body_max) {
        pccl_text_format(reason, "frame too long: %u bytes, expected at most %u", frame->length, reader->body_max);
        return -1;
    }
    if (padding != 0) {
        pccl_text_format(reason, "non-zero padding in a frame header");
        return -1;
    }
    if (available - HEADER < frame->length)
        return 0;
    if (checksum(header, frame->body, frame->length) != sum) {
        pccl_text_format(reason, "wrong checksum of a frame");
        return -1;
    }
    reader->start += HEADER + frame->length;
    return 1;
}
