/*
 * A communicator's flight recorder: its operations, their outcomes, and the peers that operations under way wait for.
 * Operations under way are not in the recorder: their own structs have all data, which a dump copies from there.
 */
#ifndef PCCL_DRIVE_COMM_TELEMETRY_H
#define PCCL_DRIVE_COMM_TELEMETRY_H

#include "config/params.h"
#include "core/status.h"
#include "core/text.h"
#include "telemetry/recorder.h"

#include <stdatomic.h>

struct pccl_comm_op;
struct pccl_comm_op_job;
struct pccl_communicator;
struct pccl_peer_op;
struct pccl_recorder;

/* A communicator's part. */
struct pccl_comm_telemetry {
    struct pccl_recorder *recorder; /* owned */
    struct pccl_comm_members *list; /* referenced: the list last passed to the recorder; may be NULL */
    uint64_t launches;              /* number of the latest launch */
    atomic_bool due;                /* an operation has failed, and must appear in a file */
    bool writing;                   /* a thread is about to write the file */
    bool told;                      /* the failure to write the file has been logged */
    uint64_t written_us;            /* time of the last write */
};

/* Checks that dumps can be written to recorder_dir. Returns ARGUMENT with a reason. Without the lock. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_telemetry_check(const struct pccl_params *params, struct pccl_text *reason);
/* Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_comm_telemetry_init(struct pccl_communicator *comm);
void pccl_comm_telemetry_fini(struct pccl_communicator *comm);

/* ---- reports of operations; under the lock ---- */

/* Numbers a launched operation. `op`: the machine's, or NULL if this peer is alone. */
void pccl_comm_telemetry_launched(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                  const struct pccl_peer_op *op);
/*
 * Records an operation whose outcome is known. `op`: the machine's; NULL: nothing is recorded.
 */
void pccl_comm_telemetry_decided(struct pccl_communicator *comm, const struct pccl_comm_op *operation,
                                 const struct pccl_peer_op *op);
/* Records the flows of a job that the engine has released, which no longer change. */
void pccl_comm_telemetry_released(struct pccl_communicator *comm, const struct pccl_comm_op_job *job);
enum pccl_telemetry_state pccl_comm_telemetry_state(const struct pccl_peer_op *op);
/*
 * Returns true if the operation is under way. Open operations, also receives from any sender, are not: other peers
 * cannot know them by a name.
 */
bool pccl_comm_telemetry_is_under_way(const struct pccl_comm_op *operation);
/* Notes that the failure of an operation is reported to its caller, so that a file is written. */
void pccl_comm_telemetry_failed(struct pccl_communicator *comm);

/* ---- dumps; without the lock, on any thread ---- */

/*
 * Returns the text, terminated by 0, which the caller must free (pccl_heap), and its size including the 0. Returns
 * MEMORY on failure.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_telemetry_text(struct pccl_communicator *comm, char **text, size_t *bytes);
/* Writes the text to a file. Returns MEMORY or SYSTEM, with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_telemetry_write(struct pccl_communicator *comm, const char *name,
                                                           struct pccl_text *reason);
/*
 * Call at the end of a public call. Writes the file of this peer if an operation has failed, but not more than once a
 * second (a later call does it then). Logs the first of several failures to write.
 */
void pccl_comm_telemetry_after_call(struct pccl_communicator *comm);

#endif
