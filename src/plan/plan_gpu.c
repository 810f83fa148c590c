/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs: which ones `gpu` names, and what a program needs to use them.
 *
 * NVIDIA: the node of each, the driver's control node and its node for unified memory, the nodes of
 * the parts of a divided GPU, /proc/driver/nvidia without the other GPUs, and the driver's
 * libraries if they lie outside the system's directories. Inside, those that are visible are all
 * there are: they count from 0, and CUDA_VISIBLE_DEVICES says so.
 *
 * AMD and Intel: the render node, AMD's /dev/kfd, and the GPU's own directories of /sys, read-only,
 * without which their libraries find no GPU. At level landlock nothing of /sys but these is
 * readable.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "device/device.h"
#include "plan/plan_internal.h"

#define CUDA_BASE "libcuda.so"
#define CUDA_LIBRARY CUDA_BASE ".1"
#define KFD_SYS "/sys/devices/virtual/kfd"
#define LIBRARY_PATH "LD_LIBRARY_PATH"

struct plan_gpus {
	struct gpu_list list;
	bool is_chosen[GPUS_MAX];
	size_t n_nvidia;	  /* chosen ones */
	bool has_amd;		  /* one is chosen */
	const char *library_path; /* a directory that the loader has to be told; NULL = none */
};

/* How many there are that can be named by a number. */
static size_t count(const struct plan_gpus *g)
{
	size_t n = 0;

	for (size_t i = 0; i < g->list.n; i++)
		n += g->list.v[i].is_there;
	return n;
}

/* Why there is none at all. */
static int refuse_none(struct build *b, const struct plan_gpus *g)
{
	const struct gpu *gpu = g->list.n ? &g->list.v[0] : NULL;
	int r;

	if (gpu) {
		r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
			       "gpu: the driver has a GPU (%s), but '%s' is not there", gpu->name,
			       gpu->node);
		cordon_err_hint(b->err,
				"as root 'nvidia-modprobe -u -c %u' makes the node; in a "
				"container its runtime has to show it",
				gpu->number);
		return r;
	}
	if (g->list.has_nvidia_driver)
		return cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
				  "gpu: NVIDIA's driver is loaded and has found no GPU");
	r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
		       "gpu: there is no GPU here: no driver is loaded (nvidia, amdgpu, i915, xe)");
	cordon_err_hint(b->err, "in a container its runtime has to show them; 'cordon check' says "
				"what is there");
	return r;
}

static int refuse_name(struct build *b, const struct plan_gpus *g, const char *name, size_t len)
{
	size_t n = count(g);
	int r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0, "gpu: there is no GPU '%.*s' here",
			   (int)len, name);

	if (n == 1)
		cordon_err_hint(b->err, "there is one: 0; 'cordon check' lists it");
	else
		cordon_err_hint(b->err, "there are %zu: 0 to %zu; 'cordon check' lists them", n,
				n - 1);
	return r;
}

static bool is_called(const struct gpu *gpu, const char *name, size_t len)
{
	const char *base = strrchr(gpu->node, '/') + 1;

	if (gpu->uuid && strlen(gpu->uuid) == len && strncasecmp(gpu->uuid, name, len) == 0)
		return true;
	return strlen(base) == len && strncmp(base, name, len) == 0;
}

/* Chooses what one name of the policy means; false = nothing. */
static bool choose(struct plan_gpus *g, const char *name, size_t len)
{
	size_t number = 0, seen = 0;
	bool is_number = strspn(name, "0123456789") >= len;

	for (size_t i = 0; is_number && i < len; i++)
		number = number * 10 + (size_t)(name[i] - '0');
	for (size_t i = 0; i < g->list.n; i++) {
		if (!g->list.v[i].is_there)
			continue;
		if (is_number ? seen++ == number : is_called(&g->list.v[i], name, len)) {
			g->is_chosen[i] = true;
			return true;
		}
	}
	return false;
}

static int choose_all(struct build *b, struct plan_gpus *g)
{
	const char *at = b->policy->gpu;

	if (count(g) == 0)
		return refuse_none(b, g);
	if (strcmp(at, "all") == 0) {
		for (size_t i = 0; i < g->list.n; i++)
			g->is_chosen[i] = g->list.v[i].is_there;
		return 0;
	}
	for (;;) {
		size_t len = strcspn(at, ",");

		if (!choose(g, at, len))
			return refuse_name(b, g, at, len);
		if (!at[len])
			return 0;
		at += len + 1;
	}
}

/* Is it part of the view in any case? */
static bool is_system(const char *path)
{
	return path_is_within("/usr", path) || path_is_within("/lib", path) ||
	       path_is_within("/lib64", path) || path_is_within("/nix/store", path) ||
	       path_is_within("/gnu/store", path);
}

static bool has_library(const char *dir)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/" CUDA_LIBRARY, dir) < (int)sizeof(path) &&
	       access(path, R_OK) == 0;
}

/* Shows the driver's directory, unless it is shown or would show too much. */
static int grant_libraries(struct build *b, const char *dir)
{
	struct resolved res;

	if (plan_resolve(b, dir, &res) < 0 || res.missing || is_system(res.real) ||
	    plan_grant_of(b, res.real, false))
		return 0;
	if (discover_tree_allowed(b->home_real, res.real))
		return plan_add_grant(b, dir, GRANT_TOOL, false, NULL);
	return plan_note(b,
			 "the driver's libraries lie in '%s', which is not shown by itself: -r %s",
			 dir, dir);
}

/* A directory of the caller's LD_LIBRARY_PATH that has the driver's library; NULL = none. */
static const char *caller_library_dir(struct build *b)
{
	const char *const *envp = b->in->options->envp;
	const char *at = NULL;

	for (; envp && *envp; envp++)
		if (strncmp(*envp, LIBRARY_PATH "=", strlen(LIBRARY_PATH "=")) == 0)
			at = *envp + strlen(LIBRARY_PATH "=");
	while (at && *at) {
		size_t len = strcspn(at, ":");
		char *dir = arena_strndup(b->arena, at, len);

		if (dir && *dir == '/' && has_library(dir))
			return dir;
		at += len + (at[len] == ':');
	}
	return NULL;
}

/* The note about a library that is nowhere. */
static int note_missing(struct build *b)
{
	const char *yaml = device_cdi_yaml(b->arena, "");

	if (yaml)
		return plan_note(b,
				 CUDA_LIBRARY
				 " is not where the loader looks, and '%s' is YAML, which "
				 "is not read: 'nvidia-ctk cdi generate --format=json "
				 "--output=/etc/cdi/nvidia.json' as root makes one that is",
				 yaml);
	return plan_note(b, CUDA_LIBRARY " is not where the loader looks: CUDA programs will not "
					 "find the driver; -r DIR -e " LIBRARY_PATH
					 "=DIR names its place");
}

static int find_libraries(struct build *b, struct plan_gpus *g)
{
	const char *path = device_library_cached(b->arena, "", CUDA_LIBRARY), *dir;
	int r;

	if (path && access(path, R_OK) == 0) {
		dir = arena_strndup(b->arena, path, path_dir_len(path));
		return dir ? grant_libraries(b, dir) : plan_nomem(b);
	}
	for (size_t i = 0; device_default_dirs[i]; i++)
		if (has_library(device_default_dirs[i]))
			return 0;
	dir = caller_library_dir(b);
	for (size_t i = 0; !dir && device_library_dirs[i]; i++)
		if (has_library(device_library_dirs[i]))
			dir = device_library_dirs[i];
	if (!dir) {
		dir = device_library_cdi(b->arena, "", CUDA_BASE);
		dir = dir && has_library(dir) ? dir : NULL;
	}
	if (!dir)
		return note_missing(b);
	r = grant_libraries(b, dir);
	g->library_path = dir;
	return r;
}

/*
 * The library names its threads in /proc, which at this level is the host's and read-only, and
 * makes a Unix socket, which is refused there; it takes either for a failure of the system.
 */
static int refuse_level(struct build *b)
{
	cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
		   "gpu: NVIDIA's libraries do not work at level landlock");
	cordon_err_hint(b->err, "level namespaces is needed: 'cordon check' says what is in the "
				"way");
	return -CORDON_E_UNSUPPORTED;
}

static int add_nvidia(struct build *b, struct plan_gpus *g)
{
	static const char *const common[] = { DEVICE_NVIDIA_CONTROL, DEVICE_NVIDIA_UVM };
	struct strlist caps = { 0 };
	int r = b->in->level == PLAN_LEVEL_LANDLOCK ? refuse_level(b) : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(common); i++) {
		r = access(common[i], F_OK) < 0 ? -errno : plan_add_device(b, common[i]);
		if (r != -ENOENT)
			continue;
		r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
			       "gpu: '%s' of NVIDIA's driver is not there", common[i]);
		cordon_err_hint(b->err,
				"as root 'nvidia-modprobe -u -c 0' makes it; in a container "
				"its runtime has to show it");
	}
	for (size_t i = 0; r == 0 && i < g->list.n; i++)
		if (g->is_chosen[i] && g->list.v[i].vendor == GPU_NVIDIA &&
		    gpu_nvidia_caps(b->arena, "", g->list.v[i].number, &caps) < 0)
			r = plan_nomem(b);
	/* Of a GPU that is not divided there are none. A container may have only some. */
	for (size_t i = 0; r == 0 && i < caps.n; i++)
		if (access(caps.v[i], F_OK) == 0)
			r = plan_add_device(b, caps.v[i]);
	return r < 0 ? r : find_libraries(b, g);
}

static int add_chosen(struct build *b, struct plan_gpus *g)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < g->list.n; i++) {
		const struct gpu *gpu = &g->list.v[i];

		if (!g->is_chosen[i])
			continue;
		g->n_nvidia += gpu->vendor == GPU_NVIDIA;
		g->has_amd |= gpu->vendor == GPU_AMD;
		r = plan_add_device(b, gpu->node);
	}
	/* A display's GPU can be used without it, by Vulkan or OpenCL of Mesa. */
	if (r == 0 && g->has_amd && access(DEVICE_AMD_KFD, F_OK) == 0)
		r = plan_add_device(b, DEVICE_AMD_KFD);
	return r == 0 && g->n_nvidia ? add_nvidia(b, g) : r;
}

bool plan_has_nvidia(const struct build *b)
{
	return b->gpus && b->gpus->n_nvidia > 0;
}

void plan_meter_gpus(const struct build *b, struct meter_order *ret)
{
	for (size_t i = 0; i < b->gpus->list.n && ret->n_gpus < METER_GPUS_MAX; i++) {
		const struct gpu *gpu = &b->gpus->list.v[i];
		struct meter_gpu *at = &ret->gpus[ret->n_gpus];

		if (!b->gpus->is_chosen[i] || gpu->vendor != GPU_NVIDIA)
			continue;
		at->number = gpu->number;
		if (gpu->pci && strlen(gpu->pci) < sizeof(at->pci))
			memcpy(at->pci, gpu->pci, strlen(gpu->pci) + 1);
		ret->n_gpus++;
	}
}

int plan_collect_gpus(struct build *b)
{
	int r;

	if (!b->policy->gpu || strcmp(b->policy->gpu, "none") == 0)
		return 0;
	b->gpus = arena_alloc(b->arena, sizeof(*b->gpus));
	if (!b->gpus || gpu_find_all(b->arena, "", &b->gpus->list) < 0)
		return plan_nomem(b);
	r = choose_all(b, b->gpus);
	if (r == 0)
		r = add_chosen(b, b->gpus);
	return r < 0 ? r : plan_build_meter(b);
}

int plan_gpu_env(struct build *b)
{
	char text[GPUS_MAX * 3 + 1] = "";
	size_t len = 0;
	int r = 0;

	if (!b->gpus)
		return 0;
	for (size_t i = 0; i < b->gpus->n_nvidia; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%zu", i ? "," : "", i);
	if (len > 0)
		r = plan_env_set(b, "CUDA_VISIBLE_DEVICES", text);
	if (r == 0 && b->gpus->library_path)
		r = plan_env_set(b, LIBRARY_PATH, b->gpus->library_path);
	return r;
}

/* The other GPUs of NVIDIA, by what the driver says of them. */
static int hide_others(struct build *b)
{
	for (size_t i = 0; i < b->gpus->list.n; i++) {
		const struct gpu *gpu = &b->gpus->list.v[i];
		const char *paths[2];

		if (gpu->vendor != GPU_NVIDIA || !gpu->pci || b->gpus->is_chosen[i])
			continue;
		paths[0] = arena_printf(b->arena, DEVICE_NVIDIA_PROC "/gpus/%s", gpu->pci);
		paths[1] = arena_printf(b->arena, DEVICE_NVIDIA_PROC "/capabilities/gpu%u",
					gpu->number);
		for (size_t p = 0; p < ARRAY_SIZE(paths); p++) {
			if (!paths[p])
				return plan_nomem(b);
			if (access(paths[p], F_OK) == 0 &&
			    !plan_step(b, PLAN_OP_MASK, paths[p], NULL))
				return plan_nomem(b);
		}
	}
	return 0;
}

/*
 * The host's directory and not that of the sandbox's own /proc: a container's runtime may have put
 * another there, with its own GPUs alone.
 */
static int show_nvidia_proc(struct build *b)
{
	struct step *step;

	if (!b->gpus->n_nvidia || access(DEVICE_NVIDIA_PROC, F_OK) < 0)
		return 0;
	step = plan_step(b, PLAN_OP_BIND, DEVICE_NVIDIA_PROC, DEVICE_NVIDIA_PROC);
	if (!step)
		return plan_nomem(b);
	step->op.flags = PLAN_RDONLY | PLAN_NOEXEC | PLAN_MKPOINT;
	step->op.mode = 0555;
	step->op.access = plan_rights(b, RIGHTS_READ, true);
	return hide_others(b);
}

/* The directories of /sys that describe the chosen GPUs; the same for steps and rules. */
static int sys_dirs(struct build *b, struct strlist *ret)
{
	for (size_t i = 0; i < b->gpus->list.n; i++) {
		const struct gpu *gpu = &b->gpus->list.v[i];

		if (b->gpus->is_chosen[i] && gpu->sys && !strlist_has(ret, gpu->sys) &&
		    strlist_add(b->arena, ret, gpu->sys) < 0)
			return plan_nomem(b);
	}
	if (b->gpus->has_amd && access(KFD_SYS, F_OK) == 0 &&
	    strlist_add(b->arena, ret, KFD_SYS) < 0)
		return plan_nomem(b);
	return 0;
}

static int add_link(struct build *b, const char *path, const char *text)
{
	int r;

	if (!path || !text)
		return plan_nomem(b);
	if (strlist_has(&b->made, path))
		return 0;
	r = plan_make_parents(b, path);
	if (r == 0 && !plan_step(b, PLAN_OP_SYMLINK, path, text))
		r = plan_nomem(b);
	return r < 0 ? r : plan_list_add(b, &b->made, path);
}

/* How libraries find a GPU's directory: by its numbers, by its node's name and by its address. */
static int link_gpu(struct build *b, const struct gpu *gpu)
{
	const char *name = strrchr(gpu->node, '/') + 1;
	const char *drm = arena_printf(b->arena, "%s/drm/%s", gpu->sys, name);
	int r = add_link(b, arena_printf(b->arena, "/sys/dev/char/226:%u", gpu->number), drm);

	if (r == 0)
		r = add_link(b, arena_printf(b->arena, "/sys/class/drm/%s", name), drm);
	if (r == 0 && gpu->pci)
		r = add_link(b, arena_printf(b->arena, "/sys/bus/pci/devices/%s", gpu->pci),
			     gpu->sys);
	return r;
}

static int show_sys(struct build *b)
{
	struct strlist dirs = { 0 };
	int r = sys_dirs(b, &dirs);

	for (size_t i = 0; r == 0 && i < dirs.n; i++) {
		struct step *step;

		r = plan_make_parents(b, dirs.v[i]);
		if (r < 0)
			return r;
		step = plan_step(b, PLAN_OP_BIND, dirs.v[i], dirs.v[i]);
		if (!step)
			return plan_nomem(b);
		step->op.flags = PLAN_RDONLY | PLAN_MKPOINT;
		step->op.mode = 0555;
		step->op.access = plan_rights(b, RIGHTS_READ, true);
	}
	for (size_t i = 0; r == 0 && i < b->gpus->list.n; i++)
		if (b->gpus->is_chosen[i] && b->gpus->list.v[i].sys)
			r = link_gpu(b, &b->gpus->list.v[i]);
	if (r == 0 && strlist_has(&dirs, KFD_SYS))
		r = add_link(b, "/sys/class/kfd/kfd", KFD_SYS "/kfd");
	return r;
}

int plan_gpu_steps(struct build *b)
{
	int r = b->gpus ? show_nvidia_proc(b) : 0;

	return r == 0 && b->gpus ? show_sys(b) : r;
}

int plan_gpu_rules(struct build *b)
{
	struct strlist dirs = { 0 };
	int r = b->gpus ? sys_dirs(b, &dirs) : 0;

	for (size_t i = 0; r == 0 && i < dirs.n; i++) {
		struct step *step = plan_step(b, PLAN_OP_RULE, NULL, dirs.v[i]);

		if (!step)
			return plan_nomem(b);
		step->op.access = plan_rights(b, RIGHTS_READ, true);
	}
	return r;
}
