#include "api/list.h"
#include "drive/comm_machine.h"
#include "drive/comm_op.h"
#include "drive/comm_wait.h"
#include "log/logger.h"
#include "net/clock.h"
#include "net/heap.h"
#include "peer/queries.h"
#include "wire/describe.h"

#include <stdio.h>
#include <string.h>

enum { TELL_AGAIN = 5 }; /* time between two log lines, in units of where_ms */

/*
 * Part of a list that pcclDescribeWaits reads. It is allocated separately: if the call is abandoned, other threads may
 * still read it, so it is leaked together with the entries.
 */
struct pccl_comm_list {
    struct pccl_list_node node;
    const struct pccl_api_entry *entries;
    size_t count;
    bool rebuilds; /* the caller's rebuild function is running */
};

bool pccl_api_list_is_to_rebuild(const struct pccl_api_entry *entry)
{
    bool is_open = entry->state != PCCL_API_ENTRY_FINISHED && entry->state != PCCL_API_ENTRY_FLYING;
    return is_open && entry->args.needs_members;
}

void pccl_api_list_name_entry(size_t index, struct pccl_text *reason)
{
    const struct pccl_text words = *reason;
    pccl_text_format(reason, "entry %zu: %s", index, words.bytes);
}

/* ---- descriptions ---- */

/* Returns the first entry that has not succeeded, or NULL if that entry was never launched. */
static const struct pccl_api_entry *find_open(const struct pccl_comm_list *shown)
{
    size_t i = 0;
    while (i < shown->count && shown->entries[i].state == PCCL_API_ENTRY_FINISHED)
        i++;
    return i < shown->count && shown->entries[i].attempts > 0 ? &shown->entries[i] : NULL;
}

static void describe(const struct pccl_communicator *comm, const struct pccl_comm_list *shown,
                     const struct pccl_api_entry *entry, struct pccl_text *text)
{
    const uint64_t waited_us = pccl_now_us() - entry->launched_us;
    pccl_text_format(text, "a list of %zu operations is waiting for %sentry %zu (", shown->count,
                     shown->rebuilds ? "its rebuild function, with " : "", (size_t)(entry - shown->entries));
    pccl_describe_call(text, PCCL_CALL_OPERATION, entry->collective, entry->tag);
    pccl_text_append(text, "), first launched %s ago", pccl_duration_str(waited_us));
    if (entry->attempts > 1)
        pccl_text_append(text, " and launched %u times", entry->attempts);
    if (entry->ended_with)
        pccl_text_append(text, ": the last attempt failed: %s", entry->ended_with->bytes);
    pccl_peer_add_names(comm->peer, text);
}

static bool is_shown(const struct pccl_communicator *comm, const struct pccl_api_entry *entry)
{
    return entry && pccl_now_us() >= entry->launched_us + comm->params.where_ms * UINT64_C(1000);
}

void pccl_api_lists_describe(const struct pccl_communicator *comm, char *text, size_t size)
{
    for (struct pccl_list_node *node = comm->lists.next; node != &comm->lists; node = node->next) {
        const struct pccl_comm_list *shown = PCCL_CONTAINER_OF(node, struct pccl_comm_list, node);
        const struct pccl_api_entry *entry = find_open(shown);
        size_t length = strlen(text);
        struct pccl_text words;
        if (!is_shown(comm, entry))
            continue;
        describe(comm, shown, entry, &words);
        (void)snprintf(text + length, size - length, "%s%s", length > 0 ? "\n" : "", words.bytes);
    }
}

static void show(struct pccl_api_list *list)
{
    struct pccl_communicator *comm = list->comm;
    list->shown->entries = list->entries;
    list->shown->count = list->count;
    pccl_list_append(comm->lists.next, &list->shown->node); /* newest first */
}

/* Logs that the list repeats an entry. The state machine only logs single operations that wait long. */
static void tell_repeated(struct pccl_api_list *list, const struct pccl_api_entry *entry)
{
    const uint64_t now_us = pccl_now_us(), pause_us = TELL_AGAIN * list->comm->params.where_ms * UINT64_C(1000);
    struct pccl_text words;
    if (!is_shown(list->comm, entry) || (list->logged_us && now_us < list->logged_us + pause_us))
        return;
    list->logged_us = now_us;
    describe(list->comm, list->shown, entry, &words);
    pccl_logger_print(PCCL_LOG_WARN, "peer", "%s", words.bytes);
}

/* ---- stopping the list ---- */

/* Returns the abort class of the list's operations for the other members. */
static enum pccl_class class_of_end(const struct pccl_api_list *list)
{
    return list->status == PCCL_MEMBERS_CHANGED ? PCCL_CLASS_MEMBERS_CHANGED
           : list->status == PCCL_TIMEOUT       ? PCCL_CLASS_DEADLINE
                                                : PCCL_CLASS_ABORTED;
}

/*
 * Stops the list and aborts its operations in flight, because other peers may stop without launching them. An abort can
 * be a consequence of another failure, so a later reason replaces PCCL_ABORTED.
 */
static void stop(struct pccl_api_list *list, enum pccl_status status, const struct pccl_why *why)
{
    bool first = list->status == PCCL_OK;
    if (!first && list->status != PCCL_ABORTED)
        return;
    list->status = status;
    list->why = *why;
    if (!first)
        return;
    pccl_text_format(&list->given_up, "the operation list failed: %s", why->reason.bytes);
    for (size_t i = list->low; i < list->count; i++) {
        const struct pccl_comm_op *operation = list->entries[i].operation;
        if (operation)
            pccl_comm_op_abort(list->comm, operation, class_of_end(list), &list->given_up);
    }
}

static bool is_aborted(const struct pccl_api_list *list) { return list->handle->aborts != list->aborts; }

/* ---- launching ---- */

static void set_state(struct pccl_api_list *list, struct pccl_api_entry *entry, enum pccl_api_entry_state state)
{
    list->launching += (size_t)(state == PCCL_API_ENTRY_AGAIN) - (size_t)(entry->state == PCCL_API_ENTRY_AGAIN);
    list->aside += (size_t)(state == PCCL_API_ENTRY_ASIDE) - (size_t)(entry->state == PCCL_API_ENTRY_ASIDE);
    entry->state = state;
}

/* Returns the arguments of the entry, completed with the members for which it is launched now. */
static struct pccl_op_args args_of(const struct pccl_api_list *list, const struct pccl_api_entry *entry)
{
    struct pccl_op_args args = entry->args;
    if (!args.members && args.needs_members) {
        args.members = list->members;
        args.member_count = list->member_count;
    }
    return args;
}

/* Returns the number of members in the caller's snapshot; a group's members never change. */
static uint32_t present_count(const struct pccl_api_list *list)
{
    uint32_t count;
    if (list->handle->group)
        return list->handle->group->count;
    (void)pccl_peer_members(list->comm->peer, &count);
    return count;
}

static const struct pccl_id *present_member(const struct pccl_api_list *list, uint32_t rank)
{
    uint32_t count;
    if (list->handle->group)
        return &list->handle->group->members[rank];
    return &pccl_peer_members(list->comm->peer, &count)[rank].peer;
}

/* Returns true if the operation lists exactly the members in the caller's snapshot. */
static bool is_for_present_members(const struct pccl_api_list *list, const struct pccl_op_args *args)
{
    uint32_t count = present_count(list), i = 0;
    while (i < count && i < args->member_count && pccl_id_equal(present_member(list, i), &args->members[i]))
        i++;
    return i == count && i == args->member_count;
}

/*
 * Returns true and sets the entry's next state if another attempt may succeed. An entry that lists the current members
 * was refused because of another peer's list or an earlier attempt, so it is launched again unchanged.
 */
static bool retries(struct pccl_api_list *list, struct pccl_api_entry *entry, enum pccl_status status)
{
    bool changed = status == PCCL_MEMBERS_CHANGED && list->rebuilds;
    if ((status != PCCL_PEER_LOST && !changed) || !pccl_comm_is_connected(list->comm))
        return false;
    const struct pccl_op_args args = args_of(list, entry);
    bool outdated = changed && args.members && !is_for_present_members(list, &args);
    set_state(list, entry, outdated ? PCCL_API_ENTRY_ASIDE : PCCL_API_ENTRY_AGAIN);
    return true;
}

static enum pccl_status try_launch(struct pccl_api_list *list, struct pccl_api_entry *entry, enum pccl_class given_up,
                                   struct pccl_why *why)
{
    struct pccl_op_args args = args_of(list, entry);
    args.launch.deadline_us = entry->deadline_us;
    args.launch.given_up = given_up;
    args.launch.reason = list->given_up.length ? &list->given_up : NULL;
    enum pccl_status status = pccl_comm_op_launch(list->handle, &args, list->waiter, &entry->operation, why);
    if (status != PCCL_OK) {
        entry->operation = NULL;
        /* Treats a removal between two launches like a removal during a launch. */
        return status == PCCL_USAGE && !pccl_comm_is_connected(list->comm) ? PCCL_PEER_LOST : status;
    }
    set_state(list, entry, PCCL_API_ENTRY_FLYING);
    if (entry->attempts++ == 0) {
        entry->collective = args.launch.descriptor.collective;
        entry->tag = args.launch.tag;
        entry->launched_us = pccl_now_us();
        entry->deadline_us = pccl_comm_op_deadline(entry->operation);
    }
    list->in_flight++;
    pccl_comm_op_announce_wait(list->comm, entry->operation);
    return PCCL_OK;
}

/*
 * Launches an entry. Returns false if the limit of operations is reached while others of this list are in flight; the
 * end of one of those makes room.
 */
static bool launch(struct pccl_api_list *list, struct pccl_api_entry *entry)
{
    struct pccl_why why = {0};
    enum pccl_status status = try_launch(list, entry, PCCL_CLASS_NONE, &why);
    if (status == PCCL_OK)
        return true;
    if (status == PCCL_LIMIT && list->in_flight > 0)
        return false;
    if (status == PCCL_MEMBERS_CHANGED && retries(list, entry, status))
        return true;
    stop(list, status, &why);
    return true;
}

/*
 * Ends the first unfinished entry for the other members, which wait in it or will enter it. Called after the list has
 * stopped, or was aborted after all operations in flight had succeeded. If the entry is not in flight, it is launched
 * with an abort class, which ends it for all members.
 */
static void tell_others(struct pccl_api_list *list)
{
    struct pccl_why why = {0};
    if (list->low == list->count)
        return;
    struct pccl_api_entry *entry = &list->entries[list->low];
    if (entry->state == PCCL_API_ENTRY_FLYING || entry->state == PCCL_API_ENTRY_FAILED)
        return;
    bool is_in_run = pccl_id_equal(&list->comm->id, &list->id);
    enum pccl_status status = is_in_run ? try_launch(list, entry, class_of_end(list), &why) : PCCL_PEER_LOST;
    if (status == PCCL_OK)
        return;
    set_state(list, entry, PCCL_API_ENTRY_FAILED);
    stop(list, status, &why);
}

static bool may_launch(const struct pccl_api_list *list)
{
    return list->status == PCCL_OK && !list->aside && !is_aborted(list);
}

/* Launches entries. Repeated entries precede new ones, so that the first unfinished entries are in flight. */
static void launch_more(struct pccl_api_list *list)
{
    for (size_t i = list->low; i < list->next && list->launching && may_launch(list); i++) {
        if (list->entries[i].state == PCCL_API_ENTRY_AGAIN && !launch(list, &list->entries[i]))
            return;
    }
    while (may_launch(list) && list->in_flight < list->max_in_flight && list->next < list->count) {
        if (!launch(list, &list->entries[list->next]))
            return;
        list->next++;
    }
}

/* ---- outcomes ---- */

/* Returns the smaller number of members. `before` is 0 for the first entry. */
static uint32_t least(uint32_t before, uint32_t world) { return before == 0 || world < before ? world : before; }

static void take_success(struct pccl_api_list *list, struct pccl_api_entry *entry, const pcclOperationInfo_t *info)
{
    set_state(list, entry, PCCL_API_ENTRY_FINISHED);
    list->sum.tx_bytes += info->tx_bytes;
    list->sum.rx_bytes += info->rx_bytes;
    list->sum.local_world_size = least(list->sum.local_world_size, info->world);
    pccl_api_info_end(info, entry->info);
    while (list->low < list->count && list->entries[list->low].state == PCCL_API_ENTRY_FINISHED)
        list->low++;
}

static void note_repeated(struct pccl_api_list *list, struct pccl_api_entry *entry, const struct pccl_text *reason)
{
    if (!entry->ended_with)
        entry->ended_with = pccl_allocate(pccl_heap(), sizeof *entry->ended_with);
    if (entry->ended_with)
        *entry->ended_with = *reason;
    tell_repeated(list, entry);
}

/* Stops the list because the entry's deadline passed between two attempts. */
static void end_late(struct pccl_api_list *list, const struct pccl_api_entry *entry, struct pccl_why *why)
{
    const struct pccl_text last = why->reason;
    pccl_text_format(&why->reason, "the deadline (op_timeout_ms) passed after %u attempts; the last one failed: %s",
                     entry->attempts, last.bytes);
    stop(list, PCCL_TIMEOUT, why);
}

static void finish(struct pccl_api_list *list, struct pccl_comm_op *operation)
{
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    struct pccl_why why;
    struct pccl_table_node *node = pccl_table_find(&list->by_tag, operation->tag);
    struct pccl_api_entry *entry = PCCL_CONTAINER_OF(node, struct pccl_api_entry, by_tag);
    if (entry->info) {
        info.participants = entry->info->participants;
        info.participants_max = entry->info->participants_max;
    }
    enum pccl_status status = pccl_comm_op_end(list->comm, operation, &info, &why);
    entry->operation = NULL;
    list->in_flight--;
    if (status == PCCL_OK) {
        take_success(list, entry, &info);
    } else if (!retries(list, entry, status)) {
        if (entry->attempts > 1)
            pccl_text_append(&why.reason, " (launched %u times)", entry->attempts);
        set_state(list, entry, PCCL_API_ENTRY_FAILED);
        stop(list, status, &why);
    } else if (pccl_now_us() >= entry->deadline_us) {
        end_late(list, entry, &why);
    } else {
        note_repeated(list, entry, &why.reason);
    }
}

static void finish_all(struct pccl_api_list *list)
{
    while (list->waiter->over) {
        struct pccl_comm_op *over = list->waiter->over;
        list->waiter->over = over->next_over;
        finish(list, over);
    }
    list->waiter->fired = false;
}

/* ---- other members ---- */

static enum pccl_status pin(struct pccl_api_list *list, struct pccl_text *reason)
{
    uint32_t count = present_count(list);
    struct pccl_id *pinned = pccl_allocate(pccl_heap(), count * sizeof *pinned);
    if (!pinned)
        return pccl_fail(reason, PCCL_MEMORY, "out of memory for a member list of %u", count);
    for (uint32_t i = 0; i < count; i++)
        pinned[i] = *present_member(list, i);
    pccl_release(pccl_heap(), list->members, list->member_count * sizeof *list->members);
    list->members = pinned;
    list->member_count = count;
    return PCCL_OK;
}

/* Runs every check of the launch that can be made in advance. */
static enum pccl_status check(const struct pccl_api_list *list, size_t index, struct pccl_text *reason)
{
    struct pccl_op_args args = args_of(list, &list->entries[index]);
    enum pccl_status status = pccl_comm_op_check(list->handle, &args, reason);
    if (status != PCCL_OK)
        pccl_api_list_name_entry(index, reason);
    return status;
}

/*
 * Returns true unless an operation in flight is certain to end without any action by other peers. The other operations
 * cannot be awaited first, because other peers may enter them only after rebuilding.
 */
static bool is_rebuild_due(const struct pccl_api_list *list)
{
    if (list->status != PCCL_OK || !list->aside || is_aborted(list))
        return false;
    for (size_t i = list->low; i < list->next; i++) {
        const struct pccl_comm_op *operation = list->entries[i].operation;
        if (operation && pccl_comm_op_is_ending(operation))
            return false;
    }
    return true;
}

static enum pccl_status check_rebuilt(struct pccl_api_list *list, struct pccl_text *reason)
{
    enum pccl_status status = PCCL_OK;
    if (!pccl_comm_is_connected(list->comm) || !pccl_id_equal(&list->comm->id, &list->id)) {
        (void)pccl_comm_why_unconnected(list->comm, reason);
        return PCCL_PEER_LOST;
    }
    for (size_t i = list->low; i < list->count && status == PCCL_OK; i++) {
        struct pccl_api_entry *entry = &list->entries[i];
        if (entry->state == PCCL_API_ENTRY_ASIDE || pccl_api_list_is_to_rebuild(entry))
            status = check(list, i, reason);
        if (status == PCCL_OK && entry->state == PCCL_API_ENTRY_ASIDE)
            set_state(list, entry, PCCL_API_ENTRY_AGAIN);
    }
    return status;
}

void pccl_api_list_rebuilt(struct pccl_api_list *list, enum pccl_status status, struct pccl_why *why)
{
    pccl_comm_enter(list->comm);
    list->shown->rebuilds = false;
    if (status == PCCL_OK)
        status = check_rebuilt(list, &why->reason);
    if (status != PCCL_OK)
        stop(list, status, why);
    finish_all(list);
}

/*
 * Releases the lock and returns true if the caller must rebuild. Operations that do not depend on the members may end
 * while the caller rebuilds.
 */
static bool begin_rebuild(struct pccl_api_list *list)
{
    struct pccl_why why = {0};
    enum pccl_status status = pin(list, &why.reason);
    if (status != PCCL_OK) {
        stop(list, status, &why);
        return false;
    }
    list->shown->rebuilds = true;
    pccl_comm_leave(list->comm);
    return true;
}

/* ---- the whole list ---- */

/* Runs until all entries have succeeded or, after a failure that cannot be retried, until nothing is in flight. */
bool pccl_api_list_continue(struct pccl_api_list *list)
{
    for (;;) {
        launch_more(list);
        if (list->status != PCCL_OK || (is_aborted(list) && !list->in_flight))
            tell_others(list);
        if (is_rebuild_due(list)) {
            if (begin_rebuild(list))
                return true;
        } else if (!list->in_flight) {
            return false;
        } else if (!list->waiter->over) {
            pccl_comm_wait(list->comm, list->waiter);
        }
        finish_all(list);
    }
}

/* Checks all entries before the first launch. Caller holds the lock. */
static enum pccl_status check_all(struct pccl_api_list *list, struct pccl_text *reason)
{
    enum pccl_status status = PCCL_OK;
    if (!pccl_comm_is_connected(list->comm))
        return pccl_comm_why_unconnected(list->comm, reason);
    for (size_t i = 0; i < list->count && status == PCCL_OK; i++) {
        if (!list->members && pccl_api_list_is_to_rebuild(&list->entries[i]))
            status = pin(list, reason);
        if (status == PCCL_OK)
            status = check(list, i, reason);
    }
    return status;
}

static enum pccl_status check_tags(struct pccl_api_list *list, struct pccl_text *reason)
{
    for (size_t i = 0; i < list->count; i++) {
        struct pccl_api_entry *entry = &list->entries[i];
        if (pccl_table_find(&list->by_tag, entry->args.launch.tag))
            return pccl_fail(reason, PCCL_ARGUMENT, "entry %zu: duplicate tag %" PRIu64, i, entry->args.launch.tag);
        pccl_table_insert(&list->by_tag, &entry->by_tag, entry->args.launch.tag);
    }
    return PCCL_OK;
}

static void remember_begin(struct pccl_api_list *list)
{
    list->aborts = list->handle->aborts;
    list->id = list->comm->id;
    list->known = pccl_peer_attributes(list->comm->peer).epoch;
}

/*
 * Explains the failure. The caller sees the list as one operation, so the explanation includes all members that
 * departed since the list began.
 */
static void explain(const struct pccl_api_list *list, struct pccl_why *why)
{
    *why = list->why;
    const struct pccl_peer *machine = list->comm->peer;
    if (machine && pccl_id_equal(&list->comm->id, &list->id)) /* the ids differ if another thread has reconnected */
        pccl_peer_departed(machine, &list->known, NULL, &why->details.departed);
}

static uint32_t world_now(const struct pccl_api_list *list)
{
    if (list->handle->group)
        return list->handle->group->count;
    return list->comm->peer ? pccl_peer_attributes(list->comm->peer).group_world : 0;
}

enum pccl_status pccl_api_list_begin(struct pccl_api_list *list, struct pccl_why *why)
{
    enum pccl_status status = check_tags(list, &why->reason);
    if (status != PCCL_OK)
        return status;
    pccl_comm_enter(list->comm);
    status = check_all(list, &why->reason);
    if (status != PCCL_OK) {
        pccl_comm_leave(list->comm);
        return status;
    }
    remember_begin(list);
    show(list);
    return PCCL_OK;
}

enum pccl_status pccl_api_list_end(struct pccl_api_list *list, struct pccl_why *why)
{
    pccl_list_remove(&list->shown->node);
    if (list->status != PCCL_OK) {
        explain(list, why);
        list->sum.local_world_size = world_now(list);
    }
    pccl_comm_leave(list->comm);
    return list->status;
}

enum pccl_status pccl_api_list_init(struct pccl_api_list *list, pcclComm_t *handle, size_t count,
                                    struct pccl_text *reason)
{
    *list = (struct pccl_api_list){.handle = handle, .comm = handle->comm, .waiter = pccl_caller_waiter()};
    pccl_table_init(&list->by_tag, pccl_heap(), &handle->comm->hash);
    list->entries = count <= UINT32_MAX ? pccl_allocate(pccl_heap(), count * sizeof *list->entries) : NULL;
    list->count = list->entries ? count : 0;
    list->shown = pccl_allocate(pccl_heap(), sizeof *list->shown);
    if (list->entries && list->shown)
        return PCCL_OK;
    return pccl_fail(reason, PCCL_MEMORY, "out of memory for a list of %zu operations", count);
}

void pccl_api_list_fini(struct pccl_api_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        pccl_api_op_args_free(&list->entries[i].args);
        pccl_release(pccl_heap(), list->entries[i].ended_with, sizeof *list->entries[i].ended_with);
    }
    pccl_release(pccl_heap(), list->shown, sizeof *list->shown);
    pccl_table_fini(&list->by_tag);
    pccl_release(pccl_heap(), list->members, list->member_count * sizeof *list->members);
    pccl_release(pccl_heap(), list->entries, list->count * sizeof *list->entries);
}
