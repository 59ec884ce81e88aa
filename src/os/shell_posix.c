#include "os/shell.h"

#include <signal.h>
#include <string.h>

void pccl_shell_of(const char *command, char *text, struct pccl_shell *shell)
{
    static char program[] = "/bin/sh", flag[] = "-c";
    memcpy(text, command, strlen(command) + 1);
    *shell = (struct pccl_shell){.arguments = {program, flag, text}};
}

void pccl_shell_kill(int process) { (void)kill(-process, SIGKILL); }
