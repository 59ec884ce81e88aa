#include "os/interfaces.h"

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

uint32_t pccl_interfaces_plausible(const struct pccl_address *candidates, uint32_t count,
                                   struct pccl_address *plausible)
{
    uv_interface_address_t *interfaces = NULL;
    int interface_count = 0;
    bool same_host = true;
    for (uint32_t i = 0; i < count; i++)
        if (!pccl_address_is_loopback(&candidates[i]))
            same_host = false;
    if (!same_host && uv_interface_addresses(&interfaces, &interface_count) == 0) {
        for (int k = 0; k < interface_count && !same_host; k++) {
            struct pccl_address ours;
            if (!pccl_native_address((const struct sockaddr *)&interfaces[k].address, &ours) ||
                pccl_address_is_loopback(&ours) || is_private_bridge(interfaces[k].name))
                continue;
            for (uint32_t i = 0; i < count && !same_host; i++)
                same_host = same_ip(&candidates[i], &ours);
        }
        uv_free_interface_addresses(interfaces, interface_count);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (same_host || !pccl_address_is_loopback(&candidates[i]))
            plausible[kept++] = candidates[i];
    return kept;
}
