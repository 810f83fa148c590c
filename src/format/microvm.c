/* SPDX-License-Identifier: Apache-2.0 */
#include "format/microvm.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <cordon/run.h>

#include "base/macros.h"

size_t microvm_begin(struct strbuf *sb, unsigned type)
{
	size_t at = sb->len;
	uint32_t head[2] = { type, 0 };

	strbuf_add(sb, head, sizeof(head));
	return at;
}

void microvm_add(struct strbuf *sb, char field, const char *text)
{
	strbuf_putc(sb, field);
	strbuf_add(sb, text, strlen(text) + 1);
}

void microvm_add_number(struct strbuf *sb, char field, int64_t number)
{
	strbuf_putc(sb, field);
	strbuf_printf(sb, "%lld", (long long)number);
	strbuf_putc(sb, '\0');
}

void microvm_end(struct strbuf *sb, size_t at)
{
	uint32_t len;

	if (sb->failed)
		return;
	len = (uint32_t)(sb->len - at - MICROVM_HEAD);
	memcpy(sb->data + at + sizeof(len), &len, sizeof(len));
}

int64_t microvm_parse(const void *data, size_t len, unsigned type, size_t max,
		      struct microvm_message *ret)
{
	uint32_t head[2];

	if (len < sizeof(head)) {
		/* The type can be wrong already. */
		if (len >= sizeof(head[0])) {
			memcpy(head, data, sizeof(head[0]));
			return head[0] == type ? 0 : -EPROTO;
		}
		return 0;
	}
	memcpy(head, data, sizeof(head));
	if (head[0] != type || head[1] > max)
		return -EPROTO;
	if (len - sizeof(head) < head[1])
		return 0;
	*ret = (struct microvm_message){ .type = type,
					 .data = (const char *)data + sizeof(head),
					 .len = head[1] };
	return (int64_t)(sizeof(head) + head[1]);
}

int microvm_next(struct microvm_message *message, char *ret_field, const char **ret_text)
{
	const char *end;

	if (!message->len)
		return 0;
	end = memchr(message->data, '\0', message->len);
	if (!end || end == message->data)
		return -EPROTO;
	*ret_field = message->data[0];
	*ret_text = message->data + 1;
	message->len -= (size_t)(end - message->data) + 1;
	message->data = end + 1;
	return 1;
}

int microvm_number(const char *text, int64_t min, int64_t max, int64_t *ret)
{
	bool is_negative = *text == '-';
	int64_t n = 0;

	text += is_negative;
	if (*text < '0' || *text > '9')
		return -EPROTO;
	for (; *text >= '0' && *text <= '9'; text++) {
		if (n > (INT64_MAX - 9) / 10)
			return -EPROTO;
		n = n * 10 + (*text - '0');
	}
	if (is_negative)
		n = -n;
	if (*text || n < min || n > max)
		return -EPROTO;
	*ret = n;
	return 0;
}

enum exit_field {
	EXIT_KIND = 'k',
	EXIT_CODE = 'c',
	EXIT_SIGNAL = 's',
	EXIT_OUT = 'o',
	EXIT_ERR = 'e',
	EXIT_MESSAGE = 'm',
};

/* What a command can come to inside; that it was cancelled is believed only if it was. */
static const int kinds[] = { CORDON_KIND_EXITED,       CORDON_KIND_SIGNALED,
			     CORDON_KIND_TIMEOUT,      CORDON_KIND_CANCELLED,
			     CORDON_KIND_SPAWN_FAILED, CORDON_KIND_SANDBOX_ERROR,
			     CORDON_KIND_MEMORY,       CORDON_KIND_CPU_TIME,
			     CORDON_KIND_DISK,	       CORDON_KIND_PROCS };

void microvm_add_exit(struct strbuf *sb, const struct microvm_exit *exit)
{
	size_t at = microvm_begin(sb, MICROVM_EXIT);

	microvm_add_number(sb, EXIT_KIND, exit->kind);
	microvm_add_number(sb, EXIT_CODE, exit->exit_code);
	microvm_add_number(sb, EXIT_SIGNAL, exit->signal);
	microvm_add_number(sb, EXIT_OUT, (int64_t)exit->out_bytes);
	microvm_add_number(sb, EXIT_ERR, (int64_t)exit->err_bytes);
	microvm_add(sb, EXIT_MESSAGE, exit->message);
	microvm_end(sb, at);
}

static bool is_kind(int64_t kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i] == kind)
			return true;
	return false;
}

/* Each field once, and a result that a command can have. */
int microvm_parse_exit(const struct microvm_message *message, struct microvm_exit *ret)
{
	static const struct {
		char field;
		int64_t min, max;
	} fields[] = { { EXIT_KIND, 0, CORDON_KIND_MAX - 1 },
		       { EXIT_CODE, -1, 255 },
		       { EXIT_SIGNAL, 0, 64 },
		       { EXIT_OUT, 0, INT64_MAX / 2 },
		       { EXIT_ERR, 0, INT64_MAX / 2 } };
	struct microvm_message m = *message;
	int64_t got[ARRAY_SIZE(fields)];
	unsigned seen = 0;
	const char *text, *said = NULL;
	char field;
	int r;

	while ((r = microvm_next(&m, &field, &text)) > 0) {
		size_t i = 0;

		if (field == EXIT_MESSAGE && !said && strlen(text) < MICROVM_MESSAGE_MAX) {
			said = text;
			continue;
		}
		while (i < ARRAY_SIZE(fields) && fields[i].field != field)
			i++;
		if (i == ARRAY_SIZE(fields) || (seen & 1u << i) ||
		    microvm_number(text, fields[i].min, fields[i].max, &got[i]) < 0)
			return -EPROTO;
		seen |= 1u << i;
	}
	if (r < 0 || !said || seen != (1u << ARRAY_SIZE(fields)) - 1 || !is_kind(got[0]))
		return -EPROTO;
	/* A code or a signal, as the kind has it. */
	if (got[0] == CORDON_KIND_EXITED && (got[1] < 0 || got[2]))
		return -EPROTO;
	if (got[0] == CORDON_KIND_SIGNALED && (got[1] >= 0 || !got[2]))
		return -EPROTO;
	*ret = (struct microvm_exit){ .kind = (int)got[0],
				      .exit_code = (int)got[1],
				      .signal = (int)got[2],
				      .out_bytes = (uint64_t)got[3],
				      .err_bytes = (uint64_t)got[4] };
	memcpy(ret->message, said, strlen(said) + 1);
	return 0;
}
