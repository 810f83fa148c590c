/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over a plan block: every offset lies in the block, every string ends in it, every number
 * is in its range. Written for init: no C library, no recursion, work linear in the block's size.
 */
#include "plan/plan_read.h"

#define ALIGN_OPS 8u
#define ALIGN_OFFSETS 4u

#define OP_FLAGS                                                                                   \
	(PLAN_RDONLY | PLAN_NOEXEC | PLAN_FILE | PLAN_MKPOINT | PLAN_IDENTITY | PLAN_DEVICE |      \
	 PLAN_REUSED | PLAN_PRIVATE_DIR | PLAN_IF_THERE | PLAN_UNMAPPED | PLAN_PROTECTED)
#define HEADER_FLAGS                                                                               \
	(PLAN_MAP_SELF | PLAN_SETIDS | PLAN_DROP_GROUPS | PLAN_PDEATHSIG | PLAN_LOOPBACK_UP |      \
	 PLAN_TERMINAL | PLAN_NET_ALLOW | PLAN_FILES | PLAN_LOSES_TMP | PLAN_SESSION)

/* [off, off + count * size) lies behind the header and before the strings. */
static int is_array(const struct plan_header *h, uint32_t off, uint32_t count, uint32_t size,
		    uint32_t align)
{
	uint64_t end = (uint64_t)off + (uint64_t)count * size;

	return off % align == 0 && off >= sizeof(*h) && end <= h->strings_off;
}

/*
 * The last byte of the block is NUL (checked first), so any offset into the string area starts a
 * string that ends inside. That is all a reader needs; strings may share their tails.
 */
static int is_string(const struct plan_header *h, uint32_t off)
{
	return off >= h->strings_off && off < h->size;
}

static int is_string_or_none(const struct plan_header *h, uint32_t off)
{
	return off == 0 || is_string(h, off);
}

static int is_absolute(const struct plan_header *h, uint32_t off)
{
	return is_string(h, off) && ((const char *)h)[off] == '/';
}

/* Absolute, and without a component "..": what init looks up below the new root. */
static int is_path(const struct plan_header *h, uint32_t off)
{
	const char *s;

	if (!is_absolute(h, off))
		return 0;
	for (s = (const char *)h + off; *s; s++) {
		if (s[0] == '/' && s[1] == '.' && s[2] == '.' && (s[3] == '/' || s[3] == 0))
			return 0;
	}
	return 1;
}

static int is_bytes(const struct plan_header *h, uint32_t off, uint32_t len)
{
	if (len == 0)
		return is_string_or_none(h, off);
	return is_string(h, off) && len <= h->size - off;
}

static int check_sources(const struct plan_header *h, const struct plan_op *op)
{
	switch (op->type) {
	case PLAN_OP_FILE:
		return is_bytes(h, op->src, op->data_len);
	case PLAN_OP_SYMLINK:
		return is_string(h, op->src) && ((const char *)h)[op->src] != 0;
	case PLAN_OP_BIND:
	case PLAN_OP_UPPER:
	case PLAN_OP_OVERLAY:
		if (op->fd_index >= 0)
			return (uint32_t)op->fd_index < h->n_mount_fds &&
			       is_string_or_none(h, op->src);
		return is_path(h, op->src);
	case PLAN_OP_RULE:
		return is_path(h, op->src);
	case PLAN_OP_PIN:
		return op->src == 0 || (is_path(h, op->src) && (op->flags & PLAN_FILE));
	default:
		return op->src == 0;
	}
}

static int takes_mount(unsigned type)
{
	return type == PLAN_OP_BIND || type == PLAN_OP_UPPER || type == PLAN_OP_OVERLAY;
}

static int check_op(const struct plan_header *h, const struct plan_op *op)
{
	if (op->type == 0 || op->type >= PLAN_OP_MAX || (op->flags & ~OP_FLAGS) != 0)
		return 0;
	if (op->mode & ~07777u || op->fd_index < -1)
		return 0;
	if (!takes_mount(op->type) && op->fd_index != -1)
		return 0;
	if (op->type != PLAN_OP_FILE && op->data_len != 0)
		return 0;
	if (op->access & ~h->handled_fs)
		return 0;
	if (op->type == PLAN_OP_RULE) {
		if (op->dst != 0)
			return 0;
	} else if (h->level == PLAN_LEVEL_LANDLOCK || !is_path(h, op->dst)) {
		/* Without a mount namespace every other step would change the host. */
		return 0;
	}
	return check_sources(h, op);
}

static int check_offsets(const struct plan_header *h, uint32_t off, uint32_t count)
{
	const uint32_t *v = (const uint32_t *)(const void *)((const char *)h + off);

	for (uint32_t i = 0; i < count; i++) {
		if (!is_string(h, v[i]))
			return 0;
	}
	return 1;
}

static int check_header(const struct plan_header *h)
{
	if (h->level != PLAN_LEVEL_LANDLOCK && h->level != PLAN_LEVEL_NAMESPACES)
		return 0;
	if (h->flags & ~HEADER_FLAGS)
		return 0;
	if (h->level == PLAN_LEVEL_NAMESPACES && h->outer_uid == 0)
		return 0;
	if (h->n_net_ports > PLAN_NET_PORTS_MAX)
		return 0;
	return h->n_mount_fds <= PLAN_MOUNT_FDS_MAX && h->n_argv > 0 && h->n_ops <= PLAN_OPS_MAX;
}

/* Something to execute, or nothing: files to serve, or commands that come later. */
static int check_program(const struct plan_header *h)
{
	if ((h->flags & PLAN_FILES) && (h->flags & PLAN_SESSION))
		return 0;
	if (h->flags & (PLAN_FILES | PLAN_SESSION))
		return h->exec_path == 0 && !(h->flags & PLAN_TERMINAL);
	return is_absolute(h, h->exec_path);
}

static int is_path_or_none(const struct plan_header *h, uint32_t off)
{
	return off == 0 || is_path(h, off);
}

static int check_paths(const struct plan_header *h)
{
	return is_path(h, h->cwd) && is_string_or_none(h, h->hostname) &&
	       is_path_or_none(h, h->workspace) && is_path_or_none(h, h->lost_home);
}

static int check_rlimits(const struct plan_header *h)
{
	if (h->n_rlimits > PLAN_RLIMITS_MAX)
		return 0;
	for (uint32_t i = 0; i < h->n_rlimits; i++) {
		if (h->rlimits[i].resource > 15 || h->rlimits[i].soft > h->rlimits[i].hard)
			return 0;
	}
	return 1;
}

int plan_read_check(const void *block, size_t size)
{
	const struct plan_header *h = block;

	if (size < sizeof(*h) || size > PLAN_SIZE_MAX || (uintptr_t)block % ALIGN_OPS != 0)
		return PLAN_FAULT_SIZE;
	if (h->magic != PLAN_MAGIC || h->version != PLAN_VERSION)
		return PLAN_FAULT_MAGIC;
	if (h->size != size || h->strings_off < sizeof(*h) || h->strings_off >= h->size ||
	    ((const char *)block)[size - 1] != 0)
		return PLAN_FAULT_LAYOUT;
	if (!check_header(h))
		return PLAN_FAULT_HEADER;
	if (h->n_common_ops > h->n_ops)
		return PLAN_FAULT_HEADER;
	if (!is_array(h, h->ops_off, h->n_ops, sizeof(struct plan_op), ALIGN_OPS) ||
	    !is_array(h, h->argv_off, h->n_argv, sizeof(uint32_t), ALIGN_OFFSETS) ||
	    !is_array(h, h->envp_off, h->n_envp, sizeof(uint32_t), ALIGN_OFFSETS))
		return PLAN_FAULT_LAYOUT;
	for (uint32_t i = 0; i < h->n_ops; i++) {
		if (!check_op(h, plan_ops(h) + i))
			return PLAN_FAULT_OP;
	}
	if (!check_offsets(h, h->argv_off, h->n_argv))
		return PLAN_FAULT_ARGV;
	if (!check_offsets(h, h->envp_off, h->n_envp))
		return PLAN_FAULT_ENVP;
	if (!check_program(h) || !check_paths(h))
		return PLAN_FAULT_STRING;
	if (!check_rlimits(h))
		return PLAN_FAULT_RLIMIT;
	return PLAN_FAULT_NONE;
}
