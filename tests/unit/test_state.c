/* Digests of a state compared with an independent computation, its bounds, and the answers of a donor. */
#include "unit.h"
#include "state/serve.h"
#include "unit/support.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { CHUNK = PCCL_STATE_CHUNK_BYTES };

static struct test_memory memory;

static int setup(void **context)
{
    test_memory_init(&memory);
    return 0;
}

/* ---- the same computed differently: all bytes in one buffer, hashed at once ---- */

struct buffer {
    uint8_t bytes[1 << 16];
    size_t length;
};

static void put(struct buffer *buffer, uint64_t value, size_t width)
{
    assert_true(buffer->length + width <= sizeof buffer->bytes);
    for (size_t i = 0; i < width; i++)
        buffer->bytes[buffer->length++] = (uint8_t)(value >> 8 * i);
}

static void put_digest(struct buffer *buffer, const struct pccl_digest *digest)
{
    put(buffer, digest->low, 8);
    put(buffer, digest->high, 8);
}

static void put_shape(struct buffer *buffer, const struct pccl_tensor *tensor)
{
    put(buffer, strlen(tensor->name), 4);
    for (size_t i = 0; i < strlen(tensor->name); i++)
        put(buffer, (uint8_t)tensor->name[i], 1);
    put(buffer, tensor->datatype, 1);
    put(buffer, tensor->unequal, 1);
    put(buffer, tensor->count, 8);
}

static struct pccl_digest hash(const void *bytes, size_t length)
{
    XXH128_canonical_t canonical; /* big-endian, high first */
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, length));
    struct pccl_digest digest = {0};
    for (size_t i = 0; i < 8; i++) {
        digest.high = digest.high << 8 | canonical.digest[i];
        digest.low = digest.low << 8 | canonical.digest[8 + i];
    }
    return digest;
}

static struct pccl_digest hash_of(const struct buffer *buffer) { return hash(buffer->bytes, buffer->length); }

static void assert_equal(struct pccl_digest a, struct pccl_digest b)
{
    assert_true(a.low == b.low && a.high == b.high);
    assert_true(pccl_digest_equal(&a, &b));
}

static void check_digests(const struct pccl_state *state)
{
    static struct buffer content, structure, one;
    content.length = structure.length = 0;
    for (uint32_t t = 0; t < state->tensor_count; t++) {
        const struct pccl_tensor *tensor = &state->tensors[t];
        one.length = 0;
        put_shape(&one, tensor);
        put_shape(&structure, tensor);
        assert_int_equal(state->shapes[t].hash, (uint32_t)hash_of(&one).low);
        one.length = 0;
        put(&one, tensor->bytes, 8);
        for (uint64_t i = 0; i < tensor->chunks; i++)
            put_digest(&one, &state->chunks[tensor->first_chunk + i]);
        assert_equal(tensor->root, hash_of(&one));
        if (!tensor->unequal)
            put_digest(&content, &tensor->root);
    }
    assert_equal(state->content, hash_of(&content));
    assert_equal(state->structure, hash_of(&structure));
}

static void number_chunks(struct pccl_state *state)
{
    for (uint64_t i = 0; i < state->chunk_count; i++)
        state->chunks[i] = (struct pccl_digest){.low = i * 3 + 1, .high = i << 40};
}

static void init(struct pccl_state *state, const struct pccl_tensor *tensors, uint32_t count)
{
    assert_int_equal(pccl_state_init(state, pccl_kernels_for(0), &memory.memory, tensors, count), PCCL_OK);
    number_chunks(state);
    pccl_state_seal(state);
}

static void fini(struct pccl_state *state)
{
    pccl_state_fini(state);
    assert_int_equal(memory.live_blocks, 0);
    pccl_state_fini(state); /* nothing is left to be freed */
}

static const struct pccl_tensor five[] = {
    {.name = "weights", .count = 5 * CHUNK / 4 + 1, .bytes = 5 * CHUNK + 4, .datatype = 9},
    {.name = "", .count = 0, .bytes = 0, .datatype = 3},
    {.name = "seed", .count = 2, .bytes = 16, .datatype = 7, .unequal = true},
    {.name = "bias", .count = CHUNK, .bytes = CHUNK, .datatype = 0},
    {.name = "long", .count = 100 * CHUNK, .bytes = 100 * (uint64_t)CHUNK, .datatype = 0}, /* more than one batch */
};

/* ---- tests ---- */

TEST_IN(digests, setup, NULL)
{
    struct pccl_state state;
    for (uint32_t count = 0; count <= PCCL_COUNT_OF(five); count++) {
        init(&state, five, count);
        check_digests(&state);
        assert_int_equal(state.unequal, count > 2);
        fini(&state);
    }
    init(&state, five, PCCL_COUNT_OF(five));
    assert_int_equal(state.chunk_count, 6 + 0 + 1 + 1 + 100);
    assert_int_equal(state.tensors[3].first_chunk, 7);
    const struct pccl_digest content = state.content;
    state.chunks[6].low++; /* of one that need not be equal */
    pccl_state_seal(&state);
    check_digests(&state);
    assert_equal(state.content, content);
    state.chunks[7].low++;
    pccl_state_seal(&state);
    check_digests(&state);
    assert_false(pccl_digest_equal(&state.content, &content));
    fini(&state);
}

TEST_IN(bytes, setup, NULL)
{
    static uint8_t chunk[CHUNK];
    for (size_t i = 0; i < sizeof chunk; i++)
        chunk[i] = (uint8_t)(i * i >> 3);
    const size_t lengths[] = {1, 16, 17, 128, 129, 240, 241, 1000, CHUNK - 1, CHUNK};
    for (size_t i = 0; i < PCCL_COUNT_OF(lengths); i++)
        assert_equal(pccl_digest_bytes(pccl_kernels_for(0), chunk, lengths[i]), hash(chunk, lengths[i]));
    /* Digests that peers of all versions and processors agree on. */
    assert_equal(pccl_digest_bytes(pccl_kernels_for(0), "", 0),
                 (struct pccl_digest){.low = 0x6001c324468d497fu, .high = 0x99aa06d3014798d8u});
    const struct pccl_digest a = {.low = 1, .high = 2}, b = {.low = 1, .high = 3}, c = {.low = 2, .high = 2};
    assert_false(pccl_digest_equal(&a, &b) || pccl_digest_equal(&a, &c));
}

static struct pccl_digest structure_of(const struct pccl_tensor *tensors, uint32_t count, uint32_t *shape)
{
    struct pccl_state state;
    init(&state, tensors, count);
    struct pccl_digest structure = state.structure;
    *shape = state.shapes[0].hash;
    fini(&state);
    return structure;
}

TEST_IN(structure_tells_everything, setup, NULL)
{
    static char longest[1001], longer[1002];
    memset(longest, 'x', sizeof longest - 1);
    memset(longer, 'x', sizeof longer - 1);
    const struct pccl_tensor variants[][2] = {
        {{.name = "a", .count = 1, .bytes = 4}, {.name = "b", .count = 2, .bytes = 8}},
        {{.name = "b", .count = 2, .bytes = 8}, {.name = "a", .count = 1, .bytes = 4}}, /* the order */
        {{.name = "a", .count = 2, .bytes = 4}, {.name = "b", .count = 2, .bytes = 8}},
        {{.name = "a", .count = 1, .bytes = 4, .datatype = 1}, {.name = "b", .count = 2, .bytes = 8}},
        {{.name = "a", .count = 1, .bytes = 4, .unequal = true}, {.name = "b", .count = 2, .bytes = 8}},
        {{.name = "ab", .count = 1, .bytes = 4}, {.name = "", .count = 2, .bytes = 8}}, /* where a name ends */
        {{.name = "", .count = 1, .bytes = 4}, {.name = "ab", .count = 2, .bytes = 8}},
        {{.name = longest, .count = 1, .bytes = 4}, {.name = "b", .count = 2, .bytes = 8}},
        {{.name = longer, .count = 1, .bytes = 4}, {.name = "b", .count = 2, .bytes = 8}},
    };
    struct pccl_digest found[PCCL_COUNT_OF(variants)];
    uint32_t shapes[PCCL_COUNT_OF(variants)];
    for (uint32_t i = 0; i < PCCL_COUNT_OF(variants); i++) {
        found[i] = structure_of(variants[i], 2, &shapes[i]);
        for (uint32_t k = 0; k < i; k++) {
            assert_false(pccl_digest_equal(&found[i], &found[k]));
            assert_int_not_equal(shapes[i], shapes[k]);
        }
    }
    uint32_t shape;
    struct pccl_digest fewer = structure_of(variants[0], 1, &shape);
    assert_false(pccl_digest_equal(&fewer, &found[0]));
    assert_int_equal(shape, shapes[0]);
}

TEST_IN(order_of_content, setup, NULL)
{
    const struct pccl_tensor two[] = {{.name = "a", .count = 4, .bytes = 4}, {.name = "b", .count = 4, .bytes = 4}};
    struct pccl_state state;
    init(&state, two, 2);
    struct pccl_digest content = state.content, first = state.chunks[0];
    state.chunks[0] = state.chunks[1];
    state.chunks[1] = first;
    pccl_state_seal(&state);
    check_digests(&state);
    assert_false(pccl_digest_equal(&state.content, &content));
    fini(&state);
    /* Two chunks of one tensor, and a length that does not follow from its chunks. */
    const struct pccl_digest chunks[] = {{.low = 1}, {.low = 2}}, swapped[] = {{.low = 2}, {.low = 1}};
    struct pccl_digest a = pccl_digest_root(2 * CHUNK, chunks, 2), b = pccl_digest_root(2 * CHUNK, swapped, 2);
    struct pccl_digest c = pccl_digest_root(2 * CHUNK - 1, chunks, 2);
    assert_false(pccl_digest_equal(&a, &b) || pccl_digest_equal(&a, &c));
}

TEST_IN(chunk_lengths, setup, NULL)
{
    const uint64_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 7 * CHUNK, 7 * CHUNK + 5, (UINT64_C(5) << 30) + 3};
    for (size_t i = 0; i < PCCL_COUNT_OF(sizes); i++) {
        const struct pccl_tensor tensor = {.name = "t", .count = sizes[i], .bytes = sizes[i]};
        struct pccl_state state;
        init(&state, &tensor, 1);
        uint64_t bytes = 0;
        for (uint64_t k = 0; k < state.tensors[0].chunks; k++) {
            uint32_t length = pccl_state_chunk_length(&state.tensors[0], k);
            assert_true(length > 0 && length <= CHUNK);
            assert_true(length == CHUNK || k == state.tensors[0].chunks - 1);
            bytes += length;
        }
        assert_int_equal(bytes, sizes[i]);
        if (state.chunk_count < 4000)
            check_digests(&state);
        else
            assert_equal(state.tensors[0].root, pccl_digest_root(sizes[i], state.chunks, state.chunk_count));
        fini(&state);
    }
}

TEST_IN(limits, setup, NULL)
{
    static struct pccl_tensor tensors[PCCL_TENSORS_MAX + 1];
    struct pccl_state state;
    for (uint32_t i = 0; i < PCCL_COUNT_OF(tensors); i++)
        tensors[i] = (struct pccl_tensor){.name = "t", .count = 1, .bytes = 1};
    init(&state, tensors, PCCL_TENSORS_MAX);
    assert_int_equal(state.chunk_count, PCCL_TENSORS_MAX);
    fini(&state);
    memory.requests = 0;
    assert_int_equal(pccl_state_init(&state, pccl_kernels_for(0), &memory.memory, tensors, PCCL_TENSORS_MAX + 1),
                     PCCL_LIMIT);
    const struct pccl_tensor large[] = {{.name = "a", .bytes = INT64_MAX}, {.name = "b", .bytes = 1}};
    assert_int_equal(pccl_state_init(&state, pccl_kernels_for(0), &memory.memory, large, 2), PCCL_LIMIT);
    const struct pccl_tensor larger = {.name = "a", .bytes = UINT64_MAX};
    assert_int_equal(pccl_state_init(&state, pccl_kernels_for(0), &memory.memory, &larger, 1), PCCL_LIMIT);
    assert_int_equal(memory.requests, 0);
    fini(&state);
}

TEST_IN(short_memory, setup, NULL)
{
    struct pccl_state state;
    for (uint64_t k = 1; k <= 4; k++) {
        memory.requests = 0;
        memory.fail_at = k;
        assert_int_equal(pccl_state_init(&state, pccl_kernels_for(0), &memory.memory, five, PCCL_COUNT_OF(five)),
                         PCCL_MEMORY);
        fini(&state);
    }
    memory.requests = 0;
    memory.fail_at = 5;
    init(&state, five, PCCL_COUNT_OF(five));
    memory.fail_at = 0;
    fini(&state);
}

/* ---- serving ---- */

static struct pccl_proof roots[PCCL_STATE_DIGESTS_MAX];

static enum pccl_status serve(const struct pccl_state *state, struct pccl_msg_state_want want, struct pccl_msg *answer)
{
    static struct pccl_wire_scratch scratch;
    static uint8_t body[PCCL_FRAME_BODY_MAX];
    struct pccl_text reason = {0};
    struct pccl_msg decoded;
    memset(answer, 0xa5, sizeof *answer);
    enum pccl_status status = pccl_serve(state, 7, &want, roots, answer, &reason);
    assert_int_equal(reason.length > 0, status != PCCL_OK);
    if (status != PCCL_OK)
        return status;
    size_t size = pccl_wire_size(answer);
    assert_true(size <= sizeof body);
    pccl_wire_encode(answer, body);
    assert_int_equal(pccl_wire_decode(answer->type, body, size, &scratch, &decoded, &reason), PCCL_OK);
    return PCCL_OK;
}

static void check_list(const struct pccl_state *state, struct pccl_msg_state_want want,
                       const struct pccl_proof *expected, uint32_t count)
{
    struct pccl_msg answer;
    assert_int_equal(serve(state, want, &answer), PCCL_OK);
    assert_int_equal(answer.type, PCCL_MSG_state_proofs);
    const struct pccl_msg_state_proofs *list = &answer.as.state_proofs;
    assert_int_equal(list->round, 7);
    assert_int_equal(list->what, want.what);
    assert_int_equal(list->tensor, want.tensor);
    assert_int_equal(list->first, want.first);
    assert_int_equal(list->proofs_count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_true(pccl_proof_equal(&list->proofs[i], &expected[i]));
}

TEST_IN(answers, setup, NULL)
{
    struct pccl_state state;
    init(&state, five, PCCL_COUNT_OF(five));
    struct pccl_proof expected[PCCL_COUNT_OF(five)];
    for (uint32_t t = 0; t < PCCL_COUNT_OF(five); t++)
        expected[t] = state.tensors[t].proof;
    check_list(&state, (struct pccl_msg_state_want){7, PCCL_WANT_ROOTS, 0, 0, 5}, expected, 5);
    check_list(&state, (struct pccl_msg_state_want){7, PCCL_WANT_ROOTS, 1, 0, 2}, expected + 1, 2);
    check_list(&state, (struct pccl_msg_state_want){7, PCCL_WANT_ROOTS, 3, 0, PCCL_STATE_DIGESTS_MAX}, expected + 3, 2);
    check_list(&state, (struct pccl_msg_state_want){7, PCCL_WANT_CHUNKS, 0, 0, 6}, state.proofs, 6);
    check_list(&state, (struct pccl_msg_state_want){7, PCCL_WANT_CHUNKS, 0, 5, 9}, state.proofs + 5, 1);
    check_list(&state, (struct pccl_msg_state_want){7, PCCL_WANT_CHUNKS, 4, 40, 50}, state.proofs + 48, 50);
    for (uint64_t i = 0; i < 6; i++) {
        struct pccl_msg answer;
        assert_int_equal(serve(&state, (struct pccl_msg_state_want){7, PCCL_WANT_DATA, 0, i, 1}, &answer), PCCL_OK);
        assert_int_equal(answer.type, PCCL_MSG_state_data);
        assert_int_equal(answer.as.state_data.round, 7);
        assert_int_equal(answer.as.state_data.tensor, 0);
        assert_int_equal(answer.as.state_data.chunk, i);
        assert_int_equal(answer.as.state_data.length, i < 5 ? CHUNK : 4);
    }
    fini(&state);
}

TEST_IN(nonsense, setup, NULL)
{
    struct pccl_state state, empty;
    init(&state, five, PCCL_COUNT_OF(five));
    assert_int_equal(pccl_state_init(&empty, pccl_kernels_for(0), &memory.memory, NULL, 0), PCCL_OK);
    const struct pccl_msg_state_want wants[] = {
        {6, PCCL_WANT_ROOTS, 0, 0, 1},
        {8, PCCL_WANT_DATA, 0, 0, 1},
        {7, 0, 0, 0, 1},
        {7, 4, 0, 0, 1},
        {7, PCCL_WANT_ROOTS, 5, 0, 1},
        {7, PCCL_WANT_ROOTS, UINT32_MAX, 0, 1},
        {7, PCCL_WANT_ROOTS, 0, 1, 1},
        {7, PCCL_WANT_ROOTS, 0, 0, 0},
        {7, PCCL_WANT_ROOTS, 0, 0, PCCL_STATE_DIGESTS_MAX + 1},
        {7, PCCL_WANT_CHUNKS, 0, 6, 1},
        {7, PCCL_WANT_CHUNKS, 0, UINT64_MAX, 1},
        {7, PCCL_WANT_CHUNKS, 5, 0, 1},
        {7, PCCL_WANT_CHUNKS, 1, 0, 1}, /* an empty tensor */
        {7, PCCL_WANT_CHUNKS, 0, 0, PCCL_STATE_DIGESTS_MAX + 1},
        {7, PCCL_WANT_DATA, 1, 0, 1},
        {7, PCCL_WANT_DATA, 0, 6, 1},
        {7, PCCL_WANT_DATA, 9, 0, 1},
        {7, PCCL_WANT_DATA, 0, 0, 2},
        {7, PCCL_WANT_DATA, 0, 0, 0},
    };
    struct pccl_msg answer;
    for (uint32_t i = 0; i < PCCL_COUNT_OF(wants); i++) {
        assert_int_equal(serve(&state, wants[i], &answer), PCCL_MALFORMED);
        assert_int_equal(serve(&empty, wants[i], &answer), PCCL_MALFORMED);
    }
    pccl_state_fini(&empty);
    fini(&state);
}
