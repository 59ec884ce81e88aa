/*
 * Carries out the tests of one topology optimization at one peer: it loads the paths to the peers that it is
 * told to test, and answers those who test their paths to it. It lives as long as the call, and its
 * event loop runs on the caller's thread, so that the control thread can go on with its heartbeats.
 *
 * Knows nothing of the peer's machine and its locks, nor of rings: the driver passes in orders and
 * takes results.
 *
 * Any thread may pass in what happens meanwhile (orders, connections, the end), which is recorded
 * and wakes the loop. Everything else belongs to the caller's thread.
 */
#ifndef PCCL_MEASURE_MEASURER_H
#define PCCL_MEASURE_MEASURER_H

#include "core/address.h"
#include "core/id.h"
#include "core/limits.h"
#include "core/log.h"
#include "core/status.h"
#include "core/text.h"
#include "net/channel.h"
#include "net/local.h"

struct pccl_measurer;

/* The order to measure the path to a peer. */
struct pccl_measure_order {
    uint64_t test;
    struct pccl_id peer, ticket;
    uint32_t limit_ms; /* from the first byte of load, at most PCCL_MEASURE_MS_MAX; dialing has dial_ms in addition */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
};

struct pccl_measure_result {
    uint64_t test;
    bool failed;
    uint8_t how; /* if failed: enum pccl_link_end, or 0 if the path is not the cause (no memory; the peer declines or
                    lies) */
    uint32_t rtt_us;
    uint64_t rate; /* bytes per second */
};

struct pccl_measure_events {
    void *context;
    /*
     * On the caller's thread, without a lock. Once for each order, unless a later one replaced it.
     */
    void (*measured)(void *context, const struct pccl_measure_result *result);
    struct pccl_log_sink log; /* on the same thread; with a context of its own */
    /*
     * An invariant broke in `run`, perhaps in the middle of another event: nothing may be passed in
     * any more.
     */
    void (*broken)(void *context);
};

struct pccl_measure_config {
    struct pccl_id self, lineage;
    const struct pccl_keys *keys;         /* NULL: connections are in the clear */
    const struct pccl_local *local;       /* for peers on this host; NULL: TCP only */
    uint32_t streams_long, streams_short; /* connections of a test over a long path, over a short one */
    uint32_t dial_ms;                     /* limit for the first connection and its round trip */
    uint32_t stagger_ms;                  /* between the addresses of a peer */
};

/* MEMORY or SYSTEM with a reason: nothing is left to be freed. */
PCCL_MUST_CHECK enum pccl_status pccl_measurer_create(const struct pccl_measure_config *config,
                                                      const struct pccl_measure_events *events,
                                                      struct pccl_measurer **measurer, struct pccl_text *reason);

/* ---- any thread ---- */

/* Orders a test. It replaces the one in progress, if any, which is then not reported. */
void pccl_measurer_order(struct pccl_measurer *measurer, const struct pccl_measure_order *order);
/*
 * Passes the measurer a link of kind MEASURE after its handshake. MEMORY, LIMIT, USAGE (the measurer
 * has ended): the link is still the caller's. Of each peer, only the latest PCCL_POOL_MAX links are
 * kept.
 */
PCCL_MUST_CHECK enum pccl_status pccl_measurer_accept(struct pccl_measurer *measurer, const struct pccl_id *peer,
                                                      struct pccl_handover *handover);
/* Makes `run` return. */
void pccl_measurer_end(struct pccl_measurer *measurer);

/* ---- the caller's thread ---- */

/* Whether `run` has something to do: an order or a connection has arrived. */
bool pccl_measurer_is_needed(struct pccl_measurer *measurer);
/* Tests and answers until pccl_measurer_end. */
void pccl_measurer_run(struct pccl_measurer *measurer);
/* Closes connections and frees everything. */
void pccl_measurer_destroy(struct pccl_measurer *measurer);

#endif
