/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that the library carries as bytes (tools/embed.py). */
#ifndef LAUNCH_IMAGE_H
#define LAUNCH_IMAGE_H

extern const unsigned char cordon_init_image[];
extern const unsigned int cordon_init_image_len;
extern const unsigned char cordon_gateway_image[];
extern const unsigned int cordon_gateway_image_len;
extern const unsigned char cordon_meter_image[];
extern const unsigned int cordon_meter_image_len;

/* There (arch/own_init_*.s) in a program whose own file, executed as "cordon-init", is init. */
extern const char cordon_own_init __attribute__((weak));

#endif
