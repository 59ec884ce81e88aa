/*
 * An invariant breaks, or memory runs out, on one thread of one of three communicators of this process: calls return,
 * at most one communicator ends, with a reason, and the process, the two others and the master continue. If the
 * master's thread has the defect, the master ends with a reason, and peers detect that. The linker replaces functions
 * that run on each of the threads by the functions here.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "api/api.h"
#include "collective/exchange.h"
#include "config/options.h"
#include "core/names.h"
#include "core/prng.h"
#include "drive/comm_links.h"
#include "drive/comm_machine.h"
#include "drive/comm_wait.h"
#include "drive/comm_op.h"
#include "drive/searches.h"
#include "master/master.h"
#include "master/topology.h"
#include "measure/internal.h"
#include "net/connection.h"
#include "net/guard.h"
#include "net/listener.h"
#include "os/thread.h"
#include "pccl.h"
#include "state/lines.h"
#include "state/state.h"
#include "sync/internal.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

enum { PEERS = 3, COUNT = 20000 };
enum {
    TAG = 1,        /* tag of the operation that all peers launch */
    LONE_TAG = 2,   /* tag of the operation that only the first peer launches */
    DEFECTS_MAX = 3 /* one after another */
};
enum place {
    NOWHERE,
    ENGINE,
    CONTROL,
    CALLER,
    DIGESTS,
    STATE,
    SYNC,
    MEASURE,
    FREEING,
    MASTER,
    MASTER_LOOP,
    /* of the first peer's callers only: */
    LOOK_UP,
    LAUNCH,
    HAND_OVER,
    FIGURES,
    WRITING,
    VOTE,
    LOAD,
    LISTENER,
    THREAD,
    MEMBER_NAMES,
    GIVING_UP,
    LEAVING,
    OPTIONS,
    MASTER_START
};
enum defect { INVARIANT, MEMORY };

/* ---- the planted faults ---- */

static atomic_int planted_place, planted_defect;
static enum place planted_later[DEFECTS_MAX]; /* the next one first, NOWHERE at the end */
static _Thread_local bool starves;
static _Thread_local bool is_of_first_peer; /* this thread makes its calls */
static _Thread_local bool is_bystander;     /* this one waits in another call of that communicator */
static atomic_bool bystander_waits;
static atomic_int held; /* see below */

/*
 * Two threads synchronize with the first peer's communicator: its caller is in the middle of the preparations when the
 * bystander begins, and breaks while the bystander's synchronizer runs.
 */
enum { UNHELD, CALLER_COMES, CALLER_HELD, BYSTANDER_WORKS, CALLER_BROKEN };

static void pass_stage(int from, int to, int until)
{
    if (!atomic_compare_exchange_strong(&held, &from, to))
        return;
    while (atomic_load(&held) < until)
        (void)sched_yield();
}

static void await_bystander(void)
{
    if (!is_of_first_peer)
        return;
    pass_stage(CALLER_COMES, CALLER_HELD, BYSTANDER_WORKS);
    PCCL_ASSERT(atomic_load(&held) != BYSTANDER_WORKS);
}

static void await_first_caller(void)
{
    if (is_bystander)
        pass_stage(CALLER_HELD, BYSTANDER_WORKS, CALLER_BROKEN);
}

/* The first thread that reaches this place has the defect. */
static void pass(enum place place)
{
    int expected = (int)place;
    if (place >= LOOK_UP && !is_of_first_peer)
        return;
    if (!atomic_compare_exchange_strong(&planted_place, &expected, NOWHERE))
        return;
    if (place >= LOOK_UP) {
        atomic_store(&planted_place, planted_later[0]);
        memmove(planted_later, planted_later + 1, sizeof planted_later - sizeof *planted_later);
    }
    PCCL_ASSERT(atomic_load(&planted_defect) != INVARIANT);
    starves = true;
}

void *__real_pccl_allocate(const struct pccl_memory *memory, size_t bytes);
void *__wrap_pccl_allocate(const struct pccl_memory *memory, size_t bytes)
{
    return starves ? NULL : __real_pccl_allocate(memory, bytes);
}

void *__real_pccl_grow(const struct pccl_memory *memory, void *block, uint32_t *capacity, uint32_t needed, size_t size);
void *__wrap_pccl_grow(const struct pccl_memory *memory, void *block, uint32_t *capacity, uint32_t needed, size_t size)
{
    return starves ? NULL : __real_pccl_grow(memory, block, capacity, needed, size);
}

#define PASSING(place, type, name, parameters, arguments)                                                              \
    __typeof__(name) __real_##name, __wrap_##name; /* a wrong signature fails to compile */                            \
    type __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        pass(place);                                                                                                   \
        type result = __real_##name arguments;                                                                         \
        starves = false;                                                                                               \
        return result;                                                                                                 \
    }

#define PASSING_VOID(place, name, parameters, arguments)                                                               \
    __typeof__(name) __real_##name, __wrap_##name;                                                                     \
    void __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        pass(place);                                                                                                   \
        __real_##name arguments;                                                                                       \
        starves = false;                                                                                               \
    }

PASSING(ENGINE, enum pccl_status, pccl_exchange_start,
        (struct pccl_exchange * exchange, const struct pccl_transfer_config *config, struct pccl_transfer **transfer,
         struct pccl_text *reason),
        (exchange, config, transfer, reason))
PASSING_VOID(CONTROL, pccl_comm_ops_expire_waits, (struct pccl_communicator * comm),
             (comm)) /* under the communicator's lock */
PASSING(CALLER, bool, pccl_connection_take, (struct pccl_connection * connection), (connection)) /* under it, too */
PASSING(DIGESTS, uint32_t, pccl_state_chunk_length, (const struct pccl_tensor *tensor, uint64_t chunk), (tensor, chunk))
__typeof__(pccl_state_init) __real_pccl_state_init, __wrap_pccl_state_init;
enum pccl_status __wrap_pccl_state_init(struct pccl_state *state, const struct pccl_kernels *kernels,
                                        const struct pccl_memory *memory, const struct pccl_tensor *tensors,
                                        uint32_t count)
{
    await_bystander();
    pass(STATE);
    enum pccl_status status = __real_pccl_state_init(state, kernels, memory, tensors, count);
    starves = false;
    return status;
}

__typeof__(pccl_sync_fetching_begin) __real_pccl_sync_fetching_begin, __wrap_pccl_sync_fetching_begin;
void __wrap_pccl_sync_fetching_begin(struct pccl_synchronizer *synchronizer, const struct pccl_sync_order *order)
{
    pass(SYNC);
    await_first_caller();
    __real_pccl_sync_fetching_begin(synchronizer, order);
    starves = false;
}

PASSING_VOID(MEASURE, pccl_measure_test_begin,
             (struct pccl_measurer * measurer, const struct pccl_measure_order *order), (measurer, order))
PASSING_VOID(FREEING, pccl_exchange_destroy, (struct pccl_exchange * exchange), (exchange))
PASSING_VOID(MASTER, pccl_master_step, (struct pccl_master * machine, const struct pccl_master_event *event),
             (machine, event))
PASSING(MASTER_LOOP, bool, pccl_searches_has_results, (const struct pccl_searches *searches), (searches))

PASSING(HAND_OVER, bool, pccl_engine_start, (struct pccl_engine * engine, struct pccl_engine_job *job, bool drives),
        (engine, job, drives))
PASSING(FIGURES, bool, pccl_engine_link_figures,
        (struct pccl_engine * engine, const struct pccl_id *peer, uint32_t *rtt_us, uint64_t *rate, bool *shared),
        (engine, peer, rtt_us, rate, shared))
PASSING(WRITING, bool, pccl_connection_flush, (struct pccl_connection * connection), (connection))
PASSING_VOID(VOTE, pccl_tensor_lines_init, (struct pccl_tensor_lines * lines, const struct pccl_state *state),
             (lines, state))
PASSING_VOID(LOAD, pccl_prng_seed, (struct pccl_prng * prng, uint64_t seed), (prng, seed))
PASSING(LISTENER, int, pccl_listener_open,
        (struct pccl_listener * listener, const struct pccl_address *addresses, uint32_t count, uint16_t port,
         uint32_t range, struct pccl_text *reason),
        (listener, addresses, count, port, range, reason))
PASSING(THREAD, int, pccl_thread_start, (uv_thread_t * thread, void (*run)(void *argument), void *argument),
        (thread, run, argument))
PASSING_VOID(MEMBER_NAMES, pccl_names_add_to, (const struct pccl_names *names, struct pccl_text *reason),
             (names, reason))
PASSING_VOID(GIVING_UP, pccl_comm_links_close_all, (struct pccl_communicator * comm), (comm))
PASSING_VOID(LEAVING, pccl_comm_log_write, (const struct pccl_comm_log *log), (log))
PASSING(OPTIONS, enum pccl_status, pccl_options_set,
        (struct pcclOptions_t * options, const char *name, const char *value, struct pccl_text *reason),
        (options, name, value, reason))
PASSING(MASTER_START, struct pccl_master *, pccl_master_create,
        (const struct pccl_master_config *config, const struct pccl_memory *memory,
         const struct pccl_master_effects *effects, uint64_t now_us),
        (config, memory, effects, now_us))

struct pccl_table_node *__real_pccl_table_find(const struct pccl_table *table, uint64_t key);
struct pccl_table_node *__wrap_pccl_table_find(const struct pccl_table *table, uint64_t key)
{
    if (key == TAG)
        pass(LOOK_UP);
    return __real_pccl_table_find(table, key);
}

/* The job was made, and does not belong to the engine yet. */
struct pccl_comm_op_job *__real_pccl_comm_op_job_make(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                                      const struct pccl_op_args *args);
struct pccl_comm_op_job *__wrap_pccl_comm_op_job_make(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                                      const struct pccl_op_args *args)
{
    struct pccl_comm_op_job *job = __real_pccl_comm_op_job_make(comm, operation, args);
    pass(LAUNCH);
    return job;
}

/* Under the communicator's lock, which is released once the thread can be woken. */
void __real_pccl_comm_wait(struct pccl_communicator *comm, struct pccl_waiter *waiter);
void __wrap_pccl_comm_wait(struct pccl_communicator *comm, struct pccl_waiter *waiter)
{
    if (is_bystander)
        atomic_store(&bystander_waits, true);
    __real_pccl_comm_wait(comm, waiter);
}

bool __real_pccl_comm_wait_until(struct pccl_communicator *comm, struct pccl_waiter *waiter, uint64_t deadline_us);
bool __wrap_pccl_comm_wait_until(struct pccl_communicator *comm, struct pccl_waiter *waiter, uint64_t deadline_us)
{
    if (is_bystander)
        atomic_store(&bystander_waits, true);
    return __real_pccl_comm_wait_until(comm, waiter, deadline_us);
}

/* The master drops the requests of bystanders, which nothing else makes here. */
__typeof__(pccl_master_describe) __wrap_pccl_master_describe;
void __wrap_pccl_master_describe(struct pccl_master *master, struct pccl_remote *from,
                                 const struct pccl_msg_describe *describe)
{
    (void)master, (void)from, (void)describe;
}

/* ---- a world ---- */

struct peer {
    pcclComm_t *comm;
    uv_thread_t thread;
    pcclResult_t result;
    char reason[512];
    float *elements;
    bool out, is_first;
};

struct world {
    pcclMasterInstance_t *master;
    struct peer peers[PEERS];
};

typedef pcclResult_t (*call_function)(struct peer *peer);

static pcclResult_t call_connect(struct peer *peer) { return pcclConnect(peer->comm); }
static pcclResult_t call_update(struct peer *peer) { return pcclUpdateTopology(peer->comm); }
static pcclResult_t call_optimize(struct peer *peer) { return pcclOptimizeTopology(peer->comm); }

static pcclResult_t call_reduce(struct peer *peer)
{
    pcclReduceDescriptor_t descriptor = {
        .count = COUNT, .op = pcclSum, .tag = TAG, .src_descriptor = {.datatype = pcclFloat}};
    for (size_t i = 0; i < COUNT; i++)
        peer->elements[i] = 1;
    return pcclAllReduce(peer->elements, peer->elements, &descriptor, peer->comm, NULL);
}

static pcclResult_t call_reduce_list(struct peer *peer)
{
    pcclReduceOpDescriptor_t entry = {
        .sendbuf = peer->elements,
        .recvbuf = peer->elements,
        .descriptor = {.count = COUNT, .op = pcclSum, .tag = TAG, .src_descriptor = {.datatype = pcclFloat}}};
    for (size_t i = 0; i < COUNT; i++)
        peer->elements[i] = 1;
    return pcclAllReduceMultipleWithRetry(&entry, 1, peer->comm, NULL, 1);
}

/* These two never end: the other peers do not make the first call, and the master does not answer the second. */
static pcclResult_t call_lone_reduce(struct peer *peer)
{
    static float sent[COUNT], received[COUNT];
    pcclReduceDescriptor_t descriptor = {
        .count = COUNT, .op = pcclSum, .tag = LONE_TAG, .src_descriptor = {.datatype = pcclFloat}};
    return pcclAllReduce(sent, received, &descriptor, peer->comm, NULL);
}

static pcclResult_t call_lone_report(struct peer *peer)
{
    char text[1];
    size_t needed;
    return pcclGetTopology(peer->comm, text, sizeof text, &needed);
}

static pcclResult_t call_sync(struct peer *peer)
{
    pcclTensorInfo_t tensor = {.name = "t", .data = peer->elements, .count = COUNT, .datatype = pcclFloat};
    pcclSharedState_t state = {.count = 1, .infos = &tensor};
    return pcclSynchronizeSharedState(peer->comm, &state, PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR, NULL);
}

struct task {
    struct peer *peer;
    call_function call;
};

static void run_task(void *argument)
{
    struct task *task = argument;
    is_of_first_peer = task->peer->is_first;
    task->peer->result = task->call(task->peer);
    (void)snprintf(task->peer->reason, sizeof task->peer->reason, "%s", pcclGetLastError(task->peer->comm));
}

/* All peers that are still in call it, and all return. */
static void all(struct world *world, call_function call)
{
    struct task tasks[PEERS];
    for (int i = 0; i < PEERS; i++) {
        tasks[i] = (struct task){&world->peers[i], call};
        if (!world->peers[i].out)
            assert_int_equal(uv_thread_create(&world->peers[i].thread, run_task, &tasks[i]), 0);
    }
    for (int i = 0; i < PEERS; i++)
        if (!world->peers[i].out)
            assert_int_equal(uv_thread_join(&world->peers[i].thread), 0);
}

static int world_of(const struct peer *peer)
{
    int count = 0;
    assert_int_equal(pcclGetAttribute(peer->comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &count), pcclSuccess);
    return count;
}

static void create(struct world *world, struct peer *peer)
{
    pcclOptions_t *options;
    uint16_t port;
    char address[64];
    assert_int_equal(pcclMasterGetPort(world->master, &port), pcclSuccess);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_int_equal(pcclCreateOptions(&options), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "bind_address", "127.0.0.1"), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "port", "0"), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "extended_results", "1"), pcclSuccess);
    assert_int_equal(pcclCreateCommunicatorWithOptions(address, options, &peer->comm), pcclSuccess);
    assert_int_equal(pcclDestroyOptions(options), pcclSuccess);
    peer->elements = calloc(COUNT, sizeof *peer->elements);
    assert_non_null(peer->elements);
    peer->out = false;
}

static void start_master(struct world *world)
{
    assert_int_equal(pcclCreateMasterWithOptions("127.0.0.1:0", NULL, &world->master), pcclSuccess);
    assert_int_equal(pcclRunMaster(world->master), pcclSuccess);
}

static void destroy(struct peer *peer)
{
    assert_int_equal(pcclDestroyCommunicator(peer->comm), pcclSuccess);
    free(peer->elements);
}

static int start_world(void **state)
{
    static struct world world;
    *state = &world;
    is_of_first_peer = false;
    assert_int_equal(pcclInit(), pcclSuccess);
    start_master(&world);
    for (int i = 0; i < PEERS; i++)
        world.peers[i].out = true;
    for (int i = 0; i < PEERS; i++) {
        struct task connecting = {&world.peers[i], call_connect};
        create(&world, &world.peers[i]);
        world.peers[i].is_first = i == 0;
        world.peers[i].out = true; /* not yet in */
        assert_int_equal(uv_thread_create(&world.peers[i].thread, run_task, &connecting), 0);
        while (i > 0 && world_of(&world.peers[0]) <= i)
            all(&world, call_update);
        assert_int_equal(uv_thread_join(&world.peers[i].thread), 0);
        assert_int_equal(world.peers[i].result, pcclSuccess);
        world.peers[i].out = false;
    }
    return 0;
}

static int end_world(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < PEERS; i++)
        destroy(&world->peers[i]);
    assert_int_equal(pcclInterruptMaster(world->master), pcclSuccess);
    assert_int_equal(pcclMasterAwaitTermination(world->master), pcclSuccess);
    assert_int_equal(pcclDestroyMaster(world->master), pcclSuccess);
    return 0;
}

/* ---- the tests ---- */

/* The other peers continue as if the peer had been killed. */
static void others_go_on(struct world *world, int left)
{
    bool done = false;
    while (!done) {
        all(world, call_reduce);
        done = true;
        for (int i = 0; i < PEERS; i++)
            if (!world->peers[i].out && world->peers[i].result != pcclSuccess) {
                assert_int_equal(world->peers[i].result, pcclRankConnectionLost);
                done = false;
            }
    }
    for (int i = 0; i < PEERS; i++)
        if (!world->peers[i].out)
            assert_true(world->peers[i].elements[COUNT - 1] == (float)left);
    all(world, call_update);
    for (int i = 0; i < PEERS; i++)
        if (!world->peers[i].out)
            assert_int_equal(world->peers[i].result, pcclSuccess);
}

static void plant(struct world *world, enum place place, enum defect defect)
{
    for (int i = 0; i < PEERS; i++)
        world->peers[i].elements[0] = i == 2 ? 3 : 1; /* the third peer has to fetch */
    atomic_store(&planted_defect, defect);
    atomic_store(&planted_place, place);
}

/* Exactly one communicator ends, with a reason, and all other peers continue. */
static void one_is_over(struct world *world)
{
    int broken = 0;
    for (int i = 0; i < PEERS; i++) {
        struct peer *peer = &world->peers[i];
        if (call_connect(peer) != pcclInternalError)
            continue;
        broken++;
        peer->out = true;
        assert_non_null(strstr(pcclGetLastError(peer->comm), "can only be destroyed"));
        /* Or it was over before that: successfully, or for all, because another peer missed a connection sooner. */
        bool lost_for_all = peer->result == pcclRankConnectionLost;
        for (int k = 0; k < PEERS; k++)
            lost_for_all = lost_for_all && world->peers[k].result == pcclRankConnectionLost;
        assert_true(peer->result == pcclInternalError || peer->result == pcclSuccess || lost_for_all);
        assert_true(peer->result != pcclInternalError || strstr(peer->reason, "internal error"));
        assert_int_equal(call_update(peer), pcclInternalError);
        assert_int_not_equal(call_reduce(peer), pcclSuccess);
    }
    assert_int_equal(broken, 1);
    others_go_on(world, PEERS - 1);
}

static void invariant_breaks(struct world *world, enum place place, call_function call)
{
    plant(world, place, INVARIANT);
    while (atomic_load(&planted_place) != NOWHERE)
        all(world, call);
    one_is_over(world);
}

struct bystander {
    struct peer *peer;
    call_function call;
    pcclResult_t result;
    char reason[512];
};

static void run_bystander(void *argument)
{
    struct bystander *bystander = argument;
    is_bystander = true;
    bystander->result = bystander->call(bystander->peer);
    (void)snprintf(bystander->reason, sizeof bystander->reason, "%s", pcclGetLastError(bystander->peer->comm));
}

/* The first peer's caller is left inside its call, while another thread waits in the same communicator. */
static void caller_breaks(struct world *world, enum place place, call_function call, call_function waits)
{
    struct bystander bystander = {.peer = &world->peers[0], .call = waits};
    uv_thread_t thread;
    atomic_store(&bystander_waits, false);
    assert_int_equal(uv_thread_create(&thread, run_bystander, &bystander), 0);
    while (!atomic_load(&bystander_waits))
        (void)sched_yield();
    plant(world, place, INVARIANT);
    while (atomic_load(&planted_place) != NOWHERE)
        all(world, call);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_int_equal(bystander.result, pcclInternalError);
    assert_non_null(strstr(bystander.reason, "internal error"));
    assert_int_equal(world->peers[0].result, pcclInternalError);
    one_is_over(world);
}

/* No peer has to leave: the object that failed is created again. */
static void memory_runs_out(struct world *world, enum place place, call_function call)
{
    plant(world, place, MEMORY);
    while (atomic_load(&planted_place) != NOWHERE)
        all(world, call);
    int left = 0;
    for (int i = 0; i < PEERS; i++) {
        struct peer *peer = &world->peers[i];
        assert_true(peer->result == pcclSuccess || peer->reason[0]);
        peer->out = pcclGetAttribute(peer->comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &(int){0}) != pcclSuccess;
        left += !peer->out;
    }
    assert_true(left >= PEERS - 1);
    others_go_on(world, left);
}

#define TESTS_OF(name, place, call)                                                                                    \
    static void invariant_##name(void **state) { invariant_breaks(*state, place, call); }                              \
    static void memory_##name(void **state) { memory_runs_out(*state, place, call); }

TESTS_OF(of_the_engine, ENGINE, call_reduce)
TESTS_OF(of_the_control_thread, CONTROL, call_reduce)
TESTS_OF(of_a_waiting_caller, CALLER, call_reduce)
TESTS_OF(of_digests, DIGESTS, call_sync)
TESTS_OF(of_a_synchronization, SYNC, call_sync)
TESTS_OF(of_a_test_of_the_topology, MEASURE, call_optimize)

static void invariant_of_a_waiting_list(void **state) { invariant_breaks(*state, CALLER, call_reduce_list); }

static void invariant_of_a_state(void **state) { invariant_breaks(*state, STATE, call_sync); }

static void invariant_of_what_is_freed(void **state)
{
    struct world *world = *state;
    plant(world, FREEING, INVARIANT);
    destroy(&world->peers[0]);
    assert_int_equal(atomic_load(&planted_place), NOWHERE);
    world->peers[0].out = true;
    others_go_on(world, PEERS - 1);
    create(world, &world->peers[0]); /* for the end */
}

#define CALLER_TEST(name, place, call, waits)                                                                          \
    static void caller_##name(void **state) { caller_breaks(*state, place, call, waits); }

CALLER_TEST(that_looks_up_a_tag, LOOK_UP, call_reduce, call_lone_reduce)
CALLER_TEST(that_launches, LAUNCH, call_reduce, call_lone_reduce)
CALLER_TEST(that_launches_a_list, LAUNCH, call_reduce_list, call_lone_reduce)
CALLER_TEST(that_hands_over_a_job, HAND_OVER, call_reduce, call_lone_reduce)
CALLER_TEST(that_asks_the_engine, FIGURES, call_update, call_lone_report)
CALLER_TEST(that_writes_to_the_master, WRITING, call_reduce, call_lone_reduce)
CALLER_TEST(that_writes_to_the_master_from_a_list, WRITING, call_reduce_list, call_lone_reduce)
CALLER_TEST(that_votes, VOTE, call_sync, call_lone_report)
CALLER_TEST(that_makes_a_load, LOAD, call_optimize, call_lone_report)

/* A synchronization that another thread begins during the preparations fails as well. */
static void caller_that_prepares(void **state)
{
    struct world *world = *state;
    struct peer *first = &world->peers[0];
    struct bystander bystander = {.peer = first, .call = call_sync};
    struct task task = {first, call_sync};
    uv_thread_t thread;
    plant(world, NOWHERE, INVARIANT);
    /* The first peer has to fetch: else the others could end the synchronization before the caller breaks. */
    first->elements[0] = 3;
    world->peers[2].elements[0] = 1;
    atomic_store(&held, CALLER_COMES);
    assert_int_equal(uv_thread_create(&first->thread, run_task, &task), 0);
    while (atomic_load(&held) == CALLER_COMES)
        (void)sched_yield();
    assert_int_equal(uv_thread_create(&thread, run_bystander, &bystander), 0);
    first->out = true; /* its threads are the two above */
    all(world, call_sync);
    first->out = false;
    assert_int_equal(uv_thread_join(&first->thread), 0);
    atomic_store(&held, CALLER_BROKEN);
    assert_int_equal(uv_thread_join(&thread), 0);
    atomic_store(&held, UNHELD);
    assert_int_equal(bystander.result, pcclInternalError);
    assert_int_equal(first->result, pcclInternalError);
    one_is_over(world);
}

/* The machine breaks, and so does the abort of its calls. */
static void caller_that_gives_up(void **state)
{
    planted_later[0] = MEMBER_NAMES;
    planted_later[1] = GIVING_UP;
    caller_breaks(*state, LOOK_UP, call_reduce, call_lone_reduce);
}

static void starting_breaks(struct world *world, enum place place)
{
    struct peer *peer = &world->peers[0];
    destroy(peer);
    create(world, peer);
    plant(world, place, INVARIANT);
    run_task(&(struct task){peer, call_connect});
    assert_int_equal(atomic_load(&planted_place), NOWHERE);
    assert_int_equal(peer->result, pcclInternalError);
    one_is_over(world);
}

static void caller_that_listens(void **state) { starting_breaks(*state, LISTENER); }
static void caller_that_starts_a_thread(void **state) { starting_breaks(*state, THREAD); }

static void caller_that_leaves(void **state)
{
    struct world *world = *state;
    struct peer *peer = &world->peers[0];
    plant(world, LEAVING, INVARIANT);
    is_of_first_peer = true;
    destroy(peer);
    assert_int_equal(atomic_load(&planted_place), NOWHERE);
    peer->out = true;
    others_go_on(world, PEERS - 1);
    create(world, peer); /* for the end */
}

static void caller_without_a_communicator(void **state)
{
    struct world *world = *state;
    pcclOptions_t *options;
    is_of_first_peer = true;
    assert_int_equal(pcclCreateOptions(&options), pcclSuccess);
    plant(world, OPTIONS, INVARIANT);
    assert_int_equal(pcclSetOption(options, "port", "1"), pcclInternalError);
    assert_non_null(strstr(pcclGetLastError(NULL), "internal error"));
    assert_int_equal(pcclSetOption(options, "port", "1"), pcclSuccess);
    assert_int_equal(pcclDestroyOptions(options), pcclSuccess);
    others_go_on(world, PEERS);
}

static void caller_that_starts_a_master(void **state)
{
    struct world *world = *state;
    pcclMasterInstance_t *master;
    is_of_first_peer = true;
    assert_int_equal(pcclCreateMasterWithOptions("127.0.0.1:0", NULL, &master), pcclSuccess);
    plant(world, MASTER_START, INVARIANT);
    assert_int_equal(pcclRunMaster(master), pcclInternalError);
    assert_non_null(strstr(pcclGetLastError(NULL), "internal error"));
    assert_int_equal(pcclInterruptMaster(master), pcclSuccess);
    assert_int_equal(pcclMasterAwaitTermination(master), pcclInternalError);
    assert_int_equal(pcclDestroyMaster(master), pcclSuccess);
    others_go_on(world, PEERS);
}

/* The process continues: it can have another master, and members of its run. */
static void master_breaks(struct world *world, enum place place)
{
    struct peer *peer = &world->peers[0];
    plant(world, place, INVARIANT);
    all(world, call_update);
    assert_int_equal(pcclMasterAwaitTermination(world->master), pcclInternalError); /* no caller has interrupted it */
    assert_non_null(strstr(pcclGetLastError(NULL), "the master ended because of an internal error"));
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(world->peers[i].result, pcclMasterLost);
        assert_non_null(strstr(world->peers[i].reason, "master"));
        assert_int_equal(call_connect(&world->peers[i]), pcclMasterConnectionFailed); /* no process listens there */
    }
    assert_int_equal(pcclInterruptMaster(world->master), pcclSuccess);
    assert_int_equal(pcclMasterAwaitTermination(world->master), pcclInternalError);
    assert_int_equal(pcclDestroyMaster(world->master), pcclSuccess);
    start_master(world);
    destroy(peer);
    create(world, peer);
    assert_int_equal(call_connect(peer), pcclSuccess);
}

static void invariant_of_the_master(void **state) { master_breaks(*state, MASTER); }
static void invariant_of_the_master_s_loop(void **state) { master_breaks(*state, MASTER_LOOP); }

static void break_invariant(void *unused) { PCCL_ASSERT(unused); }

/* There an invariant that breaks stops the process, as it shall. */
static bool is_development(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)close(STDERR_FILENO);
        (void)pcclInit();
        _exit(pccl_guard_run(break_invariant, NULL));
    }
    (void)waitpid(child, &status, 0);
    return WIFSIGNALED(status);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start_world, end_world)
#define ALL(what)                                                                                                      \
    TEST(what##_of_the_engine), TEST(what##_of_the_control_thread), TEST(what##_of_a_waiting_caller),                  \
        TEST(what##_of_digests), TEST(what##_of_a_synchronization), TEST(what##_of_a_test_of_the_topology)
    const struct CMUnitTest memory[] = {ALL(memory)};
    const struct CMUnitTest invariants[] = {ALL(invariant),
                                            TEST(invariant_of_a_waiting_list),
                                            TEST(invariant_of_a_state),
                                            TEST(invariant_of_what_is_freed),
                                            TEST(invariant_of_the_master),
                                            TEST(invariant_of_the_master_s_loop),
                                            TEST(caller_that_looks_up_a_tag),
                                            TEST(caller_that_launches),
                                            TEST(caller_that_launches_a_list),
                                            TEST(caller_that_hands_over_a_job),
                                            TEST(caller_that_asks_the_engine),
                                            TEST(caller_that_writes_to_the_master),
                                            TEST(caller_that_writes_to_the_master_from_a_list),
                                            TEST(caller_that_votes),
                                            TEST(caller_that_makes_a_load),
                                            TEST(caller_that_prepares),
                                            TEST(caller_that_gives_up),
                                            TEST(caller_that_listens),
                                            TEST(caller_that_starts_a_thread),
                                            TEST(caller_that_leaves),
                                            TEST(caller_without_a_communicator),
                                            TEST(caller_that_starts_a_master)};
    (void)setenv("PCCL_RECOVER_MS", "200", 1); /* a peer that has lost the master shall detect it soon */
    (void)setenv("PCCL_ALONE_MS", "500", 1);
    (void)setenv("PCCL_MASTER_LOST_MS", "1000", 1);
    int failed = is_development() ? 0 : cmocka_run_group_tests(invariants, NULL, NULL);
    return failed + cmocka_run_group_tests(memory, NULL, NULL);
}
