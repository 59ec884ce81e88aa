#include "holder.h"

#include <winsock2.h>

#include <iphlpapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the process that listens on the port, or 0. */
static DWORD listening_process(uint16_t port)
{
    DWORD bytes = 0, process = 0;
    (void)GetExtendedTcpTable(NULL, &bytes, FALSE, AF_INET, TCP_TABLE_OWNER_PID_LISTENER, 0);
    MIB_TCPTABLE_OWNER_PID *table = malloc(bytes);
    if (table && GetExtendedTcpTable(table, &bytes, FALSE, AF_INET, TCP_TABLE_OWNER_PID_LISTENER, 0) == NO_ERROR)
        for (DWORD i = 0; i < table->dwNumEntries; i++)
            if (ntohs((uint16_t)table->table[i].dwLocalPort) == port)
                process = table->table[i].dwOwningPid;
    free(table);
    return process;
}

bool holder_of_port(uint16_t port, char *out, size_t size)
{
    char path[MAX_PATH] = "";
    DWORD length = sizeof path, process = listening_process(port);
    if (process == 0)
        return false;
    HANDLE opened = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, process);
    bool known = opened && QueryFullProcessImageNameA(opened, 0, path, &length);
    const char *name = strrchr(path, '\\');
    if (opened)
        (void)CloseHandle(opened);
    (void)snprintf(out, size, "%s (process %lu)", !known ? "a program" : name ? name + 1 : path, process);
    return true;
}
