/* pcclRunOperations, which performs a list of operations. */
#include "api/list.h"
#include "net/heap.h"

#include <string.h>

/* A list of operations, with the caller's structs. */
struct run {
    struct pccl_api_list list;
    pcclOperation_t *operations;
    size_t size; /* size of the caller's structs */
    pcclRunOptions_t options;
};

/* ---- entries ---- */

static enum pccl_status read_operation(pcclOperation_t *op, struct pccl_op_args *args, struct pccl_text *reason)
{
    if (op->collective == pcclCollectiveSend || op->collective == pcclCollectiveRecv)
        return pccl_fail(reason, PCCL_ARGUMENT, "a send or receive cannot be part of a list");
    enum pccl_status status = pccl_api_op_args(op, args, reason);
    if (status == PCCL_OK && args->on_arrival)
        return pccl_fail(reason, PCCL_ARGUMENT, "on_arrival is not supported in a list");
    return status;
}

/* Reads the caller's entry at `index`. The caller must call pccl_api_op_args_free, even on failure. */
static enum pccl_status read_entry(const struct run *run, size_t index, struct pccl_op_args *args,
                                   pcclOperationInfo_t **info, struct pccl_text *reason)
{
    pcclOperation_t op;
    pcclOperationInfo_t known;
    const void *given = (const char *)run->operations + index * run->size;
    enum pccl_status status = pccl_api_struct_read(given, &op, sizeof op, "PCCL_OPERATION_INIT", reason);
    if (status == PCCL_OK && op.size != run->size)
        status = pccl_fail(reason, PCCL_ARGUMENT, "its struct has a different size than the struct of the first entry");
    if (status == PCCL_OK)
        status = read_operation(&op, args, reason);
    if (status == PCCL_OK)
        status = pccl_api_info_begin(op.info, &known, reason);
    if (status == PCCL_OK)
        *info = op.info;
    else
        pccl_api_list_name_entry(index, reason);
    return status;
}

/* ---- other members ---- */

static bool is_of(const struct pccl_op_args *args, const struct pccl_api_list *list)
{
    return !args->members || (args->member_count == list->member_count &&
                              memcmp(args->members, list->members, list->member_count * sizeof *list->members) == 0);
}

/*
 * Reads a rebuilt entry. If it is invalid, the entry keeps its old arguments, so that the list can still end it for the
 * other members.
 */
static enum pccl_status read_again(struct run *run, size_t index, struct pccl_text *reason)
{
    struct pccl_api_list *list = &run->list;
    struct pccl_api_entry *entry = &list->entries[index];
    struct pccl_op_args given = {0};
    const char *wrong = NULL;
    enum pccl_status status = read_entry(run, index, &given, &entry->info, reason);
    if (given.launch.tag != entry->args.launch.tag ||
        given.launch.descriptor.collective != entry->args.launch.descriptor.collective)
        wrong = "rebuild returned a different operation, or a different tag";
    else if (!is_of(&given, list))
        wrong = "rebuild used a different member list than the one it was given";
    if (status == PCCL_OK && wrong) {
        status = pccl_fail(reason, PCCL_ARGUMENT, "%s", wrong);
        pccl_api_list_name_entry(index, reason);
    }
    pccl_api_op_args_free(status == PCCL_OK ? &entry->args : &given);
    if (status == PCCL_OK)
        entry->args = given;
    return status;
}

static bool call_rebuild(const struct run *run, pcclPeerId_t *members, size_t *entries)
{
    const struct pccl_api_list *list = &run->list;
    pcclRebuild_t rebuild = {.size = sizeof rebuild,
                             .members = members,
                             .member_count = list->member_count,
                             .rank = pccl_id_find(list->members, list->member_count, &list->id),
                             .operations = run->operations,
                             .entries = entries};
    for (uint32_t i = 0; i < list->member_count; i++)
        pccl_id_write(&list->members[i], members[i].digits, PCCL_PEER_ID_SIZE - 1);
    for (size_t i = 0; i < list->count; i++) {
        if (pccl_api_list_is_to_rebuild(&list->entries[i]))
            entries[rebuild.entry_count++] = i;
    }
    return run->options.rebuild(&rebuild, run->options.user_data);
}

static enum pccl_status rebuild(struct run *run, struct pccl_text *reason)
{
    const struct pccl_api_list *list = &run->list;
    enum pccl_status status = PCCL_MEMORY;
    pcclPeerId_t *members = pccl_allocate(pccl_heap(), list->member_count * sizeof *members);
    size_t *entries = pccl_allocate(pccl_heap(), list->count * sizeof *entries);
    pccl_text_format(reason, "out of memory for a list of %zu operations", list->count);
    if (members && entries) {
        status = call_rebuild(run, members, entries) ? PCCL_OK : PCCL_ABORTED;
        pccl_text_format(reason, "the caller could not rebuild it for the %u remaining members", list->member_count);
    }
    for (size_t i = 0; i < list->count && status == PCCL_OK; i++) {
        if (pccl_api_list_is_to_rebuild(&list->entries[i]))
            status = read_again(run, i, reason);
    }
    pccl_release(pccl_heap(), members, list->member_count * sizeof *members);
    pccl_release(pccl_heap(), entries, list->count * sizeof *entries);
    return status;
}

/* ---- the whole list ---- */

static enum pccl_status carry_out(struct run *run, struct pccl_why *why)
{
    struct pccl_api_list *list = &run->list;
    list->max_in_flight = run->options.max_in_flight;
    list->rebuilds = run->options.rebuild != NULL;
    run->size = run->operations->size;
    for (size_t i = 0; i < list->count; i++) {
        struct pccl_api_entry *entry = &list->entries[i];
        enum pccl_status status = read_entry(run, i, &entry->args, &entry->info, &why->reason);
        if (status != PCCL_OK)
            return status;
    }
    enum pccl_status status = pccl_api_list_begin(list, why);
    if (status != PCCL_OK)
        return status;
    while (pccl_api_list_continue(list)) {
        struct pccl_why failed = {0};
        status = rebuild(run, &failed.reason);
        pccl_api_list_rebuilt(list, status, &failed);
    }
    return pccl_api_list_end(list, why);
}

static enum pccl_status run_operations(struct pccl_api_call *call, pcclOperation_t *operations, size_t count,
                                       const pcclRunOptions_t *options)
{
    struct run run = {.operations = operations, .options = PCCL_RUN_OPTIONS_INIT};
    struct pccl_text *reason = &call->why.reason;
    enum pccl_status status = PCCL_OK;
    if (options)
        status = pccl_api_struct_read(options, &run.options, sizeof run.options, "PCCL_RUN_OPTIONS_INIT", reason);
    const char *wrong = !operations                      ? "operations is NULL"
                        : count == 0                     ? "the list is empty"
                        : run.options.max_in_flight == 0 ? "max_in_flight is less than 1"
                                                         : NULL;
    if (status == PCCL_OK && wrong)
        status = pccl_fail(reason, PCCL_ARGUMENT, "%s", wrong);
    if (status != PCCL_OK)
        return status;
    status = pccl_api_list_init(&run.list, call->handle, count, reason);
    if (status == PCCL_OK)
        status = carry_out(&run, &call->why);
    pccl_api_list_fini(&run.list);
    return status;
}

pcclResult_t pcclRunOperations(pcclOperation_t *operations, size_t count, const pcclRunOptions_t *options,
                               const pcclComm_t *comm)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_REDUCE, run_operations(call, operations, count, options));
}
