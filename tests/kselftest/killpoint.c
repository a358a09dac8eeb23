// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Sends SIGKILL at a trace event, by a BPF program, see killpoint.h. */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktap.h"
#include "killpoint.h"
#include "watch.h"

#define INSN(op, dst, src, offset, value) \
	{ .code = (op), .dst_reg = (dst), .src_reg = (src), .off = (offset), .imm = (value) }
#define CALL(function) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, function)

static int bpf(enum bpf_cmd command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* Counts down entry 0 of the map; sends SIGKILL when it was 1. */
static int load(int counter)
{
	const struct bpf_insn program[] = {
		INSN(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4),
		INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, counter),
		INSN(0, 0, 0, 0, 0),
		CALL(BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 5, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, -1),
		INSN(BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_0, BPF_REG_1, 0, BPF_ADD | BPF_FETCH),
		INSN(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_1, 0, 2, 1),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, SIGKILL),
		CALL(BPF_FUNC_send_signal),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_TRACEPOINT,
		.insns = (uintptr_t)program,
		.insn_cnt = sizeof(program) / sizeof(program[0]),
		.license = (uintptr_t)"Dual MIT/GPL",
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

void killpoint_set(struct killpoint *point, pid_t pid, const char *name, unsigned int n)
{
	struct perf_event_attr event = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(event),
		.sample_period = 1,
	};
	uint64_t value = n;
	uint32_t key = 0;
	union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_ARRAY,
		.key_size = sizeof(key),
		.value_size = sizeof(value),
		.max_entries = 1,
	};
	union bpf_attr entry = { .key = (uintptr_t)&key, .value = (uintptr_t)&value };
	char path[160], *id;

	point->counter = bpf(BPF_MAP_CREATE, &map);
	if (point->counter < 0)
		SKIP("no BPF: %s", strerror(errno));
	entry.map_fd = (uint32_t)point->counter;
	ASSERT(bpf(BPF_MAP_UPDATE_ELEM, &entry) == 0, "%s", strerror(errno));
	point->program = load(point->counter);
	ASSERT(point->program >= 0, "%s", strerror(errno));
	snprintf(path, sizeof(path), WATCH_EVENTS "/%s/id", name);
	id = watch_read(path);
	event.config = strtoull(id, NULL, 10);
	free(id);
	point->event = (int)syscall(SYS_perf_event_open, &event, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT(point->event >= 0, "%s: %s", name, strerror(errno));
	ASSERT(ioctl(point->event, PERF_EVENT_IOC_SET_BPF, point->program) == 0, "%s",
	       strerror(errno));
	ASSERT(ioctl(point->event, PERF_EVENT_IOC_ENABLE, 0) == 0, "%s", strerror(errno));
}

void killpoint_remove(struct killpoint *point)
{
	close(point->event);
	close(point->program);
	close(point->counter);
}
