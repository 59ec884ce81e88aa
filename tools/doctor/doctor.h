/* `pccl doctor`: checks before a run whether this machine and its paths to the master and to other peers are suitable.
 */
#ifndef PCCL_TOOLS_DOCTOR_DOCTOR_H
#define PCCL_TOOLS_DOCTOR_DOCTOR_H

/* Runs the command; argv[0] is "doctor". Returns the exit status: 0 for no problem, 1 for a problem, 2 for wrong usage.
 */
int doctor_main(int argc, char **argv);

#endif
