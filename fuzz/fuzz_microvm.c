/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest of level microvm sends to the host: any bytes, cut anywhere. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cordon/run.h>

#include "format/microvm.h"

#define INPUT_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_exit(const struct microvm_message *message)
{
	struct microvm_exit exit, again;
	struct microvm_message m;
	struct strbuf sb = STRBUF_INIT;

	if (microvm_parse_exit(message, &exit) < 0)
		return;
	if (exit.kind <= CORDON_KIND_NONE || exit.kind >= CORDON_KIND_MAX || exit.exit_code < -1 ||
	    exit.exit_code > 255 || exit.signal < 0 || exit.signal > 64 ||
	    !memchr(exit.message, '\0', sizeof(exit.message)))
		abort();
	/* What was taken can be said again, and is the same. */
	microvm_add_exit(&sb, &exit);
	if (microvm_parse(sb.data, sb.len, MICROVM_EXIT, MICROVM_AGENT_MAX, &m) !=
		    (int64_t)sb.len ||
	    microvm_parse_exit(&m, &again) < 0 || again.kind != exit.kind ||
	    again.exit_code != exit.exit_code || again.signal != exit.signal ||
	    again.out_bytes != exit.out_bytes || strcmp(again.message, exit.message) != 0)
		abort();
	strbuf_done(&sb);
}

static void check_fields(struct microvm_message m)
{
	const char *text;
	char field;
	int r;

	while ((r = microvm_next(&m, &field, &text)) > 0) {
		int64_t number;

		if (microvm_number(text, -5, 1000, &number) == 0 && (number < -5 || number > 1000))
			abort();
	}
	if (r == 0 && m.len)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > INPUT_MAX)
		size = INPUT_MAX;
	for (unsigned type = MICROVM_HELLO; type < MICROVM_TYPE_MAX; type++) {
		size_t max = type == MICROVM_EXIT ? MICROVM_AGENT_MAX : INPUT_MAX / 2;
		int64_t whole = 0;

		for (size_t len = 0; len <= size; len += len < 32 ? 1 : 61) {
			/* Nothing readable behind the end. */
			uint8_t *copy = malloc(len ? len : 1);
			struct microvm_message m;
			int64_t used;

			if (!copy)
				abort();
			memcpy(copy, data, len);
			used = microvm_parse(copy, len, type, max, &m);
			if (used > (int64_t)len || (used > 0 && m.len > max))
				abort();
			/* More bytes do not change what was decided. */
			if (whole && used != whole)
				abort();
			whole = used;
			if (used > 0) {
				check_fields(m);
				check_exit(&m);
			}
			free(copy);
		}
	}
	return 0;
}
