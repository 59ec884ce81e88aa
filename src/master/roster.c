/* Peers by id and groups by number; addresses of peers, departures, and the reasons for past removals. */
#include "master/output.h"
#include "master/membership.h"
#include "master/roster.h"

#include <stdarg.h>

/* ---- peers ---- */

struct pccl_remote *pccl_master_find(const struct pccl_master *m, const struct pccl_id *id)
{
    struct pccl_table_node *node = pccl_table_find(&m->by_id, pccl_id_hash(&m->hash, id));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_remote *remote = PCCL_CONTAINER_OF(node, struct pccl_remote, by_id);
        if (pccl_id_equal(&remote->id, id))
            return remote;
    }
    return NULL;
}

uint32_t pccl_master_addresses(const struct pccl_remote *remote, struct pccl_address *addresses)
{
    uint32_t count = 0, most = remote->state == PCCL_REMOTE_PENDING ? PCCL_NEWCOMER_ADDRESSES_MAX : PCCL_CANDIDATES_MAX;
    bool observed_listed = false;
    for (uint32_t i = 0; i < remote->candidate_count && count < most - 1; i++) {
        addresses[count++] = remote->candidates[i];
        observed_listed = observed_listed || pccl_address_equal(&remote->candidates[i], &remote->observed);
    }
    if (!observed_listed)
        /* the address that the master sees, which is the right one if the peer does not know its own */
        addresses[count++] = remote->observed;
    return count;
}

/* Returns the kind of event that a departure is. */
static enum pccl_log_event event_of(const struct pccl_remote *remote, enum pccl_refusal why)
{
    if (remote->state == PCCL_REMOTE_PENDING)
        return PCCL_EVENT_NEWCOMER_GONE;
    switch (why) {
    case PCCL_REFUSAL_LEFT: return PCCL_EVENT_LEFT;
    case PCCL_REFUSAL_DRAINED: return PCCL_EVENT_DRAINED;
    case PCCL_REFUSAL_GONE:
    case PCCL_REFUSAL_SILENT: return PCCL_EVENT_LOST;
    case PCCL_REFUSAL_SLOW:
    case PCCL_REFUSAL_OPERATOR: return PCCL_EVENT_EXPELLED;
    default: return PCCL_EVENT_REMOVED;
    }
}

void pccl_master_remove(struct pccl_master *m, struct pccl_remote *remote, enum pccl_refusal why, const char *format,
                        ...)
{
    PCCL_ASSERT((unsigned)why < PCCL_TALLY_REASONS);
    if (remote->departing)
        return;
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(&remote->reason, format, arguments);
    va_end(arguments);
    pccl_names_add_to(&m->names, &remote->reason); /* the removed peer may not have received these names */
    remote->departing = true;
    remote->why = why;
    m->departing_count++;
    (remote->state == PCCL_REMOTE_PENDING ? m->tally.newcomers_removed : m->tally.members_removed)[why]++;
    pccl_master_mark(m, PCCL_STAGE_DEPARTURES);
    pccl_master_unqueue(m, remote);
    bool planned = why == PCCL_REFUSAL_LEFT || why == PCCL_REFUSAL_SHUTDOWN || why == PCCL_REFUSAL_DRAINED;
    pccl_master_log(m, planned ? PCCL_LOG_INFO : PCCL_LOG_WARN,
                    &(struct pccl_log_fields){.peer = &remote->id,
                                              .reason = remote->reason.bytes,
                                              .cause = remote->state == PCCL_REMOTE_MEMBER ? PCCL_LOG_CAUSE_MEMBERSHIP
                                                                                           : PCCL_LOG_CAUSE_NEWCOMER,
                                              .event = event_of(remote, why)},
                    "peer %s departs: %s", pccl_id_str(&remote->id), remote->reason.bytes);
    pccl_master_arm(m, m->now_us);
}

/* ---- removed peers ---- */

void pccl_master_note_removed(struct pccl_master *m, const struct pccl_remote *remote)
{
    PCCL_ASSERT(remote->departing);
    if (remote->why == PCCL_REFUSAL_LEFT)
        return;
    uint32_t place = (uint32_t)(m->gone_count % PCCL_REMOVED_MAX);
    struct pccl_removed *gone = pccl_grow(&m->memory, m->gone, &m->gone_capacity, place + 1, sizeof *gone);
    if (gone == NULL)
        return; /* it will receive a refusal without the reason */
    m->gone = gone;
    gone[place] = (struct pccl_removed){
        .id = remote->id, .token = remote->token, .at_us = m->now_us, .why = remote->why, .reason = remote->reason};
    pccl_names_copy(&m->names, &remote->id, gone[place].name);
    m->gone_count++;
}

const struct pccl_removed *pccl_master_find_removed(const struct pccl_master *m, const struct pccl_msg_hello *hello)
{
    for (uint32_t i = 0; i < PCCL_REMOVED_MAX && i < m->gone_count; i++) {
        const struct pccl_removed *gone = &m->gone[i];
        if (pccl_id_equal(&gone->id, &hello->peer) && pccl_id_equal_secret(&gone->token, &hello->token))
            return gone;
    }
    return NULL;
}

/* ---- groups ---- */

struct pccl_peer_group *pccl_master_group(struct pccl_master *m, uint32_t number, bool create)
{
    struct pccl_table_node *node = pccl_table_find(&m->groups_by_number, number);
    if (node != NULL)
        return PCCL_CONTAINER_OF(node, struct pccl_peer_group, by_number);
    if (!create || m->group_count >= PCCL_GROUPS_MAX)
        return NULL;
    struct pccl_peer_group **groups =
        pccl_grow(&m->memory, m->groups, &m->group_capacity, m->group_count + 1, sizeof *groups);
    if (groups == NULL)
        return NULL;
    m->groups = groups;
    struct pccl_peer_group *group = pccl_allocate(&m->memory, sizeof *group);
    if (group == NULL)
        return NULL;
    group->number = number;
    pccl_table_init(&group->by_instance, &m->memory, &m->hash);
    pccl_table_init(&group->subgroups, &m->memory, &m->hash);
    pccl_table_init(&group->pairs, &m->memory, &m->hash);
    pccl_matrix_init(&group->matrix, &m->memory);
    pccl_table_insert(&m->groups_by_number, &group->by_number, number);
    m->groups[m->group_count++] = group;
    return group;
}

struct pccl_attributes pccl_master_attributes(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    struct pccl_attributes attributes = {.epoch = m->epoch, .world = m->member_count, .group_world = group->ring_count};
    for (uint32_t i = 0; i < m->group_count; i++) {
        uint32_t size = m->groups[i]->ring_count;
        attributes.groups += size > 0;
        attributes.largest_group = size > attributes.largest_group ? size : attributes.largest_group;
    }
    return attributes;
}
