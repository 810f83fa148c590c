/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox: one request, one answer. */
#ifndef MCP_FILES_H
#define MCP_FILES_H

#include "server.h"

#define FILES_DATA_MAX ((size_t)4 << 20) /* of one answer */

/* Starts the job for a request; @then is called when it is done. -1: the call was refused. */
int files_request(struct call *call, struct cordon_files_request *q, const char *path,
		  const void *data, size_t len, void (*then)(struct call *call));
/* Its data, or -1: the call was answered with why not. */
int files_answer(struct call *call, const char *path, struct strbuf *data, unsigned *ret_flags);
/* -1: it is none. */
int files_from_base64(const char *text, struct strbuf *ret);

#endif
