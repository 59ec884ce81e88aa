/*
 * A requester among donors that answer in any order and at any rate, and die, stall or lie. A few words represent the
 * memory of a chunk; they are written one by one, so that a half-written chunk is detected.
 */
#ifndef PCCL_TESTS_FETCH_WORLD_H
#define PCCL_TESTS_FETCH_WORLD_H

#include "os/cpu.h"
#include "state/fetch.h"
#include "state/serve.h"
#include "unit/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum {
    WORDS = 4, /* of a chunk */
    TENSORS = 12,
    DONORS = 8,
    QUEUE = 2048,
    MEGABYTE = PCCL_STATE_CHUNK_BYTES,
    MS = 1000,
    NOBODY = 255,
};

enum conduct {
    HONEST,
    PAUSES, /* for seconds, once */
    DIES,
    STALLS, /* for good */
    LIES_ROOT,
    LIES_LIST,
    LIES_DATA,
    WRONG_ROUND,
    WRONG_PLACE,
    WRONG_LENGTH,
    WRONG_COUNT,
    WRONG_TYPE,
    TWICE,
    CONDUCTS,
};

typedef uint32_t chunk_words[WORDS];

struct holder {
    struct pccl_state state;
    chunk_words *memory;
};

struct donor {
    struct holder holder;
    enum conduct conduct;
    uint64_t trigger; /* answers after which it shows */
    bool holds_unequal, up, lied, connected_once;
    uint32_t rtt_us, weight;
    struct pccl_msg_state_want queue[QUEUE];
    uint32_t queue_first, queue_count;
    uint64_t owed_bytes, stalled_until, stepped_us, answers;
    bool sending, wanted;
    uint32_t written;
    uint64_t chunk; /* index in the state */
};

struct world {
    struct pccl_prng prng;
    struct test_memory memory, other;
    struct pccl_tensor tensors[TENSORS];
    uint32_t tensor_count, donor_count;
    struct holder own, elected, before; /* before: own, when the fetch began */
    uint8_t *writer;                    /* writer of each chunk */
    bool *begun;                        /* its memory has been written to */
    struct donor donors[DONORS];
    struct pccl_fetch *fetch;
    uint64_t now, round, step_us;
    bool takes, takes_in_effect;
    uint64_t wanted_bytes, thrown_bytes, sent, drops;
};

static struct world world;

static uint64_t below(uint64_t bound) { return pccl_prng_below(&world.prng, bound); }

/* ---- holders ---- */

/* Detected once: on a virtual processor each query takes as long as hashing all of a world. */
static const struct pccl_kernels *kernels(void)
{
    static const struct pccl_kernels *found;
    if (found == NULL)
        found = pccl_kernels_for(pccl_cpu_features());
    return found;
}

static struct pccl_proof proof_of(const chunk_words reason)
{
    return pccl_proof_bytes(kernels(), reason, sizeof(chunk_words));
}

static size_t words_bytes(const struct holder *holder)
{
    return (size_t)(holder->state.chunk_count + 1) * sizeof(chunk_words);
}

static void holder_prove(struct holder *holder)
{
    for (uint64_t i = 0; i < holder->state.chunk_count; i++)
        holder->state.proofs[i] = proof_of(holder->memory[i]);
    pccl_state_prove(&holder->state);
}

static void holder_init(struct holder *holder)
{
    assert_int_equal(pccl_state_init(&holder->state, kernels(), &world.other.memory, world.tensors, world.tensor_count),
                     PCCL_OK);
    holder->memory = pccl_allocate(&world.other.memory, words_bytes(holder));
    for (uint64_t i = 0; i < holder->state.chunk_count; i++)
        for (uint32_t k = 0; k < WORDS; k++)
            holder->memory[i][k] = (uint32_t)pccl_prng_u64(&world.prng);
    holder_prove(holder);
}

static void holder_fini(struct holder *holder)
{
    pccl_release(&world.other.memory, holder->memory, words_bytes(holder));
    pccl_state_fini(&holder->state);
}

static bool is_of_unequal(const struct holder *holder, uint64_t chunk)
{
    for (uint32_t t = 0; t < holder->state.tensor_count; t++) {
        const struct pccl_tensor *tensor = &holder->state.tensors[t];
        if (chunk >= tensor->first_chunk && chunk < tensor->first_chunk + tensor->chunks)
            return tensor->unequal;
    }
    return false;
}

/* Copies each chunk of the tensors that are equal everywhere with this probability. */
static void copy_equal(struct holder *to, const struct holder *from, uint32_t per_million)
{
    for (uint64_t i = 0; i < to->state.chunk_count; i++)
        if (!is_of_unequal(to, i) && pccl_prng_chance(&world.prng, per_million))
            memcpy(to->memory[i], from->memory[i], sizeof(chunk_words));
    holder_prove(to);
}

/* ---- effects ---- */

static uint64_t length_of(const struct pccl_msg_state_want *want)
{
    if (want->what != PCCL_WANT_DATA)
        return want->count * sizeof(struct pccl_proof);
    return pccl_state_chunk_length(&world.own.state.tensors[want->tensor], want->first);
}

static void check_wire(const struct pccl_msg *msg)
{
    static struct pccl_wire_scratch scratch;
    uint8_t body[256];
    struct pccl_msg decoded;
    struct pccl_text reason;
    size_t size = pccl_wire_size(msg);
    assert_true(size <= sizeof body);
    pccl_wire_encode(msg, body);
    assert_int_equal(pccl_wire_decode(msg->type, body, size, &scratch, &decoded, &reason), PCCL_OK);
}

static void on_send(void *context, uint32_t number, const struct pccl_msg *msg)
{
    assert_ptr_equal(context, &world);
    struct donor *donor = &world.donors[number];
    assert_true(number < world.donor_count && donor->up && donor->queue_count < QUEUE);
    assert_int_equal(msg->type, PCCL_MSG_state_want);
    assert_int_equal(msg->as.state_want.round, world.round);
    check_wire(msg);
    donor->queue[(donor->queue_first + donor->queue_count++) % QUEUE] = msg->as.state_want;
    donor->owed_bytes += length_of(&msg->as.state_want);
    assert_true(donor->owed_bytes <= (donor->rtt_us < 2000 ? 4u : 16u) * MEGABYTE);
    world.sent++;
}

static void donor_closed(struct donor *donor)
{
    if (donor->sending && donor->wanted)
        world.writer[donor->chunk] = NOBODY;
    donor->up = donor->sending = donor->wanted = false;
    donor->queue_count = 0;
    donor->owed_bytes = 0;
}

static void on_drop(void *context, uint32_t number, const char *reason)
{
    assert_ptr_equal(context, &world);
    struct donor *donor = &world.donors[number];
    assert_true(donor->up && strlen(reason) > 0);
    assert_true(donor->stalled_until > 0 || world.memory.failures > 0);
    donor_closed(donor);
    world.drops++;
}

static const struct pccl_fetch_effects effects = {.context = &world, .send = on_send, .drop = on_drop};

/* ---- the world ---- */

static void donor_connect(uint32_t number)
{
    struct donor *donor = &world.donors[number];
    donor->up = donor->connected_once = true;
    donor->stepped_us = world.now;
    pccl_fetch_donor_up(world.fetch, world.now, number, donor->holds_unequal, donor->rtt_us);
}

static void donor_disconnect(uint32_t number)
{
    donor_closed(&world.donors[number]);
    pccl_fetch_donor_down(world.fetch, world.now, number);
}

static void world_begin(bool takes)
{
    for (uint32_t i = 0; i < world.donor_count; i++) {
        donor_closed(&world.donors[i]);
        world.donors[i].connected_once = false;
    }
    world.round++;
    world.takes = world.takes_in_effect = takes;
    for (uint32_t t = 0; t < world.tensor_count; t++)
        if (world.tensors[t].unequal && pccl_fetch_is_torn(world.fetch, t))
            world.takes_in_effect = true;
    memcpy(world.before.memory, world.own.memory, words_bytes(&world.own));
    holder_prove(&world.before);
    pccl_fetch_begin(world.fetch, world.now, world.round, &world.elected.state.proof, takes);
}

/* Initializes the world with the tensors in world.tensors. */
static void world_init(uint64_t seed, uint32_t donors, uint32_t same_per_million)
{
    world.donor_count = donors;
    holder_init(&world.elected);
    holder_init(&world.own);
    holder_init(&world.before);
    copy_equal(&world.own, &world.elected, same_per_million);
    for (uint32_t i = 0; i < donors; i++) {
        struct donor *donor = &world.donors[i];
        *donor = (struct donor){.holds_unequal = true, .weight = 1};
        holder_init(&donor->holder);
        copy_equal(&donor->holder, &world.elected, 1000000);
        assert_true(pccl_proof_equal(&donor->holder.state.proof, &world.elected.state.proof));
    }
    size_t chunks = (size_t)world.own.state.chunk_count + 1;
    world.writer = pccl_allocate(&world.other.memory, chunks);
    world.begun = pccl_allocate(&world.other.memory, chunks);
    memset(world.writer, NOBODY, chunks);
    world.now = 1000 + seed;
    world.step_us = 300;
    world.round = seed * 100;
    world.wanted_bytes = world.thrown_bytes = world.sent = world.drops = 0;
}

/* Sets the random seed. Call before world_init. */
static void world_seed(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    test_memory_init(&world.memory);
    test_memory_init(&world.other);
    pccl_prng_seed(&world.prng, seed);
}

static void add_tensor(uint64_t bytes, bool unequal)
{
    static const char *const names[TENSORS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    assert_true(world.tensor_count < TENSORS);
    world.tensors[world.tensor_count] =
        (struct pccl_tensor){.name = names[world.tensor_count], .count = bytes, .bytes = bytes, .unequal = unequal};
    world.tensor_count++;
}

static void world_start(bool takes)
{
    world.fetch = pccl_fetch_create(&world.own.state, &world.memory.memory, &effects);
    assert_non_null(world.fetch);
    world_begin(takes);
}

static void world_fini(void)
{
    pccl_fetch_destroy(world.fetch);
    size_t chunks = (size_t)world.own.state.chunk_count + 1;
    pccl_release(&world.other.memory, world.writer, chunks);
    pccl_release(&world.other.memory, world.begun, chunks);
    for (uint32_t i = 0; i < world.donor_count; i++)
        holder_fini(&world.donors[i].holder);
    holder_fini(&world.before);
    holder_fini(&world.own);
    holder_fini(&world.elected);
    assert_int_equal(world.memory.live_blocks, 0);
    assert_int_equal(world.other.live_blocks, 0);
}

/* ---- invariants ---- */

/* Checks that the state's digests and proofs match the memory. */
static void check_truth(void)
{
    const struct pccl_state *state = &world.own.state;
    for (uint64_t i = 0; i < state->chunk_count; i++) {
        struct pccl_proof proof = proof_of(world.own.memory[i]);
        assert_true(pccl_proof_is_zero(&state->proofs[i]) || pccl_proof_equal(&state->proofs[i], &proof));
        assert_true(world.writer[i] == NOBODY || pccl_proof_is_zero(&state->proofs[i]));
    }
    struct holder truth = world.own;
    holder_init(&truth);
    memcpy(truth.memory, world.own.memory, words_bytes(&truth));
    holder_prove(&truth);
    for (uint32_t t = 0; t < state->tensor_count; t++) {
        const struct pccl_tensor *tensor = &state->tensors[t];
        struct pccl_proof known =
            pccl_proof_root(state->kernels, tensor->bytes, state->proofs + tensor->first_chunk, tensor->chunks);
        if (pccl_fetch_is_torn(world.fetch, t))
            assert_true(pccl_proof_is_zero(&tensor->proof) || pccl_proof_equal(&known, &tensor->proof));
        else
            assert_true(pccl_proof_equal(&truth.state.tensors[t].proof, &tensor->proof));
    }
    if (pccl_fetch_status(world.fetch) == PCCL_FETCH_COMPLETE)
        assert_true(pccl_proof_equal(&truth.state.proof, &state->proof));
    holder_fini(&truth);
}

static bool has_same(const struct holder *other, bool unequal)
{
    for (uint64_t i = 0; i < world.own.state.chunk_count; i++)
        if (is_of_unequal(&world.own, i) == unequal &&
            memcmp(world.own.memory[i], other->memory[i], sizeof(chunk_words)) != 0)
            return false;
    return true;
}

static uint64_t unequal_bytes(void)
{
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < world.tensor_count; t++)
        bytes += world.tensors[t].unequal ? world.tensors[t].bytes : 0;
    return bytes;
}

static void check_complete(void)
{
    check_truth();
    assert_int_equal(pccl_fetch_status(world.fetch), PCCL_FETCH_COMPLETE);
    assert_int_equal(pccl_fetch_reason(world.fetch)->length, 0);
    assert_true(pccl_fetch_deadline(world.fetch) == UINT64_MAX && !pccl_fetch_is_starved(world.fetch));
    assert_true(pccl_proof_equal(&world.own.state.proof, &world.elected.state.proof));
    assert_true(has_same(&world.elected, false));
    for (uint32_t t = 0; t < world.tensor_count; t++)
        assert_false(pccl_fetch_is_torn(world.fetch, t));
    bool same = !world.takes_in_effect ? has_same(&world.before, true) : unequal_bytes() == 0;
    for (uint32_t i = 0; i < world.donor_count && world.takes_in_effect; i++)
        same = same || (world.donors[i].holds_unequal && has_same(&world.donors[i].holder, true));
    assert_true(same);
}

/* ---- donors at work ---- */

static void donor_refused(uint32_t number, const struct pccl_text *reason)
{
    if (!world.donors[number].lied)
        fail_msg("an honest donor is refused: %s", reason->bytes);
    assert_true(reason->length > 0);
    donor_disconnect(number);
}

static void begin_arrival(uint32_t number, const struct pccl_fetch_arrival *arrival,
                          const struct pccl_msg_state_want *want)
{
    struct donor *donor = &world.donors[number];
    donor->sending = true;
    donor->written = 0;
    donor->wanted = arrival->wanted;
    donor->chunk = world.own.state.tensors[want->tensor].first_chunk + want->first;
    assert_int_equal(arrival->tensor, want->tensor);
    assert_int_equal(arrival->chunk, want->first);
    assert_int_equal(arrival->length, length_of(want));
    if (!arrival->wanted) {
        world.thrown_bytes += arrival->length;
        return;
    }
    world.wanted_bytes += arrival->length;
    assert_int_equal(world.writer[donor->chunk], NOBODY);
    bool differs = memcmp(world.own.memory[donor->chunk], donor->holder.memory[donor->chunk], sizeof(chunk_words)) != 0;
    assert_true(differs || world.begun[donor->chunk]);
    assert_true(pccl_fetch_is_torn(world.fetch, want->tensor));
    assert_true(!world.tensors[want->tensor].unequal || (donor->holds_unequal && world.takes_in_effect));
    world.writer[donor->chunk] = (uint8_t)number;
    world.begun[donor->chunk] = true;
}

/*
 * Alters an answer according to the donor's conduct. Returns true if the answer is a lie that must be detected at once.
 */
static bool distort(struct donor *donor, struct pccl_msg *answer, struct pccl_proof *proofs)
{
    struct pccl_msg_state_proofs *list = &answer->as.state_proofs;
    struct pccl_msg_state_data *data = &answer->as.state_data;
    bool is_list = answer->type == PCCL_MSG_state_proofs;
    switch (donor->conduct) {
    case LIES_ROOT:
    case LIES_LIST: {
        if (!is_list || (list->what == PCCL_WANT_ROOTS) != (donor->conduct == LIES_ROOT))
            return false;
        uint64_t i = below(list->proofs_count);
        memmove(proofs, list->proofs, list->proofs_count * sizeof *proofs);
        list->proofs = proofs;
        proofs[i].low.bytes[3] ^= 1;
        donor->lied = true;
        return donor->conduct == LIES_LIST || !world.tensors[i].unequal;
    }
    case WRONG_ROUND: *(is_list ? &list->round : &data->round) -= 1; break;
    case WRONG_PLACE:
        if (is_list && below(2) == 0)
            list->what = list->what == PCCL_WANT_ROOTS ? PCCL_WANT_CHUNKS : PCCL_WANT_ROOTS;
        else if (below(2) == 0)
            *(is_list ? &list->tensor : &data->tensor) += 1;
        else
            *(is_list ? &list->first : &data->chunk) += 1;
        break;
    case WRONG_LENGTH:
        if (is_list)
            return false;
        data->length ^= 1;
        break;
    case WRONG_COUNT:
        if (!is_list)
            return false;
        list->proofs_count--;
        break;
    case WRONG_TYPE:
        *answer = (struct pccl_msg){.type = below(2) == 0 ? PCCL_MSG_link_bye : PCCL_MSG_state_want};
        break;
    default: return false;
    }
    donor->lied = true;
    return true;
}

/* The next answer of a donor: all of it, or the beginning of a chunk. */
static void answer_next(uint32_t number)
{
    static struct pccl_proof roots[PCCL_STATE_DIGESTS_MAX];
    struct donor *donor = &world.donors[number];
    const struct pccl_msg_state_want want = donor->queue[donor->queue_first % QUEUE];
    struct pccl_msg answer;
    struct pccl_text reason = {0};
    struct pccl_fetch_arrival arrival;
    assert_true(donor->queue_count > 0);
    assert_int_equal(pccl_serve(&donor->holder.state, world.round, &want, roots, &answer, &reason), PCCL_OK);
    bool noticed = ++donor->answers > donor->trigger && distort(donor, &answer, roots);
    donor->queue_first++;
    donor->queue_count--;
    if (want.what != PCCL_WANT_DATA)
        donor->owed_bytes -= length_of(&want);
    enum pccl_status status = pccl_fetch_received(world.fetch, world.now, number, &answer, &arrival, &reason);
    if (noticed)
        assert_int_equal(status, PCCL_MALFORMED);
    if (status != PCCL_OK) {
        donor_refused(number, &reason);
        return;
    }
    if (answer.type == PCCL_MSG_state_data)
        begin_arrival(number, &arrival, &want);
    if (donor->conduct == TWICE && donor->answers > donor->trigger) {
        donor->lied = true;
        assert_int_equal(pccl_fetch_received(world.fetch, world.now, number, &answer, &arrival, &reason),
                         PCCL_MALFORMED);
        donor_refused(number, &reason);
    }
}

static void end_arrival(uint32_t number)
{
    struct donor *donor = &world.donors[number];
    struct pccl_text reason = {0};
    struct pccl_proof proof = {0};
    if (donor->wanted)
        proof = proof_of(world.own.memory[donor->chunk]);
    uint64_t i = donor->chunk;
    uint32_t t = 0;
    while (i >= world.own.state.tensors[t].first_chunk + world.own.state.tensors[t].chunks)
        t++;
    donor->owed_bytes -=
        pccl_state_chunk_length(&world.own.state.tensors[t], i - world.own.state.tensors[t].first_chunk);
    donor->sending = false;
    if (donor->wanted)
        world.writer[donor->chunk] = NOBODY;
    donor->wanted = false;
    if (pccl_fetch_arrived(world.fetch, world.now, number, &proof, &reason) != PCCL_OK)
        donor_refused(number, &reason);
}

static void write_word(uint32_t number)
{
    struct donor *donor = &world.donors[number];
    if (donor->wanted) {
        uint32_t word = donor->holder.memory[donor->chunk][donor->written];
        if (donor->conduct == LIES_DATA && donor->answers > donor->trigger) {
            word ^= 1;
            donor->lied = true;
        }
        assert_int_equal(world.writer[donor->chunk], number);
        world.own.memory[donor->chunk][donor->written] = word;
    }
    donor->written++;
    pccl_fetch_progress(world.fetch, world.now, number);
    if (donor->written == WORDS)
        end_arrival(number);
}

static void donor_step(uint32_t number)
{
    struct donor *donor = &world.donors[number];
    donor->stepped_us = world.now;
    if (donor->answers >= donor->trigger && donor->conduct == DIES && (!donor->sending || below(4) == 0)) {
        donor_disconnect(number);
    } else if (donor->answers >= donor->trigger && donor->conduct == STALLS) {
        donor->stalled_until = UINT64_MAX;
    } else if (donor->answers >= donor->trigger && donor->conduct == PAUSES && donor->stalled_until == 0) {
        donor->stalled_until = world.now + 100 * MS + below(3000 * MS);
    } else if (donor->sending) {
        write_word(number);
    } else {
        answer_next(number);
    }
}

/* Answers everything that this donor was asked for up to now, even if more requests arrive during the call. */
static void answer_all(uint32_t number)
{
    struct donor *donor = &world.donors[number];
    while (donor->up && (donor->sending || donor->queue_count > 0))
        donor_step(number);
}

/* ---- a run ---- */

static bool can_step(const struct donor *donor)
{
    return donor->up && donor->stalled_until <= world.now && (donor->sending || donor->queue_count > 0);
}

/* Chooses by weight, but no donor is silent for long unless that is intended. */
static uint32_t choose_donor(void)
{
    uint64_t weights = 0;
    for (uint32_t i = 0; i < world.donor_count; i++) {
        const struct donor *donor = &world.donors[i];
        if (!can_step(donor))
            continue;
        if (donor->stepped_us + 200 * MS < world.now)
            return i;
        weights += donor->weight;
    }
    if (weights == 0)
        return NOBODY;
    uint64_t chosen = below(weights);
    for (uint32_t i = 0; i < world.donor_count; i++) {
        if (!can_step(&world.donors[i]))
            continue;
        if (chosen < world.donors[i].weight)
            return i;
        chosen -= world.donors[i].weight;
    }
    return NOBODY;
}

static bool connect_one(void)
{
    for (uint32_t i = 0; i < world.donor_count; i++) {
        struct donor *donor = &world.donors[i];
        bool again = donor->conduct == PAUSES && donor->stalled_until <= world.now;
        if (!donor->up && (!donor->connected_once || again)) {
            donor_connect(i);
            return true;
        }
    }
    return false;
}

/* Lets time pass without any message. */
static void wait_for_something(void)
{
    uint64_t next = pccl_fetch_deadline(world.fetch);
    for (uint32_t i = 0; i < world.donor_count; i++)
        if (world.donors[i].conduct == PAUSES && world.donors[i].stalled_until > world.now)
            next = pccl_min_u64(next, world.donors[i].stalled_until);
    if (next != UINT64_MAX) {
        world.now = pccl_max_u64(next, world.now);
        pccl_fetch_tick(world.fetch, world.now);
        assert_true(pccl_fetch_deadline(world.fetch) > world.now);
        return;
    }
    if (connect_one())
        return;
    for (uint32_t i = 0; i < world.donor_count; i++) /* the driver drops a donor that stays silent */
        if (world.donors[i].up && world.donors[i].stalled_until == UINT64_MAX) {
            donor_disconnect(i);
            return;
        }
    assert_true(pccl_fetch_is_starved(world.fetch));
    pccl_fetch_give_up(world.fetch, "no donor");
}

static void world_step(void)
{
    uint32_t number = choose_donor();
    if (number == NOBODY) {
        wait_for_something();
        return;
    }
    world.now += below(world.step_us);
    if (world.now >= pccl_fetch_deadline(world.fetch))
        pccl_fetch_tick(world.fetch, world.now);
    if (can_step(&world.donors[number]) && pccl_fetch_status(world.fetch) == PCCL_FETCH_RUNNING)
        donor_step(number);
    if (below(50) == 0)
        (void)connect_one();
}

static void world_run(uint64_t steps_max)
{
    for (uint64_t step = 0; pccl_fetch_status(world.fetch) == PCCL_FETCH_RUNNING && step < steps_max; step++) {
        assert_true(step < 1000000);
        world_step();
        if (step % 97 == 0)
            check_truth();
    }
}

static void random_tensors(void)
{
    const uint64_t sizes[] = {0, 1, 1000, MEGABYTE - 1, MEGABYTE, MEGABYTE + 1, 3 * MEGABYTE + 17, 9 * MEGABYTE};
    bool unequal = below(2) == 0;
    for (uint64_t count = below(TENSORS); count > 0; count--)
        add_tensor(below(4) == 0 ? below(40 * (uint64_t)MEGABYTE) : sizes[below(PCCL_COUNT_OF(sizes))],
                   unequal && below(3) == 0);
}

static void random_donors(bool all_honest)
{
    static const uint32_t weights[] = {1, 3, 10, 100};
    world.step_us = below(3) == 0 ? 20 * MS : 300;
    for (uint32_t i = 0; i < world.donor_count; i++) {
        struct donor *donor = &world.donors[i];
        donor->holds_unequal = below(2) == 0;
        donor->rtt_us = (uint32_t)(below(3) == 0 ? 0 : below(4000));
        donor->weight = weights[below(PCCL_COUNT_OF(weights))];
        donor->conduct = all_honest || below(3) == 0 ? HONEST : (enum conduct)below(CONDUCTS);
        donor->trigger = below(below(2) == 0 ? 4 : 40);
    }
}

static bool is_expected(void)
{
    bool unequal = false, honest = false, holder = false;
    for (uint32_t t = 0; t < world.tensor_count; t++)
        unequal = unequal || (world.tensors[t].unequal && world.tensors[t].bytes > 0);
    for (uint32_t i = 0; i < world.donor_count; i++)
        if (world.donors[i].conduct <= PAUSES) {
            honest = true;
            holder = holder || world.donors[i].holds_unequal;
        }
    return honest && (holder || !unequal || !world.takes_in_effect);
}

/* Gives all donors another content. */
static void elect_anew(void)
{
    for (uint64_t i = 0; i < world.elected.state.chunk_count; i++)
        if (below(3) == 0)
            world.elected.memory[i][below(WORDS)] ^= 1;
    holder_prove(&world.elected);
    for (uint32_t i = 0; i < world.donor_count; i++) {
        copy_equal(&world.donors[i].holder, &world.elected, 1000000);
        world.donors[i].stalled_until = world.donors[i].answers = 0;
        world.donors[i].lied = false;
    }
}

static uint64_t differing_bytes(void)
{
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < world.tensor_count; t++) {
        const struct pccl_tensor *tensor = &world.own.state.tensors[t];
        for (uint64_t i = 0; i < tensor->chunks && !tensor->unequal; i++)
            if (memcmp(world.before.memory[tensor->first_chunk + i], world.elected.memory[tensor->first_chunk + i],
                       sizeof(chunk_words)) != 0)
                bytes += pccl_state_chunk_length(tensor, i);
    }
    return bytes;
}

static void failed_or_complete(void)
{
    if (is_expected() || pccl_fetch_status(world.fetch) == PCCL_FETCH_COMPLETE) {
        check_complete();
        return;
    }
    check_truth();
    assert_int_equal(pccl_fetch_status(world.fetch), PCCL_FETCH_FAILED);
    assert_string_equal(pccl_fetch_reason(world.fetch)->bytes, "no donor");
}

#endif
