#include "terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { ESCAPE_MS = 30 /* time within which the rest of a control sequence arrives */ };

static struct termios before;
static bool has_keys; /* standard input is a terminal, and its settings are changed */
static volatile sig_atomic_t quits, redraws;

bool terminal_is_capable(void)
{
    const char *name = getenv("TERM");
    return isatty(STDOUT_FILENO) && name != NULL && name[0] != '\0' && strcmp(name, "dumb") != 0;
}

bool terminal_is_utf8(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = NULL;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0] && (locale == NULL || locale[0] == '\0'); i++)
        locale = getenv(variables[i]);
    const char *encoding = locale != NULL ? strchr(locale, '.') : NULL;
    return encoding != NULL && (strncasecmp(encoding, ".utf-8", 6) == 0 || strncasecmp(encoding, ".utf8", 5) == 0);
}

void terminal_size(int *columns, int *rows)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    *columns = known ? size.ws_col : 80;
    *rows = known ? size.ws_row : 24;
}

static void on_signal(int number)
{
    if (number == SIGWINCH || number == SIGCONT)
        redraws = 1;
    else
        quits = 1;
}

static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT};
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        (void)sigaction(numbers[i], &action, NULL);
}

/* Delivers keys at once, also Ctrl-C and Ctrl-Z. */
static void take_keys(void)
{
    struct termios keys = before;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
}

void terminal_begin(void)
{
    catch_signals();
    has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    if (has_keys)
        take_keys();
    /* the alternate screen, whose end shows the earlier content again, without a cursor and line breaks */
    (void)fputs("\033[?1049h\033[?25l\033[?7l", stdout);
    (void)fflush(stdout);
}

void terminal_end(void)
{
    (void)fputs("\033[?7h\033[?25h\033[?1049l", stdout);
    (void)fflush(stdout);
    if (has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    has_keys = false;
}

/* Stops the program like other programs at Ctrl-Z. */
static int suspend(void)
{
    terminal_end();
    (void)raise(SIGTSTP);
    terminal_begin();
    return TERMINAL_REDRAW;
}

/* Returns the next byte, or -1 after the time limit; sets `quits` if the terminal is gone. */
static int next_byte(int limit_ms)
{
    unsigned char byte;
    struct pollfd input = {.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN};
    if (poll(&input, 1, limit_ms) <= 0)
        return -1;
    ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got == 1)
        return byte;
    quits = got == 0 || errno != EINTR;
    return -1;
}

/* Returns the key of a control sequence, whose first byte has arrived. */
static int read_sequence(void)
{
    static const struct {
        char last;
        int number; /* of sequences that end with '~' */
        int key;
    } keys[] = {{'A', 0, TERMINAL_UP},        {'B', 0, TERMINAL_DOWN}, {'C', 0, TERMINAL_RIGHT},
                {'D', 0, TERMINAL_LEFT},      {'H', 0, TERMINAL_HOME}, {'F', 0, TERMINAL_END},
                {'~', 1, TERMINAL_HOME},      {'~', 4, TERMINAL_END},  {'~', 5, TERMINAL_PAGE_UP},
                {'~', 6, TERMINAL_PAGE_DOWN}, {'~', 7, TERMINAL_HOME}, {'~', 8, TERMINAL_END}};
    int byte = next_byte(ESCAPE_MS), number = 0;
    if (byte != '[' && byte != 'O')
        return TERMINAL_ESCAPE;
    do {
        byte = next_byte(ESCAPE_MS);
        if (byte >= '0' && byte <= '9' && number < 100)
            number = 10 * number + byte - '0';
    } while (byte >= ' ' && byte < '@'); /* parameters */
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].last == byte && (byte != '~' || keys[i].number == number))
            return keys[i].key;
    return TERMINAL_NONE;
}

int terminal_key(int limit_ms)
{
    enum { CTRL_C = 3, CTRL_Z = 26, ESCAPE = 27, DELETE = 127 };
    int byte = quits || redraws ? -1 : next_byte(limit_ms);
    if (quits)
        return TERMINAL_QUIT;
    if (byte < 0 && redraws) {
        redraws = 0;
        return TERMINAL_REDRAW;
    }
    switch (byte) {
    case -1: return TERMINAL_NONE;
    case CTRL_C: return TERMINAL_QUIT;
    case CTRL_Z: return suspend();
    case ESCAPE: return read_sequence();
    case '\r':
    case '\n': return TERMINAL_ENTER;
    case '\b':
    case DELETE: return TERMINAL_BACKSPACE;
    default: return byte;
    }
}
