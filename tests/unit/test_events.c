/* The event log of a master: ops/events.h. */
#include "unit.h"
#include "ops/events.h"
#include "net/clock.h"
#include "net/heap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct pccl_id peer = {{0xab, 0xcd, 1, 2, 3}};

/* A log with its loop, in a new directory. */
struct world {
    uv_loop_t loop;
    struct pccl_events events;
    char directory[32], path[64];
};

static void open_log(struct world *world)
{
    assert_int_equal(uv_loop_init(&world->loop), 0);
    pccl_events_open(&world->events, pccl_heap(), &world->loop, world->directory, "1.2.3", 1);
}

static void begin(struct world *world, bool saves)
{
    (void)snprintf(world->directory, sizeof world->directory, "/tmp/pccl-events-XXXXXX");
    assert_non_null(mkdtemp(world->directory));
    (void)snprintf(world->path, sizeof world->path, "%s/events.jsonl", world->directory);
    if (!saves) {
        assert_int_equal(rmdir(world->directory), 0);
        world->directory[0] = '\0';
    }
    open_log(world);
}

static void close_log(struct world *world)
{
    pccl_events_close(&world->events, "ended", 1);
    assert_int_equal(uv_run(&world->loop, UV_RUN_DEFAULT), 0);
    pccl_events_end(&world->events);
    assert_int_equal(uv_loop_close(&world->loop), 0);
}

/* As after the master was killed: nothing more is written. */
static void kill_log(struct world *world)
{
    world->events.path[0] = '\0';
    close_log(world);
}

static void end(struct world *world)
{
    close_log(world);
    if (world->directory[0] == '\0')
        return;
    (void)unlink(world->path);
    assert_int_equal(rmdir(world->directory), 0); /* no other file is left */
}

static void note(struct world *world, enum pccl_log_event kind, const char *text, uint64_t now_us)
{
    pccl_events_note(&world->events, &(struct pccl_log_fields){.event = kind, .peer = &peer, .name = "n\"a\\b"}, text,
                     now_us);
}

static bool is_saved(const struct pccl_events *events)
{
    return !events->save && !events->replaces && events->saved == events->length;
}

/* Runs the loop until everything is saved, or until a failure. */
static void save(struct world *world)
{
    while (!is_saved(&world->events) && !world->events.told)
        (void)uv_run(&world->loop, UV_RUN_ONCE);
}

/* Reads the file. Checks that its lines are events with increasing numbers, and returns how many there are. */
static uint32_t count_lines(const struct world *world, struct pccl_event *last)
{
    static char text[PCCL_EVENTS_BYTES_MAX + 1];
    struct pccl_event event;
    uint64_t before = 0;
    uint32_t count = 0;
    FILE *file = fopen(world->path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text, file);
    assert_int_equal(fclose(file), 0);
    assert_true(length < sizeof text);
    for (size_t at = 0; at < length; count++) {
        const char *stop = memchr(text + at, '\n', length - at);
        assert_non_null(stop);
        assert_true(pccl_event_read(text + at, (size_t)(stop - text) - at, &event));
        assert_true(event.number > before);
        before = event.number;
        at = (size_t)(stop - text) + 1;
    }
    if (last)
        *last = event;
    return count;
}

static struct pccl_event event_at(const struct pccl_events *events, uint32_t index)
{
    struct pccl_event event;
    assert_true(index < events->count);
    const struct pccl_event_entry *entry = &events->entries[index];
    assert_true(pccl_event_read(events->lines + entry->at, entry->length, &event));
    assert_int_equal(event.number, entry->number);
    assert_int_equal(event.kind, entry->kind);
    assert_int_equal(events->lines[entry->at + entry->length], '\n');
    return event;
}

static uint32_t count_of(const struct pccl_events *events, enum pccl_log_event kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < events->count; i++)
        count += event_at(events, i).kind == kind;
    return count;
}

static const char *answer(const struct pccl_events *events, const char *query, bool json)
{
    static char bytes[1 << 20];
    struct pccl_print print;
    struct pccl_text reason;
    pccl_print_into(&print, bytes, sizeof bytes - 1);
    enum pccl_status status = pccl_events_answer(events, query, strlen(query), json, &print, &reason);
    if (status != PCCL_OK) {
        assert_non_null(strstr(reason.bytes, "most: 1 to 1000"));
        return NULL;
    }
    assert_true(print.length < sizeof bytes);
    bytes[print.length] = '\0';
    return bytes;
}

TEST(test_lines)
{
    struct pccl_event event = {.number = 7, .ms = 1796132223530, .kind = PCCL_EVENT_JOINED, .peer = peer, .omitted = 3};
    struct pccl_event again;
    char line[2048], damaged[2048], again_line[2048];
    struct pccl_print print, again_print;
    (void)snprintf(event.name, sizeof event.name, "q\"\\u\xc3\xa9");
    pccl_text_format(&event.text, "peer \"x\\\" joined");
    pccl_print_into(&print, line, sizeof line);
    pccl_event_write(&event, &print);
    assert_true(pccl_event_read(line, print.length, &again));
    assert_int_equal(again.number, 7);
    assert_int_equal(again.ms, event.ms);
    assert_int_equal(again.kind, PCCL_EVENT_JOINED);
    assert_int_equal(again.omitted, 3);
    assert_true(pccl_id_equal(&again.peer, &peer));
    assert_string_equal(again.name, event.name);
    assert_string_equal(again.text.bytes, event.text.bytes);
    for (uint32_t length = 0; length < print.length; length++)
        assert_false(pccl_event_read(line, length, &again));
    memcpy(damaged, line, print.length);
    for (uint32_t i = 0; i < print.length; i++) { /* whatever is read can be written and read again */
        damaged[i] = '\x01';
        if (pccl_event_read(damaged, print.length, &event)) {
            pccl_print_into(&again_print, again_line, sizeof again_line);
            pccl_event_write(&event, &again_print);
            assert_true(pccl_event_read(again_line, again_print.length, &again));
        }
        damaged[i] = line[i];
    }
}

TEST(test_longest_line)
{
    struct world world;
    char text[PCCL_REASON_MAX + 1], name[PCCL_NAME_MAX + 1];
    memset(text, '"', sizeof text - 1);
    memset(name, '\\', sizeof name - 1);
    text[sizeof text - 1] = name[sizeof name - 1] = '\0';
    begin(&world, false);
    pccl_events_note(&world.events,
                     &(struct pccl_log_fields){.event = PCCL_EVENT_JOINED, .peer = &peer, .name = name, .reason = "r"},
                     text, 1);
    struct pccl_event event = event_at(&world.events, 1);
    assert_string_equal(event.text.bytes, text);
    assert_string_equal(event.name, name);
    end(&world);
}

TEST(test_answers)
{
    struct world world;
    begin(&world, false);
    for (int i = 0; i < 5; i++)
        note(&world, PCCL_EVENT_LEFT, "it left", 1);
    pccl_events_note(&world.events, &(struct pccl_log_fields){.cause = PCCL_LOG_CAUSE_RUN}, "not an event", 1);
    assert_null(strstr(answer(&world.events, "", true), "not an event"));
    assert_non_null(strstr(answer(&world.events, "", true), "\"newest\":6"));
    const char *said = answer(&world.events, "since=1&most=2", true);
    assert_non_null(strstr(said, "{\"number\":2,"));
    assert_non_null(strstr(said, "{\"number\":3,"));
    assert_null(strstr(said, "{\"number\":1,"));
    assert_non_null(strstr(said, "\"next\":3,\"more\":true}\n"));
    assert_non_null(strstr(answer(&world.events, "most=2", true), "\"next\":6,\"more\":false}"));
    assert_null(strstr(answer(&world.events, "most=2", true), "{\"number\":4,"));
    assert_non_null(strstr(answer(&world.events, "since=6", true), "\"events\":[\n],\"next\":6,\"more\":false}"));
    assert_non_null(strstr(answer(&world.events, "since=999999999999999999", true), "\"events\":[\n],"));
    assert_non_null(
        strstr(answer(&world.events, "most=1000&since=0", false), "master started   master 1.2.3 started\n"));
    assert_string_equal(answer(&world.events, "since=6", false), "no events\n");
    static const char *const wrong[] = {"x",          "since",           "since=",         "since=-1",
                                        "since=1x",   "&since=1",        "most=0",         "most=1001",
                                        "most=",      "since=1&since=1", "since=1;most=2", "since=1234567890123456789",
                                        "most=1&x=1", "since=%31"};
    for (size_t i = 0; i < PCCL_COUNT_OF(wrong); i++)
        assert_null(answer(&world.events, wrong[i], i % 2 == 0));
    end(&world);
}

/* Beyond the limit of a minute events are counted, and other kinds are not affected. */
TEST(test_storm)
{
    struct world world;
    begin(&world, false);
    for (int i = 0; i < 2500; i++)
        note(&world, PCCL_EVENT_JOINED, "joined", 1000 + i);
    assert_int_equal(count_of(&world.events, PCCL_EVENT_JOINED), 1000);
    note(&world, PCCL_EVENT_LOST, "lost", 4000);
    assert_int_equal(count_of(&world.events, PCCL_EVENT_LOST), 1);
    note(&world, PCCL_EVENT_JOINED, "joined", 999 + PCCL_EVENTS_MINUTE_US);
    assert_int_equal(count_of(&world.events, PCCL_EVENT_JOINED), 1000);
    note(&world, PCCL_EVENT_JOINED, "joined later", 1000 + PCCL_EVENTS_MINUTE_US);
    struct pccl_event last = event_at(&world.events, world.events.count - 1);
    struct pccl_event before = event_at(&world.events, world.events.count - 2);
    assert_string_equal(last.text.bytes, "joined later");
    assert_int_equal(last.omitted, 0);
    assert_int_equal(before.omitted, 1501);
    assert_true(pccl_id_is_zero(&before.peer));
    end(&world);
}

/* A full log removes the oldest events of the frequent kinds only. */
TEST(test_limit_of_events)
{
    struct world world;
    uint64_t now_us = 1;
    begin(&world, false);
    note(&world, PCCL_EVENT_VERDICT_BEGAN, "slow", now_us);
    while (world.events.last < 25000) {
        note(&world, PCCL_EVENT_JOINED, "joined", now_us);
        note(&world, PCCL_EVENT_LOST, "lost", now_us);
        now_us += PCCL_EVENTS_MINUTE_US;
        assert_true(world.events.count <= PCCL_EVENTS_MAX);
    }
    assert_int_equal(event_at(&world.events, 0).kind, PCCL_EVENT_MASTER_STARTED);
    assert_int_equal(event_at(&world.events, 1).kind, PCCL_EVENT_VERDICT_BEGAN);
    assert_true(world.events.count >= PCCL_EVENTS_MAX / 2);
    uint32_t joined = count_of(&world.events, PCCL_EVENT_JOINED), lost = count_of(&world.events, PCCL_EVENT_LOST);
    assert_int_equal(joined + lost + 2, world.events.count);
    assert_true(joined <= lost + 1 && lost <= joined + 1);
    for (uint32_t i = 3; i < world.events.count; i++) /* of the others, the newest are left */
        assert_int_equal(event_at(&world.events, i).number, event_at(&world.events, i - 1).number + 1);
    assert_int_equal(event_at(&world.events, world.events.count - 1).number, world.events.last);
    end(&world);
}

TEST(test_limit_of_bytes)
{
    struct world world;
    char text[PCCL_REASON_MAX + 1];
    uint64_t now_us = 1;
    memset(text, '"', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    begin(&world, true);
    while (world.events.last < 9000) {
        note(&world, PCCL_EVENT_JOINED, text, now_us += PCCL_EVENTS_MINUTE_US);
        assert_true(world.events.length <= PCCL_EVENTS_BYTES_MAX);
    }
    assert_true(world.events.count < 9000);
    save(&world);
    assert_int_equal(count_lines(&world, NULL), world.events.count);
    end(&world);
}

TEST(test_continues_after_a_restart)
{
    struct world world;
    struct stat status;
    struct pccl_event last;
    begin(&world, true);
    note(&world, PCCL_EVENT_JOINED, "joined", 1);
    save(&world);
    assert_int_equal(count_lines(&world, &last), 2);
    assert_string_equal(last.text.bytes, "joined");
    assert_string_equal(last.name, "n\"a\\b");
    assert_memory_equal(&last.peer, &peer, sizeof peer);
    assert_int_equal(stat(world.path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    note(&world, PCCL_EVENT_LEFT, "left", 1); /* appended */
    save(&world);
    assert_int_equal(count_lines(&world, NULL), 3);
    uint64_t boot = world.events.boot;
    kill_log(&world);

    open_log(&world);
    assert_true(world.events.boot != boot);
    assert_int_equal(world.events.count, 4);
    assert_string_equal(event_at(&world.events, 3).text.bytes,
                        "master 1.2.3 started; the previous one did not end normally");
    close_log(&world);
    assert_int_equal(count_lines(&world, &last), 5);
    assert_int_equal(last.kind, PCCL_EVENT_MASTER_ENDED);
    open_log(&world);
    assert_string_equal(event_at(&world.events, 5).text.bytes, "master 1.2.3 started");
    end(&world);
}

static void write_file(const char *path, const char *mode, const char *text)
{
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

TEST(test_damaged_files)
{
    static const char *const damage[] = {
        "{\"number\":9,\"ms\":1,\"kind\":\"joi",                                          /* a torn end */
        "garbage\n\n\x01\xff\n",                                                          /* */
        "{\"number\":1,\"ms\":1,\"kind\":\"joined\",\"text\":\"number out of order\"}\n", /* */
        "{\"number\":9,\"ms\":1,\"kind\":\"no such kind\",\"text\":\"\"}\n",              /* */
        "{\"number\":9,\"ms\":1,\"kind\":\"joined\",\"text\":\"\"}{}\n",                  /* */
        "{\"number\":99999999999999999999,\"ms\":1,\"kind\":\"joined\",\"text\":\"\"}\n"};
    for (size_t i = 0; i < PCCL_COUNT_OF(damage); i++) {
        struct world world;
        begin(&world, true);
        note(&world, PCCL_EVENT_JOINED, "joined", 1);
        save(&world);
        kill_log(&world);
        write_file(world.path, "a", damage[i]);
        open_log(&world);
        assert_int_equal(world.events.count, 3);
        assert_int_equal(world.events.last, 3);
        save(&world);
        assert_int_equal(count_lines(&world, NULL), 3);
        end(&world);
    }
}

TEST(test_empty_and_removed_files)
{
    struct world world;
    begin(&world, true);
    kill_log(&world);
    write_file(world.path, "w", "");
    open_log(&world);
    save(&world);
    assert_int_equal(count_lines(&world, NULL), 1);
    assert_int_equal(unlink(world.path), 0);
    note(&world, PCCL_EVENT_JOINED, "joined", 1);
    while (!world.events.told)
        (void)uv_run(&world.loop, UV_RUN_ONCE);
    close_log(&world); /* the next attempt writes everything */
    assert_int_equal(count_lines(&world, NULL), 3);
    open_log(&world);
    end(&world);
}

/* A file that cannot be read is not replaced. */
TEST(test_unreadable)
{
    struct world world;
    begin(&world, true);
    kill_log(&world);
    assert_int_equal(mkdir(world.path, 0700), 0);
    open_log(&world);
    assert_int_equal(world.events.count, 1);
    assert_int_equal(world.events.path[0], '\0');
    note(&world, PCCL_EVENT_JOINED, "joined", 1);
    close_log(&world);
    assert_int_equal(rmdir(world.path), 0);
    assert_int_equal(rmdir(world.directory), 0);
}

/* As on a full disk: a part of a line is written. The log continues in memory, and is saved when there is space. */
TEST(test_no_space)
{
    struct world world;
    struct rlimit before, less;
    begin(&world, true);
    save(&world);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    less = before;
    less.rlim_cur = world.events.length + 10;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    note(&world, PCCL_EVENT_JOINED, "joined", 1);
    while (!world.events.told)
        (void)uv_run(&world.loop, UV_RUN_ONCE);
    assert_true(world.events.retry_us > pccl_now_us());
    note(&world, PCCL_EVENT_LEFT, "left", 1);
    assert_int_equal(world.events.count, 3);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    struct world other = world; /* the next master reads a file with a torn end */
    open_log(&other);
    assert_int_equal(other.events.count, 2);
    kill_log(&other);
    close_log(&world);
    assert_int_equal(count_lines(&world, NULL), 4);
    assert_int_equal(unlink(world.path), 0);
    assert_int_equal(rmdir(world.directory), 0);
}
