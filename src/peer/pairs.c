#include "peer/pairs.h"

#include "peer/members.h"
#include "peer/member_list.h"
#include "wire/subgroup.h"

/* Returns the first member of the view with at least this admission number; NULL if all numbers are lower. */
static const struct pccl_member *first_from(const struct pccl_peer *p, uint64_t admitted)
{
    const struct pccl_member_list *list = p->view_member_list;
    PCCL_ASSERT(list != NULL);
    uint32_t low = 0, high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool before = list->members[middle].admitted < admitted;
        *(before ? &low : &high) = before ? middle + 1 : middle;
    }
    return low < list->count ? &list->members[low] : NULL;
}

static const struct pccl_member *numbered(const struct pccl_peer *p, uint64_t admitted)
{
    const struct pccl_member *member = first_from(p, admitted);
    return member != NULL && member->admitted == admitted ? member : NULL;
}

/* Returns the admission number of the other member; 0 if this peer is not in the pair. */
static uint64_t number_of_other(const struct pccl_peer *p, uint64_t name)
{
    uint64_t source = pccl_pair_source(name), destination = pccl_pair_destination(name);
    const struct pccl_member *sender = numbered(p, source), *receiver = numbered(p, destination);
    bool sends = sender != NULL && pccl_id_equal(&sender->peer, &p->config.id);
    bool receives = receiver != NULL && pccl_id_equal(&receiver->peer, &p->config.id);
    return sends == receives ? 0 : sends ? destination : source;
}

const struct pccl_id *pccl_peer_other_of(const struct pccl_peer *p, uint64_t name)
{
    const struct pccl_member *other = numbered(p, number_of_other(p, name));
    return other != NULL ? &other->peer : NULL;
}

const struct pccl_id *pccl_peer_source_of(const struct pccl_peer *p, uint64_t name)
{
    const struct pccl_id *other = pccl_peer_other_of(p, name);
    const struct pccl_member *receiver = numbered(p, pccl_pair_destination(name));
    return other != NULL && pccl_id_equal(&receiver->peer, &p->config.id) ? other : NULL;
}

const struct pccl_peer_participants *pccl_peer_pair(const struct pccl_peer *p, uint64_t name,
                                                    struct pccl_peer_pair *pair)
{
    const bool open = name == PCCL_OPEN_PAIR;
    const uint64_t number = number_of_other(p, name);
    const struct pccl_member *other = numbered(p, number);
    if (number == 0 && !open)
        return NULL;
    const uint32_t place = open || number == pccl_pair_source(name) ? 1 : 0;
    *pair = (struct pccl_peer_pair){.positions = {0, 1}, .all = {.count = 2, .place = place}};
    pair->ids[place] = p->config.id;
    if (other != NULL)
        pair->ids[1 - place] = other->peer;
    pair->all.ring = pair->ids;
    pair->all.positions = pair->positions;
    pair->all.ended = open ? pccl_peer_is_alone(p) : other == NULL;
    return &pair->all;
}

bool pccl_peer_pair_has_future(const struct pccl_peer *p, uint64_t name)
{
    uint64_t other = number_of_other(p, name);
    if (name == 0)
        return true;
    return other != 0 && (numbered(p, other) != NULL || first_from(p, other) == NULL);
}

uint64_t pccl_peer_number_of(const struct pccl_peer *p, const struct pccl_id *id)
{
    PCCL_ASSERT(p->view_member_list != NULL);
    const uint32_t position = pccl_peer_position_of(p, id);
    return position < p->view_member_list->count ? p->view_member_list->members[position].admitted : 0;
}

enum pccl_status pccl_peer_name_pair(const struct pccl_peer *p, const struct pccl_id *other, bool sends, uint64_t *name)
{
    uint64_t mine = pccl_peer_number_of(p, &p->config.id), theirs = pccl_peer_number_of(p, other);
    if (theirs == 0)
        return PCCL_PEER_LOST;
    if (mine > PCCL_PAIR_NUMBER_MAX || theirs > PCCL_PAIR_NUMBER_MAX)
        return PCCL_LIMIT;
    *name = sends ? pccl_pair_name(mine, theirs) : pccl_pair_name(theirs, mine);
    const struct pccl_id *named = pccl_peer_other_of(p, *name);
    return named != NULL && pccl_id_equal(named, other) ? PCCL_OK : PCCL_LIMIT;
}
