/* Finds the process of this machine that listens on a port, for error messages. */
#ifndef PCCL_TOOLS_SYSTEM_HOLDER_H
#define PCCL_TOOLS_SYSTEM_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes for example "pccl-master (process 123)". Returns false if it finds no process, or may not look at it. */
bool holder_of_port(uint16_t port, char *out, size_t size);

#endif
