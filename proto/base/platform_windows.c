/* The Windows half of platform.h. */
#if defined(_WIN32)
#include "platform.h"
#endif
typedef int ea_platform_windows_is_not_empty;
