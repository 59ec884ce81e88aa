/* Settings of this machine that limit its connections. */
#ifndef PCCL_TOOLS_SYSTEM_MACHINE_H
#define PCCL_TOOLS_SYSTEM_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* Set a limit of this process, UINT64_MAX for no limit. Return false if the system has no such limit. */
bool machine_file_limit(uint64_t *soft, uint64_t *hard); /* open files and connections */
bool machine_locked_limit(uint64_t *bytes);              /* memory that may be locked */

enum machine_clock { MACHINE_CLOCK_UNKNOWN, MACHINE_CLOCK_SYNCHRONIZED, MACHINE_CLOCK_FREE };
enum machine_clock machine_clock(void);
/* Returns the time of this machine's clock in seconds. */
double machine_time_s(void);

/* Returns the size of the largest packet on the path of a connection; 0: unknown. */
uint32_t machine_path_mtu(uv_os_sock_t socket, bool is_v6);

#endif
