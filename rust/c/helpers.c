// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers of inline functions and macros of the kernel, for Rust.
 */

#include <linux/aperture.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/devcoredump.h>
#include <linux/device.h>
#include <linux/device_cgroup.h>
#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/dmi.h>
#include <linux/fs.h>
#include <linux/fsnotify.h>
#include <linux/hmm.h>
#include <linux/idr.h>
#include <linux/io.h>
#include <linux/iommu.h>
#include <linux/ioport.h>
#include <linux/jiffies.h>
#include <linux/memremap.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pci.h>
#include <linux/pid.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sysfs.h>
#include <linux/topology.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/unroll.h>
#include <linux/userfaultfd_k.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>

#include <asm/cpu_device_id.h>

#include <drm/drm_auth.h>
#include <drm/drm_device.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_syncobj.h>
#include <drm/drm_vma_manager.h>
#include <drm/gpu_scheduler.h>
#include <drm/spsc_queue.h>

#include "helpers.h"

void rkfd_helper_drm_gem_object_get(struct drm_gem_object *obj)
{
	drm_gem_object_get(obj);
}

void rkfd_helper_drm_gem_object_put(struct drm_gem_object *obj)
{
	drm_gem_object_put(obj);
}

bool rkfd_helper_drm_is_current_master(struct drm_file *file)
{
	return drm_is_current_master(file);
}

/* drm_gem_object_is_shared_for_memory_stats(), without a lock. */
bool rkfd_helper_drm_gem_is_shared(struct drm_gem_object *obj)
{
	return drm_gem_object_is_shared_for_memory_stats(obj);
}

/*
 * Returns a reference to the object with the first handle from *handle on, and the handle. NULL if
 * there is none.
 */
struct drm_gem_object *rkfd_helper_drm_gem_next(struct drm_file *file, int *handle)
{
	struct drm_gem_object *obj;

	spin_lock(&file->table_lock);
	/* Skips handles that are being created or closed. */
	obj = idr_get_next(&file->object_idr, handle);
	if (obj)
		drm_gem_object_get(obj);
	spin_unlock(&file->table_lock);
	return obj;
}

/*
 * Adds a handle that belongs to no file: drm_gem_object_handle_get() is not exported. While it has
 * handles, an object keeps its reference to its DMA buffer. @buf: NULL, or a DMA buffer of the
 * object.
 */
void rkfd_helper_drm_gem_hold(struct drm_gem_object *obj, struct dma_buf *buf)
{
	mutex_lock(&obj->dev->object_name_lock);
	if (!obj->handle_count++)
		drm_gem_object_get(obj);
	if (buf && !obj->dma_buf) {
		get_dma_buf(buf);
		obj->dma_buf = buf;
	}
	mutex_unlock(&obj->dev->object_name_lock);
}

/* Reverts rkfd_helper_drm_gem_hold(), as drm_gem_object_handle_put_unlocked(). */
void rkfd_helper_drm_gem_let_go(struct drm_gem_object *obj)
{
	struct drm_device *dev = obj->dev;
	bool last;

	mutex_lock(&dev->object_name_lock);
	last = !--obj->handle_count;
	if (last) {
		if (obj->name)
			idr_remove(&dev->object_name_idr, obj->name);
		obj->name = 0;
		if (obj->dma_buf)
			dma_buf_put(obj->dma_buf);
		obj->dma_buf = NULL;
	}
	mutex_unlock(&dev->object_name_lock);
	if (last)
		drm_gem_object_put(obj);
}

/* Returns a reference to the DMA buffer, new or not, of an object that has a handle. */
struct dma_buf *rkfd_helper_drm_gem_export(struct drm_gem_object *obj, int flags)
{
	struct dma_buf *buf;

	mutex_lock(&obj->dev->object_name_lock);
	buf = obj->dma_buf ?: obj->funcs->export(obj, flags);
	if (!IS_ERR(buf)) {
		obj->dma_buf = buf;
		get_dma_buf(buf);
	}
	mutex_unlock(&obj->dev->object_name_lock);
	return buf;
}

u64 rkfd_helper_drm_vma_node_offset_addr(struct drm_vma_offset_node *node)
{
	return drm_vma_node_offset_addr(node);
}

void rkfd_helper_vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vm_flags_set(vma, flags);
}

void rkfd_helper_vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
	vm_flags_clear(vma, flags);
}

void rkfd_helper_vma_set_noncached(struct vm_area_struct *vma)
{
	vma->vm_page_prot = pgprot_decrypted(pgprot_noncached(vm_get_page_prot(vma->vm_flags)));
}

unsigned int rkfd_helper_vmf_insert(struct vm_area_struct *vma, unsigned long addr,
				    unsigned long pfn, bool wc, bool device)
{
	pgprot_t prot = wc ? pgprot_writecombine(vma->vm_page_prot) : vma->vm_page_prot;

	/* Memory encryption is of system memory. */
	if (device)
		prot = pgprot_decrypted(prot);
	return (__force unsigned int)vmf_insert_pfn_prot(vma, addr, pfn, prot);
}

bool rkfd_helper_access_ok(u64 addr, size_t size)
{
	return access_ok((const void __user *)addr, size);
}

bool rkfd_helper_in_compat_syscall(void)
{
	return in_compat_syscall();
}

void *rkfd_helper_alloc_workqueue(const char *name, unsigned int flags, int max_active)
{
	return alloc_workqueue("%s", flags, max_active, name);
}

int rkfd_helper_node_distance(int from, int to)
{
	return node_distance(from, to);
}

unsigned int rkfd_helper_cpus_of_node(int node)
{
	return cpumask_weight(cpumask_of_node(node));
}

/* Returns the APIC id of the first online CPU of a node, or -1 if it has none. */
s64 rkfd_helper_first_apicid_of_node(int node)
{
	unsigned int cpu;
	s64 id = -1;

	/* The mask has online CPUs only. */
	cpus_read_lock();
	cpu = cpumask_first(cpumask_of_node(node));
	if (cpu < nr_cpu_ids)
		id = cpu_data(cpu).topo.apicid;
	cpus_read_unlock();
	return id;
}

bool rkfd_helper_cpu_is_amd(void)
{
	return boot_cpu_data.x86_vendor == X86_VENDOR_AMD;
}

/*
 * Returns whether the platform does not change the speed of the device's link at run time
 * (amdgpu_pcie_dynamic_switching_quirks).
 */
bool rkfd_helper_pcie_speed_is_fixed(struct pci_dev *pdev)
{
	static const struct x86_cpu_id fixed[] = {
		X86_MATCH_VENDOR_FAM(INTEL, X86_FAMILY_ANY, NULL),
		X86_MATCH_VENDOR_FAM_MODEL(AMD, 0x17, 0x08, NULL),
		{}
	};

	return !dev_is_removable(&pdev->dev) && x86_match_cpu(fixed);
}

struct dmi_visitor {
	void (*f)(const u8 *record, u8 length, void *data);
	void *data;
};

static void visit_dmi_record(const struct dmi_header *record, void *data)
{
	struct dmi_visitor *v = data;

	v->f((const u8 *)record, record->length, v->data);
}

/* Calls f with each record of the SMBIOS table, without its strings. */
void rkfd_helper_dmi_walk(void (*f)(const u8 *record, u8 length, void *data), void *data)
{
	struct dmi_visitor v = { .f = f, .data = data };

	dmi_walk(visit_dmi_record, &v);
}

bool rkfd_helper_in_guest(void)
{
	return boot_cpu_has(X86_FEATURE_HYPERVISOR);
}

u64 rkfd_helper_node_bytes(int node)
{
	pg_data_t *pgdat = NODE_DATA(node);
	u64 pages = 0;
	int zone;

	for (zone = 0; zone < MAX_NR_ZONES; zone++)
		pages += zone_managed_pages(&pgdat->node_zones[zone]);
	return pages << PAGE_SHIFT;
}

int rkfd_helper_next_online_node(int after)
{
	int node = after < 0 ? first_online_node : next_online_node(after);

	return node < MAX_NUMNODES ? node : -1;
}

void rkfd_helper_dma_fence_get(struct dma_fence *fence)
{
	dma_fence_get(fence);
}

void rkfd_helper_dma_fence_put(struct dma_fence *fence)
{
	dma_fence_put(fence);
}

bool rkfd_helper_dma_fence_begin_signalling(void)
{
	return dma_fence_begin_signalling();
}

void rkfd_helper_dma_fence_end_signalling(bool cookie)
{
	dma_fence_end_signalling(cookie);
}

/* Returns whether the fence was signaled, and stores the time, see dma_fence_timestamp(). */
bool rkfd_helper_dma_fence_signaled_at(struct dma_fence *fence, ktime_t *time)
{
	if (!test_bit(DMA_FENCE_FLAG_TIMESTAMP_BIT, &fence->flags))
		return false;
	*time = fence->timestamp;
	return true;
}

bool rkfd_helper_dma_fence_is_signaled(struct dma_fence *fence)
{
	return dma_fence_is_signaled(fence);
}

/* Sets the error and signals in one critical section. False if the fence was signaled before. */
bool rkfd_helper_dma_fence_end(struct dma_fence *fence, int error)
{
	unsigned long flags;
	bool first;

	dma_fence_lock_irqsave(fence, flags);
	first = !dma_fence_test_signaled_flag(fence);
	if (first && error)
		dma_fence_set_error(fence, error);
	dma_fence_signal_locked(fence);
	dma_fence_unlock_irqrestore(fence, flags);
	return first;
}

void rkfd_helper_dma_fence_set_error(struct dma_fence *fence, int error)
{
	unsigned long flags;

	dma_fence_lock_irqsave(fence, flags);
	if (!dma_fence_test_signaled_flag(fence))
		dma_fence_set_error(fence, error);
	dma_fence_unlock_irqrestore(fence, flags);
}

unsigned long rkfd_helper_nsecs_to_jiffies(u64 ns)
{
	return nsecs_to_jiffies(ns);
}

void rkfd_helper_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}

void rkfd_helper_wait_until_zero(int *var)
{
	wait_var_event(var, !READ_ONCE(*var));
}

static bool sched_entity_is_idle(struct drm_sched_entity *entity)
{
	/* As in drm_sched_entity_is_idle(): the list is read without its lock. */
	rmb();
	return list_empty(&entity->list) || !spsc_queue_count(&entity->job_queue) ||
	       READ_ONCE(entity->stopped);
}

/*
 * As drm_sched_entity_flush(), but returns whether the entity is to be killed, which the caller
 * does under a lock of its own. Waits in slices: the entity may move to another scheduler
 * meanwhile.
 */
bool rkfd_helper_sched_entity_flush(struct drm_sched_entity *entity, long timeout)
{
	const bool exiting = current->flags & PF_EXITING;
	const long slice = HZ / 10;
	struct task_struct *last_user;

	while (!sched_entity_is_idle(entity)) {
		wait_queue_head_t *wq = &READ_ONCE(entity->rq)->sched->job_scheduled;

		if (exiting) {
			if (timeout <= 0)
				break;
			wait_event_timeout(*wq, sched_entity_is_idle(entity), slice);
			timeout -= slice;
		} else if (wait_event_killable_timeout(*wq, sched_entity_is_idle(entity),
						       slice) < 0) {
			break;
		}
	}
	last_user = cmpxchg(&entity->last_user, current->group_leader, NULL);
	return last_user == current->group_leader && exiting && current->exit_code == SIGKILL;
}

bool rkfd_helper_sched_entity_stopped(struct drm_sched_entity *entity)
{
	return READ_ONCE(entity->stopped);
}

/* Returns a reference to the dependency, whose callback may be dropping that of the entity. */
struct dma_fence *rkfd_helper_sched_entity_dependency(struct drm_sched_entity *entity)
{
	struct dma_fence *fence;

	rcu_read_lock();
	fence = READ_ONCE(entity->dependency);
	if (fence)
		fence = dma_fence_get_rcu(fence);
	rcu_read_unlock();
	return fence;
}

void rkfd_helper_ww_acquire_init(struct ww_acquire_ctx *ctx)
{
	ww_acquire_init(ctx, &reservation_ww_class);
}

void rkfd_helper_ww_acquire_fini(struct ww_acquire_ctx *ctx)
{
	ww_acquire_fini(ctx);
}

int rkfd_helper_dma_resv_lock(struct dma_resv *resv, struct ww_acquire_ctx *ctx, bool interruptible)
{
	return interruptible ? dma_resv_lock_interruptible(resv, ctx) : dma_resv_lock(resv, ctx);
}

int rkfd_helper_dma_resv_lock_slow(struct dma_resv *resv, struct ww_acquire_ctx *ctx,
				   bool interruptible)
{
	if (interruptible)
		return dma_resv_lock_slow_interruptible(resv, ctx);
	dma_resv_lock_slow(resv, ctx);
	return 0;
}

bool rkfd_helper_dma_resv_trylock(struct dma_resv *resv)
{
	return dma_resv_trylock(resv);
}

void rkfd_helper_dma_resv_unlock(struct dma_resv *resv)
{
	dma_resv_unlock(resv);
}

void rkfd_helper_drm_syncobj_get(struct drm_syncobj *syncobj)
{
	drm_syncobj_get(syncobj);
}

void rkfd_helper_drm_syncobj_put(struct drm_syncobj *syncobj)
{
	drm_syncobj_put(syncobj);
}

/* Of the node of the device, whatever the memory policy of the task. */
struct page *rkfd_helper_alloc_pages(struct device *dev, unsigned int order, bool zero)
{
	struct page *page;
	gfp_t gfp = GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;

	/*
	 * Large runs are optional: do not reclaim for them. They are mapped by PFN, without
	 * references to pages: no compound page is necessary, whose tail pages cost time.
	 */
	if (order)
		gfp = GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN | __GFP_THISNODE;
	if (zero)
		gfp |= __GFP_ZERO;
	page = alloc_pages_node(dev_to_node(dev), gfp, order);
	if (page)
		mod_lruvec_page_state(page, NR_GPU_ACTIVE, 1 << order);
	return page;
}

void rkfd_helper_free_pages(phys_addr_t addr, unsigned int order)
{
	struct page *page = phys_to_page(addr);

	mod_lruvec_page_state(page, NR_GPU_ACTIVE, -(1 << order));
	__free_pages(page, order);
}

phys_addr_t rkfd_helper_page_to_phys(struct page *page)
{
	return page_to_phys(page);
}

void *rkfd_helper_phys_to_virt(phys_addr_t addr)
{
	return phys_to_virt(addr);
}

/* As memset_io(), in units of 64 bits that are written at once. */
void rkfd_helper_fill64_io(void __iomem *to, u64 value, size_t count)
{
	u64 __iomem *at = to;
	unsigned int i;

	/* A whole page table has 512: the branch would cost as much as the store. */
	for (; count >= 8; count -= 8, at += 8)
		unrolled_full
		for (i = 0; i < 8; i++)
			__raw_writeq(value, at + i);
	while (count--)
		__raw_writeq(value, at++);
}

/* As __iowrite64_copy(), with fewer branches. */
void rkfd_helper_copy64_io(void __iomem *to, const u64 *from, size_t count)
{
	u64 __iomem *at = to;
	unsigned int i;

	for (; count >= 8; count -= 8, at += 8, from += 8)
		unrolled_full
		for (i = 0; i < 8; i++)
			__raw_writeq(from[i], at + i);
	while (count--)
		__raw_writeq(*from++, at++);
}

bool rkfd_helper_dma_mapping_error(struct device *dev, dma_addr_t addr)
{
	return dma_mapping_error(dev, addr);
}

/*
 * Each call site is a lock class. Handlers of device attributes remove topology nodes, hence two
 * classes: an attribute is in use while those of the other are drained.
 */
void rkfd_helper_sysfs_attr_init(struct attribute *attr)
{
	sysfs_attr_init(attr);
}

void rkfd_helper_sysfs_device_attr_init(struct attribute *attr)
{
	sysfs_attr_init(attr);
}

int rkfd_helper_check_render_node(u32 minor)
{
	return devcgroup_check_permission(DEVCG_DEV_CHAR, DRM_MAJOR, minor,
					  DEVCG_ACC_READ | DEVCG_ACC_WRITE);
}

void rkfd_helper_dev_coredump(struct device *dev, void *data, size_t len)
{
	dev_coredumpv(dev, data, len, GFP_KERNEL);
}

static void dma_mask_release(struct device *dev, void *res)
{
}

/*
 * The mask of a device is set once per binding, which a resource of the device records. Called with
 * the device lock held. -EBUSY: the mask was set before.
 */
int rkfd_helper_dma_set_mask(struct device *dev, u64 mask)
{
	void *res;
	int ret;

	if (devres_find(dev, dma_mask_release, NULL, NULL))
		return -EBUSY;
	res = devres_alloc(dma_mask_release, 1, GFP_KERNEL);
	if (!res)
		return -ENOMEM;
	ret = dma_set_mask_and_coherent(dev, mask);
	if (ret) {
		devres_free(res);
		return ret;
	}
	devres_add(dev, res);
	return 0;
}

/* Whether the DMA addresses of system memory are physical: no IOMMU translates them. */
bool rkfd_helper_dma_is_direct(struct device *dev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	return !domain || domain->type == IOMMU_DOMAIN_IDENTITY;
}

/* Whether [start, start + size) lies in a memory BAR of the device. */
bool rkfd_helper_pci_bar_contains(struct pci_dev *pdev, u64 start, u64 size)
{
	int bar;

	for (bar = 0; bar < PCI_STD_NUM_BARS; bar++) {
		u64 len = pci_resource_len(pdev, bar);
		u64 first = pci_resource_start(pdev, bar);

		if ((pci_resource_flags(pdev, bar) & IORESOURCE_MEM) && start >= first &&
		    size <= len && start - first <= len - size)
			return true;
	}
	return false;
}

/* Whether the current task is a kernel thread that has no user memory. */
bool rkfd_helper_is_kthread(void)
{
	return (current->flags & PF_KTHREAD) && !current->mm;
}

/* Returns the task with an id in the current PID namespace, with a reference, or NULL. */
struct task_struct *rkfd_helper_find_task(int nr)
{
	struct pid *pid = find_get_pid(nr);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_PID);

	put_pid(pid);
	return task;
}

/* Returns the leader of a task's thread group, with a reference, or NULL if the task has ended. */
struct task_struct *rkfd_helper_group_leader(struct task_struct *task)
{
	struct task_struct *leader = NULL;

	rcu_read_lock();
	if (pid_alive(task)) {
		leader = task->group_leader;
		get_task_struct(leader);
	}
	rcu_read_unlock();
	return leader;
}

/* Whether the current task has attached to @task by ptrace(). */
bool rkfd_helper_is_traced_by_current(struct task_struct *task)
{
	bool traced;

	rcu_read_lock();
	traced = ptrace_parent(task) == current;
	rcu_read_unlock();
	return traced;
}

/*
 * Writes to @file without waiting for room. A pipe waits for its readers and writers to release its
 * lock: for workers only. Returns the number of bytes or a negative errno.
 */
ssize_t rkfd_helper_write_nowait(struct file *file, const void *data, size_t len)
{
	struct kvec vec = { .iov_base = (void *)data, .iov_len = len };
	struct iov_iter from;
	struct kiocb iocb;
	ssize_t ret;

	/* Other files may ignore the flag. Named pipes have no FMODE_NOWAIT. */
	if (!(file->f_mode & FMODE_NOWAIT) && !S_ISFIFO(file_inode(file)->i_mode))
		return -EOPNOTSUPP;
	/* rw_verify_area() waits for a listener of pre-content events. */
	if (FMODE_FSNOTIFY_HSM(file->f_mode))
		return -EOPNOTSUPP;
	if (!(file->f_mode & FMODE_WRITE) || !file->f_op->write_iter)
		return -EBADF;
	init_sync_kiocb(&iocb, file);
	iocb.ki_flags |= IOCB_NOWAIT;
	iov_iter_kvec(&from, ITER_SOURCE, &vec, 1, len);
	ret = rw_verify_area(WRITE, file, &iocb.ki_pos, len);
	if (ret)
		return ret;
	/*
	 * Not vfs_iocb_iter_write(): while the file system is frozen it waits, also for a named
	 * pipe.
	 */
	if (!file_start_write_trylock(file))
		return -EAGAIN;
	ret = file->f_op->write_iter(&iocb, &from);
	file_end_write(file);
	if (ret > 0)
		fsnotify_modify(file);
	return ret;
}

/*
 * As amdgpu_device_init(), for displays only: sysfb_disable() is for all devices, if the one that
 * is asked for it is the default VGA device or none is.
 */
int rkfd_helper_remove_boot_display(struct pci_dev *pdev)
{
	switch (pdev->class >> 8) {
	case PCI_CLASS_DISPLAY_VGA:
	case PCI_CLASS_DISPLAY_OTHER:
		return aperture_remove_conflicting_pci_devices(pdev, "rkfd");
	default:
		return 0;
	}
}

int rkfd_helper_pci_domain_nr(struct pci_bus *bus)
{
	return pci_domain_nr(bus);
}

/* Takes the lock of the device if it is free and the device has a driver. */
bool rkfd_helper_pci_trylock_bound(struct pci_dev *pdev)
{
	if (!device_trylock(&pdev->dev))
		return false;
	if (pdev->dev.driver && pdev->dev.driver->owner == THIS_MODULE)
		return true;
	device_unlock(&pdev->dev);
	return false;
}

void rkfd_helper_pci_unlock(struct pci_dev *pdev)
{
	device_unlock(&pdev->dev);
}

void rkfd_helper_mmu_interval_set_seq(struct mmu_interval_notifier *notifier, unsigned long seq)
{
	mmu_interval_set_seq(notifier, seq);
}

bool rkfd_helper_range_is_blockable(const struct mmu_notifier_range *range)
{
	return mmu_notifier_range_blockable(range);
}

bool rkfd_helper_vma_is_heap_or_stack(const struct vm_area_struct *vma)
{
	return vma_is_initial_heap(vma) || vma_is_initial_stack(vma);
}

/* Whether user space handles faults of a part of a range (userfaultfd). The mmap lock is held. */
bool rkfd_helper_userfaultfd_armed(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma;

	for_each_vma_range(vmi, vma, end)
		if (userfaultfd_armed(vma))
			return true;
	return false;
}

/* Whether user space handles faults of an area (userfaultfd). */
bool rkfd_helper_vma_is_armed(struct vm_area_struct *vma)
{
	return userfaultfd_armed(vma);
}

/* Whether a userfaultfd may write-protect pages of an area, or remove the access to them. */
bool rkfd_helper_vma_reports_writes(struct vm_area_struct *vma)
{
	return userfaultfd_protected(vma);
}

/* Whether a fault may be repeated: at its first attempt. */
bool rkfd_helper_fault_may_retry(const struct vm_fault *vmf)
{
	return fault_flag_allow_retry_first(vmf->flags);
}

/*
 * Drops the lock of a fault that may be repeated, unless it must not wait. Returns whether the lock
 * was dropped; the fault returns VM_FAULT_RETRY in both cases.
 */
bool rkfd_helper_fault_unlock(struct vm_fault *vmf)
{
	if (vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
		return false;
	release_fault_lock(vmf);
	return true;
}

/* Whether a userfaultfd provides missing pages of an area also for accesses of the kernel. */
static bool provides_pages(const struct vm_area_struct *vma)
{
	const struct userfaultfd_ctx *ctx = vma->vm_userfaultfd_ctx.ctx;

	return userfaultfd_missing((struct vm_area_struct *)vma) &&
	       !(ctx->flags & UFFD_USER_MODE_ONLY) && !(ctx->features & UFFD_FEATURE_SIGBUS);
}

/*
 * Faults a page in without waiting. Returns 1 if it is there, 0 if it has to be waited for (a
 * userfaultfd provides it, or it is being read), or a negative errno. The mmap lock is held.
 */
long rkfd_helper_fault_nowait(struct mm_struct *mm, unsigned long addr, bool write)
{
	unsigned int flags = FOLL_NOWAIT | FOLL_HWPOISON | (write ? FOLL_WRITE : 0);
	struct vm_area_struct *vma = vma_lookup(mm, addr);
	/*
	 * Anonymous memory has to be provided where there is no entry. A fault finds that out after
	 * it has allocated and cleared a page, also a huge one: FOLL_DUMP does not fault.
	 */
	bool provided = vma && vma_is_anonymous(vma) && provides_pages(vma);
	struct page *page;
	long count;

	if (provided)
		flags |= FOLL_DUMP;
	count = get_user_pages_remote(mm, addr, 1, flags, &page, NULL);
	if (count == 1)
		put_page(page);
	return provided && count == -EFAULT ? 0 : count;
}

/* Marks pages of one folio from @pfn on, @count at most. Returns how many. */
static unsigned long mark_dirty(unsigned long pfn, unsigned long count)
{
	struct page *page = pfn_to_online_page(pfn);
	unsigned long done = 1;
	struct folio *folio;

	if (!page)
		return done;
	folio = page_folio(page);
	if (!folio_try_get(folio))
		return done;
	/* It may have been freed and allocated with others. */
	if (page_folio(page) == folio) {
		if (count > 1)
			done = min(count, folio_nr_pages(folio) - folio_page_idx(folio, page));
		/* It stays dirty while it is mapped: the kernel cleans pages after an unmap. */
		if (!folio_test_dirty(folio) &&
		    (folio_test_anon(folio) || folio_test_swapbacked(folio)))
			folio_mark_dirty(folio);
	}
	folio_put(folio);
	return done;
}

/*
 * Marks the pages of @count runs at physical addresses as dirty, as far as they are of anonymous
 * memory or shmem. Pages of file systems are writable only while they are dirty. Pages may be free
 * or in use by others, for which this has no effect but a write to swap. Does not sleep.
 */
void rkfd_helper_mark_dirty(const struct rkfd_run *runs, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		unsigned long pfn = PHYS_PFN(runs[i].addr), end = pfn + runs[i].count;

		while (pfn < end)
			pfn += mark_dirty(pfn, end - pfn);
	}
}

/* Returns the data of a device private page; NULL if it is free. */
void *rkfd_helper_page_device_data(const struct page *page)
{
	return READ_ONCE(page->zone_device_data);
}

/* The same, and marks the page as free. */
void *rkfd_helper_folio_take_device_data(struct folio *folio)
{
	return xchg(&folio->page.zone_device_data, NULL);
}

/* Returns a device private page with a reference; NULL if it is free. */
struct page *rkfd_helper_device_page_get(unsigned long pfn)
{
	struct page *page = pfn_to_page(pfn);

	return folio_try_get(page_folio(page)) ? page : NULL;
}

void rkfd_helper_put_page(struct page *page)
{
	put_page(page);
}

/*
 * Whether a device private page is mapped once, as anonymous memory: it is not shared by a fork().
 * False for a page that is free or being migrated.
 */
bool rkfd_helper_device_page_is_exclusive(unsigned long pfn)
{
	struct page *page = pfn_to_page(pfn);
	struct folio *folio = page_folio(page);
	bool exclusive = false;

	if (!folio_try_get(folio))
		return false;
	if (folio_test_anon(folio)) {
		exclusive = PageAnonExclusive(page);
		/* Migration entries of other processes do not count; they exist under the lock. */
		if (!exclusive && folio_trylock(folio)) {
			exclusive = !folio_test_large(folio) && folio_mapcount(folio) == 1;
			folio_unlock(folio);
		}
	}
	folio_put(folio);
	return exclusive;
}

/*
 * Takes a device private page, and returns it with one reference and locked, with @data. Returns
 * false if it is in use. Calls for the same page are serialized.
 */
bool rkfd_helper_device_page_init(unsigned long pfn, void *data)
{
	struct page *page = pfn_to_page(pfn);

	/* Pairs with xchg(): the page is free once its data was taken. */
	if (smp_load_acquire(&page->zone_device_data))
		return false;
	page->zone_device_data = data;
	zone_device_page_init(page, page_pgmap(page), 0);
	return true;
}

/*
 * Returns the migration entry of a new page of system memory, locked; 0 without memory. @vma: NULL,
 * or that of the address at which it is going to be mapped.
 */
unsigned long rkfd_helper_alloc_locked_page(struct vm_area_struct *vma, unsigned long addr)
{
	struct folio *folio;

	if (vma)
		folio = vma_alloc_folio(GFP_HIGHUSER_MOVABLE, 0, vma, addr);
	else
		folio = folio_alloc(GFP_HIGHUSER_MOVABLE | __GFP_NORETRY | __GFP_NOWARN, 0);
	if (!folio)
		return 0;
	folio_lock(folio);
	/* Its contents come from a device, whose writes no PTE has recorded. */
	folio_mark_dirty(folio);
	return migrate_pfn(folio_pfn(folio));
}

void rkfd_helper_unlock_put_page(struct page *page)
{
	unlock_page(page);
	put_page(page);
}

struct page *rkfd_helper_migrate_pfn_to_page(unsigned long mpfn)
{
	return migrate_pfn_to_page(mpfn);
}

bool rkfd_helper_vma_is_anonymous(struct vm_area_struct *vma)
{
	return vma_is_anonymous(vma);
}

void rkfd_helper_release_mem_region(struct resource *res)
{
	release_mem_region(res->start, resource_size(res));
}

u64 rkfd_helper_untagged_addr(u64 addr)
{
	return untagged_addr(addr);
}

unsigned int rkfd_helper_noreclaim_save(void)
{
	return memalloc_noreclaim_save();
}

void rkfd_helper_noreclaim_restore(unsigned int flags)
{
	memalloc_noreclaim_restore(flags);
}

bool rkfd_helper_in_noreclaim(void)
{
	return current->flags & PF_MEMALLOC;
}

MODULE_VERSION("0.2.0");
