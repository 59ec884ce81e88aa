/*
 * A timer of a libuv loop that never fires early. If this process was suspended until long after the due time, it could
 * not receive anything. Then the alarm rings after the loop's next poll, in which pending input is read, unless that
 * sets the alarm again.
 */
#ifndef PCCL_NET_ALARM_H
#define PCCL_NET_ALARM_H

#include "net/clock.h"

#include <stdbool.h>

enum {
    PCCL_STILL_MS = 200, /* a timer that fires so late shows that the process was suspended */
    PCCL_ALARM_HANDLES = 2,
};

struct pccl_alarm {
    uv_timer_t timer;  /* its data belongs to the owner, who rings */
    uv_check_t polled; /* active: rings after the next poll; has the same data */
    void (*ring)(struct pccl_alarm *alarm);
    uint64_t due_us;
};

/* All of these on the loop's thread. data: the timer's. */
void pccl_alarm_init(struct pccl_alarm *alarm, uv_loop_t *loop, void (*ring)(struct pccl_alarm *alarm), void *data);
/*
 * Rings once, from the loop, at this time of pccl_now_us() or soon after; replaces what was set
 * before. UINT64_MAX: never.
 */
void pccl_alarm_set(struct pccl_alarm *alarm, uint64_t due_us);
bool pccl_alarm_is_set(const struct pccl_alarm *alarm);
/* Calls `closed` for each of PCCL_ALARM_HANDLES. */
void pccl_alarm_close(struct pccl_alarm *alarm, uv_close_cb closed);

#endif
