/* topology/picture: there and back, every refusal in words, and whatever bytes may come. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/prng.h"
#include "support.h"
#include "topology/picture.h"

#define ID_A "000102030405060708090a0b0c0d0e0f"
#define ID_B "ffeeddccbbaa99887766554433221100"
#define HEAD "pccl topology 1\ngroup 7\npeers 3\n"
#define PEERS                                                                                                          \
    "peer 0 " ID_A " 10.0.0.1:48149 first of all\n"                                                                    \
    "peer 1 " ID_B " [fe80::1]:1\n"                                                                                    \
    "peer 2 " ID_A " 0.0.0.0:65535 Z\xc3\xbcrich\n"
#define RING "ring 0 2 1\nsearch seed 18446744073709551615 steps 1000000\n"
#define WAYS                                                                                                           \
    "way 2 1 rate 18446744073709551615 rtt 4294967295 age 18446744073709551615 traffic\n"                              \
    "way 0 1 rate 50000000 rtt 25100 age 1200 tested\n"                                                                \
    "way 0 2 unreachable age 0\n"
#define WHOLE HEAD PEERS RING WAYS "end\n"

/* From a block of exactly so many bytes: the sanitizer sees one too many. */
static enum pccl_status read_exact(const char *text, size_t length, const struct pccl_memory *memory,
                                   struct pccl_picture *picture, struct pccl_text *words)
{
    char *block = malloc(length > 0 ? length : 1);
    assert_non_null(block);
    memcpy(block, text, length);
    enum pccl_status status = pccl_picture_read(block, length, memory, picture, words);
    free(block);
    return status;
}

static void expect_text(const struct pccl_picture *picture, bool ring_only, const char *wanted)
{
    size_t length = pccl_picture_print(picture, ring_only, NULL, 0);
    char *text = malloc(length + 1);
    assert_non_null(text);
    for (size_t size = 0; size <= length; size += size + 20 < length ? 13 : 1) { /* what there is room for */
        memset(text, '!', length + 1);
        assert_int_equal(pccl_picture_print(picture, ring_only, text, size), length);
        assert_int_equal(text[size], '!');
        assert_memory_equal(text, wanted, size);
    }
    text[length] = '\0';
    assert_string_equal(text, wanted);
    free(text);
}

static void there_and_back(void **state)
{
    (void)state;
    struct test_memory memory;
    struct pccl_picture picture;
    struct pccl_text words;
    test_memory_init(&memory);
    assert_int_equal(read_exact(WHOLE, sizeof WHOLE - 1, &memory.memory, &picture, &words), PCCL_OK);
    assert_int_equal(picture.group, 7);
    assert_int_equal(picture.count, 3);
    assert_string_equal(picture.peers[0].name, "first of all");
    assert_string_equal(picture.peers[1].name, "");
    assert_int_equal(picture.peers[1].id.bytes[0], 0xff);
    assert_int_equal(picture.peers[0].address.port, 48149);
    assert_int_equal(picture.ring[1], 2);
    assert_int_equal(picture.seed, UINT64_MAX);
    assert_int_equal(picture.steps, 1000000);
    assert_int_equal(picture.way_count, 3);
    assert_int_equal(picture.ways[0].rate, UINT64_MAX);
    assert_int_equal(picture.ways[0].source, PCCL_FIGURE_TRAFFIC);
    assert_int_equal(picture.ways[1].from, 0);
    assert_int_equal(picture.ways[1].to, 1);
    assert_int_equal(picture.ways[1].rtt_us, 25100);
    assert_int_equal(picture.ways[1].age_ms, 1200);
    assert_int_equal(picture.ways[2].source, PCCL_FIGURE_UNREACHABLE);
    expect_text(&picture, false, WHOLE);
    expect_text(&picture, true,
                HEAD PEERS RING "way 2 1 rate 18446744073709551615 rtt 4294967295 age 18446744073709551615 traffic\n"
                                "way 0 2 unreachable age 0\nend\n");
    pccl_picture_fini(&picture);
    assert_int_equal(memory.live_blocks, 0);
}

static void comments_blanks_and_line_ends(void **state)
{
    (void)state;
    static const char text[] =
        "# saved by hand\r\n\r\n  pccl\ttopology   1 \r\ngroup 0\r\npeers 1\n\n#way 0 0\n \t \npeer  0 " ID_A
        " 1.2.3.4:0  two  blanks \r\nring 0 \nsearch seed 0 steps 0\nend\r\n\n# no more\n  ";
    struct test_memory memory;
    struct pccl_picture picture;
    struct pccl_text words;
    test_memory_init(&memory);
    assert_int_equal(read_exact(text, sizeof text - 1, &memory.memory, &picture, &words), PCCL_OK);
    assert_string_equal(picture.peers[0].name, " two  blanks ");
    expect_text(&picture, true,
                "pccl topology 1\ngroup 0\npeers 1\npeer 0 " ID_A
                " 1.2.3.4:0  two  blanks \nring 0\nsearch seed 0 steps 0\nend\n");
    pccl_picture_fini(&picture);
    static const char cut[] = "pccl topology 1\ngroup 0\npeers 1\npeer 0 " ID_A " [::]:0\nring 0\nsearch seed 0 steps "
                              "0\nend";
    assert_int_equal(read_exact(cut, sizeof cut - 1, &memory.memory, &picture, &words), PCCL_OK);
    pccl_picture_fini(&picture);
    assert_int_equal(memory.live_blocks, 0);
}

static void names_are_made_printable(void **state)
{
    (void)state;
    struct test_memory memory;
    struct pccl_picture picture;
    test_memory_init(&memory);
    assert_true(pccl_picture_init(&picture, &memory.memory, 1));
    picture.peers[0].address = pccl_address_v4(1, 2, 3, 4, 5);
    memcpy(picture.peers[0].name, "a\nend\n\x7f\xff", 9);
    expect_text(&picture, false,
                "pccl topology 1\ngroup 0\npeers 1\npeer 0 00000000000000000000000000000000 1.2.3.4:5 a?end???\n"
                "ring 0\nsearch seed 0 steps 0\nend\n");
    size_t length = pccl_picture_print(&picture, false, NULL, 0);
    memset(picture.peers[0].name, 'x', sizeof picture.peers[0].name); /* without an end */
    assert_int_equal(pccl_picture_print(&picture, false, NULL, 0), length + PCCL_NAME_MAX - 8);
    pccl_picture_fini(&picture);
    assert_int_equal(memory.live_blocks, 0);
}

static void refusals_name_the_line(void **state)
{
    (void)state;
#define THREE HEAD PEERS RING
#define NAME_64 "0123456789012345678901234567890123456789012345678901234567890123"
#define ONE(peer_line) "pccl topology 1\ngroup 0\npeers 1\npeer 0 " peer_line "\nring 0\nsearch seed 0 steps 0\nend\n"
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "line 1: 'pccl topology 1' is expected"},
        {"#\n\n", "line 3: 'pccl topology 1' is expected"},
        {"pccl topology 2\n", "line 1: 'pccl topology 1' is expected"},
        {"pccl topology 11\n", "line 1: 'pccl topology 1' is expected"},
        {"pccl topology 1 2\n", "line 1: 'pccl topology 1' is expected"},
        {"pccl topology 1\n", "line 2: the text ends where 'group' is expected"},
        {"pccl topology 1\ngroups 1\n", "line 2: 'group' is expected"},
        {"pccl topology 1\ngroup 4294967296\n", "line 2: 'group' must be followed by one number up to 4294967295"},
        {"pccl topology 1\ngroup -1\n", "line 2: 'group' must be followed by one number up to 4294967295"},
        {"pccl topology 1\ngroup 01\n", "line 2: 'group' must be followed by one number up to 4294967295"},
        {"pccl topology 1\ngroup 1 1\n", "line 2: 'group' must be followed by one number up to 4294967295"},
        {"pccl topology 1\ngroup 1\npeers 0\n", "line 3: 'peers' must be followed by one number from 1 to 4096"},
        {"pccl topology 1\ngroup 1\npeers 4097\n", "line 3: 'peers' must be followed by one number from 1 to 4096"},
        {"pccl topology 1\ngroup 1\npeers 4096\n", "line 3: what follows is too short for 4096 peers"},
        {HEAD "peer 1 " PEERS, "line 4: 'peer 0' is expected"},
        {HEAD "peer 0 " ID_A "0 1.2.3.4:5\n" PEERS, "line 4: 'peer 0' must be followed by 32 hexadecimal digits"},
        {HEAD "peer 0 0g0102030405060708090a0b0c0d0e0f\n" PEERS,
         "line 4: 'peer 0' must be followed by 32 hexadecimal digits"},
        {HEAD "peer 0 " ID_A " 1.2.3.4:5\npeer 0 " PEERS, "line 5: 'peer 1' is expected"},
        {HEAD "peer 0 " ID_A " 1.2.3.4:5\npeer 1 " ID_A " 1.2.3.4:5\n#" NAME_64 "\nring 0 1",
         "line 7: 'peer' is expected"},
        {ONE(ID_A), "line 4: an address is expected behind the digits, as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " 1.2.3.4"), "line 4: an address is expected behind the digits, as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " 1.2.3:4"), "line 4: an address is expected behind the digits, as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " :4"), "line 4: an address is expected behind the digits, as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " [1.2.3.4]:4"),
         "line 4: an address is expected behind the digits, as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " (::1):4"), "line 4: an address is expected behind the digits, as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " ::1:4"), "line 4: an address is expected behind the digits, as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " [::1]:65536"),
         "line 4: an address is expected behind the digits, as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " 1.2.3.4:5 " NAME_64 "4"), "line 4: a name has at most 64 bytes, all of them printable UTF-8"},
        {ONE(ID_A " 1.2.3.4:5 a\tb"), "line 4: a name has at most 64 bytes, all of them printable UTF-8"},
        {ONE(ID_A " 1.2.3.4:5 \xc3"), "line 4: a name has at most 64 bytes, all of them printable UTF-8"},
        {HEAD PEERS "ring 0 1\n", "line 7: 'ring' must name each of the 3 peers once"},
        {HEAD PEERS "ring 0 1 1\n", "line 7: 'ring' must name each of the 3 peers once"},
        {HEAD PEERS "ring 0 1 3\n", "line 7: 'ring' must name each of the 3 peers once"},
        {HEAD PEERS "ring 0 1 2 0\n", "line 7: 'ring' must name each of the 3 peers once"},
        {HEAD PEERS "search seed 1 steps 1\n", "line 7: 'ring' is expected"},
        {HEAD PEERS "ring 0 1 2\nend\n", "line 8: 'search' is expected"},
        {HEAD PEERS "ring 0 1 2\nsearch seed 1\n", "line 8: 'search seed NUMBER steps NUMBER' is expected"},
        {HEAD PEERS "ring 0 1 2\nsearch seed 18446744073709551616 steps 1\n",
         "line 8: 'search seed NUMBER steps NUMBER' is expected"},
        {THREE "way 0 0 unreachable age 1\n", "line 9: 'way' must be followed by the numbers of two peers, up to 2"},
        {THREE "way 0 3 unreachable age 1\n", "line 9: 'way' must be followed by the numbers of two peers, up to 2"},
        {THREE "way 0\n", "line 9: 'way' must be followed by the numbers of two peers, up to 2"},
        {THREE "way 0 1 rate 1 rtt 4294967296 age 1 tested\n",
         "line 9: 'rate NUMBER rtt NUMBER age NUMBER tested', the same with 'traffic', or 'unreachable age NUMBER' is "
         "expected behind the two peers"},
        {THREE "way 0 1 unreachable age 1 tested\n",
         "line 9: 'rate NUMBER rtt NUMBER age NUMBER tested', the same with 'traffic', or 'unreachable age NUMBER' is "
         "expected behind the two peers"},
        {THREE "way 0 1 unreachable age 1\nway 1 0 unreachable age 1\n\nway 0 1 rate 1 rtt 1 age 1 tested\nend\n",
         "line 12: the way from 0 to 1 is there twice"},
        {THREE "way 0 1 unreachable age 1\n", "line 10: the text ends where 'way' or 'end' is expected"},
        {THREE "away 0 1\n", "line 9: 'way' or 'end' is expected"},
        {THREE "end 1\n", "line 9: 'way' or 'end' is expected"},
        {THREE "end\n#\nway 0 1 unreachable age 1\n", "line 11: nothing but comments may follow 'end'"},
    };
    struct test_memory memory;
    test_memory_init(&memory);
    for (size_t i = 0; i < PCCL_COUNT_OF(cases); i++) {
        struct pccl_picture picture;
        struct pccl_text words;
        enum pccl_status status = read_exact(cases[i].text, strlen(cases[i].text), &memory.memory, &picture, &words);
        assert_string_equal(words.bytes, cases[i].words);
        assert_int_equal(status, PCCL_ARGUMENT);
        assert_int_equal(memory.live_blocks, 0);
    }
    struct pccl_picture picture;
    struct pccl_text words;
    assert_int_equal(pccl_picture_read(NULL, 0, &memory.memory, &picture, &words), PCCL_ARGUMENT);
    static const char longest[] = ONE(ID_A " 1.2.3.4:5 " NAME_64);
    assert_int_equal(read_exact(longest, sizeof longest - 1, &memory.memory, &picture, &words), PCCL_OK);
    assert_string_equal(picture.peers[0].name, NAME_64);
    pccl_picture_fini(&picture);
}

/* Every allocation fails once: nothing is leaked, and the status says so. */
static void out_of_memory(void **state)
{
    (void)state;
    struct test_memory memory;
    struct pccl_picture picture;
    struct pccl_text words;
    enum pccl_status status = PCCL_MEMORY;
    uint64_t fail_at = 1;
    for (; status == PCCL_MEMORY; fail_at++) {
        test_memory_init(&memory);
        memory.fail_at = fail_at;
        status = read_exact(WHOLE, sizeof WHOLE - 1, &memory.memory, &picture, &words);
        assert_int_equal(memory.live_blocks > 0, status == PCCL_OK);
        if (status == PCCL_MEMORY)
            assert_string_equal(words.bytes, "out of memory");
    }
    assert_int_equal(status, PCCL_OK);
    assert_true(fail_at > 5); /* peers, ring, what was seen, ways: and then none */
    pccl_picture_fini(&picture);
    test_memory_init(&memory);
    assert_false(pccl_picture_init(&picture, &memory.memory, 0));
    assert_false(pccl_picture_init(&picture, &memory.memory, PCCL_PEERS_MAX + 1));
    assert_int_equal(memory.requests, 0);
}

/* What it says of itself is not believed: the memory is bounded by the bytes that are there. */
static void a_short_text_takes_little_memory(void **state)
{
    (void)state;
    enum { LENGTH = 60000 };
    static const char head[] = "pccl topology 1\ngroup 0\npeers 1200\n";
    struct test_memory memory;
    struct pccl_picture picture;
    struct pccl_text words;
    char *text = malloc(LENGTH);
    assert_non_null(text);
    memset(text, '\n', LENGTH);
    memcpy(text, head, sizeof head - 1);
    test_memory_init(&memory);
    assert_int_equal(read_exact(text, LENGTH, &memory.memory, &picture, &words), PCCL_ARGUMENT);
    assert_in_range(memory.peak_bytes, 1, 3 * LENGTH);
    free(text);
}

static struct pccl_picture random_picture(struct pccl_prng *prng, const struct pccl_memory *memory)
{
    struct pccl_picture picture;
    uint32_t count = 1 + (uint32_t)pccl_prng_below(prng, 20);
    assert_true(pccl_picture_init(&picture, memory, count));
    picture.group = (uint32_t)pccl_prng_u64(prng);
    picture.seed = pccl_prng_u64(prng);
    picture.steps = pccl_prng_u64(prng) >> pccl_prng_below(prng, 64);
    for (uint32_t i = 0; i < count; i++) {
        picture.peers[i].id = pccl_prng_id(prng);
        struct pccl_id ip = pccl_prng_id(prng);
        memcpy(picture.peers[i].address.ip, &ip, sizeof ip);
        picture.peers[i].address.port = (uint16_t)pccl_prng_u64(prng);
        for (uint64_t k = 0, length = pccl_prng_below(prng, PCCL_NAME_MAX + 1); k < length; k++)
            picture.peers[i].name[k] = (char)(' ' + pccl_prng_below(prng, 95));
        uint32_t other = (uint32_t)pccl_prng_below(prng, i + 1), kept = picture.ring[i];
        picture.ring[i] = picture.ring[other];
        picture.ring[other] = kept;
    }
    for (uint32_t i = 0; i < count * count; i++) {
        struct pccl_picture_way way = {.from = i / count, .to = i % count, .age_ms = pccl_prng_u64(prng)};
        way.source = (uint8_t)pccl_prng_below(prng, PCCL_FIGURE_SOURCES);
        if (way.source != PCCL_FIGURE_UNREACHABLE) {
            way.rate = pccl_prng_u64(prng) >> pccl_prng_below(prng, 64);
            way.rtt_us = (uint32_t)pccl_prng_u64(prng);
        }
        if (way.from != way.to)
            assert_true(pccl_picture_add(&picture, &way));
    }
    return picture;
}

static void expect_same(const struct pccl_picture *a, const struct pccl_picture *b)
{
    assert_int_equal(a->group, b->group);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->seed, b->seed);
    assert_int_equal(a->steps, b->steps);
    assert_memory_equal(a->ring, b->ring, a->count * sizeof *a->ring);
    for (uint32_t i = 0; i < a->count; i++) {
        assert_true(pccl_id_equal(&a->peers[i].id, &b->peers[i].id));
        assert_true(pccl_address_equal(&a->peers[i].address, &b->peers[i].address));
        assert_string_equal(a->peers[i].name, b->peers[i].name);
    }
    assert_int_equal(a->way_count, b->way_count);
    for (uint32_t i = 0; i < a->way_count; i++) {
        const struct pccl_picture_way *x = &a->ways[i], *y = &b->ways[i];
        assert_true(x->from == y->from && x->to == y->to && x->source == y->source);
        assert_true(x->rate == y->rate && x->age_ms == y->age_ms && x->rtt_us == y->rtt_us);
    }
}

static void any_picture_comes_back(void **state)
{
    (void)state;
    struct test_memory memory;
    struct pccl_prng prng;
    test_memory_init(&memory);
    pccl_prng_seed(&prng, 41);
    for (int round = 0; round < 300; round++) {
        struct pccl_picture picture = random_picture(&prng, &memory.memory), again;
        struct pccl_text words;
        size_t length = pccl_picture_print(&picture, false, NULL, 0);
        char *text = malloc(length);
        assert_non_null(text);
        assert_int_equal(pccl_picture_print(&picture, false, text, length), length);
        assert_int_equal(pccl_picture_read(text, length, &memory.memory, &again, &words), PCCL_OK);
        expect_same(&picture, &again);
        pccl_picture_fini(&again);
        length = pccl_picture_print(&picture, true, text, length);
        assert_int_equal(pccl_picture_read(text, length, &memory.memory, &again, &words), PCCL_OK);
        assert_true(again.way_count <= again.count);
        for (uint32_t i = 0; i < again.way_count; i++) {
            uint32_t at = 0;
            while (again.ring[at] != again.ways[i].from)
                at++;
            assert_int_equal(again.ways[i].to, again.ring[(at + 1) % again.count]);
        }
        free(text);
        pccl_picture_fini(&again);
        pccl_picture_fini(&picture);
    }
    assert_int_equal(memory.live_blocks, 0);
}

/* OK or a refusal in words; never more than that. */
static enum pccl_status survives(const char *text, size_t length, struct test_memory *memory)
{
    struct pccl_picture picture;
    struct pccl_text words;
    enum pccl_status status = read_exact(text, length, &memory->memory, &picture, &words);
    if (status == PCCL_OK) {
        assert_int_equal(words.length, 0);
        pccl_picture_fini(&picture);
    } else {
        assert_int_equal(status, PCCL_ARGUMENT);
        assert_memory_equal(words.bytes, "line ", 5);
    }
    assert_int_equal(memory->live_blocks, 0);
    return status;
}

static void damaged_texts(void **state)
{
    (void)state;
    struct test_memory memory;
    struct pccl_prng prng;
    char text[sizeof WHOLE];
    const size_t length = sizeof WHOLE - 1;
    uint32_t good = 0, bad = 0;
    test_memory_init(&memory);
    pccl_prng_seed(&prng, 42);
    for (size_t cut = 0; cut < length - 1; cut++) /* the last line end may be missing */
        assert_int_equal(survives(WHOLE, cut, &memory), PCCL_ARGUMENT);
    for (size_t at = 0; at < length; at++) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            memcpy(text, WHOLE, sizeof text);
            text[at] = (char)byte;
            *(survives(text, length, &memory) == PCCL_OK ? &good : &bad) += 1;
        }
        memmove(text + at, &WHOLE[at + 1], length - at - 1); /* a byte is missing */
        (void)survives(text, length - 1, &memory);
    }
    assert_true(good > 1000 && bad > 50000);
    for (int round = 0; round < 20000; round++) {
        memcpy(text, WHOLE, sizeof text);
        for (uint64_t i = pccl_prng_below(&prng, 4); i < 5; i++) { /* pieces of it elsewhere */
            size_t from = pccl_prng_below(&prng, length), to = pccl_prng_below(&prng, length);
            size_t most = length - (from > to ? from : to);
            memmove(text + to, text + from, most < 12 ? most : pccl_prng_below(&prng, 12));
        }
        (void)survives(text, length, &memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(comments_blanks_and_line_ends),
        cmocka_unit_test(names_are_made_printable),
        cmocka_unit_test(refusals_name_the_line),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(a_short_text_takes_little_memory),
        cmocka_unit_test(any_picture_comes_back),
        cmocka_unit_test(damaged_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
