/*
 * The flight recorder of a peer: what its latest operations were and how they ended. It has room for
 * a fixed number of operations, all of it allocated at once; so has what belongs to them and is of
 * different size: the members, the flows, the reasons. When one of these is full, the oldest is
 * forgotten, for a member list or a flow without forgetting the operation that it belonged to.
 *
 * Operations enter it when they end. Those under way are known by those who carry them out, and a
 * copy of the recorder gets them, too (pccl_recorder_copy). Not safe for several threads.
 */
#ifndef PCCL_SIGHT_RECORDER_H
#define PCCL_SIGHT_RECORDER_H

#include "core/memory.h"
#include "core/status.h"
#include "core/text.h"
#include "sight/flow.h"
#include "wire/wire.h"

enum {
    PCCL_RECORDER_FLOWS = 4,    /* room for so many flows for each operation, on average */
    PCCL_RECORDER_IDS = 8,      /* the same of members, whose list is kept once as long as it is the same */
    PCCL_RECORDER_REASONS = 32, /* in all */
};

enum pccl_sight_state {
    PCCL_SIGHT_MOVING,   /* launched, and its part of the data is not complete */
    PCCL_SIGHT_COMPLETE, /* its part is; the master has not told the outcome */
    PCCL_SIGHT_FAILED,   /* it has failed here; the same */
    PCCL_SIGHT_ENDED,
};

/* A part of a ring of items: those that begin with this number, if they are still there. */
struct pccl_sight_range {
    uint64_t first;
    uint32_t count;
};

struct pccl_recorder_entry {
    uint64_t number; /* of its launch at this peer, from 1 on */
    struct pccl_instance instance;
    struct pccl_descriptor descriptor;
    enum pccl_sight_state state;
    bool tiny;                /* it goes through the master */
    enum pccl_class class;    /* ENDED: NONE is committed */
    enum pccl_status lost_by; /* ENDED, not OK: it ended here alone */
    uint32_t world, rank;     /* rank: `member_count` if it has none */
    uint32_t member_count;    /* all of them, whether they are listed or not */
    uint32_t attempt;         /* of a copy: 1 + how many launches of the tag before it failed, one after another */
    uint32_t restarts;        /* how often its data began to move anew, along another ring */
    uint64_t entered_us, ended_us;
    uint64_t sent_bytes, received_bytes;
    struct pccl_sight_range members, flows, reason;
};

struct pccl_recorder_flow {
    struct pccl_id peer;
    struct pccl_sight_counters counters;
};

struct pccl_recorder {
    struct pccl_memory memory;
    uint32_t capacity;
    uint64_t count, id_count, flow_count, reason_count; /* that were ever added */
    uint32_t id_capacity, flow_capacity;
    struct pccl_recorder_entry *entries;
    struct pccl_id *ids;
    struct pccl_recorder_flow *flows;
    struct pccl_text *reasons;
    struct pccl_sight_range last_ids;
};

/* NULL: out of memory. operations: at least 1. */
struct pccl_recorder *pccl_recorder_create(const struct pccl_memory *memory, uint32_t operations);
/* NULL: nothing. */
void pccl_recorder_destroy(struct pccl_recorder *recorder);
/*
 * Another one with the same content, and room for so many operations more with all of their flows
 * and members. NULL: out of memory.
 */
struct pccl_recorder *pccl_recorder_copy(const struct pccl_recorder *recorder, const struct pccl_memory *memory,
                                         uint32_t operations, uint32_t ids);

/*
 * Room for the next operation, zeroed but for the members; the caller fills in the rest. members: NULL: the list, of at
 * least one, that was added last.
 */
struct pccl_recorder_entry *pccl_recorder_add(struct pccl_recorder *recorder, const struct pccl_id *members,
                                              uint32_t count);
void pccl_recorder_add_reason(struct pccl_recorder *recorder, struct pccl_recorder_entry *entry,
                              const struct pccl_text *reason);
/* The flows in use among these. The ring has the ids of their ranks. */
void pccl_recorder_add_flows(struct pccl_recorder *recorder, struct pccl_recorder_entry *entry,
                             const struct pccl_sight_flow *flows, uint32_t count, const struct pccl_id *ring);
/* The latest one with this number; NULL: it was forgotten, or is not there. */
struct pccl_recorder_entry *pccl_recorder_find(const struct pccl_recorder *recorder, uint64_t number);

/* How many there are, and the one in this place, the oldest first. */
uint32_t pccl_recorder_kept(const struct pccl_recorder *recorder);
struct pccl_recorder_entry *pccl_recorder_at(const struct pccl_recorder *recorder, uint32_t place);
/* NULL: forgotten, or there is nothing. */
const struct pccl_id *pccl_recorder_members(const struct pccl_recorder *recorder,
                                            const struct pccl_recorder_entry *entry);
const struct pccl_recorder_flow *pccl_recorder_flows(const struct pccl_recorder *recorder,
                                                     const struct pccl_recorder_entry *entry);
const struct pccl_text *pccl_recorder_reason(const struct pccl_recorder *recorder,
                                             const struct pccl_recorder_entry *entry);

/* In each of a copy, which is in order of launches: `attempt`. */
void pccl_recorder_count_attempts(const struct pccl_recorder *recorder);

/* What an operation waits for from a neighbor. */
enum pccl_sight_wait {
    PCCL_SIGHT_NOTHING,
    PCCL_SIGHT_READY,  /* that it says that it is ready: it has not entered, as far as is known here */
    PCCL_SIGHT_CREDIT, /* that it permits more to be sent */
    PCCL_SIGHT_ROOM,   /* that it takes what is being sent */
    PCCL_SIGHT_DATA,   /* that it sends */
};
/* *since_us: when it last did what is waited for, or the operation was entered. */
enum pccl_sight_wait pccl_recorder_entry_waits(const struct pccl_recorder_entry *entry,
                                               const struct pccl_sight_counters *flow, uint64_t *since_us);
const char *pccl_sight_wait_name(enum pccl_sight_wait wait);

enum { PCCL_SIGHT_ENDS_MAX = 16 }; /* the latest connections that ended */

/* A connection that carries data to another peer, or from it. */
struct pccl_sight_connection {
    struct pccl_id peer;
    bool outgoing;
    uint32_t slot;
    bool known;                 /* the system reports what follows */
    uint32_t rtt_us, lately_us; /* 0: unknown, as on this host without TCP */
    uint64_t rate, delivered_bytes, resent_bytes, busy_us;
    uint64_t sampled_us;
    uint64_t ended_us;           /* 0: it stands */
    enum pccl_link_end ended_by; /* as the other side or the system ended it */
};

#endif
