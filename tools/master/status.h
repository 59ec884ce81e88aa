/* `pccl-master status`: requests the state of a run from a running master over HTTP and prints it. */
#ifndef PCCL_TOOLS_MASTER_STATUS_H
#define PCCL_TOOLS_MASTER_STATUS_H

/*
 * Runs the command; argv[0] is "status". Returns the exit status: 0 for an answer, 1 for a failure, 2 for wrong usage.
 */
int status_main(int argc, char **argv);

#endif
