/* SPDX-License-Identifier: Apache-2.0 */
/* What marks a placeholder; without libc, for init. */
#ifndef FORMAT_PLACEHOLDER_MARK_H
#define FORMAT_PLACEHOLDER_MARK_H

#define PLACEHOLDER_MODE 0444
#define PLACEHOLDER_DIR_MODE 01755 /* the sticky bit marks it at once */
#define PLACEHOLDER_BYTES_MAX 16
#define PLACEHOLDER_SECONDS 86400
#define PLACEHOLDER_NANOSECONDS 271828182

#endif
