/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "guest.h"

#define QEMU_NAME "qemu-system-x86_64"

/* Not by PATH: what stands there may be the guest's. The sandbox shows /usr in any case. */
static const char *const places[] = { "/usr/bin/" QEMU_NAME, "/usr/local/bin/" QEMU_NAME };

int microvm_find_qemu(const char **ret, struct cordon_error *err)
{
#if !defined(__x86_64__)
	cordon_err(err, CORDON_E_UNSUPPORTED, 0, "level microvm exists for x86_64 only");
	cordon_err_hint(err, "use --isolation namespaces");
	return -CORDON_E_UNSUPPORTED;
#endif
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (access(places[i], X_OK) == 0) {
			*ret = places[i];
			return 0;
		}
	}
	cordon_err(err, CORDON_E_UNSUPPORTED, 0, "level microvm needs QEMU (%s), which is missing",
		   QEMU_NAME);
	cordon_err_hint(err, "apt install qemu-system-x86, or --isolation namespaces");
	return -CORDON_E_UNSUPPORTED;
}
