/*
 * A list of operations, several of them in flight, of which those are repeated that a change of the
 * members broke (PROTOCOL 8). Knows arguments of operations, and no public struct but the one of the results.
 *
 * Every peer has the lowest entries that have not succeeded in flight, as many as it wants. So the
 * lowest one of all is in flight everywhere, sooner or later, and no entry may wait for anything
 * that another peer does only after it.
 */
#ifndef PCCL_API_LIST_H
#define PCCL_API_LIST_H

#include "api/api.h"

enum pccl_api_entry_state {
    PCCL_API_ENTRY_NEW,    /* never launched */
    PCCL_API_ENTRY_FLYING, /* launched, and not known to be over */
    PCCL_API_ENTRY_AGAIN,  /* to be launched again */
    PCCL_API_ENTRY_ASIDE,  /* the members are others than it was made for: to be made anew first */
    PCCL_API_ENTRY_FAILED, /* for all, and for good */
    PCCL_API_ENTRY_FINISHED
};

struct pccl_api_entry {
    struct pccl_op_args args;
    pcclOperationInfo_t *info; /* the caller's, written when the entry has succeeded; NULL: not wanted */
    struct pccl_table_node by_tag;
    struct pccl_comm_op *operation; /* while it flies */
    enum pccl_api_entry_state state;
    uint32_t attempts;  /* launches so far */
    uint8_t collective; /* as of the first launch, like `tag`: rebuild replaces `args` without the lock */
    uint64_t tag;
    uint64_t launched_us;         /* time of the first launch */
    uint64_t deadline_us;         /* as set by the first launch; UINT64_MAX: none; 0: not launched */
    struct pccl_text *ended_with; /* owned: reason why the attempt before this one failed; NULL: none, or no memory */
};

struct pccl_api_list {
    pcclComm_t *handle;
    struct pccl_communicator *comm; /* its own */
    struct pccl_api_entry *entries;
    size_t count;
    uint32_t max_in_flight;
    bool rebuilds; /* its caller makes arguments for other members; false: the list ends where this is due */
    /* Members for operations that depend on them and name none. NULL: no such operation, or not pinned yet. */
    struct pccl_id *members;
    uint32_t member_count;

    /* The rest is list.c's. */
    struct pccl_table by_tag;
    size_t next;      /* the first that was never launched, by the order of the list */
    size_t low;       /* all before it have succeeded */
    size_t launching; /* how many are to be launched again */
    size_t aside;     /* how many are to be made anew */
    uint32_t in_flight;
    struct pccl_waiter *waiter;
    enum pccl_status status; /* why no more is launched; OK: go on */
    struct pccl_why why;
    struct pccl_text given_up; /* what the others are told then */
    pcclReduceInfo_t sum;
    struct pccl_comm_list *shown; /* owned: the part that pcclDescribeWaits reads */
    uint64_t told_us;             /* time of the last log line about repeated entries */
    /* of the communicator, when the list began: */
    uint32_t aborts;
    struct pccl_id id;
    struct pccl_epoch known; /* of its attributes */
};

/* MEMORY with a reason; pccl_api_list_fini in any case. The entries are zeroed, and the caller fills them in. */
PCCL_MUST_CHECK enum pccl_status pccl_api_list_init(struct pccl_api_list *list, pcclComm_t *handle, size_t count,
                                                    struct pccl_text *reason);
/* Releases the arguments of the entries, too. */
void pccl_api_list_fini(struct pccl_api_list *list);
/* It is neither finished nor in flight, and can be carried out by certain members only. */
bool pccl_api_list_is_to_rebuild(const struct pccl_api_entry *entry);
/*
 * Checks the list before any operation is launched. On failure fills in `why`, which the caller has zeroed. On success
 * the caller holds the lock, and calls pccl_api_list_go_on until it returns false, then pccl_api_list_end.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_list_begin(struct pccl_api_list *list, struct pccl_why *why);
/*
 * Launches and waits. Returns false when no operation of the list runs. Returns true, without the lock, if the caller
 * must make the arguments of the entries that pccl_api_list_is_to_rebuild, for `members`, and then call
 * pccl_api_list_rebuilt; only if the list `rebuilds`.
 */
PCCL_MUST_CHECK bool pccl_api_list_go_on(struct pccl_api_list *list);
/* Takes the lock. status: other than OK if the caller failed, with the reason; the list ends then. */
void pccl_api_list_rebuilt(struct pccl_api_list *list, enum pccl_status status, struct pccl_why *why);
/*
 * Releases the lock and returns the result of the list. On failure fills in `why`. list->sum is valid on success and
 * on TOO_FEW_PEERS.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_list_end(struct pccl_api_list *list, struct pccl_why *why);
/*
 * Appends a line for each list whose lowest open entry was first launched at least where_ms ago. Caller holds the lock.
 */
void pccl_api_lists_describe(const struct pccl_communicator *comm, char *text, size_t size);
/* Before the reason: which entry it is about. */
void pccl_api_list_name_entry(size_t index, struct pccl_text *reason);

#endif
