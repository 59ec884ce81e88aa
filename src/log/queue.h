/*
 * Queue of lines for the user's callback. A separate thread delivers them, one at a time and in order, so that logging
 * never waits for a callback: it may need a lock that is held for long, or never return.
 */
#ifndef PCCL_LOG_QUEUE_H
#define PCCL_LOG_QUEUE_H

#include "log/logger.h"

enum { PCCL_LOG_QUEUE_MAX = 1000 }; /* lines; further ones are counted, and reported in a line in their place */

/* Queues a copy of the line. Returns false if there is no callback. Any thread. */
bool pccl_log_queue_put(enum pccl_log_level level, const char *subsystem, const char *message);
/*
 * Sets the callback. Earlier lines are delivered to the previous callback, which neither runs nor will run when this
 * returns; unless it is called by a callback, then it does not wait. NULL: no callback, and no thread when this
 * returns.
 */
void pccl_log_queue_set(pcclLogCallback_t callback, void *user);
/* Waits until the callback has received all earlier lines, at most for this time. */
void pccl_log_queue_wait(uint32_t milliseconds);
/* Returns true if this thread runs the callback. */
bool pccl_log_queue_inside(void);

#endif
