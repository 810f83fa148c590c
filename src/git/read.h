/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the files that git reads, as an adversary may have left them: never anything but a
 * regular file, never more than a maximum, and without waiting.
 */
#ifndef GIT_READ_H
#define GIT_READ_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define GIT_POINTER_MAX 8192 /* bytes of a .git file or of commondir */

/* O_PATH. Follows links, but not those of /proc. -errno. */
int git_open_path(int dir_fd, const char *path, unsigned long flags, unsigned long resolve);

/* Where @fd lies; -EINVAL if that is no path of ours, or too long for one. */
int git_path_of(int fd, char ret[PATH_MAX]);

/* Reads all of a file, whose name may be a link; the caller frees *ret, which ends with a NUL.
 * -ENOENT if there is none, -EINVAL if it is no regular file, -EFBIG if it is longer than @max. */
int git_read_file(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_len);

/* Is @error what the file system answers (missing, not permitted, something else)? Git gets the
 * same answer. Anything else means that the look-up failed and nothing is known. */
bool git_is_answer(int error);

/* The path in a pointer file, behind @prefix ("gitdir: " in .git, "" in commondir): like git, all
 * of it but the line ends at the end. 1; 0 = there is no such file, or it is something else; or
 * -errno. The caller frees *ret. */
int git_read_pointer(int dir_fd, const char *name, const char *prefix, char **ret);

/* The directory that the pointer file @name in @dir leads to, as a real path. 1; 0 = it leads
 * nowhere; or -errno if that could not be found out. */
int git_pointed_dir(const char *dir, const char *name, const char *prefix, char ret[PATH_MAX]);

/* Would git take the directory @dir for a repository's own? If not, it looks further up. */
bool git_is_repository(const char *dir);

struct git_location {
	char work_dir[PATH_MAX]; /* the top of the work tree */
	char git_dir[PATH_MAX];	 /* the repository's own directory, a real path */
	uid_t owner;		 /* of `.git` */
};

/* The repository that git would use in @dir, an absolute path: the nearest `.git` there or above
 * that is a repository. 1; 0 = none; or -errno. */
int git_locate(const char *dir, struct git_location *ret);

#endif
