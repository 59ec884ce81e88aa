/* `pccl-master status`: asks a running master over HTTP how its run is, and prints the answer. */
#ifndef PCCL_TOOLS_MASTER_STATUS_H
#define PCCL_TOOLS_MASTER_STATUS_H

/* argv[0] is "status". The exit status: 0 answered, 1 no good answer, 2 wrong usage. */
int status_main(int argc, char **argv);

#endif
