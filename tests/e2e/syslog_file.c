/* syslog(3) into a file, for tests: a preload library that writes what a program sends to syslog to EA_SYSLOG_FILE, a
 * line each: the facility of openlog, the priority and the text. Before it: the tests, which set LD_PRELOAD. After it:
 * the file. Thread: any. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void openlog(const char *name, int options, int facility);
__attribute__((format(printf, 2, 3))) void syslog(int priority, const char *format, ...);
__attribute__((format(printf, 3, 4))) void __syslog_chk(int priority, int flag, const char *format, ...);

static int opened_facility = -1;

__attribute__((format(printf, 2, 0))) static void write_line(int priority, const char *format, va_list arguments) {
    char line[1 << 16];
    const char *path = getenv("EA_SYSLOG_FILE");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    int n = snprintf(line, sizeof line, "%d %d ", opened_facility, priority);
    (void)vsnprintf(line + n, sizeof line - (size_t)n - 1, format, arguments);
    size_t length = strlen(line);
    line[length++] = '\n';
    if (fd < 0 || write(fd, line, length) != (ssize_t)length)
        abort();
    close(fd);
}

void openlog(const char *name, int options, int facility) {
    (void)name, (void)options;
    opened_facility = facility;
}

void syslog(int priority, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_line(priority, format, arguments);
    va_end(arguments);
}

void __syslog_chk(int priority, int flag, const char *format, ...) { /* NOLINT: glibc's name of syslog */
    va_list arguments;
    (void)flag;
    va_start(arguments, format);
    write_line(priority, format, arguments);
    va_end(arguments);
}
