/*
 * Shared by unit tests: a memory that counts allocations, checks the sizes that callers pass and fails on demand; a
 * handler that aborts; the choice of random cases to run; and printing of figures.
 */
#ifndef PCCL_TESTS_SUPPORT_H
#define PCCL_TESTS_SUPPORT_H

#include "core/base.h"
#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_memory {
    struct pccl_memory memory; /* hand this to the code under test */
    uint64_t requests;         /* allocations and growths asked for */
    uint64_t fail_at;          /* this request fails (1: the next of a fresh memory); 0: none */
    bool fail_after;           /* and all after it */
    uint64_t failures;
    size_t live_bytes, live_blocks, peak_bytes;
};

/* Each block is preceded by its size, so that a caller that passes another size is detected. */
enum { TEST_MEMORY_PREFIX = 16 };

static inline void *test_memory_resize(void *context, void *block, size_t old_bytes, size_t new_bytes)
{
    struct test_memory *m = context;
    unsigned char *raw = block == NULL ? NULL : (unsigned char *)block - TEST_MEMORY_PREFIX;
    size_t known = 0;
    if (raw != NULL)
        memcpy(&known, raw, sizeof known);
    PCCL_ASSERT(known == old_bytes);
    if (new_bytes > 0) {
        m->requests++;
        if (m->fail_at > 0 && (m->requests == m->fail_at || (m->fail_after && m->requests > m->fail_at))) {
            m->failures++;
            return NULL;
        }
    }
    m->live_bytes -= old_bytes;
    m->live_blocks -= block != NULL;
    if (new_bytes == 0) {
        free(raw);
        return NULL;
    }
    /* Always another block, so that pointers kept across a growth are caught by the sanitizer. */
    unsigned char *fresh = malloc(TEST_MEMORY_PREFIX + new_bytes);
    PCCL_ASSERT(fresh != NULL);
    memcpy(fresh, &new_bytes, sizeof new_bytes);
    memset(fresh + TEST_MEMORY_PREFIX, 0xa5, new_bytes);
    if (raw != NULL)
        memcpy(fresh + TEST_MEMORY_PREFIX, block, old_bytes < new_bytes ? old_bytes : new_bytes);
    free(raw);
    m->live_bytes += new_bytes;
    m->live_blocks++;
    if (m->live_bytes > m->peak_bytes)
        m->peak_bytes = m->live_bytes;
    return fresh + TEST_MEMORY_PREFIX;
}

static inline void test_assert_handler(const char *file, int line, const char *expression)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
    abort();
}

/* Ends the program at a broken invariant, from its beginning on. */
#define HANDLE_ASSERTS                                                                                                 \
    __attribute__((constructor)) static void handle_asserts(void) { pccl_set_assert_handler(test_assert_handler); }

/*
 * Prints a figure that no test judges, because it depends on how busy the machine is; like
 * harness.figure of tests/e2e, for bench/figures.py.
 */
static inline void test_figure(const char *name, double value, const char *unit)
{
    printf("figure: {\"name\": \"%s\", \"value\": %.4f, \"unit\": \"%s\"}\n", name, value, unit);
    (void)fflush(stdout);
}

/*
 * In the daytime one random case of `test_one_of` is run, fewer where a case takes longer (UNIT_ONE_OF,
 * tests/unit/CMakeLists.txt). The nightly run includes all cases.
 */
static inline uint64_t test_one_of(void)
{
    const char *text = getenv("UNIT_ONE_OF");
    const uint64_t one_of = text != NULL ? strtoull(text, NULL, 10) : 1;
    return one_of > 0 ? one_of : 1;
}

/* Number that chooses the cases: of the commit (tests/CMakeLists.txt). */
static inline uint64_t test_sample(void)
{
    static uint64_t sample = UINT64_MAX;
    if (sample == UINT64_MAX) {
        const char *text = getenv("TEST_SAMPLE");
        sample = text != NULL ? strtoull(text, NULL, 10) : 0;
        printf("TEST_SAMPLE=%llu\n", (unsigned long long)sample);
    }
    return sample;
}

/* Returns true if case `number` is one of the chosen cases, which are unrelated to the patterns of the numbers. */
static inline bool test_is_chosen(uint64_t number)
{
    return ((number * UINT64_C(0x9e3779b97f4a7c15) >> 32) + test_sample()) % test_one_of() == 0;
}

/* `memory` points into *m: it must not move. */
static inline void test_memory_init(struct test_memory *m)
{
    memset(m, 0, sizeof *m);
    m->memory.resize = test_memory_resize;
    m->memory.context = m;
    pccl_set_assert_handler(test_assert_handler);
}

#endif
