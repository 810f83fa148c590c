/* SPDX-License-Identifier: Apache-2.0 */
/* The few macros and attributes used everywhere. */
#ifndef BASE_MACROS_H
#define BASE_MACROS_H

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define CHECK_RESULT __attribute__((warn_unused_result))
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Ownership transfer: gives the value away and forgets it here. */
#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) *take_pp_ = &(p);                                                    \
		__typeof__(p) take_p_ = *take_pp_;                                                 \
		*take_pp_ = NULL;                                                                  \
		take_p_;                                                                           \
	})
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int *take_fdp_ = &(fd);                                                            \
		int take_fd_ = *take_fdp_;                                                         \
		*take_fdp_ = -1;                                                                   \
		take_fd_;                                                                          \
	})

#endif
