#include "terminal.h"

#include <stdio.h>
#include <windows.h>

static DWORD input_before;
static bool has_keys; /* standard input is a console, and its settings are changed */
static volatile LONG quits;

bool terminal_is_capable(void)
{
    DWORD mode;
    HANDLE output = GetStdHandle(STD_OUTPUT_HANDLE);
    return GetConsoleMode(output, &mode) && SetConsoleMode(output, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

bool terminal_is_utf8(void) { return SetConsoleOutputCP(CP_UTF8) != 0; }

void terminal_size(int *columns, int *rows)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    bool known = GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &info) != 0;
    *columns = known ? info.srWindow.Right - info.srWindow.Left + 1 : 80;
    *rows = known ? info.srWindow.Bottom - info.srWindow.Top + 1 : 24;
}

/* Runs on a thread that the system creates. */
static BOOL WINAPI on_event(DWORD event)
{
    (void)event;
    (void)InterlockedExchange(&quits, 1);
    return TRUE;
}

void terminal_begin(void)
{
    HANDLE input = GetStdHandle(STD_INPUT_HANDLE);
    (void)SetConsoleCtrlHandler(on_event, TRUE);
    has_keys = GetConsoleMode(input, &input_before) != 0;
    if (has_keys)
        (void)SetConsoleMode(input, ENABLE_WINDOW_INPUT | ENABLE_PROCESSED_INPUT);
    /* the alternate screen, whose end shows the earlier content again, without a cursor and line breaks */
    (void)fputs("\033[?1049h\033[?25l\033[?7l", stdout);
    (void)fflush(stdout);
}

void terminal_end(void)
{
    if (has_keys)
        (void)SetConsoleMode(GetStdHandle(STD_INPUT_HANDLE), input_before);
    has_keys = false;
    (void)fputs("\033[?7h\033[?25h\033[?1049l", stdout);
    (void)fflush(stdout);
}

/* Returns the key of an event, or TERMINAL_NONE. */
static int key_of(const INPUT_RECORD *record)
{
    static const struct {
        WORD code;
        int key;
    } keys[] = {{VK_UP, TERMINAL_UP},         {VK_DOWN, TERMINAL_DOWN},     {VK_LEFT, TERMINAL_LEFT},
                {VK_RIGHT, TERMINAL_RIGHT},   {VK_PRIOR, TERMINAL_PAGE_UP}, {VK_NEXT, TERMINAL_PAGE_DOWN},
                {VK_HOME, TERMINAL_HOME},     {VK_END, TERMINAL_END},       {VK_RETURN, TERMINAL_ENTER},
                {VK_ESCAPE, TERMINAL_ESCAPE}, {VK_BACK, TERMINAL_BACKSPACE}};
    if (record->EventType == WINDOW_BUFFER_SIZE_EVENT)
        return TERMINAL_REDRAW;
    if (record->EventType != KEY_EVENT || !record->Event.KeyEvent.bKeyDown)
        return TERMINAL_NONE;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].code == record->Event.KeyEvent.wVirtualKeyCode)
            return keys[i].key;
    unsigned char byte = (unsigned char)record->Event.KeyEvent.uChar.AsciiChar;
    return byte >= ' ' ? byte : TERMINAL_NONE;
}

int terminal_key(int limit_ms)
{
    enum { SLICE_MS = 100 };
    HANDLE input = GetStdHandle(STD_INPUT_HANDLE);
    ULONGLONG until = GetTickCount64() + (ULONGLONG)limit_ms;
    for (;;) {
        INPUT_RECORD record;
        DWORD count = 0;
        ULONGLONG now = GetTickCount64();
        DWORD left = now < until ? (DWORD)(until - now) : 0, slice = left < SLICE_MS ? left : SLICE_MS;
        if (quits)
            return TERMINAL_QUIT;
        if (!has_keys)
            Sleep(slice);
        else if (WaitForSingleObject(input, slice) == WAIT_OBJECT_0 && ReadConsoleInputA(input, &record, 1, &count) &&
                 count == 1 && key_of(&record) != TERMINAL_NONE)
            return key_of(&record);
        if (left == 0)
            return quits ? TERMINAL_QUIT : TERMINAL_NONE;
    }
}
