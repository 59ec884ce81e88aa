/* Signals for the main thread of a program that also has other threads. */
#ifndef PCCL_TOOLS_SYSTEM_SIGNALS_H
#define PCCL_TOOLS_SYSTEM_SIGNALS_H

enum signals_event { SIGNALS_TIMEOUT, SIGNALS_WOKEN, SIGNALS_INTERRUPT, SIGNALS_TERMINATE, SIGNALS_RELOAD };

/* Blocks the signals for which signals_wait waits. Call on the main thread before starting others. */
void signals_hold(void);
/* Waits for the next event, on the main thread. limit_ms: -1 for no limit. */
enum signals_event signals_wait(int limit_ms);
/* Makes signals_wait return SIGNALS_WOKEN. May be called from any thread. */
void signals_wake(void);
/* Makes a write to a broken pipe fail instead of ending the process. */
void signals_ignore_broken_pipes(void);

#endif
