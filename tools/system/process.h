/* This process and its children. A child is another instance of this program, connected by two pipes. */
#ifndef PCCL_TOOLS_SYSTEM_PROCESS_H
#define PCCL_TOOLS_SYSTEM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Opens standard descriptors that are closed. Otherwise a socket could get one of their numbers, and log lines would be
 * written to the socket.
 */
void process_hold_standard_descriptors(void);
/* Raises the limit on open descriptors as far as permitted. */
void process_raise_descriptor_limit(void);
/* Sets the name of the calling thread, which debuggers and `top -H` show. */
void process_name_thread(const char *name);
/* Lets the system kill this process when its parent ends. Has no effect on macOS. */
void process_end_with_parent(void);
/* Returns the user and system time of this process. */
double process_cpu_s(void);
/* Returns the user and system time of another process; 0: unknown. */
double process_cpu_of_s(long process);
/* Blocks the calling thread. */
void process_sleep_s(double seconds);
/* Sets an environment variable of this process and its later children. Returns false if out of memory. */
bool process_set_environment(const char *name, const char *value);
/* Returns the id of this process. */
long process_id(void);

struct process_child {
    long process; /* process id; 0: not started, or ended */
    int results;  /* pipe from the child; -1: none */
    int go;       /* pipe to the child; closing it ends a master; -1: none */
};

/* Creates the two pipes. Returns false after a message on standard error. */
bool process_pipes(struct process_child *child, int *childs_results, int *childs_go);
/*
 * Starts this program with these arguments, the last of which is NULL. The child inherits the environment and the two
 * descriptors, which are closed here, and calls process_end_with_parent. Returns false after a message on standard
 * error.
 */
bool process_start(struct process_child *child, char **arguments, int childs_results, int childs_go);
/* Sends SIGKILL or SIGSTOP. */
void process_kill(const struct process_child *child);
void process_stop(const struct process_child *child);
/*
 * Closes the pipes and waits until the child has ended. Returns its exit code, or 1 if a signal ended it or it was not
 * started.
 */
int process_end(struct process_child *child, bool kills);
/* Waits until the child has ended, but does not reap it. */
void process_await(const struct process_child *child);
/* If the child has ended with a code other than 0, prints to standard error how it ended. */
void process_report_end(const struct process_child *child, const char *name, uint32_t index);

/* Move all bytes. Return false if the other side has closed the pipe. */
bool process_write_all(int pipe, const void *bytes, size_t length);
bool process_read_all(int pipe, void *bytes, size_t length);

struct process_watched {
    int pipe;       /* -1: not watched */
    bool has_input; /* results of process_watch */
    bool has_ended; /* the other side is closed, and all input has been read */
};
/*
 * Waits until a pipe has input or has ended. Returns the number of such pipes, 0 after limit_ms or a signal, and -1
 * after an error.
 */
int process_watch(struct process_watched *watched, uint32_t count, int limit_ms);

#endif
