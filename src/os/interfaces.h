/*
 * Finds the addresses at which other peers may reach this host, and selects the plausible ones among the addresses of
 * another peer.
 */
#ifndef PCCL_OS_INTERFACES_H
#define PCCL_OS_INTERFACES_H

#include "core/address.h"

/*
 * Fills `candidates` with at most `max` addresses, without duplicates and all with `port`, in the order in which peers
 * should dial them: `toward` (the local address used toward the master, or NULL), the other routable addresses of this
 * host, link-local and bridge addresses if there are no routable ones, and loopback. Returns their number.
 */
uint32_t pccl_interfaces_candidates(const struct pccl_address *toward, uint16_t port, struct pccl_address *candidates,
                                    uint32_t max);
/*
 * Copies another peer's candidates in the order in which this host should dial them: addresses in its networks first,
 * then public IPv6 addresses if it has one, too, because no NAT translates these. The order is unchanged otherwise.
 * Omits loopback addresses unless the peer is on this host, which is the case if one of its addresses is ours or if it
 * has only loopback addresses. `count` is at most PCCL_CANDIDATES_MAX. Returns the number copied.
 */
uint32_t pccl_interfaces_plausible(const struct pccl_address *candidates, uint32_t count,
                                   struct pccl_address *plausible);

#endif
