/*
 * Lives with peers that come, go and are killed. Everybody contributes ones: the sum must be the number of peers.
 *     pccl-master --listen 127.0.0.1:48148 &
 *     hello 127.0.0.1:48148 20 &    leaves after 20 seconds; as often as you like, also later; kill -9 some of them
 */
#include <pccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 1 << 20 };
static float ones[COUNT], sum[COUNT];

int main(int argc, char **argv)
{
    const pcclReduceDescriptor_t all = {.count = COUNT, .op = pcclSum, .src_descriptor = {.datatype = pcclFloat}};
    const time_t end = time(NULL) + (argc > 2 ? strtol(argv[2], NULL, 10) : 10);
    pcclComm_t *comm = NULL;
    for (int i = 0; i < COUNT; i++)
        ones[i] = 1;
    bool ok = pcclInit() == pcclSuccess &&
              pcclCreateCommunicatorWithOptions(argc > 1 ? argv[1] : "127.0.0.1", NULL, &comm) == pcclSuccess &&
              pcclConnect(comm) == pcclSuccess; /* returns when those who are there update */
    for (int step = 0; ok && time(NULL) < end; step++) {
        pcclReduceInfo_t info;
        pcclResult_t result = pcclAllReduce(ones, sum, &all, comm, &info);
        if (result == pcclSuccess)
            printf("step %d: %u peers, sum %g\n", step, (unsigned)info.local_world_size, (double)sum[COUNT - 1]);
        else if (result == pcclTooFewPeers)
            sleep(1); /* alone: wait for others */
        else
            printf("step %d failed for all, who try again: %s\n", step, pcclGetLastError(comm));
        fflush(stdout);
        ok = pcclUpdateTopology(comm) == pcclSuccess; /* newcomers get in here */
    }
    if (!ok)
        fprintf(stderr, "%s\n", pcclGetLastError(comm));
    if (comm != NULL)
        pcclDestroyCommunicator(comm); /* says good-bye: the others go on at once */
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
