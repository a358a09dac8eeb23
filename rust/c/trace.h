/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace events of the driver. rust/trace.rs documents them and has a safe function for each.
 *
 * Units: ns in nanoseconds of CLOCK_MONOTONIC; bytes in bytes; dwords in 32-bit words; ib, phys and
 * va are byte addresses; doorbell is a dword index in the doorbell BAR; wptr is in the unit of the
 * ring (dwords for PM4 and MES, bytes for SDMA); ret is 0, a positive result or a negative errno.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rkfd

#if !defined(RKFD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RKFD_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(rkfd_process,
	TP_PROTO(s32 pid, u32 pasid, const char *what),
	TP_ARGS(pid, pasid, what),
	TP_STRUCT__entry(
		__field(s32, pid)
		__field(u32, pasid)
		__string(what, what)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->pasid = pasid;
		__assign_str(what);
	),
	TP_printk("pid=%d pasid=%u what=%s", __entry->pid, __entry->pasid, __get_str(what))
);

TRACE_EVENT(rkfd_ioctl,
	TP_PROTO(s32 pid, u32 nr, s64 ret, u64 ns),
	TP_ARGS(pid, nr, ret, ns),
	TP_STRUCT__entry(
		__field(s32, pid)
		__field(u32, nr)
		__field(s64, ret)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->nr = nr;
		__entry->ret = ret;
		__entry->ns = ns;
	),
	TP_printk("pid=%d nr=0x%02x ret=%lld ns=%llu",
		  __entry->pid, __entry->nr, __entry->ret, __entry->ns)
);

TRACE_EVENT(rkfd_queue_step,
	TP_PROTO(s32 pid, u32 qid, const char *step, u64 ns),
	TP_ARGS(pid, qid, step, ns),
	TP_STRUCT__entry(
		__field(s32, pid)
		__field(u32, qid)
		__string(step, step)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->qid = qid;
		__assign_str(step);
		__entry->ns = ns;
	),
	TP_printk("pid=%d qid=%u step=%s ns=%llu",
		  __entry->pid, __entry->qid, __get_str(step), __entry->ns)
);

TRACE_EVENT(rkfd_runlist,
	TP_PROTO(u32 gpu_id, u64 ib, u32 dwords, u32 processes, u32 queues, bool oversubscribed),
	TP_ARGS(gpu_id, ib, dwords, processes, queues, oversubscribed),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__field(u64, ib)
		__field(u32, dwords)
		__field(u32, processes)
		__field(u32, queues)
		__field(bool, oversubscribed)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__entry->ib = ib;
		__entry->dwords = dwords;
		__entry->processes = processes;
		__entry->queues = queues;
		__entry->oversubscribed = oversubscribed;
	),
	TP_printk("gpu_id=%u ib=0x%llx dwords=%u processes=%u queues=%u oversubscribed=%d",
		  __entry->gpu_id, __entry->ib, __entry->dwords, __entry->processes,
		  __entry->queues, __entry->oversubscribed)
);

TRACE_EVENT(rkfd_packet,
	TP_PROTO(u32 gpu_id, const char *ring, const char *packet, u32 dwords, u64 wptr),
	TP_ARGS(gpu_id, ring, packet, dwords, wptr),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__string(ring, ring)
		__string(packet, packet)
		__field(u32, dwords)
		__field(u64, wptr)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__assign_str(ring);
		__assign_str(packet);
		__entry->dwords = dwords;
		__entry->wptr = wptr;
	),
	TP_printk("gpu_id=%u ring=%s packet=%s dwords=%u wptr=%llu",
		  __entry->gpu_id, __get_str(ring), __get_str(packet), __entry->dwords,
		  __entry->wptr)
);

TRACE_EVENT(rkfd_ih,
	TP_PROTO(u32 gpu_id, u32 node, u32 client, u32 source, u32 ring, u32 vmid, u32 pasid,
		 u32 ctx0),
	TP_ARGS(gpu_id, node, client, source, ring, vmid, pasid, ctx0),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__field(u32, node)
		__field(u32, client)
		__field(u32, source)
		__field(u32, ring)
		__field(u32, vmid)
		__field(u32, pasid)
		__field(u32, ctx0)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__entry->node = node;
		__entry->client = client;
		__entry->source = source;
		__entry->ring = ring;
		__entry->vmid = vmid;
		__entry->pasid = pasid;
		__entry->ctx0 = ctx0;
	),
	TP_printk("gpu_id=%u node=%u client=%u source=%u ring=%u vmid=%u pasid=%u ctx0=0x%x",
		  __entry->gpu_id, __entry->node, __entry->client, __entry->source, __entry->ring,
		  __entry->vmid, __entry->pasid, __entry->ctx0)
);

TRACE_EVENT(rkfd_queue_stalled,
	TP_PROTO(u32 gpu_id, s32 pid, u32 pasid, u32 qid, u32 doorbell, u64 packet, u64 wptr),
	TP_ARGS(gpu_id, pid, pasid, qid, doorbell, packet, wptr),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__field(s32, pid)
		__field(u32, pasid)
		__field(u32, qid)
		__field(u32, doorbell)
		__field(u64, packet)
		__field(u64, wptr)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__entry->pid = pid;
		__entry->pasid = pasid;
		__entry->qid = qid;
		__entry->doorbell = doorbell;
		__entry->packet = packet;
		__entry->wptr = wptr;
	),
	TP_printk("gpu_id=%u pid=%d pasid=%u queue=%u doorbell=0x%x packet=0x%llx wptr=0x%llx",
		  __entry->gpu_id, __entry->pid, __entry->pasid, __entry->qid, __entry->doorbell,
		  __entry->packet, __entry->wptr)
);

TRACE_EVENT(rkfd_gpu_hang,
	TP_PROTO(u32 gpu_id),
	TP_ARGS(gpu_id),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
	),
	TP_printk("gpu_id=%u", __entry->gpu_id)
);

TRACE_EVENT(rkfd_event,
	TP_PROTO(s32 pid, u32 event_id, const char *what),
	TP_ARGS(pid, event_id, what),
	TP_STRUCT__entry(
		__field(s32, pid)
		__field(u32, event_id)
		__string(what, what)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->event_id = event_id;
		__assign_str(what);
	),
	TP_printk("pid=%d event_id=%u what=%s", __entry->pid, __entry->event_id, __get_str(what))
);

TRACE_EVENT(rkfd_doorbell_map,
	TP_PROTO(s32 pid, u32 gpu_id, u64 phys, u64 va),
	TP_ARGS(pid, gpu_id, phys, va),
	TP_STRUCT__entry(
		__field(s32, pid)
		__field(u32, gpu_id)
		__field(u64, phys)
		__field(u64, va)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->gpu_id = gpu_id;
		__entry->phys = phys;
		__entry->va = va;
	),
	TP_printk("pid=%d gpu_id=%u phys=0x%llx va=0x%llx",
		  __entry->pid, __entry->gpu_id, __entry->phys, __entry->va)
);

TRACE_EVENT(rkfd_vm_map,
	TP_PROTO(u32 gpu_id, u32 pasid, u64 va, u64 bytes, u64 flags, bool map),
	TP_ARGS(gpu_id, pasid, va, bytes, flags, map),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__field(u32, pasid)
		__field(u64, va)
		__field(u64, bytes)
		__field(u64, flags)
		__field(bool, map)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__entry->pasid = pasid;
		__entry->va = va;
		__entry->bytes = bytes;
		__entry->flags = flags;
		__entry->map = map;
	),
	TP_printk("gpu_id=%u pasid=%u va=0x%llx bytes=0x%llx flags=0x%llx %s",
		  __entry->gpu_id, __entry->pasid, __entry->va, __entry->bytes, __entry->flags,
		  __entry->map ? "map" : "unmap")
);

TRACE_EVENT(rkfd_sdma_job,
	TP_PROTO(u32 gpu_id, u32 engine, u32 vmid, u64 seq, u32 ibs),
	TP_ARGS(gpu_id, engine, vmid, seq, ibs),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__field(u32, engine)
		__field(u32, vmid)
		__field(u64, seq)
		__field(u32, ibs)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__entry->engine = engine;
		__entry->vmid = vmid;
		__entry->seq = seq;
		__entry->ibs = ibs;
	),
	TP_printk("gpu_id=%u engine=%u vmid=%u seq=%llu ibs=%u", __entry->gpu_id, __entry->engine,
		  __entry->vmid, __entry->seq, __entry->ibs)
);

TRACE_EVENT(rkfd_sdma_reset,
	TP_PROTO(u32 gpu_id, u32 engine, u64 seq),
	TP_ARGS(gpu_id, engine, seq),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__field(u32, engine)
		__field(u64, seq)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__entry->engine = engine;
		__entry->seq = seq;
	),
	TP_printk("gpu_id=%u engine=%u seq=%llu", __entry->gpu_id, __entry->engine, __entry->seq)
);

TRACE_EVENT(rkfd_mes_submit,
	TP_PROTO(u32 gpu_id, u32 ring, const char *op, u32 doorbell, u32 seq, const u32 *words),
	TP_ARGS(gpu_id, ring, op, doorbell, seq, words),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__field(u32, ring)
		__string(op, op)
		__field(u32, doorbell)
		__field(u32, seq)
		__array(u32, words, 64)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__entry->ring = ring;
		__assign_str(op);
		__entry->doorbell = doorbell;
		__entry->seq = seq;
		memcpy(__entry->words, words, sizeof(__entry->words));
	),
	TP_printk("gpu_id=%u op=%s ring=%u doorbell=0x%x seq=%u words=%s", __entry->gpu_id,
		  __get_str(op), __entry->ring, __entry->doorbell, __entry->seq,
		  __print_array(__entry->words, 64, 4))
);

TRACE_EVENT(rkfd_mes_done,
	TP_PROTO(u32 gpu_id, u32 ring, const char *op, u32 seq, s32 ret, u64 ns),
	TP_ARGS(gpu_id, ring, op, seq, ret, ns),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__field(u32, ring)
		__string(op, op)
		__field(u32, seq)
		__field(s32, ret)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__entry->ring = ring;
		__assign_str(op);
		__entry->seq = seq;
		__entry->ret = ret;
		__entry->ns = ns;
	),
	TP_printk("gpu_id=%u op=%s ring=%u seq=%u ret=%d ns=%llu", __entry->gpu_id, __get_str(op),
		  __entry->ring, __entry->seq, __entry->ret, __entry->ns)
);

TRACE_EVENT(rkfd_queue_map,
	TP_PROTO(u32 gpu_id, s32 pid, u32 qid, u32 doorbell, bool map),
	TP_ARGS(gpu_id, pid, qid, doorbell, map),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__field(s32, pid)
		__field(u32, qid)
		__field(u32, doorbell)
		__field(bool, map)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__entry->pid = pid;
		__entry->qid = qid;
		__entry->doorbell = doorbell;
		__entry->map = map;
	),
	TP_printk("gpu_id=%u pid=%d qid=%u doorbell=0x%x map=%d", __entry->gpu_id, __entry->pid,
		  __entry->qid, __entry->doorbell, __entry->map)
);

TRACE_EVENT(rkfd_bo_move,
	TP_PROTO(u32 gpu_id, const char *from, const char *to, u64 bytes),
	TP_ARGS(gpu_id, from, to, bytes),
	TP_STRUCT__entry(
		__field(u32, gpu_id)
		__string(from, from)
		__string(to, to)
		__field(u64, bytes)
	),
	TP_fast_assign(
		__entry->gpu_id = gpu_id;
		__assign_str(from);
		__assign_str(to);
		__entry->bytes = bytes;
	),
	TP_printk("gpu_id=%u from=%s to=%s bytes=0x%llx",
		  __entry->gpu_id, __get_str(from), __get_str(to), __entry->bytes)
);

TRACE_EVENT(rkfd_svm,
	TP_PROTO(s32 pid, u32 gpu_id, const char *what, u64 va, u64 bytes),
	TP_ARGS(pid, gpu_id, what, va, bytes),
	TP_STRUCT__entry(
		__field(s32, pid)
		__field(u32, gpu_id)
		__string(what, what)
		__field(u64, va)
		__field(u64, bytes)
	),
	TP_fast_assign(
		__entry->pid = pid;
		__entry->gpu_id = gpu_id;
		__assign_str(what);
		__entry->va = va;
		__entry->bytes = bytes;
	),
	TP_printk("pid=%d gpu_id=%u what=%s va=0x%llx bytes=0x%llx",
		  __entry->pid, __entry->gpu_id, __get_str(what), __entry->va, __entry->bytes)
);

#endif /* RKFD_TRACE_H */

/* Outside the include guard: define_trace.h includes this file again. */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
