/*
 * Shared by the tests of net/: a loop, one real TCP connection on the loopback, and running until
 * something has happened.
 */
#ifndef PCCL_TESTS_UNIT_LOOPBACK_H
#define PCCL_TESTS_UNIT_LOOPBACK_H

#include "net/connection.h"
#include "net/heap.h"
#include "os/socket.h"
#include "descriptors.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Ends the program when nothing happens for this time: events drive the tests, the time limit only ends tests that
 * hang.
 */
enum { LOOPBACK_HANG_MS = 120000 };

static void loopback_hangs(uv_timer_t *timer) { fail_msg("nothing happened"); }

/* Runs the loop until *condition is true. */
static inline void loopback_until(uv_loop_t *loop, const bool *condition)
{
    uv_timer_t hang;
    assert_int_equal(uv_timer_init(loop, &hang), 0);
    assert_int_equal(uv_timer_start(&hang, loopback_hangs, LOOPBACK_HANG_MS, 0), 0);
    while (!*condition)
        uv_run(loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&hang, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
}

/* Waits until the other side can be read. The loop may have nothing to wait for while bytes are in flight. */
static inline void loopback_until_readable(uv_loop_t *loop, int bare)
{
    struct pollfd readable = {.fd = bare, .events = POLLIN};
    do
        uv_run(loop, UV_RUN_NOWAIT);
    while (poll(&readable, 1, 1) == 0);
}

/* Frees everything that was closed and checks that nothing else is left. */
static inline void loopback_end(uv_loop_t *loop)
{
    uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(loop), 0);
}

/* Check that events of the fixture are not within each other. */
static inline void loopback_enter(const void *owner, const void *fixture, int *depth)
{
    assert_ptr_equal(owner, fixture);
    assert_int_equal((*depth)++, 0);
}

static inline void loopback_leave(const void *owner, const void *fixture, int *depth)
{
    assert_ptr_equal(owner, fixture);
    assert_int_equal(--*depth, 0);
}

/* Handles a frame that the test ignores. */
static inline void loopback_ignore(struct pccl_connection *connection, const struct pccl_frame *frame) {}

/* A blocking listener of the system, for tests that need the other side bare. */
static inline int loopback_listen(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listening = bare_socket();
    assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listening, 16), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return listening;
}

static inline int loopback_connect_from(uint32_t source, uint16_t port)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(source)};
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int connected = bare_socket();
    if (source != INADDR_LOOPBACK) /* which it has in any case, on a port that others may share */
        assert_int_equal(bind(connected, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(connected, (struct sockaddr *)&address, sizeof address), 0);
    return connected;
}

static inline int loopback_connect(uint16_t port) { return loopback_connect_from(INADDR_LOOPBACK, port); }

/* Our end (as the library's sockets are) and the bare other end of one connection. */
static inline void loopback_pair(uv_os_sock_t *ours, int *bare)
{
    uint16_t port;
    int listening = loopback_listen(&port);
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, port);
    assert_int_equal(pccl_socket_dial(&address, ours), 0);
    *bare = accept(listening, NULL, NULL);
    assert_true(*bare >= 0);
    struct pollfd writable = {.fd = *ours, .events = POLLOUT};
    assert_int_equal(poll(&writable, 1, LOOPBACK_HANG_MS), 1);
    assert_int_equal(pccl_socket_outcome(*ours), 0);
    close(listening);
}

/* Our end, as a connection hands it over with the bytes it has read. */
static inline struct pccl_handover loopback_handover(uv_os_sock_t ours, const uint8_t *rest, size_t length)
{
    struct pccl_handover handover = {.socket = ours};
    pccl_frame_reader_init(&handover.reader, pccl_heap());
    pccl_frame_reader_raise(&handover.reader, PCCL_FRAME_BODY_MAX);
    for (size_t taken = 0, room; taken < length; taken += room) {
        uint8_t *space = pccl_frame_reader_space(&handover.reader, &room);
        assert_non_null(space);
        room = (size_t)pccl_min_u64(room, length - taken);
        memcpy(space, rest + taken, room);
        pccl_frame_reader_filled(&handover.reader, room);
    }
    return handover;
}

/* Reads exactly length bytes. */
static inline void loopback_read(int bare, void *bytes, size_t length)
{
    assert_int_equal(recv(bare, bytes, length, MSG_WAITALL), (ssize_t)length);
}

/* Writes a frame of our protocol that contains a text, to tell frames apart. */
static inline size_t loopback_frame(const char *reason, uint8_t *bytes, size_t size)
{
    struct pccl_msg msg = {.type = PCCL_MSG_leave, .as.leave = {.reason = pccl_bytes_of_string(reason)}};
    size_t length = pccl_frame_size(&msg);
    assert_true(length <= size);
    pccl_frame_encode(&msg, 0, 0, bytes);
    return length;
}

static inline void loopback_words(const struct pccl_frame *frame, struct pccl_text *message)
{
    static struct pccl_wire_scratch scratch;
    struct pccl_msg msg;
    struct pccl_text reason;
    assert_int_equal(pccl_wire_decode(frame->type, frame->body, frame->length, &scratch, &msg, &reason), PCCL_OK);
    assert_int_equal(msg.type, PCCL_MSG_leave);
    pccl_text_clear(message);
    pccl_text_add_bytes(message, (const char *)msg.as.leave.reason.data, msg.as.leave.reason.length);
}

#endif
