/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the host that the command line names to be written: receipts, logs, archives.
 *
 * They may lie where this run or an earlier one can write, so no link on the way to them is
 * followed that a command may have made (base/way.h). This is the rule of write grants.
 */
#ifndef CMD_CORDON_OUTPUT_FILE_H
#define CMD_CORDON_OUTPUT_FILE_H

#include <cordon/error.h>

/* The directory of @path (O_PATH), and in *ret_name the name there, a part of @path. @what is for
 * messages: "cannot write @what'PATH'". A descriptor, or a negative code. */
int output_open_dir(const char *what, const char *path, const char **ret_name,
		    struct cordon_error *err);

/* Opens the file to write, with @flags besides O_CREAT. @any: also a device or pipe, and links of
 * the system such as /dev/stdout; else only a regular file. A descriptor, or a negative code. */
int output_open(const char *what, const char *path, int flags, int mode, int any,
		struct cordon_error *err);

#endif
