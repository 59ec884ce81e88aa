/*
 * How a peer applies the master's views: lists, positions and attributes follow their definitions for members and rings
 * in any order, and a ring that is no permutation of the group is refused.
 */
#include "unit.h"
#include "core/prng.h"
#include "lone_peer.h"
#include "peer/members.h"

enum { MOST = 160, GROUPS = 3, MINE = 1 };

/* The run as its master knows it. */
struct run {
    struct pccl_prng prng;
    struct pccl_member members[MOST];
    uint32_t count;
    struct pccl_id ring[MOST];
    uint32_t ring_count;
    uint64_t admitted, epoch;
};

static void begin_in_group(struct world *w)
{
    begin(w);
    w->peer->config.group = MINE;
}

/* Admits the peer to a run with these members, in the first epoch and view. */
static void welcome(struct world *w, const struct pccl_member *members, uint32_t count, struct pccl_id *ring,
                    uint32_t ring_count)
{
    receive(w, (struct pccl_msg){.type = PCCL_MSG_welcome,
                                 .as.welcome = {.epoch = {1, 1},
                                                .view = {1, 1},
                                                .members = members,
                                                .members_count = count,
                                                .ring = ring,
                                                .ring_count = ring_count}});
}

static struct pccl_member newcomer(struct run *run)
{
    struct pccl_member member = {.group = (uint32_t)pccl_prng_below(&run->prng, GROUPS), .admitted = ++run->admitted};
    member.peer = pccl_prng_id(&run->prng);
    if (pccl_prng_below(&run->prng, 2) == 0) /* ids that agree in most of their bytes */
        memset(member.peer.bytes, 3, sizeof member.peer.bytes - 6);
    return member;
}

/* Removes departed members from the ring, appends newcomers, and shuffles it at times. */
static void follow_ring(struct run *run)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < run->ring_count; i++)
        for (uint32_t k = 0; k < run->count; k++)
            if (run->members[k].group == MINE && pccl_id_equal(&run->members[k].peer, &run->ring[i])) {
                run->ring[kept++] = run->ring[i];
                break;
            }
    run->ring_count = kept;
    for (uint32_t k = 0; k < run->count; k++)
        if (run->members[k].group == MINE &&
            pccl_id_find(run->ring, run->ring_count, &run->members[k].peer) == run->ring_count)
            run->ring[run->ring_count++] = run->members[k].peer;
    for (uint32_t i = run->ring_count - 1; pccl_prng_below(&run->prng, 3) == 0 && i > 0; i--) {
        const uint32_t k = (uint32_t)pccl_prng_below(&run->prng, i + 1);
        const struct pccl_id moved = run->ring[i];
        run->ring[i] = run->ring[k];
        run->ring[k] = moved;
    }
}

/* The index of a member of the group: how many are before it in the canonical order (PROTOCOL 1.8). */
static uint32_t position_of(const struct run *run, const struct pccl_member *member)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        const struct pccl_member *one = &run->members[i];
        const bool same = one->admitted == member->admitted;
        before += one->group == MINE &&
                  (same ? pccl_id_compare(&one->peer, &member->peer) < 0 : one->admitted < member->admitted);
    }
    return before;
}

static void check_lists(const struct world *w, const struct run *run)
{
    uint32_t count, sizes[GROUPS] = {0}, groups = 0, largest = 0;
    const struct pccl_member *list = pccl_peer_view_members(w->peer, &count);
    const struct pccl_peer_participants all = *pccl_peer_participants(w->peer, 0);
    for (uint32_t i = 0; i < run->count; i++) {
        sizes[run->members[i].group]++;
        if (run->members[i].group == MINE)
            assert_memory_equal(&list[position_of(run, &run->members[i])], &run->members[i], sizeof *list);
        assert_true(pccl_peer_knows_member(w->peer, &run->members[i].peer));
        assert_int_equal(pccl_peer_is_in_group(w->peer, &run->members[i].peer), run->members[i].group == MINE);
    }
    for (uint32_t i = 0; i < GROUPS; i++) {
        groups += sizes[i] > 0;
        largest = sizes[i] > largest ? sizes[i] : largest;
    }
    const struct pccl_attributes live = pccl_peer_live_attributes(w->peer);
    assert_true(live.world == run->count && live.group_world == sizes[MINE] && live.groups == groups &&
                live.largest_group == largest);
    assert_true(count == sizes[MINE] && all.count == run->ring_count);
    for (uint32_t i = 0; i < all.count; i++)
        assert_true(pccl_id_equal(&all.ring[i], &list[all.positions[i]].peer));
    assert_memory_equal(all.ring, run->ring, all.count * sizeof *all.ring);
    const uint32_t own = pccl_id_find(all.ring, all.count, &me);
    const struct pccl_id *next = pccl_peer_successor(w->peer);
    assert_true(all.count < 2 ? next == NULL : pccl_id_equal(next, &all.ring[(own + 1) % all.count]));
}

static struct pccl_msg epoch_change(struct run *run)
{
    return (struct pccl_msg){
        .type = PCCL_MSG_epoch_change,
        .as.epoch_change = {
            .epoch = {1, ++run->epoch}, .view_changed = 1, .ring = run->ring, .ring_count = run->ring_count}};
}

/* Members leave and join, in any order and of any group. Some changes send the whole list, with other numbers. */
static void change(struct world *w, struct run *run)
{
    struct pccl_member added[MOST];
    struct pccl_id removed[MOST];
    struct pccl_epoch known = {1, run->epoch};
    uint32_t added_count = 0, removed_count = 0, departed = 0, most = (uint32_t)pccl_prng_below(&run->prng, 2) * 20;
    for (uint32_t i = 0; i < run->count;) {
        if (pccl_id_equal(&run->members[i].peer, &me) || pccl_prng_below(&run->prng, 100) >= most) {
            i++;
            continue;
        }
        departed += run->members[i].group == MINE;
        removed[removed_count++] = run->members[i].peer;
        run->members[i] = run->members[--run->count];
    }
    for (uint64_t left = pccl_prng_below(&run->prng, 20); left > 0 && run->count < MOST; left--) {
        const uint32_t at = (uint32_t)pccl_prng_below(&run->prng, added_count + 1);
        added[added_count++] = added[at];
        run->members[run->count++] = added[at] = newcomer(run);
    }
    const bool full = pccl_prng_below(&run->prng, 5) == 0;
    for (uint32_t i = 0; full && i < run->count && pccl_prng_below(&run->prng, 50) > 0; i++)
        run->members[i].admitted = 1 + pccl_prng_below(&run->prng, run->admitted);
    follow_ring(run);
    struct pccl_msg msg = epoch_change(run);
    msg.as.epoch_change.full = full;
    msg.as.epoch_change.added = full ? run->members : added;
    msg.as.epoch_change.added_count = full ? run->count : added_count;
    msg.as.epoch_change.removed = removed;
    msg.as.epoch_change.removed_count = full ? 0 : removed_count;
    receive(w, msg);
    struct pccl_departed told;
    pccl_peer_departed(w->peer, &known, NULL, &told);
    assert_int_equal(told.count, pccl_min_u64(departed, PCCL_DEPARTED_MAX));
}

TEST(lists_are_as_defined)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct run run = {.admitted = 0, .epoch = 1};
        struct world w;
        pccl_prng_seed(&run.prng, seed);
        for (run.count = 0; run.count < 1 + seed * 3; run.count++)
            run.members[run.count] = newcomer(&run);
        const uint32_t mine = (uint32_t)pccl_prng_below(&run.prng, run.count);
        run.members[mine].peer = me;
        run.members[mine].group = MINE;
        follow_ring(&run);
        begin_in_group(&w);
        welcome(&w, run.members, run.count, run.ring, run.ring_count);
        check_lists(&w, &run);
        for (int i = 0; i < 40; i++) {
            change(&w, &run);
            check_lists(&w, &run);
        }
        end(&w);
    }
}

/* Another ring ends the peer, with the reason. */
TEST(a_ring_is_a_permutation)
{
    static const struct pccl_id a = {{7}}, b = {{8}}, stranger = {{9}};
    const struct pccl_id rings[][4] = {{me, a, b}, {b, a, me}, {me, a, a},        {me, me, b},
                                       {a, b, b},  {me, a},    {me, a, stranger}, {me, a, b, b}};
    static const uint32_t counts[] = {3, 3, 3, 3, 3, 2, 3, 4};
    for (uint32_t i = 0; i < PCCL_COUNT_OF(rings); i++)
        for (uint32_t grown = 0; grown < 2; grown++) {
            const struct pccl_member members[] = {{.peer = me, .group = MINE, .admitted = 1},
                                                  {.peer = a, .group = MINE, .admitted = 2},
                                                  {.peer = b, .group = MINE, .admitted = 3}};
            struct pccl_id first[] = {me, a, b};
            struct world w;
            begin_in_group(&w);
            welcome(&w, members, 3 - grown, first, 3 - grown);
            receive(&w, (struct pccl_msg){.type = PCCL_MSG_epoch_change,
                                          .as.epoch_change = {.epoch = {1, 2},
                                                              .view_changed = 1,
                                                              .added = &members[2],
                                                              .added_count = grown,
                                                              .ring = rings[i],
                                                              .ring_count = counts[i]}});
            assert_int_equal(pccl_peer_why_over(w.peer), i < 2 ? PCCL_OK : PCCL_MASTER_LOST);
            if (i >= 2)
                assert_string_equal(pccl_peer_last_reason(w.peer)->bytes, "invalid ring from the master");
            end(&w);
        }
}

/* A list that names a peer twice, in one group or in two, ends the peer, with the reason. */
TEST(a_list_names_each_member_once)
{
    static const struct pccl_id a = {{7}}, b = {{8}};
    for (uint32_t i = 0; i < 16; i++) {
        const bool twice = (i & 1) != 0, full = (i & 4) != 0, at_once = (i & 8) != 0;
        const struct pccl_member members[] = {{.peer = me, .group = MINE, .admitted = 1},
                                              {.peer = a, .group = MINE, .admitted = 2},
                                              {.peer = twice ? a : b, .group = MINE + ((i & 2) != 0), .admitted = 3}};
        struct pccl_id ring[] = {me, a, b};
        const uint32_t count = at_once ? 3 : 2, ring_count = twice || (i & 2) != 0 ? 2 : 3;
        struct world w;
        begin_in_group(&w);
        welcome(&w, members, count, ring, at_once ? ring_count : 2);
        if (!at_once)
            receive(&w, (struct pccl_msg){.type = PCCL_MSG_epoch_change,
                                          .as.epoch_change = {.epoch = {1, 2},
                                                              .view_changed = 1,
                                                              .full = full,
                                                              .added = full ? members : &members[2],
                                                              .added_count = full ? 3 : 1,
                                                              .ring = ring,
                                                              .ring_count = ring_count}});
        assert_int_equal(pccl_peer_why_over(w.peer), twice ? PCCL_MASTER_LOST : PCCL_OK);
        if (twice)
            assert_string_equal(pccl_peer_last_reason(w.peer)->bytes, "invalid list of members from the master");
        else
            assert_int_equal(pccl_peer_live_attributes(w.peer).world, 3);
        end(&w);
    }
}

/* A list without members replaces all of the earlier one. */
TEST(a_list_may_be_empty)
{
    static const struct pccl_id a = {{7}};
    const struct pccl_member members[] = {{.peer = me, .group = MINE, .admitted = 1},
                                          {.peer = a, .group = MINE, .admitted = 2}};
    struct pccl_id ring[] = {me, a};
    struct world w;
    begin_in_group(&w);
    welcome(&w, members, 2, ring, 2);
    assert_int_equal(pccl_peer_replace_members(w.peer, NULL, 0), PCCL_OK);
    const struct pccl_attributes live = pccl_peer_live_attributes(w.peer);
    assert_true(live.world == 0 && live.group_world == 0 && live.groups == 0 && live.largest_group == 0);
    assert_false(pccl_peer_knows_member(w.peer, &me) || pccl_peer_is_in_group(w.peer, &a));
    assert_int_equal(pccl_peer_change_members(w.peer, NULL, 0, &members[0], 1), PCCL_OK);
    assert_true(pccl_peer_live_attributes(w.peer).world == 1 && pccl_peer_position_of(w.peer, &me) == 0 &&
                !pccl_peer_knows_member(w.peer, &a));
    end(&w);
}
