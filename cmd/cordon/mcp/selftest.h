/* SPDX-License-Identifier: Apache-2.0 */
/* The client of --selftest, and what it checks. */
#ifndef MCP_SELFTEST_H
#define MCP_SELFTEST_H

#include <sys/types.h>

#include "base/arena.h"
#include "base/json_read.h"
#include "base/strbuf.h"

struct probe {
	pid_t pid;
	int to, from, number, n_failed;
	struct strbuf in;
	struct arena arena; /* of the last answer */
	const struct json_value *result;
	const char *why; /* the last call was an error */
	int has_diff, has_python, has_bash;
	int is_gone; /* it has not answered, or has ended */
};

/* Sends a request and reads its answer into p->result; 0 or -1. */
int probe_ask(struct probe *p, const char *method, const char *params);
/* A call of a tool; p->result is its structured content, NULL if that is an error. */
void probe_call(struct probe *p, const char *tool, const char *arguments);
/* A string of p->result, "" if it is none. */
const char *probe_text(const struct probe *p, const char *key);
/* One line of the report; @more: what was found, or why not. */
void probe_say(struct probe *p, int is_good, const char *what, const char *more);

/* selftest_checks.c */
void selftest_check(struct probe *p);

#endif
