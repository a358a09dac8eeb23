// SPDX-License-Identifier: GPL-2.0

//! A device that accesses memory by DMA, and the list of its allocations and mappings.

use core::ptr::NonNull;

use kernel::{
    bindings, device, devres,
    list::{impl_list_arc_safe, impl_list_item, List, ListArc, ListLinks},
    new_mutex, new_srcu,
    num::casts::u32_as_usize,
    page::PAGE_SIZE,
    pci,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{AtomicFlag, Relaxed},
        rcu, Arc, Mutex, SetOnce, Srcu,
    },
};

use super::runs::Run;
use crate::{
    bindings as ours,
    kapi::raw_device as raw, //
};

/// A device that accesses memory by DMA, from the probe of a driver to its unbind.
#[pin_data]
pub(crate) struct Device {
    dev: ARef<device::Device>,
    /// DMA addresses of system memory are physical addresses.
    direct: bool,
    /// Cleared at unbind, which then waits for both kinds of readers before it releases resources.
    bound: AtomicFlag,
    /// Readers allocate and map, which may sleep. Not a lock: reclaim waits for locks of the driver
    /// under which resources are released.
    #[pin]
    acquiring: Srcu,
    /// A leaf.
    #[pin]
    resources: Mutex<List<Resource>>,
}

impl Device {
    /// Sets the streaming and the coherent DMA mask of a device that is being probed, and returns
    /// its DMA side. `EBUSY` if that was done in this binding before, `EIO` for a mask that the
    /// platform does not support.
    pub(crate) fn new(pdev: &pci::Device<device::Core<'_>>, bits: u32) -> Result<Arc<Self>> {
        let mask = if bits >= 64 { !0 } else { (1u64 << bits) - 1 };
        let bound: &pci::Device<device::Bound> = pdev;
        let dev: &device::Device<device::Bound> = bound.as_ref();
        let unbound: &device::Device = dev;
        // SAFETY: The device is valid, and its lock is held (context `Core`). The mask must not
        // change while memory is allocated or mapped: the helper refuses to set it twice in a
        // binding, and what another binding had mapped was unmapped at its unbind.
        kernel::error::to_result(unsafe { ours::rkfd_helper_dma_set_mask(raw(unbound), mask) })?;
        // SAFETY: The device is valid and bound, so that its domain does not change.
        let direct = unsafe { ours::rkfd_helper_dma_is_direct(raw(unbound)) };
        let this = Arc::pin_init(
            try_pin_init!(Self {
                dev: unbound.into(),
                direct,
                bound: AtomicFlag::new(true),
                acquiring <- new_srcu!("rkfd_dma"),
                resources <- new_mutex!(List::new(), "rkfd_dma_resources"),
            }),
            GFP_KERNEL,
        )?;
        devres::register(dev, Unbind(this.clone()), GFP_KERNEL)?;
        Ok(this)
    }

    /// Returns the device, for messages.
    pub(crate) fn dev(&self) -> &device::Device {
        &self.dev
    }

    /// Returns whether system memory that is mapped for one of both devices has the same DMA
    /// addresses for the other one, as long as it is allocated. Devices of one IOMMU group share a
    /// domain, too, but the unbind of either ends its own mappings.
    pub(crate) fn shares_addresses(&self, other: &Self) -> bool {
        core::ptr::eq(self, other) || (self.direct && other.direct)
    }

    /// Returns whether DMA addresses of system memory are physical addresses.
    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Fails with `ENODEV` after the unbind. The caller is a reader of RCU or of `acquiring`.
    fn check_bound(&self) -> Result {
        // Relaxed: after the store the unbind waits for readers, which may see either value.
        if self.bound.load(Relaxed) {
            Ok(())
        } else {
            Err(ENODEV)
        }
    }

    /// Begins an access to memory that the unbind frees; `ENODEV` after it.
    pub(super) fn read_lock(&self) -> Result<rcu::Guard> {
        let guard = rcu::read_lock();
        self.check_bound()?;
        Ok(guard)
    }

    fn pop(&self) -> Option<ListArc<Resource>> {
        self.resources.lock().pop_front()
    }
}

/// A resource of the binding: dropped at unbind.
struct Unbind(Arc<Device>);

impl Drop for Unbind {
    fn drop(&mut self) {
        self.0.bound.store(false, Relaxed);
        self.0.acquiring.synchronize();
        rcu::synchronize_rcu();
        while let Some(resource) = self.0.pop() {
            resource.release(&self.0.dev);
        }
    }
}

/// Attributes of a mapping: it fails if the pages would be bounced (swiotlb). The GPU accesses them
/// as long as they are mapped, and an unmap must not write to them: they may be those of a process,
/// which has freed them.
pub(super) const ATTRS: usize = bindings::DMA_ATTR_REQUIRE_COHERENT as usize;

/// # Safety
///
/// The runs are mapped for `dev`, and are not unmapped again.
pub(super) unsafe fn unmap(dev: &device::Device, runs: &[Run]) {
    // SAFETY: The device is valid.
    if !unsafe { bindings::dma_need_unmap(raw(dev)) } {
        return;
    }
    for run in runs {
        // SAFETY: By the safety requirement the run is mapped, with this size and direction as
        // every run is (`map()`).
        unsafe {
            bindings::dma_unmap_phys(
                raw(dev),
                run.addr,
                u32_as_usize(run.count) * PAGE_SIZE,
                bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                ATTRS,
            )
        };
    }
}

/// The allocation or mappings of a [`Resource`].
pub(super) enum Memory {
    /// The result of `dma_alloc_attrs()`.
    Coherent {
        cpu: NonNull<u8>,
        dma: u64,
        size: usize,
    },
    /// Results of `dma_map_phys()`, bidirectional.
    Runs(KVVec<Run>),
    /// The result of `dma_map_resource()`, bidirectional.
    Registers { dma: u64, size: usize },
}

/// Memory or mappings of one owner.
///
/// # Invariants
///
/// `memory`, once set, is allocated or mapped until `released` is set. The object is in no list but
/// that of its device.
#[pin_data]
struct Resource {
    #[pin]
    links: ListLinks,
    memory: SetOnce<Memory>,
    /// Held during the release; a leaf. Nothing is allocated under it.
    #[pin]
    released: Mutex<bool>,
}

// SAFETY: Memory and mappings are owned by the object, and may be released by any task.
unsafe impl Send for Resource {}
// SAFETY: `memory` does not change once it is set.
unsafe impl Sync for Resource {}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Resource { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Resource { using ListLinks { self.links }; }
}

impl Resource {
    /// Frees or unmaps `memory`, once.
    fn release(&self, dev: &device::Device) {
        let mut released = self.released.lock();
        let Some(memory) = self.memory.as_ref().filter(|_| !*released) else {
            return;
        };
        *released = true;
        match memory {
            // SAFETY: By the type invariant the memory is allocated with this size and these
            // addresses. Accesses hold a guard of `Device::read_lock()`: the caller is the unbind,
            // after a grace period, or the drop of the owner, which nothing borrows any more.
            Memory::Coherent { cpu, dma, size } => unsafe {
                bindings::dma_free_attrs(raw(dev), *size, cpu.as_ptr().cast(), *dma, 0)
            },
            // SAFETY: By the type invariant the runs are mapped for the device.
            Memory::Runs(runs) => unsafe { unmap(dev, runs) },
            // SAFETY: By the type invariant the registers are mapped for the device.
            Memory::Registers { dma, size } => unsafe {
                bindings::dma_unmap_resource(
                    raw(dev),
                    *dma,
                    *size,
                    bindings::dma_data_direction::DMA_BIDIRECTIONAL,
                    0,
                )
            },
        }
    }
}

/// A resource that is released with this object, or at unbind if that is earlier.
pub(super) struct Registered {
    device: Arc<Device>,
    resource: Arc<Resource>,
}

impl Registered {
    /// Registers what `acquire` returns. `ENODEV` after the unbind, `ENOMEM` without memory, or the
    /// error of `acquire`.
    ///
    /// # Safety
    ///
    /// `acquire` returns memory that is allocated, or runs that are mapped, for its argument, and
    /// owned by no one else.
    pub(super) unsafe fn new(
        device: &Arc<Device>,
        acquire: impl FnOnce(&device::Device) -> Result<Memory>,
    ) -> Result<Self> {
        let item = ListArc::pin_init::<Error>(
            try_pin_init!(Resource {
                links <- ListLinks::new(),
                memory: SetOnce::new(),
                released <- new_mutex!(false, "rkfd_dma_released"),
            }),
            GFP_KERNEL,
        )?;
        let this = Self {
            device: device.clone(),
            resource: item.clone_arc(),
        };
        // The unbind waits for this reader, so it finds the resource in the list.
        let _acquiring = device.acquiring.read_lock();
        device.check_bound()?;
        // INVARIANT: By the safety requirement the memory is allocated or mapped.
        this.resource.memory.populate(acquire(&device.dev)?);
        device.resources.lock().push_back(item);
        Ok(this)
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn memory(&self) -> Option<&Memory> {
        self.resource.memory.as_ref()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Released first: an unbind that comes meanwhile finds it in the list and waits.
        self.resource.release(&self.device.dev);
        // SAFETY: The resource is in the list of this device or in none, by its type invariant.
        drop(unsafe { self.device.resources.lock().remove(&self.resource) });
    }
}
