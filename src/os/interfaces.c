#include "os/interfaces.h"

#include "core/limits.h"
#include "os/native.h"

#include <string.h>
#include <uv.h>

static bool is_link_local(const struct pccl_address *address)
{
    if (pccl_address_is_v4(address))
        return address->ip[12] == 169 && address->ip[13] == 254;
    return address->ip[0] == 0xfe && (address->ip[1] & 0xc0) == 0x80;
}

/*
 * Returns true for bridges of containers and virtual machines. Their addresses exist on many hosts, and refer to a
 * different machine on each.
 */
static bool is_private_bridge(const char *name)
{
    static const char *const prefixes[] = {"docker", "br-", "virbr",  "veth", "lxcbr",
                                           "lxdbr",  "cni", "podman", "vmnet"};
    for (size_t i = 0; i < PCCL_COUNT_OF(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static bool same_ip(const struct pccl_address *a, const struct pccl_address *b)
{
    return memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

static uint32_t add(const struct pccl_address *address, uint16_t port, struct pccl_address *list, uint32_t count,
                    uint32_t max)
{
    for (uint32_t i = 0; i < count; i++)
        if (same_ip(&list[i], address))
            return count;
    if (count == max)
        return count;
    list[count] = *address;
    list[count].port = port;
    return count + 1;
}

/* Usefulness of an address for other peers; smaller is better. */
enum rank { RANK_ROUTABLE, RANK_DOUBTFUL, RANK_LOOPBACK };

static enum rank rank_of(const struct pccl_address *address, const char *name)
{
    if (pccl_address_is_loopback(address))
        return RANK_LOOPBACK;
    return is_link_local(address) || is_private_bridge(name) ? RANK_DOUBTFUL : RANK_ROUTABLE;
}

static uint32_t add_ranked(const uv_interface_address_t *interfaces, int interface_count, enum rank rank, uint16_t port,
                           struct pccl_address *list, uint32_t count, uint32_t max)
{
    for (int i = 0; i < interface_count; i++) {
        struct pccl_address address;
        if (!pccl_native_address((const struct sockaddr *)&interfaces[i].address, &address) ||
            rank_of(&address, interfaces[i].name) != rank)
            continue;
        if (rank == RANK_DOUBTFUL && !pccl_address_is_v4(&address) && is_link_local(&address))
            continue; /* unusable without its zone, which is not sent */
        count = add(&address, port, list, count, max);
    }
    return count;
}

uint32_t pccl_interfaces_candidates(const struct pccl_address *toward, uint16_t port, struct pccl_address *candidates,
                                    uint32_t max)
{
    uv_interface_address_t *interfaces = NULL;
    int interface_count = 0;
    uint32_t count = 0;
    if (uv_interface_addresses(&interfaces, &interface_count) != 0)
        interface_count = 0;
    if (toward)
        count = add(toward, port, candidates, count, max);
    /* Reserves one place for loopback, which always works for peers on the same host. */
    uint32_t room = max > 1 ? max - 1 : max;
    count = add_ranked(interfaces, interface_count, RANK_ROUTABLE, port, candidates, count, room);
    if (count == 0)
        count = add_ranked(interfaces, interface_count, RANK_DOUBTFUL, port, candidates, count, room);
    count = add_ranked(interfaces, interface_count, RANK_LOOPBACK, port, candidates, count, max);
    if (interfaces)
        uv_free_interface_addresses(interfaces, interface_count);
    return count;
}

/* Returns true for IPv6 addresses that are valid on the internet (2000::/3). */
static bool is_public_v6(const struct pccl_address *address)
{
    return !pccl_address_is_v4(address) && (address->ip[0] & 0xe0) == 0x20;
}

static bool is_in_network(const struct pccl_address *address, const struct pccl_address *ours,
                          const struct pccl_address *mask)
{
    bool is_same = pccl_address_is_v4(address) == pccl_address_is_v4(ours);
    for (size_t i = pccl_address_is_v4(address) ? 12 : 0; i < sizeof address->ip && is_same; i++)
        is_same = ((address->ip[i] ^ ours->ip[i]) & mask->ip[i]) == 0;
    return is_same;
}

/* Preference of an address that this host can dial; smaller is better. */
enum way { WAY_NEAR, WAY_V6, WAY_OTHER };

struct ways {
    enum way of[PCCL_CANDIDATES_MAX];
    bool is_same_host, has_v6; /* has_v6: this host has a public IPv6 address */
};

/* Compares candidates with an address of this host. */
static void note_interface(struct ways *ways, const uv_interface_address_t *interface,
                           const struct pccl_address *candidates, uint32_t count)
{
    struct pccl_address ours, mask;
    if (!pccl_native_address((const struct sockaddr *)&interface->address, &ours) || pccl_address_is_loopback(&ours) ||
        is_private_bridge(interface->name))
        return;
    bool has_mask = pccl_native_address((const struct sockaddr *)&interface->netmask, &mask);
    ways->has_v6 = ways->has_v6 || is_public_v6(&ours);
    for (uint32_t i = 0; i < count; i++) {
        ways->is_same_host = ways->is_same_host || same_ip(&candidates[i], &ours);
        if (has_mask && is_in_network(&candidates[i], &ours, &mask))
            ways->of[i] = WAY_NEAR;
    }
}

uint32_t pccl_interfaces_plausible(const struct pccl_address *candidates, uint32_t count,
                                   struct pccl_address *plausible)
{
    uv_interface_address_t *interfaces = NULL;
    int interface_count = 0;
    struct ways ways = {.is_same_host = true};
    PCCL_ASSERT(count <= PCCL_CANDIDATES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        ways.of[i] = is_public_v6(&candidates[i]) ? WAY_V6 : WAY_OTHER;
        ways.is_same_host = ways.is_same_host && pccl_address_is_loopback(&candidates[i]);
    }
    if (!ways.is_same_host && uv_interface_addresses(&interfaces, &interface_count) == 0) {
        for (int k = 0; k < interface_count; k++)
            note_interface(&ways, &interfaces[k], candidates, count);
        uv_free_interface_addresses(interfaces, interface_count);
    }
    uint32_t kept = 0;
    bool sorts = ways.has_v6 && !ways.is_same_host;
    for (int way = sorts ? WAY_NEAR : WAY_OTHER; way <= WAY_OTHER; way++)
        for (uint32_t i = 0; i < count; i++)
            if ((!sorts || (int)ways.of[i] == way) && (ways.is_same_host || !pccl_address_is_loopback(&candidates[i])))
                plausible[kept++] = candidates[i];
    return kept;
}
