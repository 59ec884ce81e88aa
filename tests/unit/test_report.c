/* topology/report: printing and reading, every refusal with its reason, and arbitrary bytes. */
#include "unit.h"
#include "core/prng.h"
#include "perf/report_parse.h"
#include "support.h"

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
    "way 0 1 rate 50000000 rtt 25100 age 1200 tested reversed\n"                                                       \
    "way 0 2 unreachable age 0\n"
#define WHOLE HEAD PEERS RING WAYS "end\n"

/* Reads a block of exactly `length` bytes: the sanitizer detects a read beyond it. */
static enum pccl_status read_exact(const char *text, size_t length, const struct pccl_memory *memory,
                                   struct pccl_topology_report *report, struct pccl_text *reason)
{
    char *block = malloc(length > 0 ? length : 1);
    assert_non_null(block);
    memcpy(block, text, length);
    enum pccl_status status = perf_report_parse(block, length, memory, report, reason);
    free(block);
    return status;
}

static void expect_text(const struct pccl_topology_report *report, bool ring_only, const char *wanted)
{
    size_t length = pccl_topology_report_print(report, ring_only, NULL, 0);
    char *text = malloc(length + 1);
    assert_non_null(text);
    for (size_t size = 0; size <= length; size += size + 20 < length ? 13 : 1) { /* every 13th, and all near the end */
        memset(text, '!', length + 1);
        assert_int_equal(pccl_topology_report_print(report, ring_only, text, size), length);
        assert_int_equal(text[size], '!');
        assert_memory_equal(text, wanted, size);
    }
    text[length] = '\0';
    assert_string_equal(text, wanted);
    free(text);
}

TEST(there_and_back)
{
    struct test_memory memory;
    struct pccl_topology_report report;
    struct pccl_text reason;
    test_memory_init(&memory);
    assert_int_equal(read_exact(WHOLE, sizeof WHOLE - 1, &memory.memory, &report, &reason), PCCL_OK);
    assert_int_equal(report.group, 7);
    assert_int_equal(report.count, 3);
    assert_string_equal(report.peers[0].name, "first of all");
    assert_string_equal(report.peers[1].name, "");
    assert_int_equal(report.peers[1].id.bytes[0], 0xff);
    assert_int_equal(report.peers[0].address.port, 48149);
    assert_int_equal(report.ring[1], 2);
    assert_int_equal(report.seed, UINT64_MAX);
    assert_int_equal(report.steps, 1000000);
    assert_int_equal(report.link_count, 3);
    assert_int_equal(report.links[0].rate, UINT64_MAX);
    assert_int_equal(report.links[0].source, PCCL_FIGURE_TRAFFIC);
    assert_int_equal(report.links[1].from, 0);
    assert_int_equal(report.links[1].to, 1);
    assert_int_equal(report.links[1].rtt_us, 25100);
    assert_int_equal(report.links[1].age_ms, 1200);
    assert_int_equal(report.links[2].source, PCCL_FIGURE_UNREACHABLE);
    expect_text(&report, false, WHOLE);
    expect_text(&report, true,
                HEAD PEERS RING "way 2 1 rate 18446744073709551615 rtt 4294967295 age 18446744073709551615 traffic\n"
                                "way 0 2 unreachable age 0\nend\n");
    pccl_topology_report_fini(&report);
    assert_int_equal(memory.live_blocks, 0);
}

/* Two sites of two peers each, 100 Mbit/s, whose line has 25. The ring crosses twice in each direction. */
TEST(the_promise_of_the_links)
{
    static const char text[] =
        "pccl topology 1\ngroup 0\npeers 4\npeer 0 " ID_A " 1.2.3.4:0\npeer 1 " ID_A " 1.2.3.4:0\npeer 2 " ID_A
        " 1.2.3.4:0\npeer 3 " ID_A " 1.2.3.4:0\nring 0 2 1 3\nsearch seed 0 steps 0\n"
        "way 0 1 rate 12500000 rtt 500 age 0 tested\nway 1 0 rate 12500000 rtt 500 age 0 tested\n"
        "way 2 3 rate 12500000 rtt 500 age 0 traffic\nway 3 2 rate 12500000 rtt 500 age 0 tested\n"
        "way 0 2 rate 3125000 rtt 20000 age 0 tested\nway 2 1 rate 3125000 rtt 20000 age 0 tested\n"
        "way 1 3 rate 2000000 rtt 20000 age 0 tested\nway 3 0 unreachable age 0\n";
    static const char promise[] =
        "# all-reduce, bytes of the tensor per second: at most 3125000, uplink of the site of peer "
        "0\n# around the ring 0, over trees 3125000\n";
    struct test_memory memory;
    struct pccl_topology_report report;
    struct pccl_text reason;
    static char expected[4096], found[4096];
    test_memory_init(&memory);
    (void)snprintf(expected, sizeof expected, "%send\n", text);
    assert_int_equal(read_exact(expected, strlen(expected), &memory.memory, &report, &reason), PCCL_OK);
    expect_text(&report, false, expected);
    assert_true(pccl_topology_report_promise(&report, report.ring));
    found[pccl_topology_report_print(&report, false, found, sizeof found - 1)] = '\0';
    assert_memory_equal(found, text, sizeof text - 1);
    assert_memory_equal(found + sizeof text - 1, promise, sizeof promise - 1);
    assert_non_null(strstr(found, "\n# tree "));
    static const uint32_t other[] = {0, 1, 2, 3}; /* crosses once in each direction, but 3 -> 0 is unreachable */
    assert_true(pccl_topology_report_promise(&report, other));
    assert_int_equal(report.promise.ring, 0);
    report.links[7].source = PCCL_FIGURE_TESTED;
    report.links[7].rate = 3000000;
    report.links[7].rtt_us = 20000;
    assert_true(pccl_topology_report_promise(&report, other));
    assert_int_equal(report.promise.ring, 3000000 * 4 / 6 + 83333); /* 3125000 * 4 / 6: a slower test is no slow link */
    for (uint64_t fail_at = 1; fail_at <= 2; fail_at++) {
        memory.requests = 0;
        memory.fail_at = fail_at;
        assert_false(pccl_topology_report_promise(&report, other));
    }
    memory.fail_at = 0;
    struct pccl_topology_report again; /* readers ignore the comments */
    assert_int_equal(read_exact(found, strlen(found), &memory.memory, &again, &reason), PCCL_OK);
    expect_text(&again, false, expected);
    pccl_topology_report_fini(&again);
    pccl_topology_report_fini(&report);
    assert_int_equal(memory.live_blocks, 0);
}

/* One peer, more peers than trees are packed for, and a peer without a known link. */
TEST(no_promise)
{
    static const uint32_t sizes[] = {1, 2, PCCL_TREES_PEERS_MAX + 1};
    for (uint32_t i = 0; i < PCCL_COUNT_OF(sizes); i++) {
        struct test_memory memory;
        struct pccl_topology_report report;
        test_memory_init(&memory);
        assert_true(pccl_topology_report_init(&report, &memory.memory, sizes[i]));
        if (sizes[i] > 1)
            assert_true(pccl_topology_report_add(
                &report, &(struct pccl_topology_link){.to = 1, .rate = 1000, .source = PCCL_FIGURE_TESTED}));
        report.promise.bound.rate = report.promise.trees.rate = 1;
        assert_true(pccl_topology_report_promise(&report, report.ring));
        assert_int_equal(report.promise.bound.rate + report.promise.trees.rate + report.promise.ring, 0);
        assert_int_equal(report.promise.trees.count, 0);
        pccl_topology_report_fini(&report);
        assert_int_equal(memory.live_blocks, 0);
    }
}

TEST(comments_blanks_and_line_ends)
{
    static const char text[] =
        "# saved by hand\r\n\r\n  pccl\ttopology   1 \r\ngroup 0\r\npeers 1\n\n#way 0 0\n \t \npeer  0 " ID_A
        " 1.2.3.4:0  two  blanks \r\nring 0 \nsearch seed 0 steps 0\nend\r\n\n# no more\n  ";
    struct test_memory memory;
    struct pccl_topology_report report;
    struct pccl_text reason;
    test_memory_init(&memory);
    assert_int_equal(read_exact(text, sizeof text - 1, &memory.memory, &report, &reason), PCCL_OK);
    assert_string_equal(report.peers[0].name, " two  blanks ");
    expect_text(&report, true,
                "pccl topology 1\ngroup 0\npeers 1\npeer 0 " ID_A
                " 1.2.3.4:0  two  blanks \nring 0\nsearch seed 0 steps 0\nend\n");
    pccl_topology_report_fini(&report);
    static const char cut[] = "pccl topology 1\ngroup 0\npeers 1\npeer 0 " ID_A " [::]:0\nring 0\nsearch seed 0 steps "
                              "0\nend";
    assert_int_equal(read_exact(cut, sizeof cut - 1, &memory.memory, &report, &reason), PCCL_OK);
    pccl_topology_report_fini(&report);
    assert_int_equal(memory.live_blocks, 0);
}

TEST(names_are_made_printable)
{
    struct test_memory memory;
    struct pccl_topology_report report;
    test_memory_init(&memory);
    assert_true(pccl_topology_report_init(&report, &memory.memory, 1));
    report.peers[0].address = pccl_address_v4(1, 2, 3, 4, 5);
    memcpy(report.peers[0].name, "a\nend\n\x7f\xff", 9);
    expect_text(&report, false,
                "pccl topology 1\ngroup 0\npeers 1\npeer 0 00000000000000000000000000000000 1.2.3.4:5 a?end???\n"
                "ring 0\nsearch seed 0 steps 0\nend\n");
    size_t length = pccl_topology_report_print(&report, false, NULL, 0);
    memset(report.peers[0].name, 'x', sizeof report.peers[0].name); /* without an end */
    assert_int_equal(pccl_topology_report_print(&report, false, NULL, 0), length + PCCL_NAME_MAX - 8);
    pccl_topology_report_fini(&report);
    assert_int_equal(memory.live_blocks, 0);
}

TEST(refusals_name_the_line)
{
#define THREE HEAD PEERS RING
#define NAME_64 "0123456789012345678901234567890123456789012345678901234567890123"
#define ONE(peer_line) "pccl topology 1\ngroup 0\npeers 1\npeer 0 " peer_line "\nring 0\nsearch seed 0 steps 0\nend\n"
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "line 1: expected 'pccl topology 1'"},
        {"#\n\n", "line 3: expected 'pccl topology 1'"},
        {"pccl topology 2\n", "line 1: expected 'pccl topology 1'"},
        {"pccl topology 11\n", "line 1: expected 'pccl topology 1'"},
        {"pccl topology 1 2\n", "line 1: expected 'pccl topology 1'"},
        {"pccl topology 1\n", "line 2: unexpected end: expected 'group'"},
        {"pccl topology 1\ngroups 1\n", "line 2: expected 'group'"},
        {"pccl topology 1\ngroup 4294967296\n", "line 2: expected one number up to 4294967295 after 'group'"},
        {"pccl topology 1\ngroup -1\n", "line 2: expected one number up to 4294967295 after 'group'"},
        {"pccl topology 1\ngroup 01\n", "line 2: expected one number up to 4294967295 after 'group'"},
        {"pccl topology 1\ngroup 1 1\n", "line 2: expected one number up to 4294967295 after 'group'"},
        {"pccl topology 1\ngroup 1\npeers 0\n", "line 3: expected one number from 1 to 4096 after 'peers'"},
        {"pccl topology 1\ngroup 1\npeers 4097\n", "line 3: expected one number from 1 to 4096 after 'peers'"},
        {"pccl topology 1\ngroup 1\npeers 4096\n", "line 3: the rest of the file is too short for 4096 peers"},
        {HEAD "peer 1 " PEERS, "line 4: expected 'peer 0'"},
        {HEAD "peer 0 " ID_A "0 1.2.3.4:5\n" PEERS, "line 4: expected 32 hexadecimal digits after 'peer 0'"},
        {HEAD "peer 0 0g0102030405060708090a0b0c0d0e0f\n" PEERS,
         "line 4: expected 32 hexadecimal digits after 'peer 0'"},
        {HEAD "peer 0 " ID_A " 1.2.3.4:5\npeer 0 " PEERS, "line 5: expected 'peer 1'"},
        {HEAD "peer 0 " ID_A " 1.2.3.4:5\npeer 1 " ID_A " 1.2.3.4:5\n#" NAME_64 "\nring 0 1",
         "line 7: expected 'peer'"},
        {ONE(ID_A), "line 4: expected an address after the digits, such as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " 1.2.3.4"), "line 4: expected an address after the digits, such as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " 1.2.3:4"), "line 4: expected an address after the digits, such as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " :4"), "line 4: expected an address after the digits, such as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " [1.2.3.4]:4"),
         "line 4: expected an address after the digits, such as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " (::1):4"), "line 4: expected an address after the digits, such as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " ::1:4"), "line 4: expected an address after the digits, such as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " [::1]:65536"),
         "line 4: expected an address after the digits, such as 10.0.0.1:48149 or [::1]:48149"},
        {ONE(ID_A " 1.2.3.4:5 " NAME_64 "4"), "line 4: expected a name of at most 64 bytes of printable UTF-8"},
        {ONE(ID_A " 1.2.3.4:5 a\tb"), "line 4: expected a name of at most 64 bytes of printable UTF-8"},
        {ONE(ID_A " 1.2.3.4:5 \xc3"), "line 4: expected a name of at most 64 bytes of printable UTF-8"},
        {HEAD PEERS "ring 0 1\n", "line 7: 'ring' must name each of the 3 peers once"},
        {HEAD PEERS "ring 0 1 1\n", "line 7: 'ring' must name each of the 3 peers once"},
        {HEAD PEERS "ring 0 1 3\n", "line 7: 'ring' must name each of the 3 peers once"},
        {HEAD PEERS "ring 0 1 2 0\n", "line 7: 'ring' must name each of the 3 peers once"},
        {HEAD PEERS "search seed 1 steps 1\n", "line 7: expected 'ring'"},
        {HEAD PEERS "ring 0 1 2\nend\n", "line 8: expected 'search'"},
        {HEAD PEERS "ring 0 1 2\nsearch seed 1\n", "line 8: expected 'search seed NUMBER steps NUMBER'"},
        {HEAD PEERS "ring 0 1 2\nsearch seed 18446744073709551616 steps 1\n",
         "line 8: expected 'search seed NUMBER steps NUMBER'"},
        {THREE "way 0 0 unreachable age 1\n", "line 9: expected the numbers of two peers, up to 2, after 'way'"},
        {THREE "way 0 3 unreachable age 1\n", "line 9: expected the numbers of two peers, up to 2, after 'way'"},
        {THREE "way 0\n", "line 9: expected the numbers of two peers, up to 2, after 'way'"},
        {THREE "way 0 1 rate 1 rtt 4294967296 age 1 tested\n",
         "line 9: expected 'rate NUMBER rtt NUMBER age NUMBER tested', the same with 'traffic', or "
         "'unreachable age NUMBER' after the two peers"},
        {THREE "way 0 1 unreachable age 1 tested\n",
         "line 9: expected 'rate NUMBER rtt NUMBER age NUMBER tested', the same with 'traffic', or "
         "'unreachable age NUMBER' after the two peers"},
        {THREE "way 0 1 unreachable age 1\nway 1 0 unreachable age 1\n\nway 0 1 rate 1 rtt 1 age 1 tested\nend\n",
         "line 12: duplicate way from 0 to 1"},
        {THREE "way 0 1 unreachable age 1\n", "line 10: unexpected end: expected 'way' or 'end'"},
        {THREE "away 0 1\n", "line 9: expected 'way' or 'end'"},
        {THREE "end 1\n", "line 9: expected 'way' or 'end'"},
        {THREE "end\n#\nway 0 1 unreachable age 1\n", "line 11: only comments may follow 'end'"},
    };
    struct test_memory memory;
    test_memory_init(&memory);
    for (size_t i = 0; i < PCCL_COUNT_OF(cases); i++) {
        struct pccl_topology_report report;
        struct pccl_text reason;
        enum pccl_status status = read_exact(cases[i].text, strlen(cases[i].text), &memory.memory, &report, &reason);
        assert_string_equal(reason.bytes, cases[i].reason);
        assert_int_equal(status, PCCL_ARGUMENT);
        assert_int_equal(memory.live_blocks, 0);
    }
    struct pccl_topology_report report;
    struct pccl_text reason;
    assert_int_equal(perf_report_parse(NULL, 0, &memory.memory, &report, &reason), PCCL_ARGUMENT);
    static const char longest[] = ONE(ID_A " 1.2.3.4:5 " NAME_64);
    assert_int_equal(read_exact(longest, sizeof longest - 1, &memory.memory, &report, &reason), PCCL_OK);
    assert_string_equal(report.peers[0].name, NAME_64);
    pccl_topology_report_fini(&report);
}

/* Every allocation fails once: nothing leaks, and the status names it. */
TEST(out_of_memory)
{
    struct test_memory memory;
    struct pccl_topology_report report;
    struct pccl_text reason;
    enum pccl_status status = PCCL_MEMORY;
    uint64_t fail_at = 1;
    for (; status == PCCL_MEMORY; fail_at++) {
        test_memory_init(&memory);
        memory.fail_at = fail_at;
        status = read_exact(WHOLE, sizeof WHOLE - 1, &memory.memory, &report, &reason);
        assert_int_equal(memory.live_blocks > 0, status == PCCL_OK);
        if (status == PCCL_MEMORY)
            assert_string_equal(reason.bytes, "out of memory");
    }
    assert_int_equal(status, PCCL_OK);
    assert_true(fail_at > 5); /* peers, ring, observations, paths: then none is left */
    pccl_topology_report_fini(&report);
    test_memory_init(&memory);
    assert_false(pccl_topology_report_init(&report, &memory.memory, 0));
    assert_false(pccl_topology_report_init(&report, &memory.memory, PCCL_PEERS_MAX + 1));
    assert_int_equal(memory.requests, 0);
}

/* Its own numbers are not trusted: its memory is bounded by the bytes that exist. */
TEST(a_short_text_takes_little_memory)
{
    enum { LENGTH = 60000 };
    static const char head[] = "pccl topology 1\ngroup 0\npeers 1200\n";
    struct test_memory memory;
    struct pccl_topology_report report;
    struct pccl_text reason;
    char *text = malloc(LENGTH);
    assert_non_null(text);
    memset(text, '\n', LENGTH);
    memcpy(text, head, sizeof head - 1);
    test_memory_init(&memory);
    assert_int_equal(read_exact(text, LENGTH, &memory.memory, &report, &reason), PCCL_ARGUMENT);
    assert_in_range(memory.peak_bytes, 1, 3 * LENGTH);
    free(text);
}

static struct pccl_topology_report random_report(struct pccl_prng *prng, const struct pccl_memory *memory)
{
    struct pccl_topology_report report;
    uint32_t count = 1 + (uint32_t)pccl_prng_below(prng, 20);
    assert_true(pccl_topology_report_init(&report, memory, count));
    report.group = (uint32_t)pccl_prng_u64(prng);
    report.seed = pccl_prng_u64(prng);
    report.steps = pccl_prng_u64(prng) >> pccl_prng_below(prng, 64);
    for (uint32_t i = 0; i < count; i++) {
        report.peers[i].id = pccl_prng_id(prng);
        struct pccl_id ip = pccl_prng_id(prng);
        memcpy(report.peers[i].address.ip, &ip, sizeof ip);
        report.peers[i].address.port = (uint16_t)pccl_prng_u64(prng);
        for (uint64_t k = 0, length = pccl_prng_below(prng, PCCL_NAME_MAX + 1); k < length; k++)
            report.peers[i].name[k] = (char)(' ' + pccl_prng_below(prng, 95));
        uint32_t other = (uint32_t)pccl_prng_below(prng, i + 1), kept = report.ring[i];
        report.ring[i] = report.ring[other];
        report.ring[other] = kept;
    }
    for (uint32_t i = 0; i < count * count; i++) {
        struct pccl_topology_link link = {.from = i / count, .to = i % count, .age_ms = pccl_prng_u64(prng)};
        link.source = (uint8_t)pccl_prng_below(prng, PCCL_FIGURE_SOURCES);
        if (link.source != PCCL_FIGURE_UNREACHABLE) {
            link.rate = pccl_prng_u64(prng) >> pccl_prng_below(prng, 64);
            link.rtt_us = (uint32_t)pccl_prng_u64(prng);
        }
        if (link.from != link.to)
            assert_true(pccl_topology_report_add(&report, &link));
    }
    return report;
}

static void expect_same(const struct pccl_topology_report *a, const struct pccl_topology_report *b)
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
    assert_int_equal(a->link_count, b->link_count);
    for (uint32_t i = 0; i < a->link_count; i++) {
        const struct pccl_topology_link *x = &a->links[i], *y = &b->links[i];
        assert_true(x->from == y->from && x->to == y->to && x->source == y->source);
        assert_true(x->rate == y->rate && x->age_ms == y->age_ms && x->rtt_us == y->rtt_us);
    }
}

TEST(any_report_comes_back)
{
    struct test_memory memory;
    struct pccl_prng prng;
    test_memory_init(&memory);
    pccl_prng_seed(&prng, 41);
    for (int round = 0; round < 300; round++) {
        struct pccl_topology_report report = random_report(&prng, &memory.memory), again;
        struct pccl_text reason;
        size_t length = pccl_topology_report_print(&report, false, NULL, 0);
        char *text = malloc(length);
        assert_non_null(text);
        assert_int_equal(pccl_topology_report_print(&report, false, text, length), length);
        assert_int_equal(perf_report_parse(text, length, &memory.memory, &again, &reason), PCCL_OK);
        expect_same(&report, &again);
        pccl_topology_report_fini(&again);
        length = pccl_topology_report_print(&report, true, text, length);
        assert_int_equal(perf_report_parse(text, length, &memory.memory, &again, &reason), PCCL_OK);
        assert_true(again.link_count <= again.count);
        for (uint32_t i = 0; i < again.link_count; i++) {
            uint32_t at = 0;
            while (again.ring[at] != again.links[i].from)
                at++;
            assert_int_equal(again.links[i].to, again.ring[(at + 1) % again.count]);
        }
        free(text);
        pccl_topology_report_fini(&again);
        pccl_topology_report_fini(&report);
    }
    assert_int_equal(memory.live_blocks, 0);
}

/* Reads the text: the status must be OK, or a refusal with a reason. */
static enum pccl_status survives(const char *text, size_t length, struct test_memory *memory)
{
    struct pccl_topology_report report;
    struct pccl_text reason;
    enum pccl_status status = read_exact(text, length, &memory->memory, &report, &reason);
    if (status == PCCL_OK) {
        assert_int_equal(reason.length, 0);
        pccl_topology_report_fini(&report);
    } else {
        assert_int_equal(status, PCCL_ARGUMENT);
        assert_memory_equal(reason.bytes, "line ", 5);
    }
    assert_int_equal(memory->live_blocks, 0);
    return status;
}

TEST(damaged_texts)
{
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
