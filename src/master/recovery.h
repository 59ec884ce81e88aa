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

/*
 * Two recoveries that do not know of each other (the second with members that slept through the first, after T_alone)
 * must not make the same epoch with different contents: if both meet again, one has to be the higher. So inc takes a
 * random step.
 */
enum { PCCL_INC_SPREAD = 1 << 16 };

/* ---- recovery.c: the doors ---- */

/* Members of the run with this key come back: the master collects what they know. false: out of memory. */
bool pccl_master_begin_recovery(struct pccl_master *m, const struct pccl_id *run_key);
/* Stage: goes on with the run if all that can be expected have reported, or time is up. */
void pccl_master_decide_recovery(struct pccl_master *m);
/* Newcomers wait, and nobody of the run has come to the end of a report, though all had the time for it. */
bool pccl_master_recovery_is_hopeless(const struct pccl_master *m);

/* ---- recovery_reports.c: reports, and which are believed ---- */

/* A message of a member that has not finished its report. */
void pccl_master_resume_received(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
void pccl_master_free_report(struct pccl_master *m, struct pccl_remote *remote);
/* Who names epochs that cannot be, and who does not come to the end of a report in time. */
void pccl_master_expel_bad_reporters(struct pccl_master *m);
/* Whose token is another one to the others than its own. false: there was nobody, and the reports can be law. */
PCCL_MUST_CHECK bool pccl_master_expel_impostors(struct pccl_master *m);
/* Who names rounds or outcomes that cannot be. false: there was nobody. */
PCCL_MUST_CHECK bool pccl_master_expel_miscounters(struct pccl_master *m);
/*
 * Whose member list has other numbers of admission than most say; notes what the law says. false:
 * there was nobody.
 */
PCCL_MUST_CHECK bool pccl_master_expel_misnumberers(struct pccl_master *m);

/* ---- recovery_law.c: what reports say, and which one is law ---- */

/* Its report is complete, and it is not leaving. */
bool pccl_master_has_reported(const struct pccl_remote *remote);
/* Of all epochs that this report names: an answered round may be of a later one than its sender has heard of. */
uint32_t pccl_master_highest_inc(const struct pccl_report *report);
/* As this report has it; NULL: it has no such member. */
const struct pccl_member *pccl_master_reported_member(const struct pccl_report *report, const struct pccl_id *id);
/* Whose report is of the highest epoch; NULL: nobody has reported. */
struct pccl_remote *pccl_master_highest_report(const struct pccl_master *m);
/* This peer's report is of the highest epoch, which has it, and `of`, as members of one group. */
bool pccl_master_is_law_reporter(const struct pccl_master *m, const struct pccl_remote *remote,
                                 const struct pccl_id *of);

/* ---- recovery_rebuild.c: groups and rounds from the reports ---- */

/* Who is not in the list that is law, or has not reported in time. */
void pccl_master_expel_removed(struct pccl_master *m, const struct pccl_report *law);
/* Which rounds are open. */
void pccl_master_rebuild_rounds(struct pccl_master *m);
/* Who has reported becomes a member again, in its group's ring. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_rebuild_groups(struct pccl_master *m);
/* How the last round of each kind ended, for each group. */
void pccl_master_rebuild_answers(struct pccl_master *m, const struct pccl_report *law);
/* Those answers, for the members that have not heard them. */
void pccl_master_tell_missed_rounds(struct pccl_master *m);

/* ---- recovery_operations.c: operations from the reports ---- */

/* The subgroups that members report, or whose founding. */
void pccl_master_rebuild_subgroups(struct pccl_master *m);
/* What members report as ended (outcomes), and then what is under way. */
void pccl_master_merge_reports(struct pccl_master *m, bool outcomes);
/* Outcomes that were reported get a number of this boot; what all have finished is committed. */
void pccl_master_announce_reported(struct pccl_master *m, struct pccl_peer_group *group);

#endif
