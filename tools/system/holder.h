/* Finds the process on this machine that listens on a port, for error messages. */
#ifndef PCCL_TOOLS_SYSTEM_HOLDER_H
#define PCCL_TOOLS_SYSTEM_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Writes a description such as "pccl-master (process 123)". Returns false if no process was found, or if access was
 * denied.
 */
bool holder_of_port(uint16_t port, char *out, size_t size);

#endif
