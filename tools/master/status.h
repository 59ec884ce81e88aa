/* `pccl-master status`: requests the state of a run from a running master over HTTP, and prints it. */
#ifndef PCCL_TOOLS_MASTER_STATUS_H
#define PCCL_TOOLS_MASTER_STATUS_H

/* Runs the command; argv[0] is "status". Returns the exit status: 0 answered, 1 no good answer, 2 wrong usage. */
int status_main(int argc, char **argv);

#endif
