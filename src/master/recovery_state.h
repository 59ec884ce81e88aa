/* State of a recovery: the report of a peer of an older boot. Part of state.h. */
#ifndef PCCL_MASTER_RECOVERY_STATE_H
#define PCCL_MASTER_RECOVERY_STATE_H

#include "core/text.h"
#include "wire/wire.h"

/* A launch as reported by a peer. */
struct pccl_reported_op {
    struct pccl_reported_op *next;
    struct pccl_msg_resume_operation fields; /* its payload and words point into `bytes`, its choice to `choice` */
    struct pccl_choice choice;
    uint32_t bytes_length;
    uint8_t bytes[];
};

/* A reported subgroup. */
struct pccl_reported_subgroup {
    struct pccl_reported_subgroup *next;
    struct pccl_instance founding;
    uint32_t length;
    uint8_t founded[];
};

/* Report of a peer of an older boot (PROTOCOL 12.2). */
struct pccl_report {
    bool begun, ended;
    uint32_t confirmed, contradicted;   /* numbers of reports that confirm and contradict its peer's membership */
    const struct pccl_report *named_by; /* last counted report */
    /* its peer's admission number in the winning epoch; 0: not a member there */
    uint64_t admitted;
    bool renumbered;                          /* its admission numbers differ from the winning epoch */
    uint64_t since_us;                        /* time of its peer's hello */
    uint64_t received_us;                     /* time of its latest message */
    struct pccl_msg_resume fields;            /* lists point to the two arrays */
    struct pccl_member *members;              /* owned, fields.members_count */
    struct pccl_id *ring;                     /* owned, fields.ring_count */
    struct pccl_reported_op *ops;             /* owned, newest first */
    uint32_t op_count, launched_count;        /* excluding aborted ones */
    struct pccl_reported_subgroup *subgroups; /* owned, newest first */
    uint32_t subgroup_count, seat_count;
    struct pccl_msg_resume_round rounds[PCCL_ROUND_KINDS]; /* without the reasons, which follow */
    struct pccl_text round_reason[PCCL_ROUND_KINDS];
    bool round_known[PCCL_ROUND_KINDS];
};

#endif
