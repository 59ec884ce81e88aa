/* Lists of extents: the place of each byte, also behind an extent without bytes, and copies across extents. */
#include "unit.h"
#include "collective/extents.h"

#include <string.h>

enum { BYTES = 12 };

/* Three extents of 5, 0 and 7 bytes, the last one first in memory. */
static uint8_t memory[BYTES + 1];
static const struct pccl_extent list[] = {{0, memory + 8}, {5, memory + 3}, {5, memory}};
static const struct pccl_extents several = {memory + 8, list, 3};

static int clear(void **state)
{
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = (uint8_t)i;
    return 0;
}

/* Returns the place of a byte. */
static uint8_t *place_of(size_t at) { return at < 5 ? memory + 8 + at : memory + (at - 5); }

TEST_IN(bytes_lie_in_their_extents, clear, NULL)
{
    const struct pccl_extents one = pccl_extents_of(memory);
    for (size_t at = 0; at < BYTES; at++) {
        assert_ptr_equal(pccl_extents_at(&several, at), place_of(at));
        assert_ptr_equal(pccl_extents_at(&one, at), memory + at);
        for (size_t bytes = 0; at + bytes <= BYTES; bytes++) {
            const size_t rest = at < 5 ? 5 - at : bytes;
            assert_int_equal(pccl_extents_together(&several, at, bytes), bytes < rest ? bytes : rest);
            assert_int_equal(pccl_extents_together(&one, at, bytes), bytes);
        }
    }
}

TEST(copies_cross_the_ends_of_extents)
{
    for (size_t at = 0; at < BYTES; at++)
        for (size_t bytes = 0; at + bytes <= BYTES; bytes++) {
            uint8_t copy[BYTES], before[sizeof memory];
            clear(NULL);
            memcpy(before, memory, sizeof memory);
            pccl_extents_read(&several, at, bytes, copy, at % 2 ? pccl_kernels_for(0) : NULL);
            for (size_t i = 0; i < bytes; i++) {
                assert_int_equal(copy[i], *place_of(at + i));
                copy[i] = (uint8_t)(100 + i);
                before[place_of(at + i) - memory] = (uint8_t)(100 + i);
            }
            pccl_extents_write(&several, at, bytes, copy, bytes % 2 ? pccl_kernels_for(0) : NULL);
            assert_memory_equal(memory, before, sizeof memory);
        }
}
