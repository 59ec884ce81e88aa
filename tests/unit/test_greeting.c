/*
 * Greetings between builds that do not understand each other, and the digest that distinguishes them. The bytes here
 * were made by hand and are frozen for all versions: a change that needs other bytes must not be made.
 */
#include "unit.h"
#include "support.h"
#include "wire/digest.h"
#include "wire/greeting.h"

static const struct pccl_sides sides = {.here = "this master", .there = "the peer"};
static const struct pccl_build own = {.version = PCCL_PROTOCOL_VERSION,
                                      .digest = 0xabcdef0123456789,
                                      .release = 100,
                                      .commit = 0xfedcba9876543210,
                                      .committed = 20261128183449};

/* magic; then version 99, digest, capabilities, release 2.3.0, commit, time of the commit; then unknown fields */
static const uint8_t hello[] = {0x89, 0xab, 0x70, 0x63, 0x63, 0x6c, 0x30, 0x31, //
                                0x63, 0x00, 0x00, 0x00,                         //
                                0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, //
                                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                                0x4c, 0x4f, 0x00, 0x00,                         //
                                0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, //
                                0xfa, 0x02, 0x70, 0xd6, 0x78, 0x12, 0x00, 0x00, //
                                0xff, 0xff, 0xff, 0xff};
enum { MAGIC = 8, FROZEN = 48 };

/* The whole frame of a refusal: version 7, code 1, "too young". */
static const uint8_t refusal[] = {0x13, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                  0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xaf, 0xb5,
                                  0x6e, 0x52, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x01, 0x00, 0x09,
                                  0x00, 0x00, 0x00, 't',  'o',  'o',  ' ',  'y',  'o',  'u',  'n',  'g'};

static bool is_foreign(uint16_t type, const uint8_t *body, size_t length, struct pccl_text *reason)
{
    const struct pccl_frame frame = {.type = type, .body = body, .length = (uint32_t)length};
    pccl_text_clear(reason);
    bool foreign = pccl_greeting_is_foreign(&own, &sides, &frame, reason);
    assert_int_equal(foreign, reason->length > 0);
    return foreign;
}

TEST(test_frozen_beginning)
{
    struct pccl_text reason, words;
    pccl_text_format(&words,
                     "this master is PCCL 0.1.0, commit fedcba987654 of 2026-11-28 (protocol %u, schema "
                     "abcdef0123456789), the peer is PCCL 2.3.0, commit 0123456789ab of 2031-02-03 "
                     "(protocol 99, schema 1122334455667788): upgrade this master",
                     PCCL_PROTOCOL_VERSION);
    assert_true(is_foreign(1, hello, sizeof hello, &reason)); /* hello, link_hello, hello_ok: their ids are frozen */
    assert_string_equal(reason.bytes, words.bytes);
    assert_true(is_foreign(64, hello, FROZEN, &reason));
    assert_string_equal(reason.bytes, words.bytes);
    assert_true(is_foreign(2, hello + MAGIC, FROZEN - MAGIC, &reason));
    assert_string_equal(reason.bytes, words.bytes);
    assert_false(is_foreign(64, hello, FROZEN - 1, &reason));
    assert_false(is_foreign(2, hello + MAGIC, FROZEN - MAGIC - 1, &reason));
    assert_false(is_foreign(1, hello + 1, FROZEN, &reason));
    assert_false(is_foreign(1, NULL, 0, &reason));
    assert_false(is_foreign(5, hello, sizeof hello, &reason));
}

/* The first bytes of the greetings that this version sends. */
TEST(test_own_beginning)
{
    uint8_t bytes[PCCL_FRAME_HELLO_MAX], like[FROZEN];
    struct pccl_text reason;
    const struct pccl_build build = {.version = PCCL_PROTOCOL_VERSION,
                                     .digest = 0x1122334455667788,
                                     .release = 20300,
                                     .commit = 0x0123456789abcdef,
                                     .committed = 20310203040506};
    struct pccl_msg msg = {.type = PCCL_MSG_hello, .as.hello = {.magic = PCCL_PROTOCOL_MAGIC, .build = build}};
    memcpy(like, hello, FROZEN);
    like[MAGIC] = PCCL_PROTOCOL_VERSION;
    pccl_wire_encode(&msg, bytes);
    assert_memory_equal(bytes, like, FROZEN);
    assert_true(is_foreign(msg.type, bytes, pccl_wire_size(&msg), &reason)); /* by its digest alone */
    msg =
        (struct pccl_msg){.type = PCCL_MSG_link_hello, .as.link_hello = {.magic = PCCL_PROTOCOL_MAGIC, .build = build}};
    pccl_wire_encode(&msg, bytes);
    assert_memory_equal(bytes, like, FROZEN);
    msg = (struct pccl_msg){.type = PCCL_MSG_hello_ok, .as.hello_ok = {.build = build}};
    pccl_wire_encode(&msg, bytes);
    assert_memory_equal(bytes, like + MAGIC, FROZEN - MAGIC);
    msg.as.hello_ok.build = own;
    pccl_wire_encode(&msg, bytes);
    assert_false(is_foreign(msg.type, bytes, pccl_wire_size(&msg), &reason));
}

/* Before version 9 other fields followed the version. */
TEST(test_before_the_digest)
{
    uint8_t old[sizeof hello];
    struct pccl_text reason, words;
    memcpy(old, hello, sizeof old);
    old[MAGIC] = 8;
    assert_true(is_foreign(1, old, 12, &reason));
    pccl_text_format(&words,
                     "this master is PCCL 0.1.0, commit fedcba987654 of 2026-11-28 (protocol %u, schema "
                     "abcdef0123456789), the peer is PCCL of unknown version (protocol 8): upgrade the peer",
                     PCCL_PROTOCOL_VERSION);
    assert_string_equal(reason.bytes, words.bytes);
    assert_false(is_foreign(1, old, 11, &reason));
}

TEST(test_frozen_refusal)
{
    uint8_t bytes[sizeof refusal];
    struct test_memory memory;
    struct pccl_frame_reader reader;
    struct pccl_frame frame;
    struct pccl_msg msg;
    struct pccl_text reason;
    size_t space;
    test_memory_init(&memory);
    pccl_frame_reader_init(&reader, &memory.memory);
    uint8_t *to = pccl_frame_reader_space(&reader, &space);
    assert_true(to != NULL && space >= sizeof refusal);
    memcpy(to, refusal, sizeof refusal);
    pccl_frame_reader_filled(&reader, sizeof refusal);
    assert_int_equal(pccl_frame_reader_next(&reader, &frame, &reason), 1);
    assert_int_equal(pccl_wire_decode(frame.type, frame.body, frame.length, NULL, &msg, &reason), PCCL_OK);
    assert_int_equal(msg.type, PCCL_MSG_refused);
    assert_int_equal(msg.as.refused.version, 7);
    assert_int_equal(msg.as.refused.code, PCCL_REFUSAL_VERSION);
    assert_int_equal(msg.as.refused.reason.length, 9);
    assert_memory_equal(msg.as.refused.reason.data, "too young", 9);
    assert_int_equal(pccl_frame_size(&msg), sizeof refusal);
    pccl_frame_encode(&msg, 0, 0, bytes);
    assert_memory_equal(bytes, refusal, sizeof refusal);
    msg.as.refused.code = 9999; /* of a later version */
    pccl_wire_encode(&msg, bytes);
    assert_int_equal(pccl_wire_decode(msg.type, bytes, pccl_wire_size(&msg), NULL, &msg, &reason), PCCL_OK);
    pccl_frame_reader_fini(&reader);
}

static void says(struct pccl_build a, struct pccl_build b, const char *advice)
{
    struct pccl_text text;
    pccl_build_describe_difference(&text, &a, &b, &sides);
    if (text.length < strlen(advice) || strcmp(text.bytes + text.length - strlen(advice), advice) != 0)
        fail_msg("\"%s\" does not end in \"%s\"", text.bytes, advice);
}

/* The version decides first, then the time of the commits, then the release. */
TEST(test_which_to_upgrade)
{
    struct pccl_build other = own;
    says(own, other, ": build both from the same commit");
    other.release = 200;
    says(own, other, ": upgrade this master");
    other.committed = own.committed - 1;
    says(own, other, ": upgrade the peer");
    other.commit = 0; /* an archive of a release: its time is not known */
    says(own, other, ": upgrade this master");
    other.version++;
    other.release = 1;
    says(own, other, ": upgrade this master");
    says(other, own, ": upgrade the peer");
}

/* ---- the digest ---- */

#define LAYOUT(function, ...)                                                                                          \
    static const struct pccl_wire_layout *function(void)                                                               \
    {                                                                                                                  \
        static const struct pccl_wire_field fields[] = {__VA_ARGS__};                                                  \
        static const struct pccl_wire_layout layout = {#function, NULL, 0, 16, 0, PCCL_COUNT_OF(fields), fields};      \
        return &layout;                                                                                                \
    }
#define U8(name, least, most)                                                                                          \
    {                                                                                                                  \
        name, PCCL_WIRE_U8, 0, least, most, 0, 0, NULL                                                                 \
    }
#define TEXT(name, cap)                                                                                                \
    {                                                                                                                  \
        name, PCCL_WIRE_TEXT, cap, 0, UINT64_MAX, 0, 0, NULL                                                           \
    }
#define STRUCT(name, layout)                                                                                           \
    {                                                                                                                  \
        name, PCCL_WIRE_STRUCT, 0, 0, UINT64_MAX, 0, 0, layout                                                         \
    }

LAYOUT(first, U8("a", 0, 1), U8("b", 0, 2), TEXT("c", 10))
LAYOUT(renamed, U8("x", 0, 1), U8("y", 0, 2), TEXT("z", 10))
LAYOUT(reordered, U8("b", 0, 2), U8("a", 0, 1), TEXT("c", 10))
LAYOUT(widened, U8("a", 0, 1), U8("b", 0, 3), TEXT("c", 10))
LAYOUT(raised, U8("a", 1, 1), U8("b", 0, 2), TEXT("c", 10))
LAYOUT(longer, U8("a", 0, 1), U8("b", 0, 2), TEXT("c", 11))
LAYOUT(of_another_kind, U8("a", 0, 1), {"b", PCCL_WIRE_U16, 0, 0, 2, 0, 0, NULL}, TEXT("c", 10))
LAYOUT(shorter, U8("a", 0, 1), U8("b", 0, 2))
LAYOUT(outer, U8("n", 0, 1), STRUCT("s", first))
LAYOUT(outer_renamed, U8("m", 0, 1), STRUCT("t", renamed))
LAYOUT(outer_of_widened, U8("n", 0, 1), STRUCT("s", widened))

static uint64_t digest_of(const struct pccl_wire_layout *layout)
{
    return pccl_digest_layout(PCCL_DIGEST_START, layout);
}

TEST(test_digest_of_fields)
{
    const struct pccl_wire_layout *(*const others[])(void) = {reordered, widened, raised,
                                                              longer,    shorter, of_another_kind};
    assert_true(digest_of(first()) == digest_of(renamed()));
    assert_true(digest_of(outer()) == digest_of(outer_renamed()));
    assert_true(digest_of(outer()) != digest_of(outer_of_widened()));
    for (size_t i = 0; i < PCCL_COUNT_OF(others); i++)
        if (digest_of(first()) == digest_of(others[i]()))
            fail_msg("%s is not noticed", others[i]()->name);
}

TEST(test_digest_of_values)
{
    const uint64_t values[] = {1, 2, 3}, others[] = {1, 3, 2};
    uint64_t digest = pccl_digest_numbers(PCCL_DIGEST_START, values, 3);
    assert_true(digest == UINT64_C(0xda2bfb225e0d1f05)); /* so that another implementation can check its own */
    assert_true(digest != pccl_digest_numbers(PCCL_DIGEST_START, values, 2));
    assert_true(digest != pccl_digest_numbers(PCCL_DIGEST_START, others, 3));
    assert_true(pccl_wire_digest() == pccl_wire_digest() && pccl_wire_digest() != 0);
}
