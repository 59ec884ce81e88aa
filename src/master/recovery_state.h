/* State of a recovery: the report of a peer of an older boot. Part of state.h. */
#ifndef PCCL_MASTER_RECOVERY_STATE_H
#define PCCL_MASTER_RECOVERY_STATE_H

#include "core/text.h"
#include "wire/wire.h"

/* A launched operation as reported by a peer. */
struct pccl_reported_op {
    struct pccl_reported_op *next;
    struct pccl_msg_resume_operation fields; /* payload and reason point into `bytes`, the choice to `choice` */
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
    uint32_t confirmed, contradicted;   /* number of reports that confirm and contradict the peer's token or number */
    const struct pccl_report *named_by; /* report that last counted for or against this peer */
    /* the peer's admission number in the winning epoch; 0 if it is not a member there */
    uint64_t admitted;
    bool renumbered;                          /* true if admission numbers in it differ from the winning epoch */
    uint64_t since_us;                        /* time of the peer's hello */
    uint64_t received_us;                     /* time of the latest message of the report */
    struct pccl_msg_resume fields;            /* its lists are in the two arrays */
    struct pccl_member *members;              /* owned, fields.members_count */
    struct pccl_id *ring;                     /* owned, fields.ring_count */
    struct pccl_reported_op *ops;             /* owned, newest first */
    uint32_t op_count, launched_count;        /* launched_count excludes aborted ones */
    struct pccl_reported_subgroup *subgroups; /* owned, newest first */
    uint32_t subgroup_count, seat_count;
    struct pccl_msg_resume_round rounds[PCCL_ROUND_KINDS]; /* without the reasons, which are in round_reason */
    struct pccl_text round_reason[PCCL_ROUND_KINDS];
    bool round_known[PCCL_ROUND_KINDS];
};

#endif
