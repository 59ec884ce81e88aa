/* A framed connection gives its socket up, and the engine on its own thread takes it. */
#include "unit.h"
#include "world.h"

struct fixture {
    uv_loop_t loop;
    struct pccl_connection *connection;
    struct node node;
    struct pccl_id peer;
    int bare;
    bool handed_over, refused, ended;
};

static void hand_over(struct pccl_connection *connection, const struct pccl_frame *frame)
{
    struct fixture *f = connection->owner;
    struct pccl_msg ok = {.type = PCCL_MSG_link_ok,
                          .as.link_ok = {.version = PCCL_PROTOCOL_VERSION, .peer = f->node.id}};
    struct pccl_handover handover;
    assert_false(f->handed_over);
    pccl_connection_send_message(connection, &ok);
    f->handed_over = pccl_connection_detach(connection, &handover);
    f->refused = !f->handed_over;
    if (f->handed_over)
        assert_int_equal(pccl_engine_add(f->node.engine, &f->peer, false, 0, &handover), PCCL_OK);
}

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason)
{
    struct fixture *f = connection->owner;
    f->ended = true;
}

static const struct pccl_connection_events events = {.received = hand_over, .ended = on_ended};

static void begin(struct fixture *f)
{
    uv_os_sock_t ours;
    memset(f, 0, sizeof *f);
    engine_begin(&f->node, 1);
    f->peer = node_id(2);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    loopback_pair(&ours, &f->bare);
    f->connection = pccl_connection_create(&f->loop, pccl_heap(), ours, false, &events, f);
    assert_non_null(f->connection);
}

static void end(struct fixture *f)
{
    close(f->bare);
    loopback_end(&f->loop);
    engine_end(&f->node);
}

static size_t put(const struct pccl_msg *msg, uint8_t *bytes)
{
    pccl_frame_encode(msg, 0, 0, bytes);
    return pccl_frame_size(msg);
}

/* A hello, a segment of an unknown operation, and the good-bye. */
static size_t conversation(uint8_t *bytes, size_t *hello)
{
    enum { PAYLOAD = 3000 };
    struct pccl_msg data = {.type = PCCL_MSG_data, .as.data = {.length = PAYLOAD}};
    struct pccl_msg bye = {.type = PCCL_MSG_link_bye};
    size_t length = *hello = loopback_frame("hello", bytes, 256);
    length += put(&data, bytes + length);
    memset(bytes + length, 0x55, PAYLOAD);
    length += PAYLOAD;
    return length + put(&bye, bytes + length);
}

TEST(the_engine_goes_on_where_the_frames_ended)
{
    uint8_t bytes[4096], ok[256];
    size_t hello, length = conversation(bytes, &hello);
    for (size_t cut = hello; cut <= length; cut += (length - hello) / 13) { /* bytes that arrive with the hello */
        struct fixture f;
        struct pccl_msg link_ok = {.type = PCCL_MSG_link_ok};
        begin(&f);
        bare_write(f.bare, bytes, cut);
        loopback_until(&f.loop, &f.handed_over);
        loopback_read(f.bare, ok, pccl_frame_size(&link_ok)); /* the answer was not lost */
        if (cut < length)
            bare_write(f.bare, bytes + cut, length - cut);
        node_until_count(&f.node, &f.node.seen.ended, 1);
        assert_true(f.node.seen.ended_purposely);
        assert_false(f.ended);
        end(&f);
    }
}

TEST(the_old_loop_does_not_disturb_the_new_owner)
{
    struct fixture f;
    uint8_t bytes[4096];
    size_t hello, length = conversation(bytes, &hello);
    begin(&f);
    bare_write(f.bare, bytes, hello);
    while (!f.handed_over)
        uv_run(&f.loop, UV_RUN_ONCE);
    for (size_t i = hello; i < length; i++) { /* the loop has nothing left to watch */
        bare_write(f.bare, bytes + i, 1);
        assert_int_equal(uv_run(&f.loop, UV_RUN_NOWAIT), 0);
    }
    node_until_count(&f.node, &f.node.seen.ended, 1);
    assert_true(f.node.seen.ended_purposely);
    end(&f);
}

TEST(a_connection_whose_output_does_not_fit_is_kept)
{
    struct fixture f;
    static uint8_t much[48 << 10];
    uint8_t bytes[4096];
    size_t hello;
    int small = 2048;
    (void)conversation(bytes, &hello);
    begin(&f);
    assert_int_equal(setsockopt(f.connection->channel.socket, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    assert_int_equal(setsockopt(f.bare, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    while (pccl_connection_flush(f.connection))
        pccl_connection_send(f.connection, much, sizeof much);
    bare_write(f.bare, bytes, hello);
    loopback_until(&f.loop, &f.refused);
    assert_false(f.handed_over);
    assert_int_equal(f.connection->state, PCCL_CONNECTION_OPEN);
    pccl_connection_close(f.connection, 0);
    end(&f);
}

TEST(a_connection_that_has_ended_is_kept)
{
    struct fixture f;
    struct pccl_handover handover;
    begin(&f);
    shutdown(f.bare, SHUT_WR);
    loopback_until(&f.loop, &f.ended);
    assert_false(pccl_connection_detach(f.connection, &handover));
    pccl_connection_close(f.connection, 0);
    end(&f);
}
