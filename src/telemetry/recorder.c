#include "telemetry/recorder.h"

#include <string.h>

/* ---- circular buffers of items ---- */

/* Reserves room for `count` adjacent items, overwriting the oldest ones. May leave the end of the buffer unused. */
static struct pccl_telemetry_range take(uint64_t *ever, uint32_t capacity, uint32_t count)
{
    uint32_t at = (uint32_t)(*ever % capacity);
    if (at + count > capacity)
        *ever += capacity - at;
    struct pccl_telemetry_range range = {*ever, count};
    *ever += count;
    return range;
}

static bool is_kept(uint64_t ever, uint32_t capacity, struct pccl_telemetry_range range)
{
    return range.count > 0 && ever - range.first <= capacity;
}

/* ---- creation and destruction ---- */

/* Allocates memory without zeroing it, so that unused pages are never mapped. */
static void *take_raw(const struct pccl_memory *memory, size_t bytes)
{
    return memory->resize(memory->context, NULL, 0, bytes);
}

static bool allocate(struct pccl_recorder *recorder)
{
    const struct pccl_memory *memory = &recorder->memory;
    recorder->entries = take_raw(memory, recorder->capacity * sizeof *recorder->entries);
    recorder->ids = take_raw(memory, recorder->id_capacity * sizeof *recorder->ids);
    recorder->flows = take_raw(memory, recorder->flow_capacity * sizeof *recorder->flows);
    recorder->reasons = take_raw(memory, PCCL_RECORDER_REASONS * sizeof *recorder->reasons);
    return recorder->entries != NULL && recorder->ids != NULL && recorder->flows != NULL && recorder->reasons != NULL;
}

static struct pccl_recorder *create(const struct pccl_memory *memory, uint32_t capacity, uint32_t ids, uint32_t flows)
{
    struct pccl_recorder *recorder = pccl_allocate(memory, sizeof *recorder);
    if (recorder == NULL)
        return NULL;
    recorder->memory = *memory;
    recorder->capacity = capacity;
    recorder->id_capacity = ids;
    recorder->flow_capacity = flows;
    if (allocate(recorder))
        return recorder;
    pccl_recorder_destroy(recorder);
    return NULL;
}

struct pccl_recorder *pccl_recorder_create(const struct pccl_memory *memory, uint32_t operations)
{
    PCCL_ASSERT(operations > 0);
    return create(memory, operations, operations * PCCL_RECORDER_IDS,
                  pccl_max_u32(operations * PCCL_RECORDER_FLOWS, PCCL_TELEMETRY_FLOWS_MAX));
}

void pccl_recorder_destroy(struct pccl_recorder *recorder)
{
    if (recorder == NULL)
        return;
    struct pccl_memory memory = recorder->memory;
    pccl_release(&memory, recorder->entries, recorder->capacity * sizeof *recorder->entries);
    pccl_release(&memory, recorder->ids, recorder->id_capacity * sizeof *recorder->ids);
    pccl_release(&memory, recorder->flows, recorder->flow_capacity * sizeof *recorder->flows);
    pccl_release(&memory, recorder->reasons, PCCL_RECORDER_REASONS * sizeof *recorder->reasons);
    pccl_release(&memory, recorder, sizeof *recorder);
}

static void copy_entry(struct pccl_recorder *copy, const struct pccl_recorder *recorder,
                       const struct pccl_recorder_entry *entry)
{
    const struct pccl_recorder_flow *flows = pccl_recorder_flows(recorder, entry);
    const struct pccl_text *reason = pccl_recorder_reason(recorder, entry);
    const struct pccl_id *members = pccl_recorder_members(recorder, entry);
    struct pccl_recorder_entry *made = pccl_recorder_add(copy, members, members != NULL ? entry->members.count : 0);
    struct pccl_telemetry_range listed = made->members;
    *made = *entry;
    made->members = listed;
    made->flows = made->reason = (struct pccl_telemetry_range){0, 0};
    if (flows != NULL) {
        made->flows = take(&copy->flow_count, copy->flow_capacity, entry->flows.count);
        memcpy(&copy->flows[made->flows.first % copy->flow_capacity], flows, entry->flows.count * sizeof *flows);
    }
    if (reason != NULL)
        pccl_recorder_add_reason(copy, made, reason);
}

struct pccl_recorder *pccl_recorder_copy(const struct pccl_recorder *recorder, const struct pccl_memory *memory,
                                         uint32_t operations, uint32_t ids)
{
    uint32_t kept = pccl_recorder_kept(recorder);
    struct pccl_recorder *copy = create(memory, kept + operations + 1, recorder->id_capacity + ids + 1,
                                        recorder->flow_capacity + operations * PCCL_TELEMETRY_FLOWS_MAX);
    for (uint32_t i = 0; copy != NULL && i < kept; i++)
        copy_entry(copy, recorder, pccl_recorder_at(recorder, i));
    return copy;
}

/* ---- adding ---- */

static struct pccl_telemetry_range keep_members(struct pccl_recorder *recorder, const struct pccl_id *members,
                                                uint32_t count)
{
    const struct pccl_telemetry_range last = recorder->last_ids;
    if (count == 0 || count > recorder->id_capacity)
        return (struct pccl_telemetry_range){0, 0};
    if (members == NULL || (last.count == count && memcmp(&recorder->ids[last.first % recorder->id_capacity], members,
                                                          count * sizeof *members) == 0))
        return last;
    recorder->last_ids = take(&recorder->id_count, recorder->id_capacity, count);
    memcpy(&recorder->ids[recorder->last_ids.first % recorder->id_capacity], members, count * sizeof *members);
    return recorder->last_ids;
}

struct pccl_recorder_entry *pccl_recorder_add(struct pccl_recorder *recorder, const struct pccl_id *members,
                                              uint32_t count)
{
    struct pccl_recorder_entry *entry = &recorder->entries[recorder->count++ % recorder->capacity];
    memset(entry, 0, sizeof *entry);
    entry->member_count = count;
    entry->members = keep_members(recorder, members, count);
    return entry;
}

void pccl_recorder_add_reason(struct pccl_recorder *recorder, struct pccl_recorder_entry *entry,
                              const struct pccl_text *reason)
{
    entry->reason = take(&recorder->reason_count, PCCL_RECORDER_REASONS, 1);
    recorder->reasons[entry->reason.first % PCCL_RECORDER_REASONS] = *reason;
}

void pccl_recorder_add_flows(struct pccl_recorder *recorder, struct pccl_recorder_entry *entry,
                             const struct pccl_telemetry_flow *flows, uint32_t count, const struct pccl_id *ring)
{
    uint32_t used = 0;
    while (used < count && PCCL_TELEMETRY_GET(flows[used].place) != 0)
        used++;
    if (used == 0)
        return;
    entry->flows = take(&recorder->flow_count, recorder->flow_capacity, used);
    struct pccl_recorder_flow *kept = &recorder->flows[entry->flows.first % recorder->flow_capacity];
    for (uint32_t i = 0; i < used; i++) {
        kept[i].counters = pccl_telemetry_read(&flows[i]);
        kept[i].peer = ring[(kept[i].counters.place & ~PCCL_TELEMETRY_OUTGOING) - 1];
    }
}

/* ---- reading ---- */

uint32_t pccl_recorder_kept(const struct pccl_recorder *recorder)
{
    return (uint32_t)pccl_min_u64(recorder->count, recorder->capacity);
}

struct pccl_recorder_entry *pccl_recorder_at(const struct pccl_recorder *recorder, uint32_t place)
{
    uint64_t first = recorder->count - pccl_recorder_kept(recorder);
    return &recorder->entries[(first + place) % recorder->capacity];
}

struct pccl_recorder_entry *pccl_recorder_find(const struct pccl_recorder *recorder, uint64_t number)
{
    for (uint32_t i = pccl_recorder_kept(recorder); i-- > 0;)
        if (pccl_recorder_at(recorder, i)->number == number)
            return pccl_recorder_at(recorder, i);
    return NULL;
}

const struct pccl_id *pccl_recorder_members(const struct pccl_recorder *recorder,
                                            const struct pccl_recorder_entry *entry)
{
    bool there = is_kept(recorder->id_count, recorder->id_capacity, entry->members);
    return there ? &recorder->ids[entry->members.first % recorder->id_capacity] : NULL;
}

const struct pccl_recorder_flow *pccl_recorder_flows(const struct pccl_recorder *recorder,
                                                     const struct pccl_recorder_entry *entry)
{
    bool there = is_kept(recorder->flow_count, recorder->flow_capacity, entry->flows);
    return there ? &recorder->flows[entry->flows.first % recorder->flow_capacity] : NULL;
}

const struct pccl_text *pccl_recorder_reason(const struct pccl_recorder *recorder,
                                             const struct pccl_recorder_entry *entry)
{
    bool there = is_kept(recorder->reason_count, PCCL_RECORDER_REASONS, entry->reason);
    return there ? &recorder->reasons[entry->reason.first % PCCL_RECORDER_REASONS] : NULL;
}

static bool has_failed(const struct pccl_recorder_entry *entry)
{
    return entry->state == PCCL_TELEMETRY_ENDED && (entry->class != PCCL_CLASS_NONE || entry->lost_by != PCCL_OK);
}

void pccl_recorder_count_attempts(const struct pccl_recorder *recorder)
{
    for (uint32_t i = 0; i < pccl_recorder_kept(recorder); i++) {
        struct pccl_recorder_entry *entry = pccl_recorder_at(recorder, i);
        entry->attempt = 1;
        for (uint32_t j = i; j-- > 0;) {
            const struct pccl_recorder_entry *before = pccl_recorder_at(recorder, j);
            if (before->instance.tag != entry->instance.tag || before->instance.subgroup != entry->instance.subgroup ||
                before->instance.pair != entry->instance.pair ||
                before->descriptor.collective != entry->descriptor.collective)
                continue;
            entry->attempt += has_failed(before) ? before->attempt : 0;
            break;
        }
    }
}

/* ---- waits ---- */

static enum pccl_telemetry_wait outgoing_waits(const struct pccl_recorder_entry *entry,
                                               const struct pccl_telemetry_counters *flow, uint64_t *since_us)
{
    *since_us = entry->entered_us;
    if (flow->granted_us == 0)
        return PCCL_TELEMETRY_READY;
    *since_us = pccl_max_u64(flow->last_us, flow->turned_us);
    if (flow->begun != flow->moved)
        return PCCL_TELEMETRY_ROOM;
    *since_us = pccl_max_u64(flow->last_us, flow->granted_us);
    bool is_stopped = flow->begun_stripes >= flow->granted && flow->granted < flow->opened;
    return is_stopped && flow->expected != flow->begun ? PCCL_TELEMETRY_CREDIT : PCCL_TELEMETRY_NOTHING;
}

enum pccl_telemetry_wait pccl_recorder_entry_waits(const struct pccl_recorder_entry *entry,
                                                   const struct pccl_telemetry_counters *flow, uint64_t *since_us)
{
    if (entry->state == PCCL_TELEMETRY_ENDED || entry->state == PCCL_TELEMETRY_FAILED)
        return PCCL_TELEMETRY_NOTHING;
    if (flow->place & PCCL_TELEMETRY_OUTGOING)
        return outgoing_waits(entry, flow, since_us);
    *since_us = flow->turned_us;
    return flow->expected != flow->moved ? PCCL_TELEMETRY_DATA : PCCL_TELEMETRY_NOTHING;
}

const char *pccl_telemetry_wait_name(enum pccl_telemetry_wait wait)
{
    switch (wait) {
    case PCCL_TELEMETRY_READY: return "ready";
    case PCCL_TELEMETRY_CREDIT: return "credit";
    case PCCL_TELEMETRY_ROOM: return "room";
    case PCCL_TELEMETRY_DATA: return "data";
    case PCCL_TELEMETRY_NOTHING: break;
    }
    return "nothing";
}
