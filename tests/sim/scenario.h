/* Tools for scenarios: peers driven by hand, and expectations of the outcomes of their calls. */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include "check.h"

enum { SCENARIOS_MAX = 512 };

struct sim_scenario {
    char name[48];
    void (*run)(struct sim *sim);
};
extern struct sim_scenario sim_scenarios[SCENARIOS_MAX];
extern uint32_t sim_scenario_count;

/* Adds a scenario to the list. Its name has '-' where the identifier has '_'. */
void scenario_add(const char *identifier, void (*run)(struct sim *sim));

/* Begins a scenario that adds itself to the list. */
#define SCENARIO(name)                                                                                                 \
    static void scenario_##name(struct sim *sim);                                                                      \
    __attribute__((constructor)) static void add_##name(void) { scenario_add(#name, scenario_##name); }                \
    static void scenario_##name(struct sim *sim)

/* Begins a scenario whose peers `p` are a cluster of members in groups. */
#define CLUSTER_SCENARIO(name, members, groups)                                                                        \
    static void run_##name(struct sim *sim);                                                                           \
    SCENARIO(name)                                                                                                     \
    {                                                                                                                  \
        scenario_cluster(sim, p, members, groups);                                                                     \
        run_##name(sim);                                                                                               \
    }                                                                                                                  \
    static void run_##name(struct sim *sim)

/* Runs until the expression holds; fails if it does not within the time. */
#define WAIT(sim, within_ms, expression)                                                                               \
    do {                                                                                                               \
        uint64_t until_us = (sim)->now + (within_ms)*SIM_MS;                                                           \
        while (!(expression)) {                                                                                        \
            if ((sim)->heap_count == 0 || (sim)->heap[0].time > until_us)                                              \
                sim_fail(sim, "%s:%d: not within %d ms: %s", __func__, __LINE__, (int)(within_ms), #expression);       \
            sim_step(sim);                                                                                             \
        }                                                                                                              \
    } while (0)
#define MUST(sim, expression)                                                                                          \
    do {                                                                                                               \
        if (!(expression))                                                                                             \
            sim_fail(sim, "%s:%d: not true: %s", __func__, __LINE__, #expression);                                     \
    } while (0)

void scenario_run_ms(struct sim *sim, uint64_t ms);
/* Starts a peer on a separate host, and connects it; the call has ended when call_over returns true. */
struct sim_peer *scenario_join(struct sim *sim, uint32_t host, uint32_t group);
/* `count` members on hosts 1, 2 ...; peer i in group i % groups. */
/* Adds a link to a report, whose links are in the order of their peers. */
void scenario_add_seen(struct pccl_seen_link *links, uint32_t *count, struct pccl_seen_link link);
void scenario_cluster(struct sim *sim, struct sim_peer **peers, uint32_t count, uint32_t groups);
/* Lets all of them update; returns when all have returned. */
/* Returns the number of links that these peers have dialed and that are up. */
uint32_t scenario_links(struct sim_peer **peers, uint32_t count);
/* Returns the member at a place in the ring of this peer, counted beyond its end, too. */
struct sim_peer *scenario_in_ring(struct sim *sim, const struct sim_peer *peer, uint32_t place);
void scenario_update_all(struct sim *sim, struct sim_peer **peers, uint32_t count);
/* Lets all update, which admits the newcomer, and all of them with it commit a step. The newcomer is added to them. */
void scenario_admit(struct sim *sim, struct sim_peer **peers, uint32_t count, struct sim_peer *newcomer);
void scenario_update(struct sim *sim, struct sim_peer *peer);
void scenario_optimize(struct sim *sim, struct sim_peer *peer);
/* Their calls end, with this. */
void scenario_optimized(struct sim *sim, struct sim_peer **peers, uint32_t count, enum pccl_status status);
/* All of them optimize; returns when all have returned, with this. */
void scenario_optimize_all(struct sim *sim, struct sim_peer **peers, uint32_t count, enum pccl_status status);
void scenario_pending(struct sim *sim, struct sim_peer *peer);
void scenario_withdraw(struct sim *sim, struct sim_peer *peer, enum pccl_call call);
bool scenario_is_over(const struct sim_peer *peer, enum pccl_call call);
/* Launches it, which must work, and awaits it. */
struct pccl_peer_op *scenario_ask(struct sim *sim, struct sim_peer *peer, const struct sim_request *request);
struct pccl_peer_op *scenario_launch(struct sim *sim, struct sim_peer *peer, uint64_t tag, uint64_t step, bool tiny,
                                     uint32_t timeout_ms);
struct pccl_peer_op *scenario_tiny(struct sim *sim, struct sim_peer *peer, uint64_t tag, uint64_t step);
struct pccl_peer_op *scenario_bulk(struct sim *sim, struct sim_peer *peer, uint64_t tag, uint64_t step);
/* Launches one end of a send, a receive if it is not `sends`; `other` NULL: from any sender. Ten steps share a tag. */
struct pccl_peer_op *scenario_send(struct sim *sim, struct sim_peer *peer, const struct sim_peer *other, bool sends,
                                   uint64_t step, bool tiny);
void scenario_abort(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op, enum pccl_class class);
/* Returns true if it is decided; with this class. */
bool scenario_is_decided(const struct pccl_peer_op *op);
/* Returns the outcome, which must be there, and releases the operation. */
enum pccl_class scenario_take(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op);
/* Waits for the outcome, which must be of this class with these words in its reason, and releases the operation. */
void scenario_must_end(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op, enum pccl_class class,
                       const char *words);
/* Lets all launch the same caller step, which must commit. */
void scenario_commit_all(struct sim *sim, struct sim_peer **peers, uint32_t count, uint64_t tag, uint64_t step);
/* Lets three finish a bulk operation, but only the first one receives the outcome. */
void scenario_commit_at_first(struct sim *sim, struct sim_peer **peers, struct pccl_peer_op **ops);
/* The control connection between a peer and the master: cut (bytes wait) or whole. */
void scenario_control(struct sim *sim, const struct sim_peer *peer, bool whole);
/* Loses the master's messages to the peer after a message of this type. */
void scenario_deaf_after(struct sim *sim, const struct sim_peer *peer, uint16_t type);
/* Sets the content of a caller's memory; starts a synchronization with it. */
void scenario_hold(struct sim_peer *peer, uint64_t content, uint64_t revision);
void scenario_sync(struct sim *sim, struct sim_peer *peer, uint8_t strategy);
/* Returns the outcome of the synchronization, which must have ended. */
enum pccl_status scenario_synced(struct sim *sim, const struct sim_peer *peer);
/* Synchronizes all with their content; it must succeed for all with this content and revision. */
void scenario_sync_all(struct sim *sim, struct sim_peer **peers, uint32_t count, uint64_t content, uint64_t revision);
/* Cuts two peers off from each other for data; with a refusal existing connections break, too. */
void scenario_part(struct sim *sim, const struct sim_peer *a, const struct sim_peer *b, enum sim_cut how);
void scenario_restart_master(struct sim *sim, uint64_t after_ms);
uint64_t scenario_departures(const struct sim *sim);
/* Open a connection to the master, from a peer unknown to the simulator; and send on it. */
struct sim_conn *scenario_dial_master(struct sim *sim);
void scenario_say(struct sim *sim, struct sim_conn *conn, const struct pccl_msg *msg, uint64_t sequence);
struct pccl_msg scenario_hello_of(const struct sim_peer *peer, uint64_t boot);
/* Makes this peer break the rules, so that its removal is right; the machine sends this in its session. */
void scenario_lie(struct sim *sim, struct sim_peer *peer);
void scenario_forge(struct sim *sim, struct sim_peer *peer, const struct pccl_msg *msg);

#endif
