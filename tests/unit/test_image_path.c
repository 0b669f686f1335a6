/* Paths of image events: what Windows opens for them, and what is refused. */
#include "service/host/image_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const ea_image_volumes VOLUMES = {.system_root = "C:\\Windows",
                                         .count = 3,
                                         .items = {{'C', 1, "\\Device\\HarddiskVolume3"},
                                                   {'D', 1, "\\Device\\HarddiskVolume31"},
                                                   {'N', 0, "\\Device\\LanmanRedirector\\;N:0\\server\\share"}}};

static void test_places(void **state) {
    static const struct {
        const char *path, *place;
    } PATHS[] = {
        {"\\Device\\HarddiskVolume3\\Windows\\System32\\ntdll.dll", "\\\\?\\C:\\Windows\\System32\\ntdll.dll"},
        {"\\device\\harddiskvolume31\\a.exe", "\\\\?\\D:\\a.exe"},
        {"\\Device\\HarddiskVolume2\\EFI\\boot.efi", "\\\\?\\GLOBALROOT\\Device\\HarddiskVolume2\\EFI\\boot.efi"},
        {"\\SystemRoot\\system32\\ntoskrnl.exe", "\\\\?\\C:\\Windows\\system32\\ntoskrnl.exe"},
        {"\\??\\C:\\Windows\\System32\\smss.exe", "\\\\?\\C:\\Windows\\System32\\smss.exe"},
        {"c:\\x\\...\\.hidden\\y..z", "\\\\?\\c:\\x\\...\\.hidden\\y..z"},
        {"C:\\a\xc3\xa4.dll", "\\\\?\\C:\\a\xc3\xa4.dll"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        char out[EA_IMAGE_PATH_BYTES];
        assert_int_equal(ea_image_path(&VOLUMES, PATHS[i].path, out, NULL), 0);
        assert_string_equal(out, PATHS[i].place);
    }
}

static void test_refused(void **state) {
    static const char *const PATHS[] = {
        "",
        "a.dll",
        "\\Windows\\System32\\ntdll.dll",
        "\\Device\\Mup\\server\\share\\a.dll",
        "\\Device\\LanmanRedirector\\;N:0\\server\\share\\a.dll",
        "\\Device\\HarddiskVolumeShadowCopy1\\a.dll",
        "\\Device\\HarddiskVolume\\a.dll",
        "\\Device\\HarddiskVolume3",
        "\\Device\\HarddiskVolume3\\",
        "\\Device\\HarddiskVolume33333333333333333333333333333333333333333333333333333333333\\a.dll",
        "\\Device\\NamedPipe\\a",
        "\\\\server\\share\\a.dll",
        "\\\\?\\C:\\a.dll",
        "N:\\a.dll",
        "E:\\a.dll",
        "C:a.dll",
        "C:",
        "C:\\a\\..\\b.dll",
        "C:\\a\\.\\b.dll",
        "C:\\..",
        "C:\\a\\\\b.dll",
        "C:\\a.dll:stream",
        "C:\\a/b.dll",
        "C:\\a?.dll",
        "C:\\a\n.dll",
        "\\SystemRoot\\..\\a.dll",
        "\\??\\UNC\\server\\share\\a.dll",
    };
    char out[EA_IMAGE_PATH_BYTES], long_path[EA_IMAGE_PATH_BYTES + 8];
    (void)state;
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        ea_err err = {0};
        assert_int_equal(ea_image_path(&VOLUMES, PATHS[i], out, &err), EA_EREFUSED);
        assert_true(err.message[0]);
    }
    memset(long_path, 'a', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    memcpy(long_path, "C:\\", 3);
    assert_int_equal(ea_image_path(&VOLUMES, long_path, out, NULL), EA_EREFUSED);
    long_path[EA_IMAGE_PATH_BYTES - 5] = 0; /* with the prefix and the NUL it just fits */
    assert_int_equal(ea_image_path(&VOLUMES, long_path, out, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("image_path", tests, NULL, NULL);
}
