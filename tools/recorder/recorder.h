/* `pccl recorder`: explains the waits in the flight recorders of several peers. */
#ifndef PCCL_TOOLS_RECORDER_RECORDER_H
#define PCCL_TOOLS_RECORDER_RECORDER_H

/* Runs the command; argv[0] is "recorder". Returns the exit status: 0, 1 for an unusable file, 2 for wrong usage. */
int recorder_main(int argc, char **argv);

#endif
