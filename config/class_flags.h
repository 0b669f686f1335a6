/* Which kernel flags turn on a class of kernel events.
 * Called by: what makes a session for given classes. Calls: none. Thread: any; all is constant.
 *
 * Sources: kernel_flags.h, and the documentation of EVENT_TRACE_PROPERTIES.EnableFlags. */
#ifndef EA_CLASS_FLAGS_H
#define EA_CLASS_FLAGS_H

/* Names of kernel flags joined by +; "" when the events come with any kernel session; NULL when no flag is known for
 * this class. class_name: of a classic class of the kernel, "Thread/CSwitch". */
const char *ea_class_flags(const char *class_name);

#endif
