/* The state of a recovery: what a peer of an older boot has reported. Part of state.h. */
#ifndef PCCL_MASTER_RECOVERY_STATE_H
#define PCCL_MASTER_RECOVERY_STATE_H

#include "core/text.h"
#include "wire/wire.h"

/* One launch as a peer reports it after a restart of the master. */
struct pccl_reported_op {
    struct pccl_reported_op *next;
    struct pccl_msg_resume_operation fields; /* its payload and words point into `bytes`, its choice to `choice` */
    struct pccl_choice choice;
    uint32_t bytes_length;
    uint8_t bytes[];
};

/* One subgroup that it has. */
struct pccl_reported_subgroup {
    struct pccl_reported_subgroup *next;
    struct pccl_instance founding;
    uint32_t length;
    uint8_t founded[];
};

/* What a peer of an older boot knows (PROTOCOL 12.2). */
struct pccl_report {
    bool begun, ended;
    uint32_t confirmed, contradicted;         /* reports that say this of its peer, and another thing */
    const struct pccl_report *named_by;       /* the report that was counted last */
    uint64_t admitted;                        /* its peer's number in the law; 0: it is not in it */
    bool renumbered;                          /* the law has other numbers than it says */
    uint64_t since_us;                        /* its peer said hello */
    uint64_t heard_us;                        /* ... and something of it was heard last */
    struct pccl_msg_resume fields;            /* its lists point to the two arrays */
    struct pccl_member *members;              /* owned, fields.members_count */
    struct pccl_id *ring;                     /* owned, fields.ring_count */
    struct pccl_reported_op *ops;             /* owned, newest first */
    uint32_t op_count, launched_count;        /* but for the aborted */
    struct pccl_reported_subgroup *subgroups; /* owned, newest first */
    uint32_t subgroup_count, seat_count;
    struct pccl_msg_resume_round rounds[PCCL_ROUND_KINDS]; /* but for the words: */
    struct pccl_text round_reason[PCCL_ROUND_KINDS];
    bool round_known[PCCL_ROUND_KINDS];
};

#endif
