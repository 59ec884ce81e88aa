/* One framed connection over real sockets: frames, back-pressure, and every cause of its end. */
#include "unit.h"
#include "loopback.h"

#include <fcntl.h>
#include <sched.h>

static struct fixture {
    uv_loop_t loop;
    struct pccl_connection *connection;
    int bare;
    /* results of the events */
    struct pccl_text last;
    uint32_t frames;
    bool got_frame, ended, full;
    uint32_t wanted_frames;
    enum pccl_connection_end how;
    struct pccl_text reason;
    int entered, visits;
    const struct pccl_connection_events *hand_over;
} f;

static void on_enter(void *owner)
{
    assert_ptr_equal(owner, &f);
    f.visits++;
    assert_int_equal(f.entered++, 0);
}

static void on_leave(void *owner)
{
    assert_ptr_equal(owner, &f);
    assert_int_equal(--f.entered, 0);
}

static void on_received(struct pccl_connection *connection, const struct pccl_frame *frame)
{
    assert_ptr_equal(connection->owner, &f);
    loopback_words(frame, &f.last);
    f.frames++;
    f.got_frame = f.frames >= f.wanted_frames;
    if (f.hand_over) {
        connection->events = f.hand_over;
        f.hand_over = NULL;
    }
}

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason)
{
    assert_ptr_equal(connection->owner, &f);
    assert_false(f.ended);
    f.ended = true;
    f.how = how;
    f.reason = *reason;
}

static const struct pccl_connection_events events = {
    .enter = on_enter, .leave = on_leave, .received = on_received, .ended = on_ended};
static const struct pccl_connection_events other_events = {.received = on_received, .ended = on_ended};

static void begin(const struct pccl_memory *memory)
{
    uv_os_sock_t ours;
    memset(&f, 0, sizeof f);
    f.wanted_frames = 1;
    assert_int_equal(uv_loop_init(&f.loop), 0);
    loopback_pair(&ours, &f.bare);
    f.connection = pccl_connection_create(&f.loop, memory, ours, false, &events, &f);
    assert_non_null(f.connection);
}

static void end(void)
{
    pccl_connection_close(f.connection, 0);
    close(f.bare);
    loopback_end(&f.loop);
}

static int set_up(void **state)
{
    begin(pccl_heap());
    return 0;
}

static int tear_down(void **state)
{
    end();
    return 0;
}

#define OPEN_TEST(name) TEST_IN(name, set_up, tear_down)

static void write_all(int bare, const uint8_t *bytes, size_t length)
{
    assert_int_equal(send(bare, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

/* ---- frames ---- */

OPEN_TEST(frames_arrive_whole_when_they_come_a_byte_at_a_time)
{
    uint8_t bytes[256];
    size_t length = loopback_frame("a byte at a time", bytes, sizeof bytes);
    for (size_t i = 0; i < length; i++) {
        assert_int_equal(f.frames, 0);
        write_all(f.bare, bytes + i, 1);
        bool moved = false;
        while (!moved && f.frames == 0) {
            moved = f.visits > (int)i;
            if (!moved)
                uv_run(&f.loop, UV_RUN_ONCE);
        }
    }
    loopback_until(&f.loop, &f.got_frame);
    assert_string_equal(f.last.bytes, "a byte at a time");
}

OPEN_TEST(many_frames_in_one_segment_are_handed_out_in_order)
{
    uint8_t bytes[4096];
    size_t length = 0;
    for (char name[2] = "a"; name[0] <= 'j'; name[0]++)
        length += loopback_frame(name, bytes + length, sizeof bytes - length);
    write_all(f.bare, bytes, length);
    f.wanted_frames = 10;
    loopback_until(&f.loop, &f.got_frame);
    assert_string_equal(f.last.bytes, "j");
}

OPEN_TEST(events_may_change_between_two_frames_of_one_visit)
{
    uint8_t bytes[512];
    size_t length = loopback_frame("one", bytes, sizeof bytes);
    length += loopback_frame("two", bytes + length, sizeof bytes - length);
    f.hand_over = &other_events;
    f.wanted_frames = 2;
    write_all(f.bare, bytes, length);
    loopback_until(&f.loop, &f.got_frame);
    assert_int_equal(f.entered, 0); /* entered and left once each; the new events have no lock */
    assert_ptr_equal(f.connection->events, &other_events);
}

/* ---- another thread waits for the input ---- */

/* Returns false on a system without the means. */
static bool share(struct pccl_socket_wait *wait)
{
    begin(pccl_heap());
    uv_run(&f.loop, UV_RUN_NOWAIT); /* the loop begins to watch */
    bool can = pccl_socket_wait_open(wait) == 0;
    assert_false(pccl_connection_share_input(f.connection, wait, true)); /* the system may not have been told yet */
    pccl_connection_polled(f.connection);
    assert_true(!can || pccl_connection_share_input(f.connection, wait, true));
    return can;
}

static void end_shared(const struct pccl_socket_wait *wait)
{
    (void)pccl_connection_share_input(f.connection, wait, false);
    end();
    pccl_socket_wait_close(wait);
}

struct waiting {
    const struct pccl_socket_wait *wait;
    uv_sem_t begun;
    int stat; /* descriptor of its thread's state */
};

static void wait_once(void *argument)
{
    struct waiting *waiting = argument;
    waiting->stat = open("/proc/thread-self/stat", O_RDONLY);
    uv_sem_post(&waiting->begun);
    pccl_socket_wait_for(waiting->wait, -1);
}

static bool sleeps(const struct waiting *waiting)
{
    char stat[64] = {0};
    assert_true(pread(waiting->stat, stat, sizeof stat - 1, 0) > 0);
    return strstr(stat, ") S") != NULL;
}

static void write_frame(const char *word)
{
    uint8_t bytes[256];
    write_all(f.bare, bytes, loopback_frame(word, bytes, sizeof bytes));
}

/* Returns when a waiting thread has been woken by it and has left. The loop was not woken. */
static void write_to_a_waiting_thread(const struct pccl_socket_wait *wait)
{
    struct waiting waiting = {.wait = wait};
    uint32_t frames = f.frames;
    uv_thread_t thread;
    assert_int_equal(uv_sem_init(&waiting.begun, 0), 0);
    assert_int_equal(uv_thread_create(&thread, wait_once, &waiting), 0);
    uv_sem_wait(&waiting.begun);
    while (!sleeps(&waiting))
        sched_yield();
    write_frame("told");
    assert_int_equal(uv_thread_join(&thread), 0);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    assert_int_equal(f.frames, frames);
    close(waiting.stat);
    uv_sem_destroy(&waiting.begun);
}

TEST(another_thread_may_take_the_input)
{
    struct pccl_socket_wait wait;
    if (share(&wait)) {
        assert_true(pccl_connection_take(f.connection)); /* nothing there */
        write_to_a_waiting_thread(&wait);
        assert_true(pccl_connection_take(f.connection));
        assert_int_equal(f.frames, 1);
        close(f.bare);
        pccl_socket_wait_for(&wait, -1);
        assert_false(pccl_connection_take(f.connection)); /* the end is the loop's to report */
        assert_false(f.ended);
        pccl_connection_arm(f.connection);
        assert_true(f.ended);
        assert_int_equal(f.how, PCCL_END_CLOSED);
        f.bare = -1;
    }
    end_shared(&wait);
}

TEST(input_that_no_thread_takes_is_the_loops)
{
    struct pccl_socket_wait wait;
    if (share(&wait)) {
        write_frame("told");
        loopback_until(&f.loop, &f.got_frame);
        write_to_a_waiting_thread(&wait);
        assert_true(pccl_connection_take(f.connection));
        f.got_frame = false;
        write_frame("told"); /* when the thread has left */
        loopback_until(&f.loop, &f.got_frame);
        assert_int_equal(f.frames, 3);
        write_to_a_waiting_thread(&wait); /* which leaves it */
        f.got_frame = false;
        (void)pccl_connection_share_input(f.connection, &wait, false);
        loopback_until(&f.loop, &f.got_frame);
        assert_true(pccl_connection_share_input(f.connection, &wait, true));
        write_to_a_waiting_thread(&wait);
        assert_true(pccl_connection_take(f.connection));
        assert_int_equal(f.frames, 5);
    }
    end_shared(&wait);
}

TEST(hidden_input_is_for_the_thread_alone)
{
    struct pccl_socket_wait wait;
    if (share(&wait)) {
        pccl_connection_hide_input(f.connection, true);
        write_frame("told");
        uv_run(&f.loop, UV_RUN_NOWAIT);
        assert_int_equal(f.frames, 0);
        assert_int_equal(pccl_socket_wait_for_all(&wait, LOOPBACK_HANG_MS), PCCL_SOCKET_INPUT);
        assert_true(pccl_connection_take(f.connection));
        assert_int_equal(f.frames, 1);
        write_frame("told"); /* arrives when no thread looks any longer */
        pccl_connection_hide_input(f.connection, false);
        loopback_until(&f.loop, &f.got_frame);
        f.got_frame = false;
        pccl_connection_hide_input(f.connection, true);
        write_frame("told");
        (void)pccl_connection_share_input(f.connection, &wait, false); /* shows it, too */
        loopback_until(&f.loop, &f.got_frame);
        assert_int_equal(f.frames, 3);
    }
    end_shared(&wait);
}

TEST(watching_for_room_shows_hidden_input)
{
    struct pccl_socket_wait wait;
    if (share(&wait)) {
        pccl_connection_hide_input(f.connection, true);
        pccl_channel_yield(&f.connection->channel);
        pccl_connection_arm(f.connection);
        pccl_connection_hide_input(f.connection, false); /* no effect */
        write_frame("told");
        loopback_until(&f.loop, &f.got_frame);
    }
    end_shared(&wait);
}

TEST(the_loop_may_watch_for_room_meanwhile)
{
    struct pccl_socket_wait wait;
    if (share(&wait)) {
        pccl_channel_yield(&f.connection->channel);
        pccl_connection_arm(f.connection);
        assert_false(pccl_connection_share_input(f.connection, &wait, true));
        write_frame("told");
        loopback_until(&f.loop, &f.got_frame);
        while (f.connection->channel.armed != UV_READABLE)
            uv_run(&f.loop, UV_RUN_ONCE);
        uv_run(&f.loop, UV_RUN_NOWAIT);
        pccl_connection_polled(f.connection);
        assert_true(pccl_connection_share_input(f.connection, &wait, true));
        write_to_a_waiting_thread(&wait);
        assert_true(pccl_connection_take(f.connection));
        assert_int_equal(f.frames, 2);
    }
    end_shared(&wait);
}

OPEN_TEST(a_broken_frame_that_was_taken_is_left_to_the_loop)
{
    uint8_t bytes[256];
    size_t length = loopback_frame("good", bytes, sizeof bytes);
    size_t both = length + loopback_frame("bad", bytes + length, sizeof bytes - length);
    bytes[both - 1] ^= 1;
    write_all(f.bare, bytes, both);
    struct pollfd readable = {.fd = f.connection->channel.socket, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, LOOPBACK_HANG_MS), 1);
    assert_false(pccl_connection_take(f.connection));
    assert_int_equal(f.frames, 1);
    assert_false(f.ended);
    pccl_connection_arm(f.connection);
    assert_true(f.ended);
    assert_int_equal(f.how, PCCL_END_GARBAGE);
}

/* ---- output ---- */

OPEN_TEST(what_the_kernel_does_not_take_waits_and_arrives_in_order)
{
    enum { CHUNK = 4096, CHUNKS = 1024 };
    static uint8_t chunk[CHUNK], read_back[CHUNK];
    pccl_connection_raise(f.connection);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        memset(chunk, (int)(i & 0xff), CHUNK);
        pccl_connection_send(f.connection, chunk, CHUNK);
    }
    assert_false(pccl_connection_flush(f.connection)); /* 4 MiB fit into no socket buffer of the loopback */
    pccl_connection_arm(f.connection);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        for (size_t got = 0; got < CHUNK;) {
            loopback_until_readable(&f.loop, f.bare);
            ssize_t more = recv(f.bare, read_back + got, CHUNK - got, MSG_DONTWAIT);
            assert_true(more > 0);
            got += (size_t)more;
        }
        memset(chunk, (int)(i & 0xff), CHUNK);
        assert_memory_equal(read_back, chunk, CHUNK);
    }
    assert_true(pccl_connection_flush(f.connection));
    assert_false(f.ended);
}

OPEN_TEST(more_output_than_may_wait_ends_it)
{
    static uint8_t chunk[4096];
    for (uint32_t i = 0; i * sizeof chunk <= PCCL_CONNECTION_OUT_HELLO; i++)
        pccl_connection_send(f.connection, chunk, sizeof chunk);
    assert_false(f.ended); /* not from inside send */
    loopback_until(&f.loop, &f.ended);
    assert_int_equal(f.how, PCCL_END_OVERFLOW);
}

TEST(closing_sends_the_rest_and_survives_unread_input)
{
    enum { LENGTH = 60 << 10 };
    static uint8_t sent[LENGTH], got[LENGTH];
    uint8_t byte;
    begin(pccl_heap());
    for (size_t i = 0; i < LENGTH; i++)
        sent[i] = (uint8_t)(i * 7);
    write_all(f.bare, sent, 1000); /* never read by us: a plain close would answer with a reset */
    pccl_connection_send(f.connection, sent, LENGTH);
    pccl_connection_close(f.connection, 5000);
    loopback_read(f.bare, got, LENGTH);
    assert_memory_equal(got, sent, LENGTH);
    assert_int_equal(recv(f.bare, &byte, 1, 0), 0); /* an orderly end */
    close(f.bare);
    loopback_end(&f.loop);
    assert_false(f.ended);
}

TEST(lingering_ends_though_the_other_side_stays)
{
    begin(pccl_heap());
    pccl_connection_close(f.connection, 20);
    loopback_end(&f.loop); /* returns only after the connection has released its resources */
    close(f.bare);
}

/* ---- ends ---- */

TEST(an_orderly_end_is_told_from_a_reset)
{
    struct linger at_once = {.l_onoff = 1};
    begin(pccl_heap());
    assert_int_equal(shutdown(f.bare, SHUT_WR), 0);
    loopback_until(&f.loop, &f.ended);
    assert_int_equal(f.how, PCCL_END_CLOSED);
    end();
    begin(pccl_heap());
    assert_int_equal(setsockopt(f.bare, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(f.bare);
    loopback_until(&f.loop, &f.ended);
    assert_int_equal(f.how, PCCL_END_RESET);
    assert_true(f.reason.length > 0);
    f.bare = -1;
    end();
}

OPEN_TEST(frames_before_the_end_are_not_lost)
{
    uint8_t bytes[256];
    write_all(f.bare, bytes, loopback_frame("last words", bytes, sizeof bytes));
    close(f.bare);
    loopback_until(&f.loop, &f.ended);
    assert_int_equal(f.frames, 1);
    assert_int_equal(f.how, PCCL_END_CLOSED);
    f.bare = -1;
}

TEST(garbage_ends_it_and_can_be_answered)
{
    static const char junk[] = "GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n";
    uint8_t bytes[256], got[256];
    begin(pccl_heap());
    write_all(f.bare, (const uint8_t *)junk, sizeof junk);
    loopback_until(&f.loop, &f.ended);
    assert_int_equal(f.how, PCCL_END_GARBAGE);
    size_t length = loopback_frame("this is not for you", bytes, sizeof bytes);
    pccl_connection_send(f.connection, bytes, length);
    pccl_connection_close(f.connection, 5000);
    loopback_read(f.bare, got, length);
    assert_memory_equal(got, bytes, length);
    close(f.bare);
    loopback_end(&f.loop);
}

OPEN_TEST(a_frame_beyond_the_limit_is_garbage_until_the_limit_is_raised)
{
    static uint8_t bytes[PCCL_FRAME_HEADER_BYTES + PCCL_FRAME_HELLO_MAX + 4096];
    static uint8_t payload[PCCL_FRAME_HELLO_MAX + 1];
    struct pccl_msg msg = {.type = PCCL_MSG_done,
                           .as.done = {.tiny = 1, .payload = {payload, PCCL_FRAME_HELLO_MAX + 1}}};
    pccl_frame_encode(&msg, 0, 0, bytes);
    write_all(f.bare, bytes, pccl_frame_size(&msg));
    loopback_until(&f.loop, &f.ended);
    assert_int_equal(f.how, PCCL_END_GARBAGE);
}

OPEN_TEST(a_limit_ends_a_silent_connection)
{
    pccl_connection_limit(f.connection, 1);
    loopback_until(&f.loop, &f.ended);
    assert_int_equal(f.how, PCCL_END_TIMEOUT);
    assert_int_equal(f.entered, 0);
}

TEST(dropping_ends_it_and_leaves_the_list)
{
    struct pccl_connection_list list = {.count = 0};
    pccl_list_init(&list.connections);
    begin(pccl_heap());
    pccl_connection_list_add(&list, f.connection);
    assert_int_equal(list.count, 1);
    pccl_connection_drop(f.connection);
    assert_true(f.ended);
    assert_int_equal(f.how, PCCL_END_DROPPED);
    end();
    assert_int_equal(list.count, 0);
    assert_null(pccl_connection_oldest(&list));
}

/* ---- out of memory ---- */

struct stingy {
    uint32_t left; /* allocations that still succeed */
};

static void *stingy_resize(void *context, void *block, size_t old_bytes, size_t new_bytes)
{
    struct stingy *stingy = context;
    if (new_bytes == 0) {
        free(block);
        return NULL;
    }
    if (stingy->left == 0)
        return NULL;
    stingy->left--;
    return realloc(block, new_bytes);
}

TEST(short_memory_ends_only_the_connection)
{
    uint8_t bytes[256];
    size_t length = loopback_frame("x", bytes, sizeof bytes);
    struct stingy stingy = {.left = 0};
    struct pccl_memory memory = {.resize = stingy_resize, .context = &stingy};
    uv_loop_t loop;
    uv_os_sock_t ours;
    int bare;
    assert_int_equal(uv_loop_init(&loop), 0);
    loopback_pair(&ours, &bare);
    assert_null(pccl_connection_create(&loop, &memory, ours, false, &events, NULL));
    assert_int_equal(recv(bare, bytes, 1, 0), 0); /* the socket is closed */
    close(bare);
    loopback_end(&loop);

    stingy.left = 1;
    begin(&memory); /* no memory to receive into */
    write_all(f.bare, bytes, 1);
    loopback_until(&f.loop, &f.ended);
    assert_int_equal(f.how, PCCL_END_MEMORY);
    end();

    stingy.left = 1;
    begin(&memory); /* no memory to send from */
    pccl_connection_send(f.connection, bytes, length);
    loopback_until(&f.loop, &f.ended);
    assert_int_equal(f.how, PCCL_END_MEMORY);
    end();
}
