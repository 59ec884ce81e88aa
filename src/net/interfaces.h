/* The addresses under which other peers may reach this host, and which addresses of others make sense to dial. */
#ifndef PCCL_NET_INTERFACES_H
#define PCCL_NET_INTERFACES_H

#include "core/address.h"

/*
 * Fills candidates (at most max, no duplicates, all with `port`) in the order in which they should be tried: `toward`
 * (the local address used toward the master, NULL: unknown), the other routable addresses of this host, link-local and
 * bridge addresses only if there is nothing else, and loopback last. Returns how many.
 */
uint32_t pccl_interfaces_candidates(const struct pccl_address *toward, uint16_t port, struct pccl_address *candidates,
                                    uint32_t max);
/*
 * Drops the loopback addresses from another peer's candidates unless it is on this host: one of its addresses is ours,
 * or it has loopback addresses only. Returns how many remain, in their order.
 */
uint32_t pccl_interfaces_plausible(const struct pccl_address *candidates, uint32_t count,
                                   struct pccl_address *plausible);

#endif
