/* The book of tokens: which peers are admitted, how often and how long; and its text, which survives a restart. */
#include "unit.h"

#include "ops/token_file.h"
#include "ops/token_list.h"
#include "net/heap.h"

#include <stdio.h>
#include <string.h>

#define LESS_DIGITS "0123456789abcdef0123456789abcde"
#define DIGITS "0" LESS_DIGITS

enum { NOW = 1000000 };

struct fixture {
    struct pccl_token_file book;
    struct pccl_text reason;
    bool noted;
    uint8_t next;
};

static void setup(struct fixture *f)
{
    *f = (struct fixture){.next = 0};
    pccl_token_file_init(&f->book, pccl_heap());
}

static void teardown(struct fixture *f) { pccl_token_file_fini(&f->book); }

static uint32_t add(struct fixture *f, enum pccl_role role, uint64_t ttl_s, uint32_t uses, const char *label)
{
    struct pccl_terms terms = {.role = role, .ttl_s = ttl_s, .uses = uses};
    uint8_t key[PCCL_PUBLIC_BYTES] = {++f->next, f->book.last_number & 255, (uint8_t)(f->book.last_number >> 8)};
    strncpy(terms.label, label, sizeof terms.label - 1);
    struct pccl_pass *pass = pccl_token_file_add(&f->book, key, &terms, NOW, &f->reason);
    return pass ? pass->number : 0;
}

static bool comes(struct fixture *f, uint32_t number, uint8_t peer, uint64_t now_s)
{
    struct pccl_id digest = {{peer}};
    struct pccl_pass *pass = pccl_token_file_numbered(&f->book, number);
    return pccl_token_file_admit(&f->book, pass, PCCL_ROLE_JOIN, &digest, now_s, &f->noted, &f->reason) == PCCL_OK;
}

static bool says(const struct fixture *f, const char *words) { return strstr(f->reason.bytes, words) != NULL; }

TEST(roles)
{
    static const bool may[PCCL_ROLES][PCCL_ROLES] = {{true, false, false}, {false, true, false}, {false, true, true}};
    struct fixture f;
    setup(&f);
    for (uint32_t has = 0; has < PCCL_ROLES; has++) {
        uint32_t number = add(&f, (enum pccl_role)has, 0, 0, "");
        for (uint32_t needs = 0; needs < PCCL_ROLES; needs++) {
            enum pccl_status status = pccl_token_file_admit(&f.book, pccl_token_file_numbered(&f.book, number),
                                                            (enum pccl_role)needs, NULL, NOW, &f.noted, &f.reason);
            assert_int_equal(status, may[has][needs] ? PCCL_OK : PCCL_REFUSED);
            assert_false(f.noted);
            assert_true(status == PCCL_OK || says(&f, "does not allow"));
        }
    }
    teardown(&f);
}

TEST(end_of_time)
{
    struct fixture f;
    setup(&f);
    uint32_t number = add(&f, PCCL_ROLE_JOIN, 60, 0, "for a minute");
    assert_true(comes(&f, number, 1, NOW + 59));
    assert_true(f.noted);
    assert_false(comes(&f, number, 2, NOW + 60));
    assert_true(says(&f, "has expired") && says(&f, "for a minute"));
    assert_true(comes(&f, number, 1, NOW + 999)); /* a peer that has used the token in time may return */
    assert_false(f.noted);
    assert_true(pccl_token_file_revoke(&f.book, pccl_token_file_numbered(&f.book, number), NOW + 1000));
    assert_false(pccl_token_file_revoke(&f.book, pccl_token_file_numbered(&f.book, number), NOW + 1001));
    assert_false(comes(&f, number, 1, NOW + 1002));
    assert_true(says(&f, "was revoked"));
    teardown(&f);
}

TEST(uses)
{
    struct fixture f;
    setup(&f);
    uint32_t number = add(&f, PCCL_ROLE_JOIN, 0, 2, "");
    assert_true(comes(&f, number, 1, NOW));
    assert_true(comes(&f, number, 1, NOW)); /* the same one: no further use */
    assert_true(comes(&f, number, 2, NOW));
    assert_false(comes(&f, number, 3, NOW));
    assert_true(says(&f, "has no uses left"));
    assert_true(comes(&f, number, 1, NOW));
    uint32_t unlimited = add(&f, PCCL_ROLE_JOIN, 0, 0, "");
    for (uint8_t peer = 0; peer < 100; peer++)
        assert_true(comes(&f, unlimited, peer, NOW));
    assert_int_equal(f.book.invitation_count, 2);
    teardown(&f);
}

static void fill_with_guests(struct fixture *f, uint32_t pass)
{
    for (uint32_t i = f->book.invitation_count; i < PCCL_TOKEN_FILE_INVITATIONS_MAX; i++) {
        struct pccl_id digest = {{2, i & 255, (uint8_t)(i >> 8)}};
        assert_int_equal(pccl_token_file_admit(&f->book, pccl_token_file_numbered(&f->book, pass), PCCL_ROLE_JOIN,
                                               &digest, NOW, &f->noted, &f->reason),
                         PCCL_OK);
    }
}

/*
 * Uses are never forgotten; of the other entries, the oldest one of the token with the most entries is removed. A peer
 * with a revoked token occupies no entry.
 */
TEST(guests_make_room)
{
    struct fixture f;
    setup(&f);
    uint32_t other = add(&f, PCCL_ROLE_JOIN, 60, 0, ""), late = add(&f, PCCL_ROLE_JOIN, 60, 0, "");
    uint32_t many = add(&f, PCCL_ROLE_JOIN, 60, 0, ""), few = add(&f, PCCL_ROLE_JOIN, 0, 2, "");
    assert_true(comes(&f, few, 1, NOW));
    assert_true(comes(&f, other, 1, NOW));
    assert_true(comes(&f, many, 4, NOW) && comes(&f, many, 5, NOW));
    fill_with_guests(&f, many);
    assert_true(comes(&f, many, 3, NOW) && f.noted); /* in the place of 4 */
    assert_true(comes(&f, few, 3, NOW));
    pccl_token_file_take_back(&f.book);
    assert_true(comes(&f, many, 5, NOW + 60));
    assert_true(comes(&f, few, 3, NOW) && !comes(&f, many, 5, NOW + 60));
    assert_true(comes(&f, late, 1, NOW) && comes(&f, late, 2, NOW)); /* in the places of others of `many` */
    assert_true(comes(&f, other, 1, NOW + 60) && comes(&f, late, 1, NOW + 60));
    assert_int_equal(f.book.invitation_count, PCCL_TOKEN_FILE_INVITATIONS_MAX);
    assert_true(comes(&f, many, 3, NOW + 60) && comes(&f, few, 1, NOW + 60));
    assert_false(comes(&f, many, 4, NOW + 60));
    assert_false(comes(&f, few, 4, NOW));
    for (uint32_t number = other; number <= many; number++)
        pccl_token_file_numbered(&f.book, number)->uses = PCCL_TOKEN_FILE_INVITATIONS_MAX; /* as if all were uses */
    uint32_t last = add(&f, PCCL_ROLE_JOIN, 0, 1, "");
    assert_false(comes(&f, last, 6, NOW));
    assert_true(says(&f, "revoke old tokens"));
    assert_true(pccl_token_file_revoke(&f.book, pccl_token_file_numbered(&f.book, many), NOW));
    assert_int_equal(f.book.invitation_count, 5);
    assert_true(comes(&f, last, 6, NOW));
    teardown(&f);
}

/* A use that could not be written has no effect. */
TEST(use_is_taken_back)
{
    struct fixture f;
    setup(&f);
    uint32_t once = add(&f, PCCL_ROLE_JOIN, 0, 1, "");
    assert_true(comes(&f, once, 1, NOW) && f.noted);
    pccl_token_file_take_back(&f.book);
    assert_int_equal(f.book.invitation_count, 0);
    assert_true(comes(&f, once, 2, NOW));
    assert_false(comes(&f, once, 1, NOW));
    teardown(&f);
}

/* A peer that used the token before it had an end returns after that end, if its use was noted. */
TEST(end_comes_later)
{
    struct fixture f;
    const struct pccl_id digest = {{1}};
    setup(&f);
    struct pccl_pass *pass = pccl_token_file_numbered(&f.book, add(&f, PCCL_ROLE_JOIN, 0, 0, ""));
    assert_true(comes(&f, pass->number, 1, NOW) && !f.noted);
    pccl_token_file_keep(&f.book, pass, &digest);
    pccl_token_file_keep(&f.book, pass, &digest);
    assert_int_equal(f.book.invitation_count, 1);
    pass->ends_s = NOW + 60;
    assert_true(comes(&f, pass->number, 1, NOW + 60));
    assert_false(comes(&f, pass->number, 2, NOW + 60));
    assert_true(says(&f, "token create"));
    teardown(&f);
}

TEST(bad_terms)
{
    struct fixture f;
    setup(&f);
    assert_int_equal(add(&f, PCCL_ROLE_JOIN, (uint64_t)PCCL_TOKEN_FILE_TTL_S_MAX + 1, 0, ""), 0);
    assert_true(says(&f, "ten years"));
    assert_int_equal(add(&f, PCCL_ROLE_JOIN, 0, PCCL_TOKEN_FILE_USES_MAX + 1, ""), 0);
    assert_int_equal(add(&f, PCCL_ROLE_ADMIN, 0, 1, ""), 0);
    assert_int_equal(add(&f, PCCL_ROLE_JOIN, 0, 0, "two\nlines"), 0);
    assert_int_equal(add(&f, PCCL_ROLE_JOIN, 0, 0, " blank"), 0);
    assert_int_equal(f.book.count, 0);
    teardown(&f);
}

TEST(names)
{
    struct fixture f;
    setup(&f);
    uint32_t first = add(&f, PCCL_ROLE_JOIN, 0, 0, "run"), second = add(&f, PCCL_ROLE_JOIN, 0, 0, "run");
    assert_int_equal(pccl_token_file_named(&f.book, "run")->number, second);
    assert_int_equal(pccl_token_file_named(&f.book, "1")->number, first);
    assert_null(pccl_token_file_named(&f.book, ""));
    assert_null(pccl_token_file_named(&f.book, "01"));
    assert_null(pccl_token_file_named(&f.book, "3"));
    assert_null(pccl_token_file_named(&f.book, "99999999999999999999999"));
    pccl_token_file_drop(&f.book, first);
    assert_null(pccl_token_file_named(&f.book, "1"));
    assert_int_equal(add(&f, PCCL_ROLE_JOIN, 0, 0, ""), 3); /* numbers are never used again */
    teardown(&f);
}

/* Tokens that admit no peer are removed to make room; without such tokens the book is full, and reports it. */
TEST(full)
{
    struct fixture f;
    setup(&f);
    for (uint32_t i = 0; i < PCCL_TOKEN_FILE_PASSES_MAX; i++)
        assert_int_not_equal(add(&f, PCCL_ROLE_JOIN, 0, 0, ""), 0);
    assert_int_equal(add(&f, PCCL_ROLE_JOIN, 0, 0, ""), 0);
    assert_true(says(&f, "revoke one"));
    assert_true(pccl_token_file_revoke(&f.book, pccl_token_file_numbered(&f.book, 500), NOW));
    uint32_t limited = add(&f, PCCL_ROLE_JOIN, 0, 1, "");
    assert_null(pccl_token_file_numbered(&f.book, 500));
    assert_true(comes(&f, limited, 1, NOW));
    assert_true(pccl_token_file_revoke(&f.book, pccl_token_file_numbered(&f.book, limited - 1), NOW));
    pccl_token_file_numbered(&f.book, 7)->ends_s = NOW; /* an older token, with which a peer may still come back */
    assert_int_not_equal(add(&f, PCCL_ROLE_JOIN, 0, 0, ""), 0);
    assert_null(pccl_token_file_numbered(&f.book, limited - 1));
    assert_int_not_equal(add(&f, PCCL_ROLE_JOIN, 0, 0, ""), 0);
    assert_null(pccl_token_file_numbered(&f.book, 7));
    assert_true(comes(&f, limited, 1, NOW));
    teardown(&f);
}

static void print(const struct pccl_token_file *book, struct pccl_print *text)
{
    pccl_print_init(text, pccl_heap(), PCCL_TOKEN_FILE_TEXT_MAX);
    pccl_token_file_write(book, text);
    assert_false(text->failed);
}

TEST(text_survives)
{
    struct fixture f, again;
    struct pccl_print one, two;
    setup(&f);
    setup(&again);
    add(&f, PCCL_ROLE_JOIN, 0, 0, "run");
    uint32_t limited = add(&f, PCCL_ROLE_JOIN, 60, 2, "with blanks \xc3\xa9");
    add(&f, PCCL_ROLE_OBSERVE, 0, 0, "");
    assert_true(comes(&f, limited, 7, NOW) && comes(&f, limited, 8, NOW));
    assert_true(pccl_token_file_revoke(&f.book, pccl_token_file_numbered(&f.book, 3), NOW));
    print(&f.book, &one);
    assert_int_equal(pccl_token_file_read(&again.book, one.bytes, one.length, &again.reason), PCCL_OK);
    print(&again.book, &two);
    assert_int_equal(one.length, two.length);
    assert_memory_equal(one.bytes, two.bytes, one.length);
    assert_true(comes(&again, limited, 7, NOW + 100));
    assert_false(comes(&again, limited, 9, NOW));
    pccl_print_fini(&two);
    pccl_print_fini(&one);
    teardown(&again);
    teardown(&f);
}

static void says_damaged(struct fixture *f, const struct pccl_print *text, uint32_t length, const char *words)
{
    setup(f);
    assert_int_equal(pccl_token_file_read(&f->book, text->bytes, length, &f->reason), PCCL_MALFORMED);
    assert_true(says(f, words) && f->book.count == 0);
    teardown(f);
}

/* Text that is cut at any byte, has one wrong bit, or lacks a line is refused with a reason. */
TEST(text_is_damaged)
{
    struct fixture f, again;
    struct pccl_print text, less;
    char words[40];
    uint32_t line = 1, begin = 0;
    setup(&f);
    uint32_t limited = add(&f, PCCL_ROLE_JOIN, 60, 2, "label");
    assert_true(comes(&f, limited, 7, NOW) && comes(&f, limited, 8, NOW));
    print(&f.book, &text);
    for (uint32_t i = 0; i < text.length; i++) {
        says_damaged(&again, &text, i, "the end is missing");
        char right = text.bytes[i];
        (void)snprintf(words, sizeof words, "line %u is", line);
        for (int bit = 0; bit < 8; bit++) {
            text.bytes[i] = (char)(right ^ 1 << bit);
            says_damaged(&again, &text, text.length, right == '\n' || text.bytes[i] == '\n' ? "" : words);
        }
        text.bytes[i] = right;
        if (right != '\n')
            continue;
        pccl_print_init(&less, pccl_heap(), PCCL_TOKEN_FILE_TEXT_MAX);
        pccl_print_add_bytes(&less, text.bytes, begin);
        pccl_print_add_bytes(&less, text.bytes + i + 1, text.length - i - 1);
        says_damaged(&again, &less, less.length, "");
        pccl_print_fini(&less);
        begin = i + 1;
        line++;
    }
    pccl_print_add(&text, "more\n");
    says_damaged(&again, &text, text.length, "data after the end");
    pccl_print_fini(&text);
    teardown(&f);
}

/* Text of a version without checksums is read, and written with checksums. Impossible values are refused there, too. */
TEST(text_of_yesterday)
{
    static const char crowded[] = "pccl-tokens 1 1\n"
                                  "token 1 join 0 5 0 1 " DIGITS DIGITS " \n"
                                  "guest 1 " DIGITS "\nguest 1 1" LESS_DIGITS "\nend\n";
    static const char good[] = "pccl-tokens 1 2\n"
                               "token 1 join 7 0 0 0 " DIGITS DIGITS " run token\n"
                               "token 2 join 8 0 9 1 1" LESS_DIGITS DIGITS " guest\nend\n";
    struct fixture f, again;
    struct pccl_print text;
    setup(&f);
    assert_int_equal(pccl_token_file_read(&f.book, crowded, sizeof crowded - 1, &f.reason), PCCL_MALFORMED);
    assert_true(says(&f, "line 4 is malformed"));
    assert_int_equal(pccl_token_file_read(&f.book, good, sizeof good - 1, &f.reason), PCCL_OK);
    assert_int_equal(f.book.last_number, 2);
    assert_int_equal(pccl_token_file_named(&f.book, "guest")->revoked_s, 9);
    print(&f.book, &text);
    setup(&again);
    assert_int_equal(pccl_token_file_read(&again.book, text.bytes, text.length, &again.reason), PCCL_OK);
    assert_int_equal(pccl_token_file_named(&again.book, "run token")->made_s, 7);
    text.bytes[sizeof "pccl-tokens" - 1 + 1] = '1'; /* its version alone makes no book without checksums */
    teardown(&f);
    says_damaged(&f, &text, text.length, "line 1 is");
    pccl_print_fini(&text);
    teardown(&again);
}

/* Padded, it is the same book, and revoking does not make it longer. */
TEST(text_is_padded)
{
    struct fixture f, again;
    struct pccl_print one, two;
    setup(&f);
    for (uint32_t i = 0; i < 100; i++)
        add(&f, PCCL_ROLE_JOIN, 60, 0, "");
    assert_true(comes(&f, 100, 7, NOW));
    print(&f.book, &one);
    uint32_t length = one.length;
    pccl_token_file_pad(&f.book, &one);
    assert_true(one.length > length && one.length % 4096 == 0 && one.length - length < 2 * 4096);
    setup(&again);
    assert_int_equal(pccl_token_file_read(&again.book, one.bytes, one.length, &again.reason), PCCL_OK);
    for (uint32_t i = 1; i <= 100; i++)
        assert_true(pccl_token_file_revoke(&again.book, pccl_token_file_numbered(&again.book, i), INT64_MAX));
    print(&again.book, &two);
    pccl_token_file_pad(&again.book, &two);
    assert_true(two.length <= one.length);
    pccl_print_fini(&two);
    pccl_print_fini(&one);
    teardown(&again);
    teardown(&f);
}

TEST(list_for_people)
{
    struct fixture f;
    struct pccl_print text;
    setup(&f);
    uint32_t limited = add(&f, PCCL_ROLE_JOIN, 90000, 3, "nodes");
    add(&f, PCCL_ROLE_ADMIN, 0, 0, "");
    assert_true(comes(&f, limited, 7, NOW));
    pccl_print_init(&text, pccl_heap(), 4096);
    pccl_token_list(&f.book, NOW, &text);
    pccl_print_add_bytes(&text, "", 1);
    assert_string_equal(text.bytes, "1  join  valid for 1d 1h  1 of 3 uses  nodes\n2  admin  good\n");
    pccl_print_fini(&text);
    teardown(&f);
}

TEST(list_for_programs)
{
    struct fixture f;
    struct pccl_print text;
    setup(&f);
    pccl_print_init(&text, pccl_heap(), 4096);
    pccl_token_list_json(&f.book, NOW, &text);
    add(&f, PCCL_ROLE_JOIN, 90000, 3, "the \"first\"");
    f.book.passes[0].made_s = 5;
    f.book.passes[0].ends_s = NOW;
    pccl_token_list_json(&f.book, NOW, &text);
    pccl_print_add_bytes(&text, "", 1);
    assert_string_equal(text.bytes,
                        "[]\n[\n{\"number\":1,\"role\":\"join\",\"state\":\"expired\",\"label\":\"the \\\"first\\\"\","
                        "\"created_s\":5,\"expires_s\":1000000,\"revoked_s\":null,\"uses\":3,\"used\":0}]\n");
    pccl_print_fini(&text);
    teardown(&f);
}
