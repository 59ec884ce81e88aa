/* The names of peers, and how they get into messages. */
#include "unit.h"
#include "core/names.h"
#include "core/prng.h"
#include "support.h"

static const struct pccl_hash_key hash = {.odd = {1, 1}};
static const struct pccl_id one = {{0x1a, 0x2b, 0x3c, 0x4d, 1}};
static const struct pccl_id same_digits = {{0x1a, 0x2b, 0x3c, 0x4d, 2}};
static const struct pccl_id other = {{0xde, 0xad, 0xbe, 0xef}};

static void set(struct pccl_names *names, const struct pccl_id *id, const char *name)
{
    pccl_names_set(names, id, name, strlen(name));
}

static void check_words(const struct pccl_names *names, const char *words, const char *expected)
{
    struct pccl_text text;
    pccl_text_format(&text, "%s", words);
    pccl_names_add_to(names, &text);
    assert_string_equal(text.bytes, expected);
    assert_int_equal(text.length, strlen(expected));
    pccl_names_add_to(names, &text); /* the names are added only once */
    assert_string_equal(text.bytes, expected);
}

TEST(test_words_get_names)
{
    struct test_memory m;
    struct pccl_names names;
    test_memory_init(&m);
    pccl_names_init(&names, &m.memory, &hash);
    set(&names, &one, "trainer-1");
    set(&names, &other, "");
    check_words(&names, "", "");
    check_words(&names, "nobody", "nobody");
    check_words(&names, "peer 1a2b3c4d", "peer 1a2b3c4d 'trainer-1'");
    check_words(
        &names, "the link to peer 1a2b3c4d, and of peer deadbeef (silent); peer 1a2b3c4d: gone",
        "the link to peer 1a2b3c4d 'trainer-1', and of peer deadbeef (silent); peer 1a2b3c4d 'trainer-1': gone");
    check_words(&names, "peer 1a2b3c4", "peer 1a2b3c4");
    check_words(&names, "peer 1A2B3C4D", "peer 1A2B3C4D");
    check_words(&names, "peer 1a2b3c4d5 or peer 1a2b3c4dx", "peer 1a2b3c4d5 or peer 1a2b3c4dx");
    check_words(&names, "peer peer 1a2b3c4d", "peer peer 1a2b3c4d 'trainer-1'");
    check_words(&names, "peer 1a2b3c4d 'as it says itself'", "peer 1a2b3c4d 'as it says itself'");
    pccl_names_fini(&names);
    assert_int_equal(m.live_blocks, 0);
}

/* Names are given by untrusted peers: no name can contain more than a name, or be mistaken for another peer's. */
TEST(test_a_name_stays_a_name)
{
    struct test_memory m;
    struct pccl_names names;
    test_memory_init(&m);
    pccl_names_init(&names, &m.memory, &hash);
    set(&names, &one, "x' is dead; peer deadbeef 'y");
    set(&names, &other, "peer 1a2b3c4d");
    check_words(&names, "peer 1a2b3c4d left", "peer 1a2b3c4d 'x\" is dead; peer deadbeef \"y' left");
    check_words(&names, "peer deadbeef left", "peer deadbeef 'peer 1a2b3c4d' left");
    pccl_names_forget(&names, &other);
    set(&names, &other, "two\nlines \x1b[1m\xe2\x80\xae and a broken \xc3");
    assert_string_equal(pccl_names_of(&names, &other), "two?lines ?[1m??? and a broken ?");
    pccl_names_fini(&names);
}

TEST(test_whose_name_it_is)
{
    struct test_memory m;
    struct pccl_names names;
    test_memory_init(&m);
    pccl_names_init(&names, &m.memory, &hash);
    assert_null(pccl_names_of(&names, &one));
    set(&names, &one, "first");
    set(&names, &same_digits, "second");
    assert_string_equal(pccl_names_of(&names, &one), "first");
    assert_null(pccl_names_of(&names, &same_digits));
    check_words(&names, "peer 1a2b3c4d", "peer 1a2b3c4d 'first'");
    pccl_names_forget(&names, &same_digits);
    set(&names, &one, "renamed");
    assert_string_equal(pccl_names_of(&names, &one), "first");
    pccl_names_forget(&names, &one);
    assert_null(pccl_names_of(&names, &one));
    char longest[PCCL_NAME_MAX + 10];
    memset(longest, 'n', sizeof longest);
    pccl_names_set(&names, &one, longest, sizeof longest);
    assert_int_equal(strlen(pccl_names_of(&names, &one)), PCCL_NAME_MAX);
    m.fail_at = m.requests + 1;
    set(&names, &other, "no room");
    assert_null(pccl_names_of(&names, &other));
    pccl_names_fini(&names);
    assert_int_equal(m.live_blocks, 0);
}

static bool is_even(const void *context, const struct pccl_id *id) { return id->bytes[3] % 2 == 0; }

TEST(test_pruning)
{
    struct test_memory m;
    struct pccl_names names;
    test_memory_init(&m);
    pccl_names_init(&names, &m.memory, &hash);
    for (uint32_t i = 0; i < 100; i++)
        set(&names, &(struct pccl_id){{1, 0, 0, (uint8_t)i}}, "n");
    pccl_names_prune(&names, is_even, NULL);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(pccl_names_of(&names, &(struct pccl_id){{1, 0, 0, (uint8_t)i}}) != NULL, i % 2 == 0);
    pccl_names_fini(&names);
    assert_int_equal(m.live_blocks, 0);
}

/* For any text only its end may be lost. */
TEST(test_any_words)
{
    static const char *const pieces[] = {"peer ", "1a2b3c4d", "deadbeef", " '",      "'",
                                         "x",     "\xc3\xa9", "pee",      "r 1a2b3c"};
    struct test_memory m;
    struct pccl_names names;
    struct pccl_prng prng;
    test_memory_init(&m);
    pccl_names_init(&names, &m.memory, &hash);
    pccl_prng_seed(&prng, 18);
    set(&names, &one, "an 'odd' one");
    set(&names, &other, "x");
    for (int round = 0; round < 20000; round++) {
        struct pccl_text words, said, again;
        pccl_text_clear(&words);
        for (uint64_t count = pccl_prng_below(&prng, round % 10 == 0 ? 90 : 12); count > 0; count--)
            pccl_text_add(&words, pieces[pccl_prng_below(&prng, PCCL_COUNT_OF(pieces))]);
        said = words;
        pccl_names_add_to(&names, &said);
        assert_int_equal(strlen(said.bytes), said.length);
        assert_true(said.length >= words.length || said.length > PCCL_REASON_MAX - 4);
        again = said;
        pccl_names_add_to(&names, &again);
        if (said.length < PCCL_REASON_MAX - 100)
            assert_string_equal(again.bytes, said.bytes);
    }
    pccl_names_fini(&names);
}
