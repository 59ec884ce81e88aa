/* Records of links: known answers of a model, every split, and all kinds of bytes that were not sealed like that. */
#include "unit.h"

#include "support.h"
#include "core/bytes.h"
#include "net/heap.h"
#include "net/record.h"

enum { RECORDS_MAX = 16, STREAM_MAX = 4 << 10 };

static const struct pccl_openssl *openssl(void)
{
    struct pccl_text reason;
    const struct pccl_openssl *found = pccl_openssl(&reason);
    assert_non_null(found);
    return found;
}

static const struct pccl_secret secret = {"the secret of this direction"}, other = {"that of the other direction"};

static struct pccl_record_line line_of(enum pccl_record_cipher cipher, const struct pccl_secret *of, bool seals,
                                       uint64_t blocks_max)
{
    struct pccl_record_line line = {0};
    assert_true(pccl_record_begin(&line, openssl(), cipher, of, seals));
    assert_true(line.blocks_max == UINT64_C(1) << 32);
    line.blocks_max = blocks_max;
    return line;
}

static struct pccl_record_reader new_reader(void)
{
    return (struct pccl_record_reader){.memory = pccl_heap(), .ahead = PCCL_RECORD_AHEAD_MAX};
}

/* Byte j of the content of record i. */
static void fill(uint8_t *bytes, size_t length, unsigned i)
{
    for (size_t j = 0; j < length; j++)
        bytes[j] = (uint8_t)(31 * i + 7 * j);
}

/* ---- known answers ---- */

static size_t from_hex(const char *text, uint8_t *bytes)
{
    size_t length = 0;
    for (unsigned byte; sscanf(text + 2 * length, "%2x", &byte) == 1; length++)
        bytes[length] = (uint8_t)byte;
    return length;
}

/* One record of a line of answers: the C seals the same, and opens it. */
static void check_answer(const char *word, unsigned i, struct pccl_record_line *seals, struct pccl_record_line *opens)
{
    uint8_t content[1024], sealed[1100], expected[1100], opened[1024];
    size_t length = strtoul(word, NULL, 10), half = length / 3;
    size_t bytes = from_hex(strchr(word, ':') + 1, expected);
    assert_int_equal(bytes, length + PCCL_RECORD_OVERHEAD);
    fill(content, length, i);
    assert_true(pccl_record_seal(seals, length ? PCCL_RECORD_CONTENT : PCCL_RECORD_END, content, half, content + half,
                                 length - half, sealed));
    assert_memory_equal(sealed, expected, bytes);
    struct pccl_record_reader reader = new_reader();
    size_t room;
    uint8_t *space = pccl_record_space(&reader, opens, &room);
    memcpy(space, expected, bytes);
    pccl_record_filled(&reader, bytes);
    assert_int_equal(pccl_record_take(&reader, opens, opened, sizeof opened, NULL, 0), length);
    assert_memory_equal(opened, content, length);
    assert_int_equal(reader.met == PCCL_RECORD_END, length == 0);
    pccl_record_reader_fini(&reader);
}

/* Returns the next word of a line, or NULL after the last one. */
static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \n");
    *rest = word + strcspn(word, " \n");
    if (**rest)
        *(*rest)++ = '\0';
    return *word ? word : NULL;
}

TEST(test_answers_of_the_model)
{
    static char text[16 << 10];
    FILE *file = fopen(RECORD_ANSWERS, "r");
    size_t lines = 0;
    assert_non_null(file);
    for (; fgets(text, sizeof text, file) != NULL; lines++) {
        struct pccl_secret of;
        char *rest = text;
        bool is_aes = strcmp(next_word(&rest), "aes-128-gcm") == 0;
        enum pccl_record_cipher cipher = is_aes ? PCCL_RECORD_AES_128_GCM : PCCL_RECORD_CHACHA20_POLY1305;
        assert_int_equal(from_hex(next_word(&rest), of.bytes), sizeof of.bytes);
        uint64_t blocks_max = strtoull(next_word(&rest), NULL, 10);
        struct pccl_record_line seals = line_of(cipher, &of, true, blocks_max);
        struct pccl_record_line opens = line_of(cipher, &of, false, blocks_max);
        char *word;
        for (unsigned i = 0; (word = next_word(&rest)) != NULL; i++)
            check_answer(word, i, &seals, &opens);
        /* The current secret opens nothing that an earlier key has sealed. */
        assert_int_equal(memcmp(&opens.secret, &of, sizeof of) != 0, blocks_max < 1000);
        pccl_record_end(&seals);
        pccl_record_end(&opens);
    }
    assert_int_equal(lines, 6);
    assert_int_equal(fclose(file), 0);
}

/* ---- a stream ---- */

struct stream {
    uint8_t sealed[STREAM_MAX], content[STREAM_MAX];
    size_t at[RECORDS_MAX + 1];    /* offset at which each record begins */
    size_t until[RECORDS_MAX + 1]; /* number of bytes of content before it */
    size_t records, bytes;
};

static void seal_stream(struct stream *stream, const struct pccl_secret *of, uint64_t blocks_max)
{
    static const size_t lengths[] = {1, 90, 300, 16, 4, 700, 33, 0};
    struct pccl_record_line line = line_of(PCCL_RECORD_AES_128_GCM, of, true, blocks_max);
    size_t length = 0;
    memset(stream, 0, sizeof *stream);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        fill(stream->content + length, lengths[i], (unsigned)i);
        assert_true(pccl_record_seal(&line, lengths[i] ? PCCL_RECORD_CONTENT : PCCL_RECORD_END,
                                     stream->content + length, lengths[i], NULL, 0, stream->sealed + stream->bytes));
        stream->bytes += lengths[i] + PCCL_RECORD_OVERHEAD;
        length += lengths[i];
        stream->at[++stream->records] = stream->bytes;
        stream->until[stream->records] = length;
    }
    pccl_record_end(&line);
}

struct end {
    struct pccl_record_line line;
    struct pccl_record_reader reader;
    uint8_t in[STREAM_MAX];
    size_t received;
};

static void begin_end(struct end *end, uint64_t blocks_max)
{
    *end = (struct end){.line = line_of(PCCL_RECORD_AES_128_GCM, &secret, false, blocks_max), .reader = new_reader()};
}

static void stop_end(struct end *end)
{
    pccl_record_end(&end->line);
    pccl_record_reader_fini(&end->reader);
}

/* Takes all content that is there, into buffers of these sizes. Returns false if the stream is broken. */
static bool take_all(struct end *end, size_t first, size_t second)
{
    ptrdiff_t got;
    do {
        uint8_t *at = end->in + end->received;
        bool expected = pccl_record_has_input(&end->reader, &end->line);
        got = pccl_record_take(&end->reader, &end->line, at, first, at + first, second);
        assert_int_equal(expected, got != 0 || end->reader.met == PCCL_RECORD_END);
        end->received += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    return got == 0;
}

/* Receives bytes in pieces. Returns false if the stream is broken. */
static bool receive(struct end *end, const uint8_t *bytes, size_t length, size_t piece, size_t first, size_t second)
{
    while (length > 0 && end->reader.met != PCCL_RECORD_END) {
        size_t room;
        uint8_t *space = pccl_record_space(&end->reader, &end->line, &room);
        assert_non_null(space);
        room = pccl_min_u64(pccl_min_u64(room, piece), length);
        memcpy(space, bytes, room);
        pccl_record_filled(&end->reader, room);
        bytes += room;
        length -= room;
        if (!take_all(end, first, second))
            return false;
    }
    return true;
}

static void check_whole(struct end *end, const struct stream *stream)
{
    assert_int_equal(end->received, stream->until[stream->records]);
    assert_memory_equal(end->in, stream->content, end->received);
    assert_true(end->reader.met == PCCL_RECORD_END);
}

TEST(test_every_split)
{
    static const size_t places[][2] = {{2000, 0}, {1, 0}, {7, 100}, {0, 90}, {91, 1}, {100, 1000}};
    struct stream stream;
    struct end end;
    for (int renewed = 0; renewed < 2; renewed++) {
        uint64_t blocks_max = renewed ? 20 : UINT64_C(1) << 32;
        seal_stream(&stream, &secret, blocks_max);
        for (size_t place = 0; place < sizeof places / sizeof *places; place++) {
            const size_t first = places[place][0], second = places[place][1];
            for (size_t split = 1; split < stream.bytes; split++) {
                begin_end(&end, blocks_max);
                assert_true(receive(&end, stream.sealed, split, SIZE_MAX, first, second));
                assert_true(receive(&end, stream.sealed + split, stream.bytes - split, SIZE_MAX, first, second));
                check_whole(&end, &stream);
                stop_end(&end);
            }
            for (size_t piece = 1; piece < 40; piece++) {
                begin_end(&end, blocks_max);
                end.reader.ahead = piece % 3; /* bytes after the last record belong to another reader */
                assert_true(receive(&end, stream.sealed, stream.bytes, piece, first, second));
                check_whole(&end, &stream);
                assert_true(end.reader.end - end.reader.start <= end.reader.ahead);
                stop_end(&end);
            }
        }
    }
}

TEST(test_cut_anywhere_is_no_end)
{
    struct stream stream;
    struct end end;
    seal_stream(&stream, &secret, 20);
    for (size_t cut = 0; cut < stream.bytes; cut++) {
        size_t whole = 0;
        while (stream.at[whole + 1] <= cut)
            whole++;
        begin_end(&end, 20);
        assert_true(receive(&end, stream.sealed, cut, SIZE_MAX, 64, 64));
        assert_int_equal(end.received, stream.until[whole]); /* an incomplete record does not count */
        assert_memory_equal(end.in, stream.content, end.received);
        assert_false(end.reader.met == PCCL_RECORD_END);
        stop_end(&end);
    }
}

/* Checks that all records before `good` are taken, none after, and that the stream is broken. */
static void check_broken(const struct stream *stream, const uint8_t *bytes, size_t length, size_t good)
{
    struct end end;
    begin_end(&end, 20);
    bool broken = !receive(&end, bytes, length, SIZE_MAX, 2000, 0);
    assert_true(end.received <= stream->until[good]);
    assert_memory_equal(end.in, stream->content, end.received);
    assert_false(end.reader.met == PCCL_RECORD_END);
    if (broken) { /* and stays so */
        assert_int_equal(end.received, stream->until[good]);
        assert_int_equal(pccl_record_take(&end.reader, &end.line, end.in, 1, NULL, 0), -1);
        assert_true(pccl_record_has_input(&end.reader, &end.line));
    } else { /* a length that was changed: it waits for more, which ends in the same way */
        assert_true(end.reader.end - end.reader.start < PCCL_RECORD_BUFFER_MAX);
    }
    stop_end(&end);
}

TEST(test_every_flipped_bit_is_noticed)
{
    struct stream stream;
    seal_stream(&stream, &secret, 20);
    for (size_t bit = 0; bit < 8 * stream.bytes; bit++) {
        size_t record = 0;
        while (8 * stream.at[record + 1] <= bit)
            record++;
        stream.sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
        check_broken(&stream, stream.sealed, stream.bytes, record);
        stream.sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

TEST(test_records_have_one_place)
{
    struct stream stream, reflected, recorded;
    uint8_t bytes[STREAM_MAX];
    seal_stream(&stream, &secret, 20);
    for (size_t i = 0; i < stream.records; i++)
        for (size_t j = 0; j < stream.records; j++) { /* record j in the place of i: replayed, left out, swapped */
            if (i == j)
                continue;
            size_t length = stream.at[j + 1] - stream.at[j];
            memcpy(bytes, stream.sealed, stream.at[i]);
            memcpy(bytes + stream.at[i], stream.sealed + stream.at[j], length);
            check_broken(&stream, bytes, stream.at[i] + length, i);
        }
    seal_stream(&reflected, &other, 20); /* sealed by this end itself, or for another connection */
    for (size_t i = 0; i < stream.records; i++) {
        seal_stream(&recorded, &secret, 20);
        memcpy(recorded.sealed + recorded.at[i], reflected.sealed + reflected.at[i],
               reflected.at[i + 1] - reflected.at[i]);
        check_broken(&stream, recorded.sealed, recorded.bytes, i);
    }
}

TEST(test_ends_must_count_the_same)
{
    struct stream stream;
    seal_stream(&stream, &secret, 30);
    check_broken(&stream, stream.sealed, stream.bytes, 3); /* where only one of them has changed the key */
}

/* ---- long records, and memory ---- */

TEST(test_long_record_is_opened_in_its_place)
{
    enum { LONG = PCCL_RECORD_CONTENT_MAX, FRAME = 80 };
    uint8_t *content = malloc(LONG), *in = malloc(LONG), *sealed = malloc(2 * LONG), frame[FRAME], frames[1000];
    assert_true(content && in && sealed);
    for (int cipher = 0; cipher < 2; cipher++) {
        struct pccl_record_line seals = line_of(cipher, &secret, true, 1000);
        struct pccl_record_line opens = line_of(cipher, &secret, false, 1000);
        struct pccl_record_reader reader = new_reader();
        size_t bytes = 0, sent = 0;
        fill(content, LONG, 5);
        fill(frame, FRAME, 6);
        assert_true(pccl_record_seal(&seals, PCCL_RECORD_CONTENT, frame, FRAME, NULL, 0, sealed));
        bytes += FRAME + PCCL_RECORD_OVERHEAD;
        assert_true(pccl_record_seal(&seals, PCCL_RECORD_CONTENT, content, LONG, NULL, 0, sealed + bytes));
        bytes += LONG + PCCL_RECORD_OVERHEAD;
        memset(in, 0, LONG);
        while (sent < bytes) {
            size_t room;
            uint8_t *space = pccl_record_space(&reader, &opens, &room);
            room = pccl_min_u64(room, bytes - sent);
            memcpy(space, sealed + sent, room);
            pccl_record_filled(&reader, room);
            sent += room;
            /* The frame arrives first, and the bytes after it wait for a buffer; they are not opened elsewhere. */
            if (sent == room)
                assert_int_equal(pccl_record_take(&reader, &opens, frames, sizeof frames, NULL, 0), FRAME);
        }
        assert_int_equal(reader.opened_end, 0);
        assert_int_equal(pccl_record_take(&reader, &opens, in, LONG, frames, sizeof frames), LONG);
        assert_int_equal(reader.opened_end, 0);
        assert_memory_equal(in, content, LONG);
        assert_true(reader.capacity <= PCCL_RECORD_BUFFER_MAX);
        pccl_record_reader_fini(&reader);
        pccl_record_end(&seals);
        pccl_record_end(&opens);
    }
    free(content);
    free(in);
    free(sealed);
}

TEST(test_headers_claim_no_memory)
{
    static const uint32_t words[] = {0, 1, 0x01000000, 0x02000001, 0x01040001, 0x01ffffff, 0x03000001, 0xffffffff};
    struct end end;
    size_t room;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint8_t header[PCCL_RECORD_HEADER] = {0};
        pccl_put(header, 4, words[i]);
        begin_end(&end, 20);
        assert_false(receive(&end, header, sizeof header, SIZE_MAX, 10, 10));
        assert_true(end.reader.capacity <= 2 * PCCL_RECORD_AHEAD_MAX);
        stop_end(&end);
    }
    uint8_t header[PCCL_RECORD_HEADER] = {0};
    pccl_put(header, 4, PCCL_RECORD_CONTENT_MAX | PCCL_RECORD_CONTENT << 24);
    pccl_put(header + 4, 8, 1); /* not the first: the reader does not wait for the rest */
    begin_end(&end, 20);
    assert_false(receive(&end, header, sizeof header, SIZE_MAX, 10, 10));
    stop_end(&end);
    pccl_put(header + 4, 8, 0);
    begin_end(&end, 20);
    assert_true(receive(&end, header, sizeof header, SIZE_MAX, 10, 10));
    assert_non_null(pccl_record_space(&end.reader, &end.line, &room));
    assert_int_equal(end.reader.capacity, PCCL_RECORD_BUFFER_MAX);
    stop_end(&end);
}

TEST(test_goes_on_after_memory_was_short)
{
    struct test_memory memory;
    struct stream stream;
    struct end end;
    size_t room;
    seal_stream(&stream, &secret, 20);
    begin_end(&end, 20);
    test_memory_init(&memory);
    memory.fail_at = 1;
    end.reader.memory = &memory.memory;
    assert_null(pccl_record_space(&end.reader, &end.line, &room));
    assert_true(receive(&end, stream.sealed, stream.bytes, 100, 50, 50));
    check_whole(&end, &stream);
    stop_end(&end);
    assert_int_equal(memory.live_bytes, 0);
}
