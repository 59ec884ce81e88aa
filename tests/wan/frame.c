/* Reads the sizes of a frame, cuts it into segments, and completes checksums. */
#include "frame.h"

#include <linux/virtio_net.h>
#include <string.h>

enum {
    VIRTIO_BYTES = sizeof(struct virtio_net_hdr),
    ETHERNET_BYTES = 14,
    IPV4_BYTES = 20,
    IPV6_BYTES = 40,
    TCP_BYTES = 20,
    TCP_PROTOCOL = 6,
    TCP_CHECKSUM_AT = 16,
    TCP_FLAGS_AT = 13,
    TCP_FIN = 1,
    TCP_PUSH = 8,
    TCP_CWR = 0x80,
};

static uint32_t get_16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

static void put_16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static uint32_t get_32(const uint8_t *at) { return get_16(at) << 16 | get_16(at + 2); }

static void put_32(uint8_t *at, uint32_t value)
{
    put_16(at, value >> 16);
    put_16(at + 2, value & 0xffff);
}

/* The internet checksum, not complemented. An even number of bytes. */
static uint32_t sum_16(const uint8_t *bytes, size_t length, uint32_t sum)
{
    for (size_t i = 0; i < length; i += 2)
        sum += get_16(bytes + i);
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

int frame_destination(const uint8_t *frame, size_t length)
{
    static const uint8_t ours[5] = {2};
    const uint8_t *ethernet = frame + VIRTIO_BYTES;
    if (length < VIRTIO_BYTES + ETHERNET_BYTES)
        return FRAME_NOBODY;
    if (ethernet[0] & 1)
        return FRAME_EVERYBODY;
    return memcmp(ethernet, ours, sizeof ours) == 0 && ethernet[5] < FRAME_PORTS_MAX ? ethernet[5] : FRAME_NOBODY;
}

bool frame_look(const uint8_t *frame, size_t length, struct frame_shape *shape)
{
    struct virtio_net_hdr virtio;
    *shape = (struct frame_shape){.segments = 1};
    if (length < VIRTIO_BYTES + ETHERNET_BYTES)
        return false;
    memcpy(&virtio, frame, sizeof virtio);
    uint32_t kind = virtio.gso_type & ~(uint32_t)VIRTIO_NET_HDR_GSO_ECN;
    if ((kind != VIRTIO_NET_HDR_GSO_TCPV4 && kind != VIRTIO_NET_HDR_GSO_TCPV6) || virtio.gso_size == 0)
        return true;
    shape->is_v6 = kind == VIRTIO_NET_HDR_GSO_TCPV6;
    shape->ip_at = VIRTIO_BYTES + ETHERNET_BYTES;
    shape->tcp_at = VIRTIO_BYTES + (size_t)virtio.csum_start; /* independent of options in between */
    shape->segment_bytes = virtio.gso_size;
    if (!(virtio.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || virtio.csum_offset != TCP_CHECKSUM_AT ||
        shape->tcp_at < shape->ip_at + (shape->is_v6 ? IPV6_BYTES : IPV4_BYTES) || shape->tcp_at + TCP_BYTES > length)
        return false;
    size_t payload_at = shape->tcp_at + (size_t)(frame[shape->tcp_at + 12] >> 4) * 4;
    if (payload_at < shape->tcp_at + TCP_BYTES || payload_at >= length)
        return false;
    shape->header_bytes = payload_at - VIRTIO_BYTES;
    shape->segments = (uint32_t)((length - payload_at + shape->segment_bytes - 1) / shape->segment_bytes);
    return true;
}

double frame_wire_bytes(size_t length, const struct frame_shape *shape)
{
    double more = shape->segments - 1; /* each has headers */
    return (double)(length - VIRTIO_BYTES) + more * (double)shape->header_bytes +
           (double)shape->segments * FRAME_GAP_BYTES;
}

/* Length, number and checksum of the IP header. */
static void finish_ip(uint8_t *part, const struct frame_shape *shape, size_t ip_bytes, uint32_t first)
{
    uint8_t *ip = part + shape->ip_at;
    size_t header_bytes = shape->tcp_at - shape->ip_at;
    if (shape->is_v6) {
        put_16(ip + 4, (uint32_t)(ip_bytes - IPV6_BYTES));
        return;
    }
    put_16(ip + 2, (uint32_t)ip_bytes);
    put_16(ip + 4, get_16(ip + 4) + first);
    put_16(ip + 10, 0);
    put_16(ip + 10, ~sum_16(ip, header_bytes, 0));
}

/*
 * Prepares the checksum: stores the sum over the pseudo header, to which the receiver of the frame adds the sum over
 * the segment.
 */
static void finish_tcp(uint8_t *part, const struct frame_shape *shape, size_t tcp_bytes, uint32_t first, bool is_last)
{
    const uint8_t *ip = part + shape->ip_at;
    uint8_t *tcp = part + shape->tcp_at;
    uint32_t sum = shape->is_v6 ? sum_16(ip + 8, 32, 0) : sum_16(ip + 12, 8, 0);
    uint8_t lengths[4];
    put_32(lengths, (uint32_t)tcp_bytes);
    put_16(tcp + TCP_CHECKSUM_AT, sum_16(lengths, sizeof lengths, sum + TCP_PROTOCOL));
    put_32(tcp + 4, get_32(tcp + 4) + first * (uint32_t)shape->segment_bytes);
    if (!is_last)
        tcp[TCP_FLAGS_AT] &= (uint8_t) ~(TCP_FIN | TCP_PUSH);
    if (first > 0)
        tcp[TCP_FLAGS_AT] &= (uint8_t)~TCP_CWR;
}

size_t frame_part(const uint8_t *frame, size_t length, const struct frame_shape *shape, uint32_t first, uint32_t end,
                  uint8_t *part, struct frame_shape *part_shape)
{
    size_t head = VIRTIO_BYTES + shape->header_bytes;
    size_t from = first * shape->segment_bytes, to = end * shape->segment_bytes;
    if (to > length - head)
        to = length - head;
    memcpy(part, frame, head);
    memcpy(part + head, frame + head + from, to - from);
    finish_ip(part, shape, head - shape->ip_at + to - from, first);
    finish_tcp(part, shape, head - shape->tcp_at + to - from, first, end == shape->segments);
    *part_shape = *shape;
    part_shape->segments = end - first;
    if (end - first == 1) {
        struct virtio_net_hdr virtio;
        memcpy(&virtio, part, sizeof virtio);
        virtio.gso_type = VIRTIO_NET_HDR_GSO_NONE;
        virtio.gso_size = 0;
        memcpy(part, &virtio, sizeof virtio);
    }
    return head + to - from;
}
