/*
 * Memory of a real CUDA device through src/device: a few MiB there and back through copiers, in
 * several threads. Exits with 77 where there is no device.
 */
#include "device/cuda_driver.h"
#include "device/device.h"
#include "net/heap.h"

#include <pccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, CHUNK = PCCL_STATE_CHUNK_BYTES, BUFFERS = PCCL_DEVICE_BUFFERS, BYTES = 5 * CHUNK + 12345 };
enum { THREADS = 3, ROUNDS = 20, MANAGED_GLOBAL = 1 };

/* The application's side: a separate table, and functions that the library does not use. */
static struct pccl_cuda_driver cuda;
static struct {
    int (*allocate)(uint64_t *memory, size_t bytes);
    int (*allocate_managed)(uint64_t *memory, size_t bytes, unsigned flags);
    int (*release)(uint64_t memory);
    int (*set_later)(uint64_t memory, unsigned char value, size_t bytes, struct pccl_cuda_stream *stream);
} more;
static struct pccl_cuda_context *context;
static struct pccl_cuda_stream *stream;
static struct pccl_device *device;
static struct pccl_text words;

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "failed: %s; last words: %s\n", what, words.bytes);
    exit(1);
}

static void find(uv_lib_t *library, const char *symbol, void *place)
{
    void *found = NULL;
    check(uv_dlsym(library, symbol, &found) == 0, symbol);
    memcpy(place, &found, sizeof found);
}

static void start_application(void)
{
    static uv_lib_t library;
    int number = 0;
    check(pccl_cuda_load(&library, &cuda, &words) == PCCL_OK, "loading the driver");
    find(&library, "cuMemAlloc_v2", &more.allocate);
    find(&library, "cuMemAllocManaged", &more.allocate_managed);
    find(&library, "cuMemFree_v2", &more.release);
    find(&library, "cuMemsetD8Async", &more.set_later);
    check(cuda.device_get(&number, 0) == 0 && cuda.primary_retain(&context, number) == 0, "the context");
    check(cuda.ctx_push(context) == 0, "making the context current");
    check(cuda.stream_create(&stream, PCCL_CUDA_STREAM_NON_BLOCKING) == 0, "a stream");
}

static void end_application(void)
{
    int number = 0;
    struct pccl_cuda_context *left = NULL;
    check(cuda.stream_destroy(stream) == 0, "destroying the stream");
    check(cuda.ctx_pop(&left) == 0 && left == context, "our context is still the current one");
    check(cuda.device_get(&number, 0) == 0 && cuda.primary_release(number) == 0, "releasing the context");
}

static uint8_t *allocate(bool managed)
{
    uint64_t address = 0;
    int result = managed ? more.allocate_managed(&address, BYTES, MANAGED_GLOBAL) : more.allocate(&address, BYTES);
    check(result == 0, "allocating");
    return (uint8_t *)(uintptr_t)address;
}

static uint8_t value(size_t at, uint32_t seed) { return (uint8_t)((at * 2654435761U + seed) >> 9); }

static size_t piece_length(size_t at) { return BYTES - at < CHUNK ? BYTES - at : CHUNK; }

/* Writes all of it through the buffers in turn: each is waited for only when it is needed again. */
static enum pccl_status write_all(struct pccl_device_copier *copier, uint8_t *memory, uint32_t seed,
                                  struct pccl_text *why)
{
    enum pccl_status status = PCCL_OK;
    uint32_t buffer = 0;
    for (size_t at = 0; at < BYTES && status == PCCL_OK; at += CHUNK, buffer = (buffer + 1) % BUFFERS) {
        status = pccl_device_wait(copier, buffer, why);
        uint8_t *bytes = pccl_device_copier_buffer(copier, buffer);
        for (size_t i = 0; i < piece_length(at); i++)
            bytes[i] = value(at + i, seed);
        if (status == PCCL_OK)
            status = pccl_device_write(copier, buffer, memory + at, piece_length(at), why);
    }
    return status;
}

/* Reads it in pieces at odd offsets, with two reads in flight. STATE: the content differs. */
static enum pccl_status read_all(struct pccl_device_copier *copier, const uint8_t *memory, uint32_t seed,
                                 struct pccl_text *why)
{
    enum { PIECE = 100003 };
    enum pccl_status status = pccl_device_wait(copier, 0, why);
    if (status == PCCL_OK)
        status = pccl_device_wait(copier, 1, why);
    if (status == PCCL_OK)
        status = pccl_device_read(copier, 0, memory, PIECE, why);
    uint32_t buffer = 0;
    for (size_t at = 0; at < BYTES && status == PCCL_OK; at += PIECE, buffer = 1 - buffer) {
        size_t next = at + PIECE, length = BYTES - at < PIECE ? BYTES - at : PIECE;
        if (next < BYTES)
            status =
                pccl_device_read(copier, 1 - buffer, memory + next, BYTES - next < PIECE ? BYTES - next : PIECE, why);
        if (status == PCCL_OK)
            status = pccl_device_wait(copier, buffer, why);
        const uint8_t *bytes = pccl_device_copier_buffer(copier, buffer);
        for (size_t i = 0; i < length && status == PCCL_OK; i++)
            if (bytes[i] != value(at + i, seed)) {
                pccl_text_format(why, "byte %zu is another", at + i);
                status = PCCL_STATE;
            }
    }
    return status;
}

static void test_pointers(const uint8_t *memory)
{
    uint8_t *of_host = malloc(16);
    struct pccl_device_copier *copier = NULL;
    check(pccl_device_check(device, memory, BYTES, &words) == PCCL_OK, "all of the memory");
    check(pccl_device_check(device, memory + 77, BYTES - 77, &words) == PCCL_OK, "the rest of the memory");
    check(pccl_device_check(device, memory + 77, (uint64_t)1 << 50, &words) == PCCL_ARGUMENT, "more than there is");
    check(pccl_device_check(device, of_host, 16, &words) == PCCL_ARGUMENT, "host memory");
    check(pccl_device_copier_open(device, of_host, pccl_heap(), &copier, &words) == PCCL_ARGUMENT, "a copier for it");
    free(of_host);
}

/* Our own stream still has to write the memory when the copier is opened. */
static void test_copier(uint8_t *memory)
{
    struct pccl_device_copier *copier = NULL;
    check(more.set_later((uintptr_t)memory, 0x5a, BYTES, stream) == 0, "work on our stream");
    check(pccl_device_copier_open(device, memory, pccl_heap(), &copier, &words) == PCCL_OK, "a copier");
    check(pccl_device_read(copier, 0, memory + BYTES - CHUNK, CHUNK, &words) == PCCL_OK, "reading");
    check(pccl_device_wait(copier, 0, &words) == PCCL_OK, "waiting");
    for (size_t i = 0; i < CHUNK; i++)
        check(pccl_device_copier_buffer(copier, 0)[i] == 0x5a, "what our stream wrote is there");
    check(write_all(copier, memory, 1, &words) == PCCL_OK, "writing all");
    check(read_all(copier, memory, 1, &words) == PCCL_OK, "reading all");
    check(pccl_device_check(device, pccl_device_copier_buffer(copier, 0), 1, &words) == PCCL_ARGUMENT,
          "page-locked memory");
    pccl_device_copier_close(copier);
}

struct worker {
    pthread_t thread;
    uint8_t *memory;
    uint32_t number;
    enum pccl_status status;
    struct pccl_text why;
};

/* No context is current in this thread. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    struct pccl_device_copier *copier = NULL;
    worker->status = pccl_device_copier_open(device, worker->memory, pccl_heap(), &copier, &worker->why);
    for (uint32_t round = 0; round < ROUNDS && worker->status == PCCL_OK; round++) {
        worker->status = write_all(copier, worker->memory, worker->number * 100 + round, &worker->why);
        if (worker->status == PCCL_OK)
            worker->status = read_all(copier, worker->memory, worker->number * 100 + round, &worker->why);
    }
    if (copier != NULL)
        pccl_device_copier_close(copier);
    return NULL;
}

static void test_threads(void)
{
    static struct worker workers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i].number = i;
        workers[i].memory = allocate(false);
        check(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "a thread");
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        check(pthread_join(workers[i].thread, NULL) == 0, "joining");
        words = workers[i].why;
        check(workers[i].status == PCCL_OK, "copiers in threads");
        check(more.release((uintptr_t)workers[i].memory) == 0, "freeing");
    }
}

/* A forked child gets words instead of a driver that does not work there. */
static void test_fork(void)
{
    int how = 0;
    pid_t child = fork();
    check(child >= 0, "forking");
    if (child == 0) {
        struct pccl_device *none = NULL;
        enum pccl_status status = pccl_device_cuda(&none, &words);
        _exit(status == PCCL_UNSUPPORTED && none == NULL && strstr(words.bytes, "forked") != NULL ? 0 : 1);
    }
    check(waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0, "refusing in a forked child");
}

int main(void)
{
    pcclBuildInfo_t info;
    check(pcclGetBuildInfo(&info) == pcclSuccess, "asking whether there is a device");
    bool there = pccl_device_cuda(&device, &words) == PCCL_OK;
    check(info.has_cuda_support == there, "has_cuda_support says whether there is a device");
    if (!there) {
        printf("no device: %s\n", words.bytes);
        return SKIPPED;
    }
    start_application();
    for (int managed = 0; managed < 2; managed++) {
        uint8_t *memory = allocate(managed);
        test_pointers(memory);
        test_copier(memory);
        check(more.release((uintptr_t)memory) == 0, "freeing");
        check(pccl_device_check(device, memory, 1, &words) == PCCL_ARGUMENT, "memory that is freed");
    }
    test_threads();
    test_fork();
    end_application();
    printf("%u bytes there and back\n", (unsigned)BYTES);
    return 0;
}
