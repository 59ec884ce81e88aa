/*
 * The links to other peers: dialing, accepting, pools. Under the lock. Effects take notes of work that only the loop
 * can do; the loop carries them out.
 */
#ifndef PCCL_DRIVE_COMM_LINKS_H
#define PCCL_DRIVE_COMM_LINKS_H

#include "core/table.h"
#include "net/dialer.h"
#include "peer/peer.h"

struct pccl_communicator;

/* One connection of a link to another peer in each direction. */
struct pccl_comm_slot {
    struct pccl_comm_link *link;
    struct pccl_dialer *dialer; /* while it is dialed */
    uint64_t dialed;            /* number of the latest one dialed; 0: none, or its other end is gone */
    uint64_t accepted;          /* number of the latest one accepted; 0: none */
};

/*
 * The link to one other peer: up to PCCL_POOL_MAX connections in each direction, which belong to
 * the engine.
 */
struct pccl_comm_link {
    struct pccl_table_node by_peer;
    struct pccl_communicator *comm;
    struct pccl_id peer;
    struct pccl_id ticket; /* ticket for dialing it */
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t candidate_count;
    uint64_t outgoing, incoming; /* bit sets of connected slots; a direction is up if it has one */
    bool asked;                  /* slot 0 is being dialed for the machine, which waits for LINK_UP or LINK_DOWN */
    bool dial, close_outgoing, close_incoming; /* notes of effects, carried out by the loop */
    bool queued;
    struct pccl_comm_link *next_queued;
    /* The other slots, which the machine does not know: */
    uint32_t wanted; /* number of slots that the outgoing direction should have */
    uint32_t pause_ms;
    uint64_t troubled_us;          /* time when one of them last ended or could not be dialed */
    bool troubled;                 /* the loop has not handled the trouble yet */
    bool in_no_hurry;              /* the other side ended one of them deliberately */
    struct pccl_comm_pause *pause; /* NULL: missing slots may be dialed */
    struct pccl_comm_slot slots[PCCL_POOL_MAX];
};

/* A communicator's part. */
struct pccl_comm_links {
    struct pccl_table by_peer; /* struct pccl_comm_link, by hash of the peer's id */
    struct pccl_comm_link *queued;
    uint64_t dialed; /* number of the latest connection that was dialed, of all links */
};

/*
 * Return the link to this peer. The first returns NULL if there is no link; the second makes it, and returns NULL if
 * out of memory.
 */
struct pccl_comm_link *pccl_comm_link_find(const struct pccl_communicator *comm, const struct pccl_id *peer);
struct pccl_comm_link *pccl_comm_link_make(struct pccl_communicator *comm, const struct pccl_id *peer);
/* Queues the link for the loop. */
void pccl_comm_link_queue(struct pccl_comm_link *link);
/* Returns the number of connections for a path: a long one needs several to fill it. */
uint32_t pccl_comm_pool_size(const struct pccl_communicator *comm, uint32_t rtt_us);
/* Handles the engine's event that a connection has ended. Under the lock, on the engine's thread. */
void pccl_comm_link_ended(struct pccl_communicator *comm, const struct pccl_id *peer, bool outgoing, uint32_t slot,
                          enum pccl_link_end how, bool purposely, const struct pccl_text *rejected);
/* Carries out the notes. On the loop. */
void pccl_comm_links_apply(struct pccl_communicator *comm);
/* Notes that all links must be closed. */
void pccl_comm_links_close_all(struct pccl_communicator *comm);
/* Takes a connection that the listener has accepted; its first message must be a hello. */
void pccl_comm_link_accepted(void *owner, struct pccl_connection *connection);
/* Handles the listener's failure to accept a connection. */
void pccl_comm_links_starved(void *owner, int error);
extern const struct pccl_connection_events pccl_comm_link_events;
/* ---- effects of the machine ---- */
void pccl_comm_effect_dial_link(void *context, const struct pccl_id *peer, const struct pccl_id *ticket,
                                const struct pccl_address *candidates, uint32_t count);
void pccl_comm_effect_close_link(void *context, const struct pccl_id *peer, bool incoming);
void pccl_comm_effect_cut_link(void *context, const struct pccl_id *peer, uint64_t number);

#endif
