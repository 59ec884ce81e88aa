/* State of membership: strangers, queues of newcomers, and removed peers. Part of state.h. */
#ifndef PCCL_MASTER_MEMBERSHIP_STATE_H
#define PCCL_MASTER_MEMBERSHIP_STATE_H

#include "core/list.h"
#include "core/table.h"
#include "core/text.h"
#include "master/master.h"

/* A connection without an accepted hello. */
struct pccl_stranger {
    struct pccl_table_node by_conn;
    struct pccl_stranger *older, *newer;
    pccl_conn conn;
    struct pccl_address address;
    uint64_t opened_us;
    uint32_t pass; /* pass of its hello's token */
};

/* A removed peer, kept so that it receives the reason if it returns. */
struct pccl_removed {
    struct pccl_id id, token;
    uint64_t at_us;
    char name[PCCL_NAME_MAX + 1]; /* empty if it had no name */
    enum pccl_refusal why;
    struct pccl_text reason;
};

/* A peer that claims to be a member of a run older than the present one. */
struct pccl_claim {
    struct pccl_id lineage, peer;
};

/* Newcomers that wait for admission to one group, in order of arrival. */
struct pccl_queue {
    struct pccl_table_node by_number;
    uint32_t number, count;
    struct pccl_list_node newcomers; /* linked by remote->in_queue */
    struct pccl_list_node stale;     /* linked in master->stale_queues if the queue has changed */
    uint64_t due_us;                 /* time at which its first newcomer expires; UINT64_MAX: never */
};

/* An address (IPv6: a network) from which newcomers wait. */
struct pccl_site {
    struct pccl_table_node by_address;
    struct pccl_address address;
    uint32_t count;        /* newcomers from here that wait for admission */
    uint32_t warming_here; /* newcomers from here that warm up, in the queue being handled */
};

#endif
