/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ClientHellos. However the bytes are cut, the answer is the same; and one that was understood is
 * the same in records of another size.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/hello.h"

#define PREFIXES_MAX 700 /* longer inputs are cut at some places only */

/* A server's answer: in one piece and byte by byte it is the same. */
static void check_answer(const uint8_t *data, size_t size)
{
	struct hello_answer whole = { .got = 0 }, cut = { .got = 0 };
	enum answer_result r, other = ANSWER_MORE;
	size_t used, one, pos = 0;

	r = hello_answer_read(&whole, data, size, &used);
	while (pos < size && other == ANSWER_MORE)
		other = hello_answer_read(&cut, data + pos++, 1, &one);
	if (r != other || used != pos || (r == ANSWER_MORE && used != size))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_prefixes(const uint8_t *data, size_t size, enum hello_result want)
{
	char name[NET_NAME_MAX + 1];

	for (size_t n = 0; n<size; n += size> PREFIXES_MAX ? size / 100 : 1) {
		/* Nothing readable behind the end. */
		uint8_t *copy = malloc(n ? n : 1);
		enum hello_result r;

		if (!copy)
			return;
		memcpy(copy, data, n);
		r = hello_read(copy, n, name);
		free(copy);
		if (r != HELLO_MORE && r != want)
			abort();
	}
}

/* The same message in records of @record_len bytes. */
static void check_again(const uint8_t *data, const char *name, size_t record_len)
{
	static uint8_t message[HELLO_MAX], again[7 * HELLO_MAX];
	size_t pos = 0, len = 0, total = SIZE_MAX, out = 0;
	char other[NET_NAME_MAX + 1];

	while (len < total) {
		size_t part = (size_t)(data[pos + 3] << 8 | data[pos + 4]);

		memcpy(message + len, data + pos + 5, part);
		len += part;
		pos += 5 + part;
		if (len >= 4)
			total = 4 +
				((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
	}
	for (pos = 0; pos < len; pos += record_len) {
		size_t part = len - pos < record_len ? len - pos : record_len;

		memcpy(again + out, (uint8_t[]){ 22, 3, 1, (uint8_t)(part >> 8), (uint8_t)part },
		       5);
		memcpy(again + out + 5, message + pos, part);
		out += 5 + part;
	}
	switch ((int)hello_read(again, out, other)) {
	case HELLO_OK:
		if (strcmp(name, other) != 0)
			abort();
		break;
	case HELLO_TOO_LONG:
		if (out > HELLO_MAX)
			break;
		abort();
	default:
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[NET_NAME_MAX + 1], again[NET_NAME_MAX + 1];
	enum hello_result r = hello_read(data, size, name);

	check_answer(data, size);
	check_prefixes(data, size, r);
	if (r != HELLO_OK)
		return 0;
	if (net_name_parse(name, strlen(name), again) < 0 || strcmp(name, again) != 0)
		abort();
	check_again(data, name, 1);
	check_again(data, name, 7);
	check_again(data, name, HELLO_MAX);
	return 0;
}
