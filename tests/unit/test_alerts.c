/* ops/alerts: the queue of alerts while a command runs, and stalled runs. tests/e2e has the command. */
#include "unit.h"

#include "ops/alerts.h"

#include <stdio.h>

enum { EXTRA = 5 };

static struct pccl_master_counts counts;
static unsigned stalls, continued;

static struct pccl_master_counts counts_of(void *context) { return counts; }

static void take_line(void *context, enum pccl_log_level level, const char *line, const struct pccl_log_fields *fields)
{
    stalls += fields->event == PCCL_EVENT_STALLED;
    continued += fields->event == PCCL_EVENT_CONTINUED;
}

static void open_alerts(struct pccl_alerts *alerts, uv_loop_t *loop, const char *command, uint32_t stall_s)
{
    *alerts = (struct pccl_alerts){.limit_s = 10, .stall_s = stall_s, .counts = counts_of, .log = take_line};
    (void)snprintf(alerts->command, sizeof alerts->command, "%s", command);
    stalls = continued = 0;
    assert_int_equal(uv_loop_init(loop), 0);
    pccl_alerts_open(alerts, loop, 0);
}

static void close_alerts(struct pccl_alerts *alerts, uv_loop_t *loop)
{
    pccl_alerts_close(alerts);
    assert_int_equal(uv_run(loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(loop), 0);
}

static void note(struct pccl_alerts *alerts, enum pccl_log_event event, const char *text)
{
    pccl_alerts_note(alerts, &(struct pccl_log_fields){.event = event}, text);
}

/* Alerts that find no room are counted in the next one; other events cause no alert. */
TEST(the_queue_is_bounded)
{
    static struct pccl_alerts alerts;
    uv_loop_t loop;
    open_alerts(&alerts, &loop, "true", 0);
    assert_int_equal(alerts.count, 1); /* the start */
    note(&alerts, PCCL_EVENT_JOINED, "a peer");
    assert_int_equal(alerts.count, 1);
    for (unsigned i = 1; i < PCCL_ALERTS_MAX + EXTRA; i++)
        note(&alerts, PCCL_EVENT_VERDICT_BEGAN, "slow");
    assert_int_equal(alerts.count, PCCL_ALERTS_MAX);
    alerts.count--; /* as if a command had started */
    note(&alerts, PCCL_EVENT_VERDICT_BEGAN, "slow");
    assert_int_equal(alerts.queue[PCCL_ALERTS_MAX - 1].dropped, EXTRA);
    assert_string_equal(alerts.queue[PCCL_ALERTS_MAX - 1].text.bytes, "slow");
    close_alerts(&alerts, &loop);
}

/* Without a command nothing waits; without a command and a limit nothing runs. */
TEST(alerts_without_a_command)
{
    static struct pccl_alerts alerts;
    uv_loop_t loop;
    open_alerts(&alerts, &loop, "", 0);
    note(&alerts, PCCL_EVENT_VERDICT_BEGAN, "slow");
    assert_int_equal(alerts.count, 0);
    assert_false(uv_loop_alive(&loop));
    close_alerts(&alerts, &loop);
}

/* A run is stalled when no operation ends, but not while it has no members, and continues with the next end. */
TEST(stalled_runs)
{
    const uint64_t second_us = 1000000;
    static struct pccl_alerts alerts;
    uv_loop_t loop;
    open_alerts(&alerts, &loop, "", 10);
    counts = (struct pccl_master_counts){.members = 0};
    pccl_alerts_look(&alerts, 100 * second_us);
    counts.members = 3;
    pccl_alerts_look(&alerts, 200 * second_us);
    pccl_alerts_look(&alerts, 209 * second_us);
    assert_int_equal(stalls, 0);
    pccl_alerts_look(&alerts, 210 * second_us);
    pccl_alerts_look(&alerts, 300 * second_us);
    assert_int_equal(stalls, 1);
    assert_int_equal(continued, 0);
    counts.aborted++;
    pccl_alerts_look(&alerts, 301 * second_us);
    assert_int_equal(continued, 1);
    pccl_alerts_look(&alerts, 311 * second_us);
    assert_int_equal(stalls, 2);
    counts.members = 0; /* its end is no continuation */
    pccl_alerts_look(&alerts, 400 * second_us);
    assert_int_equal(continued, 1);
    close_alerts(&alerts, &loop);
}
