/*
 * List of operations. Runs several of them at a time and repeats those that a change of members has interrupted
 * (PROTOCOL 8).
 *
 * Every peer keeps its lowest unfinished entries in flight, as many as its limit allows. Therefore the lowest entry
 * that is unfinished on any peer is eventually in flight on every peer. An entry must not depend on an action that a
 * peer takes only after that entry.
 */
#ifndef PCCL_API_LIST_H
#define PCCL_API_LIST_H

#include "api/api.h"

enum pccl_api_entry_state {
    PCCL_API_ENTRY_NEW,    /* never launched */
    PCCL_API_ENTRY_FLYING, /* launched; its outcome is not known yet */
    PCCL_API_ENTRY_AGAIN,  /* waits for another launch */
    PCCL_API_ENTRY_ASIDE,  /* its arguments are for former members and must be rebuilt before a launch */
    PCCL_API_ENTRY_FAILED, /* failed permanently for all members */
    PCCL_API_ENTRY_FINISHED
};

struct pccl_api_entry {
    struct pccl_op_args args;
    pcclOperationInfo_t *info; /* the caller's info struct, written when the entry has succeeded; may be NULL */
    struct pccl_table_node by_tag;
    struct pccl_comm_op *operation;
    enum pccl_api_entry_state state;
    uint32_t attempts;
    uint8_t collective; /* collective of the first launch; like `tag`, kept because a rebuild replaces `args` without
                           the lock */
    uint64_t tag;
    uint64_t launched_us;         /* time of the first launch */
    uint64_t deadline_us;         /* set by the first launch; UINT64_MAX: no deadline; 0: not launched */
    struct pccl_text *ended_with; /* owned: reason for the last failed attempt; NULL: no failure, or no memory */
};

struct pccl_api_list {
    pcclComm_t *handle;
    struct pccl_communicator *comm;
    struct pccl_api_entry *entries;
    size_t count;
    uint32_t max_in_flight;
    bool rebuilds; /* true if the caller rebuilds arguments for other members; otherwise a change of members ends the
                      list */
    /*
     * Members for operations that depend on the members but do not list them. NULL if there is no such operation, or
     * not set yet.
     */
    struct pccl_id *members;
    uint32_t member_count;

    /* Private to list.c: */
    struct pccl_table by_tag;
    size_t next;      /* index of the first entry that was never launched */
    size_t low;       /* index of the first entry that has not succeeded */
    size_t launching; /* number of entries that wait for another launch */
    size_t aside;     /* number of entries to rebuild */
    uint32_t in_flight;
    struct pccl_waiter *waiter;
    enum pccl_status status; /* reason to stop launching; OK: continue */
    struct pccl_why why;
    struct pccl_text given_up; /* reason for the other members once launching has stopped */
    pcclReduceInfo_t sum;
    struct pccl_comm_list *shown; /* owned: part of the list that pcclDescribeWaits reads */
    uint64_t logged_us;           /* time of the last log line about repeated entries */
    /* State of the communicator when the list began: */
    uint32_t aborts;
    struct pccl_id id;
    struct pccl_epoch known; /* epoch of its attributes */
};

/*
 * Initializes a list with zeroed entries for the caller to fill in. Returns MEMORY with a reason. The caller must call
 * pccl_api_list_fini in any case.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_list_init(struct pccl_api_list *list, pcclComm_t *handle, size_t count,
                                                    struct pccl_text *reason);
/* Frees the list and the arguments of its entries. */
void pccl_api_list_fini(struct pccl_api_list *list);
/* Returns true if the entry depends on the members and is neither finished nor in flight. */
bool pccl_api_list_is_to_rebuild(const struct pccl_api_entry *entry);
/*
 * Checks the list before any operation is launched. On success the caller holds the lock; it must call
 * pccl_api_list_continue until that returns false, and then pccl_api_list_end. On failure fills in `why`, which the
 * caller has zeroed.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_list_begin(struct pccl_api_list *list, struct pccl_why *why);
/*
 * Launches operations and waits for them. Returns false when no operation of the list is running. If the list
 * `rebuilds`, may return true with the lock released: the caller must then rebuild, for `members`, the arguments of the
 * entries for which pccl_api_list_is_to_rebuild returns true, and call pccl_api_list_rebuilt.
 */
PCCL_MUST_CHECK bool pccl_api_list_continue(struct pccl_api_list *list);
/*
 * Continues after rebuilding; takes the lock. A status other than OK means that rebuilding failed for the reason in
 * `why`, and ends the list.
 */
void pccl_api_list_rebuilt(struct pccl_api_list *list, enum pccl_status status, struct pccl_why *why);
/*
 * Releases the lock and returns the result of the list. On failure fills in `why`. list->sum is valid on success and
 * on TOO_FEW_PEERS.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_list_end(struct pccl_api_list *list, struct pccl_why *why);
/*
 * Appends a line for each list whose first unfinished entry was first launched at least where_ms ago. Caller holds the
 * lock.
 */
void pccl_api_lists_describe(const struct pccl_communicator *comm, char *text, size_t size);
/* Prefixes the reason with the index of the entry. */
void pccl_api_list_name_entry(size_t index, struct pccl_text *reason);

#endif
