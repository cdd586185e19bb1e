/* A few lines for people, and the count of hooks at exit. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

#define LINES 20 /* ever, of one process */

static uint32_t lines;

static int open_log(bool *close_it)
{
    const char *where = getenv("DURE_LOG");
    *close_it = false;
    if (where == NULL || *where == '\0' || strcmp(where, "stderr") == 0)
        return STDERR_FILENO;
    if (strcmp(where, "off") == 0)
        return -1;
    *close_it = true;
    return open(where, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void write_line(const char *text, size_t bytes)
{
    bool close_it;
    int log = open_log(&close_it);
    if (log < 0)
        return;
    ssize_t written = write(log, text, bytes);
    (void)written; /* nobody to tell */
    if (close_it)
        close(log);
}

static void format_line(const char *format, va_list arguments)
{
    char text[400];
    int head = snprintf(text, sizeof text, "dure: ");
    int body = vsnprintf(text + head, sizeof text - (size_t)head - 1, format, arguments);
    size_t bytes = strlen(text);
    if (body < 0)
        return;
    text[bytes] = '\n';
    write_line(text, bytes + 1);
}

void dure_log(const char *format, ...)
{
    if (__atomic_add_fetch(&lines, 1, __ATOMIC_RELAXED) > LINES)
        return;
    va_list arguments;
    va_start(arguments, format);
    format_line(format, arguments);
    va_end(arguments);
}

bool dure_tracing(void)
{
    static int tracing = -1;
    if (tracing < 0) {
        const char *wanted = getenv("DURE_TRACE");
        tracing = wanted != NULL && *wanted != '\0' && *wanted != '0';
    }
    return tracing != 0;
}

static void trace_line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    format_line(format, arguments);
    va_end(arguments);
}

/* Only names that submit or wait for work matter: the rest is asked for by the hundred. */
void dure_log_unhooked(const char *symbol)
{
    if (dure_tracing() && (strstr(symbol, "Launch") != NULL || strstr(symbol, "Async") != NULL))
        trace_line("trace: not hooked: %s", symbol);
}

static void show(const char *symbol, uint64_t hits)
{
    if (hits != 0)
        trace_line("trace: %-36s %llu", symbol, (unsigned long long)hits);
}

__attribute__((destructor)) static void at_exit(void)
{
    if (dure_tracing())
        dure_each_hook(show);
}
