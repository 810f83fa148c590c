/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which directories may never be granted as a whole just because a program lies in them, and which
 * paths a person is never advised to grant.
 *
 * These are the only decisions of this room that protect something. They work on real paths only.
 */
#include "discover/discover_internal.h"

#include <string.h>

/* Nothing below these either. */
static const char *const never_below[] = {
	"/etc", "/proc", "/sys", "/dev", "/boot", "/run", "/lost+found", "/var/run", "/var/lock",
};

/* Directories of unrelated things: it takes at least so many components to name one of them. */
static const struct {
	const char *dir;
	unsigned min_depth;
} collections[] = {
	{ "/home", 3 }, { "/root", 2 }, { "/var", 3 },	  { "/tmp", 2 },
	{ "/opt", 2 },	{ "/srv", 2 },	{ "/mnt", 3 },	  { "/media", 4 },
	{ "/nix", 2 },	{ "/gnu", 2 },	{ "/export", 4 },
};

/* Below a home: keys, tokens and mail, at any depth. */
static const char *const secret_dirs[] = {
	".ssh",
	".gnupg",
	".pki",
	".aws",
	".azure",
	".gcloud",
	".kube",
	".docker",
	".config",
	".netrc",
	".mozilla",
	".thunderbird",
	".password-store",
	".local/share/keyrings",
	".terraform.d",
	".oci",
	".m2",
	".gradle/init.d",
	".vault-token",
	".claude",
	".codex",
	".gemini",
	".cursor",
	".kaggle",
	".huggingface",
	".cache/huggingface/token",
	".cache/huggingface/stored_tokens",
	".gem/credentials",
	".composer/auth.json",
};

/* Below a home: files with keys, and with words that were typed. */
static const char *const secret_files[] = {
	".git-credentials",
	".npmrc",
	".yarnrc.yml",
	".pypirc",
	".pgpass",
	".my.cnf",
	".s3cfg",
	".boto",
	".bash_history",
	".zsh_history",
	".python_history",
	".Xauthority",
	".ICEauthority",
	".cargo/credentials",
	".cargo/credentials.toml",
	".claude.json",
	".psql_history",
	".mysql_history",
	".sqlite_history",
	".node_repl_history",
	".rediscli_history",
	".databrickscfg",
	".rclone.conf",
	".wgetrc",
	".curlrc",
};

/* What the kernel, the machine and its keys are. */
static const char *const never_advised[] = {
	"/proc",
	"/sys",
	"/dev",
	"/boot",
	"/run",
	"/lost+found",
	"/var/run",
	"/var/lock",
	"/etc/shadow",
	"/etc/gshadow",
	"/etc/ssh",
	"/etc/sudoers",
	"/etc/sudoers.d",
	"/etc/krb5.keytab",
	"/etc/ssl/private",
	"/etc/shadow-",
	"/etc/gshadow-",
	"/etc/security/opasswd",
	"/var/lib/cordon",
	"/var/backups",
};

/* Collections of things that have nothing in common: not as a whole. */
static const char *const never_advised_whole[] = {
	"/tmp", "/var/tmp", "/mnt", "/media", "/opt", "/var", "/usr/local", "/export",
};

/* What other users run, too. */
static const char *const never_advised_to_write[] = {
	"/usr", "/bin", "/sbin", "/lib",     "/lib32",	   "/lib64",	 "/libx32",  "/etc",
	"/nix", "/gnu", "/opt",	 "/var/lib", "/var/cache", "/var/spool", "/var/log", "/var/mail",
};

/* Names of keys, wherever they lie. One * stands for any bytes. */
static const char *const secret_names[] = {
	".env",
	".netrc",
	"id_rsa",
	"id_dsa",
	"id_ecdsa",
	"id_ed25519",
	"*.pem",
	"*.key",
	"*.p12",
	"*.pfx",
	"*.kdbx",
	"*.jks",
	"credentials",
	"credentials.json",
	"service-account.json",
	".htpasswd",
	".pgpass",
	".git-credentials",
	".env.*",
};

/* Below a home: directories of unrelated things, or with a credential beside the programs. */
static const char *const catch_alls[] = {
	".local",  ".local/share", ".local/state", ".cache",	".cargo", "go",
	".dotnet", ".deno",	   ".bun",	   ".composer", ".gem",	  ".cabal",
	".npm",	   ".gradle",	   ".nuget",	   ".var",	"snap",	  ".local/share/uv",
	"Desktop", "Documents",	   "Downloads",	   "src",	"work",	  "projects",
	"code",	   "dev",	   "repos",
};

/* Below a home: where version managers put what they install. With a slash at the end: one
 * directory for each installation. */
static const char *const managed_dirs[] = {
	".pyenv/versions/",
	".local/share/uv/python/",
	".local/share/uv/tools/",
	".local/pipx/venvs/",
	".local/share/pipx/venvs/",
	".nvm/versions/node/",
	".local/share/fnm/node-versions/",
	".fnm/node-versions/",
	".volta/tools/image/",
	".rbenv/versions/",
	".rustup/toolchains/",
	".sdkman/candidates/",
	".jenv/versions/",
	".asdf/installs/",
	".local/share/mise/installs/",
	".local/share/rtx/installs/",
	".rye/py/",
	".juliaup/",
	".conda/envs/",
	".local/share/virtualenvs/",
	".cache/pypoetry/virtualenvs/",
	"miniconda3",
	"anaconda3",
	"miniforge3",
	"mambaforge",
	"micromamba",
};

static unsigned depth_of(const char *path)
{
	unsigned n = 0;

	for (; *path; path++)
		n += *path == '/';
	return n;
}

/* What follows @dir in @path, NULL if @path is not in it. */
static const char *rest_below(const char *dir, const char *path)
{
	size_t len = strlen(dir);

	if (len < 2 || !path_is_within(dir, path))
		return NULL;
	return path[len] == '/' ? path + len + 1 : path + len;
}

const char *known_dirs_below_home(const char *home, const char *path)
{
	const char *rest = home ? rest_below(home, path) : NULL;

	if (!rest)
		rest = rest_below("/root", path);
	if (!rest) {
		/* Another user's. */
		rest = rest_below("/home", path);
		if (rest && *rest) {
			rest += strcspn(rest, "/");
			if (*rest == '/')
				rest++;
		} else {
			rest = NULL;
		}
	}
	return rest;
}

static bool is_allowed_below_home(const char *rest)
{
	size_t i;

	if (*rest == '\0')
		return false;
	for (i = 0; i < ARRAY_SIZE(secret_dirs); i++)
		if (path_is_within(secret_dirs[i], rest) || path_is_within(rest, secret_dirs[i]))
			return false;
	for (i = 0; i < ARRAY_SIZE(catch_alls); i++)
		if (strcmp(rest, catch_alls[i]) == 0)
			return false;
	return true;
}

bool discover_tree_allowed(const char *home, const char *real_path)
{
	const char *rest;
	size_t i;

	if (real_path[0] != '/' || real_path[1] == '\0' || path_has_dotdot(real_path))
		return false;
	if (home && path_is_within(real_path, home))
		return false;
	if (path_is_within(real_path, "/root") || path_is_within(real_path, "/home"))
		return false;
	for (i = 0; i < ARRAY_SIZE(never_below); i++)
		if (path_is_within(never_below[i], real_path))
			return false;
	for (i = 0; i < ARRAY_SIZE(collections); i++)
		if (path_is_within(collections[i].dir, real_path) &&
		    depth_of(real_path) < collections[i].min_depth)
			return false;
	rest = known_dirs_below_home(home, real_path);
	return !rest || is_allowed_below_home(rest);
}

bool known_dirs_is_managed(const char *home, const char *real_path)
{
	const char *rest = known_dirs_below_home(home, real_path);
	size_t i;

	if (!rest)
		return path_is_within("/opt", real_path);
	for (i = 0; i < ARRAY_SIZE(managed_dirs); i++) {
		size_t len = strlen(managed_dirs[i]);

		if (managed_dirs[i][len - 1] == '/'
			    ? strncmp(rest, managed_dirs[i], len) == 0 && rest[len] != '\0'
			    : path_is_within(managed_dirs[i], rest))
			return true;
	}
	return false;
}

static bool is_either_within(const char *a, const char *b)
{
	return path_is_within(a, b) || path_is_within(b, a);
}

/* @name is one of a list's names, of which one * stands for any bytes. */
static bool is_secret_name(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(secret_names); i++) {
		const char *star = strchr(secret_names[i], '*');
		size_t head = star ? (size_t)(star - secret_names[i]) : 0;
		size_t tail = star ? strlen(star + 1) : 0;

		if (!star && strcmp(name, secret_names[i]) == 0)
			return true;
		if (star && len >= head + tail && strncmp(name, secret_names[i], head) == 0 &&
		    strcmp(name + len - tail, star + 1) == 0)
			return true;
	}
	return false;
}

static bool is_advisable_below_home(const char *rest)
{
	for (size_t i = 0; i < ARRAY_SIZE(secret_dirs); i++)
		if (is_either_within(secret_dirs[i], rest))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(secret_files); i++)
		if (is_either_within(secret_files[i], rest))
			return false;
	return *rest != '\0';
}

/* Below a home: who writes there decides what its owner runs next. */
static bool runs_by_itself(const char *rest)
{
	static const char *const dirs[] = { "bin", "go/bin", "sbin" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (is_either_within(dirs[i], rest))
			return true;
	/* Settings, plug-ins, programs of tools: all that a home keeps out of sight but caches. */
	return rest[0] == '.' &&
	       !(path_is_within(".cache", rest) && strlen(rest) > sizeof(".cache"));
}

bool discover_may_advise(const char *home, const char *real_path, bool is_write)
{
	const char *rest = home ? rest_below(home, real_path) : NULL;

	if (real_path[0] != '/' || real_path[1] == '\0' || path_has_dotdot(real_path))
		return false;
	if (home && path_is_within(real_path, home))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(never_advised); i++)
		if (is_either_within(never_advised[i], real_path))
			return false;
	for (size_t i = 0; is_write && i < ARRAY_SIZE(never_advised_to_write); i++)
		if (is_either_within(never_advised_to_write[i], real_path))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(never_advised_whole); i++)
		if (strcmp(never_advised_whole[i], real_path) == 0)
			return false;
	if (is_secret_name(strrchr(real_path, '/') + 1))
		return false;
	if (rest)
		return is_advisable_below_home(rest) && !(is_write && runs_by_itself(rest));
	/* Of others. */
	return !is_either_within("/home", real_path) && !is_either_within("/root", real_path);
}
