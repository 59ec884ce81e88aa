/* How long the data of tiny operations is (wire/tiny.h), and the words for operations of each kind. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/bytes.h"
#include "kernels/reduce.h"
#include "wire/describe.h"
#include "wire/tiny.h"

enum { WORLD = 3, MOST = 100 };

static const struct pccl_id root = {{0xab, 0xcd}}, peer_a = {{1}}, peer_b = {{2}};

static struct pccl_descriptor descriptor_of(uint8_t collective, uint64_t count)
{
    struct pccl_descriptor descriptor = {.collective = collective, .datatype = PCCL_F32, .count = count};
    if (pccl_collective_has_root(collective))
        descriptor.root = root;
    if (collective == PCCL_BARRIER)
        descriptor.datatype = 0;
    return descriptor;
}

static void must_be(uint8_t collective, uint64_t count, bool is_root, uint64_t contribution, uint64_t result,
                    uint64_t largest)
{
    struct pccl_descriptor descriptor = descriptor_of(collective, count);
    struct pccl_tiny_sizes sizes = pccl_tiny_sizes(&descriptor, WORLD, is_root);
    assert_int_equal(sizes.contribution, contribution);
    assert_int_equal(sizes.result, result);
    assert_int_equal(sizes.largest, largest);
}

static void test_sizes(void **state)
{
    (void)state;
    must_be(PCCL_ALL_REDUCE, 5, false, 20, 20, 20);
    must_be(PCCL_BROADCAST, 5, true, 20, 20, 20);
    must_be(PCCL_BROADCAST, 5, false, 0, 20, 20);
    must_be(PCCL_ALL_GATHER, 5, false, 20, 60, 60);
    must_be(PCCL_REDUCE_SCATTER, 5, false, 60, 60, 60);
    must_be(PCCL_REDUCE, 5, false, 20, 20, 20);
    must_be(PCCL_GATHER, 5, false, 20, 60, 60);
    must_be(PCCL_SCATTER, 5, true, 60, 60, 60);
    must_be(PCCL_SCATTER, 5, false, 0, 60, 60);
    must_be(PCCL_ALL_TO_ALL, 5, false, 60, 180, 180);
    must_be(PCCL_BARRIER, 0, false, 0, 0, 0);
    must_be(PCCL_ALL_GATHER_V, 0, false, 0, 12, 12);
    must_be(PCCL_ALL_GATHER_V, 1, false, 0, UINT64_MAX, UINT64_MAX); /* blobs that go from peer to peer */
    struct pccl_descriptor shared = descriptor_of(PCCL_REDUCE_SCATTER, 5);
    shared.counts = peer_a; /* five are all of them */
    assert_int_equal(pccl_tiny_sizes(&shared, WORLD, false).largest, 20);
    must_be(PCCL_ALL_REDUCE, UINT64_MAX / 2, false, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    must_be(PCCL_ALL_GATHER, UINT64_MAX / 8, false, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    must_be(PCCL_ALL_TO_ALL, UINT32_MAX / 4, false, UINT64_C(12884901876), UINT64_MAX, UINT64_MAX);
}

static bool fits(uint8_t collective, uint64_t count, bool is_root, uint32_t length, uint32_t most)
{
    struct pccl_descriptor descriptor = descriptor_of(collective, count);
    return pccl_tiny_contribution_fits(&descriptor, WORLD, is_root, length, most);
}

static void test_contributions(void **state)
{
    (void)state;
    assert_true(fits(PCCL_ALL_REDUCE, 25, false, 100, MOST));
    assert_false(fits(PCCL_ALL_REDUCE, 25, false, 99, MOST));
    assert_false(fits(PCCL_ALL_REDUCE, 25, false, 101, MOST));
    assert_false(fits(PCCL_ALL_REDUCE, 26, false, 104, MOST));
    assert_false(fits(PCCL_ALL_REDUCE, 0, false, 0, MOST));
    assert_true(fits(PCCL_BROADCAST, 25, true, 100, MOST));
    assert_false(fits(PCCL_BROADCAST, 25, true, 0, MOST));
    assert_true(fits(PCCL_BROADCAST, 25, false, 0, MOST));
    assert_false(fits(PCCL_BROADCAST, 25, false, 100, MOST));
    assert_false(fits(PCCL_BROADCAST, 26, false, 0, MOST)); /* the root's is too long: so it is for all */
    assert_true(fits(PCCL_ALL_GATHER, 8, false, 32, MOST));
    assert_false(fits(PCCL_ALL_GATHER, 9, false, 36, MOST)); /* the result is too long */
    assert_true(fits(PCCL_REDUCE_SCATTER, 8, false, 96, MOST));
    assert_false(fits(PCCL_REDUCE_SCATTER, 8, false, 32, MOST));
    assert_true(fits(PCCL_SCATTER, 8, true, 96, MOST));
    assert_false(fits(PCCL_SCATTER, 8, false, 96, MOST));
    assert_true(fits(PCCL_ALL_TO_ALL, 2, false, 24, MOST));
    assert_false(fits(PCCL_ALL_TO_ALL, 3, false, 36, MOST)); /* the result is too long */
    assert_false(fits(PCCL_REDUCE_SCATTER, UINT64_MAX / 4, false, 0, MOST));
    assert_true(fits(PCCL_BARRIER, 0, false, 0, 0)); /* whatever the limit is */
    assert_false(fits(PCCL_BARRIER, 0, false, 1, MOST));
    assert_int_equal(pccl_tiny_blob_most(WORLD, MOST), 29);
    assert_int_equal(pccl_tiny_blob_most(WORLD, 11), 0);
    assert_true(fits(PCCL_ALL_GATHER_V, 0, false, 0, MOST));
    assert_true(fits(PCCL_ALL_GATHER_V, 0, false, 29, MOST));
    assert_false(fits(PCCL_ALL_GATHER_V, 0, false, 30, MOST));
    assert_false(fits(PCCL_ALL_GATHER_V, 0, false, 0, 11)); /* not even lengths */
    assert_false(fits(PCCL_ALL_GATHER_V, 5, false, 5, MOST));
}

static bool is_result(uint8_t collective, uint64_t count, const uint8_t *data, uint32_t length)
{
    struct pccl_descriptor descriptor = descriptor_of(collective, count);
    return pccl_tiny_result_fits(&descriptor, WORLD, &(struct pccl_bytes){data, length}, MOST);
}

static void test_results(void **state)
{
    (void)state;
    uint8_t data[MOST + 1] = {0};
    assert_true(is_result(PCCL_ALL_REDUCE, 5, data, 20));
    assert_false(is_result(PCCL_ALL_REDUCE, 5, data, 60));
    assert_true(is_result(PCCL_BROADCAST, 5, data, 20));
    assert_true(is_result(PCCL_ALL_GATHER, 5, data, 60));
    assert_true(is_result(PCCL_REDUCE_SCATTER, 5, data, 60));
    assert_true(is_result(PCCL_BARRIER, 0, NULL, 0));
    assert_false(is_result(PCCL_BARRIER, 0, data, 1));
    assert_true(is_result(PCCL_ALL_GATHER_V, 0, data, 12)); /* three that are empty */
    assert_false(is_result(PCCL_ALL_GATHER_V, 0, data, 11));
    assert_false(is_result(PCCL_ALL_GATHER_V, 0, data, 13));
    pccl_put(data, 4, 2);
    pccl_put(data + 10, 4, 1);
    assert_true(is_result(PCCL_ALL_GATHER_V, 0, data, 15));
    assert_false(is_result(PCCL_ALL_GATHER_V, 0, data, 14));
    assert_false(is_result(PCCL_ALL_GATHER_V, 0, data, 16));
    pccl_put(data, 4, UINT32_MAX); /* a length beyond the end is not followed */
    assert_false(is_result(PCCL_ALL_GATHER_V, 0, data, 15));
    memset(data, 0, sizeof data);
    pccl_put(data + 8, 4, MOST + 1 - 12);
    assert_false(is_result(PCCL_ALL_GATHER_V, 0, data, MOST + 1)); /* whole, and too long */
}

static void must_say(const struct pccl_descriptor *descriptor, const char *expected)
{
    struct pccl_descriptor other = descriptor_of(PCCL_ALL_REDUCE, 10);
    struct pccl_text words;
    pccl_describe_difference(&words, &(struct pccl_described){&peer_a, descriptor, true},
                             &(struct pccl_described){&peer_b, &other, true});
    const char *end = strstr(words.bytes, " but peer 02000000 called sum of 10 f32");
    const char *begin = strstr(words.bytes, "peer 01000000 called ");
    assert_non_null(end);
    assert_ptr_equal(begin, words.bytes);
    begin += strlen("peer 01000000 called ");
    assert_int_equal(end - begin, strlen(expected));
    assert_memory_equal(begin, expected, strlen(expected));
}

static void test_words_of_differences(void **state)
{
    (void)state;
    struct pccl_descriptor descriptor = descriptor_of(PCCL_BROADCAST, 5);
    must_say(&descriptor, "broadcast of 5 f32 from peer abcd0000");
    descriptor = descriptor_of(PCCL_SCATTER, 5);
    must_say(&descriptor, "scatter of 5 f32 from peer abcd0000");
    descriptor = descriptor_of(PCCL_GATHER, 5);
    must_say(&descriptor, "gather of 5 f32 to peer abcd0000");
    descriptor = descriptor_of(PCCL_REDUCE, 5);
    must_say(&descriptor, "reduce, sum of 5 f32 to peer abcd0000");
    descriptor = descriptor_of(PCCL_ALL_TO_ALL, 5);
    must_say(&descriptor, "all-to-all of 5 f32");
    descriptor = descriptor_of(PCCL_ALL_GATHER, 5);
    must_say(&descriptor, "all-gather of 5 f32");
    descriptor = descriptor_of(PCCL_REDUCE_SCATTER, 5);
    descriptor.operation = PCCL_MAX;
    must_say(&descriptor, "reduce-scatter, max of 5 f32");
    descriptor.counts = peer_a;
    must_say(&descriptor, "reduce-scatter, max of 5 f32 in given shares (01000000)");
    descriptor = descriptor_of(PCCL_BARRIER, 0);
    must_say(&descriptor, "barrier");
    descriptor = descriptor_of(PCCL_ALL_GATHER_V, 0);
    must_say(&descriptor, "all-gather of blobs");
    descriptor.count = 70;
    must_say(&descriptor, "all-gather of blobs, 70 bytes in all");
}

static void test_words_of_places(void **state)
{
    (void)state;
    const struct pccl_place places[] = {
        {.peer = peer_a,
         .state = PCCL_PLACE_ELSEWHERE,
         .call = PCCL_CALL_OPERATION,
         .collective = PCCL_BARRIER,
         .detail = 7,
         .since_us = 3000000},
        {.peer = peer_b, .state = PCCL_PLACE_HERE},
    };
    struct pccl_text words;
    pccl_text_clear(&words);
    pccl_describe_call(&words, PCCL_CALL_OPERATION, PCCL_ALL_GATHER, 3);
    pccl_text_add(&words, " waits for ");
    pccl_describe_places(&words, places, 2, 4);
    assert_string_equal(words.bytes, "all-gather tag 3 waits for peer 01000000 (in barrier tag 7 for 3.0 s), "
                                     "peer 02000000 (in its own work) and 2 more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),           cmocka_unit_test(test_contributions),
        cmocka_unit_test(test_results),         cmocka_unit_test(test_words_of_differences),
        cmocka_unit_test(test_words_of_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
