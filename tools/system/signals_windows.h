/* Events of the console and of the service manager on Windows. */
#ifndef PCCL_TOOLS_SYSTEM_SIGNALS_WINDOWS_H
#define PCCL_TOOLS_SYSTEM_SIGNALS_WINDOWS_H

#include "signals.h"

/* Makes signals_wait return the event. May be called from any thread, after signals_hold. */
void signals_raise(enum signals_event event);

#endif
