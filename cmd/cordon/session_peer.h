/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end of a session's socket. Client and supervisor ask this about each other
 * before anything is sent: a sandboxed command may find the socket, or make one under its name, and
 * would get the user's descriptors and variables, or start commands of its own.
 */
#ifndef CMD_CORDON_SESSION_PEER_H
#define CMD_CORDON_SESSION_PEER_H

/* How many system call filters a process has, 0 = this one; -1 = that cannot be read. */
long session_count_filters(int pid);

/* Whether the peer is of the same user and has no more filters than @n_filters: a sandboxed command
 * has at least one more than the process that started its sandbox. */
int session_peer_is_free(int fd, long n_filters);

#endif
