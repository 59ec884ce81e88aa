/*
 * Closes unwanted descriptors that another process has passed. The last close() of a descriptor may block: for the data
 * of a TCP socket with SO_LINGER, or for a file server. So a separate thread closes them; it exists only while there
 * are such descriptors. The memory of a pipe is closed at once, because that never blocks.
 */
#ifndef PCCL_OS_UNWANTED_H
#define PCCL_OS_UNWANTED_H

#include "core/base.h"

/*
 * Takes over the descriptors. Any thread. If threads are short, they stay open until the next call; if memory is short,
 * for the life of the process.
 */
void pccl_unwanted_close(const int *descriptors, size_t count);

#endif
