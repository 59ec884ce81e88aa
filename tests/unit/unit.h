/*
 * The frame of a unit test program: cmocka and its headers, and tests that add themselves to the list, in the order of
 * the file. unit_main.c has the main of most programs.
 */
#ifndef PCCL_TESTS_UNIT_UNIT_H
#define PCCL_TESTS_UNIT_UNIT_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/prng.h"

/* Begins a function that runs before main. On every system they run in the order of their lines. */
#define UNIT_BEFORE_MAIN __attribute__((constructor(1000 + __LINE__))) static void

void unit_add(const struct CMUnitTest *test);

/*
 * Runs all, the tests before the first group between `setup` and `teardown`, either of which may be NULL. Returns the
 * number of failed tests.
 */
int unit_run(CMFixtureFunction setup, CMFixtureFunction teardown);

/* A test with a setup and a teardown, either of which may be NULL. */
#define TEST_IN(name, setup, teardown)                                                                                 \
    static void name(void **unit_state);                                                                               \
    UNIT_BEFORE_MAIN add_##name(void) { unit_add(&(struct CMUnitTest){#name, name, setup, teardown, NULL}); }          \
    static void name(__attribute__((unused)) void **unit_state)

#define TEST(name) TEST_IN(name, NULL, NULL)

void unit_begin_group(CMFixtureFunction setup, CMFixtureFunction teardown);

/* The tests that follow are one group with a setup and a teardown, either of which may be NULL. */
#define GROUP(setup, teardown) GROUP_AT(__LINE__, setup, teardown)
#define GROUP_AT(line, setup, teardown) GROUP_AT_LINE(line, setup, teardown)
#define GROUP_AT_LINE(line, setup, teardown)                                                                           \
    UNIT_BEFORE_MAIN begin_group_##line(void) { unit_begin_group(setup, teardown); }

/* Returns a generator of this seed. */
static inline struct pccl_prng unit_prng(uint64_t seed)
{
    struct pccl_prng prng;
    pccl_prng_seed(&prng, seed);
    return prng;
}

#endif
