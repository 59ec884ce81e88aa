/*
 * The object behind a pcclComm_t: a communicator or one of its groups (subgroups in the protocol). Each handle has
 * separate failures, tags and operations. A communicator contains its handle; the handle of a group may outlive the
 * communicator and then refuses every call.
 */
#ifndef PCCL_DRIVE_HANDLE_H
#define PCCL_DRIVE_HANDLE_H

#include "core/id.h"
#include "core/list.h"
#include "core/status.h"
#include "core/text.h"
#include "drive/comm_callers.h"

struct pccl_group_handle;

struct pcclComm_t {
    /* Constant: */
    uint64_t key;        /* identifies the handle in config/errors.h, and its operations in the communicator */
    uint32_t generation; /* fork generation of the process that created the handle (os/fork.h) */
    bool extended_results;
    struct pccl_group_handle *group; /* NULL in the handle of a communicator */

    struct pccl_communicator *comm; /* of a group: valid while a caller is inside; NULL once destroyed */
    uint32_t aborts;                /* number of calls to pcclAbortOperations; under the communicator's lock */
};

struct pccl_group_handle {
    struct pcclComm_t handle;

    /* Under `lock`, which may be taken while the communicator's lock is held: */
    uv_mutex_t lock;
    uv_cond_t left;  /* signaled when the last caller has left */
    uint32_t inside; /* number of callers inside */
    bool shut;       /* further callers are refused */
    bool taken;      /* a thread is destroying the group */
    bool orphan;     /* the handle is freed with its communicator */

    /* Under the communicator's lock: */
    struct pccl_list_node node;
    bool open; /* true while the state machine has a group for this handle */

    /* Constant after creation: */
    uint64_t subgroup;   /* number of the subgroup; 0: a group of one member, which the state machine does not have */
    struct pccl_id self; /* id of the group's creator; another pcclConnect gives the communicator another id */
    uint32_t rank;
    uint32_t count;
    struct pccl_id members[]; /* members in canonical order */
};

void pccl_handle_init(struct pcclComm_t *handle, struct pccl_communicator *comm, bool extended_results);

/* Begins a public call, like pccl_comm_call_begin. Returns USAGE with a reason if the handle refuses calls. */
PCCL_MUST_CHECK enum pccl_status pccl_handle_enter(struct pcclComm_t *handle, struct pccl_text *reason);
/* Ends a public call. The caller must not use the handle or its communicator afterward. */
void pccl_handle_leave(struct pcclComm_t *handle);

/* ---- groups ---- */

/* Creates a handle without a communicator. Returns NULL if out of memory. */
struct pccl_group_handle *pccl_group_handle_create(uint32_t count);
void pccl_group_handle_free(struct pccl_group_handle *group);
void pccl_group_handle_refuse_calls(struct pccl_group_handle *group);
/* Makes all further calls fail and claims the destruction. Returns false if another thread has claimed it. */
PCCL_MUST_CHECK bool pccl_group_handle_begin_destroy(struct pccl_group_handle *group);
/* Waits until no thread is inside. Called without locks. */
void pccl_group_handle_await_callers(struct pccl_group_handle *group);
/*
 * Returns the communicator for the thread that destroys the group; it stays valid until pccl_comm_call_end. Returns
 * NULL if the communicator is closed or destroyed; the handle is then freed, either now or together with the
 * communicator.
 */
struct pccl_communicator *pccl_group_handle_hold(struct pccl_group_handle *group);
/* Detaches the group from a communicator that is about to be freed and has no callers inside. */
void pccl_group_handle_abandon(struct pccl_group_handle *group);

#endif
