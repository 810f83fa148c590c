/* SPDX-License-Identifier: Apache-2.0 */
/* libcordon: run untrusted code. Includes the whole public interface. */
#ifndef CORDON_CORDON_H
#define CORDON_CORDON_H

#include <cordon/check.h>
#include <cordon/confine.h>
#include <cordon/error.h>
#include <cordon/files.h>
#include <cordon/packages.h>
#include <cordon/policy.h>
#include <cordon/pool.h>
#include <cordon/run.h>
#include <cordon/session.h>
#include <cordon/version.h>
#include <cordon/workspace.h>

#endif
