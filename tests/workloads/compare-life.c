// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Parts of `compare` that stop engines: a queue that cannot be preempted, with the model's knob
 * hws.stuck_xcc=1, a debugger, unbind.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compare.h"

#define WATCHPOINTS 4u
#define WATCHED 0x123456789000ull

/* Runs a part in another process, whose end it waits for. */
static int in_child(struct compare *c, const char *name, int (*part)(void))
{
	int status = 0;
	pid_t pid;

	if (compare_mark(c, name))
		return 1;
	pid = fork();
	if (!pid)
		_exit(part());
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		return 1;
	return compare_mark(c, "between");
}

/* A queue whose wave cannot be preempted is deactivated: it is reset. */
static int stuck_queue(void)
{
	static struct kfd_queue q;
	static struct kfd k;
	struct kfd_ioctl_update_queue_args update = { .queue_priority = 7 };
	struct kfd_signal signal;
	volatile uint32_t *stop;
	int ret = kfd_start_endless(&k, &q, &signal, &stop);

	if (ret)
		return compare_failed("an endless kernel", ret);
	update.ring_base_address = kfd_va(q.ring->va);
	update.ring_size = (uint32_t)q.ring->size;
	update.queue_id = q.id;
	/* Fails or not, as it is with the scheduler. */
	kfd_ioctl(k.fd, AMDKFD_IOC_UPDATE_QUEUE, &update);
	return 0;
}

static int trap(struct kfd *k, uint32_t op, struct kfd_ioctl_dbg_trap_args *args)
{
	args->pid = (uint32_t)getpid();
	args->op = op;
	return kfd_ioctl(k->fd, AMDKFD_IOC_DBG_TRAP, args);
}

/* Debugs this process: flags, traps at the launch of waves, and all watchpoints. */
static int debug_self(void)
{
	struct kfd_ioctl_runtime_enable_args runtime = {
		.r_debug = 0x1000,
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
	};
	struct kfd_runtime_info info;
	struct kfd_ioctl_dbg_trap_args enable = { .enable = {
		.exception_mask = ~0ull,
		.rinfo_ptr = kfd_va(&info),
		.rinfo_size = sizeof(info),
	} };
	struct kfd_ioctl_dbg_trap_args flags = {
		.set_flags.flags = KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP,
	};
	struct kfd_ioctl_dbg_trap_args launch = { .launch_override = {
		.override_mode = KFD_DBG_TRAP_OVERRIDE_OR,
		.enable_mask = KFD_DBG_TRAP_MASK_FP_INVALID,
		.support_request_mask = KFD_DBG_TRAP_MASK_FP_INVALID,
	} };
	struct kfd_ioctl_dbg_trap_args disable = { 0 };
	int pipe_of[2], ret = pipe2(pipe_of, O_CLOEXEC | O_NONBLOCK) ? -errno : 0;
	static struct kfd_queue q;
	static struct kfd k;

	if (!ret)
		ret = kfd_open(&k);
	if (!ret)
		ret = kfd_ioctl(k.fd, AMDKFD_IOC_RUNTIME_ENABLE, &runtime);
	enable.enable.dbg_fd = (uint32_t)pipe_of[1];
	if (!ret)
		ret = kfd_queue_create(&k, &q, 64);
	if (!ret)
		ret = trap(&k, KFD_IOC_DBG_TRAP_ENABLE, &enable);
	if (!ret)
		ret = trap(&k, KFD_IOC_DBG_TRAP_SET_FLAGS, &flags);
	/* A GPU without them may have precise ALU operations. */
	flags.set_flags.flags = KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP;
	if (ret == -EACCES)
		ret = trap(&k, KFD_IOC_DBG_TRAP_SET_FLAGS, &flags);
	if (!ret)
		ret = trap(&k, KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE, &launch);
	for (uint32_t i = 0; !ret && i < WATCHPOINTS; i++) {
		struct kfd_ioctl_dbg_trap_args watch = { .set_node_address_watch = {
			.address = WATCHED + i * KFD_PAGE,
			.mode = KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ALL,
			.mask = ~0x7fu,
			.gpu_id = k.node.gpu_id,
		} };

		ret = trap(&k, KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH, &watch);
	}
	if (!ret)
		ret = trap(&k, KFD_IOC_DBG_TRAP_DISABLE, &disable);
	return ret ? compare_failed("debugging", ret) : 0;
}

int compare_life(struct compare *c, bool stuck)
{
	return compare_mark(c, "kind life") ||
	       (stuck && in_child(c, "stuck_queue", stuck_queue)) ||
	       in_child(c, "debug", debug_self);
}

/* The driver tears processes down after their end. */
static int wait_for_processes(void)
{
	static const char path[] = "/sys/class/kfd/kfd/proc";

	for (unsigned int i = 0; i < 1000; i++) {
		DIR *dir = opendir(path);
		unsigned int count = 0;

		while (dir && readdir(dir))
			count++;
		if (dir)
			closedir(dir);
		/* The folder and its parent. */
		if (count <= 2)
			return 0;
		usleep(10000);
	}
	return -ETIME;
}

int compare_unbind(void)
{
	char device[64], path[96];
	int ret = compare_device(device, sizeof(device));

	if (!ret)
		ret = wait_for_processes();
	if (!ret) {
		snprintf(path, sizeof(path), "%s/driver/unbind", device);
		ret = compare_write(path, strrchr(device, '/') + 1);
	}
	return ret ? compare_failed("unbind", ret) : 0;
}
