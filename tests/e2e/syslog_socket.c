/* syslog(3) onto a socket of the test: a preload library that makes the same system calls as glibc's syslog, with the
 * address in EA_SYSLOG_SOCKET instead of /dev/log. When a sandbox refuses one of these calls, the program aborts, and
 * so the test detects it. Each line is a datagram: the facility of openlog, the priority and the text. Called by:
 * programs that the tests start with LD_PRELOAD. Calls: the socket. Thread: any. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void openlog(const char *name, int options, int facility);
__attribute__((format(printf, 2, 3))) void syslog(int priority, const char *format, ...);
__attribute__((format(printf, 3, 4))) void __syslog_chk(int priority, int flag, const char *format, ...);

static int opened_facility = -1;

__attribute__((format(printf, 2, 0))) static void write_line(int priority, const char *format, va_list arguments) {
    char line[1 << 16];
    const char *path = getenv("EA_SYSLOG_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int n = snprintf(line, sizeof line, "%d %d ", opened_facility, priority);
    (void)vsnprintf(line + n, sizeof line - (size_t)n, format, arguments);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path ? path : "");
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) ||
        send(fd, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
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
