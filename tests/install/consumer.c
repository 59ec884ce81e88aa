/* An application that uses an installed library: a master and one peer in one process. C99 and C++. */
#include <ccoip.h>
#include <pccl.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what, pcclResult_t result)
{
    fprintf(stderr, "%s: %s: %s\n", what, pcclGetErrorString(result), pcclGetLastError(NULL));
    return 1;
}

int main(void)
{
    const uint32_t version = PCCL_VERSION_MAJOR * 10000 + PCCL_VERSION_MINOR * 100 + PCCL_VERSION_PATCH;
    if (pcclGetVersion() != version) {
        fprintf(stderr, "the header is of version %lu, the library %lu\n", (unsigned long)version,
                (unsigned long)pcclGetVersion());
        return 1;
    }

    pcclResult_t result = pcclInit();
    if (result != pcclSuccess)
        return failed("pcclInit", result);

    pcclMasterInstance_t *master = NULL;
    result = pcclCreateMasterWithOptions("127.0.0.1:0", NULL, &master);
    if (result != pcclSuccess)
        return failed("pcclCreateMasterWithOptions", result);
    result = pcclRunMaster(master);
    if (result != pcclSuccess)
        return failed("pcclRunMaster", result);

    pcclCommCreateParams_t params;
    memset(&params, 0, sizeof params);
    params.master_address.inet.protocol = inetIPv4;
    params.master_address.inet.ipv4.data[0] = 127;
    params.master_address.inet.ipv4.data[3] = 1;
    result = pcclMasterGetPort(master, &params.master_address.port);
    if (result != pcclSuccess)
        return failed("pcclMasterGetPort", result);

    pcclComm_t *comm = NULL;
    result = pcclCreateCommunicator(&params, &comm);
    if (result != pcclSuccess)
        return failed("pcclCreateCommunicator", result);
    result = pcclConnect(comm);
    if (result != pcclSuccess)
        return failed("pcclConnect", result);
    int world_size = 0;
    result = pcclGetAttribute(comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &world_size);
    if (result != pcclSuccess || world_size != 1)
        return failed("pcclGetAttribute", result);
    result = pcclDestroyCommunicator(comm);
    if (result != pcclSuccess)
        return failed("pcclDestroyCommunicator", result);

    result = pcclInterruptMaster(master);
    if (result != pcclSuccess)
        return failed("pcclInterruptMaster", result);
    result = pcclMasterAwaitTermination(master);
    if (result != pcclSuccess)
        return failed("pcclMasterAwaitTermination", result);
    result = pcclDestroyMaster(master);
    if (result != pcclSuccess)
        return failed("pcclDestroyMaster", result);
    printf("pccl %lu works\n", (unsigned long)pcclGetVersion());
    return 0;
}
