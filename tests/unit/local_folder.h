/* Shared by unit tests: a directory for local sockets, which the test removes. */
#ifndef PCCL_TESTS_UNIT_LOCAL_FOLDER_H
#define PCCL_TESTS_UNIT_LOCAL_FOLDER_H

#include "os/local.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct local_folder {
    char path[64];
    struct pccl_local local;
};

/* Skips the test on systems without local sockets. */
static inline void local_folder_make(struct local_folder *folder)
{
    struct pccl_text reason;
    (void)snprintf(folder->path, sizeof folder->path, "/tmp/test_local_XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    int error = pccl_local_open(&folder->local, folder->path, &reason);
    if (error == UV_ENOTSUP) {
        assert_int_equal(rmdir(folder->path), 0);
        skip();
    }
    assert_int_equal(error, 0);
}

/* Fails if files are left. */
static inline void local_folder_remove(struct local_folder *folder)
{
    pccl_local_close(&folder->local);
    assert_int_equal(rmdir(folder->path), 0);
}

#endif
