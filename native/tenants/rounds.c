/* Rounds: one program again and again, each time in a fresh process that begins when a file of a
 * shared folder says so. With --barrier FOLDER --index I:
 *
 *   go            "ROUND RELEASE_NS FIRST LAST": this round is on for the members FIRST to LAST
 *   ready-I       member I stands at the barrier
 *   done-R-I      what member I did in round R: exit code, when it ended, what it printed
 *   quit          everybody may leave
 *
 * Files are replaced in one step, so nobody reads a half. Inputs are made once, before the first
 * round; the CUDA driver is opened in each process anew, after its release. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

#define PATH 512
#define POLL_NS 1000000ull
#define MOST_SAID 4096

struct go {
    unsigned long long round, release_ns, first, last;
};

static void path_of(char *path, const struct options *o, const char *name)
{
    snprintf(path, PATH, "%s/%s", o->barrier, name);
}

static bool exists(const struct options *o, const char *name)
{
    char path[PATH];
    path_of(path, o, name);
    return access(path, F_OK) == 0;
}

static bool read_go(const struct options *o, struct go *go)
{
    char path[PATH];
    path_of(path, o, "go");
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    int read = fscanf(file, "%llu %llu %llu %llu", &go->round, &go->release_ns, &go->first,
                      &go->last);
    fclose(file);
    return read == 4;
}

static void put(const struct options *o, const char *name, const char *text)
{
    char draft[PATH], path[PATH], hidden[80];
    path_of(path, o, name);
    snprintf(hidden, sizeof hidden, ".%s", name);
    path_of(draft, o, hidden);
    FILE *file = fopen(draft, "we");
    if (file == NULL)
        return;
    fputs(text, file);
    fclose(file);
    rename(draft, path);
}

static void name_of(char *name, const char *what, const struct options *o)
{
    snprintf(name, 64, "%s-%llu", what, (unsigned long long)o->index);
}

static struct go *started; /* the round a child runs, in memory its parent sees */

/* Stand at the barrier until a later round is on for this member. Ends the process on `quit`, and
 * when its parent is gone. */
void wait_for_start(const struct options *o)
{
    char ready[64];
    struct go go = {0};
    struct stat seen = {0}, now;
    char path[PATH];
    if (o->barrier == NULL)
        return;
    path_of(path, o, "go");
    name_of(ready, "ready", o);
    if (stat(path, &seen) == 0)
        read_go(o, started); /* an earlier round */
    put(o, ready, "");
    for (pid_t parent = getppid();;) {
        if (stat(path, &now) == 0 && (now.st_ino != seen.st_ino || seen.st_mtime == 0)) {
            seen = now;
            if (read_go(o, &go) && go.round > started->round && o->index >= go.first
                && o->index <= go.last)
                break;
        }
        if (exists(o, "quit") || getppid() != parent)
            _exit(EXIT_FINE);
        sleep_until_ns(now_ns() + POLL_NS, false);
    }
    *started = go;
}

static size_t said(FILE *out, char *text)
{
    rewind(out);
    size_t length = fread(text, 1, MOST_SAID - 1, out);
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return length;
}

static void report(const struct options *o, FILE *out, int status, uint64_t end_ns)
{
    char text[MOST_SAID], name[64];
    char done[MOST_SAID + 256];
    struct go go = *started;
    size_t length = said(out, text);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    snprintf(done, sizeof done,
             "{\"round\": %llu, \"index\": %llu, \"exit\": %d, \"release_ns\": %llu, "
             "\"end_ns\": %llu, \"said\": %s}\n",
             go.round, (unsigned long long)o->index, code, go.release_ns,
             (unsigned long long)end_ns, length > 0 && text[0] == '{' ? text : "null");
    name_of(name, "ready", o);
    char path[PATH];
    path_of(path, o, name);
    unlink(path);
    snprintf(name, sizeof name, "done-%llu-%llu", go.round, (unsigned long long)o->index);
    put(o, name, done);
}

int run_rounds(const struct options *o, int (*run)(const struct options *),
               void (*prepare)(const struct options *))
{
    started = mmap(NULL, sizeof *started, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    if (started == MAP_FAILED)
        return EXIT_CUDA;
    if (prepare != NULL)
        prepare(o);
    while (!exists(o, "quit")) {
        FILE *out = fdopen(memfd_create("said", MFD_CLOEXEC), "w+e");
        if (out == NULL)
            return EXIT_CUDA;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            dup2(fileno(out), STDOUT_FILENO);
            if (prepare == NULL)
                wait_for_start(o);
            exit(run(o));
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0)
            return EXIT_CUDA;
        uint64_t end_ns = now_ns();
        if (!exists(o, "quit"))
            report(o, out, status, end_ns);
        fclose(out);
    }
    return EXIT_FINE;
}
