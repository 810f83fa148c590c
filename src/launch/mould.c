/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: find every difference between a parked init and one that would be made now, in what it
 * inherits from its maker and in what it shows of the host. Mustn't: call anything the same that
 * could not be looked at.
 *
 * What a parked init shows is mounted by then: a directory or file that the host replaces stays the
 * old one inside, and a copied file is the old copy. Copies and links are compared with the steps
 * of the run's own plan (plan_has_common()); mounted objects here, by device, inode and time of
 * change. Objects are read before an init is made: what is replaced meanwhile is found different
 * later.
 */
#include "launch/mould.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/caller.h"
#include "plan/plan_read.h"
#include "sys/calls.h"

struct shown {
	const char *path; /* in the mould's plan */
	dev_t dev, rdev;
	ino_t ino;
	mode_t mode;
	struct timespec changed;
};

/* What init follows to mount it (init/mount_ops.c). A link is told by itself, too. */
static int look_at(const char *path, struct shown *ret)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return -errno;
	*ret = (struct shown){ .path = path,
			       .dev = st.st_dev,
			       .rdev = st.st_rdev,
			       .ino = st.st_ino,
			       .mode = st.st_mode,
			       .changed = st.st_ctim };
	return 0;
}

static bool is_same_object(const struct shown *a, const struct shown *b)
{
	return a->dev == b->dev && a->rdev == b->rdev && a->ino == b->ino && a->mode == b->mode &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static int look_at_all(struct mould *m, struct cordon_error *err)
{
	const struct plan_header *h = m->plan->block;
	const struct plan_op *ops = plan_ops(h);

	m->v = calloc(h->n_common_ops, sizeof(*m->v));
	if (!m->v)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	for (uint32_t i = 0; i < h->n_common_ops; i++) {
		const char *path = plan_string(h, ops[i].src);
		int r;

		if (ops[i].type != PLAN_OP_BIND)
			continue;
		/* Passed as a descriptor it would belong to one run. */
		r = ops[i].fd_index >= 0 ? -EINVAL : look_at(path, &m->v[m->n]);
		if (r < 0)
			return cordon_err(err, CORDON_E_PATH, -r, "cannot look at '%s'", path);
		m->n++;
	}
	return 0;
}

static struct plan *copy_block(const void *block, size_t size)
{
	struct plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	plan->block = arena_alloc(&plan->block_arena, size);
	if (!plan->block) {
		plan_free(plan);
		return NULL;
	}
	memcpy(plan->block, block, size);
	plan->block_size = size;
	return plan;
}

struct plan *mould_plan(const struct mould *m)
{
	return copy_block(m->plan->block, m->plan->block_size);
}

/* The common steps are known, and the rest of the plan is not needed. */
static int keep_common(void *ctx, const struct plan *common, struct cordon_error *err)
{
	struct plan **ret = ctx;

	*ret = copy_block(common->block, common->block_size);
	if (!*ret)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	return cordon_err(err, CORDON_E_STATE, 0, "no more is needed");
}

static int plan_common(struct cordon_launcher *l, const struct cordon_policy *policy,
		       const struct cordon_run_options *options, struct plan **ret,
		       struct cordon_error *err)
{
	struct plan_input input = { .policy = policy,
				    .level = PLAN_LEVEL_NAMESPACES,
				    .common_is_known = keep_common,
				    .ctx = ret };
	struct plan *rest = NULL;
	int r = pretend_run(l, &input, options, &rest, err);

	if (r == 0) /* it has no common steps */
		plan_free(rest);
	if (!*ret)
		return r < 0 ? r : cordon_err(err, CORDON_E_STATE, 0, "nothing to park");
	if (err)
		*err = (struct cordon_error)CORDON_ERROR_INIT;
	return 0;
}

int mould_watch_mounts(void)
{
	return sys_openat(AT_FDCWD, "/proc/thread-self/mountinfo", O_RDONLY | O_CLOEXEC, 0);
}

static int read_mould(struct mould *m, struct cordon_launcher *l,
		      const struct cordon_policy *policy, const struct cordon_run_options *options,
		      struct cordon_error *err)
{
	int r;

	/* Before all else: from here on a change is told. */
	m->mounts_fd = mould_watch_mounts();
	if (m->mounts_fd < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -m->mounts_fd, "cannot watch the mounts");
	r = caller_state_read(m->n_filters, &m->caller);
	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot read this process's state");
	r = plan_common(l, policy, options, &m->plan, err);
	return r < 0 ? r : look_at_all(m, err);
}

int mould_make(struct cordon_launcher *l, const struct cordon_policy *policy,
	       const struct cordon_run_options *options, unsigned n_filters, struct mould **ret,
	       struct cordon_error *err)
{
	struct mould *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	m->mounts_fd = -1;
	m->n_filters = n_filters;
	r = read_mould(m, l, policy, options, err);
	if (r < 0) {
		mould_free(m);
		return r;
	}
	*ret = m;
	return 0;
}

void mould_free(struct mould *m)
{
	if (!m)
		return;
	if (m->mounts_fd >= 0)
		close(m->mounts_fd);
	plan_free(m->plan);
	free(m->v);
	free(m->caller);
	free(m);
}

bool mould_mounts_changed(const struct mould *m)
{
	struct pollfd p = { .fd = m->mounts_fd, .events = POLLPRI };

	return poll(&p, 1, 0) != 0;
}

bool mould_is_same(const struct mould *m)
{
	struct caller_state *now;
	struct shown object = { .path = NULL };
	bool is_same;

	for (size_t i = 0; i < m->n; i++)
		if (look_at(m->v[i].path, &object) < 0 || !is_same_object(&object, &m->v[i]))
			return false;
	if (caller_state_read(m->n_filters, &now) < 0)
		return false;
	is_same = caller_state_equals(now, m->caller);
	free(now);
	return is_same;
}

bool mould_fits(const struct mould *m, const struct spawned *init)
{
	return caller_state_is_of(m->caller, init->pid);
}

/*
 * A process cannot read its own domain. But one that has entered a domain since may not look into a
 * process outside of it, and this call, of which the answer is not needed, asks just that.
 */
bool mould_is_open(const struct spawned *init)
{
	size_t len;
	void *head;

	return syscall(SYS_get_robust_list, init->pid, &head, &len) == 0;
}

bool init_is_waiting(const struct spawned *init)
{
	struct pollfd p[2] = { { .fd = init->pid_fd, .events = POLLIN },
			       { .fd = init->ctl_fd, .events = POLLIN } };

	return poll(p, 2, 0) == 0;
}

/* --- for another process ---------------------------------------------------------------------- */

#define PIECE_MAX ((size_t)1 << 20)

/* Then come the common steps, the objects in their order, and the caller's state. */
struct mould_head {
	uint32_t plan_size, state_size;
	uint32_t n_objects, n_filters;
};

void mould_write(const struct mould *m, struct strbuf *sb)
{
	const struct mould_head head = {
		.plan_size = (uint32_t)m->plan->block_size,
		.state_size = (uint32_t)caller_state_size(m->caller),
		.n_objects = (uint32_t)m->n,
		.n_filters = m->n_filters,
	};

	strbuf_add(sb, (const char *)&head, sizeof(head));
	strbuf_add(sb, m->plan->block, m->plan->block_size);
	for (size_t i = 0; i < m->n; i++) {
		struct shown object = m->v[i];

		object.path = NULL; /* the plan has it */
		strbuf_add(sb, (const char *)&object, sizeof(object));
	}
	strbuf_add(sb, (const char *)m->caller, head.state_size);
}

/* The paths of the objects are those of the steps that mount them. */
static bool read_objects(struct mould *m, const char *data, size_t n)
{
	const struct plan_header *h = m->plan->block;
	const struct plan_op *ops = plan_ops(h);

	m->v = calloc(h->n_common_ops, sizeof(*m->v));
	for (uint32_t i = 0; m->v && i < h->n_common_ops; i++) {
		if (ops[i].type != PLAN_OP_BIND)
			continue;
		if (m->n == n)
			return false;
		memcpy(&m->v[m->n], data + m->n * sizeof(*m->v), sizeof(*m->v));
		m->v[m->n++].path = plan_string(h, ops[i].src);
	}
	return m->v && m->n == n;
}

static bool read_piece(struct mould *m, const char *data, size_t size)
{
	struct mould_head head;
	size_t objects;

	if (size < sizeof(head) || size > PIECE_MAX)
		return false;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	size -= sizeof(head);
	objects = (size_t)head.n_objects * sizeof(*m->v);
	if (head.plan_size > size || objects > size - head.plan_size ||
	    head.state_size != size - head.plan_size - objects)
		return false;
	m->n_filters = head.n_filters;
	m->plan = copy_block(data, head.plan_size);
	/* Only now: it has to be aligned. */
	if (!m->plan || plan_read_check(m->plan->block, head.plan_size) != 0 ||
	    !read_objects(m, data + head.plan_size, head.n_objects))
		return false;
	m->caller = caller_state_copy(data + head.plan_size + objects, head.state_size);
	return m->caller != NULL;
}

struct mould *mould_read(const char *data, size_t size, int mounts_fd)
{
	struct mould *m = calloc(1, sizeof(*m));

	if (!m) {
		close(mounts_fd);
		return NULL;
	}
	m->mounts_fd = mounts_fd;
	m->refs = 1;
	if (read_piece(m, data, size))
		return m;
	mould_free(m);
	return NULL;
}
