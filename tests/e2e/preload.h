/* For libraries that LD_PRELOAD puts before others: a seeded generator, and the functions that theirs hide. */
#ifndef PCCL_TESTS_PRELOAD_H
#define PCCL_TESTS_PRELOAD_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

static atomic_uint_fast64_t state; /* the seed at first */

/* splitmix64 */
static uint64_t draw(void)
{
    uint64_t z = atomic_fetch_add(&state, UINT64_C(0x9e3779b97f4a7c15)) + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void *next(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL)
        abort();
    return function;
}

/* The function that is hidden by ours: a pointer to it, out of one to an object, for which ISO C has no cast. */
#define REAL(name)                                                                                                     \
    union {                                                                                                            \
        void *object;                                                                                                  \
        __typeof__(name) *call;                                                                                        \
    } real = {next(#name)}

#endif
