/* SPDX-License-Identifier: Apache-2.0 */
/* The file server, as the core sees it. */
#ifndef INIT_FILES_FILES_H
#define INIT_FILES_FILES_H

/* server.c: serves requests until the socket is closed, in place of executing a command. */
void serve_files(void) __attribute__((noreturn));

#endif
