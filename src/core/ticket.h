/*
 * Tickets: the proof of a peer that the master sent it to another one. Each peer B tells the master a secret of its
 * own, its link key; the master gives A the ticket for A -> B wherever it asks A to dial B; B checks it by its key
 * alone. So nobody keeps a table, and a ticket lives as long as B does, whatever becomes of the master.
 */
#ifndef PCCL_CORE_TICKET_H
#define PCCL_CORE_TICKET_H

#include "core/id.h"

/* For `from`, that it may dial the peer `to`, whose key this is. */
struct pccl_id pccl_ticket(const struct pccl_id *key, const struct pccl_id *from, const struct pccl_id *to);

/* What may be told of a secret: who has the secret can make it, who has this cannot make the secret. */
struct pccl_id pccl_secret_digest(const struct pccl_id *secret);

#endif
