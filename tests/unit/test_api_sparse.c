/* pcclPackSparse and its companions: wrong arguments, and that nothing is written after them. */
#include "unit.h"
#include "api_support.h"

#include <math.h>
#include <string.h>

enum { COUNT = PCCL_SPARSE_CHUNK + 300, KEPT = 100, BYTES = 8 + 175 + 8 + 14 };

TEST(floats_come_and_stay)
{
    static float elements[COUNT], left[COUNT], sums[COUNT];
    uint8_t packed[BYTES];
    size_t bytes, kept = 0;
    double square, wanted = 0;
    for (size_t i = 0; i < COUNT; i++) {
        elements[i] = left[i] = (float)sin((double)(i * i));
        sums[i] = 1;
    }
    assert_int_equal(pcclGetSparseBytes(COUNT, KEPT, &bytes), pcclSuccess);
    assert_int_equal(bytes, BYTES);
    assert_int_equal(pcclPackSparse(left, COUNT, KEPT, packed, BYTES), pcclSuccess);
    assert_int_equal(pcclCheckSparse(packed, BYTES, COUNT, KEPT, &square), pcclSuccess);
    assert_int_equal(pcclAddSparse(packed, BYTES, COUNT, KEPT, 2, sums), pcclSuccess);
    for (size_t i = 0; i < COUNT; i++) {
        const float came = (sums[i] - 1) / 2;
        assert_true(fabsf(came + left[i] - elements[i]) < 1e-6f);
        wanted += (double)came * (double)came;
        kept += came != 0;
    }
    assert_int_equal(kept, KEPT + 8);
    assert_true(fabs(square - wanted) < 1e-5 * wanted);
}

TEST(nothing_is_an_array_too)
{
    size_t bytes = 1;
    double square = 1;
    assert_int_equal(pcclGetSparseBytes(0, KEPT, &bytes), pcclSuccess);
    assert_int_equal(bytes, 0);
    assert_int_equal(pcclPackSparse(NULL, 0, KEPT, NULL, 0), pcclSuccess);
    assert_int_equal(pcclCheckSparse(NULL, 0, 0, KEPT, &square), pcclSuccess);
    assert_true(square == 0);
    assert_int_equal(pcclAddSparse(NULL, 0, 0, KEPT, 1, NULL), pcclSuccess);
}

TEST(what_is_wrong_is_told)
{
    float elements[5] = {1, 2, 3, 4, 5}, sums[5] = {0};
    uint8_t packed[16] = {0};
    size_t bytes = 77;
    double square = 77;
    is_refused(pcclGetSparseBytes(5, 0, &bytes), "1 to 4096, not 0");
    is_refused(pcclGetSparseBytes(5, 4097, &bytes), "1 to 4096, not 4097");
    is_refused(pcclGetSparseBytes(SIZE_MAX, 1, &bytes), "too many floats");
    is_refused(pcclGetSparseBytes(5, 1, NULL), "NULL");
    assert_int_equal(bytes, 77);
    is_refused(pcclPackSparse(NULL, 5, 1, packed, 11), "NULL");
    is_refused(pcclPackSparse(elements, 5, 1, NULL, 11), "NULL");
    is_refused(pcclPackSparse(elements, 5, 0, packed, 11), "invalid kept");
    is_refused(pcclPackSparse(elements, 5, 1, packed, 10), "wrong buffer size: 10 bytes for 5 elements, expected 11");
    is_refused(pcclPackSparse(elements, 5, 1, packed, 12), "wrong buffer size: 12 bytes for 5 elements, expected 11");
    elements[3] = NAN;
    is_refused(pcclPackSparse(elements, 5, 1, packed, 11), "not finite");
    assert_true(elements[4] == 5 && packed[0] == 0);
    is_refused(pcclCheckSparse(NULL, 11, 5, 1, &square), "NULL");
    is_refused(pcclCheckSparse(packed, 11, 5, 1, NULL), "NULL");
    is_refused(pcclCheckSparse(packed, 10, 5, 1, &square), "10 bytes for 5 elements");
    is_refused(pcclCheckSparse(packed, 11, 5, 4097, &square), "invalid kept");
    packed[8] = 5;
    is_refused(pcclCheckSparse(packed, 11, 5, 1, &square), "chunk 0: invalid index 5: the chunk has 5 elements");
    is_refused(pcclAddSparse(packed, 11, 5, 1, 1, sums), "chunk 0: invalid index 5: the chunk has 5 elements");
    is_refused(pcclAddSparse(packed, 11, 5, 1, 1, NULL), "NULL");
    assert_true(square == 77 && sums[0] == 0 && sums[4] == 0);
}
