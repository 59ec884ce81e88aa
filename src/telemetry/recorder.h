/*
 * Flight recorder of a peer: its latest operations and their outcomes. It has room for a fixed number of operations,
 * allocated at once; also for their data of variable size: the members, the flows, the reasons. When one of these is
 * full, the oldest is forgotten; a member list or a flow may be forgotten before its operation.
 *
 * Operations enter it when they end. Operations under way are known to the code that runs them, and a copy of the
 * recorder includes them, too (pccl_recorder_copy). Not safe for several threads.
 */
#ifndef PCCL_TELEMETRY_RECORDER_H
#define PCCL_TELEMETRY_RECORDER_H

#include "core/memory.h"
#include "core/status.h"
#include "core/text.h"
#include "telemetry/flow.h"
#include "wire/wire.h"

enum {
    PCCL_RECORDER_FLOWS = 4,    /* room for flows per operation, on average */
    PCCL_RECORDER_IDS = 8,      /* the same for members; equal consecutive lists are stored once */
    PCCL_RECORDER_REASONS = 32, /* total */
};

enum pccl_telemetry_state {
    PCCL_TELEMETRY_MOVING,   /* launched, and its part of the data is not complete */
    PCCL_TELEMETRY_COMPLETE, /* its part is; the outcome is not known */
    PCCL_TELEMETRY_FAILED,   /* it has failed here; the outcome is not known */
    PCCL_TELEMETRY_ENDED,
};

/* A part of a ring of items from this number on, if it still exists. */
struct pccl_telemetry_range {
    uint64_t first;
    uint32_t count;
};

struct pccl_recorder_entry {
    uint64_t number; /* of its launch at this peer, from 1 on */
    struct pccl_instance instance;
    struct pccl_descriptor descriptor;
    enum pccl_telemetry_state state;
    bool tiny;                /* its data passes through the master */
    enum pccl_class class;    /* ENDED: NONE is committed */
    enum pccl_status lost_by; /* ENDED, not OK: it ended only here */
    uint32_t world, rank;     /* rank: `member_count` if it has none */
    uint32_t member_count;    /* all of them, listed or not */
    uint32_t attempt;         /* in a copy: 1 + the number of consecutive failed launches of the tag before it */
    uint32_t restarts;        /* number of restarts of its data transfer along another ring */
    uint64_t entered_us, ended_us;
    uint64_t sent_bytes, received_bytes;
    struct pccl_telemetry_range members, flows, reason;
};

struct pccl_recorder_flow {
    struct pccl_id peer;
    struct pccl_telemetry_counters counters;
};

struct pccl_recorder {
    struct pccl_memory memory;
    uint32_t capacity;
    uint64_t count, id_count, flow_count, reason_count; /* numbers of items ever added */
    uint32_t id_capacity, flow_capacity;
    struct pccl_recorder_entry *entries;
    struct pccl_id *ids;
    struct pccl_recorder_flow *flows;
    struct pccl_text *reasons;
    struct pccl_telemetry_range last_ids;
};

/* Returns NULL if out of memory. operations: at least 1. */
struct pccl_recorder *pccl_recorder_create(const struct pccl_memory *memory, uint32_t operations);
/* Frees the recorder. NULL: does nothing. */
void pccl_recorder_destroy(struct pccl_recorder *recorder);
/*
 * Returns a copy with room for `operations` more operations, with all of their flows, and `ids` more members. Returns
 * NULL if out of memory.
 */
struct pccl_recorder *pccl_recorder_copy(const struct pccl_recorder *recorder, const struct pccl_memory *memory,
                                         uint32_t operations, uint32_t ids);

/*
 * Returns the next entry, zeroed except for the members; the caller fills in the rest. members: a list; NULL: the list,
 * not empty, that was added last.
 */
struct pccl_recorder_entry *pccl_recorder_add(struct pccl_recorder *recorder, const struct pccl_id *members,
                                              uint32_t count);
void pccl_recorder_add_reason(struct pccl_recorder *recorder, struct pccl_recorder_entry *entry,
                              const struct pccl_text *reason);
/* Adds the flows in use among these. `ring` has the ids of their ranks. */
void pccl_recorder_add_flows(struct pccl_recorder *recorder, struct pccl_recorder_entry *entry,
                             const struct pccl_telemetry_flow *flows, uint32_t count, const struct pccl_id *ring);
/* Returns the latest entry with this number; NULL if it was forgotten or never added. */
struct pccl_recorder_entry *pccl_recorder_find(const struct pccl_recorder *recorder, uint64_t number);

/* Return the number of entries, and the entry at this place, oldest first. */
uint32_t pccl_recorder_kept(const struct pccl_recorder *recorder);
struct pccl_recorder_entry *pccl_recorder_at(const struct pccl_recorder *recorder, uint32_t place);
/* Return NULL if the data was forgotten or is empty. */
const struct pccl_id *pccl_recorder_members(const struct pccl_recorder *recorder,
                                            const struct pccl_recorder_entry *entry);
const struct pccl_recorder_flow *pccl_recorder_flows(const struct pccl_recorder *recorder,
                                                     const struct pccl_recorder_entry *entry);
const struct pccl_text *pccl_recorder_reason(const struct pccl_recorder *recorder,
                                             const struct pccl_recorder_entry *entry);

/* Sets `attempt` of each entry in a copy, which is in order of launches. */
void pccl_recorder_count_attempts(const struct pccl_recorder *recorder);

/* An operation's wait for a neighbor. */
enum pccl_telemetry_wait {
    PCCL_TELEMETRY_NOTHING,
    PCCL_TELEMETRY_READY,  /* for its READY: it has not entered, as far as this peer knows */
    PCCL_TELEMETRY_CREDIT, /* for its permission to send more */
    PCCL_TELEMETRY_ROOM,   /* for it to take the data being sent */
    PCCL_TELEMETRY_DATA,   /* for its data */
};
/*
 * Returns the wait for the neighbor of this flow. *since_us: time of the neighbor's last action of this kind, or of the
 * operation's entry.
 */
enum pccl_telemetry_wait pccl_recorder_entry_waits(const struct pccl_recorder_entry *entry,
                                                   const struct pccl_telemetry_counters *flow, uint64_t *since_us);
const char *pccl_telemetry_wait_name(enum pccl_telemetry_wait wait);

enum { PCCL_TELEMETRY_ENDS_MAX = 16 }; /* latest connections that ended */

/* A data connection to or from another peer. */
struct pccl_telemetry_connection {
    struct pccl_id peer;
    bool outgoing;
    uint32_t slot;
    bool known;                 /* the system reports the following figures */
    uint32_t rtt_us, lately_us; /* 0: unknown, for example on this host without TCP */
    uint64_t rate, delivered_bytes, resent_bytes, busy_us;
    uint64_t sampled_us;
    uint64_t ended_us;           /* 0: it is up */
    enum pccl_link_end ended_by; /* by the other side or the system */
};

#endif
