/* SPDX-License-Identifier: Apache-2.0 */
/* What tests must know of the architecture they run on, apart from src/arch, which they test. */
#ifndef TESTS_LIB_ARCH_H
#define TESTS_LIB_ARCH_H

#ifdef __aarch64__
#define TEST_AUDIT_ARCH AUDIT_ARCH_AARCH64
#define TEST_MACHINE EM_AARCH64
#define TEST_OTHER_MACHINE EM_X86_64
#define TEST_LOADER "/lib/ld-linux-aarch64.so.1"
#define TEST_ALLOWED_CALLS 180 /* it has 306 calls in all, x86_64 has 362 */
#else
#define TEST_AUDIT_ARCH AUDIT_ARCH_X86_64
#define TEST_MACHINE EM_X86_64
#define TEST_OTHER_MACHINE EM_AARCH64
#define TEST_LOADER "/lib64/ld-linux-x86-64.so.2"
#define TEST_ALLOWED_CALLS 200
#endif

#endif
