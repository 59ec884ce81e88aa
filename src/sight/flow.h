/*
 * Telemetry of a flow: counters and times of the messages between one operation and one neighbor in one direction. One
 * thread writes it while the operation runs, and any thread may read it at the same time: related numbers may then
 * differ by one message. Times are the driver's, in microseconds.
 *
 * Every message of the flow passes through three states: expected, once its stripe is open; begun, once a connection
 * has taken it or its first bytes have arrived; and moved.
 */
#ifndef PCCL_SIGHT_FLOW_H
#define PCCL_SIGHT_FLOW_H

#include "core/base.h"
#include "core/limits.h"

#include <stdatomic.h>

/* Most flows of one operation that are recorded: to and from all others with which a member may have links. */
enum { PCCL_SIGHT_FLOWS_MAX = 2 * (PCCL_HUB_PEERS_MAX - 1) };
#define PCCL_SIGHT_OUTGOING (UINT32_C(1) << 31)

#define PCCL_SIGHT_COUNTERS(X)                                                                                         \
    X(uint32_t, place)    /* 1 + the neighbor's rank in the ring, and PCCL_SIGHT_OUTGOING; 0: no such flow */          \
    X(uint32_t, expected) /* messages of the stripes that are open here */                                             \
    X(uint32_t, begun)                                                                                                 \
    X(uint32_t, moved)                                                                                                 \
    X(uint32_t, folded)        /* incoming: folded or stored */                                                        \
    X(uint64_t, bytes)         /* bytes of moved messages */                                                           \
    X(uint64_t, granted)       /* stripes below this are granted by the receiver */                                    \
    X(uint64_t, opened)        /* stripes below this are open here */                                                  \
    X(uint64_t, begun_stripes) /* outgoing: stripes below this have their first message begun */                       \
    X(uint64_t, granted_us)    /* time when the latest grant was received or sent; 0: none */                          \
    X(uint64_t, first_us)      /* time when the first message began; 0: none */                                        \
    X(uint64_t, last_us)       /* time when the latest message had moved */                                            \
    X(uint64_t, turned_us)     /* incoming: time since nothing has arrived; outgoing: since data is under way */       \
    X(uint64_t, stripes)       /* of the whole operation */                                                            \
    X(uint64_t, waited_us)     /* ended waits for the neighbor: for its data, or for room to send */

#define PCCL_SIGHT_ATOMIC(type, name) _Atomic(type) name;
#define PCCL_SIGHT_PLAIN(type, name) type name;
struct pccl_sight_flow {
    PCCL_SIGHT_COUNTERS(PCCL_SIGHT_ATOMIC)
};
struct pccl_sight_counters {
    PCCL_SIGHT_COUNTERS(PCCL_SIGHT_PLAIN)
};

/* ---- for the writing thread: these compile to plain loads and stores ---- */

#define PCCL_SIGHT_GET(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define PCCL_SIGHT_SET(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)
#define PCCL_SIGHT_ADD(field, value) PCCL_SIGHT_SET(field, PCCL_SIGHT_GET(field) + (value))

static inline bool pccl_sight_is_outgoing(const struct pccl_sight_flow *flow)
{
    return (PCCL_SIGHT_GET(flow->place) & PCCL_SIGHT_OUTGOING) != 0;
}

static inline void pccl_sight_open(struct pccl_sight_flow *flow, uint32_t rank, bool outgoing, uint64_t stripes)
{
    PCCL_SIGHT_SET(flow->stripes, stripes);
    PCCL_SIGHT_SET(flow->place, (rank + 1) | (outgoing ? PCCL_SIGHT_OUTGOING : 0));
}

/* Records that a stripe with `messages` messages of this flow was opened. */
static inline void pccl_sight_expect(struct pccl_sight_flow *flow, uint64_t stripe, uint32_t messages, uint64_t now_us)
{
    uint32_t expected = PCCL_SIGHT_GET(flow->expected);
    if (expected == PCCL_SIGHT_GET(flow->begun) && !pccl_sight_is_outgoing(flow))
        PCCL_SIGHT_SET(flow->turned_us, now_us);
    PCCL_SIGHT_SET(flow->expected, expected + messages);
    PCCL_SIGHT_SET(flow->opened, stripe + 1);
}

static inline void pccl_sight_grant(struct pccl_sight_flow *flow, uint64_t granted, uint64_t now_us)
{
    PCCL_SIGHT_SET(flow->granted, granted);
    PCCL_SIGHT_SET(flow->granted_us, now_us);
}

static inline void pccl_sight_begin_sending(struct pccl_sight_flow *flow, uint64_t now_us)
{
    uint32_t begun = PCCL_SIGHT_GET(flow->begun);
    if (begun == PCCL_SIGHT_GET(flow->moved)) {
        PCCL_SIGHT_SET(flow->turned_us, now_us);
        if (begun == 0)
            PCCL_SIGHT_SET(flow->first_us, now_us);
    }
    PCCL_SIGHT_SET(flow->begun, begun + 1);
}

static inline void pccl_sight_sent(struct pccl_sight_flow *flow, uint32_t bytes, uint64_t now_us)
{
    uint32_t moved = PCCL_SIGHT_GET(flow->moved) + 1;
    PCCL_SIGHT_SET(flow->moved, moved);
    PCCL_SIGHT_ADD(flow->bytes, bytes);
    PCCL_SIGHT_SET(flow->last_us, now_us);
    if (moved == PCCL_SIGHT_GET(flow->begun))
        PCCL_SIGHT_ADD(flow->waited_us, now_us - PCCL_SIGHT_GET(flow->turned_us));
}

static inline void pccl_sight_begin_receiving(struct pccl_sight_flow *flow, uint64_t now_us)
{
    uint32_t begun = PCCL_SIGHT_GET(flow->begun);
    if (begun == PCCL_SIGHT_GET(flow->moved)) {
        PCCL_SIGHT_ADD(flow->waited_us, now_us - PCCL_SIGHT_GET(flow->turned_us));
        if (begun == 0)
            PCCL_SIGHT_SET(flow->first_us, now_us);
    }
    PCCL_SIGHT_SET(flow->begun, begun + 1);
}

static inline void pccl_sight_received(struct pccl_sight_flow *flow, uint32_t bytes, uint64_t now_us)
{
    PCCL_SIGHT_ADD(flow->moved, 1);
    PCCL_SIGHT_ADD(flow->bytes, bytes);
    PCCL_SIGHT_SET(flow->last_us, now_us);
    PCCL_SIGHT_SET(flow->turned_us, now_us);
}

/* ---- for readers ---- */

static inline struct pccl_sight_counters pccl_sight_read(const struct pccl_sight_flow *flow)
{
#define PCCL_SIGHT_READ(type, name) .name = PCCL_SIGHT_GET(flow->name),
    return (struct pccl_sight_counters){PCCL_SIGHT_COUNTERS(PCCL_SIGHT_READ)};
#undef PCCL_SIGHT_READ
}

#endif
