/* Member lists of the group in the order of admission, which is also the order of parts and ranks. */
#include "peer/members.h"
#include "peer/queries.h"
#include "peer/member_list.h"

#include <string.h>

static size_t bytes_of(uint32_t count) { return sizeof(struct pccl_member_list) + count * sizeof(struct pccl_member); }

struct pccl_member_list *pccl_peer_hold_member_list(struct pccl_peer *p)
{
    PCCL_ASSERT(p->view_member_list != NULL);
    p->view_member_list->references++;
    return p->view_member_list;
}

void pccl_peer_drop_member_list(struct pccl_peer *p, struct pccl_member_list *list)
{
    PCCL_ASSERT(list == NULL || list->references > 0);
    if (list != NULL && --list->references == 0)
        pccl_release(&p->memory, list, bytes_of(list->count));
}

void pccl_peer_free_member_lists(struct pccl_peer *p)
{
    pccl_peer_drop_member_list(p, p->view_member_list);
    pccl_peer_drop_member_list(p, p->member_list);
    p->view_member_list = p->member_list = NULL;
}

bool pccl_peer_make_member_list(struct pccl_peer *p)
{
    uint32_t count = p->live.group_world;
    struct pccl_member_list *list = pccl_allocate(&p->memory, bytes_of(count));
    if (list == NULL)
        return false;
    list->number = ++p->lists_made;
    list->references = 1;
    list->count = count;
    memcpy(list->members, pccl_peer_group_members(p), count * sizeof *list->members);
    pccl_peer_drop_member_list(p, p->view_member_list);
    p->view_member_list = list;
    return true;
}

void pccl_peer_set_attributes(struct pccl_peer *p, const struct pccl_attributes *attributes,
                              struct pccl_member_list *list)
{
    PCCL_ASSERT(list != NULL && list->references > 0);
    list->references++;
    pccl_peer_drop_member_list(p, p->member_list);
    p->member_list = list;
    p->attributes = *attributes;
}

bool pccl_peer_has_members(const struct pccl_peer *p, const struct pccl_id *members, uint32_t count)
{
    PCCL_ASSERT(p->view_member_list != NULL);
    if (count != p->view_member_list->count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!pccl_id_equal(&p->view_member_list->members[i].peer, &members[i]))
            return false;
    return true;
}

/* State of a list of names: `words` gets the names of the first peers, and all peers are counted. */
struct naming {
    struct pccl_text *words;
    uint32_t count;
};

static void name(struct naming *naming, const struct pccl_id *id)
{
    enum { NAMED_MAX = 4 };
    if (++naming->count <= NAMED_MAX)
        pccl_text_append(naming->words, "%speer %s", naming->count > 1 ? ", " : "", pccl_id_str(id));
    else if (naming->count == NAMED_MAX + 1)
        pccl_text_add(naming->words, ", ...");
}

static bool is_in_list(const struct pccl_member_list *list, const struct pccl_id *id)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (pccl_id_equal(&list->members[i].peer, id))
            return true;
    return false;
}

void pccl_peer_describe_members(const struct pccl_peer *p, const struct pccl_id *members, uint32_t count,
                                struct pccl_text *words)
{
    PCCL_ASSERT(p->view_member_list != NULL);
    struct pccl_text gone, added;
    pccl_text_clear(&gone);
    pccl_text_clear(&added);
    struct naming missing = {.words = &gone}, fresh = {.words = &added};
    for (uint32_t i = 0; i < count; i++)
        if (!is_in_list(p->view_member_list, &members[i]))
            name(&missing, &members[i]);
    for (uint32_t i = 0; i < p->view_member_list->count; i++)
        if (pccl_id_find(members, count, &p->view_member_list->members[i].peer) == count)
            name(&fresh, &p->view_member_list->members[i].peer);
    pccl_text_format(words, "its caller expected different members");
    if (missing.count > 0)
        pccl_text_append(words, "; not a current member: %s", gone.bytes);
    if (fresh.count > 0)
        pccl_text_append(words, "; new: %s", added.bytes);
    if (missing.count == 0 && fresh.count == 0)
        pccl_text_add(words, "; the same members in another order");
}

/* ---- queries ---- */

const struct pccl_member *pccl_peer_members(const struct pccl_peer *p, uint32_t *count)
{
    *count = p->member_list != NULL ? p->member_list->count : 0;
    return p->member_list != NULL ? p->member_list->members : NULL;
}

const struct pccl_member *pccl_peer_view_members(const struct pccl_peer *p, uint32_t *count)
{
    *count = p->view_member_list != NULL ? p->view_member_list->count : 0;
    return p->view_member_list != NULL ? p->view_member_list->members : NULL;
}

uint64_t pccl_peer_members_number(const struct pccl_peer *p, bool as_of_view)
{
    const struct pccl_member_list *list = as_of_view ? p->view_member_list : p->member_list;
    return list != NULL ? list->number : 0;
}

bool pccl_peer_is_alone(const struct pccl_peer *p) { return p->group.count < 2; }
