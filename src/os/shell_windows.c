#include "os/shell.h"

#include <uv.h>

#include <string.h>

/* Without /s, cmd.exe would interpret quotes in the command itself. */
void pccl_shell_of(const char *command, char *text, struct pccl_shell *shell)
{
    static char program[] = "cmd.exe", no_autorun[] = "/d", strip[] = "/s", flag[] = "/c";
    size_t length = strlen(command);
    text[0] = '"';
    memcpy(text + 1, command, length);
    memcpy(text + 1 + length, "\"", 2);
    *shell = (struct pccl_shell){.arguments = {program, no_autorun, strip, flag, text}, .verbatim = true};
}

void pccl_shell_kill(int process) { (void)uv_kill(process, SIGTERM); }
