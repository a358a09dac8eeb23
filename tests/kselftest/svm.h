/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Helpers for tests of shared virtual memory: attributes over ranges of the process's memory. */
#ifndef SVM_H
#define SVM_H

#include <linux/ioctl.h>

#include "userptr.h"

#define NOWHERE_SET KFD_IOCTL_SVM_LOCATION_UNDEFINED
#define SVM_DEFAULT_FLAGS (KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT)
/* Default of the module parameter svm_default_granularity. */
#define SVM_DEFAULT_GRANULARITY 9
#define SVM_MAX_ATTRS 16

typedef struct kfd_ioctl_svm_attribute svm_attr;

/* Skips the test if the node has no SVM. */
static inline void svm_needed(const struct kfd *k)
{
	if (!(k->node.capability & SVM_CAPABLE))
		SKIP("the node has no SVM");
}

/* Same, also if it has no retry faults and `retry` is set. */
static inline void svm_mode_needed(const struct kfd *k, bool retry)
{
	svm_needed(k);
	if (retry && is_gfx12(&k->node))
		SKIP("waves of this GPU cannot wait for a page");
}

/* As fixture_launch(); skips the test if the node has no SVM. */
static inline void svm_launch(struct fixture *f)
{
	fixture_launch(f);
	svm_needed(&f->k);
}

/* The ioctl with all arguments; `room` attributes fit into the size that its number has. */
static inline int svm_call(struct kfd *k, uint32_t op, uint64_t start, uint64_t size,
			   uint32_t count, uint32_t room, svm_attr *attrs)
{
	struct {
		struct kfd_ioctl_svm_args args;
		svm_attr attrs[SVM_MAX_ATTRS];
	} call = { .args = { .start_addr = start, .size = size, .op = op, .nattr = count } };
	int ret;

	ASSERT(room <= SVM_MAX_ATTRS);
	if (room)
		memcpy(call.attrs, attrs, room * sizeof(*attrs));
	ret = kfd_ioctl(k->fd,
			_IOC(_IOC_READ | _IOC_WRITE, AMDKFD_IOCTL_BASE, _IOC_NR(AMDKFD_IOC_SVM),
			     sizeof(call.args) + room * sizeof(*attrs)),
			&call);
	if (room)
		memcpy(attrs, call.attrs, room * sizeof(*attrs));
	return ret;
}

#define SVM_COUNT(...) (sizeof((svm_attr[]){ __VA_ARGS__ }) / sizeof(svm_attr))
/* svm_set(k, start, size, { type, value }, ...); returns 0 or a negative errno. */
#define svm_set(k, start, size, ...)                                                              \
	svm_call(k, KFD_IOCTL_SVM_OP_SET_ATTR, kfd_va(start), size, SVM_COUNT(__VA_ARGS__),       \
		 SVM_COUNT(__VA_ARGS__), (svm_attr[]){ __VA_ARGS__ })

/* All that GET_ATTR can return of a range. */
struct svm_state {
	uint32_t preferred, prefetch, access, all_flags, no_flags, granularity;
};

static inline int svm_get(struct kfd *k, const void *start, size_t size, struct svm_state *s)
{
	svm_attr attrs[] = { { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 },
			     { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0 },
			     { KFD_IOCTL_SVM_ATTR_ACCESS, k->node.gpu_id },
			     { KFD_IOCTL_SVM_ATTR_SET_FLAGS, 0 },
			     { KFD_IOCTL_SVM_ATTR_CLR_FLAGS, 0 },
			     { KFD_IOCTL_SVM_ATTR_GRANULARITY, 0 } };
	int ret = svm_call(k, KFD_IOCTL_SVM_OP_GET_ATTR, kfd_va(start), size, 6, 6, attrs);

	*s = (struct svm_state){ attrs[0].value, attrs[1].value, attrs[2].type,
				 attrs[3].value, attrs[4].value, attrs[5].value };
	return ret;
}

/* Expects the attributes of a range in which all parts have the same flags. */
static inline bool svm_expect(struct kfd *k, const void *start, size_t size, uint32_t preferred,
			      uint32_t prefetch, uint32_t access, uint32_t flags,
			      uint32_t granularity)
{
	struct svm_state s;

	return EXPECT_OK(svm_get(k, start, size, &s)) & EXPECT_EQ(s.preferred, preferred) &
	       EXPECT_EQ(s.prefetch, prefetch) & EXPECT_EQ(s.access, access) &
	       EXPECT_EQ(s.all_flags, flags) & EXPECT_EQ(s.no_flags, ~flags) &
	       EXPECT_EQ(s.granularity, granularity);
}

static inline int svm_access(struct kfd *k, const void *start, size_t size)
{
	return svm_set(k, start, size, { KFD_IOCTL_SVM_ATTR_ACCESS, k->node.gpu_id });
}

static inline int svm_xnack(struct kfd *k, int32_t mode)
{
	struct kfd_ioctl_set_xnack_mode_args args = { .xnack_enabled = mode };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_SET_XNACK_MODE, &args);

	return ret || mode >= 0 ? ret : args.xnack_enabled;
}

/* Opens the GPU with or without retry faults, and creates a queue. */
static inline void svm_launch_mode(struct fixture *f, bool retry)
{
	fixture_load(f);
	svm_mode_needed(&f->k, retry);
	ASSERT_OK(svm_xnack(&f->k, retry));
	ASSERT_OK(kfd_queue_create(&f->k, &f->q, 64));
}

/* Migrates memory to VRAM, which the GPU may access; returns 0 or a negative errno. */
static inline int svm_to_vram(struct kfd *k, const void *start, size_t size)
{
	return svm_set(k, start, size, { KFD_IOCTL_SVM_ATTR_ACCESS, k->node.gpu_id },
		       { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, k->node.gpu_id });
}

/* Returns 2 MiB of memory that can be a huge page. */
static inline void *anonymous_huge(void)
{
	return (void *)((kfd_va(anonymous(4 * MIB)) + 2 * MIB - 1) & ~(2 * MIB - 1));
}

/* Memory of the process for gpu_writes() and gpu_reads(): the address is the same for the GPU. */
static inline struct pages svm_pages(void *start, size_t size)
{
	return (struct pages){ .cpu = start, .gpu = kfd_va(start), .size = size };
}

static inline bool svm_works(struct fixture *f, void *start, size_t size, uint32_t value)
{
	struct pages p = svm_pages(start, size);

	for (size_t at = 0; at < size; at += KFD_PAGE)
		if (!gpu_writes(f, &p, at + 256, 64, value + (uint32_t)(at / KFD_PAGE)) ||
		    !gpu_reads(f, &p, at + 1024, value * 3 + (uint32_t)(at / KFD_PAGE)))
			return false;
	return true;
}

/* Returns the number of faults once it has not changed for 200 ms: it is counted after the PTE. */
static inline uint64_t svm_settled_faults(struct kfd *k)
{
	uint64_t last, now = process_number(k, "counters", "faults");

	do {
		last = now;
		usleep(200000);
		now = process_number(k, "counters", "faults");
	} while (now != last);
	return now;
}

#endif
