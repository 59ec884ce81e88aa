#include "holder.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the inode of the socket in this table that listens on the port, or 0. */
static unsigned long listening_inode(const char *table, uint16_t port)
{
    enum { LISTENING = 0x0A };
    unsigned long inode = 0;
    char line[512];
    FILE *file = fopen(table, "re");
    while (file != NULL && inode == 0 && fgets(line, sizeof line, file) != NULL) {
        unsigned local_port, state;
        unsigned long candidate;
        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*d %*d %lu", &local_port, &state,
                   &candidate) == 3 &&
            local_port == port && state == LISTENING)
            inode = candidate;
    }
    if (file != NULL)
        (void)fclose(file);
    return inode;
}

static bool has_socket(const char *pid, unsigned long inode)
{
    char folder[300], wanted[64];
    bool found = false;
    (void)snprintf(folder, sizeof folder, "/proc/%.32s/fd", pid);
    (void)snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *descriptors = opendir(folder);
    for (struct dirent *entry; descriptors != NULL && !found && (entry = readdir(descriptors)) != NULL;) {
        char target[64];
        ssize_t length = readlinkat(dirfd(descriptors), entry->d_name, target, sizeof target - 1);
        if (length < 0)
            continue;
        target[length] = '\0';
        found = strcmp(target, wanted) == 0;
    }
    if (descriptors != NULL)
        (void)closedir(descriptors);
    return found;
}

static void describe(const char *pid, char *out, size_t size)
{
    char path[64], name[64] = "a program";
    (void)snprintf(path, sizeof path, "/proc/%.32s/comm", pid);
    FILE *file = fopen(path, "re");
    if (file != NULL && fgets(name, sizeof name, file) != NULL)
        name[strcspn(name, "\n")] = '\0';
    if (file != NULL)
        (void)fclose(file);
    (void)snprintf(out, size, "%s (process %.32s)", name, pid);
}

bool holder_of_port(uint16_t port, char *out, size_t size)
{
    unsigned long inode = listening_inode("/proc/net/tcp", port);
    bool found = false;
    if (inode == 0)
        inode = listening_inode("/proc/net/tcp6", port);
    DIR *processes = inode != 0 ? opendir("/proc") : NULL;
    for (struct dirent *entry; processes != NULL && !found && (entry = readdir(processes)) != NULL;) {
        found = isdigit((unsigned char)entry->d_name[0]) && has_socket(entry->d_name, inode);
        if (found)
            describe(entry->d_name, out, size);
    }
    if (processes != NULL)
        (void)closedir(processes);
    return found;
}
