/*
 * The flight recorder of a communicator: its operations, their outcomes, and the peers that unfinished operations wait
 * for. The recorder contains only finished operations; a dump copies the unfinished ones from their own structs.
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

struct pccl_comm_telemetry {
    struct pccl_recorder *recorder; /* owned */
    struct pccl_comm_members *list; /* referenced: the list last passed to the recorder; may be NULL */
    uint64_t launches;              /* number of the latest launch */
    atomic_bool due;                /* an operation has failed, and the file must be written */
    bool writing;                   /* a thread is about to write the file */
    bool told;                      /* a failure to write the file has been logged */
    uint64_t written_us;            /* time of the last write */
};

/* Checks that dumps can be written to recorder_dir. Called without the lock. Returns ARGUMENT with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_telemetry_check(const struct pccl_params *params, struct pccl_text *reason);
/* Creates the recorder. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_comm_telemetry_init(struct pccl_communicator *comm);
void pccl_comm_telemetry_fini(struct pccl_communicator *comm);

/* ---- reports of operations; under the lock ---- */

/* Records an operation whose outcome is known, unless this peer is alone. */
void pccl_comm_telemetry_decided(struct pccl_communicator *comm, const struct pccl_comm_op *operation);
/* Records the flows of a job that the engine has released, which no longer change. */
void pccl_comm_telemetry_released(struct pccl_communicator *comm, const struct pccl_comm_op_job *job);
enum pccl_telemetry_state pccl_comm_telemetry_state(const struct pccl_peer_op *op);
/*
 * Returns true if the operation is in progress. Open operations, such as receives from any sender, do not count,
 * because other peers cannot identify them.
 */
bool pccl_comm_telemetry_is_under_way(const struct pccl_comm_op *operation);
/* Requests that the file be written because a caller has received the failure of an operation. */
void pccl_comm_telemetry_failed(struct pccl_communicator *comm);

/* ---- dumps; without the lock, on any thread ---- */

/*
 * Returns the zero-terminated text and its size including the terminator. The caller must free it (pccl_heap). Returns
 * MEMORY on failure.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_telemetry_text(struct pccl_communicator *comm, char **text, size_t *bytes);
/* Writes the text to a file. Returns MEMORY or SYSTEM with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_telemetry_write(struct pccl_communicator *comm, const char *name,
                                                           struct pccl_text *reason);
/*
 * Writes this peer's file if an operation has failed, at most once a second; if it is too early, a later call writes
 * it. Called at the end of every public call. Logs only the first of several failures to write.
 */
void pccl_comm_telemetry_after_call(struct pccl_communicator *comm);

#endif
