/*
 * Tickets prove that the master instructed one peer to dial another. Each peer B sends the master a secret, its link
 * key. When the master instructs A to dial B, it includes the ticket for A -> B, which B can verify with nothing but
 * its key. So no table is needed, and a ticket is valid as long as B runs, even without the master.
 */
#ifndef PCCL_CORE_TICKET_H
#define PCCL_CORE_TICKET_H

#include "core/id.h"

/* Returns the ticket with which `from` may dial `to`, where `key` is the link key of `to`. */
struct pccl_id pccl_ticket(const struct pccl_id *key, const struct pccl_id *from, const struct pccl_id *to);

/* Returns a digest of a secret that may be published, because the secret cannot be derived from it. */
struct pccl_id pccl_secret_digest(const struct pccl_id *secret);

#endif
