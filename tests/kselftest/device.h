/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The GPU as a device of the machine: its driver is taken from it and given back, and what the kernel says meanwhile. */
#ifndef DEVICE_H
#define DEVICE_H

/* Looks for the GPU's PCI device and for its driver, which it has. For the two below. */
void device_find(void);
/* Takes the driver from it, gives it back. Return 0 or a negative errno. */
int device_unbind(void);
int device_bind(void);

/* The kernel's log from now on; ends the test when there is none. */
int kmsg_open(void);
/* How many of its lines, since the last call, have `text`. */
int kmsg_lines_with(int fd, const char *text);

#endif
