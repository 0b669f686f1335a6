/* libcurl, which is a part of the program. See curl.h. */
#include "proto/curl/curl.h"

/* curl.h makes macros of some functions, which check their arguments. Its versions differ in what is const. */
#undef curl_easy_getinfo
#undef curl_easy_setopt

int ea_curl_load(ea_curl *ret, ea_err *err) {
    (void)err;
#define CALL(type, name, arguments) ret->name = (type(*) arguments)curl_##name;
    EA_CURL_CALLS(CALL)
#undef CALL
    return 0;
}
