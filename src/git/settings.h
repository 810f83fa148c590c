/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which settings of a repository's config may be a guest's.
 *
 * One use is a config that was replaced on the host while a run went on: may it stay?
 * The guest may have had its hand in: git writes `config.lock` where the guest can write, too. So
 * it does not matter who wrote the new config, only what is different in it. What names remotes and
 * branches, or turns something harmless on or off, may be new (`git remote add`, `git push -u`,
 * `git switch --track`). What git executes or obeys in another way may not. Nor may anything that
 * decides where the user's next push goes: the addresses of remotes that were there before, which
 * must neither change nor go, and the remote and branch that a branch is pushed to.
 */
#ifndef GIT_SETTINGS_H
#define GIT_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define GIT_SETTING_MAX 128 /* bytes of a key, for a message */

/* May @now stand where @before stood? If not, @ret_key is what speaks against it: a key, or "" if
 * one of the two cannot be understood. A text is only understood as git writes it. */
bool git_settings_may_change(const char *before, size_t before_len, const char *now, size_t now_len,
			     char ret_key[GIT_SETTING_MAX]);

/* Has @text no settings but harmless ones, as `git init` and `git clone` write them? @ret_work_tree
 * is then the value of core.worktree, "" = none: it may be any. */
bool git_settings_are_plain(const char *text, size_t len, char ret_work_tree[PATH_MAX]);

#endif
