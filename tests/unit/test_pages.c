/* master/figures, metrics, pages: the reports of a master about itself, with known answers. */
#include "unit.h"
#include "support.h"

#include "ops/changes.h"
#include "ops/dashboard.h"
#include "ops/metrics.h"
#include "ops/pages.h"
#include "wire/cost.h"

#include <math.h>

HANDLE_ASSERTS

enum { PEERS = 3 };

/* ---- an invented run: two members wait for the third, which is silent; a fourth is a newcomer ---- */

static struct pccl_peer_figure peers[PEERS + 1];
static struct pccl_group_figure groups[1];
static struct pccl_wait waits[2];
static struct pccl_verdict_figure verdicts[1];

static const struct pccl_figure links[4] = {
    [1] = {.rate = 9000, .rtt_us = 800, .source = PCCL_FIGURE_TESTED}, [2] = {.source = PCCL_FIGURE_UNREACHABLE}};
static const uint8_t ways[4] = {[1] = PCCL_WAY_REVERSED, [2] = PCCL_WAY_DIRECT};
static const struct pccl_link_blocks_row block = {
    .group = 7, .position = 4, .members = 9, .count = 2, .blocks = {{8000, 700, 81, 2}}};
static struct pccl_link_row rows[2] = {{7, 0, 2, links, ways}, {7, 1, 2, links + 2, ways + 2}};

static struct pccl_id id_of(uint8_t byte)
{
    struct pccl_id id = {{byte, 0xbc}};
    return id;
}

static struct pccl_figures figures(void)
{
    for (uint32_t i = 0; i <= PEERS; i++) {
        peers[i] = (struct pccl_peer_figure){.id = id_of((uint8_t)(0xa0 + i)),
                                             .standing = i < PEERS ? PCCL_STANDING_MEMBER : PCCL_STANDING_NEWCOMER,
                                             .number = i + 1,
                                             .group = 7,
                                             .rank = i,
                                             .position = i,
                                             .address = pccl_address_v4(10, 0, 0, (uint8_t)i, 48149),
                                             .received_us = 1500000,
                                             .rate = 125000000,
                                             .rtt_us = 900,
                                             .training_us = UINT64_MAX};
    }
    peers[0].reach = PCCL_REACH_OPEN;
    peers[1].reach = PCCL_REACH_CLOSED;
    peers[0].way = PCCL_WAY_REVERSED;
    peers[0].predicted = 5000;
    peers[0].achieved = 4000;
    peers[0].fetching = true;
    peers[0].donors = 2;
    memcpy(peers[0].recent_us, (uint64_t[]){6000000, 2500000, 1000000, 0, 500000}, sizeof peers[0].recent_us);
    memcpy(peers[0].whole_us, (uint64_t[]){1, 1, 1, 0, 0}, sizeof peers[0].whole_us);
    peers[0].delayed_by = peers[2].id;
    peers[0].training_us = 3000;
    peers[0].training_step = 7;
    peers[0].training_loss = 2.5;
    memcpy(peers[0].name, "tr\"1", 4);
    memcpy(peers[2].name, "slow", 4);
    peers[0].place = (struct pccl_place){
        .peer = peers[0].id, .state = PCCL_PLACE_ELSEWHERE, .call = PCCL_CALL_OPERATION, .detail = 5};
    peers[2].place = (struct pccl_place){.peer = peers[2].id, .state = PCCL_PLACE_SILENT, .since_us = 65000000};
    peers[2].received_us = 65000000;
    groups[0] = (struct pccl_group_figure){.number = 7, .members = PEERS, .view = {2, 9}, .sync_round = 4};
    waits[0] = (struct pccl_wait){.call = PCCL_CALL_UPDATE,
                                  .round = 3,
                                  .since_us = 2000000,
                                  .world = PEERS,
                                  .entered_count = PEERS,
                                  .entered = {peers[0].id, peers[1].id, peers[2].id}};
    waits[1] = (struct pccl_wait){.call = PCCL_CALL_OPERATION,
                                  .collective = PCCL_ALL_REDUCE,
                                  .group = 7,
                                  .instance = {.tag = UINT64_MAX, .use = 2},
                                  .since_us = 61000000,
                                  .world = PEERS,
                                  .finished = 1,
                                  .entered_count = 2,
                                  .missing_count = 1,
                                  .entered = {peers[0].id, peers[1].id},
                                  .missing = {peers[2].place}};
    verdicts[0] = (struct pccl_verdict_figure){.group = 7,
                                               .entry = {.class = PCCL_VERDICT_SLOW_LINK,
                                                         .peer = peers[0].id,
                                                         .other = peers[2].id,
                                                         .number = 3,
                                                         .since_us = 201000000}};
    pccl_text_format(&verdicts[0].entry.evidence, "it is slow");
    pccl_text_format(&verdicts[0].entry.action, "none");
    struct pccl_figures f = {.driver = {.version = "1.2.3", .connections = 4, .accepted = 9, .longest_us = 1234},
                             .uptime_us = 100000042,
                             .lineage = id_of(0xff),
                             .epoch = {2, 9},
                             .counts = {.members = PEERS, .pending = 1, .groups = 1, .committed = 40, .aborted = 2},
                             .update_votes = 3,
                             .peers = peers,
                             .peer_count = PEERS + 1,
                             .groups = groups,
                             .group_count = 1,
                             .rows = rows,
                             .row_count = 2,
                             .blocks = &block,
                             .block_count = 1,
                             .gone = {{.id = id_of(0xee), .name = "x", .since_us = 2000000}},
                             .gone_count = 1,
                             .waits = waits,
                             .wait_count = 2,
                             .waits_left_out = true,
                             .verdicts = verdicts,
                             .verdict_count = 1,
                             .verdict_counts = {[PCCL_VERDICT_SLOW_LINK] = 1},
                             .now_us = 203500042};
    pccl_text_format(&f.gone[0].reason, "because");
    f.delays[0] = (struct pccl_delay_figure){peers[2].id, 2500000};
    f.delay_count = 1;
    memcpy(f.recent_us, peers[0].recent_us, sizeof f.recent_us);
    memcpy(f.tally.time_us, (uint64_t[]){9000000, 3000, 0, 1000, 0}, sizeof f.tally.time_us);
    f.rounds[PCCL_ROUND_UPDATE] = 3;
    f.tally.begun[PCCL_ALL_REDUCE] = 43;
    f.tally.committed[PCCL_ALL_REDUCE] = 40;
    f.tally.aborted[PCCL_ALL_REDUCE] = 2;
    f.tally.bytes[PCCL_ALL_REDUCE] = UINT64_C(1) << 40;
    f.tally.members_removed[PCCL_REFUSAL_NOT_WARM] = 1;
    f.tally.rounds_failed[PCCL_ROUND_SYNC] = 2;
    return f;
}

static char *write_page(bool (*next)(const struct pccl_figures *, uint32_t *, struct pccl_print *),
                        const struct pccl_figures *f, struct test_memory *memory)
{
    static char text[64 << 10];
    struct pccl_print print;
    uint32_t at = 0;
    pccl_print_init(&print, &memory->memory, sizeof text - 1);
    while (next(f, &at, &print))
        ;
    assert_false(print.failed);
    memcpy(text, print.bytes, print.length);
    text[print.length] = '\0';
    pccl_print_fini(&print);
    return text;
}

static const char *with_version(const char *before, const char *behind)
{
    static char text[128];
    (void)snprintf(text, sizeof text, "%s%u%s", before, PCCL_PROTOCOL_VERSION, behind);
    return text;
}

/* Returns the rest of a page that begins with this text. */
static const char *rest_of(const char *page, const char *beginning)
{
    assert_memory_equal(page, beginning, strlen(beginning));
    return page + strlen(beginning);
}

static struct test_memory fresh_memory(void) { return (struct test_memory){.memory = {.resize = test_memory_resize}}; }

TEST(text_names_who_is_missing)
{
    struct test_memory memory = fresh_memory();
    memory.memory.context = &memory;
    struct pccl_figures f = figures();
    assert_string_equal(
        rest_of(write_page(pccl_page_text, &f, &memory),
                with_version("pccl-master 1.2.3, protocol ", ", up for 100.0 s\n")),
        "run ffbc0000, epoch 2.9, topology update 3: 3 members, 1 newcomers\n"
        "operations: 40 committed, 2 aborted, 1 running\n"
        "time of the members: 60 % computing, 25 % waiting (most for peer a2bc0000 'slow'), 10 % moving data, "
        "5 % in joint calls\n"
        "  since the master's start: 100 % computing\n"
        "\n"
        "peers\n"
        "  peer a0bc0000 'tr\"1', member of group 7, rank 0, 10.0.0.0:48149, last seen 1.5 s ago, link to the next "
        "peer "
        "reversed, waiting in "
        "all-reduce "
        "tag 5\n"
        "    time: 60 % computing, 25 % waiting (most for peer a2bc0000 'slow'), 10 % moving data, 5 % in joint calls\n"
        "  peer a1bc0000, member of group 7, rank 1, 10.0.0.1:48149, last seen 1.5 s ago, port not reachable: dials "
        "its "
        "links itself\n"
        "  peer a2bc0000 'slow', member of group 7, rank 2, 10.0.0.2:48149, SILENT: last seen 65.0 s ago\n"
        "  peer a3bc0000, newcomer of group 7, 10.0.0.3:48149, last seen 1.5 s ago\n"
        "\n"
        "groups\n"
        "  group 7: 3 members, view 2.9, synchronization round 4\n"
        "\n"
        "verdicts\n"
        "  slow link: from peer a0bc0000 'tr\"1' to peer a2bc0000 'slow' of group 7, for 2.5 s\n"
        "    it is slow\n"
        "    action: none\n"
        "\n"
        "pending calls\n"
        "  update topology (round 3), for 2.0 s: 3 of 3 entered\n"
        "  all-reduce tag 18446744073709551615 of group 7, for 61.0 s: 2 of 3 entered, 1 finished\n"
        "    here: peer a0bc0000 'tr\"1', peer a1bc0000\n"
        "    waiting for peer a2bc0000 'slow', SILENT for 65.0 s, in its own code\n"
        "  and more calls\n");
    f.verdicts[0].entry.finding = true;
    assert_non_null(
        strstr(write_page(pccl_page_text, &f, &memory), "\n  from the start: slow link: from peer a0bc0000"));
    assert_int_equal(memory.live_blocks, 0);
}

TEST(json_is_the_same)
{
    struct test_memory memory = fresh_memory();
    memory.memory.context = &memory;
    struct pccl_figures f = figures();
    f.peer_count = 1;
    const char *page = write_page(pccl_page_json, &f, &memory);
    const char *program = with_version("{\"program\":\"pccl-master\",\"version\":\"1.2.3\",\"protocol\":", ",");
    const char *head =
        "\"uptime_ms\":100000,"
        "\"run\":\"ffbc0000000000000000000000000000\",\"epoch\":\"2.9\",\"takes_commands\":false,\"recovering\":false,"
        "\"optimizing\":false,"
        "\"members\":3,\"newcomers\":1,\"update_round\":3,\"update_votes\":3,\"operations_under_way\":1,"
        "\"operations_committed\":40,\"operations_aborted\":2,\"fetches_done\":0,\"fetches_failed\":0,\"time\":{"
        "\"recent_ms\":{\"computing\":6000,\"waiting\":2500,"
        "\"moving\":1000,\"lost\":0,\"joint\":500},\"whole_ms\":{\"computing\":9000,\"waiting\":3,\"moving\":0,"
        "\"lost\":1,\"joint\":0},\"waited_for\":[{\"peer\":\"a2bc0000000000000000000000000000\",\"ms\":2500}]},"
        "\"spans\":{";
    (void)rest_of(rest_of(page, program), head);
    assert_string_equal(
        strstr(page, ",\"steps\":"),
        ",\"steps\":[],\"gone\":[\n{\"id\":\"eebc0000000000000000000000000000\",\"name\":\"x\",\"since_ms\":2000,"
        "\"reason\":\"because\"}],\"links\":[\n"
        "{\"group\":7,\"rank\":0,\"rates\":[null,9000],\"rtts_us\":[null,800],\"ways\":[null,\"reversed\"]},\n"
        "{\"group\":7,\"rank\":1,\"rates\":[0,null],\"rtts_us\":[null,null],\"ways\":[\"direct\",null]}],"
        "\"link_blocks\":[\n"
        "{\"group\":7,\"position\":4,\"members\":9,\"rates\":[8000,0],\"rtts_us\":[700,0],\"known\":[81,0],"
        "\"unreachable\":[2,0]}],\"peers\":[\n"
        "{\"id\":\"a0bc0000000000000000000000000000\",\"name\":\"tr\\\"1\",\"state\":\"member\",\"group\":7,\"rank\":0,"
        "\"position\":0,\"rate_to_next\":125000000,\"rtt_to_next_us\":900,\"way_to_next\":\"reversed\",\"predicted_to_"
        "next\":5000,"
        "\"achieved_to_next\":4000,\"fetches_from\":2,\"step\":7,\"loss\":25e-1,\"told_ms\":3,"
        "\"address\":\"10.0.0.0:48149\",\"reachable\":true,"
        "\"last_word_ms\":1500,\"in\":\"all-reduce tag 5\",\"connected\":true,\"silent\":false,"
        "\"shares\":[60,25,10,0,5],\"shares_whole\":[33,33,33,0,0],"
        "\"waits_for\":\"a2bc0000000000000000000000000000\",\"draining\":false}],\"groups\":[\n"
        "{\"number\":7,\"members\":3,\"view\":\"2.9\",\"sync_round\":4,\"next_revision\":0}],\"verdicts\":[\n"
        "{\"class\":\"slow "
        "link\",\"finding\":false,\"number\":3,\"group\":7,\"peer\":\"a0bc0000000000000000000000000000\","
        "\"other\":\"a2bc0000000000000000000000000000\",\"since_ms\":2500,\"evidence\":\"it is slow\","
        "\"action\":\"none\"}],\"calls\":[\n"
        "{\"call\":\"update\",\"round\":3,\"since_ms\":2000,\"world\":3,\"come_count\":3,"
        "\"come\":[\"a0bc0000000000000000000000000000\",\"a1bc0000000000000000000000000000\","
        "\"a2bc0000000000000000000000000000\"],\"missing_count\":0,\"missing\":[]},\n"
        "{\"call\":\"operation\",\"group\":7,\"kind\":\"all-reduce\",\"tag\":\"18446744073709551615\",\"use\":2,"
        "\"subgroup\":\"0\",\"pair\":\"0\",\"finished\":1,\"since_ms\":61000,\"world\":3,\"come_count\":2,"
        "\"come\":[\"a0bc0000000000000000000000000000\",\"a1bc0000000000000000000000000000\"],\"missing_count\":1,"
        "\"missing\":[{\"peer\":\"a2bc0000000000000000000000000000\",\"in\":null,\"connected\":true,\"silent\":true}]}]"
        ","
        "\"more_calls\":true}\n");
    f.peers[0].achieved = PCCL_RATE_MOST; /* not a measurement */
    assert_non_null(strstr(write_page(pccl_page_json, &f, &memory), "\"achieved_to_next\":null,"));
    f.peer_count = f.group_count = f.wait_count = f.row_count = f.block_count = f.verdict_count = 0;
    const char *empty = write_page(pccl_page_json, &f, &memory);
    assert_non_null(strstr(empty, "\"peers\":[],\"groups\":[],\"verdicts\":[],\"calls\":[],\"more_calls\":true}\n"));
}

/* The value of a list in JSON, with its brackets. */
static const char *list_of(const char *page, const char *name)
{
    static char list[8192];
    char start[64];
    (void)snprintf(start, sizeof start, "\"%s\":[", name);
    const char *begin = strstr(page, start);
    assert_non_null(begin);
    begin += strlen(start) - 1;
    size_t length = (size_t)(strchr(begin, ']') - begin) + 1;
    assert_true(length < sizeof list);
    memcpy(list, begin, length);
    list[length] = '\0';
    return list;
}

TEST(minutes_are_counted)
{
    struct test_memory memory = fresh_memory();
    memory.memory.context = &memory;
    struct pccl_figures f = figures();
    char zeros[2 * (PCCL_TALLY_SPANS - 3) + 1] = "";
    char expected[256];
    for (size_t i = 0; i < sizeof zeros - 1; i++)
        zeros[i] = i % 2 == 0 ? '0' : ',';
    uint64_t span_us = PCCL_TALLY_SPAN_US, begin_us = 1000 * span_us; /* an outcome of long before has no column */
    pccl_tally_outcome(&f.tally, PCCL_BARRIER, true, 1, 1, begin_us - PCCL_TALLY_SPANS * span_us);
    pccl_tally_outcome(&f.tally, PCCL_BARRIER, true, 100, 1, begin_us);
    pccl_tally_outcome(&f.tally, PCCL_BARRIER, true, 10, 1, begin_us + 5);
    pccl_tally_outcome(&f.tally, PCCL_BARRIER, false, 77, 1, begin_us + span_us);
    pccl_tally_turn(&f.tally, begin_us + 2 * span_us + 4000000);
    const char *page = write_page(pccl_page_json, &f, &memory);
    assert_non_null(strstr(page, "\"spans\":{\"ms\":10000,\"newest_ms\":4000,"));
    (void)snprintf(expected, sizeof expected, "[%s2,0,0]", zeros);
    assert_string_equal(list_of(page, "committed"), expected);
    (void)snprintf(expected, sizeof expected, "[%s0,1,0]", zeros);
    assert_string_equal(list_of(page, "aborted"), expected);
    (void)snprintf(expected, sizeof expected, "[%s110,0,0]", zeros);
    assert_string_equal(list_of(page, "bytes"), expected);
}

TEST(steps_are_kept)
{
    struct test_memory memory = fresh_memory();
    memory.memory.context = &memory;
    struct pccl_figures f = figures();
    pccl_tally_step(&f.tally, 500, 3);
    pccl_tally_step(&f.tally, 500, 2);
    pccl_tally_step(&f.tally, 500, (double)NAN);
    pccl_tally_step(&f.tally, 600, (double)INFINITY);
    pccl_tally_step(&f.tally, UINT64_MAX, -1.25e-7);
    assert_string_equal(list_of(write_page(pccl_page_json, &f, &memory), "steps"),
                        "[{\"step\":500,\"count\":2,\"loss\":25e-1,\"least\":2,\"most\":3},"
                        "{\"step\":600,\"count\":0,\"loss\":null,\"least\":0,\"most\":0},"
                        "{\"step\":18446744073709551615,\"count\":1,\"loss\":-125e-9,\"least\":-125e-9,"
                        "\"most\":-125e-9}]");
    for (uint64_t step = 0; step < PCCL_TALLY_STEPS; step++)
        pccl_tally_step(&f.tally, step, 1);
    assert_null(strstr(list_of(write_page(pccl_page_json, &f, &memory), "steps"), "500"));
}

TEST(doubles_are_exact_to_nine_digits)
{
    static const double values[] = {
        0.1,      -0.1, 1e9, 999999999.7, 123456789.4, 5e-324, 1.7976931348623157e308, 1e-9, 3.14159265358979,
        2.302585, 1e22, 0};
    struct test_memory memory = fresh_memory();
    memory.memory.context = &memory;
    for (size_t i = 0; i < PCCL_COUNT_OF(values); i++) {
        struct pccl_print print;
        char text[64] = "";
        pccl_print_init(&print, &memory.memory, sizeof text - 1);
        pccl_print_add_double(&print, values[i]);
        memcpy(text, print.bytes, print.length);
        pccl_print_fini(&print);
        double read = strtod(text, NULL);
        if (fabs(read - values[i]) > fabs(values[i]) * 5e-9)
            fail_msg("%.17g is written as %s", values[i], text);
    }
}

static void expect_line(const char *text, const char *line)
{
    if (strstr(text, line) == NULL)
        fail_msg("this line is missing: %s", line);
}

static bool next_of_metrics(const struct pccl_figures *f, uint32_t *at, struct pccl_print *print)
{
    pccl_metrics_write(f, print);
    return false;
}

TEST(metrics_have_known_answers)
{
    struct test_memory memory = fresh_memory();
    memory.memory.context = &memory;
    struct pccl_figures f = figures();
    pccl_tally_outcome(&f.tally, PCCL_COLLECTIVES, false, 0, 1000, 1);   /* within the first bound */
    pccl_tally_outcome(&f.tally, PCCL_BARRIER, true, 8, 1001, 2);        /* beyond it */
    pccl_tally_outcome(&f.tally, PCCL_BARRIER, true, 8, 3600000000u, 3); /* beyond all */
    const char *text = write_page(next_of_metrics, &f, &memory);
    static const char *const lines[] = {
        "# TYPE pccl_members gauge\npccl_members 3\n",
        "\npccl_uptime_seconds 100.000042\n",
        "\npccl_newcomers 1\n",
        "\npccl_connections_total 9\n",
        "\npccl_peers_gone_total{role=\"member\",reason=\"not_warm\"} 1\n",
        "\npccl_peers_gone_total{role=\"newcomer\",reason=\"not_warm\"} 0\n",
        "\npccl_operations_begun_total{kind=\"all-reduce\"} 43\n",
        "\npccl_operations_aborted_total{kind=\"unknown\"} 1\n",
        "\npccl_operations_committed_total{kind=\"barrier\"} 2\n",
        "\npccl_operation_bytes_total{kind=\"all-reduce\"} 1099511627776\n",
        "\npccl_operation_bytes_total{kind=\"barrier\"} 16\n",
        "\npccl_rounds_total{kind=\"sync\",outcome=\"failed\"} 2\n",
        "\npccl_operation_seconds_bucket{le=\"0.001000\"} 1\n",
        "\npccl_operation_seconds_bucket{le=\"0.010000\"} 2\n",
        "\npccl_operation_seconds_bucket{le=\"600.000000\"} 2\n",
        "\npccl_operation_seconds_bucket{le=\"+Inf\"} 3\n",
        "\npccl_operation_seconds_sum 3600.002001\n",
        "\npccl_operation_seconds_count 3\n",
        "\npccl_verdicts{class=\"slow link\"} 1\n",
        "\npccl_verdicts{class=\"hang\"} 0\n",
        "\npccl_verdicts_total{class=\"slow link\"} 0\n",
        "\npccl_loop_lag_seconds 0.001234\n",
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(lines); i++)
        expect_line(text, lines[i]);
    expect_line(text, with_version("\npccl_build_info{version=\"1.2.3\",protocol=\"", "\"} 1\n"));
}

/* The largest possible number of peers, each with the longest possible text. */
TEST(the_largest_run_fits)
{
    struct test_memory memory = fresh_memory();
    memory.memory.context = &memory;
    struct pccl_figures f = figures();
    struct pccl_print print;
    struct pccl_peer_figure *many = calloc(PCCL_PEERS_MAX, sizeof *many);
    struct pccl_wait *calls = calloc(PCCL_WAITS_MAX, sizeof *calls);
    assert_true(many != NULL && calls != NULL);
    for (uint32_t i = 0; i < PCCL_PEERS_MAX; i++) {
        many[i] = peers[0];
        many[i].group = many[i].rank = many[i].position = many[i].rtt_us = UINT32_MAX;
        many[i].training_us = UINT64_MAX - 1;
        many[i].training_step = many[i].predicted = many[i].achieved = UINT64_MAX;
        many[i].training_loss = -1.23456789e-300;
        many[i].donors = UINT32_MAX;
        many[i].rate = many[i].received_us = many[i].place.detail = many[i].place.since_us = UINT64_MAX;
        many[i].place.collective = PCCL_COALESCED;
        memset(many[i].address.ip, 0xff, sizeof many[i].address.ip);
        memset(many[i].name, '"', PCCL_NAME_MAX);
    }
    for (uint32_t i = 0; i < PCCL_WAITS_MAX; i++) {
        calls[i] = waits[1];
        calls[i].entered_count = calls[i].missing_count = UINT32_MAX;
        for (uint32_t k = 0; k < PCCL_PLACES_MAX; k++)
            calls[i].missing[k] = peers[2].place;
    }
    static struct pccl_figure squares[PCCL_FIGURES_LINKS_MAX];
    static struct pccl_link_row wide[64];
    static uint8_t reversed[PCCL_FIGURES_LINKS_MAX];
    memset(reversed, PCCL_WAY_REVERSED, sizeof reversed);
    for (uint32_t i = 0; i < PCCL_FIGURES_LINKS_MAX; i++)
        squares[i] = (struct pccl_figure){.rate = UINT64_MAX, .rtt_us = UINT32_MAX, .source = PCCL_FIGURE_TESTED};
    for (uint32_t i = 0; i < 64; i++)
        wide[i] = (struct pccl_link_row){UINT32_MAX, i, 64, squares, reversed};
    f.rows = wide;
    f.row_count = 64;
    for (uint64_t i = 0; i < PCCL_TALLY_STEPS; i++)
        pccl_tally_step(&f.tally, UINT64_MAX - i, -1.23456789e-300);
    f.peers = many;
    f.waits = calls;
    f.wait_count = PCCL_WAITS_MAX;
    for (f.peer_count = 1000; f.peer_count <= PCCL_PEERS_MAX; f.peer_count += PCCL_PEERS_MAX - 1000) {
        uint32_t at = 0;
        pccl_print_init(&print, &memory.memory, PCCL_PAGE_BYTES_MAX);
        while (pccl_page_json(&f, &at, &print))
            ;
        assert_false(print.failed);
        assert_true(f.peer_count > 1000 || print.length < 1 << 20);
        pccl_print_fini(&print);
        at = 0;
        while (pccl_page_text(&f, &at, &print))
            ;
        assert_false(print.failed);
        pccl_print_fini(&print);
        pccl_metrics_write(&f, &print);
        assert_true(!print.failed && print.length < PCCL_METRICS_BYTES_MAX);
        pccl_print_fini(&print);
    }
    free(many);
    free(calls);
    assert_int_equal(memory.live_blocks, 0);
}

/* Shorter memory or a smaller limit than the page needs: it is lost as a whole, and nothing leaks. */
TEST(pages_that_do_not_fit)
{
    struct pccl_figures f = figures();
    for (uint32_t most = 0; most < 4000; most += 7) {
        struct test_memory memory = fresh_memory();
        memory.memory.context = &memory;
        memory.fail_at = most % 5;
        struct pccl_print print;
        uint32_t at = 0;
        pccl_print_init(&print, &memory.memory, most);
        while (pccl_page_text(&f, &at, &print))
            ;
        assert_true(print.length <= most);
        assert_true(print.failed || most >= 900);
        assert_true(print.failed || memory.failures == 0);
        pccl_print_fini(&print);
        assert_int_equal(memory.live_blocks, 0);
    }
}

/* Returns false if the answer is lost. */
static bool write_changes(struct pccl_changes *changes, const struct pccl_figures *f, uint64_t since,
                          struct pccl_print *print)
{
    uint32_t at = 0;
    if (!pccl_changes_begin(changes, f, since))
        return false;
    while (pccl_changes_next(changes, f, &at, print))
        ;
    return !print->failed;
}

/* With every allocation failing in turn the answer is lost as a whole, nothing leaks, and the next one is complete. */
TEST(changes_without_memory)
{
    uint32_t lost = 0;
    for (uint64_t fail_at = 1;; fail_at++) {
        struct test_memory memory = fresh_memory(), own = fresh_memory();
        memory.memory.context = &memory;
        own.memory.context = &own;
        memory.fail_at = fail_at;
        struct pccl_figures f = figures();
        struct pccl_changes changes = {0};
        struct pccl_print print, again;
        pccl_changes_init(&changes, &memory.memory, 5);
        pccl_print_init(&print, &own.memory, PCCL_PAGE_BYTES_MAX);
        pccl_print_init(&again, &own.memory, PCCL_PAGE_BYTES_MAX);
        bool good = write_changes(&changes, &f, 0, &print);
        lost += !good;
        memory.fail_at = 0;
        assert_int_equal(good, memory.failures == 0);
        assert_true(write_changes(&changes, &f, 0, &again));
        assert_memory_equal(again.bytes, "{\"since\":\"0\",\"revision\":\"5.2\",\"head\":{\"program\":", 48);
        assert_true(!good || again.length == print.length);
        pccl_print_fini(&print);
        pccl_print_fini(&again);
        pccl_changes_fini(&changes);
        assert_int_equal(memory.live_blocks, 0);
        if (good)
            break;
    }
    assert_true(lost > 10);
}

TEST(the_dashboard_is_small) { assert_true(pccl_dashboard_bytes <= 60000); }

/* ---- a real machine ---- */

static void send_nothing(void *context, pccl_conn conn, const uint8_t *bytes, size_t length)
{
    (void)context, (void)conn, (void)bytes, (void)length;
}
static void close_nothing(void *context, pccl_conn conn) { (void)context, (void)conn; }
static void log_nothing(void *context, enum pccl_log_level level, const char *line,
                        const struct pccl_log_fields *fields)
{
    (void)context, (void)level, (void)line, (void)fields;
}
static bool probe_nothing(void *context, const struct pccl_id *peer, const struct pccl_id *lineage,
                          const struct pccl_id *ticket, const struct pccl_address *address)
{
    (void)context, (void)ticket, (void)peer, (void)lineage, (void)address;
    return true;
}

static void join(struct pccl_master *master, pccl_conn conn)
{
    struct pccl_msg hello = {.type = PCCL_MSG_hello,
                             .as.hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                          .build = {.version = PCCL_PROTOCOL_VERSION},
                                          .peer = id_of((uint8_t)conn),
                                          .token = id_of(1),
                                          .link_key = id_of(2),
                                          .port = 1,
                                          .name = pccl_bytes_of_string("trainer")}};
    struct pccl_frame frame = {.type = PCCL_MSG_hello};
    pccl_master_step(master, &(struct pccl_master_event){.kind = PCCL_MASTER_OPENED, .now_us = 1000, .conn = conn});
    pccl_master_step(master,
                     &(struct pccl_master_event){
                         .kind = PCCL_MASTER_RECEIVED, .now_us = 1000, .conn = conn, .frame = &frame, .msg = &hello});
    pccl_master_step(master, &(struct pccl_master_event){.kind = PCCL_MASTER_IDLE, .now_us = 2000000});
}

TEST(figures_of_a_machine)
{
    struct test_memory memory = fresh_memory(), own = fresh_memory();
    memory.memory.context = &memory;
    own.memory.context = &own;
    struct pccl_master_config config = pccl_master_defaults();
    config.boot = config.hash_seed = 1;
    struct pccl_master_effects effects = {.send = send_nothing,
                                          .accept = close_nothing,
                                          .close = close_nothing,
                                          .probe = probe_nothing,
                                          .log = log_nothing};
    struct pccl_master *master = pccl_master_create(&config, &own.memory, &effects, 500);
    assert_non_null(master);
    join(master, 1);
    join(master, 2);
    struct pccl_figures f;
    assert_true(pccl_figures_take(master, true, &memory.memory, &f));
    assert_int_equal(f.uptime_us, 1999500);
    assert_int_equal(f.peer_count, 2);
    assert_int_equal(f.counts.members, 1);
    assert_int_equal(f.counts.pending, 1);
    assert_int_equal(f.tally.joined, 1);
    assert_int_equal(f.tally.newcomers, 2);
    assert_string_equal(f.peers[0].name, "trainer");
    assert_int_equal(f.peers[0].standing, PCCL_STANDING_MEMBER);
    assert_int_equal(f.peers[1].standing, PCCL_STANDING_NEWCOMER);
    assert_int_equal(f.wait_count, 0);
    static struct pccl_link_blocks blocks;
    for (int i = 0; i < 3; i++)
        pccl_link_blocks_visit(&blocks, master, 0); /* a block for the only member, which has no link */
    assert_int_equal(blocks.count, 1);
    assert_int_equal(blocks.rows[0].members, 1);
    assert_int_equal(blocks.rows[0].blocks[0].known, 0);
    pccl_link_blocks_visit(&blocks, master, 1);
    assert_int_equal(blocks.count, 0);
    pccl_figures_fini(&f);
    pccl_figures_fini(&f);
    assert_int_equal(memory.live_blocks, 0);
    for (uint64_t i = 1; i <= 3; i++) {
        struct test_memory scarce = fresh_memory();
        scarce.memory.context = &scarce;
        scarce.fail_at = i;
        assert_false(pccl_figures_take(master, true, &scarce.memory, &f));
        assert_int_equal(scarce.live_blocks, 0);
    }
    assert_true(pccl_figures_take(master, false, &memory.memory, &f));
    assert_int_equal(memory.live_blocks, 0);
    pccl_master_destroy(master);
    assert_int_equal(own.live_blocks, 0);
}
