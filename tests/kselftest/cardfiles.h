/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Files of the GPU in sysfs, by their path in the folder of the PCI device. */
#ifndef CARDFILES_H
#define CARDFILES_H

#include <stddef.h>
#include <stdint.h>

struct kfd;

#define CARD_LEVEL "power_dpm_force_performance_level"

/* Stores the path of a file of the PCI device. */
void card_path(const struct kfd *k, const char *name, char *path, size_t size);
/* Returns the text of such a file, empty without it; valid until the next call. */
const char *card_text(const struct kfd *k, const char *name);
/* Returns the number in a file, which is a line; fails the test without one. */
uint64_t card_number(const struct kfd *k, const char *name, int base);
/* As card_number(), of a file in a folder of the PCI device. */
uint64_t card_fact(const struct kfd *k, const char *folder, const char *file, int base);
/* Returns the value of a sensor (AMDGPU_INFO_SENSOR_*); fails the test without it. */
uint32_t card_sensor(struct kfd *k, uint32_t type);
/* Stores the folder of the hardware monitoring device; fails the test without it. */
void card_hwmon(const struct kfd *k, char *folder, size_t size);
/* Writes a text to a file of the PCI device. Returns 0 or a negative errno. */
int card_set(const struct kfd *k, const char *name, const char *text);
/* Opens the first GPU with automatic clocks; skips the test if its SMU is not that of an MI300. */
void card_open_unlimited(struct kfd *k);

#endif
