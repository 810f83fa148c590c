/* SPDX-License-Identifier: Apache-2.0 */
/* cordon microvm setup, status, gc: the guests that runs of level microvm start. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache_path.h"
#include "base/err.h"
#include "base/json_write.h"
#include "base/units.h"
#include "guest.h"
#include "out.h"
#include "probe/kvm.h"
#include "verbs.h"
#include "workspace.h"
#include "workspace/tree/tree.h"

struct microvm {
	struct cache cache;
	void *self;
	size_t self_len;
	char agent[SHA256_HEX];
};

struct lister {
	const struct microvm *vm;
	struct microvm_image newest;
	struct strbuf sb;
	struct json_writer w;
	int is_json, is_gc, dry_run;
	size_t n;
	int error; /* of the first that could not be removed */
};

static int fail(const struct cordon_error *err)
{
	say_error(err);
	return STATUS_FAILED;
}

static int no_operands(const struct parsed *args, struct cordon_error *err)
{
	if (!args->n_rest)
		return 0;
	(void)cordon_err(err, CORDON_E_USAGE, 0, "'%s' takes no argument '%s'",
			 verb_table[args->verb].name, args->rest[0]);
	(void)cordon_err_hint(err, "try 'cordon %s --help'", verb_table[args->verb].name);
	return -CORDON_E_USAGE;
}

static int open_all(bool make, struct microvm *ret, struct cordon_error *err)
{
	struct sha256 sum;
	int r = microvm_self(&ret->self, &ret->self_len, err);

	if (r < 0)
		return r;
	sha256_start(&sum);
	sha256_add(&sum, ret->self, ret->self_len);
	sha256_end_hex(&sum, ret->agent);
	return cache_open(CACHE_MICROVM, make, &ret->cache, err);
}

static int print_made(const struct microvm *vm, const struct microvm_image *image, int is_new,
		      int is_json)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	char size[HUMAN_MAX];

	if (is_json) {
		json_writer_init(&w, &sb, 0);
		json_open_object(&w, NULL);
		json_string(&w, "key", image->key);
		json_string(&w, "dir", vm->cache.path);
		json_string(&w, "kernel", image->kernel);
		json_uint(&w, "bytes", image->bytes);
		json_bool(&w, "new", is_new);
		json_close_object(&w);
		strbuf_putc(&sb, '\n');
	} else {
		strbuf_printf(&sb, "%s: Linux %s, %s in %s/%s\n",
			      is_new ? "ready" : "ready already", image->kernel,
			      human_size(image->bytes, size), vm->cache.path, image->key);
	}
	return out_finish(&sb, 0);
}

int cmd_microvm_setup(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct microvm vm = { .cache = { .fd = -1 } };
	struct microvm_image image;
	int is_new = 0, r, quiet = parsed_has(args, OPT_QUIET) || !isatty(STDERR_FILENO);
	const char *qemu;

	/* A guest that nothing can start is of no use. */
	if (no_operands(args, &err) < 0 || microvm_find_qemu(&qemu, &err) < 0 ||
	    open_all(true, &vm, &err) < 0)
		return fail(&err);
	microvm_tidy(&vm.cache);
	r = microvm_image_find(&vm.cache, vm.agent, &image, &err);
	if (r == 0 || (r > 0 && parsed_has(args, OPT_RENEW))) {
		is_new = 1;
		r = microvm_setup(&vm.cache, vm.self, vm.self_len, quiet, &image, &err);
	}
	if (r < 0)
		return fail(&err);
	return print_made(&vm, &image, is_new, parsed_has(args, OPT_JSON));
}

static void add_json(struct lister *l, const struct microvm_image *image)
{
	json_open_object(&l->w, NULL);
	json_string(&l->w, "key", image->key);
	json_string(&l->w, "kernel", image->kernel);
	json_uint(&l->w, "bytes", image->bytes);
	json_int(&l->w, "made", image->made_s);
	json_bool(&l->w, "usable", image->is_ours);
	json_close_object(&l->w);
}

static const char *state_of(const struct microvm_image *image)
{
	if (image->is_ours)
		return "usable";
	return image->is_whole ? "of another version of cordon" : "unfinished";
}

static void add_text(struct lister *l, const struct microvm_image *image)
{
	char size[HUMAN_MAX], age[HUMAN_MAX];

	if (l->is_gc)
		strbuf_printf(&l->sb, "%s %.12s: ", l->dry_run ? "would remove" : "removed",
			      image->key);
	else
		strbuf_printf(&l->sb, "guest         %.12s: %s, made %s ago, ", image->key,
			      human_size(image->bytes, size), human_age(image->made_s, age));
	if (image->is_whole)
		strbuf_printf(&l->sb, "Linux %s, ", image->kernel);
	strbuf_printf(&l->sb, "%s\n", state_of(image));
}

static int list_one(void *arg, const struct microvm_image *image)
{
	struct lister *l = arg;

	if (l->is_json)
		add_json(l, image);
	else
		add_text(l, image);
	l->n++;
	return 0;
}

/* A machine that runs has read its files, so that they can go. */
static int remove_one(void *arg, const struct microvm_image *image)
{
	struct lister *l = arg;
	int r, fd = -1;

	if (strcmp(image->key, l->newest.key) == 0)
		return 0;
	if (microvm_is_unfinished(image->key)) {
		/* A setup that goes on at this moment is not in the way. */
		fd = microvm_take_left(&l->vm->cache, image->key);
		if (fd < 0)
			return 0;
	}
	r = l->dry_run ? 0 : tree_remove(l->vm->cache.fd, image->key);
	if (fd >= 0)
		close(fd);
	if (r < 0) {
		if (!l->error)
			l->error = -r;
		return 0;
	}
	return list_one(arg, image);
}

/* Runs are emulated in any case; whether the machine could do better is told beside it. */
static void add_acceleration(struct lister *l)
{
	struct kvm_probe probe;

	probe_kvm(&probe);
	if (l->is_json) {
		json_string(&l->w, "acceleration", "tcg");
		json_string(&l->w, "kvm", probe_kvm_text(probe.state));
		json_string(&l->w, "remedy", probe_kvm_remedy(probe.state));
	} else if (probe.state == KVM_USABLE) {
		strbuf_puts(&l->sb, "acceleration  tcg (kvm is usable here, but not used yet)\n");
	} else {
		strbuf_printf(&l->sb, "acceleration  tcg (%s; for kvm: %s)\n",
			      probe_kvm_text(probe.state), probe_kvm_remedy(probe.state));
	}
}

int cmd_microvm_status(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT, none = CORDON_ERROR_INIT;
	struct microvm vm = { .cache = { .fd = -1 } };
	struct lister l = { .vm = &vm, .sb = STRBUF_INIT, .is_json = parsed_has(args, OPT_JSON) };
	const char *qemu = NULL;

	json_writer_init(&l.w, &l.sb, 0);
	if (no_operands(args, &err) < 0 || open_all(false, &vm, &err) < 0)
		return fail(&err);
	(void)microvm_find_qemu(&qemu, &none);
	if (l.is_json) {
		json_open_object(&l.w, NULL);
		json_string(&l.w, "qemu", qemu);
		add_acceleration(&l);
		json_string(&l.w, "dir", vm.cache.path);
		json_open_array(&l.w, "guests");
	} else {
		strbuf_printf(&l.sb, "qemu          %s\n",
			      qemu ? qemu : "missing (apt install qemu-system-x86)");
		add_acceleration(&l);
	}
	if (microvm_images(&vm.cache, vm.agent, list_one, &l, &err) < 0) {
		strbuf_done(&l.sb);
		return fail(&err);
	}
	if (l.is_json) {
		json_close_array(&l.w);
		json_close_object(&l.w);
		strbuf_putc(&l.sb, '\n');
	} else if (!l.n) {
		strbuf_puts(&l.sb, "guest         none ('cordon microvm setup' makes one)\n");
	}
	return out_finish(&l.sb, 0);
}

int cmd_microvm_gc(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct microvm vm = { .cache = { .fd = -1 } };
	struct lister l = { .vm = &vm,
			    .newest = { .kernel = "" },
			    .sb = STRBUF_INIT,
			    .is_json = parsed_has(args, OPT_JSON),
			    .is_gc = 1,
			    .dry_run = parsed_has(args, OPT_ONLY_SAY) };

	json_writer_init(&l.w, &l.sb, 0);
	if (no_operands(args, &err) < 0 || open_all(false, &vm, &err) < 0 ||
	    microvm_image_find(&vm.cache, vm.agent, &l.newest, &err) < 0)
		return fail(&err);
	if (l.is_json) {
		json_open_object(&l.w, NULL);
		json_open_array(&l.w, "guests");
	}
	if (microvm_images(&vm.cache, vm.agent, remove_one, &l, &err) < 0) {
		strbuf_done(&l.sb);
		return fail(&err);
	}
	if (l.is_json) {
		json_close_array(&l.w);
		json_uint(&l.w, "removed", l.dry_run ? 0 : l.n);
		json_close_object(&l.w);
		strbuf_putc(&l.sb, '\n');
	} else if (!l.n && !l.error) {
		strbuf_puts(&l.sb, "nothing to remove\n");
	}
	if (l.error) {
		cordon_err(&err, CORDON_E_SYSTEM, l.error,
			   "not everything in '%s' could be removed", vm.cache.path);
		say_error(&err);
	}
	return out_finish(&l.sb, l.error ? STATUS_FAILED : 0);
}
