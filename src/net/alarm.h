/*
 * A timer of a libuv loop that never fires early. If this process was suspended until long after
 * the due time, it could hear nobody meanwhile. Then the alarm waits one more turn of the loop, in
 * which pending input is read, which may set the alarm anew.
 */
#ifndef PCCL_NET_ALARM_H
#define PCCL_NET_ALARM_H

#include "net/clock.h"

#include <stdbool.h>

enum { PCCL_STILL_MS = 200 /* a timer that fires so late shows that the process was suspended */ };

struct pccl_alarm {
    uv_timer_t timer; /* its data belongs to the owner, who rings */
    void (*ring)(struct pccl_alarm *alarm);
    uint64_t due_us;
    bool postponed;
};

/* All of these on the loop's thread. data: the timer's. */
void pccl_alarm_init(struct pccl_alarm *alarm, uv_loop_t *loop, void (*ring)(struct pccl_alarm *alarm), void *data);
/*
 * Rings once, from the loop, at this time of pccl_now_us() or soon after; replaces what was set
 * before. UINT64_MAX: never.
 */
void pccl_alarm_set(struct pccl_alarm *alarm, uint64_t due_us);
bool pccl_alarm_is_set(const struct pccl_alarm *alarm);
void pccl_alarm_close(struct pccl_alarm *alarm, uv_close_cb closed);

#endif
