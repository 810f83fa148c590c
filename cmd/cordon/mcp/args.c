/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of a call. What does not fit is told as a result, so that a model can correct it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

int args_check(struct call *call)
{
	const struct json_value *v = call->args ? call->args->first : NULL;

	for (; v; v = v->next) {
		const char *const *name = call->tool->names;

		while (*name && strcmp(*name, v->key) != 0)
			name++;
		if (*name)
			continue;
		answer_refuse(call, "%s has no argument '%.60s'", call->tool->name, v->key);
		return -1;
	}
	return 0;
}

static const struct json_value *get(const struct call *call, const char *name)
{
	const struct json_value *v = call->args ? json_get(call->args, name) : NULL;

	return v && v->type != JSON_NULL ? v : NULL;
}

int args_string(struct call *call, const char *name, int is_needed, const char **ret)
{
	const struct json_value *v = get(call, name);

	*ret = NULL;
	if (v && v->type == JSON_STRING) {
		*ret = v->text;
		return 0;
	}
	if (!v && !is_needed)
		return 0;
	answer_refuse(call, v ? "'%s' has to be a string" : "'%s' is missing", name);
	return -1;
}

int args_bool(struct call *call, const char *name, int *ret)
{
	const struct json_value *v = get(call, name);

	if (!v)
		return 0;
	if (v->type != JSON_TRUE && v->type != JSON_FALSE) {
		answer_refuse(call, "'%s' has to be true or false", name);
		return -1;
	}
	*ret = v->type == JSON_TRUE;
	return 0;
}

int args_count(struct call *call, const char *name, int64_t max, int64_t *ret)
{
	const struct json_value *v = get(call, name);

	if (!v)
		return 0;
	if (v->type != JSON_INTEGER || v->integer < 0 || v->integer > max) {
		answer_refuse(call, "'%s' has to be an integer from 0 to %lld", name,
			      (long long)max);
		return -1;
	}
	*ret = v->integer;
	return 0;
}

int args_timeout(struct call *call, int64_t *ret_ms)
{
	const struct json_value *v = get(call, "timeout");
	double seconds;
	char most[32];

	*ret_ms = call->server->wall_ms;
	if (!v)
		return 0;
	seconds = v->type == JSON_INTEGER || v->type == JSON_NUMBER ? strtod(v->text, NULL) : -1;
	if (!(seconds > 0)) {
		answer_refuse(call, "'timeout' has to be a number of seconds above 0");
		return -1;
	}
	if (seconds * 1000 > (double)call->server->wall_ms) {
		answer_refuse(call,
			      "'timeout' can be %s seconds at most here; the operator may raise "
			      "that with --timeout",
			      server_seconds(call->server->wall_ms, most));
		return -1;
	}
	*ret_ms = (int64_t)(seconds * 1000);
	if (*ret_ms < 1)
		*ret_ms = 1;
	return 0;
}

int args_session(struct call *call)
{
	const char *id;

	if (call->session || args_string(call, "session", 0, &id) < 0)
		return call->session ? 0 : -1;
	if (!id)
		return 0;
	for (struct session *s = call->server->sessions; s; s = s->next) {
		if (s->is_closed || strcmp(s->id, id) != 0)
			continue;
		session_get(s);
		call->session = s;
		return 0;
	}
	answer_refuse(call, "there is no such session, or not any more: create_session makes one");
	return -1;
}
