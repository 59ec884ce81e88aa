/* A master and up to PEERS peers of one group in this process, for tests of the public functions. */
#ifndef PCCL_TESTS_UNIT_API_WORLD_H
#define PCCL_TESTS_UNIT_API_WORLD_H

#include "unit.h"
#include "api_support.h"

#include <stdio.h>
#include <uv.h>

#ifndef PEERS /* a test with larger worlds defines it */
#define PEERS 3
#endif

struct world {
    pcclMasterInstance_t *master;
    pcclComm_t *peers[PEERS];
    int count;
    char address[64];
};

/* The work of another thread; cmocka's assertions work only on the main thread. */
struct call {
    pcclComm_t *comm;
    pcclResult_t result;
};

static inline void connect_thread(void *argument)
{
    struct call *call = argument;
    call->result = pcclConnect(call->comm);
}

static inline pcclComm_t *create(const struct world *world, const char *extended)
{
    pcclComm_t *comm;
    pcclOptions_t *options;
    assert_int_equal(pcclCreateOptions(&options), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "bind_address", "127.0.0.1"), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "port", "0"), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "extended_results", extended), pcclSuccess);
    assert_int_equal(pcclCreateCommunicatorWithOptions(world->address, options, &comm), pcclSuccess);
    assert_int_equal(pcclDestroyOptions(options), pcclSuccess);
    return comm;
}

static inline void update_thread(void *argument)
{
    struct call *call = argument;
    call->result = pcclUpdateTopology(call->comm);
}

static inline void update_all(struct world *world)
{
    struct call updates[PEERS];
    uv_thread_t threads[PEERS];
    for (int i = 0; i < world->count; i++) {
        updates[i] = (struct call){.comm = world->peers[i]};
        assert_int_equal(uv_thread_create(&threads[i], update_thread, &updates[i]), 0);
    }
    for (int i = 0; i < world->count; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(updates[i].result, pcclSuccess);
    }
}

/* One more peer; all that are there admit it. */
static inline void join(struct world *world, const char *extended)
{
    struct call connecting = {.comm = create(world, extended)};
    uv_thread_t thread;
    assert_int_equal(uv_thread_create(&thread, connect_thread, &connecting), 0);
    while (world->count > 0 && world_of(world->peers[0]) <= world->count)
        update_all(world);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_int_equal(connecting.result, pcclSuccess);
    world->peers[world->count++] = connecting.comm;
}

static inline int start_world(void **state, int peers, const char *tiny_bytes_max)
{
    static struct world world;
    pcclOptions_t *options;
    uint16_t port;
    world.count = 0;
    *state = &world;
    assert_int_equal(pcclInit(), pcclSuccess);
    assert_int_equal(pcclCreateOptions(&options), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "tiny_bytes_max", tiny_bytes_max), pcclSuccess);
    assert_int_equal(pcclCreateMasterWithOptions("127.0.0.1:0", options, &world.master), pcclSuccess);
    assert_int_equal(pcclDestroyOptions(options), pcclSuccess);
    assert_int_equal(pcclRunMaster(world.master), pcclSuccess);
    assert_int_equal(pcclMasterGetPort(world.master, &port), pcclSuccess);
    (void)snprintf(world.address, sizeof world.address, "127.0.0.1:%u", port);
    while (world.count < peers)
        join(&world, world.count == 2 ? "1" : "0"); /* the third peer asks for the precise result */
    return 0;
}

static inline int end_world(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < world->count; i++)
        assert_int_equal(pcclDestroyCommunicator(world->peers[i]), pcclSuccess);
    assert_int_equal(pcclInterruptMaster(world->master), pcclSuccess);
    assert_int_equal(pcclMasterAwaitTermination(world->master), pcclSuccess);
    assert_int_equal(pcclDestroyMaster(world->master), pcclSuccess);
    return 0;
}

/* A test of the world of its group, with a setup and a teardown, either of which may be NULL. */
#define WORLD_TEST_IN(name, setup, teardown)                                                                           \
    static void name(struct world *world);                                                                             \
    static void name##_in(void **state) { name(*state); }                                                              \
    UNIT_BEFORE_MAIN add_##name(void) { unit_add(&(struct CMUnitTest){#name, name##_in, setup, teardown, NULL}); }     \
    static void name(struct world *world)

#define WORLD_TEST(name) WORLD_TEST_IN(name, NULL, NULL)

/* Runs a WORLD_TEST in one more group. */
#define AGAIN(name)                                                                                                    \
    UNIT_BEFORE_MAIN add_##name##_again(void) { unit_add(&(struct CMUnitTest){#name, name##_in, NULL, NULL, NULL}); }

#endif
