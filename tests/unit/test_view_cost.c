/* The figures of links in a run whose traffic is steady: they enter the view once, and do not change it later. */
#include "unit.h"
#include "drive/communicator.h"
#include "pccl.h"

#include <stdio.h>
#include <stdlib.h>

enum { PEERS = 2, UPDATES = 50, COUNT = 2 << 20, VIEWS_MOST = 6 };

struct peer {
    pcclComm_t *comm;
    uv_thread_t thread;
    float *input, *result;
    pcclResult_t worst;
    struct pccl_cost first, last; /* with the measured figures first, and in the end */
    uint32_t moves;
};

static struct pccl_cost cost_of(pcclComm_t *comm)
{
    pccl_comm_enter(comm->comm);
    struct pccl_cost cost = pccl_peer_participants(comm->comm->peer, 0)->cost;
    pccl_comm_leave(comm->comm);
    return cost;
}

static pcclResult_t note(struct peer *peer, pcclResult_t result)
{
    if (peer->worst == pcclSuccess)
        peer->worst = result;
    return result;
}

/* Waits until the first member has admitted the other one. */
static bool wait_for_all(struct peer *peer)
{
    int world;
    for (;;) {
        if (note(peer, pcclGetAttribute(peer->comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &world)) != pcclSuccess)
            return false;
        if (world == PEERS)
            return true;
        if (note(peer, pcclUpdateTopology(peer->comm)) != pcclSuccess)
            return false;
    }
}

/* The work of another thread; cmocka's assertions work only on the main thread. */
static void take_part(void *argument)
{
    struct peer *peer = argument;
    pcclReduceDescriptor_t descriptor = {.count = COUNT, .op = pcclSum, .src_descriptor = {.datatype = pcclFloat}};
    if (note(peer, pcclConnect(peer->comm)) != pcclSuccess || !wait_for_all(peer))
        return;
    struct pccl_cost before = cost_of(peer->comm);
    for (int i = 0; i < UPDATES; i++) {
        if (note(peer, pcclAllReduce(peer->input, peer->result, &descriptor, peer->comm, NULL)) != pcclSuccess ||
            note(peer, pcclUpdateTopology(peer->comm)) != pcclSuccess)
            return;
        struct pccl_cost now = cost_of(peer->comm);
        if (peer->first.rate == 0)
            peer->first = now;
        peer->moves += now.rate != before.rate || now.rtt_us != before.rtt_us;
        before = now;
    }
    peer->last = before;
}

static void begin_peer(struct peer *peer, const char *address)
{
    pcclOptions_t *options;
    *peer = (struct peer){.input = calloc(COUNT, sizeof(float)), .result = calloc(COUNT, sizeof(float))};
    assert_true(peer->input && peer->result);
    assert_int_equal(pcclCreateOptions(&options), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "bind_address", "127.0.0.1"), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "port", "0"), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "local", "tcp"), pcclSuccess); /* the system measures only that */
    assert_int_equal(pcclCreateCommunicatorWithOptions(address, options, &peer->comm), pcclSuccess);
    assert_int_equal(pcclDestroyOptions(options), pcclSuccess);
    assert_int_equal(uv_thread_create(&peer->thread, take_part, peer), 0);
}

TEST(a_steady_run_keeps_its_view)
{
    static struct peer peers[PEERS];
    pcclMasterInstance_t *master;
    char address[64];
    uint16_t port;
    assert_int_equal(pcclInit(), pcclSuccess);
    assert_int_equal(pcclCreateMasterWithOptions("127.0.0.1:0", NULL, &master), pcclSuccess);
    assert_int_equal(pcclRunMaster(master), pcclSuccess);
    assert_int_equal(pcclMasterGetPort(master, &port), pcclSuccess);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    for (uint32_t i = 0; i < PEERS; i++)
        begin_peer(&peers[i], address);
    for (uint32_t i = 0; i < PEERS; i++)
        assert_int_equal(uv_thread_join(&peers[i].thread), 0);
    for (uint32_t i = 0; i < PEERS; i++) {
        assert_int_equal(peers[i].worst, pcclSuccess);
        assert_int_equal(peers[i].moves, peers[0].moves);
        print_message("%u views; %u us, %llu bytes/s; in the end %u us, %llu bytes/s\n", peers[i].moves,
                      peers[i].first.rtt_us, (unsigned long long)peers[i].first.rate, peers[i].last.rtt_us,
                      (unsigned long long)peers[i].last.rate);
        assert_in_range(peers[i].moves, 1, VIEWS_MOST);
        assert_in_range(peers[i].last.rate, 1000000, 10000000000);
        assert_in_range(peers[i].last.rtt_us, 1, 1000000);
        assert_int_equal(pcclDestroyCommunicator(peers[i].comm), pcclSuccess);
        free(peers[i].input);
        free(peers[i].result);
    }
    assert_int_equal(pcclInterruptMaster(master), pcclSuccess);
    assert_int_equal(pcclMasterAwaitTermination(master), pcclSuccess);
    assert_int_equal(pcclDestroyMaster(master), pcclSuccess);
}
