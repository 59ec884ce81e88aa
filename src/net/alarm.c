#include "net/alarm.h"

#include "core/base.h"

static void on_timer(uv_timer_t *timer);

static void start(struct pccl_alarm *alarm, uint64_t due_us)
{
    uint64_t now_us = pccl_now_us(), left_us = due_us > now_us ? due_us - now_us : 0;
    alarm->due_us = now_us + left_us;
    uv_update_time(alarm->timer.loop);
    /* Can only fail for a closing handle. */
    (void)uv_timer_start(&alarm->timer, on_timer, (left_us + 999) / 1000, 0);
}

static bool is_late(const struct pccl_alarm *alarm) { return uv_is_active((const uv_handle_t *)&alarm->polled) != 0; }

static void on_polled(uv_check_t *polled)
{
    struct pccl_alarm *alarm = PCCL_CONTAINER_OF(polled, struct pccl_alarm, polled);
    pccl_alarm_set(alarm, UINT64_MAX);
    alarm->ring(alarm);
}

static void on_timer(uv_timer_t *timer)
{
    struct pccl_alarm *alarm = (struct pccl_alarm *)timer; /* the timer is the first member of the alarm */
    uint64_t now_us = pccl_now_us();
    if (now_us < alarm->due_us) { /* the loop's clock has milliseconds */
        start(alarm, alarm->due_us);
    } else if (is_late(alarm) || now_us > alarm->due_us + PCCL_STILL_MS * UINT64_C(1000)) {
        (void)uv_check_start(&alarm->polled, on_polled);
        /* Keeps the poll from blocking, even if other timers of this iteration take longer. */
        start(alarm, now_us + 1000);
    } else {
        alarm->ring(alarm);
    }
}

void pccl_alarm_init(struct pccl_alarm *alarm, uv_loop_t *loop, void (*ring)(struct pccl_alarm *alarm), void *data)
{
    /* These cannot fail. */
    (void)uv_timer_init(loop, &alarm->timer);
    (void)uv_check_init(loop, &alarm->polled);
    alarm->timer.data = alarm->polled.data = data;
    alarm->ring = ring;
}

void pccl_alarm_set(struct pccl_alarm *alarm, uint64_t due_us)
{
    bool is_unchanged = pccl_alarm_is_set(alarm) && !is_late(alarm) && alarm->due_us == due_us;
    if (is_unchanged)
        return;
    (void)uv_check_stop(&alarm->polled);
    if (due_us == UINT64_MAX)
        (void)uv_timer_stop(&alarm->timer);
    else
        start(alarm, due_us);
}

bool pccl_alarm_is_set(const struct pccl_alarm *alarm) { return uv_is_active((const uv_handle_t *)&alarm->timer) != 0; }

void pccl_alarm_close(struct pccl_alarm *alarm, uv_close_cb closed)
{
    uv_close((uv_handle_t *)&alarm->timer, closed);
    uv_close((uv_handle_t *)&alarm->polled, closed);
}
