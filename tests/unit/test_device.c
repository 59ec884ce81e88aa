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
static struct pccl_device *device;
static uint8_t *memory;
static struct pccl_device_copier *copier; /* copier of `memory` */

static void open_device(int devices)
{
    test_memory_init(&heap);
    pccl_text_clear(&words);
    fake_cuda_begin(devices);
    assert_int_equal(pccl_device_over(&fake_cuda_driver, &device, &words), PCCL_OK);
}

static void assert_all_well(void)
{
    const char *wrong = fake_cuda_end();
    if (wrong != NULL)
        fail_msg("%s", wrong);
    assert_int_equal(heap.live_blocks, 0);
}

static enum pccl_status open_copier(const void *pointer)
{
    return pccl_device_copier_open(device, pointer, &heap.memory, &copier, &words);
}

/* Takes memory of the last device, and opens a copier for it. */
static void begin(int devices, enum fake_cuda_kind kind, size_t bytes)
{
    open_device(devices);
    memory = fake_cuda_memory(devices - 1, kind, bytes);
    assert_int_equal(open_copier(memory), PCCL_OK);
}

static void close_all(void)
{
    if (copier != NULL)
        pccl_device_copier_close(copier);
    copier = NULL;
    fake_cuda_free(memory);
    pccl_device_close(device);
}

static void end(void)
{
    close_all();
    assert_all_well();
}

static uint8_t *buffer(uint32_t number) { return pccl_device_copier_buffer(copier, number); }

static void starts_read(uint32_t number, const uint8_t *from, size_t bytes)
{
    assert_int_equal(pccl_device_read(copier, number, from, bytes, &words), PCCL_OK);
}

static void starts_write(uint32_t number, uint8_t *to, size_t bytes)
{
    assert_int_equal(pccl_device_write(copier, number, to, bytes, &words), PCCL_OK);
}

static void waits(uint32_t number) { assert_int_equal(pccl_device_wait(copier, number, &words), PCCL_OK); }

static bool says(const char *part) { return strstr(words.bytes, part) != NULL; }

static void fill(uint8_t *bytes, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)((i * 2654435761U + seed) >> 11);
}

/* ---- opening ---- */

TEST(test_there_is_no_device)
{
    static const struct {
        int devices, failure;
        const char *words[2];
    } rows[] = {{-1, 0, {"cuInit", "CUDA_ERROR_NO_DEVICE"}},
                {0, 0, {"no device", ""}},
                {1, FAKE_CUDA_NAMELESS, {"cuDeviceGetCount failed: CUDA error 12345", ""}}};
    struct pccl_device *none = NULL;
    test_memory_init(&heap);
    for (size_t i = 0; i < PCCL_COUNT_OF(rows); i++) {
        fake_cuda_begin(rows[i].devices);
        if (rows[i].failure != 0)
            fake_cuda_fail(PCCL_CUDA_device_get_count, 1, rows[i].failure);
        assert_int_equal(pccl_device_over(&fake_cuda_driver, &none, &words), PCCL_UNSUPPORTED);
        assert_true(says(rows[i].words[0]) && says(rows[i].words[1]));
    }
    assert_null(none);
    assert_all_well();
}

/* With or without a driver on this machine: the same answer each time, and a reason if there is none. */
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
    assert_int_equal(status, first != NULL ? PCCL_OK : PCCL_UNSUPPORTED);
    assert_true(first != NULL || says("CUDA") || says("cu"));
}

/* ---- pointers ---- */

static void is_judged(const uint8_t *pointer, uint64_t bytes, const char *why)
{
    pccl_text_clear(&words);
    assert_int_equal(pccl_device_check(device, pointer, bytes, &words), why != NULL ? PCCL_ARGUMENT : PCCL_OK);
    if (why != NULL && !says(why))
        fail_msg("'%s' is not in: %s", why, words.bytes);
}

TEST(test_ranges)
{
    static const struct {
        size_t at;
        uint64_t bytes;
        const char *why; /* NULL: the memory is valid */
    } rows[] = {{0, 1000, NULL},
                {999, 1, NULL},
                {400, 600, NULL},
                {0, 1001, "1001 bytes"},
                {0, 1001, "1000 available"},
                {400, 601, "600 available"},
                {999, UINT64_MAX, ""},
                {1000, 1, "unknown to"}};
    open_device(2);
    memory = fake_cuda_memory(1, FAKE_CUDA_DEVICE, 1000);
    for (size_t i = 0; i < PCCL_COUNT_OF(rows); i++)
        is_judged(memory + rows[i].at, rows[i].bytes, rows[i].why);
    fake_cuda_free(memory);
    is_judged(memory, 1, "");
    is_judged(memory, 0, NULL); /* an empty tensor's */
    is_judged(NULL, 0, NULL);
    is_judged(NULL, 1, "");
    pccl_device_close(device);
    assert_all_well();
}

TEST(test_kinds_of_memory)
{
    uint8_t of_host[8];
    begin(2, FAKE_CUDA_MANAGED, 64);
    is_judged(memory + 4, 60, NULL);
    is_judged(memory + 4, 61, "");
    is_judged(of_host, sizeof of_host, "unknown to");

    /* A copier's buffers are page-locked: the driver knows them, but they are the host's. */
    const uint8_t *locked = buffer(0);
    struct pccl_device_copier *ours = copier;
    is_judged(locked, 1, "page-locked host memory");
    copier = NULL;
    assert_int_equal(open_copier(locked), PCCL_ARGUMENT);
    assert_int_equal(open_copier(of_host), PCCL_ARGUMENT);
    assert_null(copier);
    copier = ours;
    end();
}

TEST(test_driver_does_not_answer)
{
    begin(1, FAKE_CUDA_MANAGED, 64);
    for (uint64_t n = 1; n <= 4; n++) {
        fake_cuda_fail(PCCL_CUDA_pointer_get_attribute, n, FAKE_CUDA_ILLEGAL_ADDRESS);
        assert_int_equal(pccl_device_check(device, memory, 64, &words), PCCL_SYSTEM);
        assert_string_equal(words.bytes,
                            "cuPointerGetAttribute failed: CUDA_ERROR_ILLEGAL_ADDRESS (words of the driver)");
    }
    is_judged(memory, 64, NULL);
    end();
}

/* ---- copies ---- */

/* Copies bytes to the device and back through the copier, whose buffers hold the bytes afterward. */
static void carry(uint8_t *target, size_t bytes, uint32_t seed)
{
    fill(buffer(1), bytes, seed);
    starts_write(1, target, bytes);
    waits(1);
    assert_memory_equal(target, buffer(1), bytes);
    starts_read(3, target, bytes);
    waits(3);
    assert_memory_equal(buffer(3), buffer(1), bytes);
}

TEST(test_sizes_and_offsets)
{
    static const size_t sizes[] = {1, 2, 3, 7, 8, 9, 63, 64, 65, 4095, 4096, 4097, CHUNK / 2 + 1, CHUNK - 1, CHUNK};
    enum { ROOM = CHUNK + 64 };
    static const enum fake_cuda_kind kinds[] = {FAKE_CUDA_DEVICE, FAKE_CUDA_MANAGED};
    for (size_t k = 0; k < PCCL_COUNT_OF(kinds); k++) {
        begin(3, kinds[k], ROOM);
        for (size_t i = 0; i < PCCL_COUNT_OF(sizes); i++)
            for (size_t offset = 0; offset < 64; offset += sizes[i] < 100 ? 1 : 13) {
                memset(memory, 0x11, ROOM);
                carry(memory + offset, sizes[i], (uint32_t)(i * 64 + offset));
                for (size_t at = 0; at < offset; at++)
                    assert_int_equal(memory[at], 0x11);
                assert_int_equal(memory[offset + sizes[i]], 0x11);
            }
        starts_read(0, memory, 0);
        waits(0);
        end();
    }
}

/* Read and write only begin a copy: the content is there after the wait, and a wait does not wait for later copies. */
TEST(test_several_buffers_at_once)
{
    begin(1, FAKE_CUDA_DEVICE, (size_t)BUFFERS * CHUNK);
    fill(memory, (size_t)BUFFERS * CHUNK, 7);
    for (uint32_t i = 0; i < BUFFERS; i++)
        starts_read(i, memory + (size_t)i * CHUNK, CHUNK);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        for (size_t at = 0; at < CHUNK; at += 1000)
            assert_int_equal(buffer(i)[at], FAKE_CUDA_GARBAGE);
        waits(i);
        assert_memory_equal(buffer(i), memory + (size_t)i * CHUNK, CHUNK);
    }
    for (uint32_t i = 0; i < BUFFERS; i++) {
        memset(buffer(i), (int)(i + 1), CHUNK);
        starts_write(i, memory + (size_t)i * CHUNK, CHUNK);
    }
    /* The wait for the third copy is the first one; the copies before it are done then, too, and the fourth is not. */
    uint8_t fourth = memory[(size_t)3 * CHUNK];
    waits(2);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(memory[(size_t)i * CHUNK + 5], i + 1);
    assert_int_equal(memory[(size_t)3 * CHUNK], fourth);
    for (uint32_t i = 0; i < BUFFERS; i++)
        waits(i);
    assert_int_equal(memory[(size_t)3 * CHUNK], 4);
    end();
}

/* Copies are made in the order in which they were begun: a read sees the write before it. Closing waits for both. */
TEST(test_order)
{
    for (int waited = 0; waited < 2; waited++) {
        begin(1, FAKE_CUDA_DEVICE, 100);
        memset(buffer(0), 0x42, 100);
        starts_write(0, memory, 100);
        starts_read(1, memory, 100);
        if (waited) {
            waits(1);
            assert_memory_equal(buffer(1), buffer(0), 100);
        }
        assert_int_equal(memory[99], waited ? 0x42 : 0);
        pccl_device_copier_close(copier);
        copier = NULL;
        assert_int_equal(memory[99], 0x42);
        end();
    }
}

TEST(test_work_of_the_caller_is_waited_for)
{
    open_device(2);
    memory = fake_cuda_memory(1, FAKE_CUDA_DEVICE, 100);
    fake_cuda_fill_later(1, memory, 0x77, 100);
    assert_int_equal(memory[0], 0);
    assert_int_equal(open_copier(memory), PCCL_OK);
    starts_read(0, memory, 100);
    waits(0);
    assert_int_equal(buffer(0)[99], 0x77);
    end();
}

/* The caller has a context of another device current, which stays current during all calls. */
TEST(test_context_of_the_caller)
{
    struct pccl_cuda_context *callers, *popped;
    open_device(2);
    assert_int_equal(fake_cuda_driver.primary_retain(&callers, 100), 0);
    assert_int_equal(fake_cuda_driver.ctx_push(callers), 0);
    memory = fake_cuda_memory(1, FAKE_CUDA_DEVICE, 100);
    assert_int_equal(open_copier(memory), PCCL_OK);
    assert_ptr_equal(fake_cuda_current(), callers);
    carry(memory, 100, 1);
    assert_ptr_equal(fake_cuda_current(), callers);
    pccl_device_copier_close(copier);
    copier = NULL;
    assert_int_equal(fake_cuda_depth, 1);
    assert_int_equal(fake_cuda_driver.ctx_pop(&popped), 0);
    assert_ptr_equal(popped, callers);
    assert_int_equal(fake_cuda_driver.primary_release(100), 0);
    end();
}

/* ---- threads ---- */

enum { THREADS = 6, ROUNDS = 40, SLICE = 50021 };

struct worker {
    pthread_t thread;
    struct test_memory heap;
    uint8_t *slice; /* part of the memory */
    uint32_t number;
    const char *wrong;
};

static const char *work_round(struct worker *worker, struct pccl_device_copier *own, uint32_t round)
{
    struct pccl_text reason;
    uint32_t out = round % BUFFERS, in = (round + 1) % BUFFERS;
    size_t bytes = SLICE - round * 17;
    fill(pccl_device_copier_buffer(own, out), bytes, worker->number * 1000 + round);
    if (pccl_device_write(own, out, worker->slice + round, bytes, &reason) != PCCL_OK ||
        pccl_device_read(own, in, worker->slice + round, bytes, &reason) != PCCL_OK)
        return "a copy was not begun";
    if (pccl_device_wait(own, in, &reason) != PCCL_OK || pccl_device_wait(own, out, &reason) != PCCL_OK)
        return "a copy failed";
    if (memcmp(pccl_device_copier_buffer(own, in), pccl_device_copier_buffer(own, out), bytes) != 0)
        return "the bytes are others";
    return NULL;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct pccl_device_copier *own = NULL;
    struct pccl_text reason;
    if (pccl_device_check(device, worker->slice, SLICE, &reason) != PCCL_OK ||
        pccl_device_copier_open(device, worker->slice, &worker->heap.memory, &own, &reason) != PCCL_OK) {
        worker->wrong = "the copier was not opened";
        return NULL;
    }
    for (uint32_t round = 0; round < ROUNDS && worker->wrong == NULL; round++)
        worker->wrong = work_round(worker, own, round);
    pccl_device_copier_close(own);
    if (fake_cuda_depth != 0)
        worker->wrong = "a context is still current";
    return NULL;
}

TEST(test_copiers_in_threads)
{
    static struct worker workers[THREADS];
    uint8_t *memories[2];
    open_device(2);
    for (int i = 0; i < 2; i++)
        memories[i] = fake_cuda_memory(i, FAKE_CUDA_DEVICE, (size_t)THREADS * SLICE);
    for (uint32_t i = 0; i < THREADS; i++) {
        struct worker *worker = &workers[i];
        *worker = (struct worker){.number = i, .slice = memories[i % 2] + (size_t)i * SLICE};
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
    memory = memories[1];
    end();
}

/* A copier may be used by one thread after another. */
static void *use_elsewhere(void *argument)
{
    struct pccl_text reason;
    enum pccl_status status = pccl_device_wait(argument, 0, &reason);
    pccl_device_copier_close(argument);
    return status == PCCL_OK && fake_cuda_depth == 0 ? argument : NULL;
}

TEST(test_copier_changes_threads)
{
    pthread_t thread;
    void *outcome = NULL;
    begin(1, FAKE_CUDA_DEVICE, 100);
    memset(buffer(0), 9, 100);
    starts_write(0, memory, 100);
    assert_int_equal(pthread_create(&thread, NULL, use_elsewhere, copier), 0);
    assert_int_equal(pthread_join(thread, &outcome), 0);
    copier = NULL;
    assert_non_null(outcome);
    assert_int_equal(memory[50], 9);
    end();
}

/* ---- failures ---- */

/* Makes every call for a device, up to the first failure; the copier is closed in any case. */
static enum pccl_status whole_life(uint8_t *target)
{
    enum pccl_status status = pccl_device_over(&fake_cuda_driver, &device, &words);
    if (status != PCCL_OK)
        return status;
    status = pccl_device_check(device, memory, CHUNK, &words);
    if (status == PCCL_OK)
        status = open_copier(memory);
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
    copier = NULL;
    pccl_device_close(device);
    return status;
}

static void one_failure(enum pccl_cuda_function function, uint64_t n, int result, bool *while_closing)
{
    test_memory_init(&heap);
    pccl_text_clear(&words);
    fake_cuda_begin(2);
    memory = fake_cuda_memory(1, FAKE_CUDA_MANAGED, CHUNK);
    uint8_t *target = fake_cuda_memory(1, FAKE_CUDA_DEVICE, CHUNK);
    fake_cuda_fail(function, n, result);
    enum pccl_status status = whole_life(target);
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
    test_memory_init(&heap);
    fake_cuda_begin(2);
    memory = fake_cuda_memory(1, FAKE_CUDA_MANAGED, CHUNK);
    assert_int_equal(whole_life(memory), PCCL_OK);
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
    begin(1, FAKE_CUDA_DEVICE, 100);
    fake_cuda_fail(PCCL_CUDA_copy_to_host, 1, FAKE_CUDA_NAMELESS);
    assert_int_equal(pccl_device_read(copier, 0, memory, 100, &words), PCCL_SYSTEM);
    assert_string_equal(words.bytes, "cuMemcpyDtoHAsync_v2 failed: CUDA error 12345");
    end();
}

TEST(test_memory_runs_out)
{
    open_device(1);
    memory = fake_cuda_memory(0, FAKE_CUDA_DEVICE, 100);
    heap.fail_at = 1;
    assert_int_equal(open_copier(memory), PCCL_MEMORY);
    assert_true(says("out of memory"));
    assert_null(copier);
    end();
}

/*
 * The context is destroyed under an open copier: that is an error with a reason, and closing does not
 * touch the context.
 */
TEST(test_context_is_destroyed)
{
    begin(1, FAKE_CUDA_DEVICE, 100);
    starts_read(0, memory, 100);
    fake_cuda_reset(0);
    assert_int_equal(pccl_device_wait(copier, 0, &words), PCCL_SYSTEM);
    assert_true(says("cuCtxPushCurrent_v2") && says("CUDA_ERROR_CONTEXT_IS_DESTROYED"));
    assert_int_equal(pccl_device_read(copier, 1, memory, 100, &words), PCCL_SYSTEM);
    end();
}

/* The fake itself notices: a buffer used while its copy runs. */
TEST(test_fake_notices_a_race)
{
    begin(1, FAKE_CUDA_DEVICE, 100);
    starts_write(0, memory, 100);
    buffer(0)[3] ^= 1;
    waits(0);
    close_all();
    assert_string_equal(fake_cuda_end(), "memory changed while it was being copied");
}
