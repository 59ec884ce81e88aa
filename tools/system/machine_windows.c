#include "machine.h"

#include <windows.h>

/* The system has neither limit. */
bool machine_file_limit(uint64_t *soft, uint64_t *hard)
{
    *soft = *hard = UINT64_MAX;
    return false;
}

bool machine_locked_limit(uint64_t *bytes)
{
    *bytes = UINT64_MAX;
    return false;
}

enum machine_clock machine_clock(void) { return MACHINE_CLOCK_UNKNOWN; }

double machine_time_s(void)
{
    const double unix_s = 11644473600.0; /* from the system's epoch, 1601, to 1970 */
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    return 1e-7 * (double)(((uint64_t)now.dwHighDateTime << 32) + now.dwLowDateTime) - unix_s;
}

uint32_t machine_path_mtu(uv_os_sock_t socket, bool is_v6)
{
    (void)socket;
    (void)is_v6;
    return 0;
}
