/*
 * Alerts of a master: a command of the operator runs when a verdict begins or ends, when the run stalls or continues,
 * and when the master starts. One command runs at a time, as a child process with a limit of time; alerts wait in a
 * bounded queue, so neither a slow command nor many events delay the master or fill its memory. On the loop's thread.
 */
#ifndef PCCL_OPS_ALERTS_H
#define PCCL_OPS_ALERTS_H

#include "config/params.h"
#include "core/log.h"
#include "core/text.h"
#include "master/master.h"

#include <uv.h>

enum { PCCL_ALERTS_MAX = 16 };

struct pccl_alert {
    enum pccl_log_event kind;
    struct pccl_id peer, run; /* zero: none */
    char name[PCCL_NAME_MAX + 1];
    uint64_t ms;      /* milliseconds since 1970 */
    uint64_t dropped; /* number of alerts between the previous one and this one that found no room */
    struct pccl_text text;
};

struct pccl_alerts {
    /* set by the owner */
    char command[PCCL_PARAM_BYTES_MAX + 1]; /* empty: none */
    uint32_t limit_s;                       /* time limit of the command */
    uint32_t stall_s; /* time without the end of an operation after which the run counts as stalled; 0: never */
    struct pccl_master_counts (*counts)(void *context);
    void (*log)(void *context, enum pccl_log_level level, const char *line, const struct pccl_log_fields *fields);
    void *context;
    /* private */
    uv_loop_t *loop; /* NULL: not open; all calls are then allowed and do nothing */
    struct pccl_alert queue[PCCL_ALERTS_MAX];
    uint32_t count;
    uint64_t dropped;
    uv_process_t process;
    bool holds_process; /* true until libuv has released the process of the last command */
    bool runs, late;    /* late: it was ended at its limit */
    uint64_t started_us;
    uv_timer_t timer;
    struct pccl_id run; /* zero: none */
    uint32_t members;   /* at the last comparison, as the next one */
    uint64_t ended;     /* number of operations that had ended */
    uint64_t moved_us;  /* time at which an operation last ended, or the run got its first member */
    bool stalled;
};

/* Begins. The struct must not move until the loop has released its handles. */
void pccl_alerts_open(struct pccl_alerts *alerts, uv_loop_t *loop, uint64_t now_us);
/* Alerts if the fields have a kind for which the operator gets an alert. */
void pccl_alerts_note(struct pccl_alerts *alerts, const struct pccl_log_fields *fields, const char *text);
/* Compares the run with its last state, to find whether it is stalled; the timer does so. A run that ends does not
 * continue. */
void pccl_alerts_look(struct pccl_alerts *alerts, uint64_t now_us);
/* Ends, with the command that is running. */
void pccl_alerts_close(struct pccl_alerts *alerts);

#endif
