/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static command contains init not only as bytes, but also as code: executed with init's name
 * it is init. So a run copies no program into memory, and all runs share one text in the page
 * cache. Init has no libc, hence it must not come to that of the command: the entry point of the
 * whole program is here, before either of them.
 *
 * Only the command is linked with this file. launcher.c sees by the symbol whether it is there.
 */
	.section .rodata.cordon_own_init, "a", @progbits
	.globl cordon_own_init
	.type cordon_own_init, @object
cordon_own_init:
	.byte 1
	.size cordon_own_init, . - cordon_own_init

/* The name has eleven letters and the NUL, in two comparisons; behind the arguments lie the
 * environment and the name of the program, so there is something to read. */
	.section .text.cordon_entry, "ax", @progbits
	.globl cordon_entry
	.type cordon_entry, @function
cordon_entry:
	cmpq	$0, (%rsp)		/* argc */
	je	1f
	movq	8(%rsp), %rax		/* argv[0] */
	movabsq	$0x692d6e6f64726f63, %rcx /* "cordon-i" */
	cmpq	%rcx, (%rax)
	jne	1f
	cmpl	$0x0074696e, 8(%rax)	/* "nit" */
	jne	1f
	jmp	cordon_init_start
1:	jmp	_start
	.size cordon_entry, . - cordon_entry

	.section .note.GNU-stack, "", @progbits
