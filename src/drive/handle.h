/*
 * What callers hold as pcclComm_t: a communicator, or one of its groups (a subgroup of the
 * protocol). Each handle has failures, tags and operations of its own. That of a communicator lies
 * in it; that of a group may survive its communicator, and then refuses everything.
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
    /* constant */
    uint64_t key;        /* identifies it in errors.h, and its operations among those of the communicator */
    uint32_t generation; /* of the process: os/fork.h */
    bool extended_results;
    struct pccl_group_handle *group; /* NULL: it is a communicator's */

    struct pccl_communicator *comm; /* of a group: a caller inside may rely on it; NULL: it is destroyed */
    uint32_t aborts;                /* under the communicator's lock: the number of calls of pcclAbortOperations */
};

struct pccl_group_handle {
    struct pcclComm_t handle;

    /* under `lock`, which may be taken inside the communicator's */
    uv_mutex_t lock;
    uv_cond_t left;  /* nobody is inside any more */
    uint32_t inside; /* callers */
    bool shut;       /* no more may enter */
    bool taken;      /* a thread is destroying it */
    bool orphan;     /* it is freed with its communicator */

    /* under the communicator's lock */
    struct pccl_list_node node; /* of its communicator */
    bool open;                  /* the machine has it, for this handle */

    /* constant from its founding on */
    uint64_t subgroup;   /* its name in the machine; 0: it has one member only, and the machine does not know it */
    struct pccl_id self; /* who founded it; after another pcclConnect the communicator has another id */
    uint32_t rank;
    uint32_t count;
    struct pccl_id members[]; /* in canonical order */
};

void pccl_handle_init(struct pcclComm_t *handle, struct pccl_communicator *comm, bool extended_results);

/* A public call begins, as pccl_comm_call_begin. Not OK: USAGE, with a reason. */
PCCL_MUST_CHECK enum pccl_status pccl_handle_enter(struct pcclComm_t *handle, struct pccl_text *reason);
/* It ends: neither the handle nor its communicator must be touched any more. */
void pccl_handle_leave(struct pcclComm_t *handle);

/* ---- of a group ---- */

/* NULL: out of memory. It has no communicator yet. */
struct pccl_group_handle *pccl_group_handle_create(uint32_t count);
void pccl_group_handle_free(struct pccl_group_handle *group);
/* Lets no more calls in. */
void pccl_group_handle_refuse_calls(struct pccl_group_handle *group);
/* The same, and claims the destruction for the caller. false: another thread has claimed it. */
PCCL_MUST_CHECK bool pccl_group_handle_begin_destroy(struct pccl_group_handle *group);
/* Waits until no thread is inside. Without locks. */
void pccl_group_handle_await_callers(struct pccl_group_handle *group);
/*
 * For the thread that destroys it: the communicator, which stays until pccl_comm_call_end. NULL: it
 * is destroyed or closed, and the handle is freed, now or with it.
 */
struct pccl_communicator *pccl_group_handle_hold(struct pccl_group_handle *group);
/* The communicator is about to be freed, and no caller is in it. */
void pccl_group_handle_abandon(struct pccl_group_handle *group);

#endif
