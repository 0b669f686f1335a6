/* Which mutex a function needs, takes or releases, as clang's -Wthread-safety checks it (installer/cmake/house.cmake);
 * other compilers ignore it. The mutex is named by the parameters: EA_REQUIRES(s->lock). In C a member of a struct
 * cannot name the mutex beside it that guards it (clang 14 looks the name up outside of the struct): use a comment.
 * Used by: every folder. Thread: any. */
#ifndef EA_BASE_THREAD_SAFETY_H
#define EA_BASE_THREAD_SAFETY_H

#if defined(__clang__)
#define EA_CAPABILITY(name) __attribute__((capability(name)))
/* The caller holds it. */
#define EA_REQUIRES(...) __attribute__((requires_capability(__VA_ARGS__)))
/* The caller does not hold it; the function takes it. */
#define EA_EXCLUDES(...) __attribute__((locks_excluded(__VA_ARGS__)))
/* Takes it, and returns with it; releases it. */
#define EA_ACQUIRE(...) __attribute__((acquire_capability(__VA_ARGS__)))
#define EA_RELEASE(...) __attribute__((release_capability(__VA_ARGS__)))
/* Ends the process unless the caller holds it. */
#define EA_ASSERT_CAPABILITY(...) __attribute__((assert_capability(__VA_ARGS__)))
/* A function that takes it on some ways only; a comment says why. */
#define EA_NO_THREAD_SAFETY_ANALYSIS __attribute__((no_thread_safety_analysis))
#else
#define EA_CAPABILITY(name)
#define EA_REQUIRES(...)
#define EA_EXCLUDES(...)
#define EA_ACQUIRE(...)
#define EA_RELEASE(...)
#define EA_ASSERT_CAPABILITY(...)
#define EA_NO_THREAD_SAFETY_ANALYSIS
#endif

#endif
