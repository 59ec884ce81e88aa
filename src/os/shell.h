/* The shell that executes a command of an operator. */
#ifndef PCCL_OS_SHELL_H
#define PCCL_OS_SHELL_H

#include "core/base.h"

enum { PCCL_SHELL_ARGUMENTS = 6 };

struct pccl_shell {
    char *arguments[PCCL_SHELL_ARGUMENTS]; /* the program first, NULL last; valid while `text` exists */
    bool verbatim;                         /* true if the arguments must not be quoted */
};

/* Fills in the shell for a command. `text` has room for the command and 3 more bytes. Any thread. */
void pccl_shell_of(const char *command, char *text, struct pccl_shell *shell);
/* Ends a process that leads its own group, with all processes in the group. */
void pccl_shell_kill(int process);

#endif
