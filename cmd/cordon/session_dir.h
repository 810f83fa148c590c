/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions on disk. Each has two files in a directory that only its user can open
 * (base/session_place.h): NAME.sock, and NAME.key with a random key, which its supervisor keeps
 * locked. A client has to send the key: a command at level landlock may be able to connect to any
 * socket of its user, but it cannot read the key. A key that nobody has locked is what a killed
 * supervisor left; whoever finds it removes both files.
 */
#ifndef CMD_CORDON_SESSION_DIR_H
#define CMD_CORDON_SESSION_DIR_H

#include <stddef.h>

#include <cordon/error.h>

#define SESSION_NAME_MAX 48
#define SESSION_KEY_CHARS 32

struct session_place {
	int dir_fd, key_fd;
	char key[SESSION_KEY_CHARS + 1];
	char name[SESSION_NAME_MAX + 1];
};

int session_check_name(const char *name, struct cordon_error *err);
/* The place number @i (session_place()): a directory of ours that no other user can use. Its
 * descriptor or -errno. */
int session_open_place(unsigned i, int may_make);
/* Says that none of them can be used for @what. */
int session_no_place(const char *what, struct cordon_error *err);
/* Takes @name and makes its key; *ret_listen_fd: its socket, listening. */
int session_claim(const char *name, struct session_place *ret, int *ret_listen_fd,
		  struct cordon_error *err);
/* Removes both files. */
void session_unclaim(struct session_place *place);
/* Connects to the session; the descriptor, and its key. -ETIMEDOUT: nobody answers.
 * CORDON_E_NOT_FOUND is never used: it would become the exit status of a missing command. */
int session_connect(const char *name, char ret_key[SESSION_KEY_CHARS + 1],
		    struct cordon_error *err);
/* Calls @each for every session that lives, by name; removes what killed supervisors left. */
int session_each(void (*each)(void *arg, const char *name), void *arg, struct cordon_error *err);

#endif
