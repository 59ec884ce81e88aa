/*
 * Shared by unit tests: the descriptors that this process has open, and its mappings of shared memory. Known on Linux
 * only; elsewhere nothing is held.
 */
#ifndef PCCL_TESTS_UNIT_BUFFERED_H
#define PCCL_TESTS_UNIT_BUFFERED_H

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct held {
    int descriptors, mappings;
    int memory; /* a descriptor of shared memory; -1: none */
};

static inline bool held_is_memory(const char *name)
{
    char path[300], target[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%s", name);
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = 0;
    return strstr(target, "memfd:") != NULL;
}

static inline struct held held_now(void)
{
    struct held held = {.memory = -1};
#ifdef __linux__
    char line[512];
    DIR *all = opendir("/proc/self/fd");
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_true(all && maps);
    for (const struct dirent *one = readdir(all); one; one = readdir(all)) {
        held.descriptors += one->d_name[0] != '.';
        if (held_is_memory(one->d_name))
            held.memory = (int)strtol(one->d_name, NULL, 10);
    }
    while (fgets(line, sizeof line, maps))
        held.mappings += strstr(line, "memfd:") != NULL;
    (void)fclose(maps);
    closedir(all);
#endif
    return held;
}

static inline void assert_held(struct held before)
{
    struct held now = held_now();
    assert_int_equal(now.descriptors, before.descriptors);
    assert_int_equal(now.mappings, before.mappings);
}

/* Waits until another thread has closed the unwanted descriptors. */
static inline void assert_held_soon(struct held before)
{
    while (held_now().descriptors > before.descriptors)
        sched_yield();
    assert_held(before);
}

#endif
