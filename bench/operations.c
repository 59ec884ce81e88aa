/*
 * Whole all-reduces through the public interface, whose instructions gate.py counts: a master and
 * two peers in this process. One thread launches and awaits for both, so that only the order of the
 * library's own threads is left to chance.
 *
 *   bench_operations BYTES N      N sums of BYTES of f32, one after another; prints N
 */
#include "pccl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { PEERS = 2, WARM_UP = 10 };

static pcclComm_t *comms[PEERS];

static void must(pcclResult_t result, const pcclComm_t *comm, const char *what)
{
    if (result == pcclSuccess)
        return;
    (void)fprintf(stderr, "bench_operations: %s: %s\n", what, pcclGetLastError(comm));
    exit(1);
}

static void *connect_last(void *unused)
{
    must(pcclConnect(comms[PEERS - 1]), comms[PEERS - 1], "pcclConnect");
    return unused;
}

/* Both in one view: the second's call ends in an update of the first. */
static void join(uint16_t port)
{
    char master[32];
    pcclOptions_t *options;
    pthread_t other;
    (void)snprintf(master, sizeof master, "127.0.0.1:%u", port);
    must(pcclCreateOptions(&options), NULL, "pcclCreateOptions");
    must(pcclSetOption(options, "bind_address", "127.0.0.1"), NULL, "bind_address");
    must(pcclSetOption(options, "port", "0"), NULL, "port");
    for (int i = 0; i < PEERS; i++)
        must(pcclCreateCommunicatorWithOptions(master, options, &comms[i]), NULL, "pcclCreateCommunicatorWithOptions");
    (void)pcclDestroyOptions(options);
    must(pcclConnect(comms[0]), comms[0], "pcclConnect");
    if (pthread_create(&other, NULL, connect_last, NULL) != 0)
        exit(1);
    for (int world = 1; world < PEERS;) {
        must(pcclUpdateTopology(comms[0]), comms[0], "pcclUpdateTopology");
        must(pcclGetAttribute(comms[0], PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &world), comms[0], "pcclGetAttribute");
    }
    (void)pthread_join(other, NULL);
}

static void reduce(float *values[PEERS], size_t count)
{
    const pcclReduceDescriptor_t sum = {
        .count = count, .op = pcclSum, .tag = 1, .src_descriptor = {.datatype = pcclFloat}};
    pcclAsyncReduceOp_t handles[PEERS];
    for (int i = 0; i < PEERS; i++)
        must(pcclAllReduceAsync(values[i], values[i], &sum, comms[i], &handles[i]), comms[i], "pcclAllReduceAsync");
    for (int i = 0; i < PEERS; i++)
        must(pcclAwaitAsyncReduce(&handles[i], NULL), comms[i], "pcclAwaitAsyncReduce");
}

/* Its second return ends what gate.py counts. */
__attribute__((noinline)) static void reduce_often(float *values[PEERS], size_t count, unsigned long times)
{
    for (unsigned long i = 0; i < times; i++)
        reduce(values, count);
}

int main(int argc, char **argv)
{
    pcclMasterInstance_t *master;
    uint16_t port;
    float *values[PEERS];
    if (argc != 3)
        return 2;
    size_t count = strtoul(argv[1], NULL, 10) / sizeof(float);
    unsigned long times = strtoul(argv[2], NULL, 10);
    for (int i = 0; i < PEERS; i++)
        if ((values[i] = calloc(count, sizeof(float))) == NULL)
            return 1;
    must(pcclInit(), NULL, "pcclInit");
    must(pcclCreateMasterWithOptions("127.0.0.1:0", NULL, &master), NULL, "pcclCreateMasterWithOptions");
    must(pcclRunMaster(master), NULL, "pcclRunMaster");
    must(pcclMasterGetPort(master, &port), NULL, "pcclMasterGetPort");
    join(port);
    reduce_often(values, count, WARM_UP);
    reduce_often(values, count, times);
    (void)printf("%lu\n", times);
    return 0; /* without a good-bye: it would not be counted */
}
