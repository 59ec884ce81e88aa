/* The length of the data of tiny operations (wire/tiny.h), and the words for operations of each kind. */
#include "unit.h"

#include <string.h>

#include "core/bytes.h"
#include "kernels/reduce.h"
#include "wire/describe.h"
#include "wire/coalesced.h"
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

TEST(test_sizes)
{
    must_be(PCCL_ALL_REDUCE, 5, false, 20, 20, 20);
    must_be(PCCL_BROADCAST, 5, true, 20, 20, 20);
    must_be(PCCL_BROADCAST, 5, false, 0, 20, 20);
    must_be(PCCL_ALL_GATHER, 5, false, 20, 60, 60);
    must_be(PCCL_REDUCE_SCATTER, 5, false, 60, 60, 60);
    must_be(PCCL_REDUCE, 5, false, 20, 20, 20);
    must_be(PCCL_EXCLUSIVE_SCAN, 5, false, 20, 60, 60);
    must_be(PCCL_INCLUSIVE_SCAN, 5, false, 20, 60, 60);
    must_be(PCCL_GATHER, 5, false, 20, 60, 60);
    must_be(PCCL_SCATTER, 5, true, 60, 60, 60);
    must_be(PCCL_SCATTER, 5, false, 0, 60, 60);
    must_be(PCCL_ALL_TO_ALL, 5, false, 60, 180, 180);
    must_be(PCCL_SEND, 5, true, 20, 20, 20);
    must_be(PCCL_SEND, 5, false, 0, 20, 20);
    must_be(PCCL_BARRIER, 0, false, 0, 0, 0);
    must_be(PCCL_ALL_GATHER_V, 0, false, 8, 36, 36);
    must_be(PCCL_ALL_GATHER_V, UINT64_MAX, false, 8, 36, 36); /* only a limit */
    struct pccl_descriptor known = descriptor_of(PCCL_ALL_GATHER_V, 5);
    known.counts = peer_a; /* blobs that are sent from peer to peer */
    assert_int_equal(pccl_tiny_sizes(&known, WORLD, false).largest, UINT64_MAX);
    struct pccl_descriptor shared = descriptor_of(PCCL_REDUCE_SCATTER, 5);
    shared.counts = peer_a; /* five are all of them */
    assert_int_equal(pccl_tiny_sizes(&shared, WORLD, false).largest, 20);
    must_be(PCCL_ALL_REDUCE, UINT64_MAX / 2, false, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    must_be(PCCL_ALL_GATHER, UINT64_MAX / 8, false, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    must_be(PCCL_ALL_TO_ALL, UINT32_MAX / 4, false, UINT64_C(12884901876), UINT64_MAX, UINT64_MAX);
    struct pccl_descriptor bytes = {.collective = PCCL_ALL_TO_ALL, .datatype = PCCL_U8, .count = 1};
    assert_int_equal(pccl_tiny_sizes(&bytes, 65536, false).result, UINT64_C(4294967296));
}

static bool fits(uint8_t collective, uint64_t count, bool is_root, uint32_t length, uint32_t most)
{
    static const uint8_t data[MOST + 1];
    struct pccl_descriptor descriptor = descriptor_of(collective, count);
    return pccl_tiny_contribution_fits(&descriptor, WORLD, is_root, &(struct pccl_bytes){data, length}, most);
}

/* Checks a contribution of `length` bytes that names the length of a blob. */
static bool blob_fits(uint32_t length, uint64_t named, uint32_t world, uint32_t most)
{
    uint8_t data[MOST + 1] = {0};
    struct pccl_descriptor descriptor = descriptor_of(PCCL_ALL_GATHER_V, 5);
    pccl_put(data, 8, named);
    return pccl_tiny_contribution_fits(&descriptor, world, false, &(struct pccl_bytes){data, length}, most);
}

TEST(test_contributions)
{
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
}

TEST(test_contributions_of_blobs)
{
    assert_true(blob_fits(8, 0, WORLD, MOST));
    assert_true(blob_fits(8, UINT64_MAX, WORLD, MOST)); /* only the length */
    assert_true(blob_fits(29, 21, WORLD, MOST));
    assert_false(blob_fits(30, 22, WORLD, MOST)); /* if all were this long, the result would be too long */
    assert_false(blob_fits(7, 0, WORLD, MOST));
    assert_false(blob_fits(0, 0, WORLD, MOST));
    assert_false(blob_fits(20, 11, WORLD, MOST)); /* neither nothing nor the blob */
    assert_false(blob_fits(20, 13, WORLD, MOST));
    assert_true(blob_fits(8, 5, WORLD, 0)); /* lengths always fit */
    assert_false(blob_fits(9, 1, WORLD, 0));
    const uint32_t members_max = pccl_tiny_members_max(PCCL_ALL_GATHER_V);
    assert_true(blob_fits(8, 5, members_max, 0));
    assert_false(blob_fits(8, 5, members_max + 1, PCCL_TINY_BYTES_MAX)); /* except of too many */
    struct pccl_descriptor known = descriptor_of(PCCL_ALL_GATHER_V, 5);
    known.counts = peer_a;
    assert_true(members_max == 682 && pccl_tiny_members_max(PCCL_ALL_TO_ALL_V) == 31);
    const uint8_t data[8] = {0};
    assert_false(pccl_tiny_contribution_fits(&known, WORLD, false, &(struct pccl_bytes){data, 8}, MOST));
}

/* Checks that members read the blobs that others have put in; all blobs together have `most` bytes at most. */
static void round_trip(const uint32_t lengths[WORLD], uint32_t most, uint32_t expected_bytes)
{
    uint8_t blob[MOST], result[PCCL_TINY_BYTES_MAX];
    uint32_t length = 0;
    struct pccl_descriptor descriptor = descriptor_of(PCCL_ALL_GATHER_V, 5);
    for (uint32_t i = 0; i < WORLD; i++) {
        memset(blob, (int)i + 1, sizeof blob);
        const struct pccl_tiny_blob own = {lengths[i], blob};
        uint32_t bytes = pccl_tiny_put_blobs(result + length + 4, PCCL_ALL_GATHER_V, &own, 1, WORLD, most);
        assert_true(pccl_tiny_contribution_fits(&descriptor, WORLD, false,
                                                &(struct pccl_bytes){result + length + 4, bytes}, most));
        pccl_put(result + length, 4, bytes);
        length += 4 + bytes;
    }
    assert_int_equal(length, expected_bytes);
    assert_true(pccl_tiny_result_fits(&descriptor, WORLD, &(struct pccl_bytes){result, length}, most));
    struct pccl_tiny_blob read[PCCL_TINY_BLOBS_MAX];
    assert_int_equal(pccl_tiny_list_blobs(PCCL_ALL_GATHER_V, WORLD, result, read), WORLD);
    for (uint32_t i = 0; i < WORLD; i++) {
        assert_int_equal(read[i].length, lengths[i]);
        memset(blob, (int)i + 1, sizeof blob);
        assert_int_equal(read[i].data != NULL, lengths[i] + 12 <= pccl_tiny_most(&descriptor, WORLD, most) / WORLD);
        if (read[i].data != NULL)
            assert_memory_equal(read[i].data, blob, lengths[i]);
    }
}

static bool is_result(uint8_t collective, uint64_t count, const uint8_t *data, uint32_t length)
{
    struct pccl_descriptor descriptor = descriptor_of(collective, count);
    return pccl_tiny_result_fits(&descriptor, WORLD, &(struct pccl_bytes){data, length}, MOST);
}

/*
 * Blobs of members for each other member, or of the root alone; the first bytes of each contribution are the lengths.
 */
TEST(test_blobs_for_each)
{
    enum { MOST_OF_ALL = 300 };
    static const uint8_t kinds[] = {PCCL_GATHER_V, PCCL_SCATTER_V, PCCL_ALL_TO_ALL_V};
    static const uint32_t some[] = {0, 3, 0, 40, 1, 0, 0, 9, 2}, longer[] = {0, 3, 900};
    for (unsigned kind = 0; kind < PCCL_COUNT_OF(kinds); kind++)
        for (unsigned are_long = 0; are_long < 2; are_long++) {
            struct pccl_descriptor descriptor = descriptor_of(kinds[kind], 5);
            struct pccl_tiny_blob read[PCCL_TINY_BLOBS_MAX], own[WORLD];
            uint8_t blob[1000], result[PCCL_TINY_BYTES_MAX];
            uint32_t length = 0, all = 0;
            for (uint32_t i = 0; i < WORLD; i++) {
                uint32_t count = pccl_parts_of(&pccl_collective(kinds[kind])->input, WORLD, i == 1);
                assert_int_equal(count, kind == 0 ? 1 : kind == 2 || i == 1 ? WORLD : 0);
                memset(blob, 1, sizeof blob);
                for (uint32_t k = 0; k < count; k++)
                    own[k] = (struct pccl_tiny_blob){are_long != 0 ? longer[k] : some[all + k], blob};
                uint8_t *put = result + length + 4;
                uint32_t bytes = pccl_tiny_put_blobs(put, kinds[kind], own, count, WORLD, MOST_OF_ALL);
                struct pccl_bytes contribution = {put, bytes};
                assert_true(pccl_tiny_contribution_fits(&descriptor, WORLD, i == 1, &contribution, MOST_OF_ALL));
                contribution.length++;
                assert_false(pccl_tiny_contribution_fits(&descriptor, WORLD, i == 1, &contribution, MOST_OF_ALL));
                pccl_put(result + length, 4, bytes);
                length += 4 + bytes;
                all += count;
            }
            struct pccl_bytes whole = {result, length};
            assert_true(pccl_tiny_result_fits(&descriptor, WORLD, &whole, MOST_OF_ALL));
            assert_int_equal(pccl_tiny_list_blobs(kinds[kind], WORLD, result, read), all);
            for (uint32_t i = 0; i < all; i++) {
                uint64_t expected = are_long != 0 ? longer[kind == 0 ? 0 : i % WORLD] : some[i];
                assert_int_equal(read[i].length, expected);
                assert_int_equal(read[i].data != NULL, expected == 0 || are_long == 0);
            }
        }
}

/* Lengths of no member, or of two. */
TEST(test_a_scatter_has_one_root)
{
    uint8_t data[MOST] = {0};
    assert_false(is_result(PCCL_SCATTER_V, 5, data, 12));
    pccl_put(data, 4, 24);
    assert_true(is_result(PCCL_SCATTER_V, 5, data, 36));
    pccl_put(data + 28, 4, 24);
    assert_false(is_result(PCCL_SCATTER_V, 5, data, 60));
}

TEST(test_blobs_are_read_as_they_were_put)
{
    round_trip((const uint32_t[]){0, 0, 0}, MOST, 36);
    round_trip((const uint32_t[]){1, 0, 21}, MOST, 58);
    round_trip((const uint32_t[]){21, 21, 21}, MOST, 99);
    round_trip((const uint32_t[]){21, 22, 21}, MOST, 78);
    round_trip((const uint32_t[]){1, 0, 2}, 0, 36);
}

TEST(test_results)
{
    uint8_t data[MOST + 1] = {0};
    assert_true(is_result(PCCL_ALL_REDUCE, 5, data, 20));
    assert_false(is_result(PCCL_ALL_REDUCE, 5, data, 60));
    assert_true(is_result(PCCL_BROADCAST, 5, data, 20));
    assert_true(is_result(PCCL_ALL_GATHER, 5, data, 60));
    assert_true(is_result(PCCL_REDUCE_SCATTER, 5, data, 60));
    assert_true(is_result(PCCL_BARRIER, 0, NULL, 0));
    assert_false(is_result(PCCL_BARRIER, 0, data, 1));
    for (uint32_t i = 0; i < WORLD; i++)
        pccl_put(data + 12 * i, 4, 8);
    assert_true(is_result(PCCL_ALL_GATHER_V, 5, data, 36)); /* three that are empty */
    assert_false(is_result(PCCL_ALL_GATHER_V, 5, data, 35));
    assert_false(is_result(PCCL_ALL_GATHER_V, 5, data, 37));
    assert_false(is_result(PCCL_ALL_GATHER_V, 5, data, 24));
    pccl_put(data + 24, 4, 10); /* the last one has two bytes */
    assert_false(is_result(PCCL_ALL_GATHER_V, 5, data, 38));
    pccl_put(data + 28, 8, 2);
    assert_true(is_result(PCCL_ALL_GATHER_V, 5, data, 38));
    assert_false(is_result(PCCL_ALL_GATHER_V, 5, data, 36));
    pccl_put(data + 24, 4, UINT32_MAX); /* a length beyond the end is not followed */
    assert_false(is_result(PCCL_ALL_GATHER_V, 5, data, 38));
    pccl_put(data + 24, 4, 7);
    assert_false(is_result(PCCL_ALL_GATHER_V, 5, data, 35)); /* less than a length */
    pccl_put(data + 24, 4, MOST + 1 - 28);
    pccl_put(data + 28, 8, MOST + 1 - 36);
    assert_false(is_result(PCCL_ALL_GATHER_V, 5, data, MOST + 1)); /* whole, and too long */
}

static void must_say(const struct pccl_descriptor *descriptor, const char *expected)
{
    struct pccl_descriptor other = descriptor_of(PCCL_ALL_REDUCE, 10);
    struct pccl_text words;
    pccl_describe_difference(&words, &(struct pccl_described){&peer_a, descriptor, true},
                             &(struct pccl_described){&peer_b, &other, true});
    const char *end = strstr(words.bytes, ", but peer 02000000 called sum of 10 f32");
    const char *begin = strstr(words.bytes, "peer 01000000 called ");
    assert_non_null(end);
    assert_ptr_equal(begin, words.bytes);
    begin += strlen("peer 01000000 called ");
    assert_int_equal(end - begin, strlen(expected));
    assert_memory_equal(begin, expected, strlen(expected));
}

TEST(test_words_of_differences)
{
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
    must_say(&descriptor, "reduce-scatter, max of 5 f32 in specified shares (01000000)");
    descriptor = descriptor_of(PCCL_BARRIER, 0);
    must_say(&descriptor, "barrier");
    descriptor = descriptor_of(PCCL_ALL_GATHER_V, 0);
    descriptor.count = 70;
    must_say(&descriptor, "all-gather of blobs of at most 70 bytes in all");
    descriptor.counts = peer_a;
    must_say(&descriptor, "all-gather of blobs of 70 bytes in all");
}

TEST(test_words_of_places)
{
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
                                     "peer 02000000 (in its own code) and 2 more");
}

static bool are_sections(uint8_t *bytes, uint32_t length)
{
    const struct pccl_descriptor descriptor = {.collective = PCCL_COALESCED, .count = length, .counts = {{1}}};
    const struct pccl_bytes given = {bytes, length};
    return pccl_tiny_contribution_fits(&descriptor, 3, false, &given, MOST) &&
           pccl_tiny_result_fits(&descriptor, 3, &given, MOST);
}

/* Bytes that a peer may send instead of sections must not reach the kernels. */
TEST(test_sections)
{
    const struct pccl_section valid[] = {{PCCL_F32, PCCL_AVG, 3}, {PCCL_U8, PCCL_XOR, 9}};
    uint8_t bytes[64] = {0};
    pccl_sections_write(valid, 2, bytes);
    assert_int_equal(pccl_sections_table_bytes(2) + pccl_section_bytes(&valid[0]) + pccl_section_bytes(&valid[1]), 56);
    assert_true(are_sections(bytes, 56));
    for (uint32_t length = 1; length < 64; length++)
        assert_int_equal(are_sections(bytes, length), length == 56);
    const struct pccl_section wrong[] = {{PCCL_F32, PCCL_AND, 3},
                                         {PCCL_DATATYPES, PCCL_SUM, 3},
                                         {PCCL_F32, PCCL_REDUCE_OPS, 3},
                                         {PCCL_F32, PCCL_SUM, 0},
                                         {PCCL_F32, PCCL_SUM, (UINT64_C(1) << 48) - 1}};
    for (uint32_t i = 0; i < PCCL_COUNT_OF(wrong); i++) {
        const struct pccl_section changed[] = {wrong[i], valid[1]};
        pccl_sections_write(changed, 2, bytes);
        assert_false(are_sections(bytes, 56));
    }
    pccl_put(bytes, 8, UINT64_MAX / 8);
    assert_false(are_sections(bytes, 56));
    pccl_put(bytes, 8, 0);
    assert_false(are_sections(bytes, 56));
    assert_false(are_sections(bytes, 8));
}
