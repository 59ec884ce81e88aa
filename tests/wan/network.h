/*
 * The network between the ports. A frame from port s to port d passes
 *
 *   the uplink of s, the uplink of its site, the pair (s, d), the delay of (s, d), the downlink of
 *   the site of d, the downlink of d
 *
 * The ports of a site share its uplink and its downlink; a frame within a site passes neither. Ports
 * are in site 0 at first, whose lines have no limit.
 *
 * Uplinks, pair and downlinks each have a rate and a queue, which drops packets that do not fit. Bits
 * flow through: a later stage adds time only if it is slower than an earlier one. Loss, duplicates
 * and late segments are drawn for each segment when it enters, so lost segments take no time on the
 * uplink. A copy begins behind its original at the pair: it takes time there and on the downlinks,
 * not on the uplinks. A late segment waits for longer than the delay of the pair, and segments behind
 * it pass it there. Broadcast frames (neighbor discovery) are never lost, copied or late by chance.
 * A cut drops frames that enter after it; frames in flight arrive. Everything can be changed while
 * frames are in flight. Frames of a pair keep their order through all changes, except late segments
 * and their copies. Uses no sockets and no clock: the caller passes the time and takes the frames.
 */
#ifndef PCCL_TESTS_WAN_NETWORK_H
#define PCCL_TESTS_WAN_NETWORK_H

#include "frame.h"

struct packet {
    struct packet *next;
    int from, to;
    int64_t first_ns, last_ns; /* when its first and last bit left the stage before */
    double wire_bytes;
    bool is_doubled; /* a copy is made where the pair begins */
    bool is_late;
    size_t length;
    uint8_t bytes[];
};

struct stage {
    struct packet *head, *tail;
    double waiting_bytes;
    double rate_bps; /* 0: unlimited */
    int64_t free_ns; /* the last bit of the packet before left then */
    int64_t end_ns;  /* the last bit of the first packet leaves then; 0: not begun */
};

struct pair {
    struct stage stage;
    struct packet *head, *tail; /* in flight, until last_ns */
    struct packet *late;        /* likewise, by last_ns; all others pass them */
    int64_t delay_ns, late_ns;  /* late_ns: of late segments, beyond the delay */
    double loss, doubled_share, late_share;
    bool cut;
    uint64_t lost, cut_off, doubled, held_back; /* segments */
};

enum { NETWORK_SITES_MAX = 8 };

struct site {
    struct stage up, down;
};

struct port {
    struct stage up, down;
    int site;
    uint64_t in, out, refused; /* frames */
    uint64_t dropped;          /* sent packets that did not fit into the queue of an uplink or a pair */
    uint64_t dropped_in;       /* packets to this port that did not fit into the queue of a downlink */
    double sent_bytes;         /* on its uplink */
};

struct network {
    int ports;
    double queue_bytes;
    uint64_t random;
    struct port port[FRAME_PORTS_MAX];
    struct site site[1 + NETWORK_SITES_MAX];            /* [0]: the ports without a site */
    struct pair pair[FRAME_PORTS_MAX][FRAME_PORTS_MAX]; /* [sender][receiver] */
};

/* A frame has come in at a port. */
void network_enter(struct network *network, int from, const uint8_t *frame, size_t length, int64_t now_ns);
/*
 * Moves all packets on; calls `deliver` for arriving frames (false: it was not taken). Returns the time of the next
 * call.
 */
int64_t network_run(struct network *network, int64_t now_ns, bool (*deliver)(int port, const struct packet *packet));
/* Also for the rest of the packet that is passing through. 0: unlimited. */
void network_set_rate(struct stage *stage, double rate_bps, int64_t now_ns);

#endif
