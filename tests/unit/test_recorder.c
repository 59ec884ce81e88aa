/* The flight recorder: which entries are kept, for how long, and their text. */
#include "unit.h"
#include "ops/dump.h"
#include "support.h"

static struct test_memory pool;

static const struct pccl_memory *memory(void) { return &pool.memory; }

static struct pccl_id id_of(uint8_t number) { return (struct pccl_id){.bytes = {number, 0xab}}; }

static int set_up(void **state)
{
    test_memory_init(&pool);
    return 0;
}

/* Frees everything. */
static int tear_down(void **state)
{
    assert_int_equal(pool.live_blocks, 0);
    return 0;
}

/* Adds an operation of `members` members that has succeeded. */
static struct pccl_recorder_entry *add(struct pccl_recorder *recorder, uint64_t number, uint32_t members)
{
    struct pccl_id ids[PCCL_TELEMETRY_FLOWS_MAX];
    for (uint32_t i = 0; i < members; i++)
        ids[i] = id_of((uint8_t)(i + 1));
    struct pccl_recorder_entry *entry = pccl_recorder_add(recorder, ids, members);
    entry->number = number;
    entry->instance.tag = 7;
    entry->state = PCCL_TELEMETRY_ENDED;
    entry->entered_us = 1000 * number;
    entry->ended_us = entry->entered_us + 500;
    return entry;
}

/* Adds flows to one neighbor and from the next one, in turn. */
static void add_flows(struct pccl_recorder *recorder, struct pccl_recorder_entry *entry, uint32_t count)
{
    struct pccl_telemetry_flow flows[PCCL_TELEMETRY_FLOWS_MAX + 1];
    struct pccl_id ring[PCCL_TELEMETRY_FLOWS_MAX];
    memset(flows, 0, sizeof flows);
    for (uint32_t i = 0; i < count; i++) {
        ring[i] = id_of((uint8_t)(i + 1));
        pccl_telemetry_open(&flows[i], i, i % 2 == 0, 1);
        pccl_telemetry_expect(&flows[i], 0, 1, entry->entered_us);
        PCCL_TELEMETRY_SET(flows[i].bytes, entry->number);
    }
    pccl_recorder_add_flows(recorder, entry, flows, count + 1, ring);
}

/* ---- entries that are kept ---- */

TEST_IN(test_oldest_is_forgotten, set_up, tear_down)
{
    struct pccl_recorder *recorder = pccl_recorder_create(memory(), 4);
    assert_int_equal(pccl_recorder_kept(recorder), 0);
    assert_null(pccl_recorder_find(recorder, 1));
    for (uint64_t number = 1; number <= 11; number++) {
        add(recorder, number, 3);
        assert_int_equal(pccl_recorder_kept(recorder), number < 4 ? number : 4);
        assert_int_equal(pccl_recorder_at(recorder, pccl_recorder_kept(recorder) - 1)->number, number);
    }
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(pccl_recorder_at(recorder, i)->number, 8 + i);
    assert_null(pccl_recorder_find(recorder, 7));
    assert_int_equal(pccl_recorder_find(recorder, 8)->number, 8);
    pccl_recorder_destroy(recorder);
}

TEST_IN(test_lists_of_members_are_shared, set_up, tear_down)
{
    struct pccl_recorder *recorder = pccl_recorder_create(memory(), 4); /* with room for 32 ids */
    const struct pccl_recorder_entry *first = add(recorder, 1, 20);
    assert_ptr_equal(pccl_recorder_members(recorder, first), pccl_recorder_members(recorder, add(recorder, 2, 20)));
    const struct pccl_recorder_entry *other = add(recorder, 3, 10);
    assert_non_null(pccl_recorder_members(recorder, first));
    const struct pccl_recorder_entry *third =
        add(recorder, 4, 20); /* the list is a new one, and the first one has no room */
    assert_null(pccl_recorder_members(recorder, first));
    assert_int_equal(first->member_count, 20);
    const struct pccl_id *listed = pccl_recorder_members(recorder, third);
    for (uint8_t i = 0; i < 20; i++)
        assert_true(pccl_id_equal(&listed[i], &(struct pccl_id){.bytes = {(uint8_t)(i + 1), 0xab}}));
    (void)other;
    assert_null(pccl_recorder_members(recorder, add(recorder, 5, 0)));
    assert_ptr_equal(pccl_recorder_members(recorder, pccl_recorder_add(recorder, NULL, 20)), listed); /* as before */
    pccl_recorder_destroy(recorder);
}

TEST_IN(test_more_members_than_there_is_room_for, set_up, tear_down)
{
    struct pccl_recorder *recorder = pccl_recorder_create(memory(), 1); /* with room for 8 ids */
    const struct pccl_recorder_entry *entry = add(recorder, 1, 9);
    assert_null(pccl_recorder_members(recorder, entry));
    assert_int_equal(entry->member_count, 9);
    pccl_recorder_destroy(recorder);
}

TEST_IN(test_flows_and_reasons_are_forgotten_first, set_up, tear_down)
{
    struct pccl_recorder *recorder = pccl_recorder_create(memory(), 100); /* with room for 400 flows */
    struct pccl_text reason;
    for (uint64_t number = 1; number <= 100; number++) {
        struct pccl_recorder_entry *entry = add(recorder, number, 3);
        add_flows(recorder, entry, PCCL_TELEMETRY_FLOWS_MAX);
        pccl_text_format(&reason, "reason %" PRIu64, number);
        pccl_recorder_add_reason(recorder, entry, &reason);
    }
    uint32_t with_flows = 0, with_reason = 0;
    for (uint32_t i = 0; i < 100; i++) {
        const struct pccl_recorder_entry *entry = pccl_recorder_at(recorder, i);
        const struct pccl_recorder_flow *flows = pccl_recorder_flows(recorder, entry);
        const struct pccl_text *why = pccl_recorder_reason(recorder, entry);
        assert_true(!flows || flows[PCCL_TELEMETRY_FLOWS_MAX - 1].counters.bytes == entry->number);
        assert_true(!flows || flows[0].peer.bytes[0] == 1);
        pccl_text_format(&reason, "reason %" PRIu64, entry->number);
        assert_true(!why || strcmp(why->bytes, reason.bytes) == 0);
        with_flows += flows != NULL;
        with_reason += why != NULL;
    }
    assert_int_equal(with_flows, 400 / PCCL_TELEMETRY_FLOWS_MAX);
    assert_int_equal(with_reason, PCCL_RECORDER_REASONS);
    assert_non_null(pccl_recorder_flows(recorder, pccl_recorder_find(recorder, 100)));
    pccl_recorder_destroy(recorder);
}

TEST_IN(test_copy_has_room_for_what_is_under_way, set_up, tear_down)
{
    struct pccl_recorder *recorder = pccl_recorder_create(memory(), 4);
    struct pccl_text reason;
    for (uint64_t number = 1; number <= 6; number++)
        add_flows(recorder, add(recorder, number, 3), 2);
    pccl_text_format(&reason, "why");
    pccl_recorder_add_reason(recorder, pccl_recorder_find(recorder, 5), &reason);
    struct pccl_recorder *copy = pccl_recorder_copy(recorder, memory(), 50, 50 * 30);
    for (uint64_t number = 7; number <= 56; number++) {
        struct pccl_recorder_entry *entry = add(copy, number, 30);
        entry->state = PCCL_TELEMETRY_MOVING;
        add_flows(copy, entry, PCCL_TELEMETRY_FLOWS_MAX);
    }
    assert_int_equal(pccl_recorder_kept(copy), 54);
    for (uint32_t i = 0; i < 54; i++) {
        const struct pccl_recorder_entry *entry = pccl_recorder_at(copy, i);
        assert_int_equal(entry->number, i + 3);
        assert_non_null(pccl_recorder_members(copy, entry));
        assert_int_equal(pccl_recorder_flows(copy, entry)[1].counters.bytes, entry->number);
        assert_true((pccl_recorder_reason(copy, entry) != NULL) == (entry->number == 5));
    }
    pccl_recorder_destroy(copy);
    pccl_recorder_destroy(recorder);
}

TEST_IN(test_attempts, set_up, tear_down)
{
    struct pccl_recorder *recorder = pccl_recorder_create(memory(), 8);
    const bool failed[] = {true, true, false, true, false};
    const uint32_t attempt[] = {1, 2, 3, 1, 2};
    for (uint32_t i = 0; i < PCCL_COUNT_OF(failed); i++) {
        add(recorder, i + 1, 2)->class = failed[i] ? PCCL_CLASS_PEER_LOST : PCCL_CLASS_NONE;
        if (i == 2)
            add(recorder, 100, 2)->instance.tag = 8; /* another one */
    }
    pccl_recorder_count_attempts(recorder);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(failed); i++)
        assert_int_equal(pccl_recorder_find(recorder, i + 1)->attempt, attempt[i]);
    assert_int_equal(pccl_recorder_find(recorder, 100)->attempt, 1);
    pccl_recorder_destroy(recorder);
}

TEST_IN(test_memory_is_short, set_up, tear_down)
{
    for (pool.fail_at = 1; pool.fail_at <= 5; pool.fail_at++) {
        pool.requests = 0;
        assert_null(pccl_recorder_create(memory(), 4));
        assert_int_equal(pool.live_blocks, 0);
    }
    pool.fail_at = 0;
}

/* ---- which member waits for which ---- */

/* Checks the reason and the start of a wait. */
static void expect_wait(const struct pccl_recorder_entry *entry, const struct pccl_telemetry_flow *flow,
                        enum pccl_telemetry_wait wait, uint64_t since_us)
{
    struct pccl_telemetry_counters counters = pccl_telemetry_read(flow);
    uint64_t found_us;
    assert_int_equal(pccl_recorder_entry_waits(entry, &counters, &found_us), wait);
    if (wait != PCCL_TELEMETRY_NOTHING)
        assert_int_equal(found_us, since_us);
}

TEST_IN(test_waiting_to_send, set_up, tear_down)
{
    struct pccl_recorder_entry entry = {.entered_us = 10, .state = PCCL_TELEMETRY_MOVING};
    struct pccl_telemetry_flow flow;
    memset(&flow, 0, sizeof flow);
    pccl_telemetry_open(&flow, 1, true, 1);
    pccl_telemetry_expect(&flow, 0, 1, 11);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_READY, 10);
    pccl_telemetry_grant(&flow, 1, 20);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_NOTHING, 0); /* it is this peer's turn */
    pccl_telemetry_begin_sending(&flow, 30);
    PCCL_TELEMETRY_SET(flow.begun_stripes, 1);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_ROOM, 30);
    pccl_telemetry_sent(&flow, 64, 50);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_NOTHING, 0);
    pccl_telemetry_expect(&flow, 1, 1, 55);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_CREDIT, 50);
    pccl_telemetry_grant(&flow, 2, 60);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_NOTHING, 0);
    struct pccl_telemetry_counters counters = pccl_telemetry_read(&flow);
    assert_int_equal(counters.waited_us, 20);
    assert_int_equal(counters.bytes, 64);
    assert_int_equal(counters.first_us, 30);
    assert_int_equal(counters.last_us, 50);
    entry.state = PCCL_TELEMETRY_ENDED;
    expect_wait(&entry, &flow, PCCL_TELEMETRY_NOTHING, 0);
}

TEST_IN(test_waiting_for_data, set_up, tear_down)
{
    struct pccl_recorder_entry entry = {.entered_us = 10, .state = PCCL_TELEMETRY_MOVING};
    struct pccl_telemetry_flow flow;
    memset(&flow, 0, sizeof flow);
    pccl_telemetry_open(&flow, 1, false, 1);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_NOTHING, 0);
    pccl_telemetry_expect(&flow, 0, 2, 15);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_DATA, 15);
    pccl_telemetry_begin_receiving(&flow, 40);
    pccl_telemetry_received(&flow, 8, 41);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_DATA, 41);
    pccl_telemetry_begin_receiving(&flow, 61);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_DATA, 41); /* in the middle of a message */
    pccl_telemetry_received(&flow, 8, 62);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_NOTHING, 0);
    pccl_telemetry_expect(&flow, 1, 1, 100);
    expect_wait(&entry, &flow, PCCL_TELEMETRY_DATA, 100); /* not since before it was expected */
    assert_int_equal(pccl_telemetry_read(&flow).waited_us, 25 + 20);
    assert_int_equal(pccl_telemetry_read(&flow).moved, 2);
    entry.state = PCCL_TELEMETRY_FAILED;
    expect_wait(&entry, &flow, PCCL_TELEMETRY_NOTHING, 0);
}

/* ---- JSON ---- */

static void expect_json(const struct pccl_print *print, const char *text)
{
    assert_int_equal(print->length, strlen(text));
    assert_memory_equal(print->bytes, text, print->length);
}

TEST_IN(test_json, set_up, tear_down)
{
    char bytes[256];
    struct pccl_print print;
    struct pccl_json json = {.print = &print, .depth = 3};
    pccl_print_into(&print, bytes, sizeof bytes);
    pccl_json_open(&json, NULL, '{');
    pccl_json_string(&json, "a", "say \"no\"\\\n\x01\xff\xc3\xa4");
    pccl_json_number(&json, "b", 0);
    pccl_json_number(&json, "c", UINT64_MAX);
    pccl_json_open(&json, "d", '[');
    pccl_json_bool(&json, NULL, true);
    pccl_json_null(&json, NULL);
    pccl_json_close(&json, ']');
    pccl_json_open(&json, "e", '[');
    pccl_json_close(&json, ']');
    pccl_json_id(&json, "f", &(struct pccl_id){.bytes = {0xab, 1}});
    pccl_json_close(&json, '}');
    expect_json(&print, "{\"a\":\"say \\\"no\\\"\\\\\\n??\xc3\xa4\",\"b\":0,\"c\":18446744073709551615,"
                        "\"d\":[true,null],\"e\":[],\"f\":\"ab010000000000000000000000000000\"}");
}

/* ---- a whole dump ---- */

static struct pccl_telemetry_dump make_dump(struct pccl_recorder *recorder)
{
    struct pccl_telemetry_dump dump = {.process = 1,
                                       .now_us = 90000,
                                       .wall_us = UINT64_C(1709210096789012), /* 2024-02-29, 12:34:56.789012 */
                                       .recorder = recorder};
    pccl_text_format(&dump.waits, "a \"quoted\" word");
    return dump;
}

TEST_IN(test_dump_is_bounded, set_up, tear_down)
{
    struct pccl_recorder *recorder = pccl_recorder_create(memory(), 8);
    for (uint64_t number = 1; number <= 8; number++)
        add_flows(recorder, add(recorder, number, 3), 4);
    struct pccl_telemetry_dump dump = make_dump(recorder);
    size_t needed = pccl_telemetry_write(&dump, NULL, 0);
    char *text = malloc(needed + 8);
    assert_non_null(text);
    for (size_t size = 0; size <= needed; size += size < 64 ? 1 : 97) {
        memset(text, 'x', needed + 8);
        assert_int_equal(pccl_telemetry_write(&dump, text, size), needed);
        assert_int_equal(text[size], 'x');
        assert_true(size == 0 || text[size - 1] == '\0');
    }
    assert_int_equal(pccl_telemetry_write(&dump, text, needed), needed);
    assert_int_equal(strlen(text), needed - 1);
    assert_non_null(strstr(text, "\"time\":\"2024-02-29T12:34:56.789012Z\""));
    assert_non_null(strstr(text, "\"entered\":\"2024-02-29T12:34:56.700012Z\"")); /* the first one, 89 ms before */
    assert_non_null(strstr(text, "\"waits\":\"a \\\"quoted\\\" word\""));
    assert_non_null(strstr(text, "\"ended_us\":500"));
    assert_non_null(strstr(text, "\"first_byte_us\":null"));
    free(text);
    pccl_recorder_destroy(recorder);
}

TEST_IN(test_dates, set_up, tear_down)
{
    static const struct {
        uint64_t seconds;
        const char *text;
    } cases[] = {{0, "1970-01-01T00:00:00"},
                 {951782400, "2000-02-29T00:00:00"},
                 {951868799, "2000-02-29T23:59:59"},
                 {1798761599, "2026-12-31T23:59:59"},
                 {4107542400, "2100-03-01T00:00:00"}};
    struct pccl_recorder *recorder = pccl_recorder_create(memory(), 1);
    struct pccl_telemetry_dump dump = make_dump(recorder);
    for (size_t i = 0; i < PCCL_COUNT_OF(cases); i++) {
        char text[4096];
        dump.wall_us = cases[i].seconds * 1000000;
        assert_true(pccl_telemetry_write(&dump, text, sizeof text) < sizeof text);
        assert_non_null(strstr(text, cases[i].text));
    }
    pccl_recorder_destroy(recorder);
}
