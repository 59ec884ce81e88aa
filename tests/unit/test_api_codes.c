/*
 * Every code that pccl.h promises for wrong arguments and wrong states, with its reason, and a
 * master in this process. Tests that need other processes are in tests/e2e.
 */
#include "unit.h"
#include <pccl.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Checks the result, and that the reason has this part. comm NULL: for calls without a communicator. */
#define assert_fails(comm, call, code, part) check_failure(comm, call, code, part, #call, __LINE__)
#define assert_ok(call) assert_int_equal(call, pcclSuccess)

static void check_failure(const pcclComm_t *comm, pcclResult_t result, pcclResult_t code, const char *part,
                          const char *call, int line)
{
    const char *reason = pcclGetLastError(comm);
    if (result != code || reason[0] == 0 || strstr(reason, part) == NULL)
        fail_msg("line %d: %s gave %d (%s), want %d with '%s'", line, call, (int)result, reason, (int)code, part);
}

/* ---- a master and communicators ---- */

static pcclMasterInstance_t *start_master(char *address, size_t size)
{
    pcclMasterInstance_t *master = NULL;
    uint16_t port = 0;
    assert_ok(pcclCreateMasterWithOptions("127.0.0.1:0", NULL, &master));
    assert_ok(pcclRunMaster(master));
    assert_ok(pcclMasterGetPort(master, &port));
    assert_true(port != 0);
    snprintf(address, size, "127.0.0.1:%u", port);
    return master;
}

static void end_master(pcclMasterInstance_t *master)
{
    assert_ok(pcclInterruptMaster(master));
    assert_ok(pcclMasterAwaitTermination(master));
    assert_ok(pcclDestroyMaster(master));
}

/* settings: "name=value name=value" */
static pcclComm_t *create(const char *address, const char *settings)
{
    char text[256], *rest = NULL;
    pcclOptions_t *options = NULL;
    pcclComm_t *comm = NULL;
    assert_ok(pcclCreateOptions(&options));
    assert_ok(pcclSetOption(options, "port", "0"));
    snprintf(text, sizeof text, "%s", settings);
    for (char *setting = strtok_r(text, " ", &rest); setting != NULL; setting = strtok_r(NULL, " ", &rest)) {
        char *equal = strchr(setting, '=');
        assert_non_null(equal);
        *equal = 0;
        assert_ok(pcclSetOption(options, setting, equal + 1));
    }
    assert_ok(pcclCreateCommunicatorWithOptions(address, options, &comm));
    assert_ok(pcclDestroyOptions(options));
    return comm;
}

/* A blocking call on a separate thread. */
struct background {
    pthread_t thread;
    pcclComm_t *comm;
    pcclAsyncReduceOp_t handle;
    pcclResult_t result;
    char reason[512];
};

static void finish(struct background *call) { pthread_join(call->thread, NULL); }

static void *connect_thread(void *argument)
{
    struct background *call = argument;
    call->result = pcclConnect(call->comm);
    return NULL;
}

static void *update_thread(void *argument)
{
    struct background *call = argument;
    call->result = pcclUpdateTopology(call->comm);
    return NULL;
}

static void *pending_thread(void *argument)
{
    struct background *call = argument;
    bool pending;
    call->result = pcclArePeersPending(call->comm, &pending);
    return NULL;
}

static void *optimize_thread(void *argument)
{
    struct background *call = argument;
    call->result = pcclOptimizeTopology(call->comm);
    return NULL;
}

static void *await_thread(void *argument)
{
    struct background *call = argument;
    call->result = pcclAwaitAsyncReduce(&call->handle, NULL);
    snprintf(call->reason, sizeof call->reason, "%s", pcclGetLastError(call->comm));
    return NULL;
}

static void background(struct background *call, pcclComm_t *comm, void *(*run)(void *))
{
    call->comm = comm;
    assert_int_equal(pthread_create(&call->thread, NULL, run, call), 0);
}

/* Until pcclDescribeWaits has this text; every communicator here asks soon. */
static void until_waiting(const pcclComm_t *comm, const char *part)
{
    char text[512] = "";
    while (strstr(text, part) == NULL)
        assert_ok(pcclDescribeWaits(comm, text, sizeof text));
}

/* Two members of one group. */
struct pair {
    pcclMasterInstance_t *master;
    pcclComm_t *a, *b;
    char address[64];
};

static void join_pair(struct pair *pair, const char *settings)
{
    struct background connect;
    bool pending = false;
    pair->master = start_master(pair->address, sizeof pair->address);
    pair->a = create(pair->address, settings);
    pair->b = create(pair->address, settings);
    assert_ok(pcclConnect(pair->a));
    background(&connect, pair->b, connect_thread);
    while (!pending)
        assert_ok(pcclArePeersPending(pair->a, &pending));
    assert_ok(pcclUpdateTopology(pair->a));
    finish(&connect);
    assert_int_equal(connect.result, pcclSuccess);
}

static void part_pair(struct pair *pair)
{
    assert_ok(pcclDestroyCommunicator(pair->a));
    assert_ok(pcclDestroyCommunicator(pair->b));
    end_master(pair->master);
}

static pcclReduceDescriptor_t descriptor(uint64_t tag, size_t count)
{
    return (pcclReduceDescriptor_t){
        .count = count, .op = pcclSum, .tag = tag, .src_descriptor = {pcclInt32, pcclDistributionNone}};
}

/* ---- before pcclInit: the first test, since pcclInit is never undone ---- */

TEST(test_not_initialized)
{
    pcclCommCreateParams_t params = {.master_address = {.inet = {.protocol = inetIPv4}, .port = 1}};
    pcclComm_t *comm = NULL;
    pcclReduceDescriptor_t reduce = descriptor(1, 1);
    pcclReduceOpDescriptor_t entry = {.descriptor = reduce};
    pcclAsyncReduceOp_t handle = {0};
    pcclSharedState_t shared = {0};
    int32_t value = 0;
    int attribute;
    bool pending;
    char text[8];
    assert_fails(NULL, pcclCreateCommunicator(&params, &comm), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclCreateCommunicatorWithOptions("localhost", NULL, &comm), pcclNotInitialized, "pcclInit");
    assert_null(comm);
    assert_fails(NULL, pcclConnect(NULL), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclDestroyCommunicator(NULL), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclGetAttribute(NULL, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &attribute), pcclNotInitialized,
                 "pcclInit");
    assert_fails(NULL, pcclUpdateTopology(NULL), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclArePeersPending(NULL, &pending), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclOptimizeTopology(NULL), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclGetTopology(NULL, text, sizeof text, NULL), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclDescribeWaits(NULL, text, sizeof text), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclDumpFlightRecorder(NULL, text, sizeof text, NULL), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclWriteFlightRecorder(NULL, "file"), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclGetVerdicts(NULL, NULL, 0, NULL), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclGetPeerId(NULL, text, sizeof text), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclGetPeerName(NULL, text, text, sizeof text), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclAllReduceAsync(&value, &value, &reduce, NULL, &handle), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclAwaitAsyncReduce(&handle, NULL), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclAllReduce(&value, &value, &reduce, NULL, NULL), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclAllReduceMultipleWithRetry(&entry, 1, NULL, NULL, 1), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclSynchronizeSharedState(NULL, &shared, PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR, NULL),
                 pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclAwaitAsyncReduceFor(&handle, 1, NULL), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclTestAsyncReduce(&handle, &pending), pcclNotInitialized, "pcclInit");
    assert_fails(NULL, pcclAbortOperations(NULL), pcclNotInitialized, "pcclInit");
}

TEST(test_what_needs_no_init)
{
    char address[64];
    pcclBuildInfo_t info;
    pcclOptions_t *options = NULL;
    pcclMasterInstance_t *master = start_master(address, sizeof address);
    assert_ok(pcclGetBuildInfo(&info));
    assert_fails(NULL, pcclGetBuildInfo(NULL), pcclInvalidArgument, "info");
    assert_int_equal(pcclGetVersion(), PCCL_VERSION_MAJOR * 10000 + PCCL_VERSION_MINOR * 100 + PCCL_VERSION_PATCH);
    assert_ok(pcclCreateOptions(&options));
    assert_ok(pcclDestroyOptions(options));
    end_master(master);
}

TEST(test_init_twice)
{
    assert_ok(pcclInit());
    assert_ok(pcclInit());
}

/* ---- texts, logs, parameters ---- */

TEST(test_error_strings)
{
    for (int i = 0; i <= pcclDrained; i++) {
        const char *text = pcclGetErrorString((pcclResult_t)i);
        assert_true(strlen(text) > 3 && text[strlen(text) - 1] != '.');
        assert_string_not_equal(text, pcclGetErrorString((pcclResult_t)1000));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(text, pcclGetErrorString((pcclResult_t)k));
    }
    assert_string_equal(pcclGetErrorString((pcclResult_t)-1), pcclGetErrorString((pcclResult_t)(pcclDrained + 1)));
}

static void *read_last_error(void *argument) { return (void *)(uintptr_t)(pcclGetLastError(NULL)[0] == 0); }

TEST(test_last_error_is_of_the_thread)
{
    pthread_t thread;
    void *empty = NULL;
    assert_fails(NULL, pcclGetBuildInfo(NULL), pcclInvalidArgument, "pcclGetBuildInfo");
    pthread_create(&thread, NULL, read_last_error, NULL);
    pthread_join(thread, &empty);
    assert_non_null(empty);
    pcclBuildInfo_t info;
    assert_ok(pcclGetBuildInfo(&info)); /* which leaves the last error */
    assert_non_null(strstr(pcclGetLastError(NULL), "pcclGetBuildInfo"));
}

static void count_lines(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    assert_true(subsystem[0] != 0 && message[0] != 0 && strchr(message, '\n') == NULL);
    __atomic_add_fetch((int *)user, 1, __ATOMIC_SEQ_CST);
}

TEST(test_log)
{
    static int lines;
    char address[64];
    assert_fails(NULL, pcclSetLogLevel((pcclLogLevel_t)6), pcclInvalidArgument, "level");
    assert_fails(NULL, pcclSetLogLevel((pcclLogLevel_t)-1), pcclInvalidArgument, "level");
    assert_ok(pcclSetLogLevel(pcclLogTrace));
    assert_ok(pcclSetLogCallback(count_lines, &lines));
    pcclMasterInstance_t *master = start_master(address, sizeof address);
    pcclComm_t *comm = create(address, "");
    assert_ok(pcclConnect(comm));
    assert_ok(pcclDestroyCommunicator(comm));
    end_master(master);
    assert_ok(pcclSetLogLevel(pcclLogNone));
    assert_ok(pcclSetLogCallback(count_lines, &lines)); /* it has had all lines before */
    assert_true(lines > 0);
    int before = lines;
    master = start_master(address, sizeof address);
    comm = create(address, "");
    assert_ok(pcclConnect(comm));
    assert_ok(pcclDestroyCommunicator(comm));
    end_master(master);
    assert_ok(pcclSetLogCallback(NULL, NULL));
    assert_int_equal(lines, before);
    assert_ok(pcclSetLogLevel(pcclLogNone));
}

TEST(test_parameters)
{
    pcclParameterInfo_t info = PCCL_PARAMETER_INFO_INIT;
    char value[1100];
    size_t count = pcclGetParameterCount();
    assert_true(count > 20);
    assert_fails(NULL, pcclGetParameterInfo(count, &info), pcclInvalidArgument, "index");
    assert_fails(NULL, pcclGetParameterInfo(0, NULL), pcclInvalidArgument, "NULL");
    info.size = 0;
    assert_fails(NULL, pcclGetParameterInfo(0, &info), pcclInvalidArgument, "size");
    pcclOptions_t *options = NULL;
    assert_ok(pcclCreateOptions(&options));
    for (size_t i = 0; i < count; i++) {
        info.size = sizeof info;
        assert_ok(pcclGetParameterInfo(i, &info));
        assert_true(strncmp(info.env, "PCCL_", 5) == 0 && info.help[0] != 0);
        if (info.scope == pcclParameterProcess) {
            assert_fails(NULL, pcclSetOption(options, info.name, info.default_value), pcclInvalidArgument, info.name);
            continue;
        }
        assert_ok(pcclSetOption(options, info.name, info.default_value));
        assert_ok(pcclGetOption(options, info.name, value, sizeof value));
        assert_string_equal(value, info.default_value);
        if (info.max_value[0] != 0 && strcmp(info.max_value, "4294967295") != 0) {
            snprintf(value, sizeof value, "%s0", info.max_value);
            assert_fails(NULL, pcclSetOption(options, info.name, value), pcclInvalidArgument, info.name);
            assert_non_null(strstr(pcclGetLastError(NULL), value)); /* the value and the range are named */
        }
    }
    assert_ok(pcclDestroyOptions(options));
}

TEST(test_options)
{
    pcclOptions_t *options = NULL;
    char value[16];
    assert_fails(NULL, pcclCreateOptions(NULL), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclDestroyOptions(NULL), pcclInvalidArgument, "NULL");
    assert_ok(pcclCreateOptions(&options));
    assert_fails(NULL, pcclSetOption(NULL, "where_ms", "50"), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclSetOption(options, NULL, "50"), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclSetOption(options, "were_ms", "50"), pcclInvalidArgument, "were_ms");
    assert_fails(NULL, pcclSetOption(options, "where_ms", "5s"), pcclInvalidArgument, "5s");
    assert_fails(NULL, pcclSetOption(options, "where_ms", "-1"), pcclInvalidArgument, "10 to");
    assert_fails(NULL, pcclSetOption(options, "extended_results", "maybe"), pcclInvalidArgument, "maybe");
    assert_fails(NULL, pcclSetOption(options, "advertise_addresses", "a:b:c"), pcclInvalidArgument,
                 "advertise_addresses");
    assert_ok(pcclSetOption(options, "where_ms", "50"));
    assert_ok(pcclGetOption(options, "where_ms", value, 3));
    assert_string_equal(value, "50");
    assert_fails(NULL, pcclGetOption(options, "where_ms", value, 2), pcclInvalidArgument, "3");
    assert_fails(NULL, pcclGetOption(options, "were_ms", value, sizeof value), pcclInvalidArgument, "were_ms");
    assert_fails(NULL, pcclGetOption(options, NULL, value, sizeof value), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclGetOption(options, "where_ms", NULL, sizeof value), pcclInvalidArgument, "NULL");
    assert_ok(pcclSetOption(options, "where_ms", NULL));
    assert_ok(pcclGetOption(options, "where_ms", value, sizeof value));
    assert_string_equal(value, "2000");
    assert_ok(pcclGetOption(NULL, "where_ms", value, sizeof value));
    assert_string_equal(value, "2000");
    assert_ok(pcclDestroyOptions(options));
}

/* ---- creation ---- */

TEST(test_create)
{
    static const char *const bad[] = {"", ",", "host:", "host:70000", "host:1,", "[::1", "1.2.3:5", "a b:1", "host:0"};
    pcclCommCreateParams_t params = {.master_address = {.inet = {.protocol = inetIPv4}, .port = 48148}};
    pcclComm_t *comm = NULL;
    assert_fails(NULL, pcclCreateCommunicator(NULL, &comm), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclCreateCommunicator(&params, NULL), pcclInvalidArgument, "NULL");
    params.master_address.port = 0;
    assert_fails(NULL, pcclCreateCommunicator(&params, &comm), pcclInvalidArgument, "port");
    params.master_address.port = 1;
    params.master_address.inet.protocol = (ccoip_inet_protocol_t)2;
    assert_fails(NULL, pcclCreateCommunicator(&params, &comm), pcclInvalidArgument, "IPv4");
    assert_fails(NULL, pcclCreateCommunicatorWithOptions(NULL, NULL, &comm), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclCreateCommunicatorWithOptions("host", NULL, NULL), pcclInvalidArgument, "NULL");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(NULL, pcclCreateCommunicatorWithOptions(bad[i], NULL, &comm), pcclInvalidArgument, "");
    assert_fails(NULL, pcclCreateCommunicatorWithOptions("h,h,h,h,h,h,h,h,h,h,h,h,h,h,h,h,h", NULL, &comm),
                 pcclInvalidArgument, "expected at most 16");
    assert_null(comm);
    pcclOptions_t *options = NULL;
    assert_ok(pcclCreateOptions(&options));
    assert_ok(pcclSetOption(options, "master_lost_ms", "1000"));
    assert_fails(NULL, pcclCreateCommunicatorWithOptions("host", options, &comm), pcclInvalidArgument, "alone_ms");
    assert_ok(pcclDestroyOptions(options));
    params.master_address.inet.protocol = inetIPv6;
    params.p2p_connection_pool_size = 100000; /* value that PCCL 1.0 accepts */
    assert_ok(pcclCreateCommunicator(&params, &comm));
    assert_ok(pcclDestroyCommunicator(comm));
    assert_fails(NULL, pcclDestroyCommunicator(NULL), pcclInvalidArgument, "NULL");
}

TEST(test_bad_environment)
{
    pcclCommCreateParams_t params = {.master_address = {.inet = {.protocol = inetIPv4}, .port = 1}};
    ccoip_socket_address_t address = {.inet = {.protocol = inetIPv4}, .port = 1};
    pcclComm_t *comm = NULL;
    pcclMasterInstance_t *master = NULL;
    setenv("PCCL_WHERE_MS", "soon", 1);
    setenv("PCCL_SILENCE_MS", "1", 1);
    assert_fails(NULL, pcclCreateCommunicator(&params, &comm), pcclInvalidArgument, "where_ms");
    assert_fails(NULL, pcclCreateMaster(address, &master), pcclInvalidArgument, "silence_ms");
    setenv("PCCL_SILENCE_MS", "1000", 1); /* valid alone, but the heartbeat is longer */
    assert_fails(NULL, pcclCreateMaster(address, &master), pcclInvalidArgument, "heartbeat_ms");
    unsetenv("PCCL_WHERE_MS");
    unsetenv("PCCL_SILENCE_MS");
}

/* ---- the master ---- */

TEST(test_master)
{
    pcclMasterInstance_t *master = NULL, *other = NULL;
    ccoip_socket_address_t address = {.inet = {.protocol = inetIPv4, .ipv4 = {{127, 0, 0, 1}}}, .port = 0};
    uint16_t port = 0;
    assert_fails(NULL, pcclCreateMaster(address, &master), pcclInvalidArgument, "port");
    address.port = 1;
    assert_fails(NULL, pcclCreateMaster(address, NULL), pcclInvalidArgument, "NULL");
    address.inet.protocol = (ccoip_inet_protocol_t)7;
    assert_fails(NULL, pcclCreateMaster(address, &master), pcclInvalidArgument, "IPv4");
    assert_fails(NULL, pcclCreateMasterWithOptions(NULL, NULL, &master), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclCreateMasterWithOptions("localhost", NULL, NULL), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclCreateMasterWithOptions("x:y", NULL, &master), pcclInvalidArgument, "x:y");
    assert_fails(NULL, pcclRunMaster(NULL), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclMasterGetPort(NULL, &port), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclInterruptMaster(NULL), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclReloadMaster(NULL), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclMasterAwaitTermination(NULL), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclDestroyMaster(NULL), pcclInvalidArgument, "NULL");

    assert_ok(pcclCreateMasterWithOptions("127.0.0.1:0", NULL, &master));
    assert_fails(NULL, pcclMasterGetPort(master, &port), pcclInvalidUsage, "never run");
    assert_fails(NULL, pcclMasterGetPort(master, NULL), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclInterruptMaster(master), pcclInvalidUsage, "never run");
    assert_fails(NULL, pcclReloadMaster(master), pcclInvalidUsage, "never run");
    assert_fails(NULL, pcclMasterAwaitTermination(master), pcclInvalidUsage, "never run");
    assert_ok(pcclRunMaster(master));
    assert_fails(NULL, pcclRunMaster(master), pcclInvalidUsage, "already been run");
    assert_fails(NULL, pcclDestroyMaster(master), pcclInvalidUsage, "this master is running");
    assert_ok(pcclMasterGetPort(master, &port));

    /* The port is taken: run reports it, and the master may be freed or run again later. */
    address.inet.protocol = inetIPv4;
    address.port = port;
    assert_ok(pcclCreateMaster(address, &other));
    assert_fails(NULL, pcclRunMaster(other), pcclInvalidUsage, "in use");
    assert_ok(pcclReloadMaster(master));
    assert_ok(pcclInterruptMaster(master));
    assert_ok(pcclInterruptMaster(master));
    assert_ok(pcclMasterAwaitTermination(master));
    assert_ok(pcclMasterAwaitTermination(master));
    assert_ok(pcclInterruptMaster(master));
    assert_ok(pcclReloadMaster(master));
    assert_fails(NULL, pcclRunMaster(master), pcclInvalidUsage, "already been run");
    assert_ok(pcclDestroyMaster(master));
    assert_ok(pcclRunMaster(other));
    end_master(other);

    assert_ok(pcclCreateMasterWithOptions("192.0.2.77:48148", NULL, &master)); /* not an address of this machine */
    assert_fails(NULL, pcclRunMaster(master), pcclInvalidUsage, "192.0.2.77");
    assert_ok(pcclDestroyMaster(master));
}

/* ---- unconnected ---- */

TEST(test_unconnected)
{
    pcclComm_t *comm = create("127.0.0.1:1", "");
    pcclReduceDescriptor_t reduce = descriptor(1, 1);
    pcclReduceOpDescriptor_t entry = {.descriptor = reduce};
    pcclAsyncReduceOp_t handle = {comm, 1};
    pcclSharedState_t shared = {0};
    int32_t value = 0, result_value = 0;
    int attribute = -5;
    bool pending = true;
    char text[8] = "x";
    entry.sendbuf = entry.recvbuf = &value;
    assert_fails(comm, pcclGetAttribute(comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &attribute), pcclInvalidUsage,
                 "not connected");
    assert_fails(comm, pcclGetAttribute(comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE_NOW, &attribute), pcclInvalidUsage,
                 "not connected");
    assert_int_equal(attribute, -5);
    assert_fails(comm, pcclUpdateTopology(comm), pcclInvalidUsage, "not connected");
    assert_fails(comm, pcclArePeersPending(comm, &pending), pcclInvalidUsage, "not connected");
    assert_true(pending);
    assert_fails(comm, pcclOptimizeTopology(comm), pcclInvalidUsage, "not connected");
    assert_fails(comm, pcclGetTopology(comm, text, sizeof text, NULL), pcclInvalidUsage, "not connected");
    assert_fails(comm, pcclReportTraining(comm, 1, 2.5), pcclInvalidUsage, "not connected");
    pcclProgress_t progress = PCCL_PROGRESS_INIT;
    assert_ok(pcclGetProgress(comm, &progress));
    assert_int_equal(progress.call, pcclProgressNone);
    assert_string_equal(text, "x");
    assert_fails(comm, pcclAllReduceAsync(&value, &result_value, &reduce, comm, &handle), pcclInvalidUsage,
                 "not connected");
    assert_fails(comm, pcclAwaitAsyncReduce(&handle, NULL), pcclInvalidUsage, "not connected");
    assert_fails(comm, pcclAwaitAsyncReduceFor(&handle, 1, NULL), pcclInvalidUsage, "not connected");
    assert_fails(comm, pcclTestAsyncReduce(&handle, &pending), pcclInvalidUsage, "not connected");
    assert_fails(comm, pcclAbortOperations(comm), pcclInvalidUsage, "not connected");
    assert_fails(comm, pcclAllReduce(&value, &result_value, &reduce, comm, NULL), pcclInvalidUsage, "not connected");
    assert_fails(comm, pcclAllReduceMultipleWithRetry(&entry, 1, comm, NULL, 1), pcclInvalidUsage, "not connected");
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR, NULL),
                 pcclInvalidUsage, "not connected");
    assert_ok(pcclDescribeWaits(comm, text, sizeof text));
    assert_string_equal(text, "");
    /* No process listens there; the second attempt fails in the same way. */
    assert_fails(comm, pcclConnect(comm), pcclMasterConnectionFailed, "127.0.0.1:1");
    assert_fails(comm, pcclConnect(comm), pcclMasterConnectionFailed, "127.0.0.1:1");
    assert_fails(comm, pcclUpdateTopology(comm), pcclInvalidUsage, "not connected");
    assert_ok(pcclDestroyCommunicator(comm));

    comm = create("no-such-host.invalid:1", "");
    assert_fails(comm, pcclConnect(comm), pcclMasterConnectionFailed, "no-such-host.invalid");
    assert_ok(pcclDestroyCommunicator(comm));
}

/* ---- alone ---- */

TEST(test_alone)
{
    char address[64];
    pcclMasterInstance_t *master = start_master(address, sizeof address);
    pcclComm_t *comm = create(address, "");
    pcclReduceDescriptor_t reduce = descriptor(1, 1);
    pcclReduceOpDescriptor_t entry = {.descriptor = reduce};
    pcclReduceInfo_t info = {77, 77, 77};
    pcclAsyncReduceOp_t handle;
    int32_t value = 3, result_value = 4;
    int attribute;
    bool pending = true;
    entry.sendbuf = &value;
    entry.recvbuf = &result_value;
    assert_ok(pcclConnect(comm));
    assert_fails(comm, pcclConnect(comm), pcclInvalidUsage, "already");
    for (int i = 1; i <= 6; i++) {
        assert_ok(pcclGetAttribute(comm, (pcclAttribute_t)i, &attribute));
        assert_int_equal(attribute, 1);
    }
    attribute = 9;
    assert_fails(comm, pcclGetAttribute(comm, (pcclAttribute_t)0, &attribute), pcclInvalidArgument, "attribute");
    assert_fails(comm, pcclGetAttribute(comm, (pcclAttribute_t)7, &attribute), pcclInvalidArgument, "attribute");
    assert_fails(comm, pcclGetAttribute(comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, NULL), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclGetAttribute(NULL, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &attribute), pcclInvalidArgument,
                 "NULL");
    assert_int_equal(attribute, 9);
    assert_ok(pcclUpdateTopology(comm));
    assert_fails(NULL, pcclUpdateTopology(NULL), pcclInvalidArgument, "NULL");
    assert_ok(pcclArePeersPending(comm, &pending));
    assert_false(pending);
    assert_fails(comm, pcclArePeersPending(comm, NULL), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclArePeersPending(NULL, &pending), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclConnect(NULL), pcclInvalidArgument, "NULL");
    assert_fails(comm, pcclOptimizeTopology(comm), pcclInvalidUsage, "alone");
    assert_fails(NULL, pcclOptimizeTopology(NULL), pcclInvalidArgument, "NULL");
    char text[512] = "x";
    size_t needed = 7;
    assert_fails(NULL, pcclGetTopology(NULL, text, sizeof text, &needed), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclSetProgressCallback(NULL, NULL, NULL), pcclInvalidArgument, "NULL");
    pcclProgress_t unsized = {0};
    assert_fails(NULL, pcclReportTraining(NULL, 1, 2.5), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclGetProgress(NULL, &unsized), pcclInvalidArgument, "NULL");
    assert_fails(comm, pcclGetProgress(comm, NULL), pcclInvalidArgument, "PCCL_PROGRESS_INIT");
    assert_fails(comm, pcclGetProgress(comm, &unsized), pcclInvalidArgument, "PCCL_PROGRESS_INIT");
    assert_fails(comm, pcclGetTopology(comm, NULL, 5, &needed), pcclInvalidArgument, "NULL");
    assert_fails(comm, pcclGetTopology(comm, NULL, 0, NULL), pcclInvalidArgument, "NULL");
    assert_int_equal(needed, 7);
    assert_ok(pcclGetTopology(comm, NULL, 0, &needed));
    assert_fails(comm, pcclGetTopology(comm, text, needed - 1, NULL), pcclInvalidArgument, "bytes");
    assert_string_equal(text, "x");
    assert_ok(pcclGetTopology(comm, text, needed, &needed));
    assert_int_equal(strlen(text) + 1, needed);
    assert_non_null(strstr(text, "peers 1\n"));
    assert_fails(comm, pcclAllReduce(&value, &result_value, &reduce, comm, NULL), pcclTooFewPeers, "alone");
    assert_fails(comm, pcclAllReduceAsync(&value, &result_value, &reduce, comm, &handle), pcclTooFewPeers, "alone");
    assert_fails(comm, pcclAllReduceMultipleWithRetry(&entry, 1, comm, &info, 1), pcclTooFewPeers, "alone");
    assert_int_equal(info.local_world_size, 1);
    assert_true(value == 3 && result_value == 4);
    assert_ok(pcclDestroyCommunicator(comm));
    end_master(master);
}

TEST(test_ids_and_names)
{
    pcclComm_t *comm = create("127.0.0.1:1", "");
    char id[PCCL_PEER_ID_SIZE], name[PCCL_PEER_NAME_SIZE] = "x";
    static const char zeros[] = "00000000000000000000000000000000";
    assert_fails(NULL, pcclGetPeerId(NULL, id, sizeof id), pcclInvalidArgument, "NULL");
    assert_fails(comm, pcclGetPeerId(comm, NULL, sizeof id), pcclInvalidArgument, "NULL");
    assert_fails(comm, pcclGetPeerId(comm, id, sizeof id - 1), pcclInvalidArgument, "too small");
    assert_fails(comm, pcclGetPeerId(comm, id, sizeof id), pcclInvalidUsage, "pcclConnect");
    assert_fails(comm, pcclGetPeerName(comm, zeros, name, sizeof name - 1), pcclInvalidArgument, "too small");
    assert_fails(comm, pcclGetPeerName(comm, NULL, name, sizeof name), pcclInvalidArgument, "NULL");
    assert_fails(comm, pcclGetPeerName(comm, zeros + 1, name, sizeof name), pcclInvalidArgument,
                 "32 lower-case hexadecimal");
    assert_fails(comm, pcclGetPeerName(comm, "0000000000000000000000000000000G", name, sizeof name),
                 pcclInvalidArgument, "32 lower-case hexadecimal");
    assert_ok(pcclGetPeerName(comm, zeros, name, sizeof name));
    assert_string_equal(name, "");
    assert_ok(pcclDestroyCommunicator(comm));
}

TEST(test_describe_waits)
{
    pcclComm_t *comm = create("127.0.0.1:1", "");
    char text[2] = "x";
    assert_fails(NULL, pcclDescribeWaits(NULL, text, sizeof text), pcclInvalidArgument, "NULL");
    assert_fails(comm, pcclDescribeWaits(comm, NULL, sizeof text), pcclInvalidArgument, "NULL");
    assert_fails(comm, pcclDescribeWaits(comm, text, 0), pcclInvalidArgument, "size is 0");
    size_t needed = 0;
    assert_fails(comm, pcclDumpFlightRecorder(comm, NULL, 1, &needed), pcclInvalidArgument, "size is not 0");
    assert_fails(comm, pcclDumpFlightRecorder(comm, NULL, 0, NULL), pcclInvalidArgument,
                 "both text and needed are NULL");
    assert_fails(comm, pcclDumpFlightRecorder(comm, text, sizeof text, &needed), pcclInvalidArgument, "bytes needed");
    assert_true(needed > sizeof text && text[0] == 'x');
    assert_ok(pcclDumpFlightRecorder(comm, NULL, 0, &needed));
    assert_fails(comm, pcclWriteFlightRecorder(comm, NULL), pcclInvalidArgument, "file is NULL or empty");
    assert_fails(comm, pcclWriteFlightRecorder(comm, ""), pcclInvalidArgument, "file is NULL or empty");
    assert_fails(comm, pcclWriteFlightRecorder(comm, "/dev/null/file"), pcclInternalError, "/dev/null/file");
    size_t verdicts = 1;
    assert_fails(comm, pcclGetVerdicts(comm, NULL, 1, &verdicts), pcclInvalidArgument, "although max is not 0");
    assert_fails(comm, pcclGetVerdicts(comm, NULL, 0, NULL), pcclInvalidArgument, "count is NULL");
    assert_ok(pcclGetVerdicts(comm, NULL, 0, &verdicts));
    assert_int_equal(verdicts, 0);
    assert_ok(pcclDescribeWaits(comm, text, 1));
    assert_int_equal(text[0], 0);
    assert_ok(pcclDestroyCommunicator(comm));
}

/* ---- shared state, alone ---- */

TEST(test_shared_state)
{
    char address[64];
    pcclMasterInstance_t *master = start_master(address, sizeof address);
    pcclComm_t *comm = create(address, ""), *precise = NULL;
    pcclSharedStateSyncStrategy_t popular = PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR;
    float data = 1;
    const pcclTensorInfo_t good = {"w", &data, 1, pcclFloat, pcclDeviceCpu, false};
    pcclTensorInfo_t tensor = good;
    pcclSharedState_t shared = {0, 1, &tensor};
    assert_ok(pcclConnect(comm));
    assert_fails(NULL, pcclSynchronizeSharedState(NULL, &shared, popular, NULL), pcclInvalidArgument, "NULL");
    assert_fails(comm, pcclSynchronizeSharedState(comm, NULL, popular, NULL), pcclInvalidArgument, "NULL");
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, (pcclSharedStateSyncStrategy_t)3, NULL),
                 pcclInvalidArgument, "strategy");
    shared.infos = NULL;
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, popular, NULL), pcclInvalidArgument, "infos");
    shared.infos = &tensor;
    tensor.name = NULL;
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, popular, NULL), pcclInvalidArgument, "name");
    tensor = good;
    tensor.data = NULL;
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, popular, NULL), pcclInvalidArgument, "data");
    tensor = good;
    tensor.datatype = (pcclDataType_t)15;
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, popular, NULL), pcclInvalidArgument, "data type");
    tensor = good;
    tensor.device_type = pcclDeviceCuda;
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, popular, NULL), pcclInvalidArgument, "CUDA");
    tensor.device_type = (pcclDeviceType_t)2;
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, popular, NULL), pcclInvalidArgument, "device");
    tensor = good;
    pcclTensorInfo_t twice[] = {good, good};
    shared = (pcclSharedState_t){0, 2, twice};
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, popular, NULL), pcclInvalidArgument, "name");
    shared = (pcclSharedState_t){UINT64_MAX, 1, &tensor};
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, popular, NULL), pcclInvalidArgument, "revision");
    /* Alone: any revision at first, then each one larger by one. */
    pcclSharedStateSyncInfo_t info = {7, 7};
    shared.revision = 41;
    assert_ok(pcclSynchronizeSharedState(comm, &shared, popular, &info));
    assert_true(data == 1 && shared.revision == 41 && info.tx_bytes == 0 && info.rx_bytes == 0);
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, popular, &info), pcclInvalidUsage, "revision 42");
    shared.revision = 42;
    assert_ok(pcclSynchronizeSharedState(comm, &shared, popular, NULL));
    shared.revision = 44;
    assert_fails(comm, pcclSynchronizeSharedState(comm, &shared, popular, &info), pcclInvalidUsage, "one");
    assert_fails(comm, pcclUpdateTopology(comm), pcclInvalidUsage, "not connected");
    assert_ok(pcclDestroyCommunicator(comm));
    precise = create(address, "extended_results=1");
    assert_ok(pcclConnect(precise));
    assert_fails(precise,
                 pcclSynchronizeSharedState(precise, &shared, PCCL_SHARED_STATE_SYNC_STRATEGY_RECEIVE_ONLY, NULL),
                 pcclExpelled, "no member offers");
    assert_ok(pcclDestroyCommunicator(precise));
    end_master(master);
}

/* ---- reductions of two ---- */

TEST(test_reduce_arguments)
{
    struct pair pair;
    int32_t send[4] = {1, 2, 3, 4}, recv[4] = {0};
    pcclAsyncReduceOp_t handle;
    pcclReduceDescriptor_t reduce = descriptor(1, 4);
    join_pair(&pair, "");
    pcclComm_t *a = pair.a;
    assert_fails(a, pcclAllReduceAsync(NULL, recv, &reduce, a, &handle), pcclInvalidArgument, "NULL");
    assert_fails(a, pcclAllReduceAsync(send, NULL, &reduce, a, &handle), pcclInvalidArgument, "NULL");
    assert_fails(a, pcclAllReduceAsync(send, recv, NULL, a, &handle), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclAllReduceAsync(send, recv, &reduce, NULL, &handle), pcclInvalidArgument, "NULL");
    assert_fails(a, pcclAllReduceAsync(send, recv, &reduce, a, NULL), pcclInvalidArgument, "NULL");
    reduce.count = 0;
    assert_fails(a, pcclAllReduce(send, recv, &reduce, a, NULL), pcclInvalidArgument, "count");
    reduce.count = SIZE_MAX / 2;
    assert_fails(a, pcclAllReduce(send, recv, &reduce, a, NULL), pcclInvalidArgument, "");
    reduce = descriptor(1, 4);
    reduce.op = (pcclRedOp_t)9;
    assert_fails(a, pcclAllReduce(send, recv, &reduce, a, NULL), pcclInvalidArgument, "operation");
    reduce = descriptor(1, 4);
    reduce.src_descriptor.datatype = (pcclDataType_t)15;
    assert_fails(a, pcclAllReduce(send, recv, &reduce, a, NULL), pcclInvalidArgument, "data type");
    reduce = descriptor(1, 4);
    reduce.quantization_options.algorithm = (pcclQuantizationAlgorithm_t)9;
    assert_fails(a, pcclAllReduce(send, recv, &reduce, a, NULL), pcclInvalidArgument, "quantization");
    reduce.quantization_options.algorithm = pcclQuantInt4;
    assert_fails(a, pcclAllReduce(send, recv, &reduce, a, NULL), pcclInvalidArgument, "pcclCreateCodec");
    reduce.quantization_options = (pcclQuantizationOptions_t){(pcclDataType_t)15, pcclQuantMinMax};
    assert_fails(a, pcclAllReduce(send, recv, &reduce, a, NULL), pcclInvalidArgument, "data type");
    reduce = descriptor(1, 4);
    reduce.src_descriptor.distribution_hint = (pcclDistributionHint_t)3;
    assert_fails(a, pcclAllReduce(send, recv, &reduce, a, NULL), pcclInvalidArgument, "distribution");
    reduce = descriptor(1, 4);
    reduce.quantization_options.algorithm = pcclQuantMinMax;
    assert_fails(a, pcclAllReduce(send, recv, &reduce, a, NULL), pcclInvalidArgument, "i32");
    reduce.src_descriptor.datatype = pcclFloat; /* whatever the size */
    reduce.op = pcclMax;
    reduce.quantization_options.algorithm = pcclQuantZeroPointScale;
    assert_fails(a, pcclAllReduce(send, recv, &reduce, a, NULL), pcclInvalidArgument, "max");
    reduce = descriptor(1, 3);
    assert_fails(a, pcclAllReduce(send, send + 1, &reduce, a, NULL), pcclInvalidArgument, "overlap");
    assert_fails(a, pcclAllReduce(send + 1, send, &reduce, a, NULL), pcclInvalidArgument, "overlap");
    assert_fails(a, pcclAwaitAsyncReduce(&(pcclAsyncReduceOp_t){a, 1}, NULL), pcclInvalidArgument, "tag 1");
    assert_fails(NULL, pcclAwaitAsyncReduce(NULL, NULL), pcclInvalidArgument, "NULL");
    assert_fails(NULL, pcclAwaitAsyncReduce(&(pcclAsyncReduceOp_t){NULL, 1}, NULL), pcclInvalidArgument, "NULL");
    assert_int_equal(send[0] + send[1] + send[2] + send[3], 10);
    /* The other peer received none of it: the first use of the tag matches the other's first. */
    reduce = descriptor(1, 4);
    pcclAsyncReduceOp_t other;
    int32_t there[4] = {10, 20, 30, 40};
    pcclReduceInfo_t info;
    assert_ok(pcclAllReduceAsync(send, recv, &reduce, a, &handle));
    assert_ok(pcclAllReduceAsync(there, there, &reduce, pair.b, &other));
    assert_ok(pcclAwaitAsyncReduce(&handle, &info));
    assert_ok(pcclAwaitAsyncReduce(&other, NULL));
    for (int i = 0; i < 4; i++)
        assert_true(recv[i] == 11 * (i + 1) && there[i] == recv[i] && send[i] == i + 1);
    assert_int_equal(info.local_world_size, 2);
    assert_int_equal(info.tx_bytes, sizeof send);
    part_pair(&pair);
}

TEST(test_launched_and_not_awaited)
{
    struct pair pair;
    int32_t send = 1, recv = 0, recv_there = 0;
    pcclAsyncReduceOp_t handle, again = {(pcclComm_t *)&pair, 77}, theirs;
    pcclReduceDescriptor_t reduce = descriptor(5, 1);
    pcclReduceOpDescriptor_t entry = {&send, &recv, reduce};
    pcclSharedState_t shared = {0};
    struct background first;
    join_pair(&pair, "where_ms=10");
    assert_ok(pcclAllReduceAsync(&send, &recv, &reduce, pair.a, &handle));
    assert_true(handle.comm == pair.a && handle.tag == 5);
    assert_fails(pair.a, pcclAllReduceAsync(&send, &recv, &reduce, pair.a, &again), pcclInvalidArgument, "tag 5");
    assert_true(again.comm == (pcclComm_t *)&pair && again.tag == 77);
    assert_fails(pair.a, pcclAllReduce(&send, &recv, &reduce, pair.a, NULL), pcclInvalidArgument, "tag 5");
    assert_fails(pair.a, pcclAllReduceMultipleWithRetry(&entry, 1, pair.a, NULL, 1), pcclInvalidArgument, "tag 5");
    assert_fails(pair.a, pcclUpdateTopology(pair.a), pcclPendingAsyncOps, "not yet awaited");
    assert_fails(pair.a, pcclOptimizeTopology(pair.a), pcclPendingAsyncOps, "not yet awaited");
    assert_fails(pair.a,
                 pcclSynchronizeSharedState(pair.a, &shared, PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR, NULL),
                 pcclPendingAsyncOps, "not yet awaited");
    first.handle = handle;
    background(&first, pair.a, await_thread);
    until_waiting(pair.a, "tag 5 waits");
    assert_fails(pair.a, pcclAwaitAsyncReduce(&handle, NULL), pcclInvalidArgument, "another thread");
    assert_ok(pcclAllReduceAsync(&send, &recv_there, &reduce, pair.b, &theirs));
    assert_ok(pcclAwaitAsyncReduce(&theirs, NULL));
    finish(&first);
    assert_int_equal(first.result, pcclSuccess);
    assert_true(recv == 2 && recv_there == 2);
    assert_fails(pair.a, pcclAwaitAsyncReduce(&handle, NULL), pcclInvalidArgument, "tag 5");
    part_pair(&pair);
}

TEST(test_list_arguments)
{
    struct pair pair;
    int32_t send[2] = {1, 2}, recv[2] = {0};
    pcclReduceOpDescriptor_t entries[2] = {{&send[0], &recv[0], descriptor(1, 1)},
                                           {&send[1], &recv[1], descriptor(2, 1)}};
    pcclReduceInfo_t info = {77, 77, 77};
    join_pair(&pair, "");
    pcclComm_t *a = pair.a;
    assert_fails(a, pcclAllReduceMultipleWithRetry(NULL, 1, a, &info, 1), pcclInvalidArgument, "NULL");
    assert_fails(a, pcclAllReduceMultipleWithRetry(entries, 0, a, &info, 1), pcclInvalidArgument, "empty");
    assert_fails(NULL, pcclAllReduceMultipleWithRetry(entries, 2, NULL, &info, 1), pcclInvalidArgument, "NULL");
    assert_fails(a, pcclAllReduceMultipleWithRetry(entries, 2, a, &info, 0), pcclInvalidArgument, "max_in_flight");
    assert_fails(a, pcclAllReduceMultipleWithRetry(entries, 2, a, &info, -1), pcclInvalidArgument, "max_in_flight");
    entries[1].descriptor.tag = 1;
    assert_fails(a, pcclAllReduceMultipleWithRetry(entries, 2, a, &info, 1), pcclInvalidArgument, "tag 1");
    entries[1].descriptor.tag = 2;
    entries[1].sendbuf = NULL;
    assert_fails(a, pcclAllReduceMultipleWithRetry(entries, 2, a, &info, 1), pcclInvalidArgument, "entry 1");
    entries[1].sendbuf = &send[1];
    entries[1].descriptor.count = 3000;
    assert_fails(a, pcclAllReduceMultipleWithRetry(entries, 2, a, &info, 1), pcclInvalidArgument, "entry 1");
    assert_int_equal(info.local_world_size, 77);
    assert_true(recv[0] == 0 && recv[1] == 0);
    part_pair(&pair);
}

TEST(test_second_joint_call)
{
    const pcclSharedStateSyncStrategy_t strategy = PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR;
    struct pair pair;
    struct background first;
    pcclSharedState_t shared = {0};
    int32_t value = 1, other = 2;
    bool pending;
    pcclAsyncReduceOp_t handle;
    pcclReduceDescriptor_t reduce = descriptor(1, 1);
    join_pair(&pair, "where_ms=10");
    background(&first, pair.a, update_thread);
    until_waiting(pair.a, "update topology");
    assert_fails(pair.a, pcclUpdateTopology(pair.a), pcclInvalidUsage, "another thread");
    assert_fails(pair.a, pcclOptimizeTopology(pair.a), pcclInvalidUsage, "another thread");
    assert_fails(pair.a, pcclArePeersPending(pair.a, &pending), pcclInvalidUsage,
                 "another thread's pcclUpdateTopology");
    assert_fails(pair.a, pcclAllReduceAsync(&value, &value, &reduce, pair.a, &handle), pcclInvalidUsage, "");
    assert_ok(pcclUpdateTopology(pair.b));
    finish(&first);
    assert_int_equal(first.result, pcclSuccess);
    background(&first, pair.a, pending_thread);
    until_waiting(pair.a, "are peers pending");
    assert_fails(pair.a, pcclUpdateTopology(pair.a), pcclInvalidUsage, "another thread's pcclArePeersPending");
    assert_fails(pair.a, pcclOptimizeTopology(pair.a), pcclInvalidUsage, "another thread's pcclArePeersPending");
    assert_fails(pair.a, pcclSynchronizeSharedState(pair.a, &shared, strategy, NULL), pcclInvalidUsage,
                 "another thread's pcclArePeersPending");
    assert_ok(pcclAllReduceAsync(&value, &value, &reduce, pair.a, &handle));
    assert_ok(pcclArePeersPending(pair.b, &pending));
    finish(&first);
    assert_int_equal(first.result, pcclSuccess);
    assert_ok(pcclAllReduce(&other, &other, &reduce, pair.b, NULL));
    assert_ok(pcclAwaitAsyncReduce(&handle, NULL));
    background(&first, pair.a, optimize_thread);
    until_waiting(pair.a, "optimize topology");
    assert_fails(pair.a, pcclOptimizeTopology(pair.a), pcclInvalidUsage, "another thread");
    assert_fails(pair.a, pcclUpdateTopology(pair.a), pcclInvalidUsage, "");
    assert_fails(pair.a, pcclAllReduceAsync(&value, &value, &reduce, pair.a, &handle), pcclInvalidUsage, "");
    assert_ok(pcclOptimizeTopology(pair.b));
    finish(&first);
    assert_int_equal(first.result, pcclSuccess);
    part_pair(&pair);
}

TEST(test_connect_twice)
{
    struct background first;
    char address[64];
    bool pending = false;
    pcclMasterInstance_t *master = start_master(address, sizeof address);
    pcclComm_t *a = create(address, ""), *b = create(address, "");
    assert_ok(pcclConnect(a));
    background(&first, b, connect_thread);
    while (!pending)
        assert_ok(pcclArePeersPending(a, &pending));
    assert_fails(b, pcclConnect(b), pcclInvalidUsage, "another thread");
    assert_ok(pcclUpdateTopology(a));
    finish(&first);
    assert_int_equal(first.result, pcclSuccess);
    assert_ok(pcclDestroyCommunicator(b));
    assert_ok(pcclDestroyCommunicator(a));
    end_master(master);
}

/* The master ends while calls run: codes by family, then all calls report why the communicator is unconnected. */
TEST(test_master_ends)
{
    struct pair pair;
    struct background waiting;
    int32_t value = 5;
    pcclReduceDescriptor_t reduce = descriptor(3, 1);
    join_pair(&pair, "where_ms=10");
    assert_ok(pcclAllReduceAsync(&value, &value, &reduce, pair.a, &waiting.handle));
    background(&waiting, pair.a, await_thread);
    until_waiting(pair.a, "tag 3 waits");
    end_master(pair.master);
    finish(&waiting);
    assert_int_equal(waiting.result, pcclRankConnectionLost);
    assert_non_null(strstr(waiting.reason, "shutting down"));
    assert_int_equal(value, 5);
    assert_fails(pair.a, pcclUpdateTopology(pair.a), pcclInvalidUsage, "shutting down");
    assert_fails(pair.a, pcclAllReduce(&value, &value, &reduce, pair.a, NULL), pcclInvalidUsage, "shutting down");
    assert_ok(pcclDestroyCommunicator(pair.a));
    assert_ok(pcclDestroyCommunicator(pair.b));
}

/* Operations that no caller awaits end with the communicator; operations in place restore their input. */
TEST(test_destroy_with_operations)
{
    struct pair pair;
    int32_t values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    join_pair(&pair, "");
    for (uint64_t i = 0; i < 8; i++) {
        pcclReduceDescriptor_t reduce = descriptor(i, 1);
        pcclAsyncReduceOp_t handle;
        assert_ok(pcclAllReduceAsync(&values[i], &values[i], &reduce, pair.a, &handle));
    }
    part_pair(&pair);
    for (int i = 0; i < 8; i++)
        assert_int_equal(values[i], i + 1);
}
