/* The engine against a peer played by hand: half segments, good-byes, garbage. */
#include "unit.h"
#include "collective/plan.h"
#include "core/prng.h"
#include "world.h"

#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum {
    COUNT = 1 << 20, /* elements: several groups of two segments of 256 KiB */
    BYTES = COUNT * 4,
};

/* Memory of the caller that must not be touched once it is taken back. */
static float *lend(float value)
{
    float *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    for (int i = 0; i < COUNT; i++)
        memory[i] = value;
    return memory;
}

static void take_back(float *memory) { assert_int_equal(mprotect(memory, BYTES, PROT_NONE), 0); }

/* The node is rank 0, the bare peer rank 1. */
struct scene {
    struct node node;
    struct pccl_id peer;
    struct work work;
    struct pccl_plan plan;
    float *input, *result;
    int to_peer, from_peer; /* bare sockets: of the node's outgoing and incoming connection */
};

static void hear_end(int bare)
{
    char byte;
    assert_int_equal(recv(bare, &byte, 1, 0), 0);
}

static void hear_bye(int bare)
{
    struct pccl_msg msg;
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_link_bye);
    hear_end(bare);
}

static void say_bye(int bare) { bare_say(bare, &(struct pccl_msg){.type = PCCL_MSG_link_bye}); }

static void say_data(struct scene *scene, uint64_t tag, uint32_t step, uint32_t length)
{
    bare_say(
        scene->from_peer,
        &(struct pccl_msg){
            .type = PCCL_MSG_data,
            .as.data = {.instance = {.tag = tag}, .view = {.inc = 1, .number = 1}, .step = step, .length = length}});
}

/* `length` elements' bytes. */
static void say_payload(int bare, float value, size_t length)
{
    static float block[4096];
    for (uint32_t i = 0; i < PCCL_COUNT_OF(block); i++)
        block[i] = value;
    while (length > 0) {
        size_t now = length < sizeof block ? length : sizeof block;
        bare_write(bare, block, now);
        length -= now;
    }
}

static void scene_begin_with(struct scene *scene, uint32_t linger_ms)
{
    memset(scene, 0, sizeof *scene);
    engine_begin_with(&scene->node, 1, linger_ms);
    scene->peer = node_id(2);
    scene->to_peer = engine_link_bare(&scene->node, &scene->peer, true, 0, NULL, 0);
    scene->from_peer = engine_link_bare(&scene->node, &scene->peer, false, 0, NULL, 0);
}

static void scene_begin(struct scene *scene) { scene_begin_with(scene, 5000); }

static void scene_end(struct scene *scene)
{
    close(scene->to_peer);
    close(scene->from_peer);
    engine_end(&scene->node);
    if (scene->input)
        munmap(scene->input, BYTES);
    if (scene->result)
        munmap(scene->result, BYTES);
}

/* The node starts a sum, and the peer sends READY for all of it. */
static void start(struct scene *scene)
{
    struct pccl_text reason;
    struct pccl_msg msg;
    scene->input = lend(1.5f);
    scene->result = lend(0);
    work_prepare(&scene->work, &scene->node, 1, 2, COUNT, scene->input, scene->result);
    const struct pccl_transfer_config *config = &scene->work.job.config;
    assert_int_equal(pccl_plan_make(&config->descriptor, &config->cost, (struct pccl_seat){.ranks = 2, .rank = 1}, NULL,
                                    NULL, &scene->plan, &reason),
                     PCCL_OK);
    work_start(&scene->work);
    bare_hear(scene->from_peer, &msg);
    assert_int_equal(msg.type, PCCL_MSG_ready);
    assert_int_equal(msg.as.ready.segment_elements, scene->plan.segment_elements);
    msg.as.ready.granted = scene->plan.stripes;
    bare_say(scene->to_peer, &msg);
}

static uint32_t segment_bytes(const struct scene *scene) { return scene->plan.segment_elements * 4; }

/* Reads a data frame and the first bytes of its payload; the bytes beyond the socket buffers stay with the node. */
static void hear_beginning_of_segment(struct scene *scene)
{
    struct pccl_msg msg;
    float first[256];
    bare_hear(scene->to_peer, &msg);
    assert_int_equal(msg.type, PCCL_MSG_data);
    assert_int_equal(msg.as.data.length, segment_bytes(scene));
    assert_true(msg.as.data.length >= 256 << 10);
    loopback_read(scene->to_peer, first, sizeof first);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(first); i++)
        assert_true(first[i] == 1.5f);
}

static void scene_begin_in_segment(struct scene *scene)
{
    scene_begin(scene);
    start(scene);
    hear_beginning_of_segment(scene);
}

/* Reads the rest of that segment: its last element. */
static float hear_end_of_segment(struct scene *scene)
{
    size_t left = segment_bytes(scene) - 256 * sizeof(float);
    float *rest = malloc(left);
    assert_non_null(rest);
    loopback_read(scene->to_peer, rest, left);
    float last = rest[left / sizeof *rest - 1];
    free(rest);
    return last;
}

static void stop_with(struct scene *scene, enum pccl_job_end end)
{
    work_stop(&scene->work, end);
    take_back(scene->input);
    take_back(scene->result);
}

static void stop(struct scene *scene) { stop_with(scene, PCCL_JOB_ABORTED); }

/* ---- stopped in the middle ---- */

/* The other peers may still get a success: they must not take filler for the rest of a segment. */
TEST(what_is_half_sent_is_cut_unless_all_is_aborted)
{
    static const enum pccl_job_end ends[] = {PCCL_JOB_GIVEN_UP, PCCL_JOB_COMMITTED};
    for (size_t i = 0; i < PCCL_COUNT_OF(ends); i++) {
        struct scene scene;
        scene_begin_in_segment(&scene);
        stop_with(&scene, ends[i]);
        size_t heard = 256 * sizeof(float);
        ssize_t got;
        char bytes[4096];
        while ((got = recv(scene.to_peer, bytes, sizeof bytes, 0)) > 0)
            heard += (size_t)got;
        assert_true(heard < segment_bytes(&scene));
        assert_int_equal(scene.node.seen.ended, 1);
        assert_false(scene.node.seen.ended_purposely);
        scene_end(&scene);
    }
}

TEST(a_half_sent_segment_of_a_stopped_operation_is_filled_up)
{
    struct scene scene;
    scene_begin_in_segment(&scene);
    stop(&scene);
    assert_true(hear_end_of_segment(&scene) == 0);
    say_bye(scene.to_peer); /* the connection lives */
    node_until_count(&scene.node, &scene.node.seen.ended, 1);
    assert_true(scene.node.seen.ended_purposely);
    scene_end(&scene);
}

static void until_read(const struct scene *scene, int bare)
{
    int unsent = 1;
    uint64_t limit = uv_hrtime() + LOOPBACK_HANG_MS * UINT64_C(1000000);
    while (unsent > 0 && uv_hrtime() < limit) {
        assert_int_equal(ioctl(bare, TIOCOUTQ, &unsent), 0);
        sched_yield();
    }
    assert_int_equal(unsent, 0);
}

TEST(what_still_comes_for_a_stopped_operation_is_thrown_away)
{
    for (uint32_t last_step = 0; last_step < 2; last_step++) { /* into scratch; into the result */
        struct scene scene;
        scene_begin(&scene);
        start(&scene);
        uint32_t length = segment_bytes(&scene);
        for (uint32_t step = 0; step < last_step; step++) {
            say_data(&scene, 1, step, length);
            say_payload(scene.from_peer, 2, length);
        }
        say_data(&scene, 1, last_step, length);
        say_payload(scene.from_peer, 2, length / 2);
        until_read(&scene, scene.from_peer);
        stop(&scene);
        say_payload(scene.from_peer, 2, length - length / 2);
        say_bye(scene.from_peer);
        node_until_count(&scene.node, &scene.node.seen.ended, 1);
        assert_true(scene.node.seen.ended_purposely);
        assert_false(scene.node.seen.ended_outgoing);
        scene_end(&scene);
    }
}

/* ---- closed by the caller ---- */

TEST(a_close_completes_the_segment_and_says_bye)
{
    struct scene scene;
    scene_begin_in_segment(&scene);
    pccl_engine_close(scene.node.engine, &scene.peer, true, PCCL_POOL_MAX);
    assert_true(hear_end_of_segment(&scene) == 1.5f); /* not filler: the operation lives, so the peer takes it */
    hear_bye(scene.to_peer);
    node_until(&scene.node, &scene.work.failed);
    assert_int_equal(scene.work.class, PCCL_CLASS_PEER_LOST);
    assert_int_equal(scene.node.seen.ended, 0);
    stop(&scene);
    scene_end(&scene);
}

TEST(a_close_fills_up_the_segment_of_a_stopped_operation)
{
    struct scene scene;
    scene_begin_in_segment(&scene);
    stop(&scene);
    struct pccl_id fresh = node_id(9);
    pccl_engine_rename(scene.node.engine, &fresh);
    assert_true(hear_end_of_segment(&scene) == 0);
    hear_bye(scene.to_peer);
    hear_bye(scene.from_peer);
    assert_int_equal(scene.node.seen.ended, 0);
    scene_end(&scene);
}

TEST(a_good_bye_does_not_wait_for_ever)
{
    struct scene scene;
    scene_begin_with(&scene, 50);
    start(&scene);
    hear_beginning_of_segment(&scene); /* and reads nothing from then on */
    pccl_engine_close(scene.node.engine, &scene.peer, true, 0);
    node_until(&scene.node, &scene.work.failed);
    stop(&scene);
    engine_end(&scene.node);
    hear_bye(scene.from_peer);
    engine_begin(&scene.node, 1);
    scene_end(&scene);
}

/* ---- ended by the other side ---- */

TEST(the_end_in_the_middle_of_a_segment_fails_the_operation)
{
    for (int incoming = 0; incoming < 2; incoming++) {
        struct scene scene;
        scene_begin_in_segment(&scene);
        say_data(&scene, 1, 0, segment_bytes(&scene));
        say_payload(scene.from_peer, 2, 1000);
        int *broken = incoming ? &scene.from_peer : &scene.to_peer;
        close(*broken);
        *broken = -1;
        node_until(&scene.node, &scene.work.failed);
        assert_int_equal(scene.work.class, PCCL_CLASS_PEER_LOST);
        assert_int_equal(scene.node.seen.ended, 1);
        assert_int_equal(scene.node.seen.ended_outgoing, !incoming);
        assert_int_equal(scene.node.seen.ended_how, PCCL_LINK_CLOSED);
        assert_false(scene.node.seen.ended_purposely);
        stop(&scene);
        scene_end(&scene);
    }
}

TEST(a_good_bye_is_heard_although_our_output_is_refused)
{
    struct scene scene;
    scene_begin_in_segment(&scene);
    say_bye(scene.to_peer);
    close(scene.to_peer); /* with input unread: a reset follows */
    scene.to_peer = -1;
    node_until_count(&scene.node, &scene.node.seen.ended, 1);
    assert_true(scene.node.seen.ended_purposely);
    stop(&scene);
    scene_end(&scene);
}

/* ---- bytes that were read after the handshake ---- */

TEST(the_rest_of_the_handshake_is_read_first)
{
    static uint8_t rest[20000];
    size_t length = 0, payload = 9000, left = 100;
    struct scene scene;
    scene_begin(&scene);
    for (uint32_t i = 0; i < 2; i++) {
        struct pccl_msg msg = {.type = PCCL_MSG_data,
                               .as.data = {.instance = {.tag = 5}, .stripe = i, .length = (uint32_t)payload}};
        pccl_frame_encode(&msg, 0, 0, rest + length);
        length += pccl_frame_size(&msg) + payload;
    }
    assert_true(length <= sizeof rest);
    int bare = engine_link_bare(&scene.node, &scene.peer, false, 1, rest, length - left);
    assert_int_equal(send(bare, rest + length - left, left, MSG_NOSIGNAL), (ssize_t)left);
    say_bye(bare);
    node_until_count(&scene.node, &scene.node.seen.ended, 1);
    assert_int_equal(scene.node.seen.ended_slot, 1);
    assert_true(scene.node.seen.ended_purposely);
    close(bare);
    scene_end(&scene);
}

TEST(garbage_in_the_rest_ends_the_connection)
{
    struct scene scene;
    uint8_t rest[64];
    memset(rest, 0xff, sizeof rest);
    scene_begin(&scene);
    int bare = engine_link_bare(&scene.node, &scene.peer, true, 3, rest, sizeof rest);
    node_until_count(&scene.node, &scene.node.seen.ended, 1);
    assert_int_equal(scene.node.seen.ended_slot, 3);
    assert_false(scene.node.seen.ended_purposely);
    close(bare);
    scene_end(&scene);
}

/* ---- data sent ahead, in total ---- */

/* Segments of one byte of operations that never start, and a good-bye. */
static int connect_ahead(struct node *node, uint8_t number, uint32_t segments, bool bye)
{
    static uint8_t rest[PCCL_FRAME_BODY_MAX];
    const struct pccl_msg last = {.type = PCCL_MSG_link_bye};
    const struct pccl_id peer = node_id(number);
    size_t length = 0;
    for (uint32_t i = 0; i < segments; i++) {
        struct pccl_msg msg = {.type = PCCL_MSG_data, .as.data = {.instance = {.tag = 5}, .stripe = i, .length = 1}};
        assert_true(length + pccl_frame_size(&msg) + 1 < sizeof rest);
        pccl_frame_encode(&msg, 0, 0, rest + length);
        length += pccl_frame_size(&msg) + 1;
    }
    if (bye) {
        pccl_frame_encode(&last, 0, 0, rest + length);
        length += pccl_frame_size(&last);
    }
    return engine_link_bare(node, &peer, false, 0, rest, length);
}

/* The bound for all held data is reached: one more segment is neither read nor closed until there is room. */
TEST(who_finds_no_room_waits_for_it)
{
    enum { LANES = 12, EACH = PCCL_EARLY_SPARE_COST / (PCCL_EARLY_SEGMENT_COST + 256) / LANES };
    for (int end = 0; end < 2; end++) {
        struct scene scene;
        int bare[LANES + 2];
        scene_begin(&scene);
        for (uint32_t i = 0; i < LANES; i++)
            bare[i] = connect_ahead(&scene.node, (uint8_t)(10 + i), EACH, false);
        bare[LANES] = connect_ahead(&scene.node, 10 + LANES, EACH, true);
        bare[LANES + 1] = connect_ahead(&scene.node, 11 + LANES, 0, true);
        node_until_count(&scene.node, &scene.node.seen.ended, 1);
        const struct pccl_id last = node_id(11 + LANES);
        assert_true(pccl_id_equal(&scene.node.seen.ended_peer, &last)); /* the one before it was not read to its end */
        assert_int_equal(scene.node.seen.ended, 1);
        if (end == 0)
            say_bye(bare[0]); /* its memory is free */
        else
            shutdown(bare[LANES], SHUT_WR); /* it waits for nothing from now on */
        node_until_count(&scene.node, &scene.node.seen.ended, end == 0 ? 3 : 2);
        assert_true(scene.node.seen.ended_purposely);
        for (uint32_t i = 0; i < LANES + 2; i++)
            close(bare[i]);
        scene_end(&scene);
    }
}

/* ---- strange input ---- */

TEST(data_of_an_unknown_operation_is_thrown_away)
{
    struct scene scene;
    scene_begin(&scene);
    for (uint32_t i = 0; i < 3; i++) {
        say_data(&scene, 77 + i, i, 300001);
        say_payload(scene.from_peer, 2, 300001);
    }
    say_bye(scene.from_peer);
    node_until_count(&scene.node, &scene.node.seen.ended, 1);
    assert_true(scene.node.seen.ended_purposely);
    scene_end(&scene);
}

static void expect_garbage(const uint8_t *bytes, size_t length, bool outgoing)
{
    struct scene scene;
    scene_begin(&scene);
    int bare = outgoing ? scene.to_peer : scene.from_peer;
    assert_int_equal(send(bare, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
    node_until_count(&scene.node, &scene.node.seen.ended, 1);
    assert_int_equal(scene.node.seen.ended_outgoing, outgoing);
    assert_int_equal(scene.node.seen.ended_how, PCCL_LINK_UNREACHABLE); /* our own doing is no evidence of a death */
    assert_false(scene.node.seen.ended_purposely);
    scene_end(&scene);
}

TEST(garbage_ends_the_connection)
{
    uint8_t bytes[256] = {0};
    struct pccl_msg bye = {.type = PCCL_MSG_link_bye}, hello = {.type = PCCL_MSG_leave};
    struct pccl_msg data = {.type = PCCL_MSG_data, .as.data = {.length = 5}};
    expect_garbage(bytes, sizeof bytes, true); /* no checksum is zero here */
    memset(bytes, 0xff, sizeof bytes);
    expect_garbage(bytes, sizeof bytes, false); /* a length over all limits */
    pccl_frame_encode(&bye, 0, 0, bytes);
    bytes[24] ^= 1;
    expect_garbage(bytes, pccl_frame_size(&bye), true); /* wrong checksum */
    pccl_frame_encode(&hello, 0, 0, bytes);
    expect_garbage(bytes, pccl_frame_size(&hello), false); /* no message between peers */
    pccl_frame_encode(&data, 0, 0, bytes);
    expect_garbage(bytes, pccl_frame_size(&data), true); /* against the direction of the data */
}

/* ---- invalid messages ---- */

static void has(const char *words, const char *part)
{
    if (strstr(words, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, words);
}

/* The node sends its reason, and nothing else, on this connection. */
static void hear_rejection(int bare, const char *part)
{
    struct pccl_msg msg;
    struct pccl_text reason;
    bare_hear(bare, &msg);
    assert_int_equal(msg.type, PCCL_MSG_link_bye);
    pccl_text_clear(&reason);
    pccl_text_add_bytes(&reason, (const char *)msg.as.link_bye.reason.data, msg.as.link_bye.reason.length);
    has(reason.bytes, part);
    hear_end(bare);
}

/* The operation fails permanently, and the link is not reported as broken. */
static void is_rejected(struct scene *scene, const char *part)
{
    node_until(&scene->node, &scene->work.failed);
    node_until_count(&scene->node, &scene->node.seen.ended, 1);
    assert_int_equal(scene->work.class, PCCL_CLASS_INTERNAL);
    has(scene->work.reason.bytes, pccl_id_str(&scene->peer));
    has(scene->work.reason.bytes, part);
    assert_true(scene->node.seen.ended_rejected);
}

/* The node has sent READY, and waits for the other side. */
static void begin_waiting(struct scene *scene, struct pccl_msg *ready)
{
    scene_begin(scene);
    scene->input = lend(1.5f);
    scene->result = lend(0);
    work_prepare(&scene->work, &scene->node, 1, 2, COUNT, scene->input, scene->result);
    work_start(&scene->work);
    bare_hear(scene->from_peer, ready);
    assert_int_equal(ready->type, PCCL_MSG_ready);
}

TEST(an_invalid_message_is_answered_with_the_reason)
{
    for (int i = 0; i < 5; i++) {
        struct scene scene;
        struct pccl_msg msg;
        begin_waiting(&scene, &msg);
        const char *words = NULL;
        bool outgoing = i < 3;
        switch (i) {
        case 0:
            msg.as.ready.descriptor.datatype = 99;
            words = "descriptor.datatype is 99";
            break;
        case 1:
            msg.as.ready.descriptor.collective = PCCL_COALESCED;
            words = "several tensors";
            break;
        case 2:
            msg = (struct pccl_msg){.type = PCCL_MSG_data, .as.data = {.length = 5}};
            words = "sent data in the wrong direction, on a connection to it";
            break;
        case 3: words = "sent ready in the wrong direction, on a connection from it"; break;
        default:
            msg = (struct pccl_msg){.type = PCCL_MSG_data, .as.data = {.instance = {.tag = 1}, .length = 5}};
            msg.as.data.view = (struct pccl_epoch){1, 1};
            words = "a segment of the wrong length";
            break;
        }
        bare_say(outgoing ? scene.to_peer : scene.from_peer, &msg);
        hear_rejection(outgoing ? scene.to_peer : scene.from_peer, words);
        is_rejected(&scene, words);
        assert_int_equal(scene.node.seen.ended_outgoing, outgoing);
        assert_false(scene.node.seen.ended_purposely);
        stop(&scene);
        scene_end(&scene);
    }
}

/* The other side receives each segment completely. */
TEST(a_segment_is_completed_before_an_invalid_message_is_answered)
{
    struct scene scene;
    struct pccl_msg msg = {.type = PCCL_MSG_data, .as.data = {.length = 5}};
    scene_begin_in_segment(&scene);
    bare_say(scene.to_peer, &msg);
    is_rejected(&scene, "sent data in the wrong direction, on a connection to it");
    assert_true(hear_end_of_segment(&scene) == 1.5f);
    hear_rejection(scene.to_peer, "sent data in the wrong direction, on a connection to it");
    stop(&scene);
    scene_end(&scene);
}

TEST(a_good_bye_with_a_reason_fails_what_uses_the_link)
{
    static const char words[] = "peer 0 sent an invalid message: descriptor.datatype is 99";
    for (int outgoing = 0; outgoing < 2; outgoing++) {
        struct scene scene;
        struct pccl_msg ready;
        begin_waiting(&scene, &ready);
        bare_say(outgoing ? scene.to_peer : scene.from_peer,
                 &(struct pccl_msg){.type = PCCL_MSG_link_bye, .as.link_bye = {.reason = pccl_bytes_of_string(words)}});
        is_rejected(&scene, words);
        assert_int_equal(scene.node.seen.ended_how, PCCL_LINK_CLOSED);
        assert_true(scene.node.seen.ended_purposely);
        stop(&scene);
        scene_end(&scene);
    }
}

/* The network may have damaged the bytes. */
TEST(a_damaged_frame_is_no_invalid_message)
{
    struct scene scene;
    struct pccl_msg msg;
    uint8_t frame[NODE_FRAME_MAX];
    begin_waiting(&scene, &msg);
    pccl_frame_encode(&msg, 0, 0, frame);
    frame[PCCL_FRAME_HEADER_BYTES] ^= 1;
    assert_int_equal(send(scene.to_peer, frame, pccl_frame_size(&msg), MSG_NOSIGNAL), pccl_frame_size(&msg));
    node_until(&scene.node, &scene.work.failed);
    node_until_count(&scene.node, &scene.node.seen.ended, 1);
    assert_int_equal(scene.work.class, PCCL_CLASS_PEER_LOST);
    assert_false(scene.node.seen.ended_rejected);
    stop(&scene);
    scene_end(&scene);
}

TEST(random_bytes_end_the_connection_or_are_waited_for)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct scene scene;
        struct pccl_prng prng;
        uint8_t bytes[3000];
        pccl_prng_seed(&prng, seed);
        for (uint32_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)pccl_prng_u64(&prng);
        scene_begin(&scene);
        assert_int_equal(send(scene.from_peer, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
        shutdown(scene.from_peer, SHUT_WR);
        node_until_count(&scene.node, &scene.node.seen.ended, 1);
        assert_false(scene.node.seen.ended_purposely);
        scene_end(&scene);
    }
}
