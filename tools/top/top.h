/* `pccl top`: shows a run live in a terminal, by requests to its master over HTTP. */
#ifndef PCCL_TOOLS_TOP_TOP_H
#define PCCL_TOOLS_TOP_TOP_H

/* Runs the command; argv[0] is "top". Returns the exit status: 0 for success, 1 for no answer, 2 for wrong usage. */
int top_main(int argc, char **argv);

#endif
