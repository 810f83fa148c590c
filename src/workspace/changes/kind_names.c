/* SPDX-License-Identifier: Apache-2.0 */
/* Names of kinds, types, risks and mechanisms, as the JSON has them. */
#include <stddef.h>

#include <cordon/workspace.h>

#include "base/macros.h"

static const char *name_of(const char *const *names, size_t n, int i)
{
	return i >= 0 && (size_t)i < n && names[i] ? names[i] : "unknown";
}

const char *cordon_change_kind_name(int kind)
{
	static const char *const names[] = {
		[CORDON_CHANGE_ADDED] = "added",     [CORDON_CHANGE_MODIFIED] = "modified",
		[CORDON_CHANGE_DELETED] = "deleted", [CORDON_CHANGE_RENAMED] = "renamed",
		[CORDON_CHANGE_MODE] = "mode",	     [CORDON_CHANGE_SYMLINK] = "symlink",
		[CORDON_CHANGE_TYPE] = "type",
	};

	return name_of(names, ARRAY_SIZE(names), kind);
}

const char *cordon_file_type_name(int type)
{
	static const char *const names[] = {
		[CORDON_FILE_NONE] = "none",	       [CORDON_FILE_REGULAR] = "file",
		[CORDON_FILE_DIRECTORY] = "directory", [CORDON_FILE_SYMLINK] = "symlink",
		[CORDON_FILE_FIFO] = "fifo",	       [CORDON_FILE_SOCKET] = "socket",
		[CORDON_FILE_DEVICE] = "device",
	};

	return name_of(names, ARRAY_SIZE(names), type);
}

const char *cordon_mechanism_name(int mechanism)
{
	static const char *const names[] = {
		[CORDON_MECHANISM_OVERLAY] = "overlay",
		[CORDON_MECHANISM_REFLINK] = "reflink",
		[CORDON_MECHANISM_COPY] = "copy",
	};

	return name_of(names, ARRAY_SIZE(names), mechanism);
}

const char *cordon_risk_name(unsigned risk)
{
	switch (risk) {
	case CORDON_RISK_SETID:
		return "set-id";
	case CORDON_RISK_SPECIAL:
		return "special";
	case CORDON_RISK_LINK_OUT:
		return "link-out";
	case CORDON_RISK_ATTRIBUTE:
		return "attribute";
	case CORDON_RISK_PROTECTED:
		return "protected";
	case CORDON_RISK_EXECUTABLE:
		return "executable";
	case CORDON_RISK_CI:
		return "ci";
	case CORDON_RISK_LOCKFILE:
		return "lockfile";
	case CORDON_RISK_STARTUP:
		return "startup";
	case CORDON_RISK_NAME:
		return "name";
	default:
		return NULL;
	}
}
