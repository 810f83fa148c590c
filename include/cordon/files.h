/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files as a command would see them, without a command.
 *
 * A run with `files` = 1 in its options (run.h) executes nothing. It reads requests from its
 * standard input, answers them on its standard output in the same order, and ends with status 0 at
 * the end of its input. What a request can reach is what a command of the same policy could reach:
 * the same view, ids, rights and limits. Links made by earlier commands lead nowhere else. Only
 * regular files and directories of slow file systems block.
 *
 * All numbers are little endian. A request is its head, `path`, `path2`, and `data_len` bytes of
 * data. Paths are bytes without NUL, not terminated, absolute or relative to the directory in which
 * a command would start; at most CORDON_FILES_PATH_MAX bytes. A request that is not of this form
 * ends the run with status CORDON_FILES_MALFORMED.
 *
 * An answer is any number of chunks (a 32-bit length above 0 and that many bytes), a 32-bit 0, and
 * a struct cordon_files_end. Chunk boundaries mean nothing: all chunks together are the data.
 * Discard data that came before an error.
 *
 * limits.output applies to captured answers too: set it high enough when capturing.
 */
#ifndef CORDON_FILES_H
#define CORDON_FILES_H

#include <stdint.h>

#define CORDON_FILES_MAGIC 0x31524643u /* "CFR1" */
#define CORDON_FILES_PATH_MAX 4095u
#define CORDON_FILES_CHUNK_MAX 65536u
#define CORDON_FILES_LIST_BYTES (16u << 20) /* data of one LIST: deep names repeat their way */
#define CORDON_FILES_MALFORMED 2	    /* exit status */

enum cordon_files_op {
	/* Data: `max` bytes (0 = all) from `offset` on. Regular files only: EISDIR for directories,
	 * ENODEV for FIFOs, sockets and devices. NOFOLLOW */
	CORDON_FILES_READ = 1,
	/* The request's data becomes the content. `mode` 0: a new file gets 0644 (less the umask),
	 * an old one keeps its own. PARENTS APPEND EXCL NOFOLLOW */
	CORDON_FILES_WRITE,
	/* Data: one record without a name. NOFOLLOW */
	CORDON_FILES_STAT,
	/* Data: records of what lies in a directory, a directory before its content, in no other
	 * order. `depth` 1 = the directory itself, 0 = everything below; `max` = most records, 0 =
	 * all. E2BIG beyond CORDON_FILES_LIST_BYTES. No links are followed below `path`. NOFOLLOW
	 */
	CORDON_FILES_LIST,
	/* `mode` 0: 0777; less the umask in any case. PARENTS EXIST_OK */
	CORDON_FILES_MKDIR,
	/* Never through a link at the end. EBUSY for /, the directory in which a command would
	 * start, whatever contains it, and mount points. RECURSIVE */
	CORDON_FILES_REMOVE,
	CORDON_FILES_RENAME, /* `path` becomes `path2`. EXCL: which must not exist */
	CORDON_FILES_CHMOD,  /* `mode` */
	/* Data: the path without links, "." and "..". Names that do not exist stay as they are,
	 * and ".." after one takes it back. ELOOP for links that never end */
	CORDON_FILES_REALPATH,
	CORDON_FILES_READLINK, /* data: where the link leads, as it says */
	CORDON_FILES_SYMLINK,  /* `path` becomes a link to `path2` */
	CORDON_FILES_OP_MAX
};

/* cordon_files_request.flags */
#define CORDON_FILES_PARENTS 1u	   /* make missing directories on the way */
#define CORDON_FILES_APPEND 2u	   /* after what is there */
#define CORDON_FILES_EXCL 4u	   /* EEXIST if the name is taken */
#define CORDON_FILES_NOFOLLOW 8u   /* the path's last name is no link, or the link is meant */
#define CORDON_FILES_EXIST_OK 16u  /* a directory that exists is fine */
#define CORDON_FILES_RECURSIVE 32u /* with everything below */

struct cordon_files_request {
	uint32_t magic;
	uint16_t op;	/* enum cordon_files_op */
	uint16_t flags; /* those that the operation knows */
	uint32_t mode;	/* permission bits, 07777 at most */
	uint32_t depth;
	uint64_t offset, max;
	uint32_t path_len, path2_len; /* path2: RENAME and SYMLINK only */
	uint64_t data_len;	      /* WRITE only */
} __attribute__((packed));

/* cordon_files_end.flags */
#define CORDON_FILES_MORE 1u	/* READ, LIST: there is more than `max` */
#define CORDON_FILES_SKIPPED 2u /* LIST: some directory (it has a record) could not be read */

struct cordon_files_end {
	int32_t error; /* an errno, 0 = success */
	uint32_t flags;
} __attribute__((packed));

/* STAT and LIST: followed by the name (relative to the directory) and, of a link, by where it
 * leads. */
struct cordon_files_record {
	uint64_t size;
	int64_t mtime_ns;
	uint32_t mode; /* st_mode; of what may not be looked at, the type alone */
	uint32_t uid, gid;
	uint32_t name_len, target_len;
} __attribute__((packed));

#endif
