/* Messages as text. */
#ifndef PCCL_SUPPORT_WIRE_PRINT_H
#define PCCL_SUPPORT_WIRE_PRINT_H

#include "wire/wire.h"

/* Prints one line: "done{instance{group=1 ...} ...}", cut to fit. */
void pccl_wire_print(const struct pccl_msg *msg, struct pccl_text *text);

#endif
