/* Signals for the main thread of a program that has other threads. */
#ifndef PCCL_TOOLS_SYSTEM_SIGNALS_H
#define PCCL_TOOLS_SYSTEM_SIGNALS_H

enum signals_event { SIGNALS_TIMEOUT, SIGNALS_WOKEN, SIGNALS_INTERRUPT, SIGNALS_TERMINATE, SIGNALS_RELOAD };

/* Keeps signals for signals_wait. Called by the main thread before there are others. */
void signals_hold(void);
/* Waits for the next event, on the main thread. limit_ms: -1 for none. */
enum signals_event signals_wait(int limit_ms);
/* Causes SIGNALS_WOKEN. Any thread. */
void signals_wake(void);
/* Lets a write to a broken pipe fail in place of ending the process. */
void signals_ignore_broken_pipes(void);

#endif
