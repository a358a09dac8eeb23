/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the driver tells who listens to a GPU (SMI_EVENTS). Whatever goes wrong ends the test, or is a failure of it. */
#ifndef LISTEN_H
#define LISTEN_H

#include "../workloads/kfd.h"

/* Opens the GPU's events of a mask (KFD_SMI_EVENT_MASK_FROM_INDEX). */
int listen_to(struct kfd *k, uint64_t mask);
/* All lines that came, or come within `ms`, a string. */
const char *listen_lines(int fd, int ms);
/* Waits until a line came, for a minute at most, and shows `all` that came. Of what comes later nothing is missing. */
bool listen_for_line(int fd, const char *wanted, const char **all);

#endif
