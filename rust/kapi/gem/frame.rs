// SPDX-License-Identifier: GPL-2.0

//! Pages of GEM objects in user page tables.

use kernel::{
    bindings, new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{aref::ARef, Mutex},
};

use crate::{
    bindings as ours,
    kapi::{dma::Pages, drm::Device, pci},
};

/// The caching mode of a CPU mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caching {
    /// Cached.
    WriteBack,
    /// Write-combined: device memory without side effects.
    WriteCombine,
    /// Uncached: registers.
    Uncached,
}

/// The CPU mappings of an object, which may have been freed already.
#[derive(Clone)]
pub(crate) struct View {
    dev: ARef<Device>,
    offset: u64,
    size: usize,
}

impl View {
    /// Returns the mappings of `size` bytes at `offset` of the files of `dev`.
    pub(super) fn new(dev: &Device, offset: u64, size: usize) -> Self {
        Self {
            dev: dev.into(),
            offset,
            size,
        }
    }

    /// Zaps the mappings. The next access faults, and calls [`super::DriverObject::show_pages`].
    pub(crate) fn zap(&self) {
        // SAFETY: The inode lives as long as the device, which the view holds. If the object was
        // freed, and its offset is another object's, that one's mappings are zapped: harmless.
        unsafe {
            bindings::unmap_mapping_range(
                (*(*self.dev.raw()).anon_inode).i_mapping,
                self.offset as bindings::loff_t,
                self.size as bindings::loff_t,
                1,
            )
        }
    }

    fn is(&self, other: &Self) -> bool {
        core::ptr::eq(&*self.dev, &*other.dev)
            && self.offset == other.offset
            && self.size == other.size
    }

    /// Returns whether the page at `phys` lies in a memory BAR of the device.
    fn has_bar_page(&self, phys: u64) -> bool {
        <&kernel::pci::Device>::try_from(self.dev.parent())
            .is_ok_and(|pdev| pci::bar_contains(pdev, phys, PAGE_SIZE as u64))
    }
}

/// System memory of an object: zapped before it is freed.
///
/// # Invariants
///
/// Only mappings of `view` refer to the pages; none while it is `None`. Once set, it does not
/// change before the drop.
#[pin_data(PinnedDrop)]
pub(crate) struct Memory {
    pages: Pages,
    /// A leaf.
    #[pin]
    view: Mutex<Option<View>>,
}

impl Memory {
    /// Returns an initializer of the memory of one object.
    pub(crate) fn new(pages: Pages) -> impl PinInit<Self> {
        // INVARIANT: `Pages` are never mapped to user space elsewhere.
        pin_init!(Self {
            pages,
            view <- new_mutex!(None, "rkfd_gem_view"),
        })
    }

    /// Returns the pages.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Returns page `page` for a mapping; `EINVAL` out of bounds.
    pub(crate) fn frame(&self, page: usize) -> Result<Frame<'_>> {
        let phys = self.pages.phys(page)?;
        // INVARIANT: A page of this memory.
        Ok(Frame(Kind::System { memory: self, phys }))
    }

    /// Makes the drop zap `view`. Returns false if the memory is another object's.
    fn attach(&self, view: &View) -> bool {
        // INVARIANT: Set once.
        self.view
            .lock()
            .get_or_insert_with(|| view.clone())
            .is(view)
    }
}

#[pinned_drop]
impl PinnedDrop for Memory {
    fn drop(self: Pin<&mut Self>) {
        // No frame borrows the memory any more: none of its pages is inserted from here on. They
        // are freed after this, with the field.
        let view = self.view.lock().take();
        if let Some(view) = view {
            view.zap();
        }
    }
}

/// A page for a user page table: of system memory, which is borrowed, or of a BAR.
///
/// # Invariants
///
/// The address of [`Kind::System`] is that of a page of its memory.
pub(crate) struct Frame<'a>(Kind<'a>);

#[derive(Clone, Copy)]
enum Kind<'a> {
    System { memory: &'a Memory, phys: u64 },
    Bar { phys: u64 },
}

impl Frame<'_> {
    /// Returns the page at physical address `phys` of a BAR. It is only inserted if it lies in a
    /// memory BAR of the object's device; otherwise the access ends in `SIGBUS`.
    pub(crate) fn of_bar(phys: u64) -> Self {
        // INVARIANT: Not of system memory.
        Self(Kind::Bar { phys })
    }

    /// Inserts the page at `address` of an area. `VM_FAULT_SIGBUS` for a page that is not the
    /// object's, else the result of `vmf_insert_pfn_prot()`.
    ///
    /// # Safety
    ///
    /// The area is a PFN map without copy-on-write, and its mmap or VMA lock is held. Its mappings
    /// are among those of `view`. Called in a section of [`Device::while_plugged`] of its device.
    pub(super) unsafe fn insert(
        &self,
        vma: *mut bindings::vm_area_struct,
        address: usize,
        caching: Caching,
        view: &View,
    ) -> bindings::vm_fault_t {
        let (phys, is_allowed) = match self.0 {
            Kind::System { memory, phys } => (phys, memory.attach(view)),
            Kind::Bar { phys } => (phys, view.has_bar_page(phys)),
        };
        if !is_allowed {
            return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
        }
        let pfn = phys as usize / PAGE_SIZE;
        let wc = caching == Caching::WriteCombine;
        let device = matches!(self.0, Kind::Bar { .. });
        // SAFETY: The area by the safety requirement; the function checks the address. A page of
        // system memory, by the type invariant, is not freed while this borrows its memory, whose
        // drop zaps the view that was attached above. A page of a BAR is no memory of the kernel;
        // the unplug of the device waits for the section, then zaps all mappings.
        unsafe { ours::rkfd_helper_vmf_insert(vma, address, pfn, wc, device) }
    }
}
