/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Hangs of the scheduler of queues. That of runlists hangs at each preemption by a knob of the
 * boot, hws.no_preempt=1. MES hangs once, at the next frame about user queues, by the knob mes.hang
 * that these functions set by the control socket of the GPU model. The boot of the C driver sets
 * that knob instead, to 2: with it a reset takes minutes, as it waits for MES about each ring
 * (amdgpu/gfx_v12_0.c).
 */
#ifndef HANGLIB_H
#define HANGLIB_H

#include <stdbool.h>
#include <sys/types.h>

struct kfd;

/* Returns whether the GPU hangs once only, by a knob of the boot: MES without control socket. */
bool hangs_once(void);
/* Skips the test if the GPU hangs once only. */
void hangs_needed(void);
/* Makes the scheduler hang at the next preemption, or with MES at the next frame. */
void hang_next(void);
/* Hangs the GPU, for ktap_in_child. */
void hang_gpu(void *unused);
/* Hangs the GPU in a child, and returns it when the reset has begun. */
pid_t begin_reset(struct kfd *k);
/* Expects that no reset has ended since listen_for_resets(). */
void expect_no_reset_yet(int resets);
/* Launches a kernel, and leaves a queue to the exit, which hangs the GPU; for ktap_in_child. */
void hang_at_exit(void *unused);

#endif
