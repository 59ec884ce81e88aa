/* Sessions whose tensors are on devices. */
#include "unit.h"
#include "fake_cuda.h"
#include "sync_node.h"

enum { CHUNK = NODE_CHUNK };

static struct pccl_device *open_fake(int devices)
{
    struct pccl_device *device;
    struct pccl_text reason;
    fake_cuda_begin(devices);
    assert_int_equal(pccl_device_over(&fake_cuda_driver, &device, &reason), PCCL_OK);
    return device;
}

static void close_fake(struct pccl_device *device)
{
    pccl_device_close(device);
    const char *wrong = fake_cuda_end();
    if (wrong)
        fail_msg("%s", wrong);
}

/*
 * Moves two tensors. The first one is on a device at the donor and at the requester if these arguments are true; with
 * two devices the second one is on the other device.
 */
static void device_transfer(int devices, bool donor_has, bool requester_has)
{
    enum { BYTES = 9 * CHUNK + 5 };
    struct pccl_device *device = open_fake(devices);
    struct node donor, requester;
    uint8_t *memory[4];
    for (int i = 0; i < 4; i++) {
        bool of_device = (i < 2 ? donor_has : requester_has) && i % 2 < devices;
        struct node *node = i < 2 ? &donor : &requester;
        if (i % 2 == 0)
            node_prepare(node, (uint8_t)(i + 1));
        memory[i] = of_device ? fake_cuda_memory(i % 2, FAKE_CUDA_DEVICE, BYTES) : malloc(BYTES);
        fill(memory[i], BYTES, (uint64_t)i);
        if (i == 2)
            memcpy(memory[2] + CHUNK, memory[0] + CHUNK, CHUNK); /* this chunk is there already */
        node_add(node, i % 2 == 0 ? "a" : "b", memory[i], BYTES)->device = of_device ? device : NULL;
    }
    node_begin(&donor);
    node_begin(&requester);
    node_serve(&donor);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_name_donor(&requester, &donor);
    expect_fetched(&requester, 1);
    node_stop(&requester);
    assert_int_equal(requester.received, 2 * BYTES - CHUNK);
    assert_true(pccl_proof_equal(&requester.proof, &donor.proof));
    for (int i = 0; i < 2; i++)
        assert_memory_equal(memory[i], memory[i + 2], BYTES);
    node_finish(&requester);
    node_finish(&donor);
    for (int i = 0; i < 4; i++)
        if ((i < 2 ? donor_has : requester_has) && i % 2 < devices)
            fake_cuda_free(memory[i]);
        else
            free(memory[i]);
    close_fake(device);
}

TEST(memory_of_devices)
{
    device_transfer(1, true, false);
    device_transfer(1, false, true);
    device_transfer(1, true, true);
    device_transfer(2, true, true);
}

TEST(device_memory_is_digested_by_several_threads)
{
    enum { BYTES = 150 * CHUNK + 5 };
    struct pccl_device *device = open_fake(1);
    struct node host, accelerated;
    uint8_t *a = prepare_one(&host, 1, BYTES, 1), *b = fake_cuda_memory(0, FAKE_CUDA_DEVICE, BYTES);
    fill(b, BYTES, 1);
    node_prepare(&accelerated, 2);
    node_add(&accelerated, "weights", b, BYTES)->device = device;
    accelerated.threads = 4;
    node_begin(&host);
    node_begin(&accelerated);
    node_serve(&accelerated);
    assert_true(pccl_proof_equal(&host.proof, &accelerated.proof));
    node_finish(&host);
    node_finish(&accelerated);
    fake_cuda_free(b);
    close_fake(device);
    free(a);
}

TEST(a_device_fails_while_it_is_digested)
{
    static const enum pccl_cuda_function functions[] = {PCCL_CUDA_mem_host_alloc, PCCL_CUDA_copy_to_host,
                                                        PCCL_CUDA_event_synchronize};
    enum { BYTES = 80 * CHUNK };
    for (size_t i = 0; i < PCCL_COUNT_OF(functions); i++) {
        struct pccl_device *device = open_fake(1);
        struct node node;
        node_prepare(&node, 1);
        uint8_t *bytes = fake_cuda_memory(0, FAKE_CUDA_DEVICE, BYTES);
        node_add(&node, "weights", bytes, BYTES)->device = device;
        node.threads = 2;
        fake_cuda_fail(functions[i], i + 1, FAKE_CUDA_ILLEGAL_ADDRESS);
        node_try(&node);
        assert_int_equal(node.status, PCCL_SYSTEM);
        assert_non_null(strstr(node.failure.bytes, "ILLEGAL_ADDRESS"));
        assert_int_equal(uv_thread_join(&node.thread), 0);
        node_free(&node);
        fake_cuda_free(bytes);
        close_fake(device);
    }
}

TEST(a_device_fails_at_the_requester)
{
    static const enum pccl_cuda_function functions[] = {PCCL_CUDA_mem_host_alloc, PCCL_CUDA_copy_to_device,
                                                        PCCL_CUDA_event_synchronize};
    enum { BYTES = 6 * CHUNK };
    for (size_t i = 0; i < PCCL_COUNT_OF(functions); i++) {
        struct pccl_device *device = open_fake(1);
        struct node donor, requester;
        uint8_t *a = prepare_one(&donor, 1, BYTES, 1), *b = fake_cuda_memory(0, FAKE_CUDA_DEVICE, BYTES);
        node_prepare(&requester, 2);
        node_add(&requester, "weights", b, BYTES)->device = device;
        node_begin(&donor);
        node_begin(&requester);
        node_serve(&donor);
        pccl_synchronizer_plan(requester.worker, true, false);
        node_until_count(&requester, &requester.proven, 1);
        fake_cuda_fail(functions[i], 1, FAKE_CUDA_ILLEGAL_ADDRESS);
        node_name_donor(&requester, &donor);
        expect_failure(&requester, "ILLEGAL_ADDRESS");
        node_stop(&requester);
        assert_string_equal(requester.torn.bytes, "'weights'");
        node_finish(&requester);
        node_finish(&donor);
        fake_cuda_free(b);
        close_fake(device);
        free(a);
    }
}

/* The donor loses its connections and answers on the next one. */
TEST(a_device_fails_at_the_donor)
{
    static const enum pccl_cuda_function functions[] = {PCCL_CUDA_mem_host_alloc, PCCL_CUDA_copy_to_host,
                                                        PCCL_CUDA_event_synchronize};
    enum { BYTES = 6 * CHUNK };
    for (size_t i = 0; i < PCCL_COUNT_OF(functions); i++) {
        struct pccl_device *device = open_fake(1);
        struct node donor, requester;
        uint8_t *a = fake_cuda_memory(0, FAKE_CUDA_DEVICE, BYTES), *b = prepare_one(&requester, 2, BYTES, 2);
        fill(a, BYTES, 1);
        node_prepare(&donor, 1);
        node_add(&donor, "weights", a, BYTES)->device = device;
        node_begin(&donor);
        node_begin(&requester);
        node_serve(&donor);
        fake_cuda_fail(functions[i], i + 1, FAKE_CUDA_ILLEGAL_ADDRESS);
        pccl_synchronizer_plan(requester.worker, true, false);
        node_name_donor(&requester, &donor);
        expect_fetched(&requester, 1);
        node_finish(&requester);
        node_finish(&donor);
        assert_memory_equal(a, b, BYTES);
        fake_cuda_free(a);
        close_fake(device);
        free(b);
    }
}

/* A tensor is so small that its bytes arrive together with its header: no copier is there to write them. */
TEST(a_copier_cannot_be_opened_for_a_small_tensor)
{
    enum { BYTES = 100 };
    struct pccl_device *device = open_fake(1);
    struct node donor, requester;
    uint8_t *a = prepare_one(&donor, 1, BYTES, 1), *b = fake_cuda_memory(0, FAKE_CUDA_DEVICE, BYTES);
    node_prepare(&requester, 2);
    node_add(&requester, "weights", b, BYTES)->device = device;
    node_begin(&donor);
    node_begin(&requester);
    node_serve(&donor);
    pccl_synchronizer_plan(requester.worker, true, false);
    node_until_count(&requester, &requester.proven, 1);
    fake_cuda_fail(PCCL_CUDA_mem_host_alloc, 1, FAKE_CUDA_ILLEGAL_ADDRESS);
    node_name_donor(&requester, &donor);
    expect_failure(&requester, "ILLEGAL_ADDRESS");
    node_finish(&requester);
    node_finish(&donor);
    fake_cuda_free(b);
    free(a);
    close_fake(device);
}
