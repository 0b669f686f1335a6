/* Scenarios. See scenario.h. The programs and files are those that any Windows has, or made up. */
#include "scenario.h"

#include <string.h>

#define SYSTEM32      "System32\\"
#define PROGRAMS      "\\Program Files\\"
#define USER_PROGRAMS "\\Users\\person\\AppData\\Local\\"

static const tg_dll dlls[] = {
    {SYSTEM32 "ntoskrnl.exe", 0x1046000, 0},
    {SYSTEM32 "hal.dll", 0x6000, 0},
    {SYSTEM32 "drivers\\ntfs.sys", 0x2F2000, 0},
    {SYSTEM32 "drivers\\tcpip.sys", 0x31F000, 0},
    {SYSTEM32 "drivers\\ndis.sys", 0x18C000, 0},
    {SYSTEM32 "drivers\\fltmgr.sys", 0x79000, 0},
    {SYSTEM32 "drivers\\storport.sys", 0xC3000, 0},
    {SYSTEM32 "drivers\\afd.sys", 0xA9000, 0},
    {SYSTEM32 "win32kbase.sys", 0x326000, 0},
    {SYSTEM32 "ntdll.dll", 0x217000, TG_DLLS_BASE},
    {SYSTEM32 "kernel32.dll", 0xC4000, TG_DLLS_BASE},
    {SYSTEM32 "KernelBase.dll", 0x3A7000, TG_DLLS_BASE},
    {SYSTEM32 "ucrtbase.dll", 0x111000, TG_DLLS_C},
    {SYSTEM32 "msvcrt.dll", 0xA7000, TG_DLLS_C},
    {SYSTEM32 "sechost.dll", 0xA8000, TG_DLLS_COM | TG_DLLS_NET},
    {SYSTEM32 "rpcrt4.dll", 0x114000, TG_DLLS_COM | TG_DLLS_NET},
    {SYSTEM32 "combase.dll", 0x38A000, TG_DLLS_COM},
    {SYSTEM32 "oleaut32.dll", 0xD7000, TG_DLLS_COM},
    {SYSTEM32 "user32.dll", 0x1AE000, TG_DLLS_GUI},
    {SYSTEM32 "win32u.dll", 0x26000, TG_DLLS_GUI},
    {SYSTEM32 "gdi32.dll", 0x29000, TG_DLLS_GUI},
    {SYSTEM32 "shell32.dll", 0x855000, TG_DLLS_GUI},
    {SYSTEM32 "uxtheme.dll", 0xB4000, TG_DLLS_GUI},
    {SYSTEM32 "ws2_32.dll", 0x71000, TG_DLLS_NET},
    {SYSTEM32 "dnsapi.dll", 0xF6000, TG_DLLS_NET},
    {SYSTEM32 "mswsock.dll", 0x69000, TG_DLLS_NET},
    {SYSTEM32 "crypt32.dll", 0x166000, TG_DLLS_CRYPTO},
    {SYSTEM32 "bcrypt.dll", 0x28000, TG_DLLS_CRYPTO},
    {NULL, 0, 0},
};

enum {
    BASE = TG_DLLS_BASE | TG_DLLS_C,
    SERVICE = BASE | TG_DLLS_COM,
    DESKTOP = BASE | TG_DLLS_COM | TG_DLLS_GUI,
    ONLINE = BASE | TG_DLLS_COM | TG_DLLS_NET | TG_DLLS_CRYPTO,
};

#define SVCHOST(user, group, busy)                                                                                     \
    {                                                                                                                  \
        "svchost.exe", SYSTEM32 "svchost.exe", "C:\\Windows\\system32\\svchost.exe -k " group, 0x11000, ONLINE, user,  \
            0, 4, 14, busy, 0, 0, 0                                                                                    \
    }

static const tg_program office_programs[] = {
    {"Idle", NULL, "", 0, 0, TG_USER_SYSTEM, 0, 0, 0, 0, 0, 0, 0},
    {"System", NULL, "", 0, 0, TG_USER_SYSTEM, 0, 20, 40, 4, 0, 0, 0},
    {"Registry", NULL, "", 0, 0, TG_USER_SYSTEM, 0, 3, 5, 0, 0, 0, 0},
    {"smss.exe", SYSTEM32 "smss.exe", "\\SystemRoot\\System32\\smss.exe", 0x29000, TG_DLLS_BASE, TG_USER_SYSTEM, 0, 2,
     2, 0, 0, 0, 0},
    {"csrss.exe", SYSTEM32 "csrss.exe",
     "%SystemRoot%\\system32\\csrss.exe ObjectDirectory=\\Windows SharedSection=1024,20480,768", 0x7000, TG_DLLS_BASE,
     TG_USER_SYSTEM, 1, 8, 12, 2, 0, 0, 0},
    {"wininit.exe", SYSTEM32 "wininit.exe", "wininit.exe", 0x68000, SERVICE, TG_USER_SYSTEM, 0, 2, 4, 0, 0, 0, 0},
    {"winlogon.exe", SYSTEM32 "winlogon.exe", "winlogon.exe", 0xF1000, DESKTOP, TG_USER_SYSTEM, 1, 3, 6, 0, 0, 0, 0},
    {"services.exe", SYSTEM32 "services.exe", "C:\\Windows\\system32\\services.exe", 0xB6000, SERVICE, TG_USER_SYSTEM,
     0, 5, 9, 1, 0, 0, 0},
    {"lsass.exe", SYSTEM32 "lsass.exe", "C:\\Windows\\system32\\lsass.exe", 0x15000, ONLINE, TG_USER_SYSTEM, 0, 8, 12,
     1, 0, 0, 0},
    SVCHOST(TG_USER_SYSTEM, "DcomLaunch -p", 2),
    SVCHOST(TG_USER_NETWORK_SERVICE, "RPCSS -p", 1),
    SVCHOST(TG_USER_LOCAL_SERVICE, "LocalServiceNetworkRestricted -p -s EventLog", 2),
    SVCHOST(TG_USER_NETWORK_SERVICE, "NetworkService -p -s Dnscache", 2),
    SVCHOST(TG_USER_SYSTEM, "netsvcs -p -s Schedule", 1),
    {"explorer.exe", "explorer.exe", "C:\\Windows\\Explorer.EXE", 0x53A000, DESKTOP | TG_DLLS_NET, TG_USER_PERSON, 1,
     25, 40, 6, 0, 0, 1},
    {"dwm.exe", SYSTEM32 "dwm.exe", "\"dwm.exe\"", 0x25000, DESKTOP, TG_USER_SYSTEM, 1, 12, 18, 8, 0, 0, 0},
    {"browser.exe", PROGRAMS "Browser\\browser.exe", "\"C:\\Program Files\\Browser\\browser.exe\" --start-page",
     0x2D0000, DESKTOP | ONLINE, TG_USER_PERSON, 1, 20, 35, 12, 0, 0, 0},
    {"browser_tab.exe", PROGRAMS "Browser\\browser_tab.exe",
     "\"C:\\Program Files\\Browser\\browser_tab.exe\" --type=renderer --site=#|\"C:\\Program "
     "Files\\Browser\\browser_tab.exe\" "
     "--type=gpu --id=#",
     0x1C0000, DESKTOP | ONLINE, TG_USER_PERSON, 1, 6, 14, 15, 900, 9000, 0},
    {"cmd.exe", SYSTEM32 "cmd.exe", "\"C:\\Windows\\system32\\cmd.exe\" |cmd.exe /c build.cmd #", 0x67000, BASE,
     TG_USER_PERSON, 1, 1, 2, 2, 3000, 12000, 0},
    {"conhost.exe", SYSTEM32 "conhost.exe", "\\??\\C:\\Windows\\system32\\conhost.exe 0xffffffff -ForceV1", 0xEE000,
     DESKTOP, TG_USER_PERSON, 1, 3, 5, 2, 1500, 9000, 0},
    {"make.exe", PROGRAMS "Toolchain\\bin\\make.exe", "make -j4 all|make check CASE=#", 0x5C000, BASE, TG_USER_PERSON,
     1, 1, 2, 3, 1500, 6000, 0},
    {"cc1.exe", PROGRAMS "Toolchain\\libexec\\cc1.exe",
     "cc1.exe -O2 -Wall -o obj\\unit#.o src\\unit#.c|cc1.exe -O2 -g src\\\xC3\xBC"
     "bersicht#.c",
     0x1B40000, BASE, TG_USER_PERSON, 1, 1, 1, 30, 80, 900, 0},
    {"notepad.exe", PROGRAMS "WindowsApps\\Notepad\\notepad.exe", "\"notepad.exe\" C:\\Users\\person\\notes-#.txt",
     0xA6000, DESKTOP, TG_USER_PERSON, 1, 4, 9, 1, 2000, 10000, 0},
    {"powershell.exe", SYSTEM32 "WindowsPowerShell\\v1.0\\powershell.exe",
     "powershell.exe -NoProfile -File C:\\scripts\\inventory.ps1 -Run #", 0x76000, DESKTOP | ONLINE, TG_USER_SYSTEM, 0,
     8, 16, 10, 800, 4000, 0},
    {"taskhostw.exe", SYSTEM32 "taskhostw.exe", "taskhostw.exe Install $(Arg#)", 0x1C000, SERVICE, TG_USER_PERSON, 1, 3,
     6, 1, 1500, 7000, 0},
    {"updater.exe", USER_PROGRAMS "Updater\\updater.exe", "updater.exe --check --ticket=#", 0x3E000, ONLINE,
     TG_USER_PERSON, 1, 2, 5, 4, 300, 1500, 0},
    {NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
};

/* svchost.exe stands five times in the list of programs: each start takes the next one. */
static const tg_start office_starts[] = {
    {"Idle", NULL},
    {"System", "Idle"},
    {"Registry", "System"},
    {"smss.exe", "System"},
    {"csrss.exe", "smss.exe"},
    {"wininit.exe", "smss.exe"},
    {"winlogon.exe", "smss.exe"},
    {"services.exe", "wininit.exe"},
    {"lsass.exe", "wininit.exe"},
    {"svchost.exe", "services.exe"},
    {"svchost.exe", "services.exe"},
    {"svchost.exe", "services.exe"},
    {"svchost.exe", "services.exe"},
    {"svchost.exe", "services.exe"},
    {"dwm.exe", "winlogon.exe"},
    {"explorer.exe", "winlogon.exe"},
    {"browser.exe", "explorer.exe"},
    {"browser_tab.exe", "browser.exe"},
    {NULL, NULL},
};

static const tg_activity office_activities[] = {
    {"browser.exe", "browser_tab.exe", 700, 2500},
    {"explorer.exe", "cmd.exe", 1200, 5000},
    {"explorer.exe", "notepad.exe", 2500, 7000},
    {"explorer.exe", "updater.exe", 2000, 6000},
    {"cmd.exe", "conhost.exe", 100, 20000},
    {"cmd.exe", "make.exe", 200, 2500},
    {"make.exe", "cc1.exe", 150, 600},
    {"svchost.exe", "taskhostw.exe", 4000, 15000},
    {"services.exe", "powershell.exe", 2000, 6000},
    {NULL, NULL, 0, 0},
};

static const tg_scenario demo = {
    .name = "demo",
    .summary = "an office machine on which somebody builds a program, for 20 seconds",
    .seconds = 20,
    .cpus = 4,
    .samples_per_second = 100,
    .idle_percent = 40,
    .os_version = 0x0501000A,
    .os_build = 22631,
    .dlls = dlls,
    .programs = office_programs,
    .starts = office_starts,
    .activities = office_activities,
};

static const tg_scenario *const presets[] = {&demo};

const tg_scenario *tg_preset(size_t number) {
    return number < sizeof presets / sizeof *presets ? presets[number] : NULL;
}

const tg_scenario *tg_find_preset(const char *name) {
    for (size_t i = 0; tg_preset(i); i++)
        if (strcmp(presets[i]->name, name) == 0)
            return presets[i];
    return NULL;
}
