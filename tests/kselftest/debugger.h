/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A debugger's use of DBG_TRAP: sessions and their events. */
#ifndef DEBUGGER_H
#define DEBUGGER_H

#include <pthread.h>
#include <stdatomic.h>

#include "fixture.h"

#define EC(name) KFD_EC_MASK(EC_##name)
#define ALL_EVENTS (~0ull)
#define R_DEBUG 0x123456789abcull
/* A queue id that is not in use. */
#define NO_SUCH_QUEUE 1000u

/* A debugger session with a process. */
struct session {
	struct kfd *k;
	pid_t pid;
	/* Events are reported through it. */
	int fd[2];
};

/* Another process, which this one traces or not. */
struct child {
	pid_t pid;
	/* Pipes: the child is ready, and the parent continues it. */
	int ready[2], go[2];
};

/* A thread that calls RUNTIME_ENABLE, or another function. */
struct caller {
	pthread_t thread;
	struct kfd *k;
	struct kfd_queue *q;
	uint32_t mode;
	atomic_int ret;
};

#define RUNNING 1

/* Return a negative errno, or the result. */
int dbg_trap(struct session *s, uint32_t op, struct kfd_ioctl_dbg_trap_args *args);
int dbg_trap_plain(struct session *s, uint32_t op);
int session_enable_with(struct session *s, int fd, uint64_t mask, void *info, uint32_t *size);
int session_enable(struct session *s, uint64_t mask);
/* Prepares a session with a process. Ends the test on failure, as all below. */
void session_of(struct session *s, struct kfd *k, pid_t pid);
/* Returns the number of notifications, after at most 5 s for the first. */
int notified(struct session *s);
/* Same without waiting for them. */
int notified_now(struct session *s);
int query_event(struct session *s, uint64_t clear,
		struct kfd_ioctl_dbg_trap_query_debug_event_args *event);
/* Expects and clears an event. */
void expect_event(struct session *s, uint64_t mask, uint32_t gpu, uint32_t queue);
void expect_no_event(struct session *s);
int send_event(struct session *s, uint64_t mask, uint32_t gpu, uint32_t queue);
int suspend_queues(struct session *s, uint32_t *ids, uint32_t count, uint64_t clear);
int resume_queues(struct session *s, uint32_t *ids, uint32_t count);
int exception_info(struct session *s, uint32_t code, uint32_t source, bool clear, void *info,
		   uint32_t *size);
/* RUNTIME_ENABLE with R_DEBUG. */
int runtime_enable(struct kfd *k, uint32_t mode);
/* Enables the runtime of a process that debugs itself. */
void enable_own_runtime(struct session *s);
void start_call(struct caller *c, struct kfd *k, uint32_t mode);
int end_call(struct caller *c);
/* Starts a thread that calls DESTROY_QUEUE. */
void start_destroy(struct caller *c, struct kfd_queue *q);
/* Suspends a queue of this process, and starts DESTROY_QUEUE, which waits. */
void destroy_suspended(struct session *s, struct caller *c, struct kfd_queue *q);
/* SET_WAVE_LAUNCH_OVERRIDE: returns the traps enabled before, and those that are supported. */
int launch_override(struct session *s, uint32_t mode, uint32_t *enable, uint32_t *request);
/* SET_WAVE_LAUNCH_MODE. */
int launch_mode(struct session *s, uint32_t mode);
/* SET_NODE_ADDRESS_WATCH of a word. */
int set_watch(struct session *s, uint32_t gpu, const volatile void *at, uint32_t mode, uint32_t *id);
/* CLEAR_NODE_ADDRESS_WATCH. */
int clear_watch(struct session *s, uint32_t gpu, uint32_t id);
/* SET_FLAGS: returns the flags before. */
int set_flags(struct session *s, uint32_t *flags);
/* Starts 11 endless waves; words[0] of the data counts those that started, words[64] ends them. */
void start_waves(struct fixture *f);
/* Opens the GPU and debugs this process. */
void debug_self(struct session *s, struct kfd *k);
/* Opens the GPU with a new queue, and debugs this process, with its runtime. */
void debug_queue(struct session *s, struct fixture *f);
/* Starts a child that calls `run` and exits with 0. */
void start_child(struct child *c, void (*run)(struct child *));
/* In the child: reports that it is ready, and waits for child_goes_on(). */
void wait_for_parent(struct child *c);
void wait_for_child(struct child *c);
void child_goes_on(struct child *c);
void expect_exit(struct child *c, int code);

#endif
