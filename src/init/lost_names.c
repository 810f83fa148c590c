/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A note about files that no one wanted to keep is worse than a note too few: it would come with
 * every run of some tool, and after a week all notes would be overlooked. So a name counts only if
 * it looks like one that a person chose.
 *
 * In the home tools keep what is theirs below names with a dot, and in a few directories that are
 * known. Everything else there counts, but for dumps, locks, backups and the like.
 *
 * In /tmp nearly everything is a tool's. A file there counts if it has the extension of a document,
 * a program text, an archive or data, and if neither its name nor one on the way to it looks
 * temporary: begins with the name of a tool, or has a part that looks random, as those of mkstemp()
 * do, or like a time in (milli)seconds.
 */
#include "init/lost_names.h"

#include <stddef.h>

#include "bare/text.h"

#define RANDOM_MIN 6 /* characters: what mkstemp() puts in */
#define MIXED_MIN 4  /* if letters and digits take turns */
#define CONSONANTS_MIN 5
#define CAMEL_MIN 4 /* letters of an average word in a name LikeThis */
#define NUMBER_MAX 8

/* Lists are words between blanks: one string instead of a table of pointers. */
static const char documents[] =
	" txt text md rst csv tsv json jsonl ndjson geojson xml html htm css yaml yml toml pdf ps "
	"eps svg png jpg jpeg gif webp bmp tif tiff doc docx xls xlsx ppt pptx odt ods odp rtf tex "
	"bib ipynb epub py js mjs ts tsx jsx c h cc cpp hpp cs rs go java kt rb php pl sh sql r jl "
	"lua swift scala patch diff zip tar gz tgz bz2 xz zst 7z rar whl deb rpm iso db sqlite "
	"sqlite3 parquet arrow feather npy npz h5 hdf5 pkl pickle pt pth onnx safetensors gguf mat "
	"rds rdata dump mp3 wav flac ogg m4a mp4 mkv webm avi mov stl obj ";

/* Extensions of what is not missed in the home. */
static const char leftovers[] =
	" swp swo swn save pyc pyo lock pid sock tmp temp part crdownload o ";

/* First words of names in /tmp. */
static const char tools[] =
	" tmp temp ansible apache apt bash bazel bun bundler bundle cargo ccache chrome chromium "
	"claude clang clr cmake codex conda cordon cuda dask dbus deno docker dotnet dpkg electron "
	"emacs esbuild ffmpeg firefox gcc geckodriver git go gocache gomodcache gopath gpg gradle "
	"gs gunicorn hsperfdata huggingface ipykernel java jest jffi jna joblib jruby jupyter "
	"keras "
	"kotlin libreoffice lu magick matplotlib maven meson mesa mktex mongodb mozilla msbuild "
	"mypy mysql nginx ninja node npm npx nuget numba nvim opencode osl parcel perl pg pgsql "
	"php "
	"phpunit pip pipx playwright pnpm postgres postgresql pulse puppeteer pyright pytest "
	"python "
	"ray redis ripgrep rtmp ruby ruff runtime rust rustc rustup sbt screens sess sh snap "
	"soffice "
	"sort ssh surefire swc systemd terraform texmf tmux torch torchinductor triton tsx uv uvx "
	"vim vite vscode wandb webpack wget xauth yarn zsh ";

/* Directories, wherever they lie. */
static const char tool_dirs[] = " node_modules bower_components __pycache__ site-packages "
				"cache nltk_data scikit_learn_data miniconda3 anaconda3 miniforge3 "
				"mambaforge lost+found ";
/* The same for those that lie directly in the home. */
static const char home_dirs[] = " R snap perl5 texmf intel ";
/* Files in the home. */
static const char dumps[] = " core vgcore gmon.out dump.rdb npm-debug.log yarn-error.log wget-log "
			    "texput.log missfont.log derby.log ";

const char *const lost_markers[] = { "CACHEDIR.TAG", "pyvenv.cfg", "conda-meta",
				     "PG_VERSION",   "ibdata1",	   NULL };

static size_t length(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static int is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static int is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static int is_word(char c)
{
	return is_lower(c) || is_upper(c) || ascii_is_digit(c);
}

/* Is the word @s in @list? @fold: without regard to case. */
static int is_listed(const char *list, const char *s, size_t len, int fold)
{
	if (len == 0)
		return 0;
	for (const char *at = list; at[1]; at++) {
		size_t n = 0;

		if (*at != ' ')
			continue;
		while (n < len && at[1 + n] && at[1 + n] == (fold ? ascii_lower(s[n]) : s[n]))
			n++;
		if (n == len && at[1 + n] == ' ')
			return 1;
	}
	return 0;
}

/* What follows the last dot; NULL = nothing does. */
static const char *extension(const char *name)
{
	const char *dot = NULL;

	for (const char *s = name; *s; s++)
		if (*s == '.' && s > name)
			dot = s;
	return dot && dot[1] ? dot + 1 : NULL;
}

static int has_extension(const char *name, const char *list)
{
	const char *ext = extension(name);

	return ext && is_listed(list, ext, length(ext), 1);
}

/* Nearly every number in a name is short or a date: 20260131, 202601311745. */
static int is_odd_number(const char *s, size_t len)
{
	if (len <= NUMBER_MAX)
		return 0;
	return !((len == 12 || len == 14) && s[0] == '2' && s[1] == '0');
}

static int is_vowel(char c)
{
	c = ascii_lower(c);
	return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u' || c == 'y';
}

static int is_consonant(char c)
{
	return (is_lower(c) || is_upper(c)) && !is_vowel(c);
}

/* Three letters in a row that no word has: a consonant beside a j or behind a q, two capitals
 * before a small letter. (The last decides about names like PDFs, too: then it is told less.) */
static int is_odd_triple(const char *s)
{
	char b = ascii_lower(s[1]);

	if ((b == 'j' || b == 'q') && is_consonant(s[2]))
		return 1;
	return (b == 'j' && is_consonant(s[0])) ||
	       (is_upper(s[0]) && is_upper(s[1]) && is_lower(s[2]));
}

/* No word has so many capitals in it, or so many consonants in a row. Digits are passed over. */
static int are_odd_letters(const char *s, size_t len)
{
	size_t words = 1, row = 0, letters = 0;

	for (size_t i = 0; i < len; i++) {
		if (ascii_is_digit(s[i]))
			continue;
		row = is_vowel(s[i]) ? 0 : row + 1;
		if (row >= CONSONANTS_MIN)
			return 1;
		if (i + 2 < len && is_odd_triple(s + i))
			return 1;
		letters++;
		words += i > 0 && is_upper(s[i]) && is_lower(s[i - 1]);
	}
	return words > 1 && letters < words * CAMEL_MIN;
}

/* @s: letters and digits. Words have their digits before or after the letters. */
static int is_random(const char *s, size_t len)
{
	size_t digits = 0, blocks = 1;

	for (size_t i = 0; i < len; i++) {
		digits += (size_t)ascii_is_digit(s[i]);
		blocks += i > 0 && ascii_is_digit(s[i]) != ascii_is_digit(s[i - 1]);
	}
	if (digits == len)
		return is_odd_number(s, len);
	return (len >= MIXED_MIN && blocks > 2) || (len >= RANDOM_MIN && are_odd_letters(s, len));
}

/* Has @name a part that looks random? @only_last: the last part alone decides. */
static int has_random(const char *name, int only_last)
{
	int found = 0;

	while (*name) {
		size_t n = 0;

		while (is_word(name[n]))
			n++;
		if (n)
			found = (found && !only_last) || is_random(name, n);
		name += n ? n : 1;
	}
	return found;
}

/* Begins with a tool's name, as a whole word. */
static int is_of_tool(const char *name)
{
	size_t n = 0;

	while (is_lower(name[n]) || is_upper(name[n]))
		n++;
	return is_listed(tools, name, n, 1);
}

static int is_hidden_or_backup(const char *name)
{
	size_t len = length(name);

	return name[0] == '.' || name[0] == '#' || name[0] == '~' || name[len - 1] == '~' ||
	       starts_with(name, "tmp");
}

static int is_dump(const char *name)
{
	return is_listed(dumps, name, length(name), 0) || starts_with(name, "core.") ||
	       starts_with(name, "vgcore.") || starts_with(name, "hs_err_pid") ||
	       starts_with(name, "replay_pid") || starts_with(name, "java_pid");
}

static int is_temporary(const char *name)
{
	for (const char *s = name; *s; s++)
		if (starts_with(s, "cache"))
			return 1;
	return is_of_tool(name) || has_random(name, 0);
}

int lost_is_missed(const struct lost_place *at, const char *name)
{
	if (!name[0] || is_hidden_or_backup(name))
		return 0;
	if (at->is_tmp)
		return has_extension(name, documents) && !is_temporary(name);
	if (has_extension(name, documents))
		return !is_dump(name);
	return !is_dump(name) && !has_extension(name, leftovers) && !has_random(name, 1);
}

int lost_is_searched(const struct lost_place *at, const char *name)
{
	size_t len = length(name);

	if (len == 0 || is_hidden_or_backup(name) || is_listed(tool_dirs, name, len, 0))
		return 0;
	if (at->is_tmp)
		return !is_temporary(name);
	if (at->depth == 0)
		return !is_listed(home_dirs, name, len, 0);
	/* GOPATH, unless it is said to be elsewhere: modules and programs, but also sources. */
	if (at->depth == 1 && is_listed(" go ", at->above, length(at->above), 0))
		return !is_listed(" pkg bin ", name, len, 0);
	return 1;
}
