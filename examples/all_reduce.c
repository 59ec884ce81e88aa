/*
 * Training steps of a peer in a group whose members change: admits newcomers, reduces with retry, and continues with
 * the remaining peers.
 *
 *     pccl-master --listen 127.0.0.1:48148 &
 *     all_reduce 127.0.0.1:48148 2 10 &       at least two peers, ten steps
 *     all_reduce 127.0.0.1:48148 2 10
 *
 * Each peer has a vector of parameters and computes its own gradient. Each step averages the gradients and applies the
 * result, so the parameters have the same bits on all peers. A real program would also send them to newcomers; here
 * they start equal, because the steps begin only when there are enough peers.
 */
#define _POSIX_C_SOURCE 200809L
#include <pccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PARAMETERS = 1 << 18 };

static int failed(const char *what, const pcclComm_t *comm, pcclResult_t result)
{
    fprintf(stderr, "%s: %s: %s\n", what, pcclGetErrorString(result), pcclGetLastError(comm));
    return EXIT_FAILURE;
}

/* Admits newcomers until the group has at least `peers` peers. */
static pcclResult_t gather(pcclComm_t *comm, int peers)
{
    const struct timespec pause = {0, 20 * 1000 * 1000};
    int world_size = 0;
    for (;;) {
        pcclResult_t result = pcclGetAttribute(comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &world_size);
        if (result != pcclSuccess || world_size >= peers)
            return result;
        result = pcclUpdateTopology(comm);
        if (result != pcclSuccess)
            return result;
        nanosleep(&pause, NULL);
    }
}

/*
 * Averages the gradients of all peers in place. If it returns pcclTooFewPeers, the other peers have left, and the step
 * must be dropped.
 */
static pcclResult_t average(const pcclComm_t *comm, float *gradient)
{
    pcclReduceOpDescriptor_t reduce;
    memset(&reduce, 0, sizeof reduce);
    reduce.sendbuf = gradient;
    reduce.recvbuf = gradient;
    reduce.descriptor.count = PARAMETERS;
    reduce.descriptor.op = pcclAvg;
    reduce.descriptor.src_descriptor.datatype = pcclFloat;
    return pcclAllReduceMultipleWithRetry(&reduce, 1, comm, NULL, 1);
}

/* Returns a random number, in place of a gradient computed from this peer's own data. */
static float noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 16777216.0f;
}

static uint32_t fingerprint(const float *values, size_t count)
{
    uint32_t bits, sum = 2166136261u;
    for (size_t i = 0; i < count; i++) {
        memcpy(&bits, &values[i], sizeof bits);
        sum = (sum ^ bits) * 16777619u;
    }
    return sum;
}

static int train(pcclComm_t *comm, int peers, int steps)
{
    static float parameters[PARAMETERS], gradient[PARAMETERS];
    uint32_t seed = (uint32_t)getpid();
    pcclResult_t result = gather(comm, peers);
    if (result != pcclSuccess)
        return failed("pcclUpdateTopology", comm, result);
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < PARAMETERS; i++)
            gradient[i] = noise(&seed);
        result = average(comm, gradient);
        if (result == pcclTooFewPeers)
            break;
        if (result != pcclSuccess)
            return failed("pcclAllReduceMultipleWithRetry", comm, result);
        for (int i = 0; i < PARAMETERS; i++)
            parameters[i] -= 0.1f * gradient[i];
    }
    printf("parameters %08lx\n", (unsigned long)fingerprint(parameters, PARAMETERS));
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s <master address> <peers> <steps>\n", argv[0]);
        return EXIT_FAILURE;
    }
    pcclComm_t *comm = NULL;
    pcclResult_t result = pcclInit();
    if (result == pcclSuccess)
        result = pcclCreateCommunicatorWithOptions(argv[1], NULL, &comm);
    if (result != pcclSuccess)
        return failed("pcclCreateCommunicatorWithOptions", NULL, result);
    result = pcclConnect(comm);
    int status = result == pcclSuccess ? train(comm, (int)strtol(argv[2], NULL, 10), (int)strtol(argv[3], NULL, 10))
                                       : failed("pcclConnect", comm, result);
    pcclDestroyCommunicator(comm);
    return status;
}
