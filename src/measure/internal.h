/*
 * Inside a session. Connections have one of two roles: the answerer's, for one that another peer dialed and loads, and
 * the tester's, for one that we dialed and load.
 *
 * Everything here belongs to the caller's thread, except what says "lock" or "any thread".
 */
#ifndef PCCL_MEASURE_INTERNAL_H
#define PCCL_MEASURE_INTERNAL_H

#include "core/list.h"
#include "measure/session.h"
#include "net/channel.h"
#include "net/dialer.h"
#include "net/reactor.h"
#include "topology/meter.h"
#include "wire/frame.h"

enum {
    PCCL_MEASURE_ECHOES = 3,      /* for the round trip of the idle path */
    PCCL_MEASURE_JOIN_RTTS = 4,   /* how long the further connections may keep the load waiting, in round trips */
    PCCL_MEASURE_JOIN_US = 20000, /* and on top of them */
    PCCL_MEASURE_JOIN_MAX_US = 1000000,
    PCCL_MEASURE_WINDOWS_LEAST = 4, /* of the meter: so many are a figure even if the path breaks then */
    PCCL_MEASURE_VISIT_BYTES =
        512 << 10, /* each way in one visit, so that one connection does not hold up the others */
    PCCL_MEASURE_SINK_BYTES = PCCL_FLOOD_BYTES_MAX,
    PCCL_MEASURE_SEEN_BYTES = 256 << 10, /* the answerer says what it has seen after so many bytes, */
    PCCL_MEASURE_SEEN_US = 2000,         /* or so long, whatever comes first */
    PCCL_MEASURE_ANSWERED_MAX = 4096,    /* connections of others, those included that wait for `run` */
    /* A flood begins with the frame's header and the length of the filler. */
    PCCL_MEASURE_FLOOD_HEAD = PCCL_FRAME_HEADER_BYTES + 4,
    PCCL_MEASURE_FLOOD_BYTES = PCCL_MEASURE_FLOOD_HEAD + PCCL_FLOOD_BYTES_MAX,
    PCCL_MEASURE_OUT_BYTES = 256, /* of small messages that wait for the kernel */
};

/* ---- link.c: one connection ---- */

struct pccl_measure_link;

struct pccl_measure_role {
    bool takes_filler;
    bool loads; /* what it has sent and is still on its way when it ends is of no interest to anybody */
    /* A message that is no flood. false, with a reason: it has no place here, and the connection has ended. */
    bool (*message)(struct pccl_measure_link *link, const struct pccl_msg *msg, struct pccl_text *reason);
    /* What has come is taken: says what is to be said now. */
    void (*speak)(struct pccl_measure_link *link);
    /* It is over, and closed. how: 0 if the path is not to blame for it. */
    void (*ended)(struct pccl_measure_link *link, enum pccl_link_end how, const struct pccl_text *reason);
    /* The visit has ended; may be NULL. */
    void (*visited)(struct pccl_measure_session *session);
};

struct pccl_measure_link {
    struct pccl_channel channel; /* first */
    struct pccl_measure_session *session;
    const struct pccl_measure_role *role;
    size_t bytes; /* of the whole allocation */
    struct pccl_id peer;
    struct pccl_list_node in_session;        /* in the session's links, once it is open */
    struct pccl_measure_link *next_accepted; /* in the inbox */
    uint64_t filler;                         /* bytes that came of it, so far */
};

static inline struct pccl_measure_link *pccl_measure_link_in(struct pccl_list_node *in_session)
{
    return PCCL_CONTAINER_OF(in_session, struct pccl_measure_link, in_session);
}

/* Zeroed but for this. `bytes`: with what the role has behind it. NULL: out of memory, the socket is untouched. Any
 * thread. */
void *pccl_measure_link_allocate(struct pccl_measure_session *session, const struct pccl_measure_role *role,
                                 size_t bytes, const struct pccl_id *peer, uv_os_sock_t socket);
/* The socket is the link's from now on. false: it is closed, and the link is freed. */
PCCL_MUST_CHECK bool pccl_measure_link_open(struct pccl_measure_link *link);
/* No visits any more; the memory follows when the loop releases it. Once; then it is not to be touched. */
void pccl_measure_link_close(struct pccl_measure_link *link);
/* Of a link that was never opened; the socket is untouched. */
void pccl_measure_link_free(struct pccl_measure_link *link);
/* Speaks outside of a visit. */
void pccl_measure_link_start(struct pccl_measure_link *link);

/* ---- answering.c: to those that dialed us ---- */

/* NULL: out of memory; the socket is untouched. Any thread. */
struct pccl_measure_link *pccl_measure_answerer_create(struct pccl_measure_session *session, const struct pccl_id *peer,
                                                       uv_os_sock_t socket);
/* The loop takes it over. */
void pccl_measure_answerer_open(struct pccl_measure_link *link);

/* ---- testing.c: the test under way ---- */

struct pccl_measure_tester;

/* One connection of a test, or the attempt at it. */
struct pccl_measure_slot {
    struct pccl_measure_session *session;
    struct pccl_dialer *dialer;
    struct pccl_measure_tester *tester;
};

enum pccl_measure_stage {
    PCCL_MEASURE_IDLE,     /* there is no test */
    PCCL_MEASURE_REACHING, /* the first connection, and its echoes */
    PCCL_MEASURE_JOINING,  /* the further ones */
    PCCL_MEASURE_LOADING,
};

struct pccl_measure_test {
    enum pccl_measure_stage stage;
    struct pccl_measure_order order;
    uint64_t due_us; /* of this stage */
    bool is_due;
    struct pccl_measure_slot slots[PCCL_POOL_MAX];
    uint32_t streams;
    struct pccl_address address; /* where it answers */
    bool declined;               /* the peer that was meant has refused */
    bool failed;                 /* of a stage before there was a figure, or by a lie */
    enum pccl_link_end how;      /* of the connection that ended last */
    uint32_t rtt_us;             /* UINT32_MAX: not known yet */
    uint32_t echoes;             /* answered */
    uint64_t gone_bytes;         /* seen by connections that have ended */
    uint64_t noted_bytes;        /* what the meter knows of */
    struct pccl_meter meter;
};

/* Instead of the one under way, which is not reported. */
void pccl_measure_test_begin(struct pccl_measure_session *session, const struct pccl_measure_order *order);
/* The time has come that the timer was set for. */
void pccl_measure_test_tick(struct pccl_measure_session *session);
/* Without a report. */
void pccl_measure_test_stop(struct pccl_measure_session *session);

/* ---- session.c ---- */

struct pccl_measure_inbox {
    bool ordered, end;
    struct pccl_measure_order order;                    /* the latest */
    struct pccl_measure_link *accepted, **accepted_end; /* by next_accepted */
};

struct pccl_measure_session {
    /* constant */
    struct pccl_measure_config config;
    struct pccl_measure_events events;
    uint8_t *flood; /* a whole frame, PCCL_MEASURE_FLOOD_BYTES */

    uv_mutex_t lock; /* nothing is called under it */
    struct pccl_measure_inbox inbox;
    uint32_t answered; /* connections of others */

    struct pccl_reactor reactor; /* its time is that of the test */
    struct pccl_wire_scratch *scratch;
    uint8_t *sink;               /* filler passes through it */
    bool ended;                  /* as far as the loop has heard */
    bool broken;                 /* an invariant: nothing is used any more, or freed */
    struct pccl_list_node links; /* link->in_session, the newest last */
    struct pccl_measure_test test;
};

/* An answered connection has ended. */
void pccl_measure_answered_ended(struct pccl_measure_session *session);
PCCL_PRINTF(3, 4)
void pccl_measure_log(const struct pccl_measure_session *session, enum pccl_log_level level, const char *format, ...);

#endif
