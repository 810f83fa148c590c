/* SPDX-License-Identifier: Apache-2.0 */
/* Which tree stands for a program, by kind of installation; and which never does. */
#include "test_discover_lib.h"

static void test_system_program_needs_nothing(void)
{
	struct fixture f;

	fx_init(&f);
	CHECK_INT(fx_run(&f, "/bin/true", NULL), 0);
	EXPECT_GRANTS(&f, "");
	CHECK_STR(f.res.exec_path, "/bin/true");
	CHECK_INT(f.res.n_path_dirs, 0);
	CHECK_INT(fx_run(&f, "sh", NULL), 0);
	EXPECT_GRANTS(&f, "");
	fx_done(&f);
}

static void test_pyenv(void)
{
	struct fixture f;

	fx_init(&f);
	fx_script(&f, "home/u/.pyenv/shims/python", "#!/usr/bin/env bash\nexec true\n");
	fx_elf(&f, "home/u/.pyenv/versions/3.11.7/bin/python3.11");
	fx_dir(&f, "home/u/.pyenv/versions/3.11.7/lib");
	fx_link(&f, "home/u/.pyenv/versions/3.11.7/bin/python3", "python3.11");
	fx_link(&f, "local/bin/python3", "%/home/u/.pyenv/versions/3.11.7/bin/python3");

	fx_run(&f, "python", "%/home/u/.pyenv/shims:/usr/bin:/bin");
	EXPECT_GRANTS(&f, "TREE %/home/u/.pyenv");
	CHECK_STR(f.res.exec_path, fx(&f, "%/home/u/.pyenv/shims/python"));
	CHECK_INT(f.res.n_path_dirs, 1);
	CHECK_STR(f.res.path_dirs[0], fx(&f, "%/home/u/.pyenv/shims"));

	/* A clone of the repository still is the tool, also if typed by path. */
	fx_dir(&f, "home/u/.pyenv/.git");
	fx_run(&f, "%/home/u/.pyenv/shims/python", NULL);
	EXPECT_GRANTS(&f, "TREE %/home/u/.pyenv");

	fx_run(&f, "python3", "%/local/bin:/usr/bin");
	EXPECT_GRANTS(&f, "TREE %/home/u/.pyenv/versions/3.11.7\n"
			  "LINK %/local/bin/python3 -> "
			  "%/home/u/.pyenv/versions/3.11.7/bin/python3");
	CHECK_STR(f.res.exec_path, fx(&f, "%/local/bin/python3"));
	fx_done(&f);
}

static void test_nvm_and_npm(void)
{
	struct fixture f;

	fx_init(&f);
	fx_elf(&f, "home/u/.nvm/versions/node/v22/bin/node");
	fx_dir(&f, "home/u/.nvm/versions/node/v22/lib");
	fx_script(&f, "home/u/.npm-global/lib/node_modules/tool/dist/cli.js",
		  "#!/usr/bin/env node\n");
	fx_link(&f, "home/u/.npm-global/bin/tool", "../lib/node_modules/tool/dist/cli.js");

	fx_run(&f, "node", "%/home/u/.nvm/versions/node/v22/bin");
	EXPECT_GRANTS(&f, "TREE %/home/u/.nvm/versions/node/v22");

	fx_run(&f, "tool", "%/home/u/.npm-global/bin:%/home/u/.nvm/versions/node/v22/bin");
	EXPECT_GRANTS(&f, "LINK %/home/u/.npm-global/bin/tool -> "
			  "../lib/node_modules/tool/dist/cli.js\n"
			  "TREE %/home/u/.npm-global/lib/node_modules\n"
			  "TREE %/home/u/.nvm/versions/node/v22");
	CHECK_INT(f.res.n_path_dirs, 2);
	fx_done(&f);
}

static void test_cargo(void)
{
	struct fixture f;

	fx_init(&f);
	fx_elf(&f, "home/u/.cargo/bin/ripgrep");
	fx_file(&f, "home/u/.cargo/credentials.toml", "secret");
	fx_dir(&f, "home/u/.rustup/toolchains");
	fx_run(&f, "ripgrep", "%/home/u/.cargo/bin");
	EXPECT_GRANTS(&f, "TREE %/home/u/.cargo/bin");

	fx_elf(&f, "home/u/.cargo/bin/rustup");
	fx_link(&f, "home/u/.cargo/bin/cargo", "rustup");
	fx_run(&f, "cargo", "%/home/u/.cargo/bin");
	EXPECT_GRANTS(&f, "TREE %/home/u/.cargo/bin\nTREE %/home/u/.rustup");
	CHECK_STR(f.res.exec_path, fx(&f, "%/home/u/.cargo/bin/cargo"));
	fx_done(&f);
}

static void test_conda(void)
{
	struct fixture f;

	fx_init(&f);
	fx_elf(&f, "home/u/miniconda3/bin/python");
	fx_dir(&f, "home/u/miniconda3/conda-meta");
	fx_elf(&f, "home/u/miniconda3/envs/ml/bin/python");
	fx_dir(&f, "home/u/miniconda3/envs/ml/conda-meta");
	fx_run(&f, "python", "%/home/u/miniconda3/bin");
	EXPECT_GRANTS(&f, "TREE %/home/u/miniconda3");
	/* The base covers the environment. */
	fx_run(&f, "%/home/u/miniconda3/envs/ml/bin/python", NULL);
	EXPECT_GRANTS(&f, "TREE %/home/u/miniconda3");
	/* Environments elsewhere, without a base above. */
	fx_elf(&f, "envs/x/bin/python");
	fx_dir(&f, "envs/x/conda-meta");
	fx_run(&f, "%/envs/x/bin/python", NULL);
	EXPECT_GRANTS(&f, "TREE %/envs/x");
	fx_done(&f);
}

static void test_uv(void)
{
	struct fixture f;

	fx_init(&f);
	fx_elf(&f, "home/u/.local/bin/uv");
	fx_elf(&f, "home/u/.local/share/uv/python/cpython-3.12/bin/python3.12");
	fx_dir(&f, "home/u/.local/share/uv/python/cpython-3.12/lib");
	fx_link(&f, "home/u/.local/bin/python3.12",
		"%/home/u/.local/share/uv/python/cpython-3.12/bin/python3.12");
	fx_script(&f, "home/u/.local/share/uv/tools/ruff/bin/ruff",
		  "#!%/home/u/.local/share/uv/tools/ruff/bin/python\n");
	fx_link(&f, "home/u/.local/share/uv/tools/ruff/bin/python",
		"%/home/u/.local/share/uv/python/cpython-3.12/bin/python3.12");
	fx_file(&f, "home/u/.local/share/uv/tools/ruff/pyvenv.cfg",
		"home = %/home/u/.local/share/uv/python/cpython-3.12/bin\n");
	fx_link(&f, "home/u/.local/bin/ruff", "../share/uv/tools/ruff/bin/ruff");

	fx_run(&f, "uv", "%/home/u/.local/bin");
	EXPECT_GRANTS(&f, "FILE %/home/u/.local/bin/uv\n"
			  "TREE %/home/u/.local/share/uv/python\n"
			  "TREE %/home/u/.local/share/uv/tools");
	fx_run(&f, "python3.12", "%/home/u/.local/bin");
	EXPECT_GRANTS(&f, "LINK %/home/u/.local/bin/python3.12 -> "
			  "%/home/u/.local/share/uv/python/cpython-3.12/bin/python3.12\n"
			  "TREE %/home/u/.local/share/uv/python/cpython-3.12");
	fx_run(&f, "ruff", "%/home/u/.local/bin");
	EXPECT_GRANTS(&f, "LINK %/home/u/.local/bin/ruff -> ../share/uv/tools/ruff/bin/ruff\n"
			  "TREE %/home/u/.local/share/uv/tools/ruff\n"
			  "TREE %/home/u/.local/share/uv/python/cpython-3.12");
	fx_done(&f);
}

static void test_venv(void)
{
	struct fixture f;

	fx_init(&f);
	fx_elf(&f, "home/u/.pyenv/versions/3.12/bin/python3.12");
	fx_dir(&f, "home/u/.pyenv/versions/3.12/lib");
	fx_link(&f, "home/u/.pyenv/versions/3.12/bin/python3", "python3.12");
	fx_link(&f, "home/u/.pyenv/versions/latest", "3.12");
	/* With copies: only the file leads to the base, and through a linked directory. */
	fx_elf(&f, "home/u/proj/venv/bin/python");
	fx_file(&f, "home/u/proj/venv/pyvenv.cfg",
		"include-system-site-packages = false\n"
		" home  =  %/home/u/.pyenv/versions/latest/bin \r\nversion = 3.12\n");
	fx_run(&f, "./venv/bin/python", NULL);
	EXPECT_GRANTS(&f, "TREE %/home/u/proj/venv\n"
			  "TREE %/home/u/.pyenv/versions/3.12\n"
			  "LINK %/home/u/.pyenv/versions/latest -> 3.12");
	CHECK_STR(f.res.exec_path, fx(&f, "%/home/u/proj/venv/bin/python"));
	CHECK_STR(f.res.path_dirs[0], fx(&f, "%/home/u/proj/venv/bin"));

	/* A link to the environment's program from elsewhere. */
	fx_link(&f, "home/u/bin/tool", "../proj/venv/bin/python");
	fx_run(&f, "tool", "%/home/u/bin");
	CHECK(fx_grant(&f, DISCOVER_TREE, "%/home/u/.pyenv/versions/3.12"));
	CHECK(fx_grant(&f, DISCOVER_TREE, "%/home/u/proj/venv"));

	/* `uv run` and the like: the project's environment, whatever is started. */
	fx_file(&f, "home/u/proj/.venv/pyvenv.cfg", "home = %/home/u/.pyenv/versions/3.12/bin\n");
	fx_run(&f, "/bin/true", NULL);
	EXPECT_GRANTS(&f, "TREE %/home/u/.pyenv/versions/3.12\nTREE %/home/u/proj/.venv");
	/* A base in plain sight below the home, by link and by file. */
	fx_elf(&f, "home/u/py/bin/python3.13");
	fx_dir(&f, "home/u/py/lib/python3.13");
	fx_link(&f, "home/u/py/bin/python3", "python3.13");
	fx_link(&f, "home/u/proj/v2/bin/python", "%/home/u/py/bin/python3");
	fx_file(&f, "home/u/proj/v2/pyvenv.cfg", "home = %/home/u/py/bin\n");
	/* No place made for installations: believed only if the caller's PATH names it too. */
	fx_run(&f, "./v2/bin/python", NULL);
	CHECK(!fx_grant(&f, DISCOVER_TREE, "%/home/u/py"));
	fx_run(&f, "./v2/bin/python", "%/home/u/py/bin");
	CHECK(fx_grant(&f, DISCOVER_TREE, "%/home/u/py"));
	/* But a home is no project. */
	fx_file(&f, "home/u/.venv/pyvenv.cfg", "home = %/home/u/.pyenv/versions/3.12/bin\n");
	f.in.cwd = f.in.home;
	fx_run(&f, "/bin/true", NULL);
	EXPECT_GRANTS(&f, "");
	fx_done(&f);
}

/* A hostile workspace must not get more than some interpreter's prefix granted. */
static void test_hostile_venv(void)
{
	struct fixture f;

	fx_init(&f);
	fx_elf(&f, "home/u/secret/bin/deploy");
	fx_dir(&f, "home/u/secret/lib");
	fx_dir(&f, "home/u/.ssh/bin");
	fx_elf(&f, "home/u/.ssh/bin/python3");
	fx_file(&f, "home/u/proj/.venv/pyvenv.cfg", "home = %/home/u/secret/bin\n");
	fx_run(&f, "/bin/true", NULL);
	EXPECT_GRANTS(&f, "TREE %/home/u/proj/.venv");
	/* A fake base that is a link to something else. */
	fx_link(&f, "home/u/proj/fake/python3", "%/home/u/secret/bin/deploy");
	fx_file(&f, "home/u/proj/.venv/pyvenv.cfg", "home = %/home/u/proj/fake\n");
	fx_run(&f, "/bin/true", NULL);
	EXPECT_GRANTS(&f, "TREE %/home/u/proj/.venv");
	fx_file(&f, "home/u/proj/.venv/pyvenv.cfg", "home = %/home/u/.ssh/bin\n");
	fx_run(&f, "/bin/true", NULL);
	EXPECT_GRANTS(&f, "TREE %/home/u/proj/.venv\nFILE %/home/u/.ssh/bin/python3");
	/* Relative, empty, cut, and full of nothing. */
	fx_file(&f, "home/u/proj/.venv/pyvenv.cfg", "home = secret/bin\n");
	fx_run(&f, "/bin/true", NULL);
	EXPECT_GRANTS(&f, "TREE %/home/u/proj/.venv");
	fx_file(&f, "home/u/proj/.venv/pyvenv.cfg", "home =");
	CHECK_INT(fx_run(&f, "/bin/true", NULL), 0);

	/* The same by a script and by a link. */
	fx_script(&f, "home/u/proj/build", "#!%/home/u/secret/bin/deploy\n");
	fx_run(&f, "./build", NULL);
	CHECK(!fx_grant(&f, DISCOVER_TREE, "%/home/u/secret"));
	CHECK(fx_grant(&f, DISCOVER_FILE, "%/home/u/secret/bin/deploy"));
	fx_link(&f, "home/u/proj/tool", "%/home/u/secret/bin/deploy");
	fx_run(&f, "./tool", NULL);
	CHECK(!fx_grant(&f, DISCOVER_TREE, "%/home/u/secret"));
	CHECK(fx_grant(&f, DISCOVER_FILE, "%/home/u/secret/bin/deploy"));
	fx_done(&f);
}

static void test_user_scripts(void)
{
	struct fixture f;

	fx_init(&f);
	fx_dir(&f, "home/u/.local/lib/python3.11/site-packages");
	fx_script(&f, "home/u/.local/bin/black", "#!/bin/sh\n");
	fx_elf(&f, "home/u/.local/bin/static");
	fx_elf(&f, "home/u/bin/mine");
	fx_elf(&f, "home/u/go/bin/gopls");
	fx_dir(&f, "home/u/go/pkg");
	fx_run(&f, "black", "%/home/u/.local/bin");
	EXPECT_GRANTS(&f, "FILE %/home/u/.local/bin/black\nTREE %/home/u/.local/lib");
	fx_run(&f, "static", "%/home/u/.local/bin");
	EXPECT_GRANTS(&f, "FILE %/home/u/.local/bin/static");
	fx_run(&f, "mine", "%/home/u/bin");
	EXPECT_GRANTS(&f, "FILE %/home/u/bin/mine");
	fx_run(&f, "gopls", "%/home/u/go/bin");
	EXPECT_GRANTS(&f, "FILE %/home/u/go/bin/gopls");
	fx_done(&f);
}

static void test_looks_like_an_installation(void)
{
	struct fixture f;

	fx_init(&f);
	fx_elf(&f, "home/u/node-v22/bin/node");
	fx_run(&f, "%/home/u/node-v22/bin/node", NULL);
	EXPECT_GRANTS(&f, "FILE %/home/u/node-v22/bin/node");
	fx_dir(&f, "home/u/node-v22/lib");
	fx_run(&f, "%/home/u/node-v22/bin/node", NULL);
	EXPECT_GRANTS(&f, "TREE %/home/u/node-v22");
	/* A checkout is a project, unless PATH says that it is a tool. */
	fx_dir(&f, "home/u/node-v22/.git");
	fx_run(&f, "%/home/u/node-v22/bin/node", NULL);
	EXPECT_GRANTS(&f, "FILE %/home/u/node-v22/bin/node");
	fx_run(&f, "node", "%/none:%/home/u/node-v22/bin/");
	EXPECT_GRANTS(&f, "TREE %/home/u/node-v22");
	/* Version managers whose shims are links to a program elsewhere. */
	fx_elf(&f, "home/u/.local/bin/mise");
	fx_link(&f, "home/u/.local/share/mise/shims/ruby", "%/home/u/.local/bin/mise");
	fx_run(&f, "ruby", "%/home/u/.local/share/mise/shims");
	EXPECT_GRANTS(&f, "TREE %/home/u/.local/share/mise\nFILE %/home/u/.local/bin/mise");
	fx_done(&f);
}

static void test_never(void)
{
	static const char *const never[] = {
		"/",
		"",
		"etc",
		"/etc",
		"/etc/x",
		"/home",
		"/home/u",
		"/home/other",
		"/root",
		"/var",
		"/var/lib",
		"/run",
		"/run/user/1000",
		"/proc",
		"/proc/1",
		"/sys",
		"/sys/fs",
		"/dev",
		"/dev/shm/x",
		"/tmp",
		"/opt",
		"/mnt",
		"/mnt/c",
		"/media/u/disk",
		"/srv",
		"/boot",
		"/home/u/.ssh",
		"/home/u/.ssh/x",
		"/home/u/.config",
		"/home/u/.config/gcloud/venv",
		"/home/u/.local",
		"/home/u/.local/share",
		"/home/u/.cargo",
		"/home/u/.cache",
		"/home/u/go",
		"/home/u/.aws",
		"/home/other/.ssh",
		"/root/.gnupg/x",
		"/home/u/.pyenv/../.ssh",
		"/home/u/.docker",
		"/home/u/.kube/x",
	};
	static const char *const fine[] = {
		"/opt/x",
		"/home/u/.pyenv",
		"/home/u/.nvm/versions/node/v1",
		"/home/u/miniconda3",
		"/home/u/.local/share/uv/python/x",
		"/nix/store",
		"/tmp/x",
		"/var/lib/x",
		"/root/.rbenv",
		"/home/u/.cargo/bin",
		"/home/linuxbrew/.linuxbrew",
		"/conda",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(never); i++)
		CHECK_MSG(!discover_tree_allowed("/home/u", never[i]), "%s is allowed", never[i]);
	for (i = 0; i < ARRAY_SIZE(fine); i++)
		CHECK_MSG(discover_tree_allowed("/home/u", fine[i]), "%s is refused", fine[i]);
	/* A home in an unusual place, and what contains it. */
	CHECK(!discover_tree_allowed("/data/people/u", "/data"));
	CHECK(!discover_tree_allowed("/data/people/u", "/data/people"));
	CHECK(!discover_tree_allowed("/data/people/u", "/data/people/u"));
	CHECK(!discover_tree_allowed("/data/people/u", "/data/people/u/.ssh"));
	CHECK(discover_tree_allowed("/data/people/u", "/data/people/u/.nvm"));
	CHECK(discover_tree_allowed("/data/people/u", "/data/people/uv"));
	CHECK(discover_tree_allowed(NULL, "/opt/x"));
	CHECK(!discover_tree_allowed(NULL, "/home/u"));
}

static void test_advice(void)
{
	static const char *const never[] = {
		"/",
		"/home",
		"/home/u",
		"/home/other",
		"/home/other/x",
		"/root",
		"/root/x",
		"/home/u/.ssh",
		"/home/u/.ssh/config",
		"/home/u/.local",
		"/home/u/.local/share",
		"/home/u/.config/gh",
		"/home/u/.bash_history",
		"/home/u/.cargo",
		"/etc",
		"/etc/ssh",
		"/etc/ssh/x",
		"/etc/shadow",
		"/run",
		"/run/x.sock",
		"/var",
		"/var/run/x",
		"/proc/1",
		"/dev/sda",
		"/sys",
		"/boot/x",
		"/srv/.env",
		"/srv/.env.local",
		"/srv/a.pem",
		"/srv/id_rsa",
		"/srv/credentials",
		"/srv/../etc",
		"relative",
		"/home/u/x/server.key",
		"/home/u/.claude.json",
		"/home/u/.cache/huggingface/token",
		"/home/u/.kaggle/kaggle.json",
		"/home/u/.psql_history",
		"/var/backups",
		"/var/backups/x",
		"/mnt",
		"/opt",
	};
	static const char *const fine[] = {
		"/srv",
		"/srv/data",
		"/etc/mime.types",
		"/home/u/data",
		"/home/u/.cache/pip",
		"/home/u/.cargo/registry",
		"/tmp/x",
		"/opt/x",
		"/data/environment",
		"/srv/env",
		"/srv/.environment",
		"/srv/pem",
		"/usr/share/x",
		"/var/lib/x",
	};
	static const char *const only_read[] = {
		"/etc/mime.types",
		"/usr/share/x",
		"/opt/x",
		"/var/lib/x",
		"/home/u/bin",
		"/home/u/.local/bin",
		"/home/u/.local/bin/git",
		"/home/u/.vim/plugin",
		"/home/u/go/bin/x",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(never); i++)
		CHECK_MSG(!discover_may_advise("/home/u", never[i], false), "%s", never[i]);
	for (i = 0; i < ARRAY_SIZE(fine); i++)
		CHECK_MSG(discover_may_advise("/home/u", fine[i], false), "%s", fine[i]);
	for (i = 0; i < ARRAY_SIZE(only_read); i++)
		CHECK_MSG(!discover_may_advise("/home/u", only_read[i], true), "%s", only_read[i]);
	CHECK(discover_may_advise("/home/u", "/srv/data", true));
	CHECK(discover_may_advise("/home/u", "/home/u/data", true));
	CHECK(discover_may_advise("/home/u", "/home/u/.cache/pip", true));
	CHECK(!discover_may_advise("/home/u", "/home/u/.ssh/x", true));
	CHECK(!discover_may_advise(NULL, "/home/u/x", false));
	/* A home in an unusual place. */
	CHECK(!discover_may_advise("/data/people/u", "/data/people", false));
	CHECK(!discover_may_advise("/data/people/u", "/data/people/u/.aws", false));
	CHECK(discover_may_advise("/data/people/u", "/data/people/u/x", false));
	CHECK(discover_may_advise("/root", "/root/x", false));
}

/* The rule holds for the real path, however the program is reached. */
static void test_never_by_link(void)
{
	struct fixture f;

	fx_init(&f);
	fx_elf(&f, "home/u/bin/x");
	fx_dir(&f, "home/u/lib");
	fx_link(&f, "tool", "home/u");
	fx_run(&f, "%/tool/bin/x", "%/tool/bin");
	EXPECT_GRANTS(&f, "LINK %/tool -> home/u\nFILE %/home/u/bin/x");
	/* home/ contains the home */
	fx_elf(&f, "home/bin/y");
	fx_dir(&f, "home/lib");
	fx_run(&f, "%/home/bin/y", "%/home/bin");
	EXPECT_GRANTS(&f, "FILE %/home/bin/y");
	/* a link that would bring a secret directory in by its neighbour */
	fx_elf(&f, "home/u/.config/tool/bin/z");
	fx_dir(&f, "home/u/.config/tool/lib");
	fx_link(&f, "home/u/.rustup", ".config");
	fx_elf(&f, "home/u/.cargo/bin/rustup");
	fx_run(&f, "%/home/u/.config/tool/bin/z", NULL);
	EXPECT_GRANTS(&f, "FILE %/home/u/.config/tool/bin/z");
	fx_run(&f, "rustup", "%/home/u/.cargo/bin");
	EXPECT_GRANTS(&f, "TREE %/home/u/.cargo/bin\nLINK %/home/u/.rustup -> .config");
	fx_done(&f);
}

TAP_MAIN(test_system_program_needs_nothing, test_pyenv, test_nvm_and_npm, test_cargo, test_conda,
	 test_uv, test_venv, test_hostile_venv, test_user_scripts, test_looks_like_an_installation,
	 test_never, test_advice, test_never_by_link)
