/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest command there is: leaves at once. Beside /bin/true it shows how much of a start-up
 *is the command's own dynamic linking and not the sandbox.
 *
 *	gcc -static -nostdlib -O2 payload_nolibc.c
 */
void _start(void);

void _start(void)
{
	__asm__ volatile("syscall" : : "a"(231), "D"(0) : "rcx", "r11", "memory"); /* exit_group */
	__builtin_unreachable();
}
