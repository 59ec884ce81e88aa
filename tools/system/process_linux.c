#include "process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

void process_name_thread(const char *name) { (void)prctl(PR_SET_NAME, name); }

void process_end_with_parent(void) { (void)prctl(PR_SET_PDEATHSIG, SIGKILL); }

double process_cpu_of_s(long process)
{
    clockid_t clock;
    struct timespec time = {0};
    if (process <= 0 || clock_getcpuclockid((pid_t)process, &clock) != 0 || clock_gettime(clock, &time) != 0)
        return 0;
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
