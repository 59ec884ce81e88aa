/*
 * `pccl-master token`: creates, lists and revokes tokens of a running master, through the control socket in its state
 * directory.
 */
#ifndef PCCL_TOOLS_MASTER_TOKEN_H
#define PCCL_TOOLS_MASTER_TOKEN_H

/* Runs the command; argv[0] is "token". Returns the exit status: 0 for success, 1 for a failure, 2 for wrong usage. */
int token_main(int argc, char **argv);

#endif
