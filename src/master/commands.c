#include "master/commands.h"
#include "master/output.h"
#include "master/roster.h"
#include "master/topology.h"

/* Removes the peer and describes this in `words`. Always returns true. */
static bool put_out(struct pccl_master *m, struct pccl_remote *remote, enum pccl_refusal why, const char *reason,
                    struct pccl_text *words)
{
    pccl_text_format(words, "peer %s removed", pccl_id_str(&remote->id));
    pccl_master_remove(m, remote, why, "%s", reason);
    return true;
}

static bool drain(struct pccl_master *m, struct pccl_remote *remote, struct pccl_text *words)
{
    if (remote->state != PCCL_REMOTE_MEMBER)
        /* not a member, so no operation depends on it */
        return put_out(m, remote, PCCL_REFUSAL_DRAINED, "an operator drained it", words);
    remote->draining = true;
    pccl_text_format(words, "peer %s will leave at the next topology update, which all members must call",
                     pccl_id_str(&remote->id));
    return true;
}

static bool to_peer(struct pccl_master *m, const struct pccl_master_event *event, struct pccl_text *words)
{
    struct pccl_remote *remote = pccl_master_find(m, &event->peer);
    if (remote == NULL || remote->departing) {
        pccl_text_format(words, "no such peer: %s", pccl_id_str(&event->peer));
        return false;
    }
    return event->command == PCCL_COMMAND_EXPEL
               ? put_out(m, remote, PCCL_REFUSAL_OPERATOR, "an operator removed it", words)
               : drain(m, remote, words);
}

static bool optimize(struct pccl_master *m, struct pccl_text *words)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_tuning *tuning = &m->groups[i]->tuning;
        if (!tuning->known || m->groups[i]->ring_count < 3 || tuning->phase != PCCL_TUNING_NONE)
            continue;
        tuning->unproven = true;
        count++;
    }
    if (count == 0) {
        pccl_text_format(
            words, "nothing to search: no group has at least three members with tested links; a topology optimization, "
                   "which all members must call, tests them");
        return false;
    }
    pccl_master_mark(m, PCCL_STAGE_SEARCHES);
    pccl_text_format(words, "searching for better rings of %u groups; the next topology update adopts them", count);
    return true;
}

void pccl_master_command(struct pccl_master *m, const struct pccl_master_event *event)
{
    struct pccl_text *words = &event->result->words;
    bool done = event->command == PCCL_COMMAND_OPTIMIZE ? optimize(m, words) : to_peer(m, event, words);
    event->result->done = done;
    pccl_master_log(m, done ? PCCL_LOG_WARN : PCCL_LOG_INFO, &(struct pccl_log_fields){.event = PCCL_EVENT_COMMAND},
                    "operator command: %s", words->bytes);
}

void pccl_master_note_drain(struct pccl_master *m, struct pccl_remote *remote)
{
    if (remote->draining)
        return;
    remote->draining = remote->drains_itself = true;
    pccl_master_log(m, PCCL_LOG_INFO, &(struct pccl_log_fields){.peer = &remote->id, .event = PCCL_EVENT_COMMAND},
                    "peer %s requested its drain: it will leave at the next topology update", pccl_id_str(&remote->id));
}

bool pccl_master_has_drained(const struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->draining && pccl_master_is_living_member(m->remotes[i]))
            return true;
    return false;
}

void pccl_master_remove_drained(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->draining && pccl_master_is_living_member(m->remotes[i]))
            pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_DRAINED, "%s",
                               m->remotes[i]->drains_itself ? "it requested its drain" : "an operator drained it");
}
