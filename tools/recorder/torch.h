/* Dumps in PyTorch's format, for torch.distributed.flight_recorder.fr_trace. */
#ifndef PCCL_TOOLS_RECORDER_TORCH_H
#define PCCL_TOOLS_RECORDER_TORCH_H

#include "recorder/dumps.h"

/*
 * Writes the files PREFIX0, PREFIX1 etc., one for each dump, and prints their names. Ranks follow the newest member
 * list. Each distinct member list of an operation is a process group. Omits sends, receives, creations of groups, and
 * operations without a member list. Shows aborted operations as started. Returns false after a message.
 */
bool recorder_write_torch(const struct dumps *dumps, const char *command, const char *prefix);

#endif
