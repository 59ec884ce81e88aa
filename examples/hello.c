/*
 * A program that continues while peers join, leave and are killed. Each peer contributes ones, so the sum is the number
 * of peers.
 *
 *     pccl-master --listen 127.0.0.1:48148 &
 *     hello 127.0.0.1:48148 20 &    leaves after 20 seconds; start several, at any time, and kill some with kill -9
 */
#include <pccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COUNT = 1 << 20 };
static float ones[COUNT], sum[COUNT];

int main(int argc, char **argv)
{
    const pcclReduceDescriptor_t all = {.count = COUNT, .op = pcclSum, .src_descriptor = {.datatype = pcclFloat}};
    const time_t end = time(NULL) + (argc > 2 ? strtol(argv[2], NULL, 10) : 10);
    pcclLoopStep_t step = PCCL_LOOP_STEP_INIT;
    pcclReduceInfo_t info;
    pcclComm_t *comm = NULL;
    pcclLoop_t *loop = NULL;
    for (int i = 0; i < COUNT; i++)
        ones[i] = 1;
    pcclResult_t result = pcclInit();
    if (result == pcclSuccess)
        result = pcclCreateCommunicatorWithOptions(argc > 1 ? argv[1] : "127.0.0.1", NULL, &comm);
    if (result == pcclSuccess)
        result = pcclLoopBegin(comm, NULL, NULL, &loop); /* NULL: there is no shared state */
    while (time(NULL) < end && (result = pcclLoopNext(loop, result, &step)) == pcclSuccess) {
        result = pcclAllReduce(ones, sum, &all, comm, &info);
        if (result == pcclSuccess)
            printf("step %lu: %u peers, sum %g\n", (unsigned long)step.number, (unsigned)info.local_world_size,
                   (double)sum[COUNT - 1]);
        else
            /* the loop repeats the step */
            printf("step %lu failed: %s\n", (unsigned long)step.number, pcclGetLastError(comm));
        fflush(stdout);
    }
    if (result != pcclSuccess)
        fprintf(stderr, "%s\n", pcclGetLastError(comm));
    pcclLoopEnd(loop);
    if (comm != NULL)
        pcclDestroyCommunicator(comm); /* notifies the other peers, which continue at once */
    return result == pcclSuccess ? EXIT_SUCCESS : EXIT_FAILURE;
}
