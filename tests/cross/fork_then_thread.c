/*
 * Shows whether a child that was forked from a process with two threads can start a thread, which POSIX systems with
 * glibc or musl permit. In qemu-user 7.2 it cannot: an assertion of qemu fails ("qemu_plugin_vcpu_init_hook"), so the
 * unit test `logger` cannot pass there. Contains nothing of PCCL. Exit status 0: it can.
 */
#include <pthread.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void *end(void *unused) { return unused; }

static void *sleep_on(void *unused)
{
    pause();
    return unused;
}

int main(void)
{
    pthread_t thread;
    int status = -1;
    if (pthread_create(&thread, NULL, sleep_on, NULL) != 0)
        return 2;
    const pid_t child = fork();
    if (child == 0) {
        alarm(10);
        _exit(pthread_create(&thread, NULL, end, NULL) != 0 || pthread_join(thread, NULL) != 0);
    }
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}
