/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The PCI device of the GPU: bind, unbind, reset, suspend, and the kernel log meanwhile. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the GPU's PCI device and its driver. Needed before the functions below. */
void device_find(void);
/* Returns the address of the device on the bus, as sysfs has it. */
const char *device_name(void);
/* Writes and reads a file of the device, named by a glob pattern; fails the test on failure. */
void device_set(const char *pattern, const char *text);
void device_get(const char *pattern, char *text, size_t size);
/* Write and read a file. Return 0 or a negative errno; fail the test if there is no such file. */
int device_try_set(const char *pattern, const char *text);
int device_try_get(const char *pattern, char *text, size_t size);
/* Returns whether the device has a file. */
bool device_has(const char *name);
/* Unbinds and binds the driver. Return 0 or a negative errno. */
int device_unbind(void);
int device_bind(void);
/*
 * Removes the PCI device, and finds it again with its driver. Return 0 or a negative errno, which
 * is -ENOENT if the device has no driver.
 */
int device_remove(void);
int device_rescan(void);
/* As device_find(); skips the test if the kernel has no reset method for the device. */
void device_need_reset(void);
/* Resets the PCI function; a failure is one of the test. */
void device_reset(void);

/* Skips the test if the kernel cannot resume by itself. */
void need_sleep(void);
/*
 * As need_sleep(); suspends all devices and resumes them after a second. CPUs stay online. `depth`
 * is a level of /sys/power/pm_test. Returns 0 or a negative errno.
 */
int try_to_sleep(const char *depth);

/* Listens for uevents; ends the test on failure. */
int uevents_open(void);
/* Waits for a uevent with this variable. Returns false if there is none within `ms`. */
bool uevents_have(int fd, const char *variable, unsigned int ms);

/* Opens the kernel log at its end; ends the test on failure. */
int kmsg_open(void);
/* Reads the next record of the log. Returns false if there is none yet. */
bool kmsg_next(int fd, char *line, size_t size);
/* Returns how many log lines since the last call contain `text`. */
int kmsg_lines_with(int fd, const char *text);
/* Waits for a log line that contains `text`. Returns false after `seconds`. */
bool kmsg_wait_for(int fd, const char *text, int seconds);

#endif
