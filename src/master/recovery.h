/*
 * A master that was started again: what members of an older boot report, and how the run goes on from that (PROTOCOL
 * 12).
 */
#ifndef PCCL_MASTER_RECOVERY_H
#define PCCL_MASTER_RECOVERY_H

#include "master/state.h"

/* One launch as a peer reports it after a restart of the master. */
struct pccl_reported_op {
    struct pccl_reported_op *next;
    struct pccl_msg_resume_operation fields; /* its payload and words point into `bytes` */
    uint32_t bytes_length;
    uint8_t bytes[];
};

/* What a peer of an older boot knows (PROTOCOL 12.2). */
struct pccl_report {
    bool begun, ended;
    uint32_t confirmed, contradicted;                      /* reports with this digest of its token, and with others */
    uint64_t since_us;                                     /* its peer said hello */
    uint64_t heard_us;                                     /* ... and something of it was heard last */
    struct pccl_msg_resume fields;                         /* its lists point to the two arrays */
    struct pccl_member *members;                           /* owned, fields.members_count */
    struct pccl_id *ring;                                  /* owned, fields.ring_count */
    struct pccl_reported_op *ops;                          /* owned, newest first */
    uint32_t op_count, launched_count;                     /* but for the aborted */
    struct pccl_msg_resume_round rounds[PCCL_ROUND_KINDS]; /* but for the words: */
    struct pccl_text round_reason[PCCL_ROUND_KINDS];
    bool round_known[PCCL_ROUND_KINDS];
};

/* Members of the run with this key come back: the master collects what they know. false: out of memory. */
bool pccl_master_begin_recovery(struct pccl_master *m, const struct pccl_id *run_key);
/* A message of a member that has not finished its report. */
void pccl_master_resume_received(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
/* Stage: goes on with the run if all that can be expected have reported, or time is up. */
void pccl_master_decide_recovery(struct pccl_master *m);
/* Newcomers wait, and nobody of the run has come back in its time. */
bool pccl_master_recovery_is_hopeless(const struct pccl_master *m);
/* This peer's report is of the highest epoch, which has it, and `of`, as members of one group. */
bool pccl_master_is_law_reporter(const struct pccl_master *m, const struct pccl_remote *remote,
                                 const struct pccl_id *of);
void pccl_master_free_report(struct pccl_master *m, struct pccl_remote *remote);

#endif
