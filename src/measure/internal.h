/*
 * Internals of a measurer. A connection has one of two roles: the answerer's, if another peer dialed
 * and loads it, or the tester's, if we dialed and load it.
 *
 * Everything here belongs to the caller's thread, except where a comment says "lock" or "any
 * thread".
 */
#ifndef PCCL_MEASURE_INTERNAL_H
#define PCCL_MEASURE_INTERNAL_H

#include "core/list.h"
#include "measure/measurer.h"
#include "net/channel.h"
#include "net/dialer.h"
#include "net/reactor.h"
#include "topology/meter.h"
#include "wire/frame.h"

enum {
    PCCL_MEASURE_ECHOES = 3,      /* measurements of the idle path's round trip */
    PCCL_MEASURE_JOIN_RTTS = 4,   /* the other connections may delay the load by so many round trips */
    PCCL_MEASURE_JOIN_US = 20000, /* plus this time */
    PCCL_MEASURE_JOIN_MAX_US = 1000000,
    PCCL_MEASURE_WINDOWS_LEAST = 4, /* windows of the meter that give a figure even if the path breaks then */
    /* Each way in one visit, bounded so that one connection does not hold up the others. */
    PCCL_MEASURE_VISIT_BYTES = 512 << 10,
    PCCL_MEASURE_SINK_BYTES = PCCL_FLOOD_BYTES_MAX,
    PCCL_MEASURE_SEEN_BYTES = 256 << 10, /* the answerer reports what it has seen after so many bytes */
    PCCL_MEASURE_SEEN_US = 2000,         /* or this time, whichever comes first */
    PCCL_MEASURE_ANSWERED_MAX = 4096,    /* connections of others, including those that wait for `run` */
    /* A flood begins with the frame's header and the length of the filler. */
    PCCL_MEASURE_FLOOD_HEAD = PCCL_FRAME_HEADER_BYTES + 4,
    PCCL_MEASURE_FLOOD_BYTES = PCCL_MEASURE_FLOOD_HEAD + PCCL_FLOOD_BYTES_MAX,
    PCCL_MEASURE_OUT_BYTES = 256, /* small messages that the kernel has not taken */
};

/* ---- link.c: one connection ---- */

struct pccl_measure_link;

struct pccl_measure_role {
    bool takes_filler;
    bool loads; /* bytes in flight do not matter when the connection ends */
    /*
     * A message other than a flood. false, with a reason: it is not allowed here; the connection
     * has ended.
     */
    bool (*message)(struct pccl_measure_link *link, const struct pccl_msg *msg, struct pccl_text *reason);
    /* All input is processed: sends what is to be sent now. */
    void (*speak)(struct pccl_measure_link *link);
    /* The connection has ended and is closed. how: 0 if the path is not the cause. */
    void (*ended)(struct pccl_measure_link *link, enum pccl_link_end how, const struct pccl_text *reason);
    /* The visit has ended; may be NULL. */
    void (*visited)(struct pccl_measurer *measurer);
};

struct pccl_measure_link {
    struct pccl_channel channel;
    struct pccl_measurer *measurer;
    const struct pccl_measure_role *role;
    size_t bytes; /* of the whole allocation */
    struct pccl_id peer;
    struct pccl_list_node in_measurer;       /* in the measurer's links, once the link is open */
    struct pccl_measure_link *next_accepted; /* in the inbox */
    uint64_t filler;                         /* bytes of filler received so far */
};

static inline struct pccl_measure_link *pccl_measure_link_in(struct pccl_list_node *in_measurer)
{
    return PCCL_CONTAINER_OF(in_measurer, struct pccl_measure_link, in_measurer);
}

/*
 * Allocates a zeroed link with these members set, followed by the role's own: `bytes` in total.
 * NULL: out of memory; the socket is untouched. Any thread.
 */
void *pccl_measure_link_allocate(struct pccl_measurer *measurer, const struct pccl_measure_role *role, size_t bytes,
                                 const struct pccl_id *peer, uv_os_sock_t socket);
/* The socket is the link's from now on. false: it is closed, and the link is freed. */
PCCL_MUST_CHECK bool pccl_measure_link_open(struct pccl_measure_link *link);
/*
 * No visits follow; the loop frees the memory later. Once; the link must not be touched afterward.
 */
void pccl_measure_link_close(struct pccl_measure_link *link);
/* For a link that was never opened; the socket is untouched. */
void pccl_measure_link_free(struct pccl_measure_link *link);
/* Calls `speak` outside of a visit. */
void pccl_measure_link_start(struct pccl_measure_link *link);

/* ---- answering.c: connections of testers, which dialed us ---- */

/* NULL: out of memory; the socket is untouched. Any thread. */
struct pccl_measure_link *pccl_measure_answerer_create(struct pccl_measurer *measurer, const struct pccl_id *peer,
                                                       uv_os_sock_t socket);
/* The loop takes the link. */
void pccl_measure_answerer_open(struct pccl_measure_link *link);

/* ---- testing.c: the test in progress ---- */

struct pccl_measure_tester;

/* One connection of a test, or the attempt to open it. */
struct pccl_measure_slot {
    struct pccl_measurer *measurer;
    struct pccl_dialer *dialer;
    struct pccl_measure_tester *tester;
};

enum pccl_measure_stage {
    PCCL_MEASURE_IDLE,     /* no test is in progress */
    PCCL_MEASURE_REACHING, /* the first connection, and its echoes */
    PCCL_MEASURE_JOINING,  /* the other connections */
    PCCL_MEASURE_LOADING,
};

struct pccl_measure_test {
    enum pccl_measure_stage stage;
    struct pccl_measure_order order;
    uint64_t due_us; /* the end of this stage */
    bool is_due;
    struct pccl_measure_slot slots[PCCL_POOL_MAX];
    uint32_t streams;
    struct pccl_address address; /* the one at which the peer answers */
    bool declined;               /* the intended peer has refused */
    bool failed;                 /* before there was a figure, or because the peer lied */
    enum pccl_link_end how;      /* how the last connection ended */
    uint32_t rtt_us;             /* UINT32_MAX: not known yet */
    uint32_t echoes;             /* answered ones */
    uint64_t gone_bytes;         /* bytes that ended connections had seen */
    uint64_t noted_bytes;        /* bytes that the meter knows of */
    struct pccl_meter meter;
};

/* Replaces the test in progress, which is not reported. */
void pccl_measure_test_begin(struct pccl_measurer *measurer, const struct pccl_measure_order *order);
/* The timer has fired. */
void pccl_measure_test_tick(struct pccl_measurer *measurer);
/* Ends the test in progress, if any, without a report. */
void pccl_measure_test_stop(struct pccl_measurer *measurer);

/* ---- measurer.c ---- */

struct pccl_measure_inbox {
    bool ordered, end;
    struct pccl_measure_order order;                    /* the latest order */
    struct pccl_measure_link *accepted, **accepted_end; /* by next_accepted */
};

struct pccl_measurer {
    /* constant */
    struct pccl_measure_config config;
    struct pccl_measure_events events;
    uint8_t *flood; /* a whole frame, PCCL_MEASURE_FLOOD_BYTES */

    uv_mutex_t lock; /* nothing is called while it is held */
    struct pccl_measure_inbox inbox;
    uint32_t answered; /* the number of connections of others */

    struct pccl_reactor reactor; /* its timer is the test's */
    struct pccl_wire_scratch *scratch;
    uint8_t *sink;               /* filler is read into it */
    bool ended;                  /* as far as the loop has heard */
    bool broken;                 /* an invariant broke: nothing is used or freed any more */
    struct pccl_list_node links; /* link->in_measurer, the newest last */
    struct pccl_measure_test test;
};

#endif
