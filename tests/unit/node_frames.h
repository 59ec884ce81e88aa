/*
 * Frames, for measure_node.h and sync_node.h: how a node answers a hello, and what a peer that is
 * played by hand over a bare socket says and hears.
 */
#ifndef PCCL_TESTS_UNIT_NODE_FRAMES_H
#define PCCL_TESTS_UNIT_NODE_FRAMES_H

#include "loopback.h"
#include "wire/frame.h"

enum { NODE_FRAME_MAX = 1024 };

static inline struct pccl_id node_id(uint8_t number)
{
    struct pccl_id id = {{number}};
    return id;
}

/* Reads one whole frame from a socket that does not block. 0: the other side has closed it. */
static inline size_t node_read_frame(uv_os_sock_t socket, uint8_t *frame)
{
    size_t have = 0, want = PCCL_FRAME_HEADER_BYTES;
    while (have < want) {
        struct pollfd readable = {.fd = socket, .events = POLLIN};
        (void)poll(&readable, 1, LOOPBACK_HANG_MS);
        ptrdiff_t got = pccl_socket_read(socket, frame + have, want - have);
        if (got <= 0)
            return 0;
        have += (size_t)got;
        if (have == PCCL_FRAME_HEADER_BYTES)
            want += (size_t)frame[0] | (size_t)frame[1] << 8;
        if (want > NODE_FRAME_MAX)
            return 0;
    }
    return have;
}

static inline bool node_decode(const uint8_t *frame, size_t length, struct pccl_wire_scratch *scratch,
                               struct pccl_msg *msg)
{
    struct pccl_text reason;
    uint16_t type = (uint16_t)(frame[4] | frame[5] << 8);
    return length > 0 && pccl_wire_decode(type, frame + PCCL_FRAME_HEADER_BYTES, length - PCCL_FRAME_HEADER_BYTES,
                                          scratch, msg, &reason) == PCCL_OK;
}

/*
 * Takes the hello of a connection and welcomes it. false: it is no hello of this kind to this peer
 * of this run.
 */
static inline bool node_answer_hello(uv_os_sock_t socket, enum pccl_link_kind kind, const struct pccl_id *self,
                                     const struct pccl_id *lineage, struct pccl_wire_scratch *scratch,
                                     struct pccl_id *from)
{
    uint8_t frame[NODE_FRAME_MAX];
    struct pccl_msg hello;
    struct pccl_msg ok = {.type = PCCL_MSG_link_ok, .as.link_ok = {.version = PCCL_PROTOCOL_VERSION, .peer = *self}};
    bool good = node_decode(frame, node_read_frame(socket, frame), scratch, &hello) &&
                hello.type == PCCL_MSG_link_hello && hello.as.link_hello.kind == kind &&
                pccl_id_equal(&hello.as.link_hello.to, self) && pccl_id_equal(&hello.as.link_hello.lineage, lineage);
    if (!good)
        return false;
    *from = hello.as.link_hello.from;
    pccl_frame_encode(&ok, 0, 0, frame);
    (void)pccl_socket_write(socket, frame, pccl_frame_size(&ok));
    return true;
}

/* ---- peers by hand ---- */

static inline void bare_write(int bare, const void *bytes, size_t length)
{
    const uint8_t *next = bytes;
    while (length > 0) {
        ssize_t moved = send(bare, next, length, MSG_NOSIGNAL);
        assert_true(moved > 0);
        next += moved;
        length -= (size_t)moved;
    }
}

static inline void bare_say(int bare, const struct pccl_msg *msg)
{
    uint8_t frame[NODE_FRAME_MAX];
    size_t size = pccl_frame_size(msg);
    assert_true(size <= sizeof frame);
    pccl_frame_encode(msg, 0, 0, frame);
    bare_write(bare, frame, size);
}

static inline void bare_hear(int bare, struct pccl_msg *msg)
{
    static struct pccl_wire_scratch scratch;
    static uint8_t frame[NODE_FRAME_MAX];
    *msg = (struct pccl_msg){.type = 0};
    loopback_read(bare, frame, PCCL_FRAME_HEADER_BYTES);
    size_t length = (size_t)frame[0] | (size_t)frame[1] << 8;
    assert_true(PCCL_FRAME_HEADER_BYTES + length <= sizeof frame);
    loopback_read(bare, frame + PCCL_FRAME_HEADER_BYTES, length);
    assert_true(node_decode(frame, PCCL_FRAME_HEADER_BYTES + length, &scratch, msg));
}

/* The other side closes the connection; what it had sent before does not matter. */
static inline void bare_hear_end(int bare)
{
    static uint8_t bytes[65536];
    struct pollfd readable = {.fd = bare, .events = POLLIN};
    ssize_t got = 1;
    while (got > 0) {
        assert_int_equal(poll(&readable, 1, LOOPBACK_HANG_MS), 1);
        got = recv(bare, bytes, sizeof bytes, 0);
    }
}

#endif
