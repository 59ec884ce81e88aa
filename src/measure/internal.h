/*
 * Internals of a measurer. A link has one of two roles: answerer, if another peer dialed and loads it, or tester, if
 * this peer dialed and loads it. Everything here belongs to the caller's thread.
 */
#ifndef PCCL_MEASURE_INTERNAL_H
#define PCCL_MEASURE_INTERNAL_H

#include "measure/measurer.h"
#include "topology/meter.h"

enum {
    PCCL_MEASURE_ECHOES = 3, /* number of echoes that measure the round trip of the idle path */
    /* the start of the load waits for the other connections for at most this many round trips */
    PCCL_MEASURE_JOIN_RTTS = 4,
    PCCL_MEASURE_JOIN_US = 20000, /* additional time, in microseconds */
    PCCL_MEASURE_JOIN_MAX_US = 1000000,
    /* minimum number of windows for which the meter's figure is valid even if the path breaks */
    PCCL_MEASURE_WINDOWS_LEAST = 4,
    /* Maximum number of bytes per visit and direction, so that one connection does not delay the others. */
    PCCL_MEASURE_VISIT_BYTES = 512 << 10,
    PCCL_MEASURE_SEEN_BYTES = 256 << 10, /* number of unreported bytes at which flood_seen is sent */
    /* time after the last flood_seen at which it is sent even for fewer bytes */
    PCCL_MEASURE_SEEN_US = 2000,
    /* Length of the head of a flood: the header of the frame and the length of the filler. */
    PCCL_MEASURE_FLOOD_HEAD = PCCL_FRAME_HEADER_BYTES + 4,
    PCCL_MEASURE_FLOOD_BYTES = PCCL_MEASURE_FLOOD_HEAD + PCCL_FLOOD_BYTES_MAX,
    PCCL_MEASURE_OUT_BYTES = 256, /* limit of unsent small messages, in bytes */
};

/* ---- answering.c: connections that testers dialed ---- */

extern const struct pccl_worker_role pccl_measure_answering;

/* ---- testing.c: the test in progress ---- */

struct pccl_measurer;

enum pccl_measure_stage {
    PCCL_MEASURE_IDLE,     /* no test is in progress */
    PCCL_MEASURE_REACHING, /* dials the first connection, and waits for its echoes */
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
    bool declined;          /* true if the tested peer has refused */
    bool failed;            /* true if it failed before there was a figure, or because the peer sent false reports */
    enum pccl_link_end how; /* how the last connection ended */
    uint32_t rtt_us;        /* UINT32_MAX if unknown */
    uint32_t echoes;        /* number of answered echoes */
    uint64_t gone_bytes;    /* bytes reported over connections that have ended */
    uint64_t noted_bytes;   /* bytes passed to the meter */
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
    struct pccl_measure_config config;       /* constant after creation */
    uint8_t flood[PCCL_MEASURE_FLOOD_BYTES]; /* a complete frame of load */
    bool ordered;                            /* protected by the worker's lock, as is `order` */
    struct pccl_measure_order order;         /* latest order */
    struct pccl_measure_test test;
};

static inline struct pccl_measurer *pccl_measurer_of(struct pccl_worker *worker)
{
    return PCCL_CONTAINER_OF(worker, struct pccl_measurer, worker);
}

#endif
