/* core/id: equality, the zero id, order, places in a list, and digits. */
#include "unit.h"
#include "core/id.h"
#include "core/prng.h"

TEST(test_every_bit_counts)
{
    struct pccl_prng prng = unit_prng(1);
    struct pccl_hash_key key;
    pccl_hash_key_init(&key, 1);
    struct pccl_id a = pccl_prng_id(&prng);
    assert_true(pccl_id_equal(&a, &a) && pccl_id_equal_secret(&a, &a) && pccl_id_compare(&a, &a) == 0);
    for (int bit = 0; bit < 128; bit++) {
        struct pccl_id b = a;
        b.bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_false(pccl_id_equal(&a, &b));
        assert_false(pccl_id_equal_secret(&a, &b));
        assert_true(pccl_id_hash(&key, &a) != pccl_id_hash(&key, &b));
        int order = pccl_id_compare(&a, &b);
        assert_true(order != 0);
        assert_int_equal(order<0, pccl_id_compare(&b, &a)> 0);
    }
}

TEST(test_zero)
{
    struct pccl_id id = {{0}};
    assert_true(pccl_id_is_zero(&id));
    id.bytes[15] = 1;
    assert_false(pccl_id_is_zero(&id));
    assert_true(pccl_id_compare(&id, &(struct pccl_id){{0}}) > 0);
}

TEST(test_order_is_that_of_the_bytes)
{
    struct pccl_id small = {{0, 0xff}}, large = {{1, 0}};
    assert_true(pccl_id_compare(&small, &large) < 0);
}

TEST(test_place_in_a_list)
{
    const struct pccl_id ids[] = {{{1}}, {{2}}, {{1}}, {{3}}}, missing = {{4}};
    assert_int_equal(pccl_id_find(ids, 4, &ids[2]), 0);
    assert_int_equal(pccl_id_find(ids, 4, &ids[3]), 3);
    assert_int_equal(pccl_id_find(ids, 3, &ids[3]), 3);
    assert_int_equal(pccl_id_find(ids, 4, &missing), 4);
    assert_int_equal(pccl_id_find(NULL, 0, &missing), 0);
}

TEST(test_digits)
{
    const struct pccl_id id = {{0x01, 0x9a, 0xbc, 0xde, 0xf0, [15] = 0x5c}};
    char text[33] = {0};
    pccl_id_write(&id, text, 3);
    assert_string_equal(text, "019");
    pccl_id_write(&id, text, 32);
    assert_string_equal(text, "019abcdef0000000000000000000005c");
    const struct pccl_id other = {{0xff}};
    const char *reason = pccl_id_str(&id), *others = pccl_id_str(&other);
    assert_string_equal(reason, "019abcde");
    assert_string_equal(others, "ff000000");
}
