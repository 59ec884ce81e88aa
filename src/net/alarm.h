/*
 * A timer of a libuv loop that never fires early. If the process was suspended until long after the due time, input may
 * be waiting unread, so the alarm first lets the loop poll once and rings after that. It does not ring if its owner
 * sets it again during that poll.
 */
#ifndef PCCL_NET_ALARM_H
#define PCCL_NET_ALARM_H

#include "net/clock.h"

#include <stdbool.h>

enum {
    PCCL_STILL_MS = 200, /* lateness of a timer from which the process must have been suspended */
    PCCL_ALARM_HANDLES = 2,
};

struct pccl_alarm {
    uv_timer_t timer;  /* `data` belongs to the owner */
    uv_check_t polled; /* active while a late alarm waits for the next poll; has the same `data` */
    void (*ring)(struct pccl_alarm *alarm);
    uint64_t due_us;
};

/* Initializes an alarm. Sets the `data` of its handles. All functions run on the loop's thread. */
void pccl_alarm_init(struct pccl_alarm *alarm, uv_loop_t *loop, void (*ring)(struct pccl_alarm *alarm), void *data);
/*
 * Makes the alarm ring once, from the loop, at this time of pccl_now_us() or shortly after. Replaces the previous due
 * time. UINT64_MAX turns the alarm off.
 */
void pccl_alarm_set(struct pccl_alarm *alarm, uint64_t due_us);
bool pccl_alarm_is_set(const struct pccl_alarm *alarm);
/* Closes the alarm. Calls `closed` once for each of its PCCL_ALARM_HANDLES handles. */
void pccl_alarm_close(struct pccl_alarm *alarm, uv_close_cb closed);

#endif
