/*
 * device/: memory of devices against the driver of fake_cuda.h: which devices there are, copies,
 * and every call that fails.
 */
#include "unit.h"
#include "device/device.h"
#include "fake_cuda.h"
#include "support.h"

enum { CHUNK = PCCL_STATE_CHUNK_BYTES, BUFFERS = PCCL_DEVICE_BUFFERS };

static struct test_memory heap;
static struct pccl_text words;

static struct pccl_device *open_device(int devices)
{
    struct pccl_device *device = NULL;
    test_memory_init(&heap);
    pccl_text_clear(&words);
    fake_cuda_begin(devices);
    assert_int_equal(pccl_device_over(&fake_cuda_driver, &device, &words), PCCL_OK);
    return device;
}

static void assert_all_well(void)
{
    const char *wrong = fake_cuda_end();
    if (wrong != NULL)
        fail_msg("%s", wrong);
    assert_int_equal(heap.live_blocks, 0);
}

static void close_device(struct pccl_device *device)
{
    pccl_device_close(device);
    assert_all_well();
}

static struct pccl_device_copier *open_copier(struct pccl_device *device, const void *memory)
{
    struct pccl_device_copier *copier = NULL;
    assert_int_equal(pccl_device_copier_open(device, memory, &heap.memory, &copier, &words), PCCL_OK);
    return copier;
}

static bool says(const char *part) { return strstr(words.bytes, part) != NULL; }

static void fill(uint8_t *bytes, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)((i * 2654435761U + seed) >> 11);
}

/* ---- opening ---- */

TEST(test_there_is_no_device)
{
    struct pccl_device *device = NULL;
    test_memory_init(&heap);
    fake_cuda_begin(-1);
    assert_int_equal(pccl_device_over(&fake_cuda_driver, &device, &words), PCCL_UNSUPPORTED);
    assert_true(says("cuInit") && says("CUDA_ERROR_NO_DEVICE"));
    fake_cuda_begin(0);
    assert_int_equal(pccl_device_over(&fake_cuda_driver, &device, &words), PCCL_UNSUPPORTED);
    assert_true(says("no device"));
    fake_cuda_begin(1);
    fake_cuda_fail(PCCL_CUDA_device_get_count, 1, FAKE_CUDA_NAMELESS);
    assert_int_equal(pccl_device_over(&fake_cuda_driver, &device, &words), PCCL_UNSUPPORTED);
    assert_true(says("cuDeviceGetCount failed: CUDA error 12345"));
    assert_null(device);
    assert_all_well();
}

/* Whether this machine has a driver or not: the same answer each time, and a reason if it is no. */
TEST(test_driver_of_the_system)
{
    struct pccl_device *first = NULL, *second = NULL;
    pccl_text_clear(&words);
    enum pccl_status status = pccl_device_cuda(&first, &words);
    struct pccl_text before = words;
    pccl_text_clear(&words);
    assert_int_equal(pccl_device_cuda(&second, &words), status);
    assert_string_equal(words.bytes, before.bytes);
    assert_ptr_equal(first, second);
    if (status == PCCL_OK) {
        assert_non_null(first);
    } else {
        assert_int_equal(status, PCCL_UNSUPPORTED);
        assert_null(first);
        assert_true(says("CUDA") || says("cu"));
    }
}

/* ---- pointers ---- */

TEST(test_ranges)
{
    struct pccl_device *device = open_device(2);
    uint8_t *memory = fake_cuda_memory(1, FAKE_CUDA_DEVICE, 1000);
    assert_int_equal(pccl_device_check(device, memory, 1000, &words), PCCL_OK);
    assert_int_equal(pccl_device_check(device, memory + 999, 1, &words), PCCL_OK);
    assert_int_equal(pccl_device_check(device, memory + 400, 600, &words), PCCL_OK);

    assert_int_equal(pccl_device_check(device, memory, 1001, &words), PCCL_ARGUMENT);
    assert_true(says("1001 bytes") && says("1000 bytes"));
    assert_int_equal(pccl_device_check(device, memory + 400, 601, &words), PCCL_ARGUMENT);
    assert_true(says("600 bytes"));
    assert_int_equal(pccl_device_check(device, memory + 999, UINT64_MAX, &words), PCCL_ARGUMENT);
    assert_int_equal(pccl_device_check(device, memory + 1000, 1, &words), PCCL_ARGUMENT);
    assert_true(says("does not know it"));

    fake_cuda_free(memory);
    assert_int_equal(pccl_device_check(device, memory, 1, &words), PCCL_ARGUMENT);
    assert_int_equal(pccl_device_check(device, memory, 0, &words), PCCL_OK); /* an empty tensor's */
    assert_int_equal(pccl_device_check(device, NULL, 0, &words), PCCL_OK);
    assert_int_equal(pccl_device_check(device, NULL, 1, &words), PCCL_ARGUMENT);
    close_device(device);
}

TEST(test_kinds_of_memory)
{
    struct pccl_device *device = open_device(2);
    uint8_t of_host[8], *managed = fake_cuda_memory(1, FAKE_CUDA_MANAGED, 64);
    assert_int_equal(pccl_device_check(device, managed + 4, 60, &words), PCCL_OK);
    assert_int_equal(pccl_device_check(device, managed + 4, 61, &words), PCCL_ARGUMENT);
    assert_int_equal(pccl_device_check(device, of_host, sizeof of_host, &words), PCCL_ARGUMENT);
    assert_true(says("does not know it"));

    /* A copier's buffers are page-locked: the driver knows them, but they are the host's. */
    struct pccl_device_copier *copier = open_copier(device, managed), *none = NULL;
    const uint8_t *buffer = pccl_device_copier_buffer(copier, 0);
    assert_int_equal(pccl_device_check(device, buffer, 1, &words), PCCL_ARGUMENT);
    assert_true(says("page-locked memory of the host"));
    assert_int_equal(pccl_device_copier_open(device, buffer, &heap.memory, &none, &words), PCCL_ARGUMENT);
    assert_int_equal(pccl_device_copier_open(device, of_host, &heap.memory, &none, &words), PCCL_ARGUMENT);
    assert_null(none);
    pccl_device_copier_close(copier);
    fake_cuda_free(managed);
    close_device(device);
}

TEST(test_driver_does_not_answer)
{
    struct pccl_device *device = open_device(1);
    uint8_t *memory = fake_cuda_memory(0, FAKE_CUDA_MANAGED, 64);
    for (uint64_t n = 1; n <= 4; n++) {
        fake_cuda_fail(PCCL_CUDA_pointer_get_attribute, n, FAKE_CUDA_ILLEGAL_ADDRESS);
        assert_int_equal(pccl_device_check(device, memory, 64, &words), PCCL_SYSTEM);
        assert_string_equal(words.bytes,
                            "cuPointerGetAttribute failed: CUDA_ERROR_ILLEGAL_ADDRESS (words of the driver)");
    }
    assert_int_equal(pccl_device_check(device, memory, 64, &words), PCCL_OK);
    fake_cuda_free(memory);
    close_device(device);
}

/* ---- copies ---- */

/* There and back through a copier; *copier's buffers hold the bytes afterward. */
static void carry(struct pccl_device_copier *copier, uint8_t *memory, size_t bytes, uint32_t seed)
{
    uint8_t *there = pccl_device_copier_buffer(copier, 1), *back = pccl_device_copier_buffer(copier, 3);
    fill(there, bytes, seed);
    assert_int_equal(pccl_device_write(copier, 1, memory, bytes, &words), PCCL_OK);
    assert_int_equal(pccl_device_wait(copier, 1, &words), PCCL_OK);
    assert_memory_equal(memory, there, bytes);
    assert_int_equal(pccl_device_read(copier, 3, memory, bytes, &words), PCCL_OK);
    assert_int_equal(pccl_device_wait(copier, 3, &words), PCCL_OK);
    assert_memory_equal(back, there, bytes);
}

TEST(test_sizes_and_offsets)
{
    static const size_t sizes[] = {1, 2, 3, 7, 8, 9, 63, 64, 65, 4095, 4096, 4097, CHUNK / 2 + 1, CHUNK - 1, CHUNK};
    enum { ROOM = CHUNK + 64 };
    struct pccl_device *device = open_device(3);
    static const enum fake_cuda_kind kinds[] = {FAKE_CUDA_DEVICE, FAKE_CUDA_MANAGED};
    for (size_t k = 0; k < PCCL_COUNT_OF(kinds); k++) {
        uint8_t *memory = fake_cuda_memory(2, kinds[k], ROOM);
        struct pccl_device_copier *copier = open_copier(device, memory);
        for (size_t i = 0; i < PCCL_COUNT_OF(sizes); i++)
            for (size_t offset = 0; offset < 64; offset += sizes[i] < 100 ? 1 : 13) {
                memset(memory, 0x11, ROOM);
                carry(copier, memory + offset, sizes[i], (uint32_t)(i * 64 + offset));
                for (size_t at = 0; at < offset; at++)
                    assert_int_equal(memory[at], 0x11);
                assert_int_equal(memory[offset + sizes[i]], 0x11);
            }
        assert_int_equal(pccl_device_read(copier, 0, memory, 0, &words), PCCL_OK);
        assert_int_equal(pccl_device_wait(copier, 0, &words), PCCL_OK);
        pccl_device_copier_close(copier);
        fake_cuda_free(memory);
    }
    close_device(device);
}

/*
 * A copy is only begun by read and write: the content comes with the wait, and waits do not wait
 * for later copies.
 */
TEST(test_several_buffers_at_once)
{
    struct pccl_device *device = open_device(1);
    uint8_t *memory = fake_cuda_memory(0, FAKE_CUDA_DEVICE, (size_t)BUFFERS * CHUNK);
    struct pccl_device_copier *copier = open_copier(device, memory);
    fill(memory, (size_t)BUFFERS * CHUNK, 7);
    for (uint32_t i = 0; i < BUFFERS; i++)
        assert_int_equal(pccl_device_read(copier, i, memory + (size_t)i * CHUNK, CHUNK, &words), PCCL_OK);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        const uint8_t *buffer = pccl_device_copier_buffer(copier, i);
        for (size_t at = 0; at < CHUNK; at += 1000)
            assert_int_equal(buffer[at], FAKE_CUDA_GARBAGE);
        assert_int_equal(pccl_device_wait(copier, i, &words), PCCL_OK);
        assert_memory_equal(buffer, memory + (size_t)i * CHUNK, CHUNK);
    }
    for (uint32_t i = 0; i < BUFFERS; i++) {
        memset(pccl_device_copier_buffer(copier, i), (int)(i + 1), CHUNK);
        assert_int_equal(pccl_device_write(copier, i, memory + (size_t)i * CHUNK, CHUNK, &words), PCCL_OK);
    }
    /* The third is waited for first; those before it are done then, too, and the fourth is not. */
    uint8_t fourth = memory[(size_t)3 * CHUNK];
    assert_int_equal(pccl_device_wait(copier, 2, &words), PCCL_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(memory[(size_t)i * CHUNK + 5], i + 1);
    assert_int_equal(memory[(size_t)3 * CHUNK], fourth);
    for (uint32_t i = 0; i < BUFFERS; i++)
        assert_int_equal(pccl_device_wait(copier, i, &words), PCCL_OK);
    assert_int_equal(memory[(size_t)3 * CHUNK], 4);
    pccl_device_copier_close(copier);
    fake_cuda_free(memory);
    close_device(device);
}

/* Copies happen in the order in which they were begun: a read sees the write before it. */
TEST(test_order)
{
    struct pccl_device *device = open_device(1);
    uint8_t *memory = fake_cuda_memory(0, FAKE_CUDA_DEVICE, 100);
    struct pccl_device_copier *copier = open_copier(device, memory);
    memset(pccl_device_copier_buffer(copier, 0), 0x42, 100);
    assert_int_equal(pccl_device_write(copier, 0, memory, 100, &words), PCCL_OK);
    assert_int_equal(pccl_device_read(copier, 1, memory, 100, &words), PCCL_OK);
    assert_int_equal(pccl_device_wait(copier, 1, &words), PCCL_OK);
    assert_memory_equal(pccl_device_copier_buffer(copier, 1), pccl_device_copier_buffer(copier, 0), 100);
    pccl_device_copier_close(copier);
    fake_cuda_free(memory);
    close_device(device);
}

TEST(test_closing_waits)
{
    struct pccl_device *device = open_device(1);
    uint8_t *memory = fake_cuda_memory(0, FAKE_CUDA_DEVICE, 100);
    struct pccl_device_copier *copier = open_copier(device, memory);
    memset(pccl_device_copier_buffer(copier, 0), 0x42, 100);
    assert_int_equal(pccl_device_write(copier, 0, memory, 100, &words), PCCL_OK);
    assert_int_equal(pccl_device_read(copier, 1, memory, 100, &words), PCCL_OK);
    assert_int_equal(memory[99], 0);
    pccl_device_copier_close(copier);
    assert_int_equal(memory[99], 0x42);
    fake_cuda_free(memory);
    close_device(device);
}

TEST(test_work_of_the_caller_is_waited_for)
{
    struct pccl_device *device = open_device(2);
    uint8_t *memory = fake_cuda_memory(1, FAKE_CUDA_DEVICE, 100);
    fake_cuda_fill_later(1, memory, 0x77, 100);
    assert_int_equal(memory[0], 0);
    struct pccl_device_copier *copier = open_copier(device, memory);
    assert_int_equal(pccl_device_read(copier, 0, memory, 100, &words), PCCL_OK);
    assert_int_equal(pccl_device_wait(copier, 0, &words), PCCL_OK);
    assert_int_equal(pccl_device_copier_buffer(copier, 0)[99], 0x77);
    pccl_device_copier_close(copier);
    fake_cuda_free(memory);
    close_device(device);
}

/* The caller has a context of another device current: it stays that, through everything. */
TEST(test_context_of_the_caller)
{
    struct pccl_device *device = open_device(2);
    struct pccl_cuda_context *callers, *popped;
    assert_int_equal(fake_cuda_driver.primary_retain(&callers, 100), 0);
    assert_int_equal(fake_cuda_driver.ctx_push(callers), 0);
    uint8_t *memory = fake_cuda_memory(1, FAKE_CUDA_DEVICE, 100);
    struct pccl_device_copier *copier = open_copier(device, memory);
    assert_ptr_equal(fake_cuda_current(), callers);
    carry(copier, memory, 100, 1);
    assert_ptr_equal(fake_cuda_current(), callers);
    pccl_device_copier_close(copier);
    assert_int_equal(fake_cuda_depth, 1);
    assert_int_equal(fake_cuda_driver.ctx_pop(&popped), 0);
    assert_ptr_equal(popped, callers);
    assert_int_equal(fake_cuda_driver.primary_release(100), 0);
    fake_cuda_free(memory);
    close_device(device);
}

/* ---- threads ---- */

enum { THREADS = 6, ROUNDS = 40, SLICE = 50021 };

struct worker {
    pthread_t thread;
    struct pccl_device *device;
    struct test_memory heap;
    uint8_t *memory; /* this thread's slice */
    uint32_t number;
    const char *wrong;
};

static const char *work_round(struct worker *worker, struct pccl_device_copier *copier, uint32_t round)
{
    struct pccl_text reason;
    uint32_t out = round % BUFFERS, in = (round + 1) % BUFFERS;
    size_t bytes = SLICE - round * 17;
    fill(pccl_device_copier_buffer(copier, out), bytes, worker->number * 1000 + round);
    if (pccl_device_write(copier, out, worker->memory + round, bytes, &reason) != PCCL_OK ||
        pccl_device_read(copier, in, worker->memory + round, bytes, &reason) != PCCL_OK)
        return "a copy was not begun";
    if (pccl_device_wait(copier, in, &reason) != PCCL_OK || pccl_device_wait(copier, out, &reason) != PCCL_OK)
        return "a copy failed";
    if (memcmp(pccl_device_copier_buffer(copier, in), pccl_device_copier_buffer(copier, out), bytes) != 0)
        return "the bytes are others";
    return NULL;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct pccl_device_copier *copier = NULL;
    struct pccl_text reason;
    if (pccl_device_check(worker->device, worker->memory, SLICE, &reason) != PCCL_OK ||
        pccl_device_copier_open(worker->device, worker->memory, &worker->heap.memory, &copier, &reason) != PCCL_OK) {
        worker->wrong = "the copier was not opened";
        return NULL;
    }
    for (uint32_t round = 0; round < ROUNDS && worker->wrong == NULL; round++)
        worker->wrong = work_round(worker, copier, round);
    pccl_device_copier_close(copier);
    if (fake_cuda_depth != 0)
        worker->wrong = "a context is still current";
    return NULL;
}

TEST(test_copiers_in_threads)
{
    static struct worker workers[THREADS];
    struct pccl_device *device = open_device(2);
    uint8_t *memories[2];
    for (int i = 0; i < 2; i++)
        memories[i] = fake_cuda_memory(i, FAKE_CUDA_DEVICE, (size_t)THREADS * SLICE);
    for (uint32_t i = 0; i < THREADS; i++) {
        struct worker *worker = &workers[i];
        *worker = (struct worker){.device = device, .number = i, .memory = memories[i % 2] + (size_t)i * SLICE};
        test_memory_init(&worker->heap);
        assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        if (workers[i].wrong != NULL)
            fail_msg("thread %u: %s", (unsigned)i, workers[i].wrong);
        assert_int_equal(workers[i].heap.live_blocks, 0);
    }
    fake_cuda_free(memories[0]);
    fake_cuda_free(memories[1]);
    close_device(device);
}

/* A copier may go from one thread to another. */
static void *use_elsewhere(void *argument)
{
    struct pccl_device_copier *copier = argument;
    struct pccl_text reason;
    enum pccl_status status = pccl_device_wait(copier, 0, &reason);
    pccl_device_copier_close(copier);
    return status == PCCL_OK && fake_cuda_depth == 0 ? copier : NULL;
}

TEST(test_copier_changes_threads)
{
    struct pccl_device *device = open_device(1);
    uint8_t *memory = fake_cuda_memory(0, FAKE_CUDA_DEVICE, 100);
    struct pccl_device_copier *copier = open_copier(device, memory);
    memset(pccl_device_copier_buffer(copier, 0), 9, 100);
    assert_int_equal(pccl_device_write(copier, 0, memory, 100, &words), PCCL_OK);
    pthread_t thread;
    void *outcome = NULL;
    assert_int_equal(pthread_create(&thread, NULL, use_elsewhere, copier), 0);
    assert_int_equal(pthread_join(thread, &outcome), 0);
    assert_non_null(outcome);
    assert_int_equal(memory[50], 9);
    fake_cuda_free(memory);
    close_device(device);
}

/* ---- failures ---- */

/* Everything a device can be asked for, up to the first failure; the copier is closed in any case. */
static enum pccl_status whole_life(const uint8_t *memory, uint8_t *target)
{
    struct pccl_device *device = NULL;
    struct pccl_device_copier *copier = NULL;
    enum pccl_status status = pccl_device_over(&fake_cuda_driver, &device, &words);
    if (status != PCCL_OK)
        return status;
    status = pccl_device_check(device, memory, CHUNK, &words);
    if (status == PCCL_OK)
        status = pccl_device_copier_open(device, memory, &heap.memory, &copier, &words);
    for (uint32_t i = 0; i < 2 && status == PCCL_OK; i++)
        status = pccl_device_read(copier, i, memory + (size_t)i * 100, 100, &words);
    for (uint32_t i = 0; i < 2 && status == PCCL_OK; i++)
        status = pccl_device_wait(copier, i, &words);
    for (uint32_t i = 0; i < 2 && status == PCCL_OK; i++)
        status = pccl_device_write(copier, i, target + (size_t)i * 100, 100, &words);
    if (status == PCCL_OK)
        status = pccl_device_wait(copier, 0, &words);
    if (copier != NULL)
        pccl_device_copier_close(copier);
    pccl_device_close(device);
    return status;
}

static void one_failure(enum pccl_cuda_function function, uint64_t n, int result, bool *while_closing)
{
    test_memory_init(&heap);
    pccl_text_clear(&words);
    fake_cuda_begin(2);
    uint8_t *memory = fake_cuda_memory(1, FAKE_CUDA_MANAGED, CHUNK);
    uint8_t *target = fake_cuda_memory(1, FAKE_CUDA_DEVICE, CHUNK);
    fake_cuda_fail(function, n, result);
    enum pccl_status status = whole_life(memory, target);
    assert_int_equal(fake_cuda.fail_in, 0);
    assert_int_equal(fake_cuda_depth, 0);
    *while_closing = status == PCCL_OK;
    if (function == PCCL_CUDA_init || function == PCCL_CUDA_device_get_count) {
        assert_int_equal(status, PCCL_UNSUPPORTED);
    } else if (status != PCCL_OK) {
        assert_int_equal(status, result == PCCL_CUDA_OUT_OF_MEMORY ? PCCL_MEMORY : PCCL_SYSTEM);
    } else if (function == PCCL_CUDA_ctx_push) {
        fake_cuda_reset(1); /* the driver would do so: see pccl_device_copier_close */
    }
    if (status != PCCL_OK) {
        assert_true(says(pccl_cuda_symbol(function)));
        assert_true(says(fake_cuda_error_name(result)));
    }
    fake_cuda_free(memory);
    fake_cuda_free(target);
    assert_all_well();
}

TEST(test_each_call_fails)
{
    static const int results[] = {PCCL_CUDA_OUT_OF_MEMORY, FAKE_CUDA_ILLEGAL_ADDRESS};
    uint64_t calls[PCCL_CUDA_FUNCTION_COUNT], failures = 0, closing = 0;
    struct pccl_device *device = open_device(2);
    uint8_t *memory = fake_cuda_memory(1, FAKE_CUDA_MANAGED, CHUNK);
    pccl_device_close(device);
    memset(fake_cuda.calls, 0, sizeof fake_cuda.calls);
    assert_int_equal(whole_life(memory, memory), PCCL_OK);
    memcpy(calls, fake_cuda.calls, sizeof calls);
    fake_cuda_free(memory);
    assert_all_well();
    for (unsigned function = 0; function < PCCL_CUDA_FUNCTION_COUNT; function++) {
        if (function == PCCL_CUDA_get_error_name || function == PCCL_CUDA_get_error_string)
            continue;
        assert_true(calls[function] > 0);
        for (uint64_t n = 1; n <= calls[function]; n++)
            for (size_t i = 0; i < PCCL_COUNT_OF(results); i++) {
                bool while_closing;
                one_failure((enum pccl_cuda_function)function, n, results[i], &while_closing);
                failures++;
                closing += while_closing;
            }
    }
    assert_true(failures > 60);
    /* stream: wait, destroy; events: destroy; buffers: free; context: push, pop, release */
    assert_int_equal(closing, (2 + BUFFERS + 1 + 3) * PCCL_COUNT_OF(results));
}

/* The driver has no text for its error: the number is given. */
TEST(test_words_fail)
{
    struct pccl_device *device = open_device(1);
    uint8_t *memory = fake_cuda_memory(0, FAKE_CUDA_DEVICE, 100);
    struct pccl_device_copier *copier = open_copier(device, memory);
    fake_cuda_fail(PCCL_CUDA_copy_to_host, 1, FAKE_CUDA_NAMELESS);
    assert_int_equal(pccl_device_read(copier, 0, memory, 100, &words), PCCL_SYSTEM);
    assert_string_equal(words.bytes, "cuMemcpyDtoHAsync_v2 failed: CUDA error 12345");
    pccl_device_copier_close(copier);
    fake_cuda_free(memory);
    close_device(device);
}

TEST(test_memory_runs_out)
{
    struct pccl_device *device = open_device(1);
    struct pccl_device_copier *copier = NULL;
    uint8_t *memory = fake_cuda_memory(0, FAKE_CUDA_DEVICE, 100);
    heap.fail_at = 1;
    assert_int_equal(pccl_device_copier_open(device, memory, &heap.memory, &copier, &words), PCCL_MEMORY);
    assert_true(says("out of memory"));
    assert_null(copier);
    fake_cuda_free(memory);
    close_device(device);
}

/*
 * The context is destroyed under an open copier: that is an error with a reason, and closing does not
 * touch the context.
 */
TEST(test_context_is_destroyed)
{
    struct pccl_device *device = open_device(1);
    uint8_t *memory = fake_cuda_memory(0, FAKE_CUDA_DEVICE, 100);
    struct pccl_device_copier *copier = open_copier(device, memory);
    assert_int_equal(pccl_device_read(copier, 0, memory, 100, &words), PCCL_OK);
    fake_cuda_reset(0);
    assert_int_equal(pccl_device_wait(copier, 0, &words), PCCL_SYSTEM);
    assert_true(says("cuCtxPushCurrent_v2") && says("CUDA_ERROR_CONTEXT_IS_DESTROYED"));
    assert_int_equal(pccl_device_read(copier, 1, memory, 100, &words), PCCL_SYSTEM);
    pccl_device_copier_close(copier);
    fake_cuda_free(memory);
    close_device(device);
}

/* The fake itself notices: a buffer used while its copy runs. */
TEST(test_fake_notices_a_race)
{
    struct pccl_device *device = open_device(1);
    uint8_t *memory = fake_cuda_memory(0, FAKE_CUDA_DEVICE, 100);
    struct pccl_device_copier *copier = open_copier(device, memory);
    assert_int_equal(pccl_device_write(copier, 0, memory, 100, &words), PCCL_OK);
    pccl_device_copier_buffer(copier, 0)[3] ^= 1;
    assert_int_equal(pccl_device_wait(copier, 0, &words), PCCL_OK);
    pccl_device_copier_close(copier);
    fake_cuda_free(memory);
    pccl_device_close(device);
    assert_string_equal(fake_cuda_end(), "memory changed while it was being copied");
}
