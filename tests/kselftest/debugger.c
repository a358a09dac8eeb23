// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Starts and ends debugger sessions, and reads their events, see debugger.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debugger.h"

int dbg_trap(struct session *s, uint32_t op, struct kfd_ioctl_dbg_trap_args *args)
{
	int ret;

	args->pid = (uint32_t)s->pid;
	args->op = op;
	/* These report failures per queue: their repetition is another call. */
	if (memory_fails() &&
	    (op == KFD_IOC_DBG_TRAP_SUSPEND_QUEUES || op == KFD_IOC_DBG_TRAP_RESUME_QUEUES)) {
		ret = ioctl(s->k->fd, AMDKFD_IOC_DBG_TRAP, args);
		return ret < 0 ? -errno : ret;
	}
	return kfd_ioctl(s->k->fd, AMDKFD_IOC_DBG_TRAP, args);
}

int dbg_trap_plain(struct session *s, uint32_t op)
{
	struct kfd_ioctl_dbg_trap_args args = { 0 };

	return dbg_trap(s, op, &args);
}

int session_enable_with(struct session *s, int fd, uint64_t mask, void *info, uint32_t *size)
{
	struct kfd_ioctl_dbg_trap_args args = { .enable = {
		.exception_mask = mask,
		.rinfo_ptr = kfd_va(info),
		.rinfo_size = *size,
		.dbg_fd = (uint32_t)fd,
	} };
	int ret = dbg_trap(s, KFD_IOC_DBG_TRAP_ENABLE, &args);

	*size = args.enable.rinfo_size;
	return ret;
}

int session_enable(struct session *s, uint64_t mask)
{
	struct kfd_runtime_info info;
	uint32_t size = sizeof(info);

	return session_enable_with(s, s->fd[1], mask, &info, &size);
}

void session_of(struct session *s, struct kfd *k, pid_t pid)
{
	s->k = k;
	s->pid = pid;
	ASSERT(!pipe2(s->fd, O_CLOEXEC | O_NONBLOCK));
}

int notified(struct session *s)
{
	char bytes[64];

	for (int i = 0; i < 500; i++) {
		ssize_t got = read(s->fd[0], bytes, sizeof(bytes));

		if (got > 0)
			return (int)got;
		usleep(10000);
	}
	return 0;
}

int notified_now(struct session *s)
{
	char bytes[64];
	ssize_t got;

	usleep(200000);
	got = read(s->fd[0], bytes, sizeof(bytes));
	return got > 0 ? (int)got : 0;
}

int query_event(struct session *s, uint64_t clear,
		       struct kfd_ioctl_dbg_trap_query_debug_event_args *event)
{
	struct kfd_ioctl_dbg_trap_args args = { .query_debug_event.exception_mask = clear };
	int ret = dbg_trap(s, KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT, &args);

	*event = args.query_debug_event;
	return ret;
}

void expect_event(struct session *s, uint64_t mask, uint32_t gpu, uint32_t queue)
{
	struct kfd_ioctl_dbg_trap_query_debug_event_args event;

	ASSERT_OK(query_event(s, mask, &event));
	EXPECT_EQ(event.exception_mask, mask);
	EXPECT_EQ(event.gpu_id, gpu);
	EXPECT_EQ(event.queue_id, queue);
}

void expect_no_event(struct session *s)
{
	struct kfd_ioctl_dbg_trap_query_debug_event_args event;

	EXPECT_RET(query_event(s, 0, &event), -EAGAIN);
}

int send_event(struct session *s, uint64_t mask, uint32_t gpu, uint32_t queue)
{
	struct kfd_ioctl_dbg_trap_args args = { .send_runtime_event = {
		.exception_mask = mask,
		.gpu_id = gpu,
		.queue_id = queue,
	} };

	return dbg_trap(s, KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT, &args);
}

int suspend_queues(struct session *s, uint32_t *ids, uint32_t count, uint64_t clear)
{
	struct kfd_ioctl_dbg_trap_args args = { .suspend_queues = {
		.exception_mask = clear,
		.queue_array_ptr = kfd_va(ids),
		.num_queues = count,
		.grace_period = 1,
	} };

	return dbg_trap(s, KFD_IOC_DBG_TRAP_SUSPEND_QUEUES, &args);
}

int resume_queues(struct session *s, uint32_t *ids, uint32_t count)
{
	struct kfd_ioctl_dbg_trap_args args = { .resume_queues = {
		.queue_array_ptr = kfd_va(ids),
		.num_queues = count,
	} };

	return dbg_trap(s, KFD_IOC_DBG_TRAP_RESUME_QUEUES, &args);
}

int exception_info(struct session *s, uint32_t code, uint32_t source, bool clear, void *info,
			  uint32_t *size)
{
	struct kfd_ioctl_dbg_trap_args args = { .query_exception_info = {
		.info_ptr = kfd_va(info),
		.info_size = *size,
		.source_id = source,
		.exception_code = code,
		.clear_exception = clear,
	} };
	int ret = dbg_trap(s, KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO, &args);

	*size = args.query_exception_info.info_size;
	return ret;
}

int runtime_enable(struct kfd *k, uint32_t mode)
{
	struct kfd_ioctl_runtime_enable_args args = { .r_debug = R_DEBUG, .mode_mask = mode };

	return kfd_ioctl(k->fd, AMDKFD_IOC_RUNTIME_ENABLE, &args);
}

static void *call_runtime(void *data)
{
	struct caller *c = data;

	c->ret = runtime_enable(c->k, c->mode);
	return NULL;
}

void start_call(struct caller *c, struct kfd *k, uint32_t mode)
{
	c->k = k;
	c->mode = mode;
	c->ret = RUNNING;
	ASSERT(!pthread_create(&c->thread, NULL, call_runtime, c));
}

int end_call(struct caller *c)
{
	pthread_join(c->thread, NULL);
	return c->ret;
}

static void *destroy_queue(void *data)
{
	struct caller *c = data;

	c->ret = kfd_queue_stop(c->q);
	return NULL;
}

void start_destroy(struct caller *c, struct kfd_queue *q)
{
	c->q = q;
	c->ret = RUNNING;
	ASSERT(!pthread_create(&c->thread, NULL, destroy_queue, c));
}

void destroy_suspended(struct session *s, struct caller *c, struct kfd_queue *q)
{
	uint32_t id = q->id;

	ASSERT_RET(suspend_queues(s, &id, 1, 0), 1);
	start_destroy(c, q);
	usleep(300000);
	EXPECT_EQ(c->ret, RUNNING);
}

void enable_own_runtime(struct session *s)
{
	struct caller c;

	start_call(&c, s->k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK);
	ASSERT(notified(s) > 0);
	expect_event(s, EC(PROCESS_RUNTIME), 0, 0);
	ASSERT_OK(send_event(s, EC(PROCESS_RUNTIME), 0, 0));
	ASSERT_OK(end_call(&c));
}

void debug_self(struct session *s, struct kfd *k)
{
	fixture_open(k);
	session_of(s, k, getpid());
	ASSERT_OK(session_enable(s, ALL_EVENTS));
}

void debug_queue(struct session *s, struct fixture *f)
{
	fixture_load(f);
	session_of(s, &f->k, getpid());
	ASSERT_OK(session_enable(s, ALL_EVENTS));
	enable_own_runtime(s);
	ASSERT_OK(kfd_queue_create(&f->k, &f->q, 64));
	ASSERT_EQ(notified(s), 1);
}

int launch_override(struct session *s, uint32_t mode, uint32_t *enable, uint32_t *request)
{
	struct kfd_ioctl_dbg_trap_args args = { .launch_override = {
		.override_mode = mode,
		.enable_mask = *enable,
		.support_request_mask = *request,
	} };
	int ret = dbg_trap(s, KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE, &args);

	*enable = args.launch_override.enable_mask;
	*request = args.launch_override.support_request_mask;
	return ret;
}

int set_watch(struct session *s, uint32_t gpu, const volatile void *at, uint32_t mode,
		     uint32_t *id)
{
	struct kfd_ioctl_dbg_trap_args args = { .set_node_address_watch = {
		.address = kfd_va((void *)at),
		.mode = mode,
		.mask = ~0x7fu,
		.gpu_id = gpu,
	} };
	int ret = dbg_trap(s, KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH, &args);

	*id = args.set_node_address_watch.id;
	return ret;
}

void start_waves(struct fixture *f)
{
	const uint32_t grid[3] = { 11 * 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	volatile uint32_t *words = f->data->va;
	uint64_t *kernarg = f->kernarg->va;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	ASSERT_OK(fixture_kernel(f, "endless", &kernel));
	kernarg[0] = kfd_va((void *)&words[0]);
	kernarg[1] = kfd_va((void *)&words[64]);
	f->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, f->kernarg->va, &f->signal);
	kfd_queue_ring(&f->q, kfd_queue_write(&f->q, &packet));
}

int launch_mode(struct session *s, uint32_t mode)
{
	struct kfd_ioctl_dbg_trap_args args = { .launch_mode.launch_mode = mode };

	return dbg_trap(s, KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE, &args);
}

int clear_watch(struct session *s, uint32_t gpu, uint32_t id)
{
	struct kfd_ioctl_dbg_trap_args args = { .clear_node_address_watch = {
		.gpu_id = gpu,
		.id = id,
	} };

	return dbg_trap(s, KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH, &args);
}

int set_flags(struct session *s, uint32_t *flags)
{
	struct kfd_ioctl_dbg_trap_args args = { .set_flags.flags = *flags };
	int ret = dbg_trap(s, KFD_IOC_DBG_TRAP_SET_FLAGS, &args);

	*flags = args.set_flags.flags;
	return ret;
}

void wait_for_parent(struct child *c)
{
	char byte = 0;

	ASSERT(write(c->ready[1], &byte, 1) == 1);
	while (read(c->go[0], &byte, 1) < 0 && errno == EINTR)
		;
}

void wait_for_child(struct child *c)
{
	char byte;

	ASSERT(read(c->ready[0], &byte, 1) == 1);
}

void child_goes_on(struct child *c)
{
	char byte = 0;

	ASSERT(write(c->go[1], &byte, 1) == 1);
}

void start_child(struct child *c, void (*run)(struct child *))
{
	ASSERT(!pipe2(c->ready, O_CLOEXEC) && !pipe2(c->go, O_CLOEXEC));
	c->pid = fork_child();
	if (!c->pid) {
		run(c);
		_exit(0);
	}
}

void expect_exit(struct child *c, int code)
{
	int status;

	ASSERT(waitpid(c->pid, &status, 0) == c->pid);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == code, "status %#x", status);
}
