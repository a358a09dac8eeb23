/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers of inline functions and macros of the kernel, which Rust cannot call directly.
 */
#ifndef RKFD_HELPERS_H
#define RKFD_HELPERS_H

#include <linux/mm_types.h>
#include <linux/types.h>

struct dma_buf;
struct drm_file;
struct drm_gem_object;
struct drm_vma_offset_node;
struct mmu_notifier_range;
struct pci_dev;

void rkfd_helper_drm_gem_object_get(struct drm_gem_object *obj);
void rkfd_helper_drm_gem_object_put(struct drm_gem_object *obj);
bool rkfd_helper_drm_gem_is_shared(struct drm_gem_object *obj);
bool rkfd_helper_drm_is_current_master(struct drm_file *file);
struct drm_gem_object *rkfd_helper_drm_gem_next(struct drm_file *file, int *handle);
void rkfd_helper_drm_gem_hold(struct drm_gem_object *obj, struct dma_buf *buf);
void rkfd_helper_drm_gem_let_go(struct drm_gem_object *obj);
struct dma_buf *rkfd_helper_drm_gem_export(struct drm_gem_object *obj, int flags);
u64 rkfd_helper_drm_vma_node_offset_addr(struct drm_vma_offset_node *node);

void rkfd_helper_vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags);
void rkfd_helper_vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags);
void rkfd_helper_vma_set_noncached(struct vm_area_struct *vma);
unsigned int rkfd_helper_vmf_insert(struct vm_area_struct *vma, unsigned long addr,
				    unsigned long pfn, bool wc, bool device);

bool rkfd_helper_access_ok(u64 addr, size_t size);
bool rkfd_helper_in_compat_syscall(void);

void *rkfd_helper_alloc_workqueue(const char *name, unsigned int flags, int max_active);

int rkfd_helper_node_distance(int from, int to);
unsigned int rkfd_helper_cpus_of_node(int node);
s64 rkfd_helper_first_apicid_of_node(int node);
bool rkfd_helper_cpu_is_amd(void);
bool rkfd_helper_pcie_speed_is_fixed(struct pci_dev *pdev);
void rkfd_helper_dmi_walk(void (*f)(const u8 *record, u8 length, void *data), void *data);
bool rkfd_helper_in_guest(void);
u64 rkfd_helper_node_bytes(int node);
int rkfd_helper_next_online_node(int after);

struct dma_fence;

void rkfd_helper_dma_fence_get(struct dma_fence *fence);
void rkfd_helper_dma_fence_put(struct dma_fence *fence);
bool rkfd_helper_dma_fence_begin_signalling(void);
void rkfd_helper_dma_fence_end_signalling(bool cookie);
bool rkfd_helper_dma_fence_signaled_at(struct dma_fence *fence, ktime_t *time);
bool rkfd_helper_dma_fence_is_signaled(struct dma_fence *fence);
bool rkfd_helper_dma_fence_end(struct dma_fence *fence, int error);
void rkfd_helper_dma_fence_set_error(struct dma_fence *fence, int error);
unsigned long rkfd_helper_nsecs_to_jiffies(u64 ns);

struct drm_sched_entity;

void rkfd_helper_synchronize_rcu_tasks(void);
void rkfd_helper_wait_until_zero(int *var);
bool rkfd_helper_sched_entity_flush(struct drm_sched_entity *entity, long timeout);
bool rkfd_helper_sched_entity_stopped(struct drm_sched_entity *entity);
struct dma_fence *rkfd_helper_sched_entity_dependency(struct drm_sched_entity *entity);

struct dma_resv;
struct ww_acquire_ctx;

void rkfd_helper_ww_acquire_init(struct ww_acquire_ctx *ctx);
void rkfd_helper_ww_acquire_fini(struct ww_acquire_ctx *ctx);
int rkfd_helper_dma_resv_lock(struct dma_resv *resv, struct ww_acquire_ctx *ctx,
			      bool interruptible);
int rkfd_helper_dma_resv_lock_slow(struct dma_resv *resv, struct ww_acquire_ctx *ctx,
				   bool interruptible);
bool rkfd_helper_dma_resv_trylock(struct dma_resv *resv);
void rkfd_helper_dma_resv_unlock(struct dma_resv *resv);

struct drm_syncobj;

void rkfd_helper_drm_syncobj_get(struct drm_syncobj *syncobj);
void rkfd_helper_drm_syncobj_put(struct drm_syncobj *syncobj);

struct attribute;
struct device;
struct page;
struct device;
struct pci_bus;
struct pci_dev;

void rkfd_helper_fill64_io(void __iomem *to, u64 value, size_t count);
void rkfd_helper_copy64_io(void __iomem *to, const u64 *from, size_t count);
bool rkfd_helper_dma_mapping_error(struct device *dev, dma_addr_t addr);
void rkfd_helper_sysfs_attr_init(struct attribute *attr);
int rkfd_helper_check_render_node(u32 minor);
void rkfd_helper_dev_coredump(struct device *dev, void *data, size_t len);
void rkfd_helper_sysfs_device_attr_init(struct attribute *attr);
struct page *rkfd_helper_alloc_pages(struct device *dev, unsigned int order, bool zero);
void rkfd_helper_free_pages(phys_addr_t addr, unsigned int order);
phys_addr_t rkfd_helper_page_to_phys(struct page *page);
void *rkfd_helper_phys_to_virt(phys_addr_t addr);
int rkfd_helper_remove_boot_display(struct pci_dev *pdev);
int rkfd_helper_pci_domain_nr(struct pci_bus *bus);
bool rkfd_helper_pci_trylock_bound(struct pci_dev *pdev);
void rkfd_helper_pci_unlock(struct pci_dev *pdev);
bool rkfd_helper_pci_bar_contains(struct pci_dev *pdev, u64 start, u64 size);
int rkfd_helper_dma_set_mask(struct device *dev, u64 mask);
bool rkfd_helper_dma_is_direct(struct device *dev);
bool rkfd_helper_is_kthread(void);

struct file;
struct task_struct;

struct task_struct *rkfd_helper_find_task(int nr);
struct task_struct *rkfd_helper_group_leader(struct task_struct *task);
bool rkfd_helper_is_traced_by_current(struct task_struct *task);
ssize_t rkfd_helper_write_nowait(struct file *file, const void *data, size_t len);

struct mmu_interval_notifier;

/* Pages that follow each other, the first of which is page @first of a whole. */
struct rkfd_run {
	u32 first;
	u32 count;
	/* Physical or DMA address. */
	u64 addr;
};

void rkfd_helper_mmu_interval_set_seq(struct mmu_interval_notifier *notifier, unsigned long seq);
bool rkfd_helper_range_is_blockable(const struct mmu_notifier_range *range);
bool rkfd_helper_userfaultfd_armed(struct mm_struct *mm, unsigned long start, unsigned long end);
bool rkfd_helper_vma_is_armed(struct vm_area_struct *vma);
bool rkfd_helper_vma_reports_writes(struct vm_area_struct *vma);
bool rkfd_helper_fault_may_retry(const struct vm_fault *vmf);
bool rkfd_helper_fault_unlock(struct vm_fault *vmf);
long rkfd_helper_fault_nowait(struct mm_struct *mm, unsigned long addr, bool write);
void rkfd_helper_mark_dirty(const struct rkfd_run *runs, size_t count);

void *rkfd_helper_page_device_data(const struct page *page);
void *rkfd_helper_folio_take_device_data(struct folio *folio);
struct page *rkfd_helper_device_page_get(unsigned long pfn);
void rkfd_helper_put_page(struct page *page);
bool rkfd_helper_device_page_is_exclusive(unsigned long pfn);
bool rkfd_helper_device_page_init(unsigned long pfn, void *data);
unsigned long rkfd_helper_alloc_locked_page(struct vm_area_struct *vma, unsigned long addr);
void rkfd_helper_unlock_put_page(struct page *page);
struct page *rkfd_helper_migrate_pfn_to_page(unsigned long mpfn);
bool rkfd_helper_vma_is_anonymous(struct vm_area_struct *vma);
void rkfd_helper_release_mem_region(struct resource *res);
bool rkfd_helper_vma_is_heap_or_stack(const struct vm_area_struct *vma);
u64 rkfd_helper_untagged_addr(u64 addr);
unsigned int rkfd_helper_noreclaim_save(void);
void rkfd_helper_noreclaim_restore(unsigned int flags);
bool rkfd_helper_in_noreclaim(void);

#endif
