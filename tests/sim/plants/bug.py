"""What the tables are written with: a bug, and pieces that several of them need."""
import collections

# scenarios: that must fail, "name=CODE" with this code; last: the last seed to be tried, if it needs more than the
# others; options: of the simulator
Bug = collections.namedtuple("Bug", "name why seeds scenarios edits last options", defaults=(0, []))

BLIND_USES = ["--mute-uses"]  # uses count up by one: that looks at names, the others at what the names are for
# Blinds the checks that nobody who was removed comes back.
BLIND_GONE = [
    ("tests/sim/check_members.c", "check_gone(sim, peer);", ""),
    ("tests/sim/check_members.c", "sim_check_roll(sim, master);", ""),
]
# A peer that reports after the recovery is put back into its ring.
TAKE_BACK = [
    ("src/master/recovery_reports.c",
     "void pccl_master_resume_received(",
     """
#include "master/rounds.h"
#include "master/membership.h"

static void take_back(struct pccl_master *m, struct pccl_remote *late)
{
    struct pccl_peer_group *group = pccl_master_group(m, late->group_number, true);
    const struct pccl_member *itself = pccl_master_reported_member(late->report, &late->id);
    late->admitted = itself != NULL ? itself->admitted : 0;
    if (group == NULL || !pccl_master_join_ring(m, group, late, NULL))
        return;
    struct pccl_member added = pccl_master_as_member(late);
    bool missed = late->report->fields.update < m->rounds[PCCL_ROUND_UPDATE];
    struct pccl_text why;
    pccl_text_format(&why, "it came late");
    late->decision_known = group->decisions;
    pccl_master_next_epoch(m, &added, 1, NULL, 0, &why);
    if (missed)
        pccl_master_answer_round(m, late, PCCL_ROUND_UPDATE);
    uint32_t count = m->member_count;
    struct pccl_member *members = pccl_master_member_list(m);
    struct pccl_msg_epoch_change change = {.epoch = m->epoch, .full = 1, .added = members, .added_count = count};
    group->changed = true;
    pccl_master_send_epoch(m, late, &change);
    group->changed = false;
    pccl_release(&m->memory, members, count * sizeof *members);
    struct pccl_msg msg = {.type = PCCL_MSG_recovered,
                           .as.recovered = {.decisions = group->decisions}};
    pccl_master_send(m, late, &msg, 0);
    pccl_master_advance_stable(m, group);
    pccl_master_free_report(m, late);
}

void pccl_master_resume_received("""),
    ("src/master/recovery_reports.c",
     "PCCL_LINK_REFUSED}); pccl_master_mark(m, PCCL_STAGE_RECOVERY);",
     "PCCL_LINK_REFUSED}); if (!m->recovering) take_back(m, from); else pccl_master_mark(m, PCCL_STAGE_RECOVERY);"),
]
