/* SPDX-License-Identifier: Apache-2.0 */
/* What marks a placeholder; without libc, for init. */
#ifndef FORMAT_PLACEHOLDER_MARK_H
#define FORMAT_PLACEHOLDER_MARK_H

#define PLACEHOLDER_MODE 0444
#define PLACEHOLDER_EMPTY_MODE 0644 /* of an empty file, once it is marked */
#define PLACEHOLDER_DIR_MODE 01755  /* the sticky bit marks it at once */
#define PLACEHOLDER_BYTES_MAX 16
#define PLACEHOLDER_TEXT ".\n"	      /* of the only one that has a text */
#define PLACEHOLDER_SECONDS 315705600 /* 1980-01-03: zip knows none before 1980 */
#define PLACEHOLDER_NANOSECONDS 271828182

#endif
