/*
 * Shared by the fuzz targets. Each defines LLVMFuzzerTestOneInput; a broken expectation aborts. corpus/<target>: seed-*
 * are random messages (pccl_wire_random), found-* small inputs that a fuzzer added. Those of `wire` are of the present
 * version, one of each type (e2e_forge, `random <type> <seed>`), but for hellos of another one.
 */
#ifndef PCCL_TESTS_FUZZ_H
#define PCCL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(expression)                                                                                             \
    do {                                                                                                               \
        if (!(expression)) {                                                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #expression);                                   \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
