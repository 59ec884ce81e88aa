/*
 * The master's state machine: membership, votes, outcomes (docs/PROTOCOL.md). Pure: no socket,
 * clock or thread, and memory only from what the driver hands in. One caller at a time.
 *
 * The driver turns the world into events and carries out the effects. Effects are called from
 * inside pccl_master_step and must not call back into the machine. The driver passes no more events
 * of a connection that the machine has closed.
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

typedef uint64_t pccl_conn; /* names a connection; chosen by the driver, never reused; 0: none */

/* Its parameters (master/params.h), and what the driver sets beside them. */
#define PCCL_MASTER_FIELD(X, name, ...) uint32_t name;
#define PCCL_MASTER_NO_FIELD(...)
struct pccl_master_config {
    PCCL_MASTER_PARAMS(PCCL_MASTER_FIELD, PCCL_MASTER_NO_FIELD, )
    bool run_noted;                     /* the last master noted a run: newcomers wait recover_ms for its members */
    uint32_t mesh_ms;                   /* a newcomer waits so long for links beside the ring */
    uint32_t hub_updates;               /* a hub that no operation has used for so many updates is none any more */
    bool expel_slow_peers;              /* once slow_peer_limit_s has passed */
    bool open_links;                    /* links are encrypted for their handshake only */
    struct pccl_build build;            /* whose wire it speaks */
    uint64_t boot;                      /* random, not 0 */
    uint64_t seed;                      /* for random choices that need not be secret */
    uint64_t hash_seed;                 /* random: so that nobody can choose keys that collide in a table */
    struct pccl_id secret;              /* random: keys of runs are made with it */
    const struct pccl_kernels *kernels; /* fold small operations */
};
/*
 * The defaults, with the scalar kernels. build, boot, seed, hash_seed and secret are 0, for the
 * driver to fill in.
 */
struct pccl_master_config pccl_master_defaults(void);

enum pccl_master_event_kind {
    PCCL_MASTER_OPENED,   /* a connection was accepted */
    PCCL_MASTER_CLOSED,   /* the other side closed it, or it broke */
    PCCL_MASTER_RECEIVED, /* a frame came */
    PCCL_MASTER_GARBAGE,  /* undecodable bytes came, as `reason` says; the machine answers and closes */
    PCCL_MASTER_PROBED,   /* the answer to a probe effect */
    PCCL_MASTER_IDLE,     /* all readable input has been stepped: departures take effect now */
    PCCL_MASTER_TICK,     /* the deadline has passed */
    PCCL_MASTER_SOLVED,   /* the answer to a solve effect */
    PCCL_MASTER_COMMAND,  /* an operator asks for something */
    PCCL_MASTER_REVOKED,  /* a pass: whoever came with it departs */
    PCCL_MASTER_SHUTDOWN, /* tell all peers and end; nothing is accepted afterward */
};

enum pccl_master_command {
    PCCL_COMMAND_DRAIN,    /* `peer` goes with the next topology update, when it interrupts nothing */
    PCCL_COMMAND_EXPEL,    /* `peer` goes at once, and what it takes part in fails */
    PCCL_COMMAND_OPTIMIZE, /* search for better rings, from what is known of the links */
};

/* What came of a command: done, or not, and a sentence. */
struct pccl_master_answer {
    bool done;
    struct pccl_text words;
};

struct pccl_master_event {
    enum pccl_master_event_kind kind;
    uint64_t now_us;
    pccl_conn conn;                 /* OPENED CLOSED RECEIVED GARBAGE */
    struct pccl_address address;    /* OPENED: the other end */
    const struct pccl_frame *frame; /* RECEIVED; GARBAGE: NULL unless its checksum is right */
    const struct pccl_msg *msg;     /* RECEIVED: the decoded body */
    const struct pccl_text *reason; /* GARBAGE */
    uint32_t pass;                  /* RECEIVED: of the sender's token (ops/book.h); REVOKED; 0: none */
    const struct pccl_text *unfit;  /* RECEIVED, a hello: why its token does not let it in; NULL: it does */
    bool other_build;               /* GARBAGE: a hello of another build, as `reason` says in full */
    struct pccl_id peer;            /* PROBED, COMMAND */
    enum pccl_master_command command;
    struct pccl_master_answer *said; /* COMMAND: filled in */
    bool answered;                   /* PROBED: the peer itself answered */
    enum pccl_link_end how;  /* PROBED, not answered; 0: memory or descriptors were short, so nothing was dialed */
    uint64_t ticket;         /* SOLVED */
    enum pccl_status status; /* SOLVED: not OK: the search could not run */
    const struct pccl_ring_answer *answer;
    const uint32_t *ring; /* SOLVED, if answer->worth.exists: as many positions as the problem's count */
};

struct pccl_master_effects {
    void *context;
    /* Write these bytes to the connection, in order; they are valid during the call only. */
    void (*send)(void *context, pccl_conn conn, const uint8_t *bytes, size_t length);
    /* The peer on this connection is known now: larger frames may be read. */
    void (*accept)(void *context, pccl_conn conn);
    /* Flush what was sent and close; no more events of this connection. */
    void (*close)(void *context, pccl_conn conn);
    /*
     * Dial this address, send link_hello{kind PROBE, to peer}; PROBED must follow. The ticket is from nobody (the
     * id 0) to the peer: for an encrypted link. false: memory is short, and nothing follows.
     */
    bool (*probe)(void *context, const struct pccl_id *peer, const struct pccl_id *lineage,
                  const struct pccl_id *ticket, const struct pccl_address *address);
    /*
     * Search for a ring in another thread; SOLVED must follow. The problem is valid during the call
     * only.
     */
    void (*solve)(void *context, uint64_t ticket, const struct pccl_ring_problem *problem);
    /* The search is not needed any more: SOLVED need not follow. */
    void (*stop_solving)(void *context, uint64_t ticket);
    /*
     * The topology report of a group after an optimization (topology/report.h). NULL: not wanted.
     */
    void (*report)(void *context, uint32_t group, const char *text, size_t length);
    /*
     * The run that lives from now on; NULL: none. Noted before anybody can become a member, for the config
     * (run_noted) of the next master. NULL: not wanted.
     */
    void (*note_run)(void *context, const struct pccl_id *lineage);
    /* line: a sentence. fields is never NULL and names the run as soon as there is one. */
    void (*log)(void *context, enum pccl_log_level level, const char *line, const struct pccl_log_fields *fields);
};

struct pccl_master; /* master/state.h */

/* NULL: out of memory. The config, memory and effects are copied. */
struct pccl_master *pccl_master_create(const struct pccl_master_config *config, const struct pccl_memory *memory,
                                       const struct pccl_master_effects *effects, uint64_t now_us);
void pccl_master_destroy(struct pccl_master *master);
void pccl_master_step(struct pccl_master *master, const struct pccl_master_event *event);
/* When the next TICK is due; UINT64_MAX: never. */
uint64_t pccl_master_deadline(const struct pccl_master *master);

/* For status lines and tests. */
struct pccl_master_counts {
    uint32_t members, pending, groups, strangers;
    uint64_t committed, aborted, departures;
    struct pccl_epoch epoch;
    bool recovering;
};
struct pccl_master_counts pccl_master_count(const struct pccl_master *master);
/* Calls `each` for the peers that came with this pass; token: that of the hello. */
void pccl_master_each_of_pass(const struct pccl_master *master, uint32_t pass,
                              void (*each)(void *context, uint32_t pass, const struct pccl_id *token), void *context);

#endif
