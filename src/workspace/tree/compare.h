/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two files are the same: content, attributes, times. */
#ifndef WORKSPACE_TREE_COMPARE_H
#define WORKSPACE_TREE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define WS_BUF_SIZE 65536

bool ws_is_before(const struct timespec *a, const struct timespec *b);
bool ws_is_same_time(const struct timespec *a, const struct timespec *b);
int ws_file_type(unsigned mode); /* enum cordon_file_type */
/* Same user.* attributes? 1, 0 or -errno. */
int ws_same_attributes(int a_fd, int b_fd);
/* Whether @name in @dir_fd has an attribute that grants privileges. @buf: WS_BUF_SIZE bytes. */
bool ws_has_power_attribute(int dir_fd, const char *name, char *buf);
/* The text of a link into buf[size], NUL-terminated; its length or -errno. */
int ws_read_link(int dir_fd, const char *name, char *buf, size_t size);

/* SHA-1 of a file's content (base/sha1.h, which patches for git need too): tells "rewritten with
 * the same content" from a change by the user, and protects against nothing else. 0 or -errno.
 */
struct ws_hash {
	unsigned char v[20];
};
int ws_hash_file(int fd, struct ws_hash *ret);
/* The same of the text of a link. */
int ws_hash_link(int dir_fd, const char *name, struct ws_hash *ret);

/* Same size and bytes? 1, 0 or -errno. */
int ws_same_content(int a_fd, int b_fd);

#endif
