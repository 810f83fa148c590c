/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() for a fuzz target in an ordinary build: feeds it every file named on the command line, and
 * every file of the directories named there, once. A crash or a sanitizer report is the failure.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX ((size_t)4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long replayed;

static int replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *buffer;
	size_t len;

	if (!f) {
		perror(path);
		return -1;
	}
	buffer = malloc(INPUT_MAX);
	if (!buffer) {
		fclose(f);
		return -1;
	}
	len = fread(buffer, 1, INPUT_MAX, f);
	fclose(f);
	/* An exact allocation, so that the address sanitizer sees a read one byte past the end. */
	if (len) {
		uint8_t *exact = realloc(buffer, len);

		buffer = exact ? exact : buffer;
	}
	LLVMFuzzerTestOneInput(buffer, len);
	free(buffer);
	replayed++;
	return 0;
}

static int replay_dir(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char name[4096];
	int status = 0;

	if (!dir) {
		perror(path);
		return -1;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (snprintf(name, sizeof(name), "%s/%s", path, entry->d_name) >= (int)sizeof(name))
			continue;
		if (replay_file(name))
			status = -1;
	}
	closedir(dir);
	return status;
}

int main(int argc, char **argv)
{
	struct stat st;
	int status = 0;

	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++) {
		if (stat(argv[i], &st)) {
			perror(argv[i]);
			status = 1;
		} else if (S_ISDIR(st.st_mode) ? replay_dir(argv[i]) : replay_file(argv[i])) {
			status = 1;
		}
	}
	printf("%lu inputs replayed\n", replayed);
	if (!replayed) {
		fprintf(stderr, "the corpus is empty\n");
		status = 1;
	}
	return status;
}
