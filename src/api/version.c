/* SPDX-License-Identifier: Apache-2.0 */
#include <cordon/version.h>

const char *cordon_version(void)
{
	return CORDON_VERSION;
}
