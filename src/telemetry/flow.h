/*
 * Telemetry of a flow: counters and times of the messages between one operation and one neighbor in one direction. One
 * thread writes it while the operation runs, and any thread may read it at the same time, so related numbers may differ
 * by one message. Times are read from the driver's clock, in microseconds.
 *
 * Every message of the flow passes through three states: expected, once its stripe is open; begun, once a connection
 * has accepted it or its first bytes have arrived; and moved.
 */
#ifndef PCCL_TELEMETRY_FLOW_H
#define PCCL_TELEMETRY_FLOW_H

#include "core/base.h"
#include "core/limits.h"

#include <stdatomic.h>

/*
 * Maximum number of recorded flows of one operation: to and from all other members with which a member may have links.
 */
enum { PCCL_TELEMETRY_FLOWS_MAX = 2 * (PCCL_HUB_PEERS_MAX - 1) };
#define PCCL_TELEMETRY_OUTGOING (UINT32_C(1) << 31)

#define PCCL_TELEMETRY_COUNTERS(X)                                                                                     \
    X(uint32_t, place)    /* 1 + the neighbor's place in the ring, with PCCL_TELEMETRY_OUTGOING; 0: unused */          \
    X(uint32_t, expected) /* number of messages in stripes that are open here */                                       \
    X(uint32_t, begun)                                                                                                 \
    X(uint32_t, moved)                                                                                                 \
    X(uint32_t, folded)        /* incoming: number of messages folded or stored */                                     \
    X(uint64_t, bytes)         /* bytes of moved messages */                                                           \
    X(uint64_t, granted)       /* number of stripes that the receiver has granted */                                   \
    X(uint64_t, opened)        /* number of stripes that were opened here */                                           \
    X(uint64_t, begun_stripes) /* outgoing: number of stripes whose first message has begun */                         \
    X(uint64_t, granted_us)    /* time of the latest grant, received or sent; 0: none */                               \
    X(uint64_t, first_us)      /* time at which the first message began; 0: none */                                    \
    X(uint64_t, last_us)       /* time at which the latest message had moved */                                        \
    X(uint64_t, turned_us)     /* time since which nothing has arrived (incoming) or data is in flight (outgoing) */   \
    X(uint64_t, stripes)       /* number of stripes of the whole operation */                                          \
    X(uint64_t, waited_us)     /* total time of ended waits for the neighbor: for its data, or for room to send */

#define PCCL_TELEMETRY_ATOMIC(type, name) _Atomic(type) name;
#define PCCL_TELEMETRY_PLAIN(type, name) type name;
struct pccl_telemetry_flow {
    PCCL_TELEMETRY_COUNTERS(PCCL_TELEMETRY_ATOMIC)
};
struct pccl_telemetry_counters {
    PCCL_TELEMETRY_COUNTERS(PCCL_TELEMETRY_PLAIN)
};

/* ---- for the writing thread: these compile to plain loads and stores ---- */

#define PCCL_TELEMETRY_GET(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define PCCL_TELEMETRY_SET(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)
#define PCCL_TELEMETRY_ADD(field, value) PCCL_TELEMETRY_SET(field, PCCL_TELEMETRY_GET(field) + (value))

static inline bool pccl_telemetry_is_outgoing(const struct pccl_telemetry_flow *flow)
{
    return (PCCL_TELEMETRY_GET(flow->place) & PCCL_TELEMETRY_OUTGOING) != 0;
}

static inline void pccl_telemetry_open(struct pccl_telemetry_flow *flow, uint32_t rank, bool outgoing, uint64_t stripes)
{
    PCCL_TELEMETRY_SET(flow->stripes, stripes);
    PCCL_TELEMETRY_SET(flow->place, (rank + 1) | (outgoing ? PCCL_TELEMETRY_OUTGOING : 0));
}

/* Records that a stripe with `messages` messages of this flow was opened. */
static inline void pccl_telemetry_expect(struct pccl_telemetry_flow *flow, uint64_t stripe, uint32_t messages,
                                         uint64_t now_us)
{
    uint32_t expected = PCCL_TELEMETRY_GET(flow->expected);
    if (expected == PCCL_TELEMETRY_GET(flow->begun) && !pccl_telemetry_is_outgoing(flow))
        PCCL_TELEMETRY_SET(flow->turned_us, now_us);
    PCCL_TELEMETRY_SET(flow->expected, expected + messages);
    PCCL_TELEMETRY_SET(flow->opened, stripe + 1);
}

static inline void pccl_telemetry_grant(struct pccl_telemetry_flow *flow, uint64_t granted, uint64_t now_us)
{
    PCCL_TELEMETRY_SET(flow->granted, granted);
    PCCL_TELEMETRY_SET(flow->granted_us, now_us);
}

static inline void pccl_telemetry_begin_sending(struct pccl_telemetry_flow *flow, uint64_t now_us)
{
    uint32_t begun = PCCL_TELEMETRY_GET(flow->begun);
    if (begun == PCCL_TELEMETRY_GET(flow->moved)) {
        PCCL_TELEMETRY_SET(flow->turned_us, now_us);
        if (begun == 0)
            PCCL_TELEMETRY_SET(flow->first_us, now_us);
    }
    PCCL_TELEMETRY_SET(flow->begun, begun + 1);
}

static inline void pccl_telemetry_sent(struct pccl_telemetry_flow *flow, uint32_t bytes, uint64_t now_us)
{
    uint32_t moved = PCCL_TELEMETRY_GET(flow->moved) + 1;
    PCCL_TELEMETRY_SET(flow->moved, moved);
    PCCL_TELEMETRY_ADD(flow->bytes, bytes);
    PCCL_TELEMETRY_SET(flow->last_us, now_us);
    if (moved == PCCL_TELEMETRY_GET(flow->begun))
        PCCL_TELEMETRY_ADD(flow->waited_us, now_us - PCCL_TELEMETRY_GET(flow->turned_us));
}

static inline void pccl_telemetry_begin_receiving(struct pccl_telemetry_flow *flow, uint64_t now_us)
{
    uint32_t begun = PCCL_TELEMETRY_GET(flow->begun);
    if (begun == PCCL_TELEMETRY_GET(flow->moved)) {
        PCCL_TELEMETRY_ADD(flow->waited_us, now_us - PCCL_TELEMETRY_GET(flow->turned_us));
        if (begun == 0)
            PCCL_TELEMETRY_SET(flow->first_us, now_us);
    }
    PCCL_TELEMETRY_SET(flow->begun, begun + 1);
}

static inline void pccl_telemetry_received(struct pccl_telemetry_flow *flow, uint32_t bytes, uint64_t now_us)
{
    PCCL_TELEMETRY_ADD(flow->moved, 1);
    PCCL_TELEMETRY_ADD(flow->bytes, bytes);
    PCCL_TELEMETRY_SET(flow->last_us, now_us);
    PCCL_TELEMETRY_SET(flow->turned_us, now_us);
}

/* ---- for readers ---- */

static inline struct pccl_telemetry_counters pccl_telemetry_read(const struct pccl_telemetry_flow *flow)
{
#define PCCL_TELEMETRY_READ(type, name) .name = PCCL_TELEMETRY_GET(flow->name),
    return (struct pccl_telemetry_counters){PCCL_TELEMETRY_COUNTERS(PCCL_TELEMETRY_READ)};
#undef PCCL_TELEMETRY_READ
}

#endif
