/* The block makes the communicator; it is connected and left here. */
#include <pccl.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    pcclComm_t *comm = NULL;
    if (pcclInit() != pcclSuccess)
        return EXIT_FAILURE;
    /* # the block */
    if (pcclConnect(comm) != pcclSuccess || pcclDestroyCommunicator(comm) != pcclSuccess)
        return EXIT_FAILURE;
    return EXIT_SUCCESS;
}
