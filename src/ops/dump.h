/*
 * Writes a peer's flight recorder as JSON, with the current state that its driver adds. docs/guide/operations.md
 * explains the fields.
 */
#ifndef PCCL_OPS_DUMP_H
#define PCCL_OPS_DUMP_H

#include "ops/json.h"
#include "telemetry/recorder.h"

#define PCCL_TELEMETRY_FORMAT 1

struct pccl_telemetry_member {
    struct pccl_id peer;
    struct pccl_text name; /* may be empty */
};

/* An operation that another peer has launched and this peer has not. */
struct pccl_telemetry_announced {
    struct pccl_id from;
    struct pccl_instance instance;
    struct pccl_descriptor descriptor;
};

struct pccl_telemetry_dump {
    struct pccl_id self;
    uint64_t process;
    uint32_t group;
    bool connected;
    struct pccl_epoch epoch;
    uint64_t now_us, wall_us;              /* the same instant on both clocks; wall_us is since 1970 */
    struct pccl_text why;                  /* reason why the peer is not connected, or why the last call failed */
    struct pccl_text waits;                /* calls that wait and the peers they wait for, as reported by the master */
    struct pccl_telemetry_member *members; /* members of the group in canonical order */
    uint32_t member_count;
    struct pccl_telemetry_connection *connections;
    uint32_t connection_count;
    struct pccl_telemetry_announced *announced;
    uint32_t announced_count;
    struct pccl_recorder *recorder; /* a copy, in the order of launches */
};

/*
 * Writes at most `size` bytes including the terminator, truncating the text if necessary. Returns the size that the
 * whole text needs, including the terminator.
 */
size_t pccl_telemetry_write(const struct pccl_telemetry_dump *dump, char *bytes, size_t size);

#endif
