/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a change deserves a second look.
 *
 * Asked for one name in a known directory, because reading the whole path of every file would cost
 * too much in deep trees.
 */
#include <string.h>

#include "base/utf8.h"
#include "workspace/changes/collect.h"

bool ws_is_bad_name(const char *name)
{
	size_t len = strlen(name);

	while (len > 0) {
		uint32_t cp;
		size_t n = utf8_decode(name, len, &cp);

		if (n == 0 || utf8_is_control(cp))
			return true;
		name += n;
		len -= n;
	}
	return false;
}

/*
 * @depth: of the directory that the link is in. ".." after a name counts as leading out, too: the
 * name may be another link, and ".." does not undo that step then.
 */
static bool leads_out(size_t depth, const char *target)
{
	bool has_name = false;

	if (target[0] == '/')
		return true;
	while (*target) {
		size_t len = strcspn(target, "/");

		if (len == 2 && target[0] == '.' && target[1] == '.') {
			if (depth == 0 || has_name)
				return true;
			depth--;
		} else if (len > 0 && !(len == 1 && target[0] == '.')) {
			has_name = true;
		}
		target += len;
		target += *target == '/';
	}
	return false;
}

static unsigned risks_of_name(const struct autorun_dir *dir, const char *name,
			      const struct ws_node *node)
{
	static const struct {
		unsigned what, risk;
	} map[] = {
		{ AUTORUN_PROTECTED, CORDON_RISK_PROTECTED },
		{ AUTORUN_CI, CORDON_RISK_CI },
		{ AUTORUN_LOCKFILE, CORDON_RISK_LOCKFILE },
		{ AUTORUN_STARTUP, CORDON_RISK_STARTUP },
	};
	/* A .git that changes its type is not treated as a directory. */
	bool is_dir =
		(node->type == CORDON_FILE_NONE || node->type == CORDON_FILE_DIRECTORY) &&
		(node->old_type == CORDON_FILE_NONE || node->old_type == CORDON_FILE_DIRECTORY);
	bool is_link = node->type == CORDON_FILE_SYMLINK || node->old_type == CORDON_FILE_SYMLINK;
	unsigned what = autorun_class(dir, name, is_dir, is_link), ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(map); i++) {
		if (what & map[i].what)
			ret |= map[i].risk;
	}
	return ret;
}

static bool is_new_program(const struct ws_node *node)
{
	if (node->type != CORDON_FILE_REGULAR || !(node->mode & 0111))
		return false;
	return node->kind == CORDON_CHANGE_ADDED || node->kind == CORDON_CHANGE_MODIFIED ||
	       node->kind == CORDON_CHANGE_TYPE || (node->mode & 0111 & ~node->old_mode);
}

unsigned ws_risks(const struct autorun_dir *dir, size_t depth, const char *name,
		  const struct ws_node *node)
{
	/* The walk has looked at the attributes. */
	unsigned ret = node->risks & CORDON_RISK_ATTRIBUTE;

	ret |= risks_of_name(dir, name, node);
	if (node->is_obeyed)
		ret |= CORDON_RISK_PROTECTED;
	if (ws_is_bad_name(name))
		ret |= CORDON_RISK_NAME;
	if (node->type == CORDON_FILE_REGULAR && (node->mode & 06000))
		ret |= CORDON_RISK_SETID;
	if (node->type >= CORDON_FILE_FIFO)
		ret |= CORDON_RISK_SPECIAL;
	if (node->type == CORDON_FILE_SYMLINK && node->target && leads_out(depth, node->target))
		ret |= CORDON_RISK_LINK_OUT;
	if (is_new_program(node))
		ret |= CORDON_RISK_EXECUTABLE;
	return ret;
}
