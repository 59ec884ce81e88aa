#include "net/record.h"

#include "core/bytes.h"

#include <string.h>

enum {
    KIND_SHIFT = 24,
    BLOCK_BYTES = 16,
    BLOCKS_BESIDE = 2, /* blocks for the header and the lengths of a record */
    LARGE_BYTES = 16 << 10,
};

/* Limit for the blocks of one key, far below AES-GCM's bound of 2^34.5 (RFC 8446, 5.5). */
#define BLOCKS_MAX (UINT64_C(1) << 32)

/* ---- keys ---- */

/* Computes HMAC-SHA-256 with the current secret as the key. Returns false if out of memory. */
static bool hash(const struct pccl_record_line *line, const uint8_t *bytes, size_t length, struct pccl_secret *out)
{
    const struct pccl_openssl *openssl = line->openssl;
    return openssl->HMAC(openssl->EVP_sha256(), line->secret.bytes, sizeof line->secret.bytes, bytes, length,
                         out->bytes, NULL);
}

/*
 * Derives a key by HKDF-Expand (RFC 5869). One block is enough, and the label ends with its number. Returns false if
 * out of memory.
 */
static bool expand(const struct pccl_record_line *line, const char *label, struct pccl_secret *out)
{
    return hash(line, (const uint8_t *)label, strlen(label), out);
}

/* Derives key and nonce from the current secret. */
static bool use_secret(struct pccl_record_line *line)
{
    const struct pccl_openssl *openssl = line->openssl;
    struct pccl_secret key, nonce;
    bool good = expand(line, "pccl record key 1\1", &key) && expand(line, "pccl record nonce 1\1", &nonce) &&
                openssl->EVP_CipherInit_ex(line->context, NULL, NULL, key.bytes, NULL, line->seals);
    if (good)
        memcpy(line->nonce, nonce.bytes, sizeof line->nonce);
    line->blocks = 0;
    pccl_wipe(&key, sizeof key);
    pccl_wipe(&nonce, sizeof nonce);
    return good;
}

bool pccl_record_begin(struct pccl_record_line *line, const struct pccl_openssl *openssl,
                       enum pccl_record_cipher cipher, const struct pccl_secret *secret, bool seals)
{
    line->openssl = openssl;
    line->cipher = cipher;
    line->seals = seals;
    line->secret = *secret;
    line->blocks_max = BLOCKS_MAX;
    line->context = openssl->EVP_CIPHER_CTX_new();
    const struct evp_cipher_st *kind =
        cipher == PCCL_RECORD_AES_128_GCM ? openssl->EVP_aes_128_gcm() : openssl->EVP_chacha20_poly1305();
    return line->context && openssl->EVP_CipherInit_ex(line->context, kind, NULL, NULL, NULL, seals) &&
           use_secret(line);
}

void pccl_record_end(struct pccl_record_line *line)
{
    if (line->context)
        line->openssl->EVP_CIPHER_CTX_free(line->context);
    pccl_wipe(line, sizeof *line);
}

static bool take_secret(struct pccl_record_line *line, struct pccl_secret *next)
{
    line->secret = *next;
    pccl_wipe(next, sizeof *next);
    return use_secret(line);
}

bool pccl_record_mix(struct pccl_record_line *line, const struct pccl_secret *secret)
{
    static const char label[] = "pccl record renew 1";
    uint8_t input[sizeof label + sizeof *secret];
    struct pccl_secret next;
    memcpy(input, label, sizeof label);
    memcpy(input + sizeof label, secret->bytes, sizeof *secret);
    bool good = hash(line, input, sizeof input, &next) && take_secret(line, &next);
    pccl_wipe(input, sizeof input);
    return good;
}

/*
 * Replaces the key if it has been used up. Both ends count the same blocks, so both change the key before the same
 * record.
 */
static bool renew(struct pccl_record_line *line, size_t length)
{
    uint64_t blocks = BLOCKS_BESIDE + (length + BLOCK_BYTES - 1) / BLOCK_BYTES;
    struct pccl_secret next;
    bool good = true;
    if (line->blocks > 0 && line->blocks + blocks > line->blocks_max)
        good = expand(line, "pccl record next 1\1", &next) && take_secret(line, &next);
    line->blocks += blocks;
    return good;
}

/* Initializes the cipher for a record and processes its header. */
static bool set_up(struct pccl_record_line *line, const uint8_t *header, size_t length)
{
    const struct pccl_openssl *openssl = line->openssl;
    uint8_t nonce[PCCL_RECORD_NONCE];
    int moved;
    if (!renew(line, length))
        return false;
    memcpy(nonce, line->nonce, sizeof nonce);
    for (int i = 0; i < 8; i++)
        nonce[PCCL_RECORD_NONCE - 1 - i] ^= (uint8_t)(line->number >> 8 * i);
    line->number++;
    return openssl->EVP_CipherInit_ex(line->context, NULL, NULL, NULL, nonce, line->seals) &&
           openssl->EVP_CipherUpdate(line->context, NULL, &moved, header, PCCL_RECORD_HEADER);
}

static bool pass(struct pccl_record_line *line, const uint8_t *in, size_t length, uint8_t *out)
{
    int moved;
    return length == 0 ||
           (line->openssl->EVP_CipherUpdate(line->context, out, &moved, in, (int)length) && (size_t)moved == length);
}

/* ---- sealing ---- */

bool pccl_record_seal(struct pccl_record_line *line, enum pccl_record_kind kind, const uint8_t *first,
                      size_t first_length, const uint8_t *second, size_t second_length, uint8_t *out)
{
    const struct pccl_openssl *openssl = line->openssl;
    size_t length = first_length + second_length;
    uint8_t *content = out + PCCL_RECORD_HEADER, *tag = content + length;
    int moved;
    PCCL_ASSERT(length <= PCCL_RECORD_CONTENT_MAX && line->seals);
    pccl_put(out, 4, length | (uint64_t)kind << KIND_SHIFT);
    pccl_put(out + 4, 8, line->number);
    return set_up(line, out, length) && pass(line, first, first_length, content) &&
           pass(line, second, second_length, content + first_length) &&
           openssl->EVP_CipherFinal_ex(line->context, tag, &moved) &&
           openssl->EVP_CIPHER_CTX_ctrl(line->context, PCCL_EVP_CTRL_AEAD_GET_TAG, PCCL_RECORD_TAG, tag);
}

/* ---- opening ---- */

static enum pccl_record_kind kind_of(const uint8_t *header)
{
    return (enum pccl_record_kind)(pccl_get(header, 4) >> KIND_SHIFT);
}

static bool has_right_length(enum pccl_record_kind kind, uint64_t length)
{
    switch (kind) {
    case PCCL_RECORD_CONTENT: return length > 0 && length <= PCCL_RECORD_CONTENT_MAX;
    case PCCL_RECORD_KEY: return length == PCCL_RECORD_KEY_BYTES;
    case PCCL_RECORD_END:
    case PCCL_RECORD_NEXT: return length == 0;
    default: return false;
    }
}

/* Returns the length of the content, or -1 if this is not the header of the next record. */
static ptrdiff_t length_of(const struct pccl_record_line *line, const uint8_t *header)
{
    uint64_t length = pccl_get(header, 4) & ((1U << KIND_SHIFT) - 1);
    bool good = has_right_length(kind_of(header), length);
    return good && pccl_get(header + 4, 8) == line->number ? (ptrdiff_t)length : -1;
}

/* Opens a record into `out`, which is either the location of the sealed content or does not overlap it. */
static bool open_record(struct pccl_record_line *line, uint8_t *record, size_t length, uint8_t *out)
{
    const struct pccl_openssl *openssl = line->openssl;
    uint8_t *content = record + PCCL_RECORD_HEADER, *tag = content + length, none[BLOCK_BYTES];
    int moved;
    PCCL_ASSERT(!line->seals);
    return set_up(line, record, length) && pass(line, content, length, out) &&
           openssl->EVP_CIPHER_CTX_ctrl(line->context, PCCL_EVP_CTRL_AEAD_SET_TAG, PCCL_RECORD_TAG, tag) &&
           openssl->EVP_CipherFinal_ex(line->context, none, &moved) == 1;
}

/* ---- the reader ---- */

void pccl_record_reader_fini(struct pccl_record_reader *reader)
{
    pccl_release(reader->memory, reader->buffer, reader->capacity);
    reader->buffer = NULL;
    reader->capacity = reader->start = reader->end = reader->opened_start = reader->opened_end = 0;
}

bool pccl_record_fit(const struct pccl_memory *memory, uint8_t **buffer, uint32_t *capacity, uint32_t needed)
{
    PCCL_ASSERT(needed <= PCCL_RECORD_BUFFER_MAX);
    if (needed <= *capacity)
        return true;
    uint8_t *grown;
    if (needed <= LARGE_BYTES) {
        grown = pccl_grow(memory, *buffer, capacity, needed, 1);
    } else { /* directly to the maximum, instead of doubling */
        grown = memory->resize(memory->context, *buffer, *capacity, PCCL_RECORD_BUFFER_MAX);
        *capacity = grown ? PCCL_RECORD_BUFFER_MAX : *capacity;
    }
    *buffer = grown ? grown : *buffer;
    return grown != NULL;
}

/* Returns the size of the awaited record, or the size of a header if that has not arrived yet. */
static uint32_t awaited(const struct pccl_record_reader *reader, const struct pccl_record_line *line)
{
    ptrdiff_t length = -1;
    if (reader->end - reader->start >= PCCL_RECORD_HEADER)
        length = length_of(line, reader->buffer + reader->start);
    return length < 0 ? PCCL_RECORD_HEADER : PCCL_RECORD_OVERHEAD + (uint32_t)length;
}

uint8_t *pccl_record_space(struct pccl_record_reader *reader, const struct pccl_record_line *line, size_t *length)
{
    uint32_t needed = awaited(reader, line) + reader->ahead, have = reader->end - reader->start;
    PCCL_ASSERT(reader->opened_start == reader->opened_end && have < needed);
    if (reader->start > 0 && (have == 0 || reader->capacity - reader->start < needed)) {
        memmove(reader->buffer, reader->buffer + reader->start, have);
        reader->start = 0;
        reader->end = have;
    }
    if (!pccl_record_fit(reader->memory, &reader->buffer, &reader->capacity, reader->start + needed))
        return NULL;
    *length = needed - have;
    return reader->buffer + reader->end;
}

void pccl_record_filled(struct pccl_record_reader *reader, size_t length)
{
    PCCL_ASSERT(length <= reader->capacity - reader->end);
    reader->end += (uint32_t)length;
}

struct places {
    uint8_t *at[2];
    size_t left[2];
};

static size_t room_of(const struct places *places) { return places->left[0] + places->left[1]; }

/* Returns the index of the place to fill next. */
static int next_of(const struct places *places) { return places->left[0] == 0; }

static void fill(struct places *places, size_t bytes)
{
    int next = next_of(places);
    places->left[next] -= bytes;
    if (bytes)
        places->at[next] += bytes;
}

/* Moves opened content from the buffer to the places. */
static void hand_out(struct pccl_record_reader *reader, struct places *places)
{
    while (reader->opened_start < reader->opened_end && room_of(places) > 0) {
        int next = next_of(places);
        size_t bytes = (size_t)pccl_min_u64(places->left[next], reader->opened_end - reader->opened_start);
        memcpy(places->at[next], reader->buffer + reader->opened_start, bytes);
        reader->opened_start += (uint32_t)bytes;
        fill(places, bytes);
    }
}

/* Returns 1 if the next record is complete, 0 if it is incomplete, and -1 if the bytes cannot become a valid record. */
static int is_whole(const struct pccl_record_reader *reader, const struct pccl_record_line *line, size_t *length)
{
    uint32_t have = reader->end - reader->start;
    if (have < PCCL_RECORD_HEADER)
        return 0;
    ptrdiff_t found = length_of(line, reader->buffer + reader->start);
    if (found < 0)
        return -1;
    *length = (size_t)found;
    return have >= PCCL_RECORD_OVERHEAD + *length;
}

/* Opens the next record. Returns 1 on success, 0 if it is incomplete, and -1 if the bytes are not a valid record. */
static int open_next(struct pccl_record_reader *reader, struct pccl_record_line *line, struct places *places)
{
    size_t length;
    int whole = is_whole(reader, line, &length);
    if (whole <= 0)
        return whole;
    uint8_t *record = reader->buffer + reader->start;
    enum pccl_record_kind kind = kind_of(record);
    int next = next_of(places);
    bool fits = kind == PCCL_RECORD_CONTENT && length <= places->left[next];
    if (!open_record(line, record, length, fits ? places->at[next] : record + PCCL_RECORD_HEADER))
        return -1;
    if (fits) {
        fill(places, length);
    } else if (kind != PCCL_RECORD_CONTENT) {
        reader->met = kind;
        memcpy(reader->key, record + PCCL_RECORD_HEADER, length);
    } else {
        reader->opened_start = reader->start + PCCL_RECORD_HEADER;
        reader->opened_end = reader->opened_start + (uint32_t)length;
    }
    reader->start += PCCL_RECORD_OVERHEAD + (uint32_t)length;
    return 1;
}

ptrdiff_t pccl_record_take(struct pccl_record_reader *reader, struct pccl_record_line *line, uint8_t *first,
                           size_t first_length, uint8_t *second, size_t second_length)
{
    struct places places = {{first, second}, {first_length, second_length}};
    const size_t asked = room_of(&places);
    int opened = 1;
    hand_out(reader, &places);
    while (opened > 0 && room_of(&places) > 0 && !reader->met && !reader->is_broken) {
        opened = open_next(reader, line, &places);
        reader->is_broken = opened < 0;
        hand_out(reader, &places);
    }
    size_t moved = asked - room_of(&places);
    return reader->is_broken && moved == 0 ? -1 : (ptrdiff_t)moved;
}

bool pccl_record_has_input(const struct pccl_record_reader *reader, const struct pccl_record_line *line)
{
    size_t length;
    return reader->opened_start < reader->opened_end || reader->is_broken || reader->met ||
           is_whole(reader, line, &length) != 0;
}
