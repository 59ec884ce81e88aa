/* core/text: formatting, durations, cutting, and bytes that cannot be printed. */
#include "unit.h"

#include <string.h>

#include "core/prng.h"
#include "core/text.h"

TEST(test_format)
{
    struct pccl_text text;
    pccl_text_format(&text, "no conversion");
    assert_string_equal(text.bytes, "no conversion");
    pccl_text_format(&text, "[%s] %u %u 100%%", "word", 0, UINT32_MAX);
    assert_string_equal(text.bytes, "[word] 0 4294967295 100%");
    pccl_text_append(&text, "; %zu%s%" PRIu64, SIZE_MAX, "|", UINT64_MAX);
    assert_string_equal(text.bytes, "[word] 0 4294967295 100%; 18446744073709551615|18446744073709551615");
    assert_int_equal(text.length, strlen(text.bytes));
    pccl_text_format(&text, "%s, %s", text.bytes + text.length - 3, "a\nb"); /* itself; and an untrusted text */
    assert_string_equal(text.bytes, "615, a?b");
    pccl_text_clear(&text);
    assert_string_equal(text.bytes, "");
}

TEST(test_formatted_is_cut)
{
    char reason[PCCL_REASON_MAX + 100] = {0};
    memset(reason, 'x', sizeof reason - 1);
    struct pccl_text text;
    const char *most = reason + sizeof reason - 1 - (PCCL_REASON_MAX - 2); /* leaves room for two digits */
    pccl_text_format(&text, "%s%u", most, 12345);
    assert_int_equal(text.length, PCCL_REASON_MAX);
    assert_string_equal(text.bytes + PCCL_REASON_MAX - 3, "x12");
    pccl_text_format(&text, "%s%u%s", reason, 12345, "rest");
    assert_int_equal(text.length, PCCL_REASON_MAX);
    assert_int_equal(text.bytes[PCCL_REASON_MAX - 1], 'x');
}

static void fail_assertion(const char *file, int line, const char *expression)
{
    mock_assert(0, expression, file, line);
}

/* Compilers refuse conversions that printf does not have; the formatter supports only some of printf's. */
TEST(test_unknown_conversions)
{
    static const char *const formats[] = {"%d", "%5u", "%.3s", "%x", "%lx", "%zx", "%"};
    void (*unchecked)(struct pccl_text * text, const char *format, ...) = pccl_text_format;
    struct pccl_text text;
    pccl_set_assert_handler(fail_assertion);
    for (size_t i = 0; i < PCCL_COUNT_OF(formats); i++)
        expect_assert_failure(unchecked(&text, formats[i], UINT64_C(1)));
    pccl_set_assert_handler(NULL);
}

TEST(test_durations)
{
    static const struct {
        uint64_t us;
        const char *reason;
    } rows[] = {{0, "0 ms"},        {999, "0 ms"},        {999999, "999 ms"},
                {1000000, "1.0 s"}, {59990000, "59.9 s"}, {UINT64_MAX, "18446744073709.5 s"}};
    for (size_t i = 0; i < PCCL_COUNT_OF(rows); i++)
        assert_string_equal(pccl_duration_str(rows[i].us), rows[i].reason);
    struct pccl_text text;
    pccl_text_format(&text, "%s of %s", pccl_duration_str(45999), pccl_duration_str(12345678));
    assert_string_equal(text.bytes, "45 ms of 12.3 s");
}

TEST(test_overlong_is_cut_between_characters)
{
    char reason[3 * PCCL_REASON_MAX];
    for (size_t start = 0; start < 4; start++) {
        struct pccl_text text;
        pccl_text_clear(&text);
        for (size_t i = 0; i < start; i++)
            pccl_text_add(&text, "x");
        for (size_t i = 0; i + 3 < sizeof reason; i += 3)
            memcpy(reason + i, "\xe2\x82\xac", 3);
        reason[sizeof reason - 3] = '\0';
        pccl_text_add(&text, reason);
        assert_int_equal(text.length, start + (PCCL_REASON_MAX - start) / 3 * 3);
        assert_int_equal(text.bytes[text.length], '\0');
        for (size_t at = start; at < text.length; at += 3)
            assert_int_equal(pccl_text_character(text.bytes + at, text.length - at), 3);
        for (int i = 0; i < 1000; i++)
            pccl_text_add_u64(&text, UINT64_MAX);
        assert_int_equal(text.length, PCCL_REASON_MAX);
    }
}

TEST(test_unprintable_becomes_a_question_mark)
{
    static const struct {
        const char *bytes, *shown;
    } rows[] = {
        {"a\nb\tc\x1b[31m", "a?b?c?[31m"},
        {"\x7f", "?"},
        {"\xc2\x85", "??"},           /* a C1 control */
        {"\xc2\xa0", "\xc2\xa0"},     /* the first after them */
        {"\xc0\xaf", "??"},           /* overlong */
        {"\xe0\x80\xaf", "???"},      /* overlong */
        {"\xed\xa0\x80", "???"},      /* a surrogate */
        {"\xe2\x80\xa8", "???"},      /* a line separator */
        {"\xf4\x90\x80\x80", "????"}, /* beyond Unicode */
        {"a\xe2\x80\xae"
         "b",
         "a???b"},                                                /* from right to left: U+202E */
        {"\xe2\x81\xa6\xe2\x81\xa9", "??????"},                   /* isolates: U+2066, U+2069 */
        {"\xe2\x80\x8b\xe2\x80\x8f", "??????"},                   /* U+200B, U+200F */
        {"\xe2\x80\x90\xe2\x80\xaf", "\xe2\x80\x90\xe2\x80\xaf"}, /* their neighbors U+2010, U+202F */
        {"\xd8\x9c\xc2\xad", "????"},                             /* U+061C, U+00AD */
        {"\xef\xbb\xbf\xe3\x85\xa4", "??????"},                   /* U+FEFF, a filler: U+3164 */
        {"\xf3\xa0\x81\x81\xf0\x9d\x85\xb3", "????????"},         /* a tag: U+E0041; U+1D173 */
        {"\xf0\x9d\x85\xb2", "\xf0\x9d\x85\xb2"},
        {"\xf5", "?"},
        {"\xe2\x82", "??"}, /* truncated */
        {"\xe2\x82\xac", "\xe2\x82\xac"},
        {"\xf0\x9f\x90\x8c.", "\xf0\x9f\x90\x8c."},
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(rows); i++) {
        struct pccl_text text;
        pccl_text_clear(&text);
        pccl_text_add_bytes(&text, rows[i].bytes, strlen(rows[i].bytes));
        assert_string_equal(text.bytes, rows[i].shown);
    }
    struct pccl_text text;
    pccl_text_clear(&text);
    pccl_text_add_bytes(&text, "a\0b", 3);
    assert_string_equal(text.bytes, "a?b");
}

/* For any input the text has only whole printable characters. */
TEST(test_random_bytes)
{
    struct pccl_prng prng = unit_prng(11);
    for (int round = 0; round < 3000; round++) {
        char bytes[700];
        size_t length = (size_t)pccl_prng_below(&prng, sizeof bytes + 1);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (char)pccl_prng_u64(&prng);
        struct pccl_text text;
        pccl_text_clear(&text);
        pccl_text_add_bytes(&text, bytes, length);
        assert_true(text.length <= PCCL_REASON_MAX);
        size_t size;
        for (size_t at = 0; at < text.length; at += size) {
            size = pccl_text_character(text.bytes + at, text.length - at);
            assert_true(size > 0);
        }
    }
}
