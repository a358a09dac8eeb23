/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Injects a fault of the GPU model into each message to the scheduler in turn, reports the driver's
 * reaction, and on rkfd compares it with a table. Needs the GPU model, whose control socket is the
 * serial port $MODEL_CONTROL of the guest (scripts/vm --control).
 */
#ifndef FAULTTABLE_H
#define FAULTTABLE_H

#include "fixture.h"

/* Knobs that inject faults into messages of one kind. */
struct injection {
	/* Selects the messages that the other knobs count. */
	const char *op;
	/* Knobs of faults at the N-th selected message; NULL at the end. */
	const char *faults[4];
	/* The one of `faults` that stops the scheduler. */
	const char *hang;
	/* Upper bounds in seconds: the driver's wait for one message, and a call with any fault. */
	double timeout, longest;
};

/* Expected result on rkfd. */
enum end {
	/* Does not send the message. */
	UNSENT,
	/* Nothing is lost. */
	WORKS,
	/* The queue is lost, its process gets an event. */
	LOST,
	/* The card is reset, and all queues are lost. */
	CARD_RESET,
};

struct row {
	const char *message;
	/* Value of the knob `op`, and the index of the message among those it selects, from 1. */
	unsigned int op, nth;
	/* Results of rkfd: without the message, and when the scheduler stops, which is a reset. */
	enum end end;
	int ret, ret_hang;
	/* The call that sends the message, NULL for an exit, and its preparation. */
	const char *call;
	int (*act)(struct fixture *f);
	void (*prepare)(struct fixture *f);
	/* Another knob that is set to 1 for this row; the queue has a wave then. */
	const char *knob;
	/* Skipped with several XCCs: the message of another XCC has the same effect. */
	bool one_xcc;
};

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Opens the control socket; skips the test without one. */
void table_open(const struct injection *how);
/*
 * Runs rows with a fault, each with a process that triggers it and a bystander. If $ROW is set,
 * runs only the row of that number, counted from 0: the driver may be unusable after a row.
 */
void table_run(const struct row *rows, size_t count, const char *fault);
/* Binds or unbinds the driver with a fault at each row, or that of $ROW, then binds it without. */
void table_rebind(const struct row *rows, size_t count, const char *fault, bool binds);

/* Calls of the process that meets the fault. Return 0 or a negative errno. */
int act_create_queue(struct fixture *f);
int act_destroy_queue(struct fixture *f);
int act_enable_runtime(struct fixture *f);
/* Evicts the queues of the process, which are restored later. Needs prepare_userptr(). */
int act_evict(struct fixture *f);
/* Needs prepare_bo(). */
int act_unmap(struct fixture *f);

/* Nothing: the default is a queue that has executed a packet. */
void prepare_no_queue(struct fixture *f);
void prepare_userptr(struct fixture *f);
void prepare_bo(struct fixture *f);

#endif
