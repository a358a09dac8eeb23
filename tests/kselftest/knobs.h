/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Knobs of the GPU model (rkfd-gpu --help). Every failure ends the test. */
#ifndef KNOBS_H
#define KNOBS_H

/*
 * Opens the control socket of the GPU model, for the functions below. Skips the test without the
 * variable $MODEL_CONTROL, which names its serial port in the guest (scripts/vm --control).
 */
void knobs_open(void);
void knob_set(const char *name, unsigned int value);
/* Returns how often the fault of a knob has occurred. */
unsigned int knob_hits(const char *name);

#endif
