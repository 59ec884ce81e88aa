/*
 * A stream of bytes in segments: any segmentation yields the same frames as one byte at a time, and the buffer stays
 * within its bounds. The first two bytes choose the segments and the limit of length. Some of the frames with a valid
 * header get a valid checksum, because otherwise hardly any would be accepted.
 */
#include "fuzz.h"

#include "core/prng.h"
#include "core/bytes.h"
#include "wire/frame.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { STREAM_MAX = 600 << 10 };

struct counted {
    size_t live, most;
};

static void *resize(void *context, void *block, size_t old_bytes, size_t new_bytes)
{
    struct counted *counted = context;
    counted->live += new_bytes - old_bytes;
    counted->most = counted->live > counted->most ? counted->live : counted->most;
    if (new_bytes == 0) {
        free(block);
        return NULL;
    }
    void *fresh = realloc(block, new_bytes);
    EXPECT(fresh != NULL);
    return fresh;
}

/* The result of reading a stream. */
struct picture {
    uint64_t frames, hash;
    bool malformed;
};

static void add(struct picture *picture, const void *data, size_t length)
{
    picture->hash = XXH3_64bits_withSeed(data, length, picture->hash);
}

/* Takes all complete frames. Returns false if the stream is malformed: no more frames can follow. */
static bool take_frames(struct pccl_frame_reader *reader, struct picture *picture)
{
    struct pccl_frame frame;
    struct pccl_text reason;
    int result;
    pccl_text_clear(&reason);
    while ((result = pccl_frame_reader_next(reader, &frame, &reason)) == 1) {
        EXPECT(frame.length <= reader->body_max);
        picture->frames++;
        add(picture, &frame.type, sizeof frame.type);
        add(picture, &frame.sequence, sizeof frame.sequence);
        add(picture, &frame.acknowledged, sizeof frame.acknowledged);
        add(picture, frame.body, frame.length);
    }
    picture->malformed = result < 0;
    EXPECT(picture->malformed == (reason.length > 0));
    return result == 0;
}

/* Reads a stream. segment_max 0: as much as there is room for. */
static struct picture read_stream(const uint8_t *data, size_t size, struct pccl_prng *prng, uint64_t segment_max,
                                  bool raised)
{
    struct counted counted = {0};
    const struct pccl_memory memory = {resize, &counted};
    struct pccl_frame_reader reader;
    struct picture picture = {0};
    pccl_frame_reader_init(&reader, &memory);
    if (raised)
        pccl_frame_reader_raise(&reader, PCCL_FRAME_BODY_MAX);
    while (size > 0) {
        size_t room;
        uint8_t *space = pccl_frame_reader_space(&reader, &room);
        EXPECT(space != NULL && room > 0);
        size_t part = room < size ? room : size;
        if (segment_max > 0)
            part = (size_t)pccl_min_u64(part, 1 + pccl_prng_below(prng, segment_max));
        memcpy(space, data, part);
        pccl_frame_reader_filled(&reader, part);
        data += part;
        size -= part;
        if (!take_frames(&reader, &picture))
            break;
    }
    EXPECT(counted.most <= (size_t)PCCL_FRAME_HEADER_BYTES + reader.body_max);
    pccl_frame_reader_fini(&reader);
    EXPECT(counted.live == 0);
    return picture;
}

/* Corrects the checksums of the frames in the stream whose first sequence byte is odd. */
static void mend_checksums(uint8_t *data, size_t size)
{
    for (size_t at = 0; at + PCCL_FRAME_HEADER_BYTES <= size;) {
        uint64_t length = pccl_get(data + at, 4);
        if (length > size - at - PCCL_FRAME_HEADER_BYTES)
            return;
        if (data[at + 8] & 1) {
            XXH3_state_t state;
            (void)XXH3_64bits_reset(&state);
            (void)XXH3_64bits_update(&state, data + at, 24);
            (void)XXH3_64bits_update(&state, data + at + PCCL_FRAME_HEADER_BYTES, (size_t)length);
            pccl_put(data + at + 24, 4, XXH3_64bits_digest(&state));
        }
        at += PCCL_FRAME_HEADER_BYTES + (size_t)length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > STREAM_MAX)
        return 0;
    struct pccl_prng prng;
    pccl_prng_seed(&prng, data[0]);
    bool raised = (data[1] & 1) != 0;
    uint64_t segment_max = UINT64_C(1) << (data[1] >> 4);
    uint8_t *stream = malloc(size);
    EXPECT(stream != NULL);
    memcpy(stream, data + 2, size - 2);
    mend_checksums(stream, size - 2);
    struct picture whole = read_stream(stream, size - 2, &prng, 0, raised);
    struct picture single = read_stream(stream, size - 2, &prng, 1, raised);
    struct picture segments = read_stream(stream, size - 2, &prng, segment_max, raised);
    EXPECT(whole.frames == single.frames && whole.hash == single.hash && whole.malformed == single.malformed);
    EXPECT(whole.frames == segments.frames && whole.hash == segments.hash && whole.malformed == segments.malformed);
    free(stream);
    return 0;
}
