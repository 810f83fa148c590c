/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the meter has to know (src/meter): NVIDIA's GPUs of the run, and where the driver's library
 * is that can be asked about them. Only places that root fills are looked at, not the caller's
 * LD_LIBRARY_PATH; the launcher looks whether the file is root's.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "plan/plan_internal.h"

#define NVML_BASE "libnvidia-ml.so"
#define NVML_LIBRARY NVML_BASE ".1"

static bool is_there(const char *path)
{
	return path && access(path, R_OK) == 0;
}

/* In a directory; NULL = it is not there. */
static const char *within(struct build *b, const char *dir)
{
	const char *path = dir ? arena_printf(b->arena, "%s/" NVML_LIBRARY, dir) : NULL;

	return is_there(path) ? path : NULL;
}

static const char *find_library(struct build *b)
{
	const char *path = device_library_cached(b->arena, "", NVML_LIBRARY);

	if (is_there(path))
		return path;
	path = NULL;
	for (size_t i = 0; !path && device_default_dirs[i]; i++)
		path = within(b, device_default_dirs[i]);
	for (size_t i = 0; !path && device_library_dirs[i]; i++)
		path = within(b, device_library_dirs[i]);
	return path ? path : within(b, device_library_cdi(b->arena, "", NVML_BASE));
}

static int set_ids(struct build *b, struct meter_order *order)
{
	order->uid = order->gid = METER_NO_ID;
	/* The run's own: they may open its nodes. */
	return b->is_root ? plan_outer_ids(b->in, &order->uid, &order->gid, b->err) : 0;
}

int plan_build_meter(struct build *b)
{
	const char *path = plan_has_nvidia(b) ? find_library(b) : NULL;
	struct meter_order *order;
	struct resolved res;
	size_t len;
	int r;

	if (!path || plan_resolve(b, path, &res) < 0 || res.missing)
		return 0;
	len = path_dir_len(res.real);
	order = arena_alloc(b->arena, sizeof(*order));
	if (!order)
		return plan_nomem(b);
	if (len >= sizeof(order->library_dir))
		return 0;
	memset(order, 0, sizeof(*order));
	order->magic = METER_MAGIC;
	order->handled_fs = b->in->machine->landlock_fs;
	order->handled_net = b->in->machine->landlock_net;
	order->scoped = b->in->machine->landlock_scoped;
	memcpy(order->library_dir, res.real, len);
	plan_meter_gpus(b, order);
	r = set_ids(b, order);
	if (r < 0)
		return r;
	b->plan->meter = order;
	b->plan->meter_library = arena_strdup(b->arena, res.real);
	return b->plan->meter_library ? 0 : plan_nomem(b);
}
