/*
 * Links to other peers: dialing, accepting and connection pools. Caller holds the lock. Effects of the state machine
 * only set flags and queue the link; the loop then does the work.
 */
#ifndef PCCL_DRIVE_COMM_LINKS_H
#define PCCL_DRIVE_COMM_LINKS_H

#include "core/table.h"
#include "net/dialer.h"
#include "peer/peer.h"

struct pccl_communicator;

/* One connection of a link in each direction. */
struct pccl_comm_slot {
    struct pccl_comm_link *link;
    struct pccl_dialer *dialer; /* NULL unless dialing, or waiting for a connection that the other end dials */
    bool awaited;               /* with `dialer`: waiting */
    uint64_t dialed;            /* number of the connection dialed last; 0: not dialed, or the other end is gone */
    uint64_t accepted;          /* number of the connection accepted last; 0: not accepted */
};

/* Link to one other peer: up to PCCL_POOL_MAX connections in each direction, which belong to the engine. */
struct pccl_comm_link {
    struct pccl_table_node by_peer;
    struct pccl_communicator *comm;
    struct pccl_id peer;
    struct pccl_id ticket; /* ticket for dialing this link */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    uint64_t outgoing, incoming;               /* bit sets of connected slots; a direction is up if any bit is set */
    bool asked;                                /* true while the state machine waits for LINK_UP or LINK_DOWN */
    bool reversed;                             /* true if the other end dials the outgoing direction */
    bool dial, close_outgoing, close_incoming; /* actions requested by effects, which the loop still has to perform */
    bool queued;
    struct pccl_comm_link *next_queued;
    /* Slots other than 0, which the state machine does not see: */
    uint32_t wanted; /* number of slots that the outgoing direction should have, including slot 0 */
    uint32_t pause_ms;
    uint64_t troubled_us; /* time when one of these slots last ended or could not be dialed */
    bool troubled;        /* true if the loop has not handled the last such event yet */
    bool in_no_hurry;     /* true if the other side closed one of these slots on purpose, so redialing is not urgent */
    struct pccl_comm_pause *pause; /* pause before missing slots are dialed again; NULL: no pause */
    struct pccl_comm_slot slots[PCCL_POOL_MAX];
};

struct pccl_comm_links {
    struct pccl_table by_peer; /* struct pccl_comm_link, keyed by a hash of the peer's id */
    struct pccl_comm_link *queued;
    struct pccl_list_node backs; /* connections that other peers have requested this one to dial  */
    bool backs_due, backs_over;  /* true if the loop must begin to dial one; true if it must cancel all */
    uint64_t dialed;             /* number of the connection dialed last on any link */
};

/*
 * Return the link to this peer. pccl_comm_link_find returns NULL if there is no link. pccl_comm_link_make creates a
 * missing link, and returns NULL if out of memory.
 */
struct pccl_comm_link *pccl_comm_link_find(const struct pccl_communicator *comm, const struct pccl_id *peer);
struct pccl_comm_link *pccl_comm_link_make(struct pccl_communicator *comm, const struct pccl_id *peer);
void pccl_comm_link_queue(struct pccl_comm_link *link);
/* Returns the number of connections for a path with this round trip. A long path needs several to fill it. */
uint32_t pccl_comm_pool_size(const struct pccl_communicator *comm, uint32_t rtt_us);
/* Handles the end of a connection that the engine reports. Runs on the engine's thread; caller holds the lock. */
void pccl_comm_link_ended(struct pccl_communicator *comm, const struct pccl_id *peer, bool outgoing, uint32_t slot,
                          enum pccl_link_end how, bool purposely, const struct pccl_text *rejected);
/* Does the work that effects have requested. Runs on the loop. */
void pccl_comm_links_apply(struct pccl_communicator *comm);
void pccl_comm_links_close_all(struct pccl_communicator *comm);
/* Requests a connection that this peer dials, for a line of a worker. Runs on the thread of the call, without the lock.
 */
uint64_t pccl_comm_want_back(void *comm, const struct pccl_id *peer, enum pccl_link_kind kind, uint32_t slot);
/* Begins a visit of the loop: does the work requested for links before a callback uses them. */
void pccl_comm_links_enter(void *owner);
/* Passes an incoming connection to the engine. `reversed` is true if this peer has dialed it. */
void pccl_comm_link_take_incoming(struct pccl_comm_link *link, struct pccl_connection *connection, uint32_t slot,
                                  uint64_t number, bool reversed);
/* Ends the wait of this slot with a connection that the other end has dialed, or without one (NULL). */
void pccl_comm_link_end_wait(struct pccl_comm_slot *slot, struct pccl_connection *connection);
/* Handles a connection that the listener has accepted; its first message must be a hello. */
void pccl_comm_link_accepted(void *owner, struct pccl_connection *connection);
/* Handles a failure of the listener to accept a connection. */
void pccl_comm_links_starved(void *owner, int error);
extern const struct pccl_connection_events pccl_comm_link_events;
/* ---- effects of the state machine ---- */
void pccl_comm_effect_dial_link(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                                const struct pccl_address *candidates, uint32_t count, bool reversed);
void pccl_comm_effect_dial_back(void *context, const struct pccl_msg_dial_back *request);
void pccl_comm_effect_close_link(void *context, const struct pccl_id *peer, bool incoming);
void pccl_comm_effect_cut_link(void *context, const struct pccl_id *peer, uint64_t number);

#endif
