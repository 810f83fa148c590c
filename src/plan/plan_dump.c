/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as JSON, complete: what `--dry-run` prints and what the golden tests compare. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json_write.h"
#include "plan/plan.h"
#include "plan/plan_read.h"
#include "seccomp/seccomp.h"
#include "uapi/landlock.h"

#define TEXT_MAX 1024 /* longer files are copies of the host's: their size says enough */

static const char *const op_names[] = {
	[0] = "none",
	[PLAN_OP_DIR] = "dir",
	[PLAN_OP_SYMLINK] = "symlink",
	[PLAN_OP_FILE] = "file",
	[PLAN_OP_BIND] = "bind",
	[PLAN_OP_PRIVATE] = "private",
	[PLAN_OP_PROC] = "proc",
	[PLAN_OP_DEVPTS] = "devpts",
	[PLAN_OP_PIN] = "pin",
	[PLAN_OP_MASK] = "mask",
	[PLAN_OP_UPPER] = "layers",
	[PLAN_OP_OVERLAY] = "overlay",
	[PLAN_OP_RULE] = "rule",
};

static_assert(ARRAY_SIZE(op_names) == PLAN_OP_MAX, "a name for each step");

struct bit_name {
	uint64_t bit;
	const char *name;
};

static const struct bit_name op_flags[] = {
	{ PLAN_RDONLY, "read-only" },	 { PLAN_NOEXEC, "noexec" },
	{ PLAN_FILE, "file" },		 { PLAN_MKPOINT, "make" },
	{ PLAN_IDENTITY, "identity" },	 { PLAN_DEVICE, "device" },
	{ PLAN_REUSED, "left" },	 { PLAN_PRIVATE_DIR, "own" },
	{ PLAN_IF_THERE, "if-there" },	 { PLAN_UNMAPPED, "unmapped" },
	{ PLAN_PROTECTED, "protected" },
};

static const struct bit_name header_flags[] = {
	{ PLAN_MAP_SELF, "map-self" },	     { PLAN_SETIDS, "set-ids" },
	{ PLAN_DROP_GROUPS, "drop-groups" }, { PLAN_PDEATHSIG, "parent-death-signal" },
	{ PLAN_LOOPBACK_UP, "loopback-up" }, { PLAN_TERMINAL, "terminal" },
};

static const struct bit_name fs_rights[] = {
	{ LL_FS_EXECUTE, "execute" },		{ LL_FS_WRITE_FILE, "write-file" },
	{ LL_FS_READ_FILE, "read-file" },	{ LL_FS_READ_DIR, "read-dir" },
	{ LL_FS_REMOVE_DIR, "remove-dir" },	{ LL_FS_REMOVE_FILE, "remove-file" },
	{ LL_FS_MAKE_CHAR, "make-char" },	{ LL_FS_MAKE_DIR, "make-dir" },
	{ LL_FS_MAKE_REG, "make-reg" },		{ LL_FS_MAKE_SOCK, "make-sock" },
	{ LL_FS_MAKE_FIFO, "make-fifo" },	{ LL_FS_MAKE_BLOCK, "make-block" },
	{ LL_FS_MAKE_SYM, "make-sym" },		{ LL_FS_REFER, "refer" },
	{ LL_FS_TRUNCATE, "truncate" },		{ LL_FS_IOCTL_DEV, "ioctl-dev" },
	{ LL_FS_RESOLVE_UNIX, "resolve-unix" },
};

static const struct bit_name net_rights[] = {
	{ LL_NET_BIND_TCP, "bind-tcp" },
	{ LL_NET_CONNECT_TCP, "connect-tcp" },
	{ LL_NET_BIND_UDP, "bind-udp" },
	{ LL_NET_CONNECT_SEND_UDP, "connect-send-udp" },
};

static const struct bit_name scopes[] = {
	{ LL_SCOPE_ABSTRACT_UNIX, "abstract-unix-socket" },
	{ LL_SCOPE_SIGNAL, "signal" },
};

static const char *const rlimit_names[] = {
	"cpu",	   "fsize", "data",  "stack",	   "core",     "rss",  "nproc",	 "nofile",
	"memlock", "as",    "locks", "sigpending", "msgqueue", "nice", "rtprio", "rttime",
};

const char *plan_op_name(unsigned type)
{
	return type < PLAN_OP_MAX ? op_names[type] : op_names[0];
}

static void put_bits(struct json_writer *w, const char *key, uint64_t bits,
		     const struct bit_name *names, size_t n)
{
	char text[512];
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		if (bits & names[i].bit)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
						len ? " " : "", names[i].name);
	}
	json_string(w, key, text);
}

static void put_list(struct json_writer *w, const char *key, const char *const *v)
{
	json_open_array(w, key);
	for (; v && *v; v++)
		json_string(w, NULL, *v);
	json_close_array(w);
}

static void put_offsets(struct json_writer *w, const char *key, const struct plan_header *h,
			const uint32_t *v, uint32_t n)
{
	json_open_array(w, key);
	for (uint32_t i = 0; i < n; i++)
		json_string(w, NULL, plan_string(h, v[i]));
	json_close_array(w);
}

static void put_op(struct json_writer *w, const struct plan_header *h, const struct plan_op *op)
{
	const char *src = plan_string(h, op->src), *dst = plan_string(h, op->dst);

	json_open_object(w, NULL);
	json_string(w, "do", plan_op_name(op->type));
	json_string(w, "path", op->dst ? dst : src);
	if (op->type == PLAN_OP_SYMLINK)
		json_string(w, "target", src);
	else if (op->type == PLAN_OP_FILE && op->data_len > TEXT_MAX)
		json_uint(w, "bytes", op->data_len);
	else if (op->type == PLAN_OP_FILE)
		json_bytes(w, "text", src, op->data_len);
	else if (op->src && op->dst && strcmp(src, dst) != 0)
		json_string(w, "from", src);
	if (op->flags)
		put_bits(w, "flags", op->flags, op_flags, ARRAY_SIZE(op_flags));
	if (op->mode) {
		char mode[16];

		snprintf(mode, sizeof(mode), "%04o", op->mode);
		json_string(w, "mode", mode);
	}
	if (op->fd_index >= 0)
		json_int(w, "mount", op->fd_index);
	if (op->flags & PLAN_IDENTITY) {
		json_open_object(w, "identity");
		json_uint(w, "major", op->dev_major);
		json_uint(w, "minor", op->dev_minor);
		json_uint(w, "inode", op->ino);
		json_close_object(w);
	}
	if (op->access)
		put_bits(w, "rights", op->access, fs_rights, ARRAY_SIZE(fs_rights));
	json_close_object(w);
}

static void put_ids(struct json_writer *w, const struct plan_header *h)
{
	json_open_object(w, "ids");
	json_uint(w, "uid", h->inner_uid);
	json_uint(w, "gid", h->inner_gid);
	json_uint(w, "host_uid", h->outer_uid);
	json_uint(w, "host_gid", h->outer_gid);
	json_close_object(w);
}

static void put_landlock(struct json_writer *w, const struct plan_header *h)
{
	json_open_object(w, "landlock");
	put_bits(w, "fs", h->handled_fs, fs_rights, ARRAY_SIZE(fs_rights));
	put_bits(w, "net", h->handled_net, net_rights, ARRAY_SIZE(net_rights));
	put_bits(w, "scopes", h->scoped, scopes, ARRAY_SIZE(scopes));
	json_close_object(w);
}

static void put_limits(struct json_writer *w, const struct plan *plan, const struct plan_header *h)
{
	const struct plan_limits *l = &plan->limits;

	json_open_object(w, "limits");
	if (l->wall_ms)
		json_uint(w, "wall_ms", l->wall_ms);
	json_uint(w, "grace_ms", l->grace_ms);
	if (l->memory_bytes)
		json_uint(w, "memory_bytes", l->memory_bytes);
	if (l->cpu_milli)
		json_uint(w, "cpu_milli", l->cpu_milli);
	if (l->cpu_time_ms)
		json_uint(w, "cpu_time_ms", l->cpu_time_ms);
	if (l->end_at_procs)
		json_uint(w, "end_at_procs", l->end_at_procs);
	if (l->output_bytes >= 0)
		json_int(w, "output_bytes", l->output_bytes);
	if (l->output_end)
		json_bool(w, "output_end", 1);
	if (h->tmpfs_bytes) {
		json_uint(w, "disk_bytes", h->tmpfs_bytes);
		json_uint(w, "disk_inodes", h->tmpfs_inodes);
	}
	if (l->workspace_bytes) {
		json_uint(w, "workspace_bytes", l->workspace_bytes);
		json_uint(w, "workspace_inodes", l->workspace_inodes);
	}
	for (uint32_t i = 0; i < h->n_rlimits; i++)
		json_uint(w, rlimit_names[h->rlimits[i].resource], h->rlimits[i].hard);
	json_open_object(w, "held_by");
	for (size_t i = 0; i < plan->n_enforced; i++)
		json_string(w, plan->enforced[i].limit, plan->enforced[i].by);
	json_close_object(w);
	json_close_object(w);
}

static void put_reserved(struct json_writer *w, const struct plan *plan)
{
	json_open_array(w, "holds");
	for (size_t i = 0; i < plan->n_reserved; i++) {
		json_open_object(w, NULL);
		json_string(w, "path", plan->reserved[i].path);
		if (plan->reserved[i].text)
			json_string(w, "text", plan->reserved[i].text);
		json_close_object(w);
	}
	json_close_array(w);
}

int plan_to_json(const struct plan *plan, int pretty, char **ret, struct cordon_error *err)
{
	const struct plan_header *h = plan->block;
	struct strbuf out = STRBUF_INIT;
	struct json_writer w;
	char *text;

	json_writer_init(&w, &out, pretty);
	json_open_object(&w, NULL);
	json_string(&w, "level", h->level == PLAN_LEVEL_NAMESPACES ? "namespaces" : "landlock");
	put_list(&w, "layers", plan->layers);
	put_list(&w, "missing", plan->missing);
	put_list(&w, "notes", plan->notes);
	json_string(&w, "program", plan_string(h, h->exec_path));
	put_offsets(&w, "argv", h, plan_argv(h), h->n_argv);
	json_string(&w, "cwd", plan_string(h, h->cwd));
	put_offsets(&w, "env", h, plan_envp(h), h->n_envp);
	put_ids(&w, h);
	put_bits(&w, "flags", h->flags, header_flags, ARRAY_SIZE(header_flags));
	if (h->hostname)
		json_string(&w, "hostname", plan_string(h, h->hostname));
	json_string(&w, "seccomp", seccomp_variant_name(h->filter));
	put_landlock(&w, h);
	put_limits(&w, plan, h);
	json_open_array(&w, "steps");
	for (uint32_t i = 0; i < h->n_ops; i++)
		put_op(&w, h, plan_ops(h) + i);
	json_close_array(&w);
	put_reserved(&w, plan);
	json_close_object(&w);
	text = strbuf_take(&out);
	if (!text)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	*ret = text;
	return 0;
}
