/* SPDX-License-Identifier: Apache-2.0 */
/* What Cordon makes of a command's words about protected names: whatever is said, only true things.
 */
#include "launch/launch.h"
#include "test_plan_lib.h"

#define ROUNDS 20000

static void make_tree(struct fixture *f)
{
	fx_init(f);
	fx_dir(f, "ws/.git");
	fx_dir(f, "ws/.git/hooks");
	fx_dir(f, "ws/.git/hooks/open");
	fx_file(f, "ws/.git/config", "[core]\n\tbare = false\n");
	fx_file(f, "ws/.git/HEAD", "ref: refs/heads/main\n");
	fx_dir(f, "ws/.git/objects");
	fx_dir(f, "ws/.git/refs");
	fx_file(f, "ws/.mcp.json", "{}");
	fx_file(f, "ws/secret", "");
	snprintf(f->cwd, sizeof(f->cwd), "%.4000s/ws", f->root);
	fx_set(f, "fs.write", ".");
	fx_set(f, "fs.write", ".git/hooks/open");
	fx_set(f, "fs.deny", "secret");
	fx_set(f, "fs.deny", ".cursor");
}

/* The denials after a run whose standard error was @text, which lies at the end of its memory. */
static void say(struct cordon_run *run, const struct fixture *f, const char *text, size_t len)
{
	char *copy = malloc(len ? len : 1);

	if (!copy)
		abort();
	memcpy(copy, text, len);
	memset(run, 0, sizeof(*run));
	run->plan = f->plan;
	run->err.mode = CORDON_STREAM_CAPTURE;
	run->err.pipe_fd = run->err.peer_fd = run->err.unread_fd = -1;
	run->err.head = copy;
	run->err.head_len = len;
	run->err.total = len;
	said_account(run);
}

static void forget(struct cordon_run *run)
{
	relay_done(&run->err);
	arena_done(&run->arena);
}

/* The targets, with blanks between them. */
static const char *targets(const struct fixture *f, const char *text)
{
	static char list[4096];
	struct cordon_run run;

	list[0] = '\0';
	say(&run, f, text, strlen(text));
	for (size_t i = 0; i < run.result.n_denials; i++) {
		const struct cordon_denial *d = &run.result.denials[i];
		size_t len = strlen(list);

		snprintf(list + len, sizeof(list) - len, "%s%s", i ? " " : "", d->target);
		CHECK_STR(d->rule, "fs.protect");
		CHECK_STR(d->how, "said");
		CHECK_STR(d->fix, "--workspace .");
	}
	forget(&run);
	return list;
}

static void test_words(void)
{
	static const struct {
		const char *text, *targets;
	} cases[] = {
		{ "x: .git/config: Device or resource busy\n", ".git/config" },
		{ "x: .git/config: Device or resource busy", ".git/config" },
		{ "cannot create .git/hooks/x: Read-only file system\r\n", ".git/hooks" },
		{ "read-only file system: './.git/hooks/'", ".git/hooks" },
		{ ".vscode/: File exists\n.git/config: Device or resource busy",
		  ".vscode .git/config" },
		{ ".envrc: Permission denied .envrc", ".envrc" },
		{ "a .envrc b .mcp.json c Read-only file system", ".envrc .mcp.json" },
		{ "\x1b[31m.git/config\x1b[0m: Device or resource busy", ".git/config" },
		{ ".git/worktrees/a/b: Not a directory", ".git/worktrees" },
		{ ".git/hooks/open/x: Read-only file system", "" },
		{ ".git/hooks/open: Read-only file system", "" },
		{ ".git/hooks/opened: Read-only file system", ".git/hooks" },
		{ "secret: Read-only file system", "" },
		{ ".cursor: Read-only file system", "" },
		{ ".git: Device or resource busy", "" },
		{ ".vscode: Device or resource busy", "" },
		{ ".mcp.json: Permission denied", "" },
		{ ".mcp.json: File exists", "" },
		{ ".mcp.json\n: Read-only file system", "" },
		{ "x.mcp.json .mcp.jsonx x/.mcp.json /.mcp.json: Read-only file system", "" },
		{ "../.mcp.json: Read-only file system", "" },
		{ "Read-only file system", "" },
		{ "", "" },
	};
	struct fixture f;

	make_tree(&f);
	FX_BUILD(&f);
	CHECK(said_is_wanted(f.plan));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECK_STR(targets(&f, cases[i].text), cases[i].targets);
	fx_done(&f);
}

static void test_no_protection_nothing_to_say(void)
{
	struct fixture f;

	make_tree(&f);
	fx_set(&f, "fs.protect", "off");
	FX_BUILD(&f);
	CHECK_STR(targets(&f, ".git/config: Device or resource busy"), "");
	fx_done(&f);
}

static bool is_protected(const struct fixture *f, const char *target)
{
	char name[PATH_MAX];
	int i;

	snprintf(name, sizeof(name), "ws/%s", target);
	i = op_find(f, PLAN_OP_PIN, name);
	return i >= 0 && plan_ops(f->plan->block)[i].flags & PLAN_PROTECTED;
}

static void check_all(const struct fixture *f, const struct cordon_run *run)
{
	CHECK(run->result.n_denials <= 8);
	for (size_t i = 0; i < run->result.n_denials; i++) {
		CHECK(is_protected(f, run->result.denials[i].target));
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(run->result.denials[i].target,
				     run->result.denials[k].target) != 0);
	}
}

/* Pieces of such lines in any order, also cut: every name that is told is one of the plan's. */
static void test_any_words(void)
{
	static const char *const pieces[] = {
		".git/config",
		".git/hooks",
		".git/hooks/open",
		"/",
		"./",
		"..",
		".mcp.json",
		".envrc",
		".vscode",
		".cursor",
		"secret",
		" ",
		"'",
		"\"",
		": ",
		"\n",
		"\r",
		"\x1b[31m",
		"\x1b]0;",
		"\xe2\x80\x98",
		"\xe2\x80",
		"\xe2\x80\x99",
		"\x80",
		"\xff",
		"x",
		".",
		"Read-only file system",
		"Device or resource busy",
		"File exists",
		"Not a directory",
		"read-only file syste",
		"No such device or address",
		"Permission denied",
	};
	struct fixture f;
	struct cordon_run run;
	size_t n_told = 0;
	unsigned seed = 1;
	char text[512];

	make_tree(&f);
	FX_BUILD(&f);
	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t len = 0, n = 0;

		while (len < 400 && n++ < 20) {
			const char *piece = pieces[(unsigned)rand_r(&seed) % ARRAY_SIZE(pieces)];

			while (*piece)
				text[len++] = *piece++;
		}
		say(&run, &f, text, len - (unsigned)rand_r(&seed) % (len + 1));
		check_all(&f, &run);
		n_told += run.result.n_denials;
		forget(&run);
	}
	CHECK(n_told > ROUNDS / 100);
	fx_done(&f);
}

/* Of more than is kept, the end counts. */
static void test_much(void)
{
	static const char line[] = "\n.git/config: Device or resource busy";
	size_t len = 4u * RELAY_END_BYTES;
	struct cordon_run run;
	struct fixture f;
	char *text = malloc(len);

	REQUIRE(text);
	make_tree(&f);
	FX_BUILD(&f);
	memset(text, '\x01', len); /* each is four characters once it is cleaned */
	memcpy(text, line, sizeof(line) - 1);
	say(&run, &f, text, len);
	CHECK_INT(run.result.n_denials, 0);
	forget(&run);
	memcpy(text + len - (sizeof(line) - 1), line, sizeof(line) - 1);
	say(&run, &f, text, len);
	CHECK_INT(run.result.n_denials, 1);
	forget(&run);
	free(text);
	fx_done(&f);
}

TAP_MAIN(test_words, test_no_protection_nothing_to_say, test_any_words, test_much)
