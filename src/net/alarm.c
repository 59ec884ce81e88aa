#include "net/alarm.h"

static void on_timer(uv_timer_t *timer);

static void start(struct pccl_alarm *alarm, uint64_t due_us)
{
    uint64_t now_us = pccl_now_us(), left_us = due_us > now_us ? due_us - now_us : 0;
    alarm->due_us = now_us + left_us;
    uv_update_time(alarm->timer.loop);
    /* Fails only for handles that are closing. */
    (void)uv_timer_start(&alarm->timer, on_timer, (left_us + 999) / 1000, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct pccl_alarm *alarm = (struct pccl_alarm *)timer; /* the timer is its first member */
    uint64_t now_us = pccl_now_us();
    if (now_us < alarm->due_us) { /* the loop counts in milliseconds */
        start(alarm, alarm->due_us);
    } else if (!alarm->postponed && now_us > alarm->due_us + PCCL_STILL_MS * UINT64_C(1000)) {
        alarm->postponed = true;
        start(alarm, now_us + 1000);
    } else {
        alarm->postponed = false;
        alarm->ring(alarm);
    }
}

void pccl_alarm_init(struct pccl_alarm *alarm, uv_loop_t *loop, void (*ring)(struct pccl_alarm *alarm), void *data)
{
    (void)uv_timer_init(loop, &alarm->timer); /* cannot fail */
    alarm->timer.data = data;
    alarm->ring = ring;
    alarm->postponed = false;
}

void pccl_alarm_set(struct pccl_alarm *alarm, uint64_t due_us)
{
    if (due_us == UINT64_MAX) {
        (void)uv_timer_stop(&alarm->timer);
    } else if (!pccl_alarm_is_set(alarm) || alarm->postponed || alarm->due_us != due_us) {
        alarm->postponed = false;
        start(alarm, due_us);
    }
}

bool pccl_alarm_is_set(const struct pccl_alarm *alarm) { return uv_is_active((const uv_handle_t *)&alarm->timer) != 0; }

void pccl_alarm_close(struct pccl_alarm *alarm, uv_close_cb closed) { uv_close((uv_handle_t *)&alarm->timer, closed); }
