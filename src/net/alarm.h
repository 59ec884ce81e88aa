/*
 * A timer of a libuv loop that never fires early. A process that was suspended until long after the due time could not
 * receive anything, so the alarm then rings only after the loop's next poll, which reads pending input. It does not
 * ring if the owner sets it again during that poll.
 */
#ifndef PCCL_NET_ALARM_H
#define PCCL_NET_ALARM_H

#include "net/clock.h"

#include <stdbool.h>

enum {
    PCCL_STILL_MS = 200, /* a timer that fires this late shows that the process was suspended */
    PCCL_ALARM_HANDLES = 2,
};

struct pccl_alarm {
    uv_timer_t timer;  /* its `data` belongs to the owner */
    uv_check_t polled; /* active while the alarm waits for the next poll before it rings; has the same `data` */
    void (*ring)(struct pccl_alarm *alarm);
    uint64_t due_us;
};

/* Initializes an alarm. `data` becomes the `data` of the timer. All functions run on the loop's thread. */
void pccl_alarm_init(struct pccl_alarm *alarm, uv_loop_t *loop, void (*ring)(struct pccl_alarm *alarm), void *data);
/*
 * Makes the alarm ring once, from the loop, at this time of pccl_now_us() or soon after; replaces the previous due
 * time. UINT64_MAX turns it off.
 */
void pccl_alarm_set(struct pccl_alarm *alarm, uint64_t due_us);
bool pccl_alarm_is_set(const struct pccl_alarm *alarm);
/* Closes the alarm. Calls `closed` once for each of its PCCL_ALARM_HANDLES handles. */
void pccl_alarm_close(struct pccl_alarm *alarm, uv_close_cb closed);

#endif
