/* A peer that has found the others, with a gradient to be averaged; it leaves when all of them are through. */
#include <pccl.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 10000 };
static float gradient[COUNT];

static void use(pcclComm_t *comm)
{
    const pcclReduceDescriptor_t average = {.count = COUNT, .op = pcclAvg, .src_descriptor = {.datatype = pcclFloat}};
    (void)average; /* not every block has a use for it */
    (void)gradient;
    /* # the block */
}

int main(void)
{
    const long peers = strtol(getenv("PEERS"), NULL, 10);
    pcclComm_t *comm = NULL;
    int there = 0;
    if (pcclInit() != pcclSuccess || pcclCreateCommunicatorWithOptions(getenv("MASTER"), NULL, &comm) != pcclSuccess ||
        pcclConnect(comm) != pcclSuccess)
        return EXIT_FAILURE;
    while (there < peers) {
        if (pcclGetAttribute(comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &there) != pcclSuccess)
            return EXIT_FAILURE;
        if (there < peers && pcclUpdateTopology(comm) != pcclSuccess)
            return EXIT_FAILURE;
    }
    use(comm);
    return pcclUpdateTopology(comm) == pcclSuccess && pcclDestroyCommunicator(comm) == pcclSuccess ? EXIT_SUCCESS
                                                                                                   : EXIT_FAILURE;
}
