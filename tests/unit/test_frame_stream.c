/*
 * The byte-level rig: two sessions over a faked socket pair with short reads and writes, EAGAIN, EINTR, one-byte
 * segments, flipped bits, resets at any byte and short memory. Each side receives exactly what the other sent, in
 * order. A failure names its seed:  test_frame_stream 17  runs that one alone.
 */
#include "unit.h"
#include "core/limits.h"
#include "core/prng.h"
#include "support.h"
#include "wire/frame.h"
#include "wire/session.h"

enum { SEEDS = 400, PIPE_BYTES = 3000, WAITING_MAX = 1 << 20 };
enum { WOULD_BLOCK = -1, INTERRUPTED = -2, BROKEN = -3 };

/* ---- the faked socket pair: one direction ---- */

struct pipe {
    uint8_t bytes[PIPE_BYTES];
    size_t head, count; /* a ring */
};

struct faults { /* per million; all zero: a calm network */
    uint32_t block, interrupt, reset, flip;
    uint32_t part_max; /* bytes moved by one call, 0: any */
};

struct world;

struct side {
    struct world *world;
    struct pipe *out, *in;
    struct pccl_session session;
    struct pccl_frame_reader reader;
    struct test_memory memory;
    uint8_t *waiting; /* bytes for the socket */
    size_t waiting_start, waiting_end;
    bool greeted;           /* the other's hello has arrived on this connection */
    uint64_t pushed, taken; /* votes and payloads: numbered by the application */
    uint64_t quota;
};

struct world {
    struct pccl_prng prng;
    struct faults faults;
    struct pipe pipes[2];
    struct side sides[2];
    bool broken, flipped; /* this connection */
    uint64_t resets, garbage, duplicates;
};

static size_t part_of(struct world *w, size_t length)
{
    size_t most = w->faults.part_max > 0 && w->faults.part_max < length ? w->faults.part_max : length;
    return 1 + (size_t)pccl_prng_below(&w->prng, most);
}

static int faked_error(struct world *w)
{
    if (w->broken || pccl_prng_chance(&w->prng, w->faults.reset)) {
        w->broken = true;
        return BROKEN;
    }
    if (pccl_prng_chance(&w->prng, w->faults.interrupt))
        return INTERRUPTED;
    return pccl_prng_chance(&w->prng, w->faults.block) ? WOULD_BLOCK : 0;
}

static int fake_write(struct world *w, struct pipe *pipe, const uint8_t *data, size_t length)
{
    int error = faked_error(w);
    if (error != 0)
        return error;
    if (pipe->count == PIPE_BYTES)
        return WOULD_BLOCK;
    size_t room = PIPE_BYTES - pipe->count, part = part_of(w, length < room ? length : room);
    for (size_t i = 0; i < part; i++) {
        uint8_t flip = pccl_prng_chance(&w->prng, w->faults.flip) ? (uint8_t)(1u << pccl_prng_below(&w->prng, 8)) : 0;
        w->flipped = w->flipped || flip != 0;
        pipe->bytes[(pipe->head + pipe->count++) % PIPE_BYTES] = data[i] ^ flip;
    }
    return (int)part;
}

static int fake_read(struct world *w, struct pipe *pipe, uint8_t *data, size_t length)
{
    int error = faked_error(w);
    if (error != 0)
        return error;
    if (pipe->count == 0)
        return WOULD_BLOCK;
    size_t part = part_of(w, length < pipe->count ? length : pipe->count);
    for (size_t i = 0; i < part; i++) {
        data[i] = pipe->bytes[pipe->head];
        pipe->head = (pipe->head + 1) % PIPE_BYTES;
    }
    pipe->count -= part;
    return (int)part;
}

/* ---- content: votes and payloads that follow from their number ---- */

static uint32_t make_message(uint64_t number, bool from_second, struct pccl_msg *msg, uint8_t *payload)
{
    struct pccl_prng prng = unit_prng(number * 2 + from_second);
    memset(msg, 0, sizeof *msg);
    if (pccl_prng_chance(&prng, 600000)) {
        msg->type = PCCL_MSG_vote;
        msg->as.vote.round = number;
        return 0;
    }
    uint32_t length = (uint32_t)pccl_prng_below(&prng, pccl_prng_chance(&prng, 100000) ? PCCL_TINY_BYTES_MAX + 1 : 300);
    for (uint32_t i = 0; i < length; i++)
        payload[i] = (uint8_t)pccl_prng_u64(&prng);
    msg->type = PCCL_MSG_done;
    msg->as.done.instance.tag = number;
    msg->as.done.tiny = 1;
    msg->as.done.payload = (struct pccl_bytes){payload, length};
    return length;
}

static void check_message(const struct pccl_msg *msg, uint64_t number, bool from_second)
{
    static uint8_t payload[PCCL_TINY_BYTES_MAX];
    struct pccl_msg expected;
    uint32_t length = make_message(number, from_second, &expected, payload);
    assert_int_equal(msg->type, expected.type);
    if (msg->type == PCCL_MSG_vote) {
        assert_int_equal(msg->as.vote.round, number);
        return;
    }
    assert_int_equal(msg->as.done.instance.tag, number);
    assert_int_equal(msg->as.done.payload.length, length);
    if (length > 0)
        assert_memory_equal(msg->as.done.payload.data, payload, length);
}

/* ---- a side: the work of a driver and a machine on their socket ---- */

static void queue_bytes(struct side *side, const uint8_t *data, size_t length)
{
    if (side->waiting_start > 0 && side->waiting_end + length > WAITING_MAX) {
        memmove(side->waiting, side->waiting + side->waiting_start, side->waiting_end - side->waiting_start);
        side->waiting_end -= side->waiting_start;
        side->waiting_start = 0;
    }
    assert_true(side->waiting_end + length <= WAITING_MAX);
    memcpy(side->waiting + side->waiting_end, data, length);
    side->waiting_end += length;
}

static void queue_unnumbered(struct side *side, const struct pccl_msg *msg, uint64_t acknowledged)
{
    uint8_t frame[512];
    assert_true(pccl_frame_size(msg) <= sizeof frame);
    pccl_frame_encode(msg, 0, acknowledged, frame);
    side->session.acked = acknowledged;
    queue_bytes(side, frame, pccl_frame_size(msg));
}

static void say_heartbeat(struct side *side)
{
    struct pccl_msg msg = {.type = PCCL_MSG_heartbeat};
    queue_unnumbered(side, &msg, side->session.received);
}

/*
 * Both sides greet alike here; the acknowledgment in the header states which messages have arrived. Sometimes it states
 * fewer, like a hello that was written before the last bytes of the old connection were read: duplicates follow.
 */
static void say_hello(struct side *side)
{
    struct pccl_msg msg = {.type = PCCL_MSG_hello_ok};
    msg.as.hello_ok.build.version = PCCL_PROTOCOL_VERSION;
    msg.as.hello_ok.mode = PCCL_HELLO_CONTINUE;
    uint64_t behind = pccl_prng_chance(&side->world->prng, 300000) ? pccl_prng_below(&side->world->prng, 10) : 0;
    queue_unnumbered(side, &msg, side->session.received - pccl_min_u64(behind, side->session.received));
}

static void application(struct side *side)
{
    static uint8_t payload[PCCL_TINY_BYTES_MAX];
    struct world *w = side->world;
    struct pccl_msg msg;
    struct pccl_bytes frame;
    uint64_t burst = pccl_prng_below(&w->prng, 4);
    if (burst == 0 && side->greeted && side->waiting_start == side->waiting_end)
        /*
         * a driver's timer: otherwise the other's queue would stay full when this side has nothing
         *                                 to send
         */
        say_heartbeat(side);
    for (; burst > 0 && side->pushed < side->quota && side->session.queued_count < 60; burst--) {
        (void)make_message(side->pushed + 1, side == &w->sides[1], &msg, payload);
        enum pccl_status status = pccl_session_push(&side->session, &msg, 0, &frame);
        if (status == PCCL_MEMORY)
            return; /* nothing has changed: the same message again another time */
        assert_int_equal(status, PCCL_OK);
        side->pushed++;
        if (side->greeted)
            queue_bytes(side, frame.data, frame.length);
    }
}

static void handle_frame(struct side *side, const struct pccl_frame *frame)
{
    static struct pccl_wire_scratch scratch;
    struct pccl_msg msg;
    struct pccl_text reason;
    bool invalid, gap = false;
    assert_int_equal(pccl_wire_decode(frame->type, frame->body, frame->length, &scratch, &msg, &reason), PCCL_OK);
    (void)pccl_session_acknowledge(&side->session, frame->acknowledged, &invalid);
    assert_false(invalid);
    if (frame->type == PCCL_MSG_hello_ok) {
        assert_false(side->greeted);
        side->greeted = true;
        pccl_frame_reader_raise(&side->reader, PCCL_FRAME_BODY_MAX);
        const struct pccl_session_entry *entry = NULL;
        struct pccl_bytes old;
        while ((entry = pccl_session_unacknowledged(&side->session, entry, &old)) != NULL)
            queue_bytes(side, old.data, old.length);
        return;
    }
    assert_true(side->greeted);
    if (frame->type == PCCL_MSG_heartbeat)
        return;
    if (!pccl_session_accept(&side->session, frame->sequence, &gap)) {
        assert_false(gap);
        side->world->duplicates++;
        return;
    }
    check_message(&msg, ++side->taken, side == &side->world->sides[0]);
    if (pccl_session_needs_acknowledgment(&side->session))
        say_heartbeat(side);
}

static void step_read(struct side *side)
{
    struct world *w = side->world;
    size_t room;
    uint8_t *space = pccl_frame_reader_space(&side->reader, &room);
    if (space == NULL)
        return; /* memory is short now; the bytes wait in the socket */
    int result = fake_read(w, side->in, space, room);
    if (result <= 0)
        return;
    pccl_frame_reader_filled(&side->reader, (size_t)result);
    struct pccl_frame frame;
    struct pccl_text reason;
    int found;
    while ((found = pccl_frame_reader_next(&side->reader, &frame, &reason)) == 1)
        handle_frame(side, &frame);
    if (found < 0) {
        assert_true(w->flipped);
        w->garbage++;
        w->broken = true;
    }
}

static void step_write(struct side *side)
{
    if (side->waiting_start == side->waiting_end)
        return;
    int result = fake_write(side->world, side->out, side->waiting + side->waiting_start,
                            side->waiting_end - side->waiting_start);
    if (result > 0)
        side->waiting_start += (size_t)result;
}

static void reconnect(struct world *w)
{
    w->broken = w->flipped = false;
    w->resets++;
    memset(w->pipes, 0, sizeof w->pipes);
    for (int i = 0; i < 2; i++) {
        struct side *side = &w->sides[i];
        pccl_frame_reader_fini(&side->reader);
        pccl_frame_reader_init(&side->reader, &side->memory.memory);
        side->waiting_start = side->waiting_end = 0;
        side->greeted = false;
        say_hello(side);
    }
}

static void draw_faults(struct world *w)
{
    struct pccl_prng *prng = &w->prng;
    w->faults.block = pccl_prng_chance(prng, 700000) ? (uint32_t)pccl_prng_below(prng, 600000) : 0;
    w->faults.interrupt = pccl_prng_chance(prng, 500000) ? (uint32_t)pccl_prng_below(prng, 300000) : 0;
    w->faults.reset = pccl_prng_chance(prng, 700000) ? (uint32_t)pccl_prng_below(prng, 10000) : 0;
    w->faults.flip = pccl_prng_chance(prng, 300000) ? (uint32_t)pccl_prng_below(prng, 300) : 0;
    if (pccl_prng_chance(prng, 300000))
        w->faults.part_max = 1;
    else
        w->faults.part_max = pccl_prng_chance(prng, 500000) ? (uint32_t)(1 + pccl_prng_below(prng, 100)) : 0;
}

static void step(struct world *w)
{
    if (w->broken)
        reconnect(w);
    struct side *side = &w->sides[pccl_prng_below(&w->prng, 2)];
    side->memory.fail_at = w->faults.reset > 0 && pccl_prng_chance(&w->prng, 20000) ? side->memory.requests + 1 : 0;
    switch (pccl_prng_below(&w->prng, 5)) {
    case 0: application(side); break;
    case 1:
    case 2: step_read(side); break;
    default: step_write(side); break;
    }
}

static bool all_arrived(const struct world *w)
{
    for (int i = 0; i < 2; i++)
        if (w->sides[i].pushed < w->sides[i].quota || w->sides[1 - i].taken < w->sides[i].quota)
            return false;
    return true;
}

static bool nothing_is_kept(const struct world *w)
{
    return w->sides[0].session.queued_count == 0 && w->sides[1].session.queued_count == 0;
}

/* The last acknowledgments: after a heartbeat in each direction both queues are empty. */
static void advance(struct world *w)
{
    memset(&w->faults, 0, sizeof w->faults);
    for (int i = 0; i < 2; i++)
        if (w->sides[i].greeted)
            say_heartbeat(&w->sides[i]);
    for (int steps = 0; steps < 2000000 && !(steps >= 20000 && nothing_is_kept(w)); steps++)
        step(w);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(w->sides[i].session.queued_count, 0);
        assert_int_equal(w->sides[i].session.queued_bytes, 0);
        assert_int_equal(w->sides[i].taken, w->sides[1 - i].quota);
    }
}

static void run_seed(uint64_t seed, struct world *w)
{
    memset(w, 0, sizeof *w);
    pccl_prng_seed(&w->prng, seed);
    for (int i = 0; i < 2; i++) {
        struct side *side = &w->sides[i];
        side->world = w;
        side->out = &w->pipes[i];
        side->in = &w->pipes[1 - i];
        side->waiting = malloc(WAITING_MAX);
        side->quota = 50 + pccl_prng_below(&w->prng, 150);
        test_memory_init(&side->memory);
        pccl_session_init(&side->session, &side->memory.memory);
        pccl_frame_reader_init(&side->reader, &side->memory.memory);
        say_hello(side);
    }
    draw_faults(w);
    for (uint64_t steps = 0; !all_arrived(w); steps++) {
        if (steps == 60000) /* faults stop: from now on every message must arrive */
            memset(&w->faults, 0, sizeof w->faults);
        assert_true(steps < 2000000);
        step(w);
    }
    advance(w);
    for (int i = 0; i < 2; i++) {
        pccl_session_fini(&w->sides[i].session);
        pccl_frame_reader_fini(&w->sides[i].reader);
        assert_int_equal(w->sides[i].memory.live_blocks, 0);
        free(w->sides[i].waiting);
    }
}

static uint64_t only_seed, running_seed;

static int say_seed(void **state)
{
    if (running_seed > 0)
        print_message("the last seed was %llu\n", (unsigned long long)running_seed);
    return 0;
}

TEST_IN(test_streams, NULL, say_seed)
{
    static struct world w;
    uint64_t resets = 0, garbage = 0, duplicates = 0, failures = 0;
    for (uint64_t seed = only_seed > 0 ? only_seed : 1; seed <= (only_seed > 0 ? only_seed : SEEDS); seed++) {
        running_seed = seed;
        run_seed(seed, &w);
        resets += w.resets;
        garbage += w.garbage;
        duplicates += w.duplicates;
        failures += w.sides[0].memory.failures + w.sides[1].memory.failures;
    }
    print_message("%d seeds: %llu resets, %llu corrupted frames, %llu duplicates, %llu failed allocations\n",
                  only_seed > 0 ? 1 : SEEDS, (unsigned long long)resets, (unsigned long long)garbage,
                  (unsigned long long)duplicates, (unsigned long long)failures);
    if (only_seed == 0)
        assert_true(resets > 1000 && garbage > 100 && duplicates > 1000 && failures > 100);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        only_seed = strtoull(argv[1], NULL, 10);
    return unit_run(NULL, NULL);
}
