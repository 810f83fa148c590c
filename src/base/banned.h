/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that this code base must not use: each is a compile error that names it.
 *
 * The build puts this file in front of every source of the library and the command (`-include`).
 * The headers that declare the functions come first, so that their declarations stay intact. The
 * freestanding programs have no C library and do without this file.
 */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BANNED(func) use_of_banned_function_##func

/* Write past the end, or leave the end unmarked. */
#undef strcpy
#define strcpy(d, s) BANNED(strcpy)
#undef stpcpy
#define stpcpy(d, s) BANNED(stpcpy)
#undef strcat
#define strcat(d, s) BANNED(strcat)
#undef strncpy
#define strncpy(d, s, n) BANNED(strncpy)
#undef strncat
#define strncat(d, s, n) BANNED(strncat)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef gets
#define gets(b) BANNED(gets)
#undef alloca
#define alloca(n) BANNED(alloca)

/* Cannot say that they failed. */
#undef atoi
#define atoi(s) BANNED(atoi)
#undef atol
#define atol(s) BANNED(atol)
#undef atoll
#define atoll(s) BANNED(atoll)
#undef atof
#define atof(s) BANNED(atof)

/* Keep state, so two threads of a host program would interfere. */
#undef strtok
#define strtok(s, d) BANNED(strtok)
#undef asctime
#define asctime(t) BANNED(asctime)
#undef ctime
#define ctime(t) BANNED(ctime)
#undef gmtime
#define gmtime(t) BANNED(gmtime)
#undef localtime
#define localtime(t) BANNED(localtime)
#undef rand
#define rand() BANNED(rand)
#undef srand
#define srand(n) BANNED(srand)
#undef setenv
#define setenv(n, v, o) BANNED(setenv)
#undef putenv
#define putenv(s) BANNED(putenv)

/* Go through a shell or a PATH, or race with others for a name. */
#undef system
#define system(s) BANNED(system)
#undef popen
#define popen(s, m) BANNED(popen)
#undef execlp
#define execlp(...) BANNED(execlp)
#undef execvp
#define execvp(f, a) BANNED(execvp)
#undef mktemp
#define mktemp(t) BANNED(mktemp)
#undef tmpnam
#define tmpnam(s) BANNED(tmpnam)
#undef tempnam
#define tempnam(d, p) BANNED(tempnam)

/* Copy the host's address space, or vary between systems: use clone3() and sigaction(). */
#undef fork
#define fork() BANNED(fork)
#undef signal
#define signal(n, h) BANNED(signal)

#endif
