/*
 * The master's state machine: membership, votes, outcomes (docs/PROTOCOL.md). Pure: no socket, clock or thread, and no
 * memory except through the driver's allocator. One caller at a time.
 *
 * The driver passes events in and executes the effects. The machine calls effects from inside pccl_master_step, and
 * they must not call the machine. After the machine has closed a connection, the driver passes no more events for it.
 */
#ifndef PCCL_MASTER_MASTER_H
#define PCCL_MASTER_MASTER_H

#include "core/address.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/kernels.h"
#include "master/params.h"
#include "topology/solve.h"
#include "wire/frame.h"
#include "wire/wire.h"

typedef uint64_t pccl_conn; /* identifies a connection; chosen by the driver, never reused; 0: none */

/* Parameters of the machine (master/params.h), and the settings that only the driver provides. */
#define PCCL_MASTER_FIELD(X, name, ...) uint32_t name;
#define PCCL_MASTER_NO_FIELD(...)
struct pccl_master_config {
    PCCL_MASTER_PARAMS(PCCL_MASTER_FIELD, PCCL_MASTER_NO_FIELD, )
    /* true if the previous master recorded a run, so that newcomers wait recover_ms for its members */
    bool run_noted;
    uint32_t mesh_ms;                   /* time that a newcomer waits for links outside the ring */
    uint32_t hub_updates;               /* number of updates after which an unused hub ends */
    bool expel_slow_peers;              /* true to expel peers that have been slow for slow_peer_limit_s */
    bool open_links;                    /* true to encrypt only the handshake of links */
    struct pccl_build build;            /* this build, which determines the wire format */
    uint64_t boot;                      /* random, not 0 */
    uint64_t seed;                      /* seed of random choices that need not be secret */
    uint64_t hash_seed;                 /* random, so that outsiders cannot choose keys that collide in a table */
    struct pccl_id secret;              /* random; run keys are derived from it */
    const struct pccl_kernels *kernels; /* for reducing small operations */
};
/* Returns the defaults, with scalar kernels. The driver must set build, boot, seed, hash_seed and secret. */
struct pccl_master_config pccl_master_defaults(void);

enum pccl_master_event_kind {
    PCCL_MASTER_OPENED,   /* a connection was accepted */
    PCCL_MASTER_CLOSED,   /* the other side closed it, or it broke */
    PCCL_MASTER_RECEIVED, /* a frame arrived */
    PCCL_MASTER_GARBAGE,  /* undecodable bytes arrived (`reason`); the machine answers and closes */
    PCCL_MASTER_PROBED,   /* result of a probe effect */
    PCCL_MASTER_IDLE,     /* all readable input has been passed in; departures take effect now */
    PCCL_MASTER_TICK,     /* the deadline has passed */
    PCCL_MASTER_SOLVED,   /* result of a solve effect */
    PCCL_MASTER_COMMAND,  /* an operator's command */
    PCCL_MASTER_REVOKED,  /* a token was revoked: the peers with its `pass` depart */
    PCCL_MASTER_SHUTDOWN, /* sends the shutdown to all peers and ends; later connections are closed */
};

enum pccl_master_command {
    PCCL_COMMAND_DRAIN,    /* removes `peer` with the next topology update, which interrupts nothing */
    PCCL_COMMAND_EXPEL,    /* removes `peer` at once; its operations fail */
    PCCL_COMMAND_OPTIMIZE, /* searches for better rings with the known link figures */
};

/* Result of a command, described in a sentence. */
struct pccl_master_answer {
    bool done;
    struct pccl_text words;
};

struct pccl_master_event {
    enum pccl_master_event_kind kind;
    uint64_t now_us;
    pccl_conn conn;                 /* OPENED CLOSED RECEIVED GARBAGE */
    struct pccl_address address;    /* OPENED: the other end */
    const struct pccl_frame *frame; /* RECEIVED; GARBAGE: NULL unless the checksum is valid */
    const struct pccl_msg *msg;     /* RECEIVED: the decoded body */
    const struct pccl_text *reason; /* GARBAGE */
    /* RECEIVED: pass of the sender's token (ops/token_file.h); REVOKED: the revoked pass; 0: none */
    uint32_t pass;
    const struct pccl_text *unfit; /* RECEIVED, a hello: reason why its token does not admit it; NULL if it does */
    bool other_build;              /* GARBAGE: the bytes are a hello of another build (see `reason`) */
    struct pccl_id peer;           /* PROBED, COMMAND */
    enum pccl_master_command command;
    struct pccl_master_answer *result; /* COMMAND: filled in */
    bool answered;                     /* PROBED: the peer itself answered */
    /* PROBED, not answered: how the dial failed; 0 if no dial was possible for lack of memory or descriptors */
    enum pccl_link_end how;
    uint64_t ticket;         /* SOLVED */
    enum pccl_status status; /* SOLVED: not OK if the search could not run */
    const struct pccl_ring_answer *answer;
    const uint32_t *ring; /* SOLVED, if answer->worth.exists: one position for each member of the problem */
};

struct pccl_master_effects {
    void *context;
    /* Writes these bytes to the connection, in order. They are valid only during the call. */
    void (*send)(void *context, pccl_conn conn, const uint8_t *bytes, size_t length);
    /* Allows larger frames on this connection, because its peer is known now. */
    void (*accept)(void *context, pccl_conn conn);
    /* Flushes the sent bytes and closes. The driver passes no more events of this connection. */
    void (*close)(void *context, pccl_conn conn);
    /*
     * Dials this address and sends link_hello{kind PROBE, to peer}; PROBED must follow. The ticket (from id 0 to the
     * peer) is for an encrypted link. Returns false if memory runs out; in that case no event follows.
     */
    bool (*probe)(void *context, const struct pccl_id *peer, const struct pccl_id *lineage,
                  const struct pccl_id *ticket, const struct pccl_address *address);
    /* Searches for a ring in another thread; SOLVED must follow. The problem is valid only during the call. */
    void (*solve)(void *context, uint64_t ticket, const struct pccl_ring_problem *problem);
    /* Cancels a search; SOLVED need not follow. */
    void (*stop_solving)(void *context, uint64_t ticket);
    /* Delivers the topology report of a group after an optimization (topology/report.h). May be NULL. */
    void (*report)(void *context, uint32_t group, const char *text, size_t length);
    /*
     * Records the present run, or NULL if none exists, for the config of the next master (run_noted). Called before
     * the run has a member. May be NULL.
     */
    void (*note_run)(void *context, const struct pccl_id *lineage);
    /* Logs a sentence. `fields` is never NULL, and names the run once there is one. */
    void (*log)(void *context, enum pccl_log_level level, const char *line, const struct pccl_log_fields *fields);
};

struct pccl_master; /* master/state.h */

/* Creates the machine. Returns NULL if out of memory. Copies config, memory and effects. */
struct pccl_master *pccl_master_create(const struct pccl_master_config *config, const struct pccl_memory *memory,
                                       const struct pccl_master_effects *effects, uint64_t now_us);
void pccl_master_destroy(struct pccl_master *master);
void pccl_master_step(struct pccl_master *master, const struct pccl_master_event *event);
/* Returns the time of the next TICK; UINT64_MAX if none is due. */
uint64_t pccl_master_deadline(const struct pccl_master *master);

/* Counts for status lines and tests. */
struct pccl_master_counts {
    uint32_t members, pending, groups, strangers;
    uint64_t committed, aborted, departures;
    struct pccl_epoch epoch;
    bool recovering;
};
struct pccl_master_counts pccl_master_count(const struct pccl_master *master);
/* Calls `each` for every peer with this pass, and passes the token from the peer's hello. */
void pccl_master_each_of_pass(const struct pccl_master *master, uint32_t pass,
                              void (*each)(void *context, uint32_t pass, const struct pccl_id *token), void *context);

#endif
