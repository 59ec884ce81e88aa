/* `pccl-master token`: makes, lists and revokes tokens of a running master, through the socket in its state directory.
 */
#ifndef PCCL_TOOLS_MASTER_TOKEN_H
#define PCCL_TOOLS_MASTER_TOKEN_H

/* Runs the command; argv[0] is "token". Returns the exit status: 0 done, 1 not done, 2 wrong usage. */
int token_main(int argc, char **argv);

#endif
