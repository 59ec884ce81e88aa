/* This process and its children. A child is this program again; two pipes connect it to its parent. */
#ifndef PCCL_TOOLS_SYSTEM_PROCESS_H
#define PCCL_TOOLS_SYSTEM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens the standard descriptors that are missing: logs would go to a socket that gets their number. */
void process_hold_standard_descriptors(void);
/* Raises the limit of open descriptors as far as this process may. */
void process_raise_descriptor_limit(void);
/* Names the calling thread, for debuggers and `top -H`. */
void process_name_thread(const char *name);
/* User and system time of this process. */
double process_cpu_s(void);
/* User and system time of another process; 0: unknown. */
double process_cpu_of_s(long process);
/* Blocks the calling thread. */
void process_sleep_s(double seconds);
/* The number of this process. */
long process_id(void);

struct process_child {
    long process; /* 0: not started, or ended */
    int results;  /* pipe from it; -1: none */
    int go;       /* pipe to it; closing it ends a master; -1: none */
};

/* Makes the two pipes. Returns false with a message on standard error. */
bool process_pipes(struct process_child *child, int *childs_results, int *childs_go);
/*
 * Starts this program with these arguments, which end with NULL. It inherits the two descriptors, which are closed
 * here, and the environment, and ends with this process. Returns false with a message on standard error.
 */
bool process_start(struct process_child *child, char **arguments, int childs_results, int childs_go);
/* Kills or stops it. */
void process_kill(const struct process_child *child);
void process_stop(const struct process_child *child);
/* Closes the pipes and waits for its end. Returns its exit code; 1 if a signal ended it, or it was not started. */
int process_end(struct process_child *child, bool kills);
/* Waits until it has ended, without reaping it. */
void process_await(const struct process_child *child);
/* Reports on standard error how it ended, if it has, and not with code 0. */
void process_report_end(const struct process_child *child, const char *name, uint32_t index);

/* Moves all bytes. Returns false if the other side has closed the pipe. */
bool process_write_all(int pipe, const void *bytes, size_t length);
bool process_read_all(int pipe, void *bytes, size_t length);

struct process_watched {
    int pipe;       /* -1: not watched */
    bool has_input; /* results of process_watch */
    bool has_ended; /* no input, and the other side is closed */
};
/* Waits for input or an end. Returns the number of pipes with one; 0 after the limit or a signal; -1 for an error. */
int process_watch(struct process_watched *watched, uint32_t count, int limit_ms);

#endif
