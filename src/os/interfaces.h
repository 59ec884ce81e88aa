/*
 * Finds the addresses at which other peers may reach this host, and selects the addresses of others that are worth
 * dialing.
 */
#ifndef PCCL_OS_INTERFACES_H
#define PCCL_OS_INTERFACES_H

#include "core/address.h"

/*
 * Fills `candidates` (at most `max`, no duplicates, all with `port`) in the order of dialing: `toward` (the local
 * address used toward the master, or NULL), the other routable addresses of this host, link-local and bridge addresses
 * only if there are no others, and loopback last. Returns their number.
 */
uint32_t pccl_interfaces_candidates(const struct pccl_address *toward, uint16_t port, struct pccl_address *candidates,
                                    uint32_t max);
/*
 * Copies another peer's candidates without loopback addresses, unless the peer is on this host: one of its addresses is
 * ours, or it has only loopback addresses. Keeps the order. Returns the number copied.
 */
uint32_t pccl_interfaces_plausible(const struct pccl_address *candidates, uint32_t count,
                                   struct pccl_address *plausible);

#endif
