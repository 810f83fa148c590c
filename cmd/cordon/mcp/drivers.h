/* SPDX-License-Identifier: Apache-2.0 */
/* What runs inside an interpreter (bindings/python/pycordon/drivers), and what reads it there. */
#ifndef MCP_DRIVERS_H
#define MCP_DRIVERS_H

extern const char mcp_load_python[], mcp_load_node[];
extern const char mcp_driver_python[], mcp_driver_node[], mcp_driver_bash[];

#endif
