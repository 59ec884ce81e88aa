/*
 * A communicator's flight recorder: what its operations were, how they ended, and whom those under
 * way wait for. Operations under way are not in the recorder: their own structs have all that is
 * known of them, and a look at the whole copies it from there.
 */
#ifndef PCCL_DRIVE_COMM_SIGHT_H
#define PCCL_DRIVE_COMM_SIGHT_H

#include "config/params.h"
#include "core/status.h"
#include "core/text.h"
#include "sight/recorder.h"

#include <stdatomic.h>

struct pccl_comm_op;
struct pccl_comm_op_job;
struct pccl_communicator;
struct pccl_peer_op;
struct pccl_recorder;

/* A communicator's part. */
struct pccl_comm_sight {
    struct pccl_recorder *recorder; /* owned */
    struct pccl_comm_members *list; /* referred to: the list that the recorder was given last; NULL: none */
    uint64_t launches;              /* the number of the latest */
    atomic_bool due;                /* an operation has failed, and is to be seen in a file */
    bool writing;                   /* a thread is about to write it */
    bool told;                      /* that it could not be written */
    uint64_t written_us;            /* the last time */
};

/* Whether dumps can be written where they are wanted. ARGUMENT with a reason. Without the lock. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_sight_check(const struct pccl_params *params, struct pccl_text *reason);
/* false: out of memory. */
PCCL_MUST_CHECK bool pccl_comm_sight_init(struct pccl_communicator *comm);
void pccl_comm_sight_fini(struct pccl_communicator *comm);

/* ---- what operations tell; under the lock ---- */

/* It has been launched. op: the machine's; NULL: this peer is alone. */
void pccl_comm_sight_launched(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                              const struct pccl_peer_op *op);
/* Its outcome is known. op: the machine's; NULL: it is not known to be one, and nothing is recorded. */
void pccl_comm_sight_decided(struct pccl_communicator *comm, const struct pccl_comm_op *operation,
                             const struct pccl_peer_op *op);
/* The engine has released the job, whose flows change no more. */
void pccl_comm_sight_released(struct pccl_communicator *comm, const struct pccl_comm_op_job *job);
enum pccl_sight_state pccl_comm_sight_state(const struct pccl_peer_op *op);
/* An open receive is not: it has no name by which others could know it. */
bool pccl_comm_sight_is_under_way(const struct pccl_comm_op *operation);
/* Its caller learns that it has failed. */
void pccl_comm_sight_failed(struct pccl_communicator *comm);

/* ---- dumps; without the lock, from any thread ---- */

/* The text, which is the caller's to free (pccl_heap), with its bytes. MEMORY. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_sight_text(struct pccl_communicator *comm, char **text, size_t *bytes);
/* The same to a file. MEMORY or SYSTEM, with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_sight_write(struct pccl_communicator *comm, const char *name,
                                                       struct pccl_text *reason);
/*
 * To be called when a public call ends: writes the file of this peer, if an operation has failed, and
 * it was not written within the last second (then a later call does). What goes wrong is logged, once.
 */
void pccl_comm_sight_after_call(struct pccl_communicator *comm);

#endif
