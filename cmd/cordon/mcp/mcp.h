/* SPDX-License-Identifier: Apache-2.0 */
/* cordon mcp: what the command knows of this room. */
#ifndef MCP_MCP_H
#define MCP_MCP_H

#include "options.h"

int cmd_mcp(const struct parsed *args);

#endif
