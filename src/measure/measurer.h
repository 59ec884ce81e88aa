/*
 * A worker (net/worker.h) that executes the tests of one topology optimization at one peer: it loads the paths to the
 * peers in its orders, and answers peers that test their paths to it. Runs on the caller's thread, so that the control
 * thread can continue to send heartbeats. The driver passes in orders and receives results.
 */
#ifndef PCCL_MEASURE_MEASURER_H
#define PCCL_MEASURE_MEASURER_H

#include "net/worker.h"

/* A request from the master to measure the path to one peer. */
struct pccl_measure_order {
    uint64_t test;
    struct pccl_id peer, ticket;
    /*
     * time limit, counted from the first byte of load, at most PCCL_MEASURE_MS_MAX; dialing may take dial_ms in
     * addition
     */
    uint32_t limit_ms;
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    bool reversed; /* the other peer dials */
};

struct pccl_measure_result {
    uint64_t test;
    bool failed;
    /*
     * if failed: enum pccl_link_end, or 0 if the path is not the cause (no memory; or the peer declined or sent false
     * reports)
     */
    uint8_t how;
    uint32_t rtt_us;
    uint64_t rate; /* bytes per second */
};

struct pccl_measure_config {
    struct pccl_worker_config worker;
    uint32_t streams_long, streams_short; /* connections per test over a long path, over a short path */
    uint32_t dial_ms;                     /* limit for the first connection and its round trip */
    /* Reports the result once per order, unless a later order replaced it. */
    void (*measured)(void *context, const struct pccl_measure_result *result);
};

/*
 * Creates a measurer. Returns MEMORY or SYSTEM with a reason, with nothing to free. Keeps only the latest PCCL_POOL_MAX
 * links per peer.
 */
PCCL_MUST_CHECK enum pccl_status pccl_measurer_create(const struct pccl_measure_config *config,
                                                      struct pccl_worker **worker, struct pccl_text *reason);
/*
 * Orders a test from a worker made by pccl_measurer_create. Replaces the test in progress, if any, which is then not
 * reported. May be called on any thread.
 */
void pccl_measurer_order(struct pccl_worker *worker, const struct pccl_measure_order *order);

#endif
