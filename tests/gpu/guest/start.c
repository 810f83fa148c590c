/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a CUDA program does: the driver, a context, a kernel, the end. By the driver's
 * interface, which is looked up here: nothing of CUDA is needed to build it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static const char kernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			     ".visible .entry put(.param .u64 at)\n{\n"
			     ".reg .u64 %a, %g;\n.reg .u32 %v;\n"
			     "ld.param.u64 %a, [at];\ncvta.to.global.u64 %g, %a;\n"
			     "mov.u32 %v, 42;\nst.global.u32 [%g], %v;\nret;\n}\n";

static void *library;

static void *symbol(const char *name)
{
	void *at = dlsym(library, name);

	if (!at) {
		fprintf(stderr, "there is no %s\n", name);
		exit(2);
	}
	return at;
}

#define CALL(name, types, ...)                                                                     \
	do {                                                                                       \
		int code = ((int(*) types)symbol(name))(__VA_ARGS__);                              \
		if (code) {                                                                        \
			fprintf(stderr, "%s: %d\n", name, code);                                   \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

int main(void)
{
	void *context, *module, *function;
	unsigned long long memory;
	void *arguments[] = { &memory };
	unsigned value = 0;
	int device;

	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	CALL("cuInit", (unsigned), 0);
	CALL("cuDeviceGet", (int *, int), &device, 0);
	CALL("cuCtxCreate_v2", (void **, unsigned, int), &context, 0, device);
	CALL("cuModuleLoadData", (void **, const void *), &module, kernel);
	CALL("cuModuleGetFunction", (void **, void *, const char *), &function, module, "put");
	CALL("cuMemAlloc_v2", (unsigned long long *, size_t), &memory, sizeof(value));
	CALL("cuLaunchKernel",
	     (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
	      void **, void **),
	     function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
	CALL("cuMemcpyDtoH_v2", (void *, unsigned long long, size_t), &value, memory,
	     sizeof(value));
	printf("%s\n", value == 42 ? "right" : "WRONG");
	return value != 42;
}
