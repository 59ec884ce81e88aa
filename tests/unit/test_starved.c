/*
 * Memory runs out: allocation k of the library fails, for every k, while a master and two peers of this process are
 * created, meet, reduce and end. Calls fail with a reason and change nothing; then the two still meet, and nothing is
 * leaked. The linker replaces the library's allocations (not libuv's, some of which are fatal) by the functions here.
 */
#include "unit.h"
#include "pccl.h"
#include "unit/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PEERS = 2, WANTED = 3, SMALL = 5, BULK = 3000, PATIENCE_S = 120, SWEEP_MAX = 5000 };

static int elements; /* elements of a reduction: SMALL are sent through the master, BULK from peer to peer */

static atomic_ulong requests, blocks, fail_at, fail_count;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
char *__real_strdup(const char *text);
void __real_free(void *block);

static bool refuse(void)
{
    unsigned long number = atomic_fetch_add(&requests, 1) + 1, from = atomic_load(&fail_at);
    return from != 0 && number >= from && number < from + atomic_load(&fail_count);
}

static void *count(void *block)
{
    if (block != NULL)
        atomic_fetch_add(&blocks, 1);
    return block;
}

void *__wrap_malloc(size_t bytes) { return refuse() ? NULL : count(__real_malloc(bytes)); }
void *__wrap_calloc(size_t items, size_t bytes) { return refuse() ? NULL : count(__real_calloc(items, bytes)); }
char *__wrap_strdup(const char *text) { return refuse() ? NULL : count(__real_strdup(text)); }

void *__wrap_realloc(void *block, size_t bytes)
{
    if (refuse())
        return NULL;
    return block == NULL ? count(__real_realloc(NULL, bytes)) : __real_realloc(block, bytes);
}

void __wrap_free(void *block)
{
    if (block != NULL)
        atomic_fetch_sub(&blocks, 1);
    __real_free(block);
}

/* ---- one run of the peers: cmocka's assertions work only on the main thread, so peers record failures ---- */

struct peer {
    int number;
    pthread_t thread;
    const char *wrong;
    char reason[256];
    pcclResult_t code;
};

static char address[64];
static atomic_int satisfied;
static struct timespec until;

static bool is_late(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > until.tv_sec;
}

/* A failed call must have a reason. */
static void failed(struct peer *peer, pcclResult_t code, const pcclComm_t *comm, const char *call)
{
    const char *reason = pcclGetLastError(comm);
    if (code == pcclSuccess || reason == NULL || strlen(reason) < 4)
        peer->wrong = call;
    peer->code = code;
    snprintf(peer->reason, sizeof peer->reason, "%s", reason != NULL ? reason : "");
}

static pcclComm_t *create(struct peer *peer)
{
    static const char *const settings[][2] = {{"bind_address", "127.0.0.1"},
                                              {"port", "0"},
                                              {"op_timeout_ms", "1000"},
                                              {"call_timeout_ms", "1000"},
                                              {"dial_max_ms", "50"}};
    pcclOptions_t *options = NULL;
    pcclComm_t *comm = NULL;
    pcclResult_t result = pcclCreateOptions(&options);
    if (result != pcclSuccess) {
        failed(peer, result, NULL, "pcclCreateOptions");
        return NULL;
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings && result == pcclSuccess; i++)
        result = pcclSetOption(options, settings[i][0], settings[i][1]);
    if (result == pcclSuccess)
        result = pcclCreateCommunicatorWithOptions(address, options, &comm);
    if (result != pcclSuccess) {
        failed(peer, result, NULL, "pcclCreateCommunicatorWithOptions");
        if (comm != NULL)
            peer->wrong = "a communicator came with an error";
    }
    (void)pcclDestroyOptions(options);
    return result == pcclSuccess ? comm : NULL;
}

static bool reduce(struct peer *peer, pcclComm_t *comm)
{
    int64_t sums[BULK];
    for (int i = 0; i < elements; i++)
        sums[i] = (peer->number + 1) * (i + 1);
    pcclReduceDescriptor_t descriptor = {
        .count = (uint64_t)elements, .op = pcclSum, .tag = 1, .src_descriptor = {.datatype = pcclInt64}};
    pcclResult_t result = pcclAllReduce(sums, sums, &descriptor, comm, NULL); /* in place */
    int times = result == pcclSuccess ? 3 : peer->number + 1;
    for (int i = 0; i < elements; i++)
        if (sums[i] != times * (i + 1))
            peer->wrong = result == pcclSuccess ? "a wrong sum" : "a failed reduction changed its input";
    if (result != pcclSuccess)
        failed(peer, result, comm, "pcclAllReduce");
    return result == pcclSuccess;
}

/* Runs until both have their results. The first one that sees that leaves, which ends the other's open call. */
static void *live(void *argument)
{
    struct peer *peer = argument;
    pcclComm_t *comm = NULL;
    int sums = 0;
    while (atomic_load(&satisfied) < PEERS && peer->wrong == NULL && !is_late()) {
        int world = 0;
        if (comm == NULL && (comm = create(peer)) == NULL)
            continue;
        if (pcclGetAttribute(comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &world) != pcclSuccess) {
            pcclResult_t result = pcclConnect(comm);
            if (result != pcclSuccess)
                failed(peer, result, comm, "pcclConnect");
        } else if (world < PEERS) {
            pcclResult_t result = pcclUpdateTopology(comm);
            if (result != pcclSuccess)
                failed(peer, result, comm, "pcclUpdateTopology");
        } else if (reduce(peer, comm) && ++sums == WANTED) {
            atomic_fetch_add(&satisfied, 1);
        }
    }
    if (comm != NULL && pcclDestroyCommunicator(comm) != pcclSuccess)
        peer->wrong = "pcclDestroyCommunicator";
    if (atomic_load(&satisfied) < PEERS && peer->wrong == NULL)
        peer->wrong = "too late";
    return NULL;
}

static pcclMasterInstance_t *start_master(void)
{
    /* Short limits: messages lost for lack of memory time out. A peer that was lost for that reason returns. */
    static const char *const settings[][2] = {
        {"silence_ms", "500"}, {"heartbeat_ms", "125"}, {"warm_up_ms", "200"}, {"hello_ms", "100"}};
    for (int attempt = 0; attempt < 100; attempt++) {
        pcclOptions_t *options = NULL;
        pcclMasterInstance_t *master = NULL;
        pcclResult_t result = pcclCreateOptions(&options);
        for (size_t i = 0; i < sizeof settings / sizeof *settings && result == pcclSuccess; i++)
            result = pcclSetOption(options, settings[i][0], settings[i][1]);
        if (result == pcclSuccess)
            result = pcclCreateMasterWithOptions("127.0.0.1:0", options, &master);
        if (options != NULL)
            (void)pcclDestroyOptions(options);
        if (result == pcclSuccess && (result = pcclRunMaster(master)) == pcclSuccess)
            return master;
        assert_true(strlen(pcclGetLastError(NULL)) > 3);
        if (master != NULL)
            assert_int_equal(pcclDestroyMaster(master), pcclSuccess);
    }
    return NULL;
}

/* Returns the number of allocations. */
static unsigned long lives(unsigned long first, unsigned long length)
{
    uint16_t port;
    struct peer peers[PEERS] = {{.number = 0}, {.number = 1}};
    atomic_store(&satisfied, 0);
    atomic_store(&requests, 0);
    atomic_store(&fail_count, length);
    atomic_store(&fail_at, first);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    pcclMasterInstance_t *master = start_master();
    assert_non_null(master);
    assert_int_equal(pcclMasterGetPort(master, &port), pcclSuccess);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(pthread_create(&peers[i].thread, NULL, live, &peers[i]), 0);
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(pthread_join(peers[i].thread, NULL), 0);
    assert_int_equal(pcclInterruptMaster(master), pcclSuccess);
    assert_int_equal(pcclMasterAwaitTermination(master), pcclSuccess);
    assert_int_equal(pcclDestroyMaster(master), pcclSuccess);
    atomic_store(&fail_at, 0);
    for (int i = 0; i < PEERS; i++)
        if (peers[i].wrong != NULL)
            fail_msg("allocations from %lu, %lu of them, fail: peer %d: %s; last failure %d: %s", first, length, i,
                     peers[i].wrong, (int)peers[i].code, peers[i].reason);
    return atomic_load(&requests);
}

static void sweep(int count, unsigned long length, unsigned long stride)
{
    elements = count;
    (void)lives(0, 0); /* memory that the first use of the library keeps until the process ends */
    unsigned long kept = atomic_load(&blocks), total = 1;
    stride *= test_one_of();
    for (unsigned long k = 1; k <= total && k < SWEEP_MAX; k += stride) {
        total = lives(k, length);
        if (atomic_load(&blocks) != kept)
            fail_msg("allocations from %lu, %lu of them, fail: %ld blocks are left", k, length,
                     (long)(atomic_load(&blocks) - kept));
    }
    print_message("%d elements: %lu allocations, each of %lu in a row failing\n", count, total, length);
    assert_true(total > 50 && total < SWEEP_MAX);
}

TEST(one_fails) { sweep(SMALL, 1, 1); }

TEST(several_fail) { sweep(SMALL, 10, 7); }

TEST(one_fails_in_bulk) { sweep(BULK, 1, 1); }

TEST(several_fail_in_bulk) { sweep(BULK, 10, 7); }

int main(void)
{
    if (pcclInit() != pcclSuccess)
        return 1;
    (void)pcclSetLogLevel(pcclLogNone);
    return unit_run(NULL, NULL);
}
