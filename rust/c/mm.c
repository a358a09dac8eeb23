// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers of inline functions of memory management, for Rust: areas, faults, and pages.
 */

#include <linux/hmm.h>
#include <linux/memremap.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>
#include <linux/userfaultfd_k.h>

#include "helpers.h"

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
