/* What this machine calls an account. Called by: service/image. Calls: the operating system. Thread: any. */
#ifndef EA_HOST_ACCOUNT_H
#define EA_HOST_ACCOUNT_H

#include <stddef.h>

/* "DOMAIN\name" of "S-1-5-21-..." into out: 0. EA_ENOTFOUND: the machine knows none; EA_ELIMIT: it is too long. It may
 * wait for a domain controller. On systems other than Windows none is known. */
int ea_account_lookup(const char *sid, char *out, size_t out_bytes);

#endif
