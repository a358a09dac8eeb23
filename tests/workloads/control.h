/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The control socket of the GPU model: a serial port of the guest, whose path is $MODEL_CONTROL
 * (scripts/vm --control).
 */
#ifndef CONTROL_H
#define CONTROL_H

/*
 * Opens the serial port whose path is in an environment variable, for raw bytes. Returns a file, or
 * a negative errno: ENODEV without the variable.
 */
int port_open(const char *variable);
/* The same for $MODEL_CONTROL. */
int control_open(void);
/*
 * Writes a command, one line, without its newline. Returns 0 or a negative errno. The reply is
 * still to be read.
 */
int control_send(int control, const char *command);
/* Waits until all commands have taken effect, and discards their replies. */
int control_barrier(int control);
/*
 * Writes a command and returns the line of its reply, NULL without one after 5 s or with more than
 * 255 characters. The reply is valid until the next call.
 */
const char *control_ask(int control, const char *command);

#endif
