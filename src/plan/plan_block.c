/* SPDX-License-Identifier: Apache-2.0 */
/* Steps, arguments and environment -> the flat block that init reads. */
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "plan/plan_internal.h"
#include "plan/plan_read.h"

struct writer {
	char *block;
	size_t pos, size; /* of the string area */
};

struct step *plan_step(struct build *b, unsigned type, const char *dst, const char *src)
{
	struct step *step = PLAN_ADD(b, steps, n_steps, cap_steps);

	if (!step)
		return NULL;
	step->op.type = (uint16_t)type;
	step->op.fd_index = -1;
	step->dst = dst;
	step->src = src;
	return step;
}

void plan_set_identity(struct step *step, dev_t dev, ino_t ino)
{
	step->op.flags |= PLAN_IDENTITY;
	step->op.dev_major = major(dev);
	step->op.dev_minor = minor(dev);
	step->op.ino = ino;
}

int plan_pass_fd(struct build *b, struct step *step, int fd)
{
	int *slot = PLAN_ADD(b, mount_fds, n_mount_fds, cap_mount_fds);

	if (!slot) {
		close(fd);
		return plan_nomem(b);
	}
	*slot = fd;
	step->op.fd_index = (int32_t)(b->n_mount_fds - 1);
	return 0;
}

static size_t string_size(const char *s)
{
	return s ? strlen(s) + 1 : 0;
}

static size_t count_strings(const char *const *v, size_t *size)
{
	size_t n = 0;

	for (; v && v[n]; n++)
		*size += string_size(v[n]);
	return n;
}

static uint32_t put_bytes(struct writer *w, const char *data, size_t len)
{
	uint32_t off = (uint32_t)w->pos;

	memcpy(w->block + w->pos, data, len);
	w->pos += len;
	return off;
}

static uint32_t put_string(struct writer *w, const char *s)
{
	return s ? put_bytes(w, s, strlen(s) + 1) : 0;
}

static void put_steps(const struct build *b, struct writer *w, const struct plan_header *h)
{
	struct plan_op *ops = (void *)(w->block + h->ops_off);

	for (size_t i = 0; i < b->n_steps; i++) {
		const struct step *step = &b->steps[i];

		ops[i] = step->op;
		ops[i].dst = put_string(w, step->dst);
		ops[i].src = put_string(w, step->src);
	}
}

static void put_list(struct writer *w, uint32_t off, const char *const *v, size_t n)
{
	uint32_t *out = (void *)(w->block + off);

	for (size_t i = 0; i < n; i++)
		out[i] = put_string(w, v[i]);
}

int plan_fill_header(struct build *b)
{
	const struct probe_machine *m = b->in->machine;
	bool namespaces = b->in->level == PLAN_LEVEL_NAMESPACES;
	struct plan_header *h = &b->header;
	int r;

	h->magic = PLAN_MAGIC;
	h->version = PLAN_VERSION;
	h->level = (uint32_t)b->in->level;
	if (b->in->is_main_thread)
		h->flags |= PLAN_PDEATHSIG;
	if (namespaces)
		h->flags |= PLAN_LOOPBACK_UP;
	if (b->in->options->terminal)
		h->flags |= PLAN_TERMINAL;
	if (b->in->options->files)
		h->flags |= PLAN_FILES;
	if (b->in->options->session)
		h->flags |= PLAN_SESSION;
	if (plan_loses_tmp(b))
		h->flags |= PLAN_LOSES_TMP;
	plan_net_header(b, h);
	h->filter = (uint32_t)plan_choose_filter(b);
	h->handled_fs = m->landlock_fs;
	h->handled_net = namespaces ? 0 : m->landlock_net;
	h->scoped = m->landlock_scoped;
	r = plan_build_ids(b, h);
	if (r < 0)
		return r;
	return plan_build_limits(b, h);
}

/* Sets every offset; returns the size of the whole block. */
static size_t lay_out(const struct build *b, struct plan_header *h, size_t strings)
{
	size_t size = sizeof(*h);

	h->n_ops = (uint32_t)b->n_steps;
	h->n_common_ops = (uint32_t)b->n_common_steps;
	h->ops_off = (uint32_t)size;
	size += b->n_steps * sizeof(struct plan_op);
	h->argv_off = (uint32_t)size;
	size += h->n_argv * sizeof(uint32_t);
	h->envp_off = (uint32_t)size;
	size += h->n_envp * sizeof(uint32_t);
	h->strings_off = (uint32_t)size;
	return size + strings;
}

static int check_sizes(struct build *b, size_t size)
{
	int r;

	if (b->n_steps > PLAN_OPS_MAX || b->n_mount_fds > PLAN_MOUNT_FDS_MAX) {
		r = cordon_err(b->err, CORDON_E_POLICY, 0, "the policy needs %zu set-up steps",
			       b->n_steps);
		cordon_err_hint(b->err, "at most %d are possible; grant directories, not files",
				PLAN_OPS_MAX);
		return r;
	}
	if (size > PLAN_SIZE_MAX)
		return cordon_err(b->err, CORDON_E_USAGE, 0,
				  "arguments and environment are too large (%zu bytes)", size);
	return 0;
}

/* As the command sees it. */
static const char *workspace_path(const struct build *b)
{
	const struct plan_workspace *ws = b->in->workspace;

	if (!ws)
		return NULL;
	return b->in->level == PLAN_LEVEL_NAMESPACES ? ws->base : ws->dir;
}

/* What a block has besides its header and steps. */
struct content {
	const char *const *argv, *const *envp; /* NULL-terminated; @n_envp counts */
	size_t n_envp;
	const char *exec_path, *start_dir, *workspace, *lost_home;
};

static int write_block(struct build *b, const struct content *c, struct arena *arena, void **ret,
		       size_t *ret_size)
{
	static const char hostname[] = "cordon";
	struct plan_header head = b->header, *h;
	size_t strings = 1, size;
	struct writer w;
	int r;

	for (size_t i = 0; i < b->n_steps; i++)
		strings += string_size(b->steps[i].dst) + string_size(b->steps[i].src);
	head.n_mount_fds = (uint32_t)b->n_mount_fds;
	head.n_argv = (uint32_t)count_strings(c->argv, &strings);
	head.n_envp = (uint32_t)c->n_envp;
	for (size_t i = 0; i < c->n_envp; i++)
		strings += string_size(c->envp[i]);
	strings += string_size(c->exec_path) + string_size(c->start_dir) + sizeof(hostname);
	strings += string_size(c->workspace) + string_size(c->lost_home);
	size = lay_out(b, &head, strings);
	r = check_sizes(b, size);
	if (r < 0)
		return r;
	w.block = arena_alloc(arena, size);
	if (!w.block)
		return plan_nomem(b);
	w.pos = head.strings_off;
	w.size = size;
	h = (void *)w.block;
	*h = head;
	h->size = (uint32_t)size;
	put_steps(b, &w, h);
	put_list(&w, h->argv_off, c->argv, h->n_argv);
	put_list(&w, h->envp_off, c->envp, h->n_envp);
	h->exec_path = put_string(&w, c->exec_path);
	h->cwd = put_string(&w, c->start_dir);
	h->workspace = put_string(&w, c->workspace);
	h->lost_home = put_string(&w, c->lost_home);
	if (b->in->level == PLAN_LEVEL_NAMESPACES)
		h->hostname = put_bytes(&w, hostname, sizeof(hostname));
	*ret = w.block;
	*ret_size = size;
	if (plan_read_check(w.block, size) != 0)
		return cordon_err(b->err, CORDON_E_STATE, 0,
				  "the plan does not pass its own check (%d)",
				  plan_read_check(w.block, size));
	return 0;
}

/* Unused: nothing is executed. */
static const char *const nothing[] = { "none", NULL };

int plan_write_common(struct build *b, struct plan *ret)
{
	const struct content content = {
		.argv = nothing,
		.exec_path = b->in->options->files || b->in->options->session ? NULL : "/",
		.start_dir = "/",
	};

	return write_block(b, &content, b->arena, &ret->block, &ret->block_size);
}

int plan_write_block(struct build *b)
{
	struct content content = {
		.argv = b->in->options->argv,
		.envp = b->env.v,
		.n_envp = b->env.n,
		.exec_path = b->program.exec_path,
		.start_dir = b->start_dir,
		.workspace = workspace_path(b),
		.lost_home = plan_lost_home(b),
	};

	if (b->in->is_self) {
		content.argv = nothing;
		content.exec_path = content.start_dir = "/";
	}
	/* Its program was only looked for, so that its installation is there. */
	if (b->in->options->session) {
		content.argv = nothing;
		content.exec_path = NULL;
	}
	return write_block(b, &content, &b->plan->block_arena, &b->plan->block,
			   &b->plan->block_size);
}

void plan_map_block(struct plan *plan, int fd)
{
	void *at = plan->is_mapped ? MAP_FAILED
				   : mmap(NULL, plan->block_size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (at == MAP_FAILED)
		return;
	arena_done(&plan->block_arena);
	plan->block = at;
	plan->is_mapped = true;
}
