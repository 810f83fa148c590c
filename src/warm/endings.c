/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of the libraries that were loaded before an interpreter was frozen.
 *
 * When a process ends, the dynamic linker calls the destructors of every library. Nearly all have
 * none of their own, but the compiler's, which does nothing by then: and to call it means to copy a
 * page of each library, and to map some more. With numpy and pandas that takes longer than all that
 * a small program computes. So libraries are looked at before they are frozen, and at the end only
 * the destructors that do something are called, by us.
 *
 * The linker calls what needs a library before that library; else in the order in which they were
 * loaded, which is ours. Where the two differ, and if a library has been loaded or unloaded since,
 * the linker does it all.
 *
 * A library can also ask for a function to be called by exit(). These are called, but for one that
 * is known to do nothing but give memory back piece by piece, which the kernel does at once.
 */
#include "warm/endings.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#define ENDINGS_MAX 64
#define LIBRARIES_MAX 1024

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void),
			   void (*)(void), void *);

struct library {
	const ElfW(Dyn) * dynamic;
	const char *names; /* the table of names */
	const char *path, *soname;
	uint64_t at; /* where it lies */
	int has_endings;
	unsigned seen; /* by the search with this number */
};

static struct library libraries[LIBRARIES_MAX];
static unsigned n_libraries, n_searches;

static struct {
	void (*linker)(void); /* calls all */
	void (*v[ENDINGS_MAX])(void);
	unsigned n;
	int is_known;
	unsigned long long loads, unloads;
	void (*last)(void);
} endings;

/* What crti.o and crtn.o make: nothing between a frame's begin and end. */
static int is_empty_function(const unsigned char *code)
{
	static const unsigned char mark[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	static const unsigned char frame[] = {
		0x48, 0x83, 0xec, 0x08, 0x48, 0x83, 0xc4, 0x08, 0xc3
	};

	if (memcmp(code, mark, sizeof(mark)) == 0)
		code += sizeof(mark);
	return memcmp(code, frame, sizeof(frame)) == 0;
}

/* crtbegin's, whole: a library's own may begin with the same question, whether it is done already.
 * What it calls has been called by exit() when the linker comes to it. */
static int is_compilers(const unsigned char *code)
{
	/* -1: any byte. What is asked at first is what is set at the end. */
	static const short want[] = { 0x80, 0x3d, -1,	-1,   -1, -1,	0,  0x75, -1,	0x55,
				      0x48, 0x83, 0x3d, -1,   -1, -1,	-1, 0,	  0x48, 0x89,
				      0xe5, 0x74, -1,	0x48, -1, 0x3d, -1, -1,	  -1,	-1,
				      0xe8, -1,	  -1,	-1,   -1, 0xe8, -1, -1,	  -1,	-1,
				      0xc6, 0x05, -1,	-1,   -1, -1,	1,  0x5d, 0xc3 };
	static const unsigned char mark[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	int asked, set;

	if (memcmp(code, mark, sizeof(mark)) == 0)
		code += sizeof(mark);
	for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (want[i] >= 0 && code[i] != want[i])
			return 0;
	memcpy(&asked, code + 2, sizeof(asked));
	memcpy(&set, code + 42, sizeof(set));
	return asked + 7 == set + 47;
}

static int only_frees(void *function)
{
	Dl_info found;

	return dladdr(function, &found) != 0 && found.dli_saddr == function && found.dli_sname &&
	       strcmp(found.dli_sname, "OPENSSL_cleanup") == 0;
}

static int keep(void (*function)(void))
{
	if (endings.n == ENDINGS_MAX)
		return 1;
	endings.v[endings.n++] = function;
	return 0;
}

static void read_dynamic(const struct dl_phdr_info *info, struct library *ret)
{
	uint64_t names = 0;
	const ElfW(Dyn) * entry;

	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			ret->dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	ret->at = info->dlpi_addr;
	ret->path = info->dlpi_name;
	for (entry = ret->dynamic; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_STRTAB)
			names = entry->d_un.d_ptr;
	/* The linker has made an address of it, where it may write. */
	ret->names = (const char *)(names < ret->at ? names + ret->at : names);
	for (entry = ret->dynamic; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_SONAME)
			ret->soname = ret->names + entry->d_un.d_val;
}

/* -1: there are too many. */
static int keep_endings(struct library *library)
{
	uint64_t fini = 0, array = 0, bytes = 0;
	const ElfW(Dyn) * entry;

	for (entry = library->dynamic; entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_FINI)
			fini = library->at + entry->d_un.d_ptr;
		else if (entry->d_tag == DT_FINI_ARRAY)
			array = library->at + entry->d_un.d_ptr;
		else if (entry->d_tag == DT_FINI_ARRAYSZ)
			bytes = entry->d_un.d_val;
	}
	/* As the linker calls them: the last one first, and then the old kind. */
	for (uint64_t n = array ? bytes / sizeof(void *) : 0; n > 0; n--) {
		void (*const *list)(void) = (void (*const *)(void))array;

		if (is_compilers((const unsigned char *)(uintptr_t)list[n - 1]))
			continue;
		library->has_endings = 1;
		if (keep(list[n - 1]))
			return -1;
	}
	if (!fini || is_empty_function((const unsigned char *)fini))
		return 0;
	library->has_endings = 1;
	return keep((void (*)(void))fini) ? -1 : 0;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct library *library = &libraries[n_libraries];

	(void)size;
	(void)unused;
	if (n_libraries == LIBRARIES_MAX)
		return 1;
	memset(library, 0, sizeof(*library));
	read_dynamic(info, library);
	n_libraries++;
	endings.loads = info->dlpi_adds;
	endings.unloads = info->dlpi_subs;
	return keep_endings(library) < 0;
}

static int is_called(const struct library *library, const char *name)
{
	const char *base = library->path ? strrchr(library->path, '/') : NULL;

	if (library->soname && strcmp(library->soname, name) == 0)
		return 1;
	/* By its path, too, if the linker has found it so. */
	return library->path && (strcmp(library->path, name) == 0 ||
				 strcmp(base ? base + 1 : library->path, name) == 0);
}

/* Whether a library needs one, or one that needs it. Not deeper than the list of libraries, since
 * each is looked at once. */
static int needs(struct library *from, const struct library *wanted) // NOLINT(misc-no-recursion)
{
	from->seen = n_searches;
	for (const ElfW(Dyn) *entry = from->dynamic; entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag != DT_NEEDED)
			continue;
		for (unsigned i = 0; i < n_libraries; i++) {
			struct library *found = &libraries[i];

			if (!is_called(found, from->names + entry->d_un.d_val))
				continue;
			if (found == wanted || (found->seen != n_searches && needs(found, wanted)))
				return 1;
		}
	}
	return 0;
}

/* Whether one with endings was loaded before another one that needs it. */
static int is_other_order(void)
{
	for (unsigned i = 0; i < n_libraries; i++)
		for (unsigned j = i + 1; j < n_libraries; j++) {
			if (!libraries[i].has_endings || !libraries[j].has_endings)
				continue;
			n_searches++;
			if (needs(&libraries[j], &libraries[i]))
				return 1;
		}
	return 0;
}

/* 2: none has been loaded or unloaded since. */
static int compare_loads(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	return info->dlpi_adds == endings.loads && info->dlpi_subs == endings.unloads ? 2 : 1;
}

void endings_note(void (*last)(void))
{
	endings.n = n_libraries = 0;
	endings.last = last;
	endings.is_known = endings.linker && dl_iterate_phdr(look_at, NULL) == 0 &&
			   !is_other_order();
}

/* The first that was registered, so the last that exit() calls. */
static void end_libraries(void)
{
	if (endings.is_known && dl_iterate_phdr(compare_loads, NULL) == 2)
		for (unsigned i = 0; i < endings.n; i++)
			endings.v[i]();
	else
		endings.linker();
	if (endings.last)
		endings.last();
}

/* atexit() is this, too. */
__attribute__((visibility("default"))) int __cxa_atexit(void (*function)(void *), void *argument,
							void *library);

int __cxa_atexit(void (*function)(void *), void *argument, void *library)
{
	static int (*next)(void (*)(void *), void *, void *);
	void *called;

	memcpy(&called, &function, sizeof(called));
	if (!endings.is_known && only_frees(called))
		return 0;
	if (!next) {
		void *found = dlsym(RTLD_NEXT, "__cxa_atexit");

		memcpy(&next, &found, sizeof(next));
	}
	return next(function, argument, library);
}

/* Called by the program's first instructions, which hand over what the linker wants to do last. */
__attribute__((visibility("default"))) int __libc_start_main(main_function *program, int argc,
							     char **argv, void (*init)(void),
							     void (*fini)(void),
							     void (*linker)(void), void *stack);

int __libc_start_main(main_function *program, int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*linker)(void), void *stack)
{
	void *found = dlsym(RTLD_NEXT, "__libc_start_main");
	start_function *next;

	memcpy(&next, &found, sizeof(next));
	endings.linker = linker;
	return next(program, argc, argv, init, fini, linker ? end_libraries : NULL, stack);
}
