/* Creation of a peer's machine, dispatch of events, and the end of the machine. */
#include "peer/announcements.h"
#include "peer/control.h"
#include "peer/links.h"
#include "peer/members.h"
#include "peer/operations.h"
#include "peer/optimize.h"
#include "peer/output.h"
#include "peer/progress.h"
#include "peer/queries.h"
#include "peer/receives.h"
#include "peer/op_table.h"
#include "peer/member_list.h"
#include "peer/rounds.h"
#include "peer/telemetry.h"
#include "peer/subgroups.h"
#include "peer/sync.h"
#include "peer/where.h"

enum { STANDSTILL_US = 1000000 };

struct pccl_peer_config pccl_peer_defaults(void)
{
#define DEFAULT(X, name, env, value, ...) .name = value,
    return (struct pccl_peer_config){PCCL_PEER_PARAMS(DEFAULT, ).send_idle_ms = 60000,
                                     .send_links_max = PCCL_SEND_LINKS_MAX};
}

struct pccl_peer *pccl_peer_create(const struct pccl_peer_config *config, const struct pccl_memory *memory,
                                   const struct pccl_peer_effects *effects, uint64_t now_us)
{
    struct pccl_peer *p = pccl_allocate(memory, sizeof *p);
    if (p == NULL)
        return NULL;
    p->config = *config;
    p->memory = *memory;
    p->effects = *effects;
    p->now_us = now_us;
    p->deadline_us = UINT64_MAX;
    p->silence_ms = 10000; /* until the master sends its value */
    p->heartbeat_ms = 2500;
    pccl_session_init(&p->session, &p->memory);
    pccl_hash_key_init(&p->hash, config->hash_seed);
    pccl_table_init(&p->by_instance, &p->memory, &p->hash);
    pccl_table_init(&p->uses, &p->memory, &p->hash);
    pccl_table_init(&p->choices, &p->memory, &p->hash);
    pccl_table_init(&p->subgroups, &p->memory, &p->hash);
    pccl_table_init(&p->announcements, &p->memory, &p->hash);
    pccl_table_init(&p->asks, &p->memory, &p->hash);
    pccl_list_init(&p->unstable);
    pccl_list_init(&p->open);
    pccl_list_init(&p->linked);
    pccl_list_init(&p->unlinked);
    pccl_list_init(&p->asks_due);
    pccl_names_init(&p->names, &p->memory, &p->hash);
    pccl_names_set(&p->names, &p->config.id, p->config.name, pccl_bytes_of_string(p->config.name).length);
    return p;
}

void pccl_peer_destroy(struct pccl_peer *p)
{
    if (p == NULL)
        return;
    pccl_peer_forget_requests(p);
    pccl_peer_free_ops(p);
    pccl_peer_drop_announcements(p, true);
    pccl_peer_free_subgroups(p);
    pccl_table_fini(&p->by_instance);
    pccl_table_fini(&p->uses);
    pccl_table_fini(&p->choices);
    pccl_table_fini(&p->announcements);
    pccl_table_fini(&p->asks);
    pccl_table_fini(&p->subgroups);
    pccl_names_fini(&p->names);
    pccl_session_fini(&p->session);
    pccl_release(&p->memory, p->members, p->member_capacity * sizeof *p->members);
    pccl_release(&p->memory, p->slots, p->slot_capacity * sizeof *p->slots);
    pccl_release(&p->memory, p->group.ring, p->ring_capacity * sizeof *p->group.ring);
    pccl_release(&p->memory, p->group.positions, p->position_capacity * sizeof *p->group.positions);
    pccl_peer_free_member_lists(p);
    pccl_peer_forget_tests(p);
    pccl_release(&p->memory, p->links, p->link_capacity * sizeof *p->links);
    struct pccl_memory memory = p->memory;
    pccl_release(&memory, p, sizeof *p);
}

/*
 * Advances the clock. A suspended process could not receive anything during that time, so the master's silence
 * is not counted (PROTOCOL 9.5).
 */
static void advance_time(struct pccl_peer *p, uint64_t now_us)
{
    const uint64_t before_us = p->now_us;
    if (now_us <= before_us)
        return;
    p->now_us = now_us;
    if (now_us <= p->deadline_us)
        return;
    const uint64_t gap_us = now_us - pccl_max_u64(before_us, p->deadline_us);
    uint64_t tolerance_us = STANDSTILL_US;
    if (p->silence_ms != 0) /* the silence limit may be shorter */
        tolerance_us = pccl_min_u64(tolerance_us, p->silence_ms * UINT64_C(250));
    if (gap_us <= tolerance_us)
        return;
    pccl_peer_log(p, PCCL_LOG_WARN, "this process was suspended for %s", pccl_duration_str(gap_us));
    p->received_us += gap_us;
    p->greeted_us += gap_us;
    if (p->lost_us != 0)
        p->lost_us += gap_us;
}

static void tick(struct pccl_peer *p)
{
    if (p->now_us < p->deadline_us)
        return;
    p->deadline_us = UINT64_MAX;
    pccl_peer_tick_master(p);
    if (p->state == PCCL_PEER_OVER)
        return; /* do not dial again */
    pccl_peer_tick_links(p);
    pccl_peer_tick_operations(p);
    pccl_peer_tick_calls(p);
    pccl_peer_tick_admissions(p);
}

static bool is_ignored(const struct pccl_peer *p, enum pccl_peer_event_kind kind)
{
    return kind <= PCCL_PEER_TICK && (p->state == PCCL_PEER_IDLE || p->state == PCCL_PEER_OVER);
}

static enum pccl_status handle(struct pccl_peer *p, struct pccl_peer_event *event)
{
    switch (event->kind) {
    case PCCL_PEER_MASTER_UP: pccl_peer_master_up(p); break;
    case PCCL_PEER_MASTER_DOWN: pccl_peer_master_down(p, event->reason, event->hung_up); break;
    case PCCL_PEER_MASTER_RECEIVED: pccl_peer_master_received(p, event->frame, event->msg); break;
    case PCCL_PEER_MASTER_GARBAGE: pccl_peer_master_garbage(p, event); break;
    case PCCL_PEER_LINK_UP:
    case PCCL_PEER_LINK_DOWN:
        pccl_peer_link_event(p, event);
        if (event->incoming)
            pccl_peer_link_from_changed(p, &event->peer);
        break;
    case PCCL_PEER_END_GONE: pccl_peer_end_gone(p, event); break;
    case PCCL_PEER_WANT_BACK: pccl_peer_want_back(p, event); break;
    case PCCL_PEER_SHORTAGE: pccl_peer_report_shortage(p, event->reason); break;
    case PCCL_PEER_TICK: tick(p); break;

    case PCCL_PEER_LINK_MEASURED: pccl_peer_link_measured(p, event); break;
    case PCCL_PEER_ANNOUNCED: pccl_peer_announced(p, &event->peer, event->ready); break;
    case PCCL_PEER_OP_DONE: pccl_peer_op_done(p, event->op); break;
    case PCCL_PEER_OP_FAILED: pccl_peer_op_failed(p, event->op, event->class, event->reason); break;
    case PCCL_PEER_SYNC_TOUCHED: pccl_peer_sync_touched(p); break;
    case PCCL_PEER_SYNC_PROVEN: pccl_peer_sync_proven(p, event->proof); break;
    case PCCL_PEER_SYNC_DONE: pccl_peer_sync_done(p, event->complete, event->reason); break;
    case PCCL_PEER_TELEMETRY: pccl_peer_report_telemetry(p, event->telemetry); break;
    case PCCL_PEER_TEST_DONE: pccl_peer_measured(p, event->measurement); break;
    case PCCL_PEER_BROKEN:
        pccl_peer_give_up(p, PCCL_INTERNAL, "%s %s", pccl_status_text(PCCL_INTERNAL), event->where);
        break;

    case PCCL_PEER_CALL: return pccl_peer_call(p, event->call, event->vote, event->reason);
    case PCCL_PEER_WITHDRAW: pccl_peer_withdraw(p, event->call); break;
    case PCCL_PEER_DESCRIBE: return pccl_peer_describe(p);
    case PCCL_PEER_TRAINING: return pccl_peer_report_training(p, &event->training);
    case PCCL_PEER_LAUNCH: return pccl_peer_launch(p, event->launch, &event->op);
    case PCCL_PEER_OP_AWAIT: pccl_peer_op_await(p, event->op, event->blocked); break;
    case PCCL_PEER_OP_ABORT: pccl_peer_op_cancel(p, event->op, event->class, event->reason); break;
    case PCCL_PEER_OP_RELEASE: pccl_peer_op_release(p, event->op); break;
    case PCCL_PEER_SUBGROUP_CLOSE:
        pccl_peer_close_subgroup(p, event->subgroup);
        pccl_peer_end_closed(p);
        break;
    case PCCL_PEER_DRAIN: pccl_peer_drain(p); break;
    case PCCL_PEER_LEAVE: pccl_peer_leave(p); break;
    }
    return PCCL_OK;
}

/*
 * Ends everything outstanding. If an invariant breaks before this function has finished, the event BROKEN arrives, and
 * it runs again.
 */
static void end_life(struct pccl_peer *p)
{
    p->deadline_us = UINT64_MAX;
    if (p->up || p->dialing)
        p->effects.close_master(p->effects.context);
    p->up = p->dialing = false;
    pccl_peer_close_links(p);
    pccl_peer_end_operations(p);
    pccl_peer_end_subgroups(p);
    pccl_peer_end_calls(p);
    p->ending = false;
}

/*
 * Records whether several threads make and await calls: while one thread waits, another may start the calls that other
 * peers wait for.
 */
static void note_thread(struct pccl_peer *p, const struct pccl_peer_event *event)
{
    bool calls = event->kind == PCCL_PEER_CALL || event->kind == PCCL_PEER_LAUNCH || event->kind == PCCL_PEER_OP_AWAIT;
    if (!calls || event->thread == 0)
        return;
    if (p->thread == 0)
        p->thread = event->thread;
    p->has_threads = p->has_threads || event->thread != p->thread;
}

enum pccl_status pccl_peer_step(struct pccl_peer *p, struct pccl_peer_event *event)
{
    advance_time(p, event->now_us);
    if (is_ignored(p, event->kind))
        return PCCL_OK;
    note_thread(p, event);
    enum pccl_status status = handle(p, event);
    if (p->has_news || p->has_receive)
        pccl_peer_choose_senders(p);
    if (p->ending)
        end_life(p);
    return status;
}

/* ---- queries ---- */

uint64_t pccl_peer_deadline(const struct pccl_peer *p) { return p->deadline_us; }

bool pccl_peer_is_connected(const struct pccl_peer *p) { return p->state == PCCL_PEER_MEMBER; }

struct pccl_attributes pccl_peer_attributes(const struct pccl_peer *p) { return p->attributes; }

struct pccl_attributes pccl_peer_attributes_now(const struct pccl_peer *p) { return pccl_peer_live_attributes(p); }

enum pccl_status pccl_peer_why_over(const struct pccl_peer *p)
{
    return p->state == PCCL_PEER_OVER ? p->why_over : PCCL_OK;
}

const struct pccl_text *pccl_peer_last_reason(const struct pccl_peer *p) { return &p->last_reason; }

const struct pccl_text *pccl_peer_waiting(const struct pccl_peer *p) { return &p->waiting; }

const struct pccl_id *pccl_peer_lineage(const struct pccl_peer *p) { return &p->lineage; }

uint32_t pccl_peer_silence_ms(const struct pccl_peer *p) { return p->silence_ms; }

uint32_t pccl_peer_tiny_bytes_max(const struct pccl_peer *p) { return p->tiny_bytes_max; }
