/*
 * A peer that changes its frames before they are sealed, so a member with a token sends frames that no program of ours
 * sends: the linker substitutes this for pccl_record_seal. MUTANT_SEED: seed of the changes. MUTANT_AFTER: number of
 * frames that remain unchanged. MUTANT_EVERY: one frame in this number is changed. Payload and the lengths of records
 * remain unchanged. MUTANT_VERSION: protocol version in its hello; nothing else is changed.
 */
#include "core/prng.h"
#include "net/record.h"
#include "wire/frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

bool __real_pccl_record_seal(struct pccl_record_line *line, enum pccl_record_kind kind, const uint8_t *first,
                             size_t first_length, const uint8_t *second, size_t second_length, uint8_t *out);
bool __wrap_pccl_record_seal(struct pccl_record_line *line, enum pccl_record_kind kind, const uint8_t *first,
                             size_t first_length, const uint8_t *second, size_t second_length, uint8_t *out);

enum {
    HEADER = PCCL_FRAME_HEADER_BYTES,
    TYPE_AT = 4,
    NUMBERS_AT = 8, /* offset of sequence and acknowledged */
    CHECKED = 24,
    LENGTHS = 1 << 10, /* limit for the length of frames that are kept for resending */
    CHANGES_MAX = 4,
    VERSION_AT = HEADER + 8, /* after the magic number */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pccl_prng prng;
static bool begun;
static uint64_t after, every, version;
static uint8_t earlier[LENGTHS][LENGTHS]; /* last frame of each length */

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t draw(uint64_t below) { return pccl_prng_below(&prng, below); }

static void put(uint8_t *at, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t body_of(const uint8_t *frame)
{
    return (uint32_t)frame[0] | (uint32_t)frame[1] << 8 | (uint32_t)frame[2] << 16 | (uint32_t)frame[3] << 24;
}

/* Corrects the checksum, so that the receiver decodes the body. */
static void check(uint8_t *frame, size_t length)
{
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    XXH3_64bits_update(&sum, frame, CHECKED);
    XXH3_64bits_update(&sum, frame + HEADER, length - HEADER);
    put(frame + CHECKED, XXH3_64bits_digest(&sum), 4);
}

static uint64_t odd_value(void)
{
    static const uint64_t values[] = {0, 1, 2, 255, 4096, 65535, 1U << 31, UINT32_MAX, INT64_MAX, UINT64_MAX};
    return values[draw(sizeof values / sizeof *values)] - draw(2);
}

static void change_body(uint8_t *body, size_t length)
{
    static const size_t widths[] = {1, 2, 4, 8};
    size_t at = draw(length), width = widths[draw(4)];
    if (draw(2) == 0)
        body[at] ^= (uint8_t)(1U << draw(8));
    else if (at + width <= length)
        put(body + at, odd_value(), width);
}

static void change(uint8_t *frame, size_t length)
{
    size_t changes = 1 + draw(CHANGES_MAX);
    switch (draw(8)) {
    case 0: put(frame + TYPE_AT, draw(80), 2); break;
    case 1: put(frame + NUMBERS_AT + 8 * draw(2), odd_value(), 8); break;
    case 2: frame[draw(length)] ^= (uint8_t)(1U << draw(8)); return; /* keeps the wrong checksum */
    case 3:
        if (length < LENGTHS && HEADER + body_of(earlier[length]) == length)
            memcpy(frame, earlier[length], length);
        break;
    default:
        while (length > HEADER && changes-- > 0)
            change_body(frame + HEADER, length - HEADER);
    }
    check(frame, length);
}

static void change_frames(uint8_t *bytes, size_t left)
{
    while (left >= HEADER && body_of(bytes) <= left - HEADER) {
        size_t length = HEADER + body_of(bytes);
        uint8_t kept[LENGTHS];
        if (length < LENGTHS)
            memcpy(kept, bytes, length);
        if (version > 0 && bytes[TYPE_AT] == PCCL_MSG_hello) {
            put(bytes + VERSION_AT, version, 4);
            check(bytes, length);
        } else if (after > 0) {
            after--;
        } else if (version == 0 && draw(every) == 0) {
            change(bytes, length);
        }
        if (length < LENGTHS)
            memcpy(earlier[length], kept, length);
        bytes += length;
        left -= length;
    }
}

bool __wrap_pccl_record_seal(struct pccl_record_line *line, enum pccl_record_kind kind, const uint8_t *first,
                             size_t first_length, const uint8_t *second, size_t second_length, uint8_t *out)
{
    uint8_t *changed = malloc(first_length + 1);
    if (changed == NULL)
        return false;
    if (first_length > 0)
        memcpy(changed, first, first_length);
    pthread_mutex_lock(&lock);
    if (!begun) {
        begun = true;
        pccl_prng_seed(&prng, setting("MUTANT_SEED", 1));
        after = setting("MUTANT_AFTER", 8);
        every = setting("MUTANT_EVERY", 20);
        version = setting("MUTANT_VERSION", 0);
    }
    if (kind == PCCL_RECORD_CONTENT)
        change_frames(changed, first_length);
    pthread_mutex_unlock(&lock);
    bool good = __real_pccl_record_seal(line, kind, changed, first_length, second, second_length, out);
    free(changed);
    return good;
}
