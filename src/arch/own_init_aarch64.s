/* SPDX-License-Identifier: Apache-2.0 */
/* own_init_x86_64.s says what this is for. */
	.section .rodata.cordon_own_init, "a", %progbits
	.globl cordon_own_init
	.type cordon_own_init, %object
cordon_own_init:
	.byte 1
	.size cordon_own_init, . - cordon_own_init

/* Nothing but x9 to x11 is written: the C library's entry gets the registers as they came. */
	.section .text.cordon_entry, "ax", %progbits
	.globl cordon_entry
	.type cordon_entry, %function
cordon_entry:
	hint	#34			/* bti c */
	ldr	x9, [sp]		/* argc */
	cbz	x9, 1f
	ldr	x9, [sp, #8]		/* argv[0] */
	ldr	x10, [x9]
	ldr	x11, =0x692d6e6f64726f63 /* "cordon-i" */
	cmp	x10, x11
	b.ne	1f
	ldr	w10, [x9, #8]
	ldr	w11, =0x0074696e	/* "nit" */
	cmp	w10, w11
	b.ne	1f
	b	cordon_init_start
1:	b	_start
	.size cordon_entry, . - cordon_entry
	.ltorg

	.section .note.GNU-stack, "", %progbits
