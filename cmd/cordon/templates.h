/* SPDX-License-Identifier: Apache-2.0 */
/* The files of templates/, which tools/embed-templates.py puts into the command. */
#ifndef CMD_CORDON_TEMPLATES_H
#define CMD_CORDON_TEMPLATES_H

#include <stddef.h>

struct template_file {
	const char *framework; /* "common": of every project */
	const char *path;      /* inside the project; its directories come from it */
	const char *text;
};

extern const struct template_file template_files[];
extern const size_t template_files_count;

#endif
