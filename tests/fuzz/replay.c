/*
 * Runs files, and all files of directories, through a fuzz target without a fuzzer: this is how
 * `make test` replays the corpora. Usage: fuzz_<target>_replay FILE|DIRECTORY ...
 */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

static unsigned replayed;

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    EXPECT(file != NULL);
    struct stat info;
    EXPECT(fstat(fileno(file), &info) == 0);
    size_t size = (size_t)info.st_size;
    uint8_t *data = malloc(size > 0 ? size : 1); /* exact size, so that sanitizers detect access to one byte more */
    EXPECT(data != NULL && fread(data, 1, size, file) == size);
    fclose(file);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    replayed++;
}

static void replay_directory(const char *path)
{
    DIR *directory = opendir(path);
    EXPECT(directory != NULL);
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        char name[4096];
        if (entry->d_name[0] == '.')
            continue;
        EXPECT((size_t)snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < sizeof name);
        replay_file(name);
    }
    closedir(directory);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) != 0) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 1;
        }
        if (S_ISDIR(info.st_mode))
            replay_directory(argv[i]);
        else
            replay_file(argv[i]);
    }
    printf("%u inputs replayed\n", replayed);
    return replayed > 0 ? 0 : 1;
}
