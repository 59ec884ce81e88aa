/*
 * Ethernet frames as a packet socket with PACKET_VNET_HDR gives them: a virtio header in front tells whether the frame
 * holds many TCP segments (GSO), and whether its checksum is incomplete. Such a frame is carried whole; frame_part
 * splits it only if one of its segments is lost, copied or late. IPv4 and IPv6.
 */
#ifndef PCCL_TESTS_WAN_FRAME_H
#define PCCL_TESTS_WAN_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_BYTES_MAX = 70000, /* with the virtio header; GSO frames have up to 64 KiB */
    FRAME_PORTS_MAX = 32,
    FRAME_EVERYBODY = -1,
    FRAME_NOBODY = -2,
    FRAME_GAP_BYTES = 24, /* preamble, checksum and gap: they take time on a wire, too */
};

struct frame_shape {
    uint32_t segments;    /* 1: not GSO */
    size_t header_bytes;  /* of each segment, from the Ethernet header on; GSO only */
    size_t segment_bytes; /* of payload; GSO only */
    size_t ip_at, tcp_at; /* behind the virtio header; GSO only */
    bool is_v6;
};

/* The hardware address of the far end of port k ends with k: 02:00:00:00:00:k. */
int frame_destination(const uint8_t *frame, size_t length);
/* false: it is no frame, or one of which a part cannot be made. */
bool frame_look(const uint8_t *frame, size_t length, struct frame_shape *shape);
/* Returns the wire time of the frame, in bytes. */
double frame_wire_bytes(size_t length, const struct frame_shape *shape);
/* Writes the segments first <= i < end to `part` as a separate frame. Returns its length. */
size_t frame_part(const uint8_t *frame, size_t length, const struct frame_shape *shape, uint32_t first, uint32_t end,
                  uint8_t *part, struct frame_shape *part_shape);

#endif
