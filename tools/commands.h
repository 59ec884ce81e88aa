/* The commands of the program pccl, besides `status` and `token` (master/status.h, master/token.h). */
#ifndef PCCL_TOOLS_COMMANDS_H
#define PCCL_TOOLS_COMMANDS_H

/* Each runs a command and returns its exit status. argv[0] is the name for messages. */
int master_main(int argc, char **argv);
int perf_main(int argc, char **argv);

#endif
