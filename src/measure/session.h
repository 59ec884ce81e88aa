/*
 * The tests of one optimization at one peer: it loads the paths to the peers that it is told of, and answers those who
 * test their paths to it. Lives as long as the call, on the caller's thread: its event loop runs there, so that the
 * control thread goes on with its heartbeats.
 *
 * Any thread may hand in what happens meanwhile (orders, connections, the end); it is noted and the loop is woken.
 * Everything else belongs to the caller's thread.
 */
#ifndef PCCL_MEASURE_SESSION_H
#define PCCL_MEASURE_SESSION_H

#include "core/address.h"
#include "core/id.h"
#include "core/limits.h"
#include "core/log.h"
#include "core/status.h"
#include "core/text.h"
#include "net/channel.h"

struct pccl_measure_session;

/* Measure the path to this peer. */
struct pccl_measure_order {
    uint64_t test;
    struct pccl_id peer, ticket;
    uint32_t limit_ms; /* from the first byte of data, at most PCCL_MEASURE_MS_MAX; dialing has dial_ms besides */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
};

struct pccl_measure_result {
    uint64_t test;
    bool failed;
    uint8_t how; /* failed: enum pccl_link_end; 0: by no fault of the path (no memory, the peer declines or lies) */
    uint32_t rtt_us;
    uint64_t rate; /* bytes per second */
};

struct pccl_measure_events {
    void *context;
    /* On the caller's thread, without a lock. Once for each order that no later one replaced. */
    void (*measured)(void *context, const struct pccl_measure_result *result);
    void (*log)(void *context, enum pccl_log_level level, const char *line);
    /* An invariant broke in `run`, perhaps in the middle of another event: nothing may be handed in any more. */
    void (*broken)(void *context);
};

struct pccl_measure_config {
    struct pccl_id self, lineage;
    uint32_t streams_long, streams_short; /* connections of a test over a long path (PCCL_LONG_PATH_RTT_US) or not */
    uint32_t dial_ms;                     /* to have the first connection and its round trip */
    uint32_t stagger_ms;                  /* between the addresses of a peer */
};

/* MEMORY or SYSTEM with a reason: there is nothing to be freed. */
PCCL_MUST_CHECK enum pccl_status pccl_measure_session_create(const struct pccl_measure_config *config,
                                                             const struct pccl_measure_events *events,
                                                             struct pccl_measure_session **session,
                                                             struct pccl_text *reason);

/* ---- any thread ---- */

/* An order for a test replaces the one that is under way, if there is one: it is not reported then. */
void pccl_measure_session_order(struct pccl_measure_session *session, const struct pccl_measure_order *order);
/*
 * A link of kind MEASURE has been through its handshake: the session owns it. MEMORY, LIMIT, USAGE (it has ended): it
 * is still the caller's. Of one peer PCCL_POOL_MAX are kept, the latest.
 */
PCCL_MUST_CHECK enum pccl_status pccl_measure_session_accept(struct pccl_measure_session *session,
                                                             const struct pccl_id *peer,
                                                             struct pccl_handover *handover);
/* `run` returns. */
void pccl_measure_session_end(struct pccl_measure_session *session);

/* ---- the caller's thread ---- */

/* There is something for `run` to do: an order or a connection has come. */
bool pccl_measure_session_is_needed(struct pccl_measure_session *session);
/* Tests and answers until pccl_measure_session_end. */
void pccl_measure_session_run(struct pccl_measure_session *session);
/* Closes connections and frees everything. */
void pccl_measure_session_destroy(struct pccl_measure_session *session);

#endif
