/*
 * An ordinary program of a user, for chaos.py: joins, and then repeats rounds of operations of all kinds. It draws them
 * from the shared state, so that all members draw the same. It uses the public headers only.
 *
 *   chaos_peer MASTERS HISTORY SEED GROUP SLOT INCARNATION
 *
 * Seed, slot and incarnation determine its own choices.
 * SIGTERM: it closes its communicator at once, also in the middle of a call, and ends. SIGUSR2: it writes the text of
 * pcclDescribeWaits into its history, and its flight recorder to HISTORY.json.
 */
#include "history.h"
#include "operation.h"

#include "../e2e/values.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OPS_MAX = 32, WEIGHTS = 300000, PATH_SIZE = 400, PATIENCE_S = 30 };
enum { SMALL = 4096, MIDDLE = 128 << 10, LARGE = 512 << 10 };
enum { TAG_VOTE = 1, TAG_AGREE = 2 };

/* Next step: the next call, or leaving the run. */
enum verdict { GO_ON, LEAVE };

struct head {
    uint64_t lineage, round, chain; /* the chain follows from all outcomes so far */
};

struct life {
    const char *masters, *history;
    uint32_t group;
    pcclComm_t *comm;
    char id[PCCL_PEER_ID_SIZE];
    struct head head;
    uint32_t *weights;
    uint64_t revision, wanted; /* the latest; the one that the group needs according to an error, or 0 */
    bool has_state, fresh;
    bool pending;                      /* newcomers: the answer of a call that was made during operations */
    bool has_been_given, holds_common; /* in this membership: ever; after the latest synchronization */
    uint64_t random;                   /* this peer's choices */
    uint64_t own, founded;             /* determine the lineages of its states */
    struct members members;            /* agreed on in this round */
    uint32_t index;                    /* of the next operation of the round */
    uint32_t failed;                   /* operations of the round */
};

static struct life life;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects life.comm from the thread that takes signals */
static atomic_bool stopped;

static uint64_t draw(uint64_t below) { return (life.random = mix(life.random, 77)) % below; }

/* Draws a number that is the same at all members. */
static uint64_t common(uint64_t what) { return mix(life.head.chain, what); }

static void pause_us(uint64_t us)
{
    nanosleep(&(struct timespec){(time_t)(us / 1000000), (long)(us % 1000000) * 1000}, NULL);
}

static bool connected(void)
{
    int count;
    return pcclGetAttribute(life.comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &count) == pcclSuccess;
}

static int count_of(pcclAttribute_t attribute)
{
    int count = 0;
    return pcclGetAttribute(life.comm, attribute, &count) == pcclSuccess ? count : 0;
}

/* ---- joining and leaving ---- */

static void leave(void)
{
    pthread_mutex_lock(&lock);
    pcclComm_t *comm = life.comm;
    life.comm = NULL;
    pthread_mutex_unlock(&lock);
    uint64_t number = history_begin("destroy", "");
    history_end(number, pcclDestroyCommunicator(comm), pcclGetLastError(NULL), "");
}

static pcclResult_t create_once(pcclComm_t **comm)
{
    pcclOptions_t *options;
    char group[16];
    snprintf(group, sizeof group, "%u", life.group);
    pcclResult_t result = pcclCreateOptions(&options);
    if (result != pcclSuccess)
        return result;
    result = pcclSetOption(options, "extended_results", "1");
    if (result == pcclSuccess)
        result = pcclSetOption(options, "peer_group", group);
    if (result == pcclSuccess)
        result = pcclCreateCommunicatorWithOptions(life.masters, options, comm);
    (void)pcclDestroyOptions(options);
    return result;
}

/* Retries while memory or descriptors are short. Returns false if the program was asked to end. */
static bool create(void)
{
    pcclComm_t *comm;
    pcclResult_t result;
    uint64_t since_us = history_now_us();
    while ((result = create_once(&comm)) == pcclInternalError || result == pcclOutOfMemory) {
        if (atomic_load(&stopped))
            return false;
        if (history_now_us() - since_us > PATIENCE_S * UINT64_C(1000000))
            break;
        pause_us(100000);
    }
    if (result != pcclSuccess)
        history_give_up("communicator", pcclGetLastError(NULL));
    pthread_mutex_lock(&lock);
    life.comm = comm;
    if (atomic_load(&stopped))
        (void)pcclCloseCommunicator(comm);
    pthread_mutex_unlock(&lock);
    return true;
}

static bool join(void)
{
    char more[80];
    if (!create())
        return false;
    uint64_t number = history_begin("connect", "");
    pcclResult_t result = pcclConnect(life.comm);
    bool known = result == pcclSuccess && pcclGetPeerId(life.comm, life.id, sizeof life.id) == pcclSuccess;
    snprintf(more, sizeof more, ",\"joined\":\"%.12s\"", known ? life.id : "");
    history_end(number, result, pcclGetLastError(life.comm), more);
    if (!known) { /* not connected, or closed since */
        leave();
        pause_us(100000 + draw(400000));
        return false;
    }
    life.id[12] = 0; /* short, as the history has it */
    history_set_id(life.id);
    life.fresh = true;
    life.pending = life.has_been_given = life.holds_common = false;
    life.wanted = 0;
    return true;
}

/* ---- joint calls ---- */

static enum verdict joint(const char *call, pcclResult_t (*function)(pcclComm_t *))
{
    uint64_t number = history_begin(call, "");
    pcclResult_t result = function(life.comm);
    history_end(number, result, pcclGetLastError(life.comm), "");
    return result == pcclSuccess ? GO_ON : LEAVE;
}

/* place: of the call in the round, so that the checker knows which calls of the members meet. */
static bool are_peers_pending(const char *place, enum verdict *verdict)
{
    bool pending = false;
    char more[80];
    snprintf(more, sizeof more, ",\"at\":\"%016" PRIx64 ".%s\"", life.head.chain, place);
    uint64_t number = history_begin("pending", "");
    pcclResult_t result = pcclArePeersPending(life.comm, &pending);
    if (pending)
        snprintf(more + strlen(more), sizeof more - strlen(more), ",\"pending\":1");
    history_end(number, result, pcclGetLastError(life.comm), more);
    if (result != pcclSuccess)
        *verdict = LEAVE;
    return pending;
}

static void found_state(void)
{
    life.head = (struct head){.lineage = mix(life.own, ++life.founded), .round = 1};
    life.head.chain = life.head.lineage;
    for (uint32_t i = 0; i < WEIGHTS; i++)
        life.weights[i] = (uint32_t)mix(life.head.lineage, i);
    life.has_state = true;
}

static uint64_t state_digest(void)
{
    return values_digest(life.weights, WEIGHTS * sizeof *life.weights, values_digest(&life.head, sizeof life.head, 0));
}

/* Returns the revision that the library requires after all holders of the state have left, or 0. */
static uint64_t read_wanted(void)
{
    const char before[] = "no member offers the group's next revision ";
    const char *found = strstr(pcclGetLastError(life.comm), before);
    return found != NULL ? strtoull(found + strlen(before), NULL, 10) : 0;
}

static uint64_t offered_revision(bool alone)
{
    if (life.has_been_given)
        return life.wanted != 0 ? life.wanted : life.revision + 1;
    return life.wanted != 0 ? life.wanted : alone ? life.revision + 1 : 0;
}

static bool synchronize(void)
{
    pcclTensorInfo_t infos[] = {{"head", &life.head, 3, pcclUint64, pcclDeviceCpu, false},
                                {"weights", life.weights, WEIGHTS, pcclUint32, pcclDeviceCpu, false}};
    bool alone = count_of(PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE) == 1;
    if (!life.has_state)
        found_state();
    pcclSharedState_t state = {.revision = offered_revision(alone), .count = 2, .infos = infos};
    pcclSharedStateSyncInfo_t info = {0};
    char more[300];
    uint64_t number = history_begin("synchronize", ""), brought = state.revision;
    pcclResult_t result =
        pcclSynchronizeSharedState(life.comm, &state, PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR, &info);
    bool success = result == pcclSuccess;
    snprintf(more, sizeof more,
             ",\"brought\":%" PRIu64 ",\"held\":%s,\"revision\":%" PRIu64 ",\"digest\":\"%016" PRIx64
             "\",\"lineage\":\"%016" PRIx64 "\",\"round\":%" PRIu64 ",\"rx\":%" PRIu64 ",\"group\":%u",
             brought, life.holds_common ? "true" : "false", state.revision, success ? state_digest() : 0,
             life.head.lineage, life.head.round, info.rx_bytes, life.group);
    history_end(number, result, pcclGetLastError(life.comm), more);
    life.wanted = success ? 0 : read_wanted();
    if (success)
        life.revision = state.revision;
    life.has_been_given = life.has_been_given || success;
    life.holds_common = success;
    return success;
}

/* Sets *all to whether all members have synchronized. A member that has not may hold any state. */
static enum verdict vote(bool mine, bool *all)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    options.tag = TAG_VOTE;
    options.alone_ok = true;
    uint64_t ok = mine, least = 0;
    pcclResult_t result;
    int tries = 0;
    do {
        uint64_t number = history_begin("vote", "");
        result = pcclAllReduceWithOptions(&ok, &least, 1, pcclUint64, pcclMin, &options, life.comm, NULL);
        history_end(number, result, pcclGetLastError(life.comm), least != 0 ? ",\"all\":1" : "");
    } while (result == pcclRankConnectionLost && ++tries < 50);
    *all = least != 0;
    return result == pcclSuccess ? GO_ON : LEAVE;
}

static enum verdict hold_common_state(void)
{
    enum verdict verdict = GO_ON;
    bool all = false;
    for (int tries = 0; verdict == GO_ON && !all; tries++) {
        bool mine = synchronize();
        verdict = connected() && tries < 20 ? vote(mine, &all) : LEAVE;
        if (verdict == GO_ON && !all)
            pause_us(200000); /* a member is short of memory or descriptors */
    }
    return verdict;
}

/* ---- operations ---- */

static void name_key(char key[KEY_SIZE], const char *part, uint64_t number)
{
    snprintf(key, KEY_SIZE, "%016" PRIx64 ".%s%" PRIu64, life.head.chain, part, number);
}

/* Success: a barrier succeeded among the members, so all of them hold the same list. */
static pcclResult_t agree_once(uint64_t attempt)
{
    struct op op;
    char key[KEY_SIZE];
    size_t count;
    struct members now = {.count = 0};
    pcclResult_t result = pcclGetMembers(life.comm, now.ids, MEMBERS_MAX, &count, &now.self);
    if (result != pcclSuccess || count == 1)
        return result != pcclSuccess ? result : pcclTooFewPeers;
    now.count = (uint32_t)count;
    name_key(key, "agree", attempt);
    op_draw(&op, OP_BARRIER, key, TAG_AGREE, &now, SMALL);
    op.counted = false;
    op_arrange(&op);
    result = op_carry_out(&op, life.comm);
    life.members.count = op.info.world;
    life.members.self = op.info.rank;
    memcpy(life.members.ids, op.participants, sizeof life.members.ids);
    op_finish(&op, result);
    return result;
}

static enum verdict agree_on_members(void)
{
    pcclResult_t result = pcclRankConnectionLost;
    for (uint64_t attempt = 0; attempt < 50 && result == pcclRankConnectionLost; attempt++)
        result = agree_once(attempt);
    if (result != pcclTooFewPeers)
        return result == pcclSuccess ? GO_ON : LEAVE;
    /* Alone: its chain must differ from the chain of the earlier members. */
    life.members.count = 1;
    life.head.chain = mix(life.head.chain, values_digest(life.id, strlen(life.id), 2));
    return GO_ON;
}

static size_t draw_size(uint64_t salt)
{
    uint64_t which = mix(salt, 9) % 20;
    return which < 9 ? SMALL : which < 18 ? MIDDLE : LARGE;
}

static void next_op(struct op *op, enum op_kind kind)
{
    char key[KEY_SIZE];
    uint32_t index = life.index++;
    name_key(key, "", index);
    op_draw(op, kind, key, life.head.round << 8 | index, &life.members, draw_size(common(index)));
    op_arrange(op);
}

static void next_collective(struct op *op) { next_op(op, op_collective(common(life.index + 500))); }

/* Adds an outcome to the state, so that members with different outcomes have different states. */
static void fold(const struct op *op, pcclResult_t result)
{
    life.head.chain = mix(life.head.chain, result == pcclSuccess ? op_digest(op) + 1 : 0);
}

/* Returns true if the communicator was closed: its operations cannot be awaited, and end when it is destroyed. */
static bool must_destroy_first(const struct op *op, pcclResult_t result)
{
    return op->launched && result == pcclInvalidUsage;
}

static enum verdict finish(struct op *op, pcclResult_t result)
{
    bool refused = op->refused;
    bool unknown = must_destroy_first(op, result);
    if (unknown && life.comm != NULL)
        leave();
    life.failed += result != pcclSuccess;
    (unknown ? op_forget : op_finish)(op, result);
    return refused || !connected() ? LEAVE : GO_ON;
}

/* Awaits by short waits, by polling or by one long wait, chosen at random. */
static pcclResult_t await(struct op *op)
{
    pcclResult_t result;
    bool done = false;
    switch (draw(3)) {
    case 0: do { result = pcclAwaitOperation(&op->handle, (uint32_t)draw(20), &op->info);
        } while (result == pcclTimeout);
        return result;
    case 1:
        while (pcclTestAsyncReduce(&op->handle, &done) == pcclSuccess && !done)
            pause_us(500 + draw(2000));
        return pcclAwaitOperation(&op->handle, UINT32_MAX, &op->info);
    default: return pcclAwaitOperation(&op->handle, UINT32_MAX, &op->info);
    }
}

static enum verdict one_after_another(void)
{
    enum verdict verdict = GO_ON;
    for (uint64_t i = 0, count = 2 + common(1) % 4; i < count && verdict == GO_ON; i++) {
        struct op op;
        next_collective(&op);
        pcclResult_t result = op_carry_out(&op, life.comm);
        fold(&op, result);
        verdict = finish(&op, result);
    }
    return verdict;
}

struct batch {
    struct op ops[OPS_MAX];
    pcclResult_t results[OPS_MAX];
    uint32_t count;
};

static struct batch batch;

static void launch_all(const pcclComm_t *comm)
{
    for (uint32_t i = 0; i < batch.count; i++)
        batch.results[i] = op_launch(&batch.ops[i], comm);
}

static void *await_odd_ones(void *unused)
{
    for (uint32_t i = 1; i < batch.count; i += 2)
        if (batch.ops[i].launched)
            batch.results[i] =
                op_ended(&batch.ops[i], pcclAwaitOperation(&batch.ops[i].handle, UINT32_MAX, &batch.ops[i].info),
                         batch.ops[i].handle.comm);
    return unused;
}

/* Awaits all launched operations, starting at a random one, sometimes in two threads. */
static void await_all(void)
{
    pthread_t thread;
    bool two = draw(4) == 0 && pthread_create(&thread, NULL, await_odd_ones, NULL) == 0;
    uint32_t first = (uint32_t)draw(batch.count);
    for (uint32_t k = 0; k < batch.count; k++) {
        uint32_t i = (first + k) % batch.count;
        if (batch.ops[i].launched && (!two || i % 2 == 0))
            batch.results[i] = op_ended(&batch.ops[i], await(&batch.ops[i]), batch.ops[i].handle.comm);
    }
    if (two)
        pthread_join(thread, NULL);
}

static enum verdict finish_all(bool folded)
{
    enum verdict verdict = GO_ON;
    for (uint32_t i = 0; i < batch.count; i++) {
        if (folded)
            fold(&batch.ops[i], batch.results[i]);
        if (finish(&batch.ops[i], batch.results[i]) != GO_ON)
            verdict = LEAVE;
    }
    return verdict;
}

/* Ends the operations of a destroyed communicator or group in the history. Their outcomes are unknown. */
static void forget_all(void)
{
    for (uint32_t i = 0; i < batch.count; i++)
        op_forget(&batch.ops[i], pcclSuccess);
}

static enum verdict several_at_once(bool aborts)
{
    enum verdict verdict = GO_ON;
    batch.count = (uint32_t)(2 + common(2) % 5);
    for (uint32_t i = 0; i < batch.count; i++)
        next_collective(&batch.ops[i]);
    launch_all(life.comm);
    if (!aborts && draw(200) == 0) {
        pause_us(draw(4000));
        history_note("leaves", "");
        leave();
        forget_all();
        return LEAVE;
    }
    if (aborts && common(3) % life.members.count == life.members.self) {
        pause_us(draw(3000));
        history_note("aborts", "");
        (void)pcclAbortOperations(life.comm);
    }
    /* During the operations. Peers of other peer groups act on the answer, so this one must, too. */
    if (!aborts && !life.pending && common(4) % 3 == 0)
        life.pending = are_peers_pending("operations", &verdict);
    await_all();
    return finish_all(true) == GO_ON ? verdict : LEAVE;
}

/* The members may have been shown lists of members that this peer was not, so nothing may follow from earlier ones. */
static bool rebuild(const pcclRebuild_t *now, void *user_data)
{
    struct members members = {.count = now->member_count, .self = now->rank};
    (void)user_data;
    memcpy(members.ids, now->members, now->member_count * sizeof *now->members);
    for (size_t i = 0; i < now->entry_count; i++) {
        struct op *op = &batch.ops[now->entries[i]];
        op_rearrange(op, &members);
        op_describe(op, &now->operations[now->entries[i]]);
    }
    return true;
}

static enum verdict list(void)
{
    pcclOperation_t entries[OPS_MAX];
    pcclRunOptions_t options = PCCL_RUN_OPTIONS_INIT;
    batch.count = (uint32_t)(3 + common(5) % 5);
    options.max_in_flight = 1 + (uint32_t)draw(batch.count);
    options.rebuild = common(6) % 4 != 0 ? rebuild : NULL;
    for (uint32_t i = 0; i < batch.count; i++) {
        next_collective(&batch.ops[i]);
        op_describe(&batch.ops[i], &entries[i]);
        batch.ops[i].number = history_begin(op_name(&batch.ops[i]), batch.ops[i].key);
    }
    uint64_t number = history_begin("list", "");
    pcclResult_t result = pcclRunOperations(entries, batch.count, &options, life.comm);
    history_end(number, result, pcclGetLastError(life.comm), "");
    life.head.chain = mix(life.head.chain, (uint64_t)(result == pcclSuccess));
    for (uint32_t i = 0; i < batch.count; i++)
        batch.results[i] = op_ended(&batch.ops[i], batch.ops[i].info.world > 0 ? pcclSuccess : result, life.comm);
    return finish_all(result == pcclSuccess);
}

/* Draws type and count from the key, which both ends know. */
static void next_send(struct op *op, enum op_kind kind, const char *what, uint32_t index, uint32_t peer)
{
    char key[KEY_SIZE];
    name_key(key, what, index);
    op_draw(op, kind, key, life.head.round << 8 | index, &life.members, draw_size(common(index)));
    op->root = peer;
    op_arrange(op);
}

/* Adds a send to the next member and a receive from the previous one. */
static void draw_ring(void)
{
    const struct members *all = &life.members;
    uint32_t index = life.index++;
    next_send(&batch.ops[batch.count++], OP_SEND, "ring", index, (all->self + 1) % all->count);
    next_send(&batch.ops[batch.count++], OP_RECV, "ring", index, (all->self + all->count - 1) % all->count);
}

/* Adds a send to one member, which receives from any peer. */
static void draw_funnel(void)
{
    const struct members *all = &life.members;
    uint32_t index = life.index++, target = (uint32_t)(common(7) % all->count);
    for (uint32_t i = 1; all->self == target && i < all->count; i++)
        next_send(&batch.ops[batch.count++], OP_RECV, "any", index, PCCL_ANY_PEER);
    if (all->self != target)
        next_send(&batch.ops[batch.count++], OP_SEND, "any", index, target);
}

/*
 * A receive from any peer waits for all that are left: this peer aborts after 1 s if members have left, else 10 s. Its
 * abort leaves the sends of late members without a receiver, so each of them aborts after 20 s.
 */
static void await_sends(void)
{
    uint64_t since_us = history_now_us();
    for (uint32_t i = 0; i < batch.count; i++) {
        struct op *op = &batch.ops[i];
        if (!op->launched)
            continue;
        while ((batch.results[i] = pcclAwaitOperation(&op->handle, 100, &op->info)) == pcclTimeout) {
            bool fewer = count_of(PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE_NOW) < (int)life.members.count;
            uint64_t patience_us = op->root != PCCL_ANY_PEER ? 20000000 : fewer ? 1000000 : 10000000;
            if (history_now_us() - since_us > patience_us) {
                history_note("aborts", "");
                (void)pcclAbortOperations(life.comm);
            }
        }
        op_ended(op, batch.results[i], life.comm);
    }
}

static enum verdict sends(void)
{
    batch.count = 0;
    draw_ring();
    draw_funnel();
    launch_all(life.comm);
    await_sends();
    return finish_all(false);
}

/* ---- groups ---- */

enum { GROUPS = 2 };

static pcclComm_t *found_group(uint64_t which, struct members *members)
{
    pcclGroupOptions_t options = PCCL_GROUP_OPTIONS_INIT;
    pcclComm_t *group = NULL;
    bool inside = false;
    members->count = 0;
    for (uint32_t i = 0; i < life.members.count; i++) {
        if (mix(common(30 + which), hash_id(&life.members.ids[i])) % 3 == 0)
            continue;
        inside = inside || i == life.members.self;
        members->ids[members->count++] = life.members.ids[i];
    }
    if (!inside || members->count < 2)
        return NULL;
    options.timeout_ms = 5000;
    uint64_t number = history_begin("found", "");
    pcclResult_t result = pcclCreateGroup(life.comm, members->ids, members->count, &options, &group);
    history_end(number, result, pcclGetLastError(life.comm), "");
    size_t count;
    if (result != pcclSuccess ||
        pcclGetMembers(group, members->ids, MEMBERS_MAX, &count, &members->self) != pcclSuccess)
        return result == pcclSuccess ? group : NULL;
    return group;
}

static void close_group(pcclComm_t *group)
{
    uint64_t number = history_begin("close", "");
    history_end(number, pcclDestroyCommunicator(group), pcclGetLastError(NULL), "");
}

/* Runs operations in a group. One member may close the group during them. */
static enum verdict use_group(uint64_t which, pcclComm_t *group, const struct members *members)
{
    char part[8];
    batch.count = (uint32_t)(1 + common(40 + which) % 4);
    snprintf(part, sizeof part, "g%u-", (unsigned)which);
    for (uint32_t i = 0; i < batch.count; i++) {
        char key[KEY_SIZE];
        uint64_t salt = common(50 + which * 10 + i);
        name_key(key, part, i);
        op_draw(&batch.ops[i], op_collective(salt), key, 100 + i, members, draw_size(salt));
        batch.ops[i].of_group = true;
        op_arrange(&batch.ops[i]);
    }
    launch_all(group);
    if (common(60 + which) % (members->count * 2) == members->self) {
        pause_us(draw(4000));
        history_note("closes", "");
        close_group(group);
        forget_all();
        return GO_ON;
    }
    await_all();
    bool closed = false;
    for (uint32_t i = 0; i < batch.count; i++)
        closed = closed || must_destroy_first(&batch.ops[i], batch.results[i]);
    if (closed)
        close_group(group);
    enum verdict verdict = finish_all(false);
    if (!closed)
        close_group(group);
    return verdict;
}

static enum verdict groups(void)
{
    struct members members[GROUPS];
    pcclComm_t *handles[GROUPS];
    enum verdict verdict = GO_ON;
    for (uint64_t i = 0; i < GROUPS; i++)
        handles[i] = found_group(i, &members[i]);
    for (uint64_t i = 0; i < GROUPS; i++)
        if (handles[i] != NULL && use_group(i, handles[i], &members[i]) != GO_ON)
            verdict = LEAVE;
    return connected() ? verdict : LEAVE;
}

/* ---- rounds ---- */

static enum verdict play_round(void)
{
    enum verdict verdict = GO_ON;
    char more[120];
    struct head before = life.head;
    life.index = life.failed = 0;
    for (int part = 0; part < 2 && verdict == GO_ON; part++) {
        life.head.chain = mix(life.head.chain, (uint64_t)part + 1); /* so that both parts may be of the same kind */
        switch (common(10) % 10) {
        case 0:
        case 1: verdict = one_after_another(); break;
        case 2:
        case 3: verdict = several_at_once(false); break;
        case 4: verdict = several_at_once(true); break;
        case 5:
        case 6: verdict = list(); break;
        case 7: verdict = sends(); break;
        default: verdict = groups(); break;
        }
    }
    if (verdict != GO_ON)
        return verdict;
    life.head.chain = mix(life.head.chain, life.head.round);
    life.weights[life.head.chain % WEIGHTS] ^= (uint32_t)life.head.chain;
    snprintf(more, sizeof more, ",\"round\":%" PRIu64 ",\"world\":%u,\"failed\":%u,\"group\":%u", before.round,
             life.members.count, life.failed, life.group);
    life.head.round++;
    history_note("round", more);
    return GO_ON;
}

static enum verdict turn(bool newcomer)
{
    enum verdict verdict = GO_ON;
    if (!newcomer && (life.pending || are_peers_pending("round", &verdict)) && verdict == GO_ON) {
        verdict = joint("update", pcclUpdateTopology);
        life.fresh = true;
    }
    life.pending = false;
    if (verdict != GO_ON)
        return verdict;
    int world = count_of(PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE);
    if (life.fresh && world > 1 && world % 3 == 0) {
        uint64_t number = history_begin("optimize", "");
        pcclResult_t result = pcclOptimizeTopology(life.comm);
        history_end(number, result, pcclGetLastError(life.comm), "");
    }
    if (life.fresh || common(20) % 3 == 0)
        verdict = hold_common_state();
    if (verdict == GO_ON)
        verdict = agree_on_members();
    if (verdict != GO_ON)
        return verdict;
    life.fresh = false;
    if (life.members.count > 1)
        verdict = play_round();
    pause_us(life.members.count > 1 ? draw(40000) : 50000);
    return verdict;
}

/* ---- the process ---- */

static void describe(void)
{
    char text[1500] = "", quoted[2000], more[2100], file[PATH_SIZE];
    pthread_mutex_lock(&lock);
    if (life.comm != NULL) {
        (void)pcclDescribeWaits(life.comm, text, sizeof text);
        snprintf(file, sizeof file, "%s.json", life.history);
        (void)pcclWriteFlightRecorder(life.comm, file);
    }
    pthread_mutex_unlock(&lock);
    snprintf(more, sizeof more, ",\"waits\":%s", history_quote(text, quoted, sizeof quoted));
    history_note("waits", more);
}

static void *take_signals(void *set)
{
    for (;;) {
        int number = 0;
        if (sigwait(set, &number) != 0)
            continue;
        if (number == SIGUSR2) {
            describe();
            continue;
        }
        pthread_mutex_lock(&lock);
        atomic_store(&stopped, true);
        if (life.comm != NULL)
            (void)pcclCloseCommunicator(life.comm);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(int count, char **words)
{
    static sigset_t set;
    pthread_t thread;
    if (count != 7)
        return 3;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    life.masters = words[1];
    life.history = words[2];
    life.own = mix(mix(strtoull(words[3], NULL, 10), strtoull(words[5], NULL, 10)), strtoull(words[6], NULL, 10));
    life.random = life.own;
    life.group = (uint32_t)strtoul(words[4], NULL, 10);
    life.weights = calloc(WEIGHTS, sizeof *life.weights);
    history_open(life.history);
    if (life.weights == NULL)
        history_give_up("state", "out of memory");
    if (pcclInit() != pcclSuccess)
        history_give_up("library", pcclGetLastError(NULL));
    if (pthread_create(&thread, NULL, take_signals, &set) != 0)
        history_give_up("thread", "out of memory for a thread");
    while (!atomic_load(&stopped)) {
        if (!join())
            continue;
        enum verdict verdict = turn(true);
        while (verdict == GO_ON && !atomic_load(&stopped))
            verdict = turn(false);
        if (life.comm != NULL)
            leave();
    }
    history_note("ends", "");
    return 0;
}
