/* tools/master/log_format: every record is one line that programs can read, for any content of its parts. */
#include "unit.h"

#include <string.h>

#include "../../tools/master/log_format.h"
#include "core/prng.h"

enum { PIPE_BYTES = 4096 }; /* size of a write to a pipe that is not split */

static const struct timespec noon = {.tv_sec = 1795262400, .tv_nsec = 7999999};
static const struct pccl_id run = {{0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
static const struct pccl_id peer = {{0xff}};

static const char *format(pccl_logger_format *by, const char *message, const struct pccl_log_fields *fields)
{
    static char line[PIPE_BYTES + 1];
    size_t length = by(line, PIPE_BYTES, &noon, PCCL_LOG_WARN, "master", message, fields);
    assert_true(length > 0 && length <= PIPE_BYTES);
    assert_int_equal(line[length - 1], '\n');
    line[length - 1] = '\0';
    assert_null(strchr(line, '\n'));
    return line;
}

static const struct pccl_log_fields all = {.run = &run,
                                           .peer = &peer,
                                           .has_operation = true,
                                           .group = 4294967295,
                                           .tag = UINT64_MAX,
                                           .use = 3,
                                           .reason = "it said \"\\no\""};
static const struct pccl_log_fields none;

TEST(json_lines)
{
    assert_string_equal(format(pccl_log_format_json, "hello", &none),
                        "{\"time\":\"2026-11-21T12:00:00.007Z\",\"level\":\"warn\",\"subsystem\":\"master\","
                        "\"message\":\"hello\"}");
    assert_string_equal(format(pccl_log_format_json, "a \"b\" \\ c", &all),
                        "{\"time\":\"2026-11-21T12:00:00.007Z\",\"level\":\"warn\",\"subsystem\":\"master\","
                        "\"message\":\"a \\\"b\\\" \\\\ c\",\"run\":\"deadbeef0102030405060708090a0b0c\","
                        "\"peer\":\"ff000000000000000000000000000000\","
                        "\"operation\":{\"group\":4294967295,\"tag\":18446744073709551615,\"use\":3},"
                        "\"reason\":\"it said \\\"\\\\no\\\"\"}");
}

TEST(logfmt_lines)
{
    assert_string_equal(format(pccl_log_format_logfmt, "a \"b\" c=d", &all),
                        "time=2026-11-21T12:00:00.007Z level=warn subsystem=\"master\" message=\"a \\\"b\\\" c=d\" "
                        "run=deadbeef0102030405060708090a0b0c peer=ff000000000000000000000000000000 "
                        "operation=4294967295/18446744073709551615/3 reason=\"it said \\\"\\\\no\\\"\"");
    assert_string_equal(format(pccl_log_format_logfmt, "", &none),
                        "time=2026-11-21T12:00:00.007Z level=warn subsystem=\"master\" message=\"\"");
}

TEST(text_lines)
{
    const struct pccl_log_fields reason = {.run = &run, .reason = "tired"};
    assert_string_equal(format(pccl_log_format_text, "it left", &reason),
                        "2026-11-21T12:00:00.007Z pccl warn master it left: tired run=deadbeef");
    assert_string_equal(format(pccl_log_format_text, "it left: tired", &reason),
                        "2026-11-21T12:00:00.007Z pccl warn master it left: tired run=deadbeef");
    assert_string_equal(format(pccl_log_format_text, "x", &all),
                        "2026-11-21T12:00:00.007Z pccl warn master x: it said \"\\no\" run=deadbeef peer=ff000000 "
                        "operation=4294967295/18446744073709551615/3");
}

TEST(what_is_no_text_is_replaced)
{
    const struct pccl_log_fields odd = {.reason = "\xe2\x80\xae\n\xc2\x9b"};
    assert_string_equal(format(pccl_log_format_text, "a\x1b\"\n", &odd),
                        "2026-11-21T12:00:00.007Z pccl warn master a?\"?: ??????");
    const char *expected = "time=2026-11-21T12:00:00.007Z level=warn subsystem=\"master\" message=\"??\xc3\xa4???\"";
    assert_string_equal(format(pccl_log_format_logfmt, "\n\x7f\xc3\xa4\xc3\xff\x1b", &none), expected);
}

/* No quote, backslash or control byte gets out of its string, and the longest of all is cut, not broken. */
TEST(anything_stays_in_its_string)
{
    static const char nasty[] = "\"\\\n\"\\ab\xc3\xa4\xff";
    char message[6001], reason[3001];
    struct pccl_prng prng;
    struct pccl_log_fields fields = all;
    fields.reason = reason;
    pccl_prng_seed(&prng, 7);
    for (int round = 0; round < 500; round++) {
        size_t length = round == 0 ? sizeof message - 1 : pccl_prng_below(&prng, sizeof message - 1);
        for (size_t i = 0; i < length; i++)
            message[i] = round == 0 ? '"' : nasty[pccl_prng_below(&prng, sizeof nasty - 1)];
        message[length] = '\0';
        memset(reason, '\\', sizeof reason - 1);
        reason[sizeof reason - 1] = '\0';
        const char *line = format(pccl_log_format_json, message, &fields);
        int strings = 0;
        for (const char *at = line; *at != '\0'; at++) {
            assert_true((unsigned char)*at >= 0x20);
            if (*at == '\\') {
                assert_int_equal(strings % 2, 1);
                at++;
                assert_true(*at == '"' || *at == '\\');
            } else if (*at == '"') {
                strings++;
            }
        }
        /* 6 texts with their keys, 3 keys of the operation, and "operation" itself */
        assert_int_equal(strings, 2 * (7 * 2 + 3 + 1));
        assert_int_equal(line[strlen(line) - 1], '}');
    }
}

TEST(names_are_known)
{
    assert_ptr_equal(pccl_log_format_find("json"), pccl_log_format_json);
    assert_ptr_equal(pccl_log_format_find("logfmt"), pccl_log_format_logfmt);
    assert_ptr_equal(pccl_log_format_find("text"), pccl_log_format_text);
    assert_null(pccl_log_format_find("xml"));
}
