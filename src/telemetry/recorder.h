/*
 * Flight recorder of a peer: its latest operations and their outcomes. It has room for a fixed number of operations and
 * for their data of variable size (members, flows, reasons), allocated at once. When one of these buffers is full, the
 * oldest item is overwritten, so a member list or a flow may be lost before its operation.
 *
 * Operations are added when they end. The code that runs operations in progress adds them to a copy of the recorder
 * (pccl_recorder_copy). Not thread-safe.
 */
#ifndef PCCL_TELEMETRY_RECORDER_H
#define PCCL_TELEMETRY_RECORDER_H

#include "core/memory.h"
#include "core/status.h"
#include "core/text.h"
#include "telemetry/flow.h"
#include "wire/wire.h"

enum {
    PCCL_RECORDER_FLOWS = 4, /* room for this many flows per operation, on average */
    /* room for this many members per operation, on average; equal consecutive lists are stored once */
    PCCL_RECORDER_IDS = 8,
    PCCL_RECORDER_REASONS = 32, /* total number of reasons */
};

enum pccl_telemetry_state {
    PCCL_TELEMETRY_MOVING,   /* launched; this peer's part of the data is not complete */
    PCCL_TELEMETRY_COMPLETE, /* this peer's part is complete; the outcome is not known */
    PCCL_TELEMETRY_FAILED,   /* failed here; the outcome is not known */
    PCCL_TELEMETRY_ENDED,
};

/* A part of a circular buffer that begins at the item with this number. It may have been overwritten. */
struct pccl_telemetry_range {
    uint64_t first;
    uint32_t count;
};

struct pccl_recorder_entry {
    uint64_t number; /* number of its launch at this peer, starting at 1 */
    struct pccl_instance instance;
    struct pccl_descriptor descriptor;
    enum pccl_telemetry_state state;
    bool tiny;                /* true if its data passes through the master */
    enum pccl_class class;    /* ENDED: NONE if committed */
    enum pccl_status lost_by; /* ENDED: not OK if it ended only at this peer */
    uint32_t world, rank;     /* rank: `member_count` if this peer has none */
    uint32_t member_count;    /* number of all members, listed or not */
    uint32_t attempt;         /* in a copy: 1 + number of consecutive failed launches of this tag before it */
    uint32_t restarts;        /* number of restarts of the transfer along another ring */
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
    uint64_t count, id_count, flow_count, reason_count; /* total numbers of items added */
    uint32_t id_capacity, flow_capacity;
    struct pccl_recorder_entry *entries;
    struct pccl_id *ids;
    struct pccl_recorder_flow *flows;
    struct pccl_text *reasons;
    struct pccl_telemetry_range last_ids;
};

/* Creates a recorder for the latest `operations` (at least 1) operations. Returns NULL if out of memory. */
struct pccl_recorder *pccl_recorder_create(const struct pccl_memory *memory, uint32_t operations);
/* Frees the recorder. NULL is allowed. */
void pccl_recorder_destroy(struct pccl_recorder *recorder);
/*
 * Returns a copy with room for `operations` more operations, including all of their flows, and `ids` more members.
 * Returns NULL if out of memory.
 */
struct pccl_recorder *pccl_recorder_copy(const struct pccl_recorder *recorder, const struct pccl_memory *memory,
                                         uint32_t operations, uint32_t ids);

/*
 * Adds an entry and returns it. It is zeroed except for the members; the caller fills in the rest. `members` is a list;
 * NULL repeats the list that was added last, which must not be empty.
 */
struct pccl_recorder_entry *pccl_recorder_add(struct pccl_recorder *recorder, const struct pccl_id *members,
                                              uint32_t count);
void pccl_recorder_add_reason(struct pccl_recorder *recorder, struct pccl_recorder_entry *entry,
                              const struct pccl_text *reason);
/* Adds the flows that are in use. `ring` lists the members' ids by place. */
void pccl_recorder_add_flows(struct pccl_recorder *recorder, struct pccl_recorder_entry *entry,
                             const struct pccl_telemetry_flow *flows, uint32_t count, const struct pccl_id *ring);
/* Returns the latest entry with this number; NULL if it was overwritten or never added. */
struct pccl_recorder_entry *pccl_recorder_find(const struct pccl_recorder *recorder, uint64_t number);

/* Return the number of entries, and the entry at this place, where 0 is the oldest. */
uint32_t pccl_recorder_kept(const struct pccl_recorder *recorder);
struct pccl_recorder_entry *pccl_recorder_at(const struct pccl_recorder *recorder, uint32_t place);
/* Return an entry's members, flows and reason; NULL if these were overwritten or do not exist. */
const struct pccl_id *pccl_recorder_members(const struct pccl_recorder *recorder,
                                            const struct pccl_recorder_entry *entry);
const struct pccl_recorder_flow *pccl_recorder_flows(const struct pccl_recorder *recorder,
                                                     const struct pccl_recorder_entry *entry);
const struct pccl_text *pccl_recorder_reason(const struct pccl_recorder *recorder,
                                             const struct pccl_recorder_entry *entry);

/* Sets `attempt` of each entry in a copy, whose entries must be in order of launches. */
void pccl_recorder_count_attempts(const struct pccl_recorder *recorder);

/* Reason why an operation waits for a neighbor. */
enum pccl_telemetry_wait {
    PCCL_TELEMETRY_NOTHING,
    PCCL_TELEMETRY_READY,  /* for the neighbor's `ready`; it may not have entered the operation */
    PCCL_TELEMETRY_CREDIT, /* for its permission to send more */
    PCCL_TELEMETRY_ROOM,   /* for the neighbor to receive the data in flight */
    PCCL_TELEMETRY_DATA,   /* for its data */
};
/*
 * Returns the operation's wait for the neighbor of this flow. *since_us is the time of the neighbor's last action of
 * this kind, or of the operation's entry.
 */
enum pccl_telemetry_wait pccl_recorder_entry_waits(const struct pccl_recorder_entry *entry,
                                                   const struct pccl_telemetry_counters *flow, uint64_t *since_us);
const char *pccl_telemetry_wait_name(enum pccl_telemetry_wait wait);

enum { PCCL_TELEMETRY_ENDS_MAX = 16 }; /* number of recorded ends of connections */

/* A data connection to or from another peer. */
struct pccl_telemetry_connection {
    struct pccl_id peer;
    bool outgoing;
    uint32_t slot;
    bool known;                 /* true if the system provides the following figures */
    uint32_t rtt_us, lately_us; /* 0 if unknown, for example for connections within a host that do not use TCP */
    uint64_t rate, delivered_bytes, resent_bytes, busy_us;
    uint64_t sampled_us;
    uint64_t ended_us;           /* 0 if it is up */
    enum pccl_link_end ended_by; /* how the other end or the system ended it */
};

#endif
