/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for the C library when the meter is linked, and is no part of it: it has the name of the
 * library that has these functions wherever there is a C library by GNU, and no versions of symbols,
 * so that any version will do.
 */
	.text
	.globl dlopen, dlsym
	.type dlopen, %function
	.type dlsym, %function
dlopen:
dlsym:
	.byte 0
	.section .note.GNU-stack, "", %progbits
