/*
 * Something that is due at a time, in a libuv loop. It never rings early. If this process stood still until long after
 * the time, nobody could be heard meanwhile: then the alarm waits for another moment, in which what has come is read,
 * and which may set it anew.
 */
#ifndef PCCL_NET_ALARM_H
#define PCCL_NET_ALARM_H

#include "net/clock.h"

#include <stdbool.h>

enum { PCCL_STILL_MS = 200 /* whoever looks so late has stood still */ };

struct pccl_alarm {
    uv_timer_t timer; /* its data belongs to whoever rings */
    void (*ring)(struct pccl_alarm *alarm);
    uint64_t due_us;
    bool postponed;
};

/* Thread of the loop, all of these. data: of the timer. */
void pccl_alarm_init(struct pccl_alarm *alarm, uv_loop_t *loop, void (*ring)(struct pccl_alarm *alarm), void *data);
/* Once, from the loop, at that time of pccl_now_us() or soon after; when it was set to before no longer counts.
 * UINT64_MAX: never. */
void pccl_alarm_set(struct pccl_alarm *alarm, uint64_t due_us);
bool pccl_alarm_is_set(const struct pccl_alarm *alarm);
void pccl_alarm_close(struct pccl_alarm *alarm, uv_close_cb closed);

#endif
