#include "ops/dump.h"

#include "kernels/reduce.h"
#include "wire/describe.h"
#include "wire/packing.h"

#define MEGA UINT64_C(1000000)

/* ---- times ---- */

static void two_digits(char *text, uint64_t value)
{
    text[0] = (char)('0' + value / 10 % 10);
    text[1] = (char)('0' + value % 10);
}

/*
 * Writes a number of days since 1970 as a Gregorian date. Computes with years that begin in March, so that the leap day
 * is the last day of the year.
 */
static void put_date(char *text, uint64_t days)
{
    days += 719468; /* days since 1 March of year 0 */
    uint64_t era = days / 146097, day = days % 146097;
    uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    uint64_t month = (5 * day + 2) / 153;
    day -= (153 * month + 2) / 5;
    year += 400 * era + (month >= 10);
    two_digits(text, year / 100);
    two_digits(text + 2, year % 100);
    two_digits(text + 5, month < 10 ? month + 3 : month - 9);
    two_digits(text + 8, day + 1);
}

/* Writes a time such as "2026-11-26T19:22:12.123456Z". */
static void write_wall(struct pccl_json *json, const char *key, uint64_t wall_us)
{
    char text[] = "0000-00-00T00:00:00.000000Z";
    uint64_t seconds = wall_us / MEGA;
    put_date(text, seconds / 86400);
    two_digits(text + 11, seconds / 3600 % 24);
    two_digits(text + 14, seconds / 60 % 60);
    two_digits(text + 17, seconds % 60);
    for (uint32_t i = 0; i < 3; i++)
        two_digits(text + 24 - 2 * i, wall_us % MEGA / (i == 0 ? 1 : i == 1 ? 100 : 10000));
    pccl_json_string(json, key, text);
}

/*
 * Writes a time on our clock relative to another time, or null if it is 0, which means that the event has not occurred.
 */
static void write_since(struct pccl_json *json, const char *key, uint64_t from_us, uint64_t moment_us)
{
    if (moment_us == 0)
        pccl_json_null(json, key);
    else
        pccl_json_number(json, key, moment_us > from_us ? moment_us - from_us : 0);
}

/* ---- one operation ---- */

static void write_label(struct pccl_json *json, const struct pccl_label *label)
{
    struct pccl_bytes bytes = pccl_bytes_of_label(label);
    pccl_json_bytes(json, "label", (const char *)bytes.data, bytes.length);
}

static void write_identity(struct pccl_json *json, const struct pccl_instance *instance,
                           const struct pccl_descriptor *descriptor)
{
    pccl_json_string(json, "kind", pccl_collective_name(descriptor->collective));
    pccl_json_number(json, "subgroup", instance->subgroup);
    pccl_json_number(json, "pair", instance->pair);
    pccl_json_open(json, "era", '[');
    pccl_json_number(json, NULL, instance->joint);
    pccl_json_number(json, NULL, instance->sync);
    pccl_json_close(json, ']');
    pccl_json_number(json, "tag", instance->tag);
    pccl_json_number(json, "sequence", instance->use);
}

/*
 * For a coalesced all-reduce, `count` is in bytes, and there is no type or reduction because each tensor has its own.
 */
static void write_what(struct pccl_json *json, const struct pccl_descriptor *descriptor)
{
    const struct pccl_collective_row *row = pccl_collective(descriptor->collective);
    bool typed = row->of == PCCL_OF_ELEMENTS || row->of == PCCL_OF_BLOBS;
    enum pccl_datatype datatype = (enum pccl_datatype)descriptor->datatype;
    struct pccl_text codec = {.length = 0};
    if (typed)
        pccl_json_string(json, "type", pccl_datatype_name(datatype));
    else
        pccl_json_null(json, "type");
    pccl_json_number(json, "count", descriptor->count);
    pccl_json_number(json, "bytes", typed ? descriptor->count * pccl_datatype_bytes(datatype) : descriptor->count);
    if (row->reduces && typed)
        pccl_json_string(json, "reduction", pccl_reduce_op_name((enum pccl_reduce_op)descriptor->operation));
    else
        pccl_json_null(json, "reduction");
    pccl_packing_describe(&codec, descriptor);
    pccl_json_string(json, "codec", codec.bytes);
    write_label(json, &descriptor->label);
}

static const char *cause_of(const struct pccl_recorder_entry *entry)
{
    if (entry->lost_by != PCCL_OK)
        return pccl_status_text(entry->lost_by);
    switch (entry->class) {
    case PCCL_CLASS_PEER_LOST: return "a peer was lost";
    case PCCL_CLASS_MISMATCH: return "peers passed different arguments";
    case PCCL_CLASS_ABORTED: return "a caller aborted it";
    case PCCL_CLASS_DEADLINE: return "its deadline passed";
    case PCCL_CLASS_MEMBERS_CHANGED: return "the members have changed";
    case PCCL_CLASS_NONE:
    case PCCL_CLASS_INTERNAL:
    case PCCL_CLASS_COUNT: break;
    }
    return "internal";
}

static const char *state_of(const struct pccl_recorder_entry *entry)
{
    switch (entry->state) {
    case PCCL_TELEMETRY_MOVING: return "moving";
    case PCCL_TELEMETRY_COMPLETE: return "complete";
    case PCCL_TELEMETRY_FAILED: return "failed";
    case PCCL_TELEMETRY_ENDED: break;
    }
    return "ended";
}

static void write_outcome(struct pccl_json *json, const struct pccl_recorder *recorder,
                          const struct pccl_recorder_entry *entry)
{
    const struct pccl_text *reason = pccl_recorder_reason(recorder, entry);
    bool committed = entry->class == PCCL_CLASS_NONE && entry->lost_by == PCCL_OK;
    pccl_json_string(json, "state", state_of(entry));
    if (entry->state != PCCL_TELEMETRY_ENDED)
        pccl_json_null(json, "outcome");
    else
        pccl_json_string(json, "outcome", committed ? "committed" : "aborted");
    if (entry->state != PCCL_TELEMETRY_ENDED || committed)
        pccl_json_null(json, "cause");
    else
        pccl_json_string(json, "cause", cause_of(entry));
    if (reason != NULL)
        pccl_json_bytes(json, "reason", reason->bytes, reason->length);
    else
        pccl_json_null(json, "reason");
}

static void write_members(struct pccl_json *json, const struct pccl_recorder *recorder,
                          const struct pccl_recorder_entry *entry)
{
    const struct pccl_id *members = pccl_recorder_members(recorder, entry);
    pccl_json_number(json, "world", entry->world);
    if (entry->rank < entry->member_count)
        pccl_json_number(json, "rank", entry->rank);
    else
        pccl_json_null(json, "rank");
    if (members == NULL) {
        pccl_json_null(json, "members");
        return;
    }
    pccl_json_open(json, "members", '[');
    for (uint32_t i = 0; i < entry->members.count; i++)
        pccl_json_id(json, NULL, &members[i]);
    pccl_json_close(json, ']');
}

/*
 * Return the time at which the first message began, and at which the last message ended, over all flows; 0 without
 * messages.
 */
static uint64_t first_of(const struct pccl_recorder_flow *flows, uint32_t count)
{
    uint64_t first_us = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t own_us = flows[i].counters.first_us;
        if (own_us != 0 && (first_us == 0 || own_us < first_us))
            first_us = own_us;
    }
    return first_us;
}

static uint64_t last_of(const struct pccl_recorder_flow *flows, uint32_t count)
{
    uint64_t last_us = 0;
    for (uint32_t i = 0; i < count; i++)
        last_us = pccl_max_u64(last_us, flows[i].counters.last_us);
    return last_us;
}

/* Returns the waiting time, including a wait that has not ended. */
static uint64_t waited_us(const struct pccl_telemetry_dump *dump, const struct pccl_recorder_entry *entry,
                          const struct pccl_telemetry_counters *flow)
{
    uint64_t since_us;
    enum pccl_telemetry_wait wait = pccl_recorder_entry_waits(entry, flow, &since_us);
    bool goes_on = (wait == PCCL_TELEMETRY_DATA && flow->begun == flow->moved) || wait == PCCL_TELEMETRY_ROOM;
    return flow->waited_us + (goes_on && dump->now_us > flow->turned_us ? dump->now_us - flow->turned_us : 0);
}

static void write_flow(struct pccl_json *json, const struct pccl_telemetry_dump *dump,
                       const struct pccl_recorder_entry *entry, const struct pccl_recorder_flow *flow)
{
    const struct pccl_telemetry_counters *counters = &flow->counters;
    bool outgoing = (counters->place & PCCL_TELEMETRY_OUTGOING) != 0;
    uint64_t entered_us = entry->entered_us;
    pccl_json_open(json, NULL, '{');
    pccl_json_id(json, "peer", &flow->peer);
    pccl_json_string(json, "direction", outgoing ? "to" : "from");
    pccl_json_number(json, "bytes", counters->bytes);
    pccl_json_number(json, "expected", counters->expected);
    pccl_json_number(json, "begun", counters->begun);
    pccl_json_number(json, outgoing ? "sent" : "received", counters->moved);
    if (!outgoing)
        pccl_json_number(json, "folded", counters->folded);
    pccl_json_number(json, "granted", counters->granted);
    pccl_json_number(json, "open", counters->opened);
    write_since(json, "granted_us", entered_us, counters->granted_us);
    write_since(json, "first_us", entered_us, counters->first_us);
    write_since(json, "last_us", entered_us, counters->last_us);
    pccl_json_number(json, "waited_us", waited_us(dump, entry, counters));
    pccl_json_close(json, '}');
}

static void write_wait(struct pccl_json *json, const struct pccl_telemetry_dump *dump, const struct pccl_id *peer,
                       const char *what, uint64_t since_us)
{
    pccl_json_open(json, NULL, '{');
    if (peer != NULL)
        pccl_json_id(json, "peer", peer);
    else
        pccl_json_null(json, "peer");
    pccl_json_string(json, "what", what);
    write_since(json, "for_us", since_us, dump->now_us);
    pccl_json_close(json, '}');
}

static void write_waits(struct pccl_json *json, const struct pccl_telemetry_dump *dump,
                        const struct pccl_recorder_entry *entry, const struct pccl_recorder_flow *flows, uint32_t count)
{
    bool any = false;
    pccl_json_open(json, "waits_for", '[');
    for (uint32_t i = 0; i < count; i++) {
        uint64_t since_us;
        enum pccl_telemetry_wait wait = pccl_recorder_entry_waits(entry, &flows[i].counters, &since_us);
        if (wait == PCCL_TELEMETRY_NOTHING)
            continue;
        any = true;
        write_wait(json, dump, &flows[i].peer, pccl_telemetry_wait_name(wait), since_us);
    }
    if (!any && entry->state != PCCL_TELEMETRY_ENDED)
        write_wait(json, dump, NULL, "outcome", pccl_max_u64(entry->entered_us, last_of(flows, count)));
    pccl_json_close(json, ']');
}

static void write_operation(struct pccl_json *json, const struct pccl_telemetry_dump *dump,
                            const struct pccl_recorder_entry *entry)
{
    const struct pccl_recorder_flow *flows = pccl_recorder_flows(dump->recorder, entry);
    uint32_t count = flows != NULL ? entry->flows.count : 0;
    uint64_t entered_us = entry->entered_us, first_us = first_of(flows, count), last_us = last_of(flows, count);
    pccl_json_open(json, NULL, '{');
    pccl_json_number(json, "number", entry->number);
    write_identity(json, &entry->instance, &entry->descriptor);
    write_what(json, &entry->descriptor);
    pccl_json_string(json, "path", entry->tiny ? "master" : "peers");
    pccl_json_number(json, "attempt", entry->attempt);
    pccl_json_number(json, "restarts", entry->restarts);
    write_outcome(json, dump->recorder, entry);
    write_wall(json, "entered", dump->wall_us - (dump->now_us - entered_us));
    write_since(json, "entered_us_ago", entered_us, dump->now_us);
    write_since(json, "first_byte_us", entered_us, first_us);
    write_since(json, "last_byte_us", entered_us, last_us);
    write_since(json, "ended_us", entered_us, entry->ended_us);
    pccl_json_number(json, "sent_bytes", entry->sent_bytes);
    pccl_json_number(json, "received_bytes", entry->received_bytes);
    write_members(json, dump->recorder, entry);
    write_waits(json, dump, entry, flows, count);
    pccl_json_open(json, "neighbors", '[');
    for (uint32_t i = 0; i < count; i++)
        write_flow(json, dump, entry, &flows[i]);
    pccl_json_close(json, ']');
    pccl_json_close(json, '}');
}

/* ---- other parts ---- */

static void write_connection(struct pccl_json *json, const struct pccl_telemetry_dump *dump,
                             const struct pccl_telemetry_connection *connection)
{
    pccl_json_open(json, NULL, '{');
    pccl_json_id(json, "peer", &connection->peer);
    pccl_json_string(json, "direction", connection->outgoing ? "to" : "from");
    pccl_json_number(json, "slot", connection->slot);
    if (connection->known) {
        if (connection->lately_us) {
            pccl_json_number(json, "rtt_us", connection->lately_us);
            pccl_json_number(json, "least_rtt_us", connection->rtt_us);
        }
        pccl_json_number(json, "rate", connection->rate);
        pccl_json_number(json, "delivered_bytes", connection->delivered_bytes);
        pccl_json_number(json, "resent_bytes", connection->resent_bytes);
        write_since(json, "sampled_us_ago", connection->sampled_us, dump->now_us);
    }
    if (connection->ended_us != 0) {
        pccl_json_string(json, "ended", pccl_link_end_name(connection->ended_by));
        write_since(json, "ended_us_ago", connection->ended_us, dump->now_us);
    }
    pccl_json_close(json, '}');
}

static void write_connections(struct pccl_json *json, const struct pccl_telemetry_dump *dump, const char *key,
                              bool ended)
{
    pccl_json_open(json, key, '[');
    for (uint32_t i = 0; i < dump->connection_count; i++)
        if ((dump->connections[i].ended_us != 0) == ended)
            write_connection(json, dump, &dump->connections[i]);
    pccl_json_close(json, ']');
}

static void write_group(struct pccl_json *json, const struct pccl_telemetry_dump *dump)
{
    pccl_json_open(json, "members", '[');
    for (uint32_t i = 0; i < dump->member_count; i++) {
        pccl_json_open(json, NULL, '{');
        pccl_json_id(json, "peer", &dump->members[i].peer);
        pccl_json_bytes(json, "name", dump->members[i].name.bytes, dump->members[i].name.length);
        pccl_json_close(json, '}');
    }
    pccl_json_close(json, ']');
    pccl_json_open(json, "announced", '[');
    for (uint32_t i = 0; i < dump->announced_count; i++) {
        pccl_json_open(json, NULL, '{');
        pccl_json_id(json, "peer", &dump->announced[i].from);
        write_identity(json, &dump->announced[i].instance, &dump->announced[i].descriptor);
        pccl_json_close(json, '}');
    }
    pccl_json_close(json, ']');
}

static void write_head(struct pccl_json *json, const struct pccl_telemetry_dump *dump)
{
    pccl_json_string(json, "what", "flight recorder of a PCCL peer");
    pccl_json_number(json, "format", PCCL_TELEMETRY_FORMAT);
    pccl_json_id(json, "peer", &dump->self);
    pccl_json_number(json, "process", dump->process);
    pccl_json_number(json, "group", dump->group);
    write_wall(json, "time", dump->wall_us);
    pccl_json_number(json, "wall_us", dump->wall_us);
    pccl_json_number(json, "clock_us", dump->now_us);
    pccl_json_bool(json, "connected", dump->connected);
    pccl_json_bytes(json, "why", dump->why.bytes, dump->why.length);
    pccl_json_bytes(json, "waits", dump->waits.bytes, dump->waits.length);
    pccl_json_open(json, "epoch", '[');
    pccl_json_number(json, NULL, dump->epoch.inc);
    pccl_json_number(json, NULL, dump->epoch.number);
    pccl_json_close(json, ']');
}

size_t pccl_telemetry_write(const struct pccl_telemetry_dump *dump, char *bytes, size_t size)
{
    struct pccl_print print;
    struct pccl_json json = {.print = &print, .indents = true};
    pccl_print_into(&print, bytes, size > 0 ? size - 1 : 0);
    pccl_json_open(&json, NULL, '{');
    write_head(&json, dump);
    write_group(&json, dump);
    write_connections(&json, dump, "connections", false);
    write_connections(&json, dump, "ended_connections", true);
    pccl_json_open(&json, "operations", '[');
    for (uint32_t i = 0; i < pccl_recorder_kept(dump->recorder); i++)
        write_operation(&json, dump, pccl_recorder_at(dump->recorder, i));
    pccl_json_close(&json, ']');
    pccl_json_close(&json, '}');
    if (size > 0)
        bytes[pccl_min_u64(print.length, size - 1)] = '\0';
    return (size_t)print.length + 1;
}
