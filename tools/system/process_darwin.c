#include "process.h"

#include <libproc.h>
#include <mach/mach_time.h>
#include <pthread.h>
#include <sys/resource.h>

void process_name_thread(const char *name) { (void)pthread_setname_np(name); }

void process_end_with_parent(void) {}

double process_cpu_of_s(long process)
{
    struct rusage_info_v0 usage;
    mach_timebase_info_data_t unit; /* of the times, as a fraction of a nanosecond */
    if (process <= 0 || proc_pid_rusage((int)process, RUSAGE_INFO_V0, (rusage_info_t *)&usage) != 0 ||
        mach_timebase_info(&unit) != KERN_SUCCESS)
        return 0;
    return 1e-9 * (double)(usage.ri_user_time + usage.ri_system_time) * unit.numer / unit.denom;
}
