/*
 * Tickets prove that the master sent one peer to another. Each peer B sends the master a secret, its link key; whenever
 * the master asks A to dial B, it gives A the ticket for A -> B; B checks that by its key alone. So no table is needed,
 * and a ticket is valid as long as B lives, even without the master.
 */
#ifndef PCCL_CORE_TICKET_H
#define PCCL_CORE_TICKET_H

#include "core/id.h"

/* Returns the ticket with which `from` may dial `to`, the peer with this key. */
struct pccl_id pccl_ticket(const struct pccl_id *key, const struct pccl_id *from, const struct pccl_id *to);

/* Returns a digest of a secret that may be made public: the secret cannot be derived from it. */
struct pccl_id pccl_secret_digest(const struct pccl_id *secret);

#endif
