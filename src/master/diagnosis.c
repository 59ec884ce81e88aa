/*
 * Handles the members' reports on operations (PROTOCOL 9.8): stores them, runs the comparison (verdicts.h), logs the
 * verdicts and sends them to the members. The reactions to verdicts are in diagnosis_slow_peers.c and
 * diagnosis_slow_links.c.
 */
#include "master/diagnosis_internal.h"
#include "master/goodput.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/roster.h"
#include "wire/describe.h"

#include <string.h>

/* ---- reports ---- */

/*
 * Fills `waits` with the members that have not contributed to the tiny operation whose outcome `from` waits for.
 * Returns their number, limited to PCCL_TELEMETRY_WAITS_MAX, or 0 while most members are missing, because then the
 * waiting members are merely early.
 */
static uint32_t find_absent(struct pccl_master *m, const struct pccl_remote *from,
                            const struct pccl_msg_sight *telemetry, struct pccl_seen_wait *waits)
{
    const struct pccl_operation *op = pccl_master_operation(m, from->group, &telemetry->instance, false);
    uint32_t count = 0, absent = 0;
    if (op == NULL || op->decided || op->parts == NULL || !op->tiny)
        return 0;
    struct pccl_participants all = pccl_master_participants(from->group, op);
    for (uint32_t i = 0; i < all.count && i < op->part_count; i++) {
        if (op->parts[i].done)
            continue;
        absent++;
        if (count < PCCL_TELEMETRY_WAITS_MAX)
            waits[count++] = (struct pccl_seen_wait){
                .peer = all.members[i]->id, .what = PCCL_WAIT_READY, .for_ms = telemetry->waits[0].for_ms};
    }
    return 2 * absent <= all.count ? count : 0;
}

void pccl_master_telemetry(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sight *telemetry)
{
    struct pccl_seen_wait absent[PCCL_TELEMETRY_WAITS_MAX];
    struct pccl_msg_sight checked = *telemetry;
    pccl_goodput_take(m, from, telemetry);
    if (from->witness == NULL)
        from->witness = pccl_allocate(&m->memory, sizeof *from->witness);
    if (from->witness == NULL)
        return; /* the comparison uses the other reports */
    if (telemetry->waits_count > 0 && telemetry->waits[0].what == PCCL_WAIT_OUTCOME) {
        if (!pccl_master_concerns(m, from, &telemetry->instance))
            return;
        checked.waits_count = find_absent(m, from, telemetry, absent);
        checked.waits = absent;
    }
    from->witness->id = from->id;
    pccl_witness_take(from->witness, m->now_us, &checked);
    from->group->has_news = true;
    pccl_master_mark(m, PCCL_STAGE_VERDICTS);
}

void pccl_master_show_verdicts(struct pccl_master *m, struct pccl_peer_group *group)
{
    if (pccl_verdicts_at(&group->verdicts, 0) == NULL)
        return;
    group->verdicts_unsent = true;
    pccl_master_mark(m, PCCL_STAGE_VERDICTS);
}

void pccl_master_forget_witness(struct pccl_master *m, struct pccl_remote *remote)
{
    struct pccl_peer_group *group = remote->group;
    pccl_goodput_forget(m, remote);
    pccl_release(&m->memory, remote->witness, sizeof *remote->witness);
    remote->witness = NULL;
    if (group == NULL || !pccl_verdicts_forget(&group->verdicts, &remote->id))
        return;
    group->verdicts_unsent = true;
    pccl_master_mark(m, PCCL_STAGE_VERDICTS);
}

void pccl_master_drop_verdicts(struct pccl_master *m, struct pccl_peer_group *group)
{
    pccl_goodput_drop(m, group);
    pccl_verdicts_free(&group->verdicts, &m->memory);
}

/* ---- comparisons ---- */

/* Compares the group's reports. Returns true if a verdict began or ended. */
static bool compare(struct pccl_master *m, struct pccl_peer_group *group)
{
    group->verdicts.judged_us = m->now_us; /* even if no comparison is possible */
    if (group->ring_count == 0)
        return false; /* all reporters have left */
    struct pccl_witnesses witnesses;
    struct pccl_reported reported = {m, group};
    bool changed = false;
    if (pccl_master_gather_witnesses(&reported, &witnesses))
        changed = pccl_verdicts_judge(&group->verdicts, &m->memory, &witnesses, m->now_us, &m->last_verdict);
    pccl_master_drop_witnesses(&reported, &witnesses);
    return changed;
}

/* ---- messages ---- */

static bool update_action(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_verdict_entry *entry)
{
    struct pccl_text words;
    if (entry->class == PCCL_VERDICT_SLOW_LINK)
        pccl_master_describe_slow_link_action(m, group, entry, &words);
    else if (!pccl_master_describe_slow_peer_action(m, group, entry, &words))
        pccl_text_format(&words,
                         "none: waiting peers can abort or set a deadline; a silent peer is removed after silence_ms");
    if (words.length == entry->action.length && memcmp(words.bytes, entry->action.bytes, words.length) == 0)
        return false;
    entry->action = words;
    return true;
}

/* Updates the descriptions of the actions taken on all verdicts. Returns true if any has changed. */
static bool update_actions(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_verdict_entry *entry;
    bool changed = false;
    for (uint32_t n = 0; (entry = pccl_verdicts_or_finding_at(&group->verdicts, n)) != NULL; n++)
        changed = update_action(m, group, entry) || changed;
    return changed;
}

static void log_verdict(struct pccl_master *m, const struct pccl_verdict_entry *entry)
{
    struct pccl_text words;
    pccl_text_format(&words, entry->finding ? "finding: " : "");
    if (entry->holds) {
        pccl_describe_verdict(&words, (uint8_t)entry->class, &entry->peer, &entry->other, entry->evidence.bytes);
        pccl_text_append(&words, "; action: %s", entry->action.bytes);
    } else {
        pccl_describe_verdict(&words, (uint8_t)entry->class, &entry->peer, &entry->other, "resolved");
        pccl_text_append(&words, " after %s", pccl_duration_str(m->now_us - entry->since_us));
    }
    enum pccl_log_event event = entry->finding ? entry->holds ? PCCL_EVENT_FINDING_BEGAN : PCCL_EVENT_FINDING_ENDED
                                : entry->holds ? PCCL_EVENT_VERDICT_BEGAN
                                               : PCCL_EVENT_VERDICT_ENDED;
    pccl_master_log(m, entry->holds && !entry->finding ? PCCL_LOG_WARN : PCCL_LOG_INFO,
                    &(struct pccl_log_fields){.peer = &entry->peer, .event = event}, "%s", words.bytes);
}

static struct pccl_bytes cut(const struct pccl_text *text)
{
    struct pccl_bytes bytes = pccl_bytes_of_text(text);
    bytes.length = bytes.length < PCCL_VERDICT_TEXT_MAX ? bytes.length : PCCL_VERDICT_TEXT_MAX;
    return bytes;
}

static void send_verdicts(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_verdict verdicts[PCCL_VERDICTS_MAX];
    uint32_t count = 0;
    for (struct pccl_verdict_entry *entry; (entry = pccl_verdicts_at(&group->verdicts, count)) != NULL; count++)
        verdicts[count] = (struct pccl_verdict){.number = entry->number,
                                                .class = (uint8_t)entry->class,
                                                .peer = entry->peer,
                                                .other = entry->other,
                                                .for_ms = (uint32_t)((m->now_us - entry->since_us) / 1000),
                                                .evidence = cut(&entry->evidence),
                                                .action = cut(&entry->action)};
    struct pccl_msg msg = {.type = PCCL_MSG_verdicts, .as.verdicts = {.verdicts = verdicts, .verdicts_count = count}};
    for (uint32_t i = 0; i < group->ring_count; i++)
        if (pccl_master_is_living_member(group->ring[i]) && !group->ring[i]->unwelcomed)
            pccl_master_send(m, group->ring[i], &msg, 0);
    group->verdicts_unsent = false;
}

static void publish(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_verdict_entry over;
    while (pccl_verdicts_take_over(&group->verdicts, &over)) {
        log_verdict(m, &over);
        pccl_master_slow_link_is_over(m, group, &over);
    }
    for (uint32_t n = 0;; n++) {
        struct pccl_verdict_entry *entry = pccl_verdicts_or_finding_at(&group->verdicts, n);
        if (entry == NULL)
            break;
        if (entry->sent)
            continue;
        entry->sent = true;
        m->tally.verdicts[entry->class] += !entry->finding;
        log_verdict(m, entry);
    }
    send_verdicts(m, group);
}

/* While suspicions exist, compares even without new reports, because a hanging operation may have ended. */
void pccl_master_decide_verdicts(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_peer_group *group = m->groups[i];
        uint64_t due_us = group->verdicts.judged_us + PCCL_VERDICTS_EVERY_US;
        bool wanted = group->has_news || group->verdicts.count > 0;
        if (wanted && m->now_us >= due_us) {
            group->has_news = false;
            bool changed = compare(m, group);
            pccl_master_leave_slow_links(m, group);
            group->verdicts_unsent = update_actions(m, group) || changed || group->verdicts_unsent;
            pccl_master_expel_slow_peer(m, group);
        }
        if (group->verdicts_unsent)
            publish(m, group);
        if (group->has_news || group->verdicts.count > 0)
            pccl_master_arm(m, group->verdicts.judged_us + PCCL_VERDICTS_EVERY_US);
    }
}
