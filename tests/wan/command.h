/*
 * The emulator's commands while it runs: one per line. The answer is one line, too: "ok", numbers as JSON, or "error: "
 * with a reason. wanem --help lists the commands.
 */
#ifndef PCCL_TESTS_WAN_COMMAND_H
#define PCCL_TESTS_WAN_COMMAND_H

#include "network.h"

enum { COMMAND_ANSWER_BYTES = 16384 };

extern const char command_help[];
/* Carries out the line, which is modified. The answer has no line end. */
void command_do(struct network *network, char *line, int64_t now_ns, char *answer);

#endif
