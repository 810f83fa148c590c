/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON Schema of policies. Its text is docs/policy.schema.json, which the build embeds.
 * tests/unit/test_policy_schema.c derives it from the table of keys and compares (and writes the
 * file anew when CORDON_UPDATE=1).
 */
#include <cordon/policy.h>

static const char schema_text[] =
#include "policy/schema_text.h"
	;

const char *cordon_policy_schema(void)
{
	return schema_text;
}
