# SPDX-License-Identifier: Apache-2.0
"""Cordon as the execution backend of agent frameworks.

Each module here belongs to one framework and imports it; importing `pycordon` or
`pycordon.adapters` imports none of them:

    from pycordon.adapters.autogen import CordonCommandLineCodeExecutor

What each of them offers, and the framework versions they are tested with:
docs/integrations.md.
"""
