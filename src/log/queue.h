/*
 * Queue of lines for the user's callback. A separate thread delivers them one by one and in order, so that logging
 * never waits for a callback, which may block on a lock or never return.
 */
#ifndef PCCL_LOG_QUEUE_H
#define PCCL_LOG_QUEUE_H

#include "log/logger.h"

/* maximum number of lines; further lines are counted, and a line in their place reports the number */
enum { PCCL_LOG_QUEUE_MAX = 1000 };

/* Queues a copy of the line. Returns false if there is no callback. May be called from any thread. */
bool pccl_log_queue_put(enum pccl_log_level level, const char *subsystem, const char *message);
/*
 * Sets the callback. When this returns, the previous callback has received all earlier lines and will not run again.
 * Does not wait if called from a callback. NULL removes the callback and ends the thread.
 */
void pccl_log_queue_set(pcclLogCallback_t callback, void *user);
/* Waits until the callback has received all earlier lines, but no longer than this time. */
void pccl_log_queue_wait(uint32_t milliseconds);
/* Returns true if this thread runs the callback. */
bool pccl_log_queue_inside(void);

#endif
