/*
 * Lines on their way to the user's callback. A thread of its own hands them over, one at a time and in their order, so
 * that whoever logs never waits for what a callback does: it may want a lock that is held for long, or never return.
 */
#ifndef PCCL_LOG_QUEUE_H
#define PCCL_LOG_QUEUE_H

#include "log/logger.h"

enum { PCCL_LOG_QUEUE_MAX = 1000 }; /* lines; what does not fit is counted, and told in a line where it is missing */

/* Any thread. Copies the line. false: there is no callback, and nothing was done. */
bool pccl_log_queue_put(enum pccl_log_level level, const char *subsystem, const char *message);
/*
 * Lines that were put before go to the previous callback, which neither runs nor will run when this returns; unless it
 * is called by a callback, then it does not wait. NULL: no callback, and when this returns no thread.
 */
void pccl_log_queue_set(pcclLogCallback_t callback, void *user);
/* Waits until the callback has had all lines that were put before, but not for longer than this. */
void pccl_log_queue_wait(uint32_t milliseconds);
/* Does this thread run the callback? */
bool pccl_log_queue_inside(void);

#endif
