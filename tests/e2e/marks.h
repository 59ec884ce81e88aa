/*
 * Operands that tell in the result who contributed: every peer has a bit of its own, every element
 * another position of it. So a result shows which peers are in it, and a segment of the wrong peer,
 * place or tag is a wrong result.
 *
 *   mark:<bit>    element i of a sum is 1 << (bit + phase of i, around the width); of a product a
 *                 small number
 *   pair:<bit>    0 or 1 << bit, by the phase of i: what quantization to 8 bits carries (almost)
 *                 exactly
 *   sparse:<bit>  1 << bit in the last element and in one of 16 Mi, else 0: large buffers that are
 *                 hardly touched
 */
#ifndef PCCL_TESTS_E2E_MARKS_H
#define PCCL_TESTS_E2E_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct marks {
    enum marks_kind { MARKS_NONE, MARKS_MARK, MARKS_PAIR, MARKS_SPARSE } kind;
    int type, op; /* as in values.h */
    size_t count;
    int bit;
    uint64_t salt;
    bool rough; /* the result may be off by a little */
};

struct marks_found {
    uint64_t mask; /* bits of those who contributed, as the first telling element says */
    bool right;    /* every element is as these peers make it */
    size_t wrong;  /* if not: the first that is not */
};

/* With the type filled in. false: no such pattern, or a bit that the type has no room for. */
bool marks_parse(struct marks *marks, const char *pattern);
void marks_fill(const struct marks *marks, void *elements); /* sparse ones: of zeroed memory */
/* mask 0: find out, of sums only. */
struct marks_found marks_check(const struct marks *marks, const void *elements, uint64_t mask);

#endif
