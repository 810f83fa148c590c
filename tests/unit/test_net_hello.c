/* SPDX-License-Identifier: Apache-2.0 */
/* The name in a ClientHello: real ones, odd ones, broken ones, in every way to cut them up. */
#include "net/hello.h"
#include "tap.h"
#include "test_net_lib.h"

/* clang-format off */
/* Made by OpenSSL 3.0: TLS 1.3 with ALPN, TLS 1.2, and without a name. */
static const char tls13[] =
	"1603010200010001fc03035192e030fd74fa25c9a20fedfdbb318af9425cbf6192ba40298a49533b7b4c"
	"ed20cc4ed8a7d5461953b2375689335aa46812c3553f9724a1407c2499cfc47e9354000a130213031301"
	"c02b00ff010001a900000010000e00000b6578616d706c652e636f6d000b000403000102000a00160014"
	"001d0017001e0019001801000101010201030104002300000010000e000c02683208687474702f312e31"
	"0016000000170000000d002a0028040305030603080708080809080a080b080408050806040105010601"
	"030303010302040205020602002b0009080304030303020301002d00020101003300260024001d0020df"
	"329637e91fb79c807b19b5b3e9e4b82dd65e9a7289dea1782db51d2f3e5774001500e600000000000000"
	"000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
	"000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
	"000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
	"000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
	"000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
	"00000000000000000000000000";

static const char tls12[] =
	"16030100a00100009c030381e1532dabbd2e8f816ffa6ebb1eb6e52dbc6db865c3881bc6b580d82ddd34"
	"eb000004c03000ff0100006f0000001900170000147374617469632e66696c65732e6578616d706c6500"
	"0b000403000102000a000c000a001d0017001e00190018002300000016000000170000000d002a002804"
	"0305030603080708080809080a080b080408050806040105010601030303010302040205020602";

static const char no_name[] =
	"16030100f0010000ec030336b4f83119bf3e1af3cd312ea4377ed3e428f9fba792e78f518a02ecd95e1c"
	"df20384130d7498d13d07e970ffd42314ea16db4bcc0a6f61227f2de8b6713061344000a130213031301"
	"c03000ff01000099000b000403000102000a00160014001d0017001e0019001801000101010201030104"
	"002300000016000000170000000d002a0028040305030603080708080809080a080b0804080508060401"
	"05010601030303010302040205020602002b0009080304030303020301002d0002010100330026002400"
	"1d00200c7218bed054194b79c860c867dce26178f1cf9dd41cb35244e6cfe6d4b9f745";

/* clang-format on */

/* A hello to be changed by a test. */
struct recipe {
	unsigned version; /* 0 = 0x0303 */
	const char *name; /* in a server_name extension of the usual shape, or none */
	const char *ext;  /* bytes of more extensions, after it */
	size_t ext_len;
	const char *first; /* and before it */
	size_t first_len;
	unsigned session_len;
	unsigned ciphers_len; /* 0 = 2 */
	int compression_len;  /* 0 = 1, -1 = none */
	bool has_no_extensions;
	int lie;	   /* added to the length of the extensions */
	const char *after; /* bytes behind the extensions, within the message */
};

static void put_zeros(struct bytes *to, size_t n)
{
	while (n-- > 0)
		put_u8(to, 0x41);
}

static void put_server_name(struct bytes *to, const char *name, size_t len)
{
	put_u16(to, 0);
	put_u16(to, (unsigned)len + 5);
	put_u16(to, (unsigned)len + 3);
	put_u8(to, 0);
	put_u16(to, (unsigned)len);
	put_bytes(to, name, len);
}

static void make_message(const struct recipe *recipe, struct bytes *ret)
{
	static struct bytes exts, body;

	exts.len = body.len = ret->len = 0;
	if (recipe->first)
		put_bytes(&exts, recipe->first, recipe->first_len);
	if (recipe->name)
		put_server_name(&exts, recipe->name, strlen(recipe->name));
	if (recipe->ext)
		put_bytes(&exts, recipe->ext, recipe->ext_len);
	put_u16(&body, recipe->version ? recipe->version : 0x0303);
	put_zeros(&body, 32);
	put_u8(&body, recipe->session_len);
	put_zeros(&body, recipe->session_len);
	put_u16(&body, recipe->ciphers_len ? recipe->ciphers_len : 2);
	put_zeros(&body, recipe->ciphers_len ? recipe->ciphers_len : 2);
	if (recipe->compression_len >= 0)
		put_u16(&body, 0x0100);
	else
		put_u8(&body, 0);
	if (!recipe->has_no_extensions) {
		put_u16(&body, (unsigned)((int)exts.len + recipe->lie));
		put_bytes(&body, exts.b, exts.len);
	}
	if (recipe->after)
		put_text(&body, recipe->after);
	put_u8(ret, 1);
	put_u8(ret, (unsigned)body.len >> 16);
	put_u16(ret, (unsigned)body.len & 0xffff);
	put_bytes(ret, body.b, body.len);
}

static void put_record(struct bytes *to, unsigned type, const uint8_t *data, size_t len)
{
	put_u8(to, type);
	put_u16(to, 0x0301);
	put_u16(to, (unsigned)len);
	put_bytes(to, data, len);
}

/* In records of at most @size bytes each. */
static void make_records(const struct bytes *message, size_t size, struct bytes *ret)
{
	ret->len = 0;
	for (size_t pos = 0; pos < message->len; pos += size)
		put_record(ret, 22, message->b + pos,
			   message->len - pos < size ? message->len - pos : size);
}

/* Every prefix says MORE until one says what all longer ones say. */
static void check_bytes(const char *what, const uint8_t *data, size_t len, enum hello_result want,
			const char *want_name)
{
	bool is_decided = false;

	for (size_t n = 0; n <= len; n++) {
		uint8_t *copy = exact_copy(data, n);
		char name[NET_NAME_MAX + 1] = "untouched";
		enum hello_result r = hello_read(copy, n, name);

		free(copy);
		if (n < len && !is_decided && r == HELLO_MORE)
			continue;
		is_decided = true;
		CHECK_MSG(r == want, "%s: %d after %zu of %zu bytes, expected %d", what, (int)r, n,
			  len, (int)want);
		CHECK_MSG(!(r == HELLO_OK && n < len), "%s: early, after %zu bytes", what, n);
		if (want_name || r != HELLO_OK)
			CHECK_STR(name, r == HELLO_OK ? want_name : "untouched");
		if (r != want)
			return;
	}
}

static void check_recipe(const char *what, const struct recipe *recipe, enum hello_result want,
			 const char *want_name)
{
	static struct bytes message, records;

	make_message(recipe, &message);
	make_records(&message, message.len, &records);
	check_bytes(what, records.b, records.len, want, want_name);
}

static size_t from_hex(const char *hex, uint8_t *ret)
{
	size_t len = strlen(hex) / 2;
	unsigned value;

	for (size_t i = 0; i < len; i++) {
		if (sscanf(hex + 2 * i, "%2x", &value) != 1)
			abort();
		ret[i] = (uint8_t)value;
	}
	return len;
}

static void test_real_hellos_are_read(void)
{
	static uint8_t data[4096];

	check_bytes("tls13", data, from_hex(tls13, data), HELLO_OK, "example.com");
	check_bytes("tls12", data, from_hex(tls12, data), HELLO_OK, "static.files.example");
	check_bytes("no name", data, from_hex(no_name, data), HELLO_NO_NAME, NULL);
}

static void test_a_hello_is_the_same_in_any_records(void)
{
	static struct bytes message, records;
	static uint8_t data[4096];
	size_t len = from_hex(tls13, data);

	put_bytes(&message, data + 5, len - 5);
	for (size_t size = 1; size <= message.len; size++) {
		make_records(&message, size, &records);
		check_bytes("records", records.b, records.len, HELLO_OK, "example.com");
	}
}

static void test_what_follows_a_hello_is_not_looked_at(void)
{
	static struct bytes message, records;
	char name[NET_NAME_MAX + 1];

	make_message(&(struct recipe){ .name = "a.example" }, &message);
	make_records(&message, 100, &records);
	/* Early data is in records of its own; so would be rubbish. */
	put_text(&records, "\x17\x03\x03 and anything");
	CHECK_INT(hello_read(records.b, records.len, name), HELLO_OK);
	CHECK_STR(name, "a.example");
}

static void test_names(void)
{
	static char longest[NET_NAME_MAX + 3];
	char label[] = "\0\0\0\x0c\0\x0a\0\0\x07"
		       "a\0.test"; /* NUL within */

	for (size_t i = 0; i < NET_NAME_MAX; i++)
		longest[i] = i % 50 == 49 ? '.' : 'a';
	check_recipe("longest", &(struct recipe){ .name = longest }, HELLO_OK, longest);
	longest[NET_NAME_MAX] = '.';
	check_recipe("with dot", &(struct recipe){ .name = longest }, HELLO_OK, NULL);
	longest[NET_NAME_MAX] = 'a';
	check_recipe("longer", &(struct recipe){ .name = longest }, HELLO_BAD_NAME, NULL);
	longest[NET_NAME_MAX + 1] = 'a';
	check_recipe("longer still", &(struct recipe){ .name = longest }, HELLO_BAD_NAME, NULL);

	check_recipe("case", &(struct recipe){ .name = "ExAmPlE.CoM" }, HELLO_OK, "example.com");
	check_recipe("dot", &(struct recipe){ .name = "example.com." }, HELLO_OK, "example.com");
	check_recipe("two dots", &(struct recipe){ .name = "example.com.." }, HELLO_BAD_NAME, NULL);
	check_recipe("v4", &(struct recipe){ .name = "192.0.2.1" }, HELLO_BAD_NAME, NULL);
	check_recipe("number", &(struct recipe){ .name = "2130706433" }, HELLO_BAD_NAME, NULL);
	check_recipe("hex", &(struct recipe){ .name = "a.0x7f" }, HELLO_BAD_NAME, NULL);
	check_recipe("v6", &(struct recipe){ .name = "2001:db8::1" }, HELLO_BAD_NAME, NULL);
	check_recipe("brackets", &(struct recipe){ .name = "[::1]" }, HELLO_BAD_NAME, NULL);
	check_recipe("port", &(struct recipe){ .name = "a.example:443" }, HELLO_BAD_NAME, NULL);
	check_recipe("space", &(struct recipe){ .name = "a.example " }, HELLO_BAD_NAME, NULL);
	check_recipe("utf-8", &(struct recipe){ .name = "b\xc3\xbc.example" }, HELLO_BAD_NAME,
		     NULL);
	check_recipe("NUL", &(struct recipe){ .ext = label, .ext_len = sizeof(label) - 1 },
		     HELLO_BAD_NAME, NULL);
}

#define EXT(bytes) .ext = (bytes), .ext_len = sizeof(bytes) - 1
#define FIRST(bytes) .first = (bytes), .first_len = sizeof(bytes) - 1

static void test_unknown_extensions_pass(void)
{
	/* GREASE before, padding and an encrypted hello after. */
	check_recipe("extensions",
		     &(struct recipe){ .name = "outer.example",
				       FIRST("\x1a\x1a\0\0\xfa\xfa\0\1\0"),
				       EXT("\0\x15\0\4\0\0\0\0\xfe\x0d\0\3abc"),
				       .session_len = 32,
				       .ciphers_len = 64 },
		     HELLO_OK, "outer.example");
	check_recipe("old", &(struct recipe){ .version = 0x0301, .name = "a.b" }, HELLO_OK, "a.b");
}

static void test_no_name(void)
{
	check_recipe("none", &(struct recipe){ 0 }, HELLO_NO_NAME, NULL);
	check_recipe("no extensions", &(struct recipe){ .has_no_extensions = true }, HELLO_NO_NAME,
		     NULL);
	check_recipe("others", &(struct recipe){ EXT("\0\x17\0\0") }, HELLO_NO_NAME, NULL);
}

static void test_broken_hellos(void)
{
	static const struct {
		const char *what;
		struct recipe recipe;
	} rows[] = {
		{ "two extensions", { .name = "a.b", EXT("\0\0\0\x08\0\6\0\0\3a.b") } },
		{ "bad name, then another", { .name = "1.2", EXT("\0\0\0\x08\0\6\0\0\3a.b") } },
		{ "two names", { EXT("\0\0\0\x0e\0\x0c\0\0\3a.b\0\0\3c.d") } },
		{ "name of another type", { EXT("\0\0\0\x08\0\6\1\0\3a.b") } },
		{ "another type after a name", { EXT("\0\0\0\x0e\0\x0c\0\0\3a.b\1\0\3c.d") } },
		{ "empty extension", { EXT("\0\0\0\0") } },
		{ "empty list", { EXT("\0\0\0\2\0\0") } },
		{ "empty name", { EXT("\0\0\0\5\0\3\0\0\0") } },
		{ "list shorter than extension", { EXT("\0\0\0\x09\0\6\0\0\3a.bx") } },
		{ "list longer than extension", { EXT("\0\0\0\x08\0\7\0\0\3a.b") } },
		{ "name shorter than list", { EXT("\0\0\0\x08\0\6\0\0\2a.b") } },
		{ "name longer than list", { EXT("\0\0\0\x08\0\6\0\0\4a.b") } },
		{ "extension longer than all", { .name = "a.b", EXT("\0\x17\0\1") } },
		{ "half an extension header", { .name = "a.b", EXT("\0\x17\0") } },
		{ "one byte too many", { .name = "a.b", EXT("\0") } },
		{ "extensions longer than the message", { .name = "a.b", .lie = 1 } },
		{ "extensions shorter than the message", { .name = "a.b", .lie = -1 } },
		{ "bytes behind", { .name = "a.b", .after = "x" } },
		{ "bytes instead of extensions", { .has_no_extensions = true, .after = "x" } },
		{ "no compression", { .name = "a.b", .compression_len = -1 } },
		{ "odd ciphers", { .name = "a.b", .ciphers_len = 3 } },
		{ "long session", { .name = "a.b", .session_len = 33 } },
		{ "version 2", { .name = "a.b", .version = 0x0203 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check_recipe(rows[i].what, &rows[i].recipe, HELLO_BROKEN, NULL);
}

static void test_truncated_messages_are_broken(void)
{
	static struct bytes message, records;

	make_message(&(struct recipe){ .name = "a.example", EXT("\0\x17\0\0") }, &message);
	/* The message ends early, by its own account; not after the compression methods. */
	for (size_t len = 4; len < message.len; len++) {
		message.b[3] = (uint8_t)(len - 4);
		records.len = 0;
		put_record(&records, 22, message.b, len);
		check_bytes("cut", records.b, records.len,
			    len == 4 + 2 + 32 + 1 + 4 + 2 ? HELLO_NO_NAME : HELLO_BROKEN, NULL);
	}
}

static void test_broken_records(void)
{
	static struct bytes message, records;

	make_message(&(struct recipe){ .name = "a.example" }, &message);
	for (int what = 0; what < 6; what++) {
		records.len = 0;
		if (what == 0) /* an empty one first */
			put_record(&records, 22, message.b, 0);
		put_record(&records, 22, message.b, 10);
		if (what == 1) /* or in the middle */
			put_record(&records, 22, message.b, 0);
		if (what == 2) /* an alert in the middle */
			put_record(&records, 21, (const uint8_t *)"\1\0", 2);
		put_record(&records, 22, message.b + 10, message.len - 10);
		if (what == 3) /* one more byte in the same record */
			records.b[15 + 4]++;
		if (what == 4)
			records.b[15 + 1] = 2; /* another version */
		if (what == 5)
			records.b[5] = 2; /* a ServerHello */
		if (what == 3)
			put_u8(&records, 0);
		check_bytes("records", records.b, records.len, HELLO_BROKEN, NULL);
	}
	check_bytes("long record", (const uint8_t *)"\x16\3\1\x40\1\1\0\0\4", 9, HELLO_BROKEN,
		    NULL);
	check_bytes("longer than its message", (const uint8_t *)"\x16\3\1\0\x09\1\0\0\4", 9,
		    HELLO_BROKEN, NULL);
}

static void test_other_protocols(void)
{
	static const char *const rows[] = {
		"GET / HTTP/1.1\r\n", "SSH-2.0-x\r\n", "\r\n",	 "\x80\x2e\1\3\1",
		"\x15\3\1",	      "\x17\3\3",      "\x16\2", "\x16\xfe\xfd"
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check_bytes(rows[i], (const uint8_t *)rows[i], strlen(rows[i]), HELLO_NOT_TLS,
			    NULL);
}

static void test_long_hellos(void)
{
	static struct bytes message, records;
	static char padding[HELLO_MAX] = "\0\x15";
	char name[NET_NAME_MAX + 1];

	/* By its own length, before its bytes have come. */
	check_bytes("long", (const uint8_t *)"\x16\3\1\2\0\1\0\x40\0", 9, HELLO_TOO_LONG, NULL);
	check_bytes("very long", (const uint8_t *)"\x16\3\1\2\0\1\xff\xff\xff", 9, HELLO_TOO_LONG,
		    NULL);
	/* As long as can be, in one record; then one byte more; then in too many records. */
	for (unsigned more = 0; more < 2; more++) {
		size_t len = HELLO_MAX - 5 - 4 - (2 + 32 + 1 + 4 + 2 + 2) - 12 - 4 + more;

		padding[2] = (char)(len >> 8);
		padding[3] = (char)len;
		make_message(&(struct recipe){ .name = "a.b", .ext = padding, .ext_len = len + 4 },
			     &message);
		make_records(&message, message.len, &records);
		CHECK_INT(records.len, HELLO_MAX + more);
		CHECK_INT(hello_read(records.b, records.len - 1, name),
			  more ? HELLO_TOO_LONG : HELLO_MORE);
		CHECK_INT(hello_read(records.b, records.len, name),
			  more ? HELLO_TOO_LONG : HELLO_OK);
	}
	make_records(&message, 1, &records);
	CHECK_INT(hello_read(records.b, HELLO_MAX - 1, name), HELLO_MORE);
	CHECK_INT(hello_read(records.b, HELLO_MAX, name), HELLO_TOO_LONG);
	CHECK_INT(hello_read(records.b, records.len, name), HELLO_TOO_LONG);
}

static void test_the_length_of_a_hello(void)
{
	static struct bytes message, records;

	make_message(&(struct recipe){ .name = "a.b" }, &message);
	for (size_t size = 1; size <= message.len; size++) {
		make_records(&message, size, &records);
		CHECK_INT(hello_length(records.b, records.len), records.len);
		CHECK_INT(hello_length(records.b, records.len - 1), 0);
		put_u8(&records, 0x14); /* what comes behind it is not a part of it */
		CHECK_INT(hello_length(records.b, records.len), records.len - 1);
	}
}

#define RETRY_RANDOM                                                                               \
	"\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91"                         \
	"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"
#define ANY_RANDOM "0123456789abcdef0123456789abcdef"
#define SESSION "\0\x13\1\0\0\0" /* no session, a cipher, no extensions */
#define ANSWER(random) "\2\0\0\x28\3\3" random SESSION
#define CIPHER "\x14\3\3\0\1\1"
#define ALERT "\x15\3\3\0\2\1\x70"

/* The same in pieces of every size: what is decided, and at which byte. */
static void check_answer(const char *what, const struct bytes *bytes, enum answer_result expected,
			 size_t at)
{
	for (size_t size = 1; size <= bytes->len; size++) {
		struct hello_answer answer = { .got = 0 };
		enum answer_result r = ANSWER_MORE;
		size_t pos = 0;

		while (pos < bytes->len && r == ANSWER_MORE) {
			size_t used, n = bytes->len - pos < size ? bytes->len - pos : size;

			r = hello_answer_read(&answer, bytes->b + pos, n, &used);
			CHECK(used <= n && (r != ANSWER_MORE || used == n));
			pos += used;
		}
		if (r != expected || pos != at)
			tap_fail(what, 0, "in pieces of %zu: %d at %zu, expected %d at %zu", size,
				 (int)r, pos, (int)expected, at);
	}
}

/* @before, then the message in records of @size bytes. */
static void make_answer(const char *before, size_t before_len, const char *message, size_t len,
			size_t size, struct bytes *ret)
{
	static struct bytes body, records;

	body.len = ret->len = 0;
	for (size_t i = 0; i < len; i++)
		put_u8(&body, (uint8_t)message[i]);
	make_records(&body, size, &records);
	for (size_t i = 0; i < before_len; i++)
		put_u8(ret, (uint8_t)before[i]);
	for (size_t i = 0; i < records.len; i++)
		put_u8(ret, records.b[i]);
}

static void test_answers(void)
{
	static const char retry[] = ANSWER(RETRY_RANDOM), hello[] = ANSWER(ANY_RANDOM);
	static struct bytes b;

	for (size_t size = 1; size < sizeof(retry); size++) {
		make_answer("", 0, retry, sizeof(retry) - 1, size, &b);
		check_answer("retry", &b, ANSWER_RETRY, b.len);
		b.len--;
		check_answer("cut short", &b, ANSWER_MORE, b.len);
		make_answer(ALERT CIPHER, sizeof(ALERT CIPHER) - 1, retry, sizeof(retry) - 1, size,
			    &b);
		check_answer("after an alert", &b, ANSWER_RETRY, b.len);
	}
	make_answer("", 0, hello, sizeof(hello) - 1, 100, &b);
	check_answer("hello", &b, ANSWER_HELLO, 5 + 38);
	make_answer(ALERT, sizeof(ALERT) - 1, hello, sizeof(hello) - 1, 100, &b);
	check_answer("after a warning", &b, ANSWER_HELLO, 7 + 5 + 38);
	make_answer(ALERT, sizeof(ALERT) - 1, "", 0, 1, &b);
	check_answer("an alert alone", &b, ANSWER_MORE, 7);
	make_answer("", 0, "\0\0\0\0", 4, 4, &b);
	check_answer("a request for a hello", &b, ANSWER_STRANGE, 6);
	make_answer("", 0, "\1\0\0\x28\3\3" ANY_RANDOM SESSION, 44, 100, &b);
	check_answer("a client's hello", &b, ANSWER_STRANGE, 6);
	make_answer("", 0, "\2\0\0\x22\3\3" RETRY_RANDOM, 38, 100, &b);
	check_answer("too short", &b, ANSWER_STRANGE, 5 + 4);
	make_answer("HTTP/1.1 400", 12, "", 0, 1, &b);
	check_answer("other text", &b, ANSWER_STRANGE, 1);
	make_answer("\x16\3\3\0\2\2\0" CIPHER, 13, "", 0, 1, &b);
	check_answer("within a message", &b, ANSWER_STRANGE, 8);
}

/* The state may be used again for what comes after the next hello. */
static void test_a_second_answer(void)
{
	static const char retry[] = ANSWER(RETRY_RANDOM);
	struct hello_answer answer = { .got = 0 };
	static struct bytes b;
	size_t used;

	make_answer("", 0, retry, sizeof(retry) - 1, 20, &b);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(hello_answer_read(&answer, b.b, b.len, &used), ANSWER_RETRY);
		CHECK_INT(used, b.len);
		CHECK_INT(hello_answer_read(&answer, (const uint8_t *)CIPHER, 6, &used),
			  ANSWER_MORE);
	}
	make_answer("", 0, ANSWER(ANY_RANDOM), 44, 100, &b);
	CHECK_INT(hello_answer_read(&answer, b.b, b.len, &used), ANSWER_HELLO);
}

TAP_MAIN(test_real_hellos_are_read, test_a_hello_is_the_same_in_any_records,
	 test_what_follows_a_hello_is_not_looked_at, test_names, test_unknown_extensions_pass,
	 test_no_name, test_broken_hellos, test_truncated_messages_are_broken, test_broken_records,
	 test_other_protocols, test_long_hellos, test_the_length_of_a_hello, test_answers,
	 test_a_second_answer)
