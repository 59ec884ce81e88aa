/*
 * Internals of a measurer. A link has one of two roles: the answerer's, if another peer dialed and loads it, or the
 * tester's, if we dialed and load it. Everything here belongs to the caller's thread.
 */
#ifndef PCCL_MEASURE_INTERNAL_H
#define PCCL_MEASURE_INTERNAL_H

#include "measure/measurer.h"
#include "topology/meter.h"

enum {
    PCCL_MEASURE_ECHOES = 3,      /* measurements of the idle path's round trip */
    PCCL_MEASURE_JOIN_RTTS = 4,   /* round trips by which the other connections may delay the load */
    PCCL_MEASURE_JOIN_US = 20000, /* plus this time */
    PCCL_MEASURE_JOIN_MAX_US = 1000000,
    PCCL_MEASURE_WINDOWS_LEAST = 4, /* windows of the meter that give a figure even if the path breaks then */
    /* Limit for each direction in one visit, so that one connection does not delay the others. */
    PCCL_MEASURE_VISIT_BYTES = 512 << 10,
    PCCL_MEASURE_SEEN_BYTES = 256 << 10, /* bytes after which the answerer sends flood_seen */
    PCCL_MEASURE_SEEN_US = 2000,         /* ... or the time, whichever is first */
    /* A flood begins with the frame's header and the length of the filler. */
    PCCL_MEASURE_FLOOD_HEAD = PCCL_FRAME_HEADER_BYTES + 4,
    PCCL_MEASURE_FLOOD_BYTES = PCCL_MEASURE_FLOOD_HEAD + PCCL_FLOOD_BYTES_MAX,
    PCCL_MEASURE_OUT_BYTES = 256, /* limit of small messages that the kernel has not taken */
};

/* ---- answering.c: connections of testers, which dialed us ---- */

extern const struct pccl_worker_role pccl_measure_answering;

/* ---- testing.c: the test in progress ---- */

struct pccl_measurer;

enum pccl_measure_stage {
    PCCL_MEASURE_IDLE,     /* no test is in progress */
    PCCL_MEASURE_REACHING, /* dials the first connection, and awaits its echoes */
    PCCL_MEASURE_JOINING,  /* dials the other connections */
    PCCL_MEASURE_LOADING,
};

struct pccl_measure_test {
    enum pccl_measure_stage stage;
    struct pccl_measure_order order;
    uint64_t due_us; /* end of this stage */
    bool is_due;
    struct pccl_worker_line lines[PCCL_POOL_MAX];
    uint32_t streams;
    bool declined;          /* the intended peer has refused */
    bool failed;            /* before there was a figure, or the peer sent false reports */
    enum pccl_link_end how; /* end of the last connection */
    uint32_t rtt_us;        /* UINT32_MAX: unknown */
    uint32_t echoes;        /* number of answered echoes */
    uint64_t gone_bytes;    /* bytes seen over ended connections */
    uint64_t noted_bytes;   /* bytes that the meter has */
    struct pccl_meter meter;
};

/* Begins a test. Replaces the test in progress, which is not reported. */
void pccl_measure_test_begin(struct pccl_measurer *measurer, const struct pccl_measure_order *order);
/* Handles the timer. */
void pccl_measure_test_tick(struct pccl_measurer *measurer);
/* Ends the test in progress, if any, without a report. */
void pccl_measure_test_stop(struct pccl_measurer *measurer);

/* ---- measurer.c ---- */

struct pccl_measurer {
    struct pccl_worker worker;
    struct pccl_measure_config config;       /* constant */
    uint8_t flood[PCCL_MEASURE_FLOOD_BYTES]; /* a whole frame of load */
    bool ordered;                            /* under the worker's lock, as the next field */
    struct pccl_measure_order order;         /* the latest order */
    struct pccl_measure_test test;
};

static inline struct pccl_measurer *pccl_measurer_of(struct pccl_worker *worker)
{
    return PCCL_CONTAINER_OF(worker, struct pccl_measurer, worker);
}

#endif
