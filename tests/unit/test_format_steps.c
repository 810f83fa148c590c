/* SPDX-License-Identifier: Apache-2.0 */
/* Stages and steps against docs/errors.md: numbers, texts and which of them bring the level down.
 */
#include <ctype.h>

#include <cordon/error.h>

#include "format/stage.h"
#include "format/steps.h"
#include "tap.h"

#define PAGE_MAX ((size_t)256 << 10)
#define STEPS_MAX 128
#define CELLS 5

static char page[PAGE_MAX];

static int read_page(void)
{
	const char *root = getenv("CORDON_SOURCE_ROOT");
	char path[4096];
	size_t n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/docs/errors.md", root ? root : ".");
	file = fopen(path, "r");
	if (file) {
		n = fread(page, 1, sizeof(page) - 1, file);
		fclose(file);
	}
	page[n] = '\0';
	return n > 0;
}

/* "| a | b |": the cells without spaces around them. The line is cut up. */
static int split_row(char *line, char *cells[CELLS])
{
	int n = 0;

	for (char *cell = strtok(line, "|"); cell && n < CELLS; cell = strtok(NULL, "|")) {
		size_t len;

		while (*cell == ' ' || *cell == '`')
			cell++;
		len = strlen(cell);
		while (len && (cell[len - 1] == ' ' || cell[len - 1] == '`'))
			cell[--len] = '\0';
		cells[n++] = cell;
	}
	return n;
}

static int is_number(const char *text)
{
	return isdigit((unsigned char)*text) && strspn(text, "0123456789") == strlen(text);
}

static unsigned stage_find(const char *name)
{
	unsigned stage = 0;

	while (stage < STAGE_MAX && strcmp(cordon_stage_name(stage), name) != 0)
		stage++;
	return stage;
}

static void test_each_step_is_in_the_document_with_its_number_and_text(void)
{
	static unsigned char is_listed[STAGE_MAX][STEPS_MAX];
	char *next, *cells[CELLS];
	unsigned n_lower = 0;

	REQUIRE(read_page());
	for (char *line = page; line; line = next) {
		unsigned stage, step;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (*line != '|' || split_row(line, cells) < 4 || !is_number(cells[1]))
			continue;
		stage = stage_find(cells[0]);
		step = (unsigned)strtoul(cells[1], NULL, 10);
		CHECK(stage < STAGE_MAX && step < STEPS_MAX);
		if (stage >= STAGE_MAX || step >= STEPS_MAX)
			continue;
		CHECK(!is_listed[stage][step]);
		is_listed[stage][step] = 1;
		CHECK_STR(step_text(stage, step), cells[2]);
		CHECK_INT(step_means_no_namespaces(stage, step), strcmp(cells[3], "yes") == 0);
		n_lower += step_means_no_namespaces(stage, step);
	}
	for (unsigned stage = 0; stage < STAGE_MAX; stage++)
		for (unsigned step = 0; step < STEPS_MAX; step++) {
			if (!step_text(stage, step) != !is_listed[stage][step])
				tap_fail("docs/errors.md", 0, "step %u of %s is missing", step,
					 cordon_stage_name(stage));
			/* Only the numbers of net have gaps. */
			if (step > 1 && stage != STAGE_NET && step_text(stage, step))
				CHECK(step_text(stage, step - 1));
		}
	CHECK(n_lower > 20);
}

static void test_each_step_of_the_gateway_is_in_the_document(void)
{
	unsigned n = 0;

	REQUIRE(read_page());
	for (unsigned step = 0; step < GATEWAY_STEP_MAX; step++) {
		const char *text = gateway_step_text(step);

		if (!text)
			continue;
		n++;
		if (!strstr(page, text))
			tap_fail("docs/errors.md", 0, "'%s' is missing", text);
	}
	CHECK_INT(n, 14);
	CHECK(!gateway_step_text(GATEWAY_STEP_MAX));
}

/* A guest can make these fail; they must not bring the level of the next run down. */
static void test_what_a_guest_can_provoke_does_not_mean_no_namespaces(void)
{
	CHECK(!step_means_no_namespaces(STAGE_MOUNTS, STEP_MOUNTS_CWD));
	CHECK(!step_means_no_namespaces(STAGE_MOUNTS, STEP_MOUNTS_WORKSPACE));
	CHECK(!step_means_no_namespaces(STAGE_MOUNTS, STEP_PLAN_FIRST));
	CHECK(!step_means_no_namespaces(STAGE_NET, STEP_NET_AWAIT));
	CHECK(!step_means_no_namespaces(STAGE_EXEC, STEP_EXEC_EXECVE));
	CHECK(!step_means_no_namespaces(STAGE_MAX, 1));
	CHECK(step_means_no_namespaces(STAGE_USERNS, STEP_USERNS_UNSHARE));
	CHECK(step_means_no_namespaces(STAGE_MOUNTS, STEP_MOUNTS_HOST_ROOT));
	CHECK(step_means_no_namespaces(STAGE_NET, STEP_NET_ENTER));
}

TAP_MAIN(test_each_step_is_in_the_document_with_its_number_and_text,
	 test_each_step_of_the_gateway_is_in_the_document,
	 test_what_a_guest_can_provoke_does_not_mean_no_namespaces)
