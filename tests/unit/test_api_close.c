/*
 * pcclCloseCommunicator: callers inside are evicted, new ones are refused, and nothing is freed
 * before pcclDestroyCommunicator.
 */
#include "unit.h"
#include "api_support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define assert_ok(call) assert_int_equal(call, pcclSuccess)
#define assert_closed(call) (assert_int_equal(call, pcclInvalidUsage), words_say(comm, "closed"))

struct waiter {
    pcclComm_t *comm;
    pcclResult_t result;
};

static void *update(void *argument)
{
    struct waiter *waiter = argument;
    waiter->result = pcclUpdateTopology(waiter->comm);
    return NULL;
}

static void *connect_to(void *argument)
{
    struct waiter *waiter = argument;
    waiter->result = pcclConnect(waiter->comm);
    return NULL;
}

static pcclComm_t *create(const char *address)
{
    pcclOptions_t *options = NULL;
    pcclComm_t *comm = NULL;
    assert_ok(pcclCreateOptions(&options));
    assert_ok(pcclSetOption(options, "port", "0"));
    assert_ok(pcclSetOption(options, "where_ms", "20"));
    assert_ok(pcclCreateCommunicatorWithOptions(address, options, &comm));
    assert_ok(pcclDestroyOptions(options));
    return comm;
}

static void join(pcclComm_t *member, pcclComm_t *newcomer)
{
    struct waiter connecting = {.comm = newcomer};
    pthread_t thread;
    bool pending = false;
    assert_ok(pcclConnect(member));
    assert_int_equal(pthread_create(&thread, NULL, connect_to, &connecting), 0);
    while (!pending)
        assert_ok(pcclArePeersPending(member, &pending));
    assert_ok(pcclUpdateTopology(member));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(connecting.result);
}

static void check_refusals(pcclComm_t *comm)
{
    bool pending = false;
    int world = 7;
    float x = 1;
    pcclAsyncReduceOp_t handle = {0};
    pcclReduceDescriptor_t descriptor = {.count = 1, .op = pcclSum, .src_descriptor = {.datatype = pcclFloat}};
    assert_closed(pcclCloseCommunicator(comm));
    assert_closed(pcclConnect(comm));
    assert_closed(pcclUpdateTopology(comm));
    assert_closed(pcclArePeersPending(comm, &pending));
    assert_closed(pcclGetAttribute(comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &world));
    assert_closed(pcclAllReduceAsync(&x, &x, &descriptor, comm, &handle));
    assert_closed(pcclAbortOperations(comm));
    assert_int_equal(world, 7);
}

static int initialize(void **state)
{
    assert_int_equal(pcclCloseCommunicator(NULL), pcclNotInitialized);
    return pcclInit() == pcclSuccess ? 0 : -1;
}

GROUP(initialize, NULL)

TEST(who_is_inside_is_sent_out)
{
    pcclMasterInstance_t *master = NULL;
    uint16_t port = 0;
    char address[64], waits[512] = "";
    pthread_t thread;
    int world = 0;
    assert_ok(pcclCreateMasterWithOptions("127.0.0.1:0", NULL, &master));
    assert_ok(pcclRunMaster(master));
    assert_ok(pcclMasterGetPort(master, &port));
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    pcclComm_t *stays = create(address), *goes = create(address);
    join(stays, goes);

    struct waiter waiter = {.comm = goes, .result = pcclSuccess};
    assert_int_equal(pthread_create(&thread, NULL, update, &waiter), 0);
    while (waits[0] == 0)
        assert_ok(pcclDescribeWaits(goes, waits, sizeof waits));
    assert_ok(pcclCloseCommunicator(goes));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_not_equal(waiter.result, pcclSuccess);
    check_refusals(goes);

    while (world != 1) { /* the other peer has said good-bye, and the master may not have received it yet */
        assert_ok(pcclUpdateTopology(stays));
        assert_ok(pcclGetAttribute(stays, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &world));
    }
    assert_ok(pcclDestroyCommunicator(goes));
    assert_ok(pcclDestroyCommunicator(stays));
    assert_ok(pcclInterruptMaster(master));
    assert_ok(pcclMasterAwaitTermination(master));
    assert_ok(pcclDestroyMaster(master));
}

TEST(from_any_state)
{
    pcclComm_t *comm = create("127.0.0.1:1");
    assert_ok(pcclCloseCommunicator(comm));
    check_refusals(comm);
    assert_ok(pcclDestroyCommunicator(comm));
    assert_int_equal(pcclCloseCommunicator(NULL), pcclInvalidArgument);
}
