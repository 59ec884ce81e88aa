/* Sessions of a synchronization between each other, over real connections: the bytes that move, and the digests. */
#include "unit.h"
#include "sync_node.h"

enum { CHUNK = NODE_CHUNK };

/* ---- several donors ---- */

enum { DONORS = 3, TENSORS = 5 };
static const size_t sizes[TENSORS] = {3 * CHUNK + 17, 0, 1, CHUNK, 12 * CHUNK + 1};

/* Unaligned, so that a byte before and one behind can be looked at. */
static uint8_t *add_tensors(struct node *node, uint64_t seed)
{
    static const char *const names[TENSORS] = {"a", "empty", "one", "chunk", "large"};
    size_t total = 1;
    for (int i = 0; i < TENSORS; i++)
        total += sizes[i] + 1;
    uint8_t *memory = make(total, seed), *next = memory + 1;
    for (int i = 0; i < TENSORS; i++) {
        (void)node_add(node, names[i], next, sizes[i]);
        next += sizes[i];
        *next++ = 0x5a;
    }
    memory[0] = 0x5a;
    return memory;
}

static void expect_equal(const struct node *a, const struct node *b)
{
    for (uint32_t i = 0; i < a->tensor_count; i++)
        assert_memory_equal(a->tensors[i].data, b->tensors[i].data, a->tensors[i].bytes);
}

TEST(a_newcomer_fetches_from_several)
{
    struct node donors[DONORS], newcomer;
    uint8_t *memory[DONORS + 1];
    uint64_t sent = 0;
    for (uint8_t i = 0; i < DONORS; i++) {
        node_prepare(&donors[i], (uint8_t)(i + 1));
        memory[i] = add_tensors(&donors[i], 1);
        node_begin(&donors[i]);
        node_serve(&donors[i]);
    }
    node_prepare(&newcomer, 9);
    memory[DONORS] = add_tensors(&newcomer, 2);
    node_begin(&newcomer);
    pccl_synchronizer_plan(newcomer.worker, true, false);
    for (int i = 0; i < DONORS; i++)
        node_name_donor(&newcomer, &donors[i]);
    expect_fetched(&newcomer, 1);
    assert_int_equal(newcomer.touched, 1);
    node_stop(&newcomer);
    assert_true(pccl_proof_equal(&newcomer.proof, &donors[0].proof));
    assert_int_equal(newcomer.received, sizes[0] + sizes[2] + sizes[3] + sizes[4]);
    assert_string_equal(newcomer.torn.bytes, "");
    for (int i = 0; i < DONORS; i++) {
        node_stop(&donors[i]);
        expect_equal(&newcomer, &donors[i]);
        sent += donors[i].sent;
    }
    assert_true(sent >= newcomer.received);
    for (int i = 0, at = 0; i < TENSORS; i++) {
        assert_int_equal(memory[DONORS][at], 0x5a);
        at += (int)sizes[i] + 1;
    }
    for (int i = 0; i < DONORS; i++)
        node_finish(&donors[i]);
    node_finish(&newcomer);
    for (int i = 0; i <= DONORS; i++)
        free(memory[i]);
}

TEST(only_what_differs_moves)
{
    enum { CHUNKS = 100 };
    struct node donor, requester;
    uint8_t *good = prepare_one(&donor, 1, CHUNKS * CHUNK, 1), *other = prepare_one(&requester, 2, CHUNKS * CHUNK, 1);
    other[42 * CHUNK + 4711] ^= 1;
    node_begin(&donor);
    node_begin(&requester);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name_donor(&requester, &donor);
    node_serve(&donor); /* its plan arrives after the requester's */
    expect_fetched(&requester, 1);
    node_stop(&requester);
    node_stop(&donor);
    assert_int_equal(requester.received, CHUNK);
    assert_int_equal(donor.sent, CHUNK);
    assert_memory_equal(good, other, CHUNKS * CHUNK);
    node_finish(&requester);
    node_finish(&donor);
    free(good);
    free(other);
}

TEST(nothing_moves_if_all_is_there)
{
    struct node requester;
    uint8_t *bytes = prepare_one(&requester, 2, 3 * CHUNK, 1);
    node_begin(&requester);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_until_count(&requester, &requester.proven, 1);
    node_name_donor(&requester, &requester);
    expect_fetched(&requester, 1);
    assert_int_equal(requester.touched, 0);
    node_finish(&requester);
    free(bytes);
}

TEST(tensors_that_need_not_be_equal_come_from_one)
{
    struct node donors[2], requester;
    uint8_t *memory[3];
    for (uint8_t i = 0; i < 3; i++) {
        struct node *node = i < 2 ? &donors[i] : &requester;
        node_prepare(node, (uint8_t)(i + 1));
        memory[i] = make(8 * CHUNK, i < 2 ? 1 : 3);
        fill(memory[i] + 4 * CHUNK, 4 * CHUNK, i + 100);
        (void)node_add(node, "equal", memory[i], 4 * CHUNK);
        node_add(node, "own", memory[i] + 4 * CHUNK, 4 * CHUNK)->unequal = true;
        node_begin(node);
    }
    assert_true(pccl_proof_equal(&donors[0].proof, &donors[1].proof));
    for (int i = 0; i < 2; i++)
        node_serve(&donors[i]);
    pccl_synchronizer_plan(requester.worker, true, true);
    for (int i = 0; i < 2; i++)
        node_name_donor(&requester, &donors[i]);
    expect_fetched(&requester, 1);
    node_stop(&requester);
    assert_memory_equal(memory[2], memory[0], 4 * CHUNK);
    bool first = memcmp(memory[2] + 4 * CHUNK, memory[0] + 4 * CHUNK, 4 * CHUNK) == 0;
    bool second = memcmp(memory[2] + 4 * CHUNK, memory[1] + 4 * CHUNK, 4 * CHUNK) == 0;
    assert_true(first || second);
    node_finish(&requester);
    for (int i = 0; i < 2; i++)
        node_finish(&donors[i]);
    for (int i = 0; i < 3; i++)
        free(memory[i]);
}

TEST(many_small_tensors)
{
    enum { MANY = 3000, BYTES = 40 };
    struct node donor, requester;
    static struct pccl_sync_tensor tensors[2][MANY];
    uint8_t *memory[2];
    for (int n = 0; n < 2; n++) {
        memory[n] = make(MANY * BYTES, (uint64_t)n + 1);
        for (int i = 0; i < MANY; i++)
            tensors[n][i] = (struct pccl_sync_tensor){
                .name = "t", .data = memory[n] + i * BYTES, .count = BYTES, .bytes = BYTES, .datatype = 1};
        struct node *node = n == 0 ? &donor : &requester;
        node_prepare(node, (uint8_t)(n + 1));
        node->many = tensors[n];
        node->tensor_count = MANY;
        node_begin(node);
    }
    node_serve(&donor);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name_donor(&requester, &donor);
    expect_fetched(&requester, 1);
    node_finish(&requester);
    node_finish(&donor);
    assert_memory_equal(memory[0], memory[1], MANY * BYTES);
    free(memory[0]);
    free(memory[1]);
}

TEST(who_has_fetched_serves)
{
    struct node first, second, third;
    uint8_t *a = prepare_one(&first, 1, 5 * CHUNK, 1), *b = prepare_one(&second, 2, 5 * CHUNK, 2),
            *c = prepare_one(&third, 3, 5 * CHUNK, 3);
    node_begin(&first);
    node_begin(&second);
    node_begin(&third);
    node_serve(&first);
    pccl_synchronizer_plan(second.worker, true, false);
    node_name_donor(&second, &first);
    expect_fetched(&second, 1);
    node_finish(&first);
    pccl_synchronizer_plan(third.worker, true, false);
    second.proof = first.proof;
    node_name_donor(&third, &second);
    expect_fetched(&third, 1);
    node_stop(&third);
    assert_memory_equal(a, c, 5 * CHUNK);
    node_finish(&third);
    node_finish(&second);
    free(a);
    free(b);
    free(c);
}

/* ---- digests ---- */

TEST(threads_digest_as_one_does)
{
    static const uint32_t counts[] = {1, 2, 3, 64, 0};
    struct node nodes[PCCL_COUNT_OF(counts)];
    uint8_t *memory = make(100 * CHUNK + 3, 1);
    for (size_t i = 0; i < PCCL_COUNT_OF(counts); i++) {
        node_prepare(&nodes[i], (uint8_t)(i + 1));
        nodes[i].threads = counts[i];
        (void)node_add(&nodes[i], "a", memory, 70 * CHUNK + 1);
        (void)node_add(&nodes[i], "nothing", NULL, 0);
        (void)node_add(&nodes[i], "b", memory + 70 * CHUNK + 1, 30 * CHUNK + 2);
        node_begin(&nodes[i]);
        const struct pccl_state *s = pccl_synchronizer_state(nodes[i].worker);
        for (uint32_t t = 0; t < 3; t++)
            for (uint64_t c = 0; c < s->tensors[t].chunks; c++) {
                struct pccl_digest digest =
                    pccl_digest_bytes(pccl_kernels_for(0), (uint8_t *)nodes[i].tensors[t].data + c * CHUNK,
                                      pccl_state_chunk_length(&s->tensors[t], c));
                assert_true(pccl_digest_equal(&digest, &s->chunks[s->tensors[t].first_chunk + c]));
            }
        assert_true(pccl_proof_equal(&nodes[i].proof, &nodes[0].proof));
    }
    for (size_t i = 0; i < PCCL_COUNT_OF(counts); i++)
        node_finish(&nodes[i]);
    free(memory);
}

TEST(too_many_tensors_are_refused)
{
    struct pccl_sync_config config = {.kernels = pccl_kernels_for(0), .tensor_count = PCCL_TENSORS_MAX + 1};
    struct pccl_worker *synchronizer;
    struct pccl_text reason;
    assert_int_equal(pccl_synchronizer_create(&config, &synchronizer, &reason), PCCL_LIMIT);
    assert_non_null(strstr(reason.bytes, "65536"));
}
