/*
 * The input of a link, in pieces of any size, into places of any size: either it is the other end's sealed output, or
 * no content is returned from the difference on. The first bytes determine changes and cuts of a sealed stream; the
 * remaining ones follow it, or replace its end.
 */
#include "fuzz.h"

#include "net/heap.h"
#include "net/record.h"

#include <string.h>

enum { CONTENT = 600, STREAM_MAX = 2048 };

static const struct pccl_secret secret = {"a secret for what is fuzzed"};

/* Seals records of some lengths, one of them after a change of the key, and the end. */
static size_t seal_stream(const struct pccl_openssl *openssl, enum pccl_record_cipher cipher, const uint8_t *content,
                          uint8_t *sealed)
{
    static const size_t lengths[] = {1, 90, 400, 16, 93, 0};
    struct pccl_record_line line = {0};
    size_t bytes = 0, at = 0;
    EXPECT(pccl_record_begin(&line, openssl, cipher, &secret, true));
    line.blocks_max = 20;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        EXPECT(pccl_record_seal(&line, lengths[i] ? PCCL_RECORD_CONTENT : PCCL_RECORD_END, content + at, lengths[i],
                                NULL, 0, sealed + bytes));
        bytes += lengths[i] + PCCL_RECORD_OVERHEAD;
        at += lengths[i];
    }
    EXPECT(at == CONTENT);
    pccl_record_end(&line);
    return bytes;
}

/* Reads the whole stream; the returned content must be the beginning of the sealed content. */
static void read_stream(const struct pccl_openssl *openssl, enum pccl_record_cipher cipher, const uint8_t *bytes,
                        size_t length, size_t piece, size_t first, const uint8_t *content, bool is_same)
{
    static uint8_t in[2 * CONTENT];
    struct pccl_record_line line = {0};
    struct pccl_record_reader reader = {.memory = pccl_heap(), .ahead = (uint32_t)(piece % 2 * 100)};
    size_t received = 0;
    ptrdiff_t got = 0;
    EXPECT(pccl_record_begin(&line, openssl, cipher, &secret, false));
    line.blocks_max = 20;
    while (length > 0 && got >= 0 && reader.met != PCCL_RECORD_END) {
        size_t room;
        uint8_t *space = pccl_record_space(&reader, &line, &room);
        EXPECT(space && room > 0);
        room = room < piece ? room : piece;
        room = room < length ? room : length;
        memcpy(space, bytes, room);
        pccl_record_filled(&reader, room);
        bytes += room;
        length -= room;
        do {
            bool expected = pccl_record_has_input(&reader, &line);
            got = pccl_record_take(&reader, &line, in + received, first, in + received + first, CONTENT - first);
            EXPECT(expected == (got != 0 || reader.met == PCCL_RECORD_END));
            received += got > 0 ? (size_t)got : 0;
            EXPECT(received <= CONTENT);
        } while (got > 0);
    }
    EXPECT(memcmp(in, content, received) == 0);
    EXPECT(reader.capacity <= PCCL_RECORD_BUFFER_MAX);
    EXPECT(!is_same || (received == CONTENT && reader.met == PCCL_RECORD_END));
    EXPECT(reader.met != PCCL_RECORD_END || received == CONTENT);
    pccl_record_reader_fini(&reader);
    pccl_record_end(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t content[CONTENT], stream[STREAM_MAX + 4096], whole[STREAM_MAX];
    struct pccl_text reason;
    const struct pccl_openssl *openssl = pccl_openssl(&reason);
    if (size < 8 || size > 4096 || !openssl)
        return 0;
    for (size_t i = 0; i < CONTENT; i++)
        content[i] = (uint8_t)(i * 7);
    enum pccl_record_cipher cipher = data[0] & 1 ? PCCL_RECORD_CHACHA20_POLY1305 : PCCL_RECORD_AES_128_GCM;
    size_t sealed = seal_stream(openssl, cipher, content, whole), piece = 1 + data[1] * 5U, first = data[2] * 2U;
    size_t keep = ((size_t)data[3] | (size_t)data[4] << 8) % (sealed + 1);
    size_t at = ((size_t)data[5] | (size_t)data[6] << 8) % sealed;
    memcpy(stream, whole, sealed);
    stream[at] ^= data[7];
    keep = data[0] & 2 ? sealed : keep;
    memcpy(stream + keep, data + 8, size - 8);
    size_t length = keep + size - 8;
    bool is_same = length >= sealed && memcmp(stream, whole, sealed) == 0;
    read_stream(openssl, cipher, stream, length, piece, first, content, is_same);
    return 0;
}
