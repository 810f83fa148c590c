/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON Schema of policies. Its text is derived from the table of keys ahead of time, so that
 * it can be constant: tests/unit/test_policy_schema.c derives it again and compares (and
 * writes schema_text.h and docs/policy.schema.json anew when CORDON_UPDATE=1).
 */
#include <cordon/policy.h>

static const char schema_text[] =
#include "policy/schema_text.h"
	;

const char *cordon_policy_schema(void)
{
	return schema_text;
}
