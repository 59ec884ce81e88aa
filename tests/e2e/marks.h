/*
 * Operands whose results show the contributors: every peer has its bit, at a position that differs
 * between elements. So a result shows which peers are in it, and a segment of the wrong peer, place
 * or tag makes it wrong.
 *
 *   mark:<bit>    element i of a sum is 1 << (bit + phase of i, around the width); of a product a
 *                 small number
 *   pair:<bit>    0 or 1 << bit, by the phase of i: values that quantization to 8 bits preserves
 *                 (almost) exactly
 *   sparse:<bit>  1 << bit in the last element and in one of 16 Mi, else 0: for large buffers with
 *                 few touched pages
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
    bool rough; /* the result may differ slightly */
};

struct marks_found {
    uint64_t mask; /* bits of the contributors, from the first element that shows them */
    bool right;    /* every element is the result of these peers */
    size_t wrong;  /* index of the first wrong element, if any */
};

/* Parses a pattern; `type` must be set. Returns false if there is no such pattern, or if the bit exceeds the type. */
bool marks_parse(struct marks *marks, const char *pattern);
void marks_fill(const struct marks *marks, void *elements); /* sparse: zeroed memory only */
/* Checks a result. mask 0: also finds the contributors; for sums only. */
struct marks_found marks_check(const struct marks *marks, const void *elements, uint64_t mask);

#endif
