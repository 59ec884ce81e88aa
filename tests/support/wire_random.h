/* Random messages. */
#ifndef PCCL_SUPPORT_WIRE_RANDOM_H
#define PCCL_SUPPORT_WIRE_RANDOM_H

#include "core/prng.h"
#include "wire/wire.h"

/* Makes a random valid message of the type, its lists and bytes in scratch. */
void pccl_wire_random(uint16_t type, struct pccl_prng *prng, struct pccl_wire_scratch *scratch, struct pccl_msg *msg);

#endif
