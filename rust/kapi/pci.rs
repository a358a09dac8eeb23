// SPDX-License-Identifier: GPL-2.0

//! PCI functions that `kernel::pci` lacks: bus mastering, configuration save and restore, links,
//! atomic operations.
//!
//! C header: [`include/linux/pci.h`](srctree/include/linux/pci.h)
//!
//! # Examples
//!
//! ```ignore
//! let done = pci::try_locked(pdev, |pdev| {
//!     pci::save_state(pdev)?;
//!     pci::clear_master(pdev);
//!     // The device loses power, or is reset.
//!     pci::restore_state(pdev);
//!     pci::set_master(pdev);
//!     Ok(())
//! });
//! done.ok_or(EBUSY)?
//! ```

use core::ptr::NonNull;

use kernel::{
    bindings, device::Core, devres, error::to_result, io::poll::read_poll_timeout, pci, prelude::*,
    sync::aref::ARef, time::Delta,
};

use crate::bindings as ours;

/// Returns the C side of a PCI device.
pub(super) fn raw(pdev: &pci::Device) -> *mut bindings::pci_dev {
    core::ptr::from_ref(pdev).cast_mut().cast()
}

/// Returns whether `[start, start + size)` is in a memory BAR of the device, as CPU physical
/// addresses.
pub(super) fn bar_contains(pdev: &pci::Device, start: u64, size: u64) -> bool {
    // SAFETY: The device is valid by its type; only its resources are read.
    unsafe { ours::rkfd_helper_pci_bar_contains(raw(pdev), start, size) }
}

/// Disables a device on drop.
struct Enabled(ARef<pci::Device>);

impl Drop for Enabled {
    fn drop(&mut self) {
        // SAFETY: The device is valid by its type, and was enabled once for this object.
        unsafe { bindings::pci_disable_device(raw(&self.0)) };
    }
}

/// Enables the memory BARs of a device, until its driver is unbound or its probe fails.
pub(crate) fn enable_memory(pdev: &pci::Device<Core<'_>>) -> Result {
    pdev.enable_device_mem()?;
    devres::register(pdev.as_ref(), Enabled(pdev.into()), GFP_KERNEL)
}

/// Removes the frame buffer of the boot firmware (efifb, simpledrm) from the BARs of a display,
/// which it would keep busy. No effect on devices of other classes.
pub(crate) fn remove_boot_display(pdev: &pci::Device<Core<'_>>) -> Result {
    // SAFETY: The device is valid by its type, with its BARs enabled; the function may sleep.
    to_result(unsafe { ours::rkfd_helper_remove_boot_display(raw(pdev)) })
}

/// Disables bus mastering: DMA and MSI.
pub(crate) fn clear_master(pdev: &pci::Device) {
    // SAFETY: The device is valid by its type; the function changes its command register only.
    unsafe { bindings::pci_clear_master(raw(pdev)) };
}

/// Enables bus mastering: DMA and MSI.
pub(crate) fn set_master(pdev: &pci::Device) {
    // SAFETY: The device is valid by its type; the function changes its command register only.
    unsafe { bindings::pci_set_master(raw(pdev)) };
}

/// Unlocks a device on drop.
struct Unlock<'a>(&'a pci::Device);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        // SAFETY: The lock was taken by this task in `try_locked`, which does not give this out.
        unsafe { ours::rkfd_helper_pci_unlock(raw(self.0)) };
    }
}

/// Calls `f` with the lock of the device held. `None` if the lock is not free (probe, unbind,
/// system sleep or a reset by the PCI core may be in progress), or the device is not bound to a
/// driver of this module.
pub(crate) fn try_locked<R>(
    pdev: &pci::Device,
    f: impl FnOnce(&pci::Device<Core<'_>>) -> R,
) -> Option<R> {
    // SAFETY: The device is valid by its type.
    if !unsafe { ours::rkfd_helper_pci_trylock_bound(raw(pdev)) } {
        return None;
    }
    let _unlock = Unlock(pdev);
    // SAFETY: A context is a marker: the type is transparent. The lock is held and the device bound
    // until `f` returns, as `Core` demands.
    Some(f(unsafe { &*raw(pdev).cast::<pci::Device<Core<'_>>>() }))
}

/// Returns whether a device responds on the bus.
pub(crate) fn is_present(pdev: &pci::Device) -> bool {
    // SAFETY: The device is valid by its type.
    unsafe { bindings::pci_device_is_present(raw(pdev)) }
}

/// Waits until a device responds on the bus. `ENODEV` after the timeout.
pub(crate) fn wait_present(pdev: &pci::Device, timeout: Delta) -> Result {
    let present = || Ok(is_present(pdev));
    match read_poll_timeout(present, |present| *present, Delta::from_millis(10), timeout) {
        Err(e) if e == ETIMEDOUT => Err(ENODEV),
        result => result.map(|_| ()),
    }
}

/// Saves the configuration space of a device, MSI state included.
pub(crate) fn save_state(pdev: &pci::Device<Core<'_>>) -> Result {
    // SAFETY: The device is valid by its type; the buffers exist since it was enumerated. The lock
    // of the device, which `Core` stands for, keeps other threads from saving.
    to_result(unsafe { bindings::pci_save_state(raw(pdev)) })
}

/// Restores what [`save_state`] saved; no effect without it.
pub(crate) fn restore_state(pdev: &pci::Device<Core<'_>>) {
    // SAFETY: The device is valid by its type; the function checks whether a state was saved. The
    // lock of the device, which `Core` stands for, keeps other threads from saving.
    unsafe { bindings::pci_restore_state(raw(pdev)) };
}

/// Disables MSI-X and enables it again, if it is enabled. After a reset that a device itself makes,
/// the host of a virtual machine to which it was passed enables it there only then:
/// [`restore_state`] changes nothing, as far as the host knows (`amdgpu_restore_msix`).
pub(crate) fn rearm_msix(pdev: &pci::Device<Core<'_>>) {
    let pdev = raw(pdev);
    // SAFETY: The device is valid by its type, and its capabilities do not change.
    let capability = unsafe { (*pdev).msix_cap };
    if capability == 0 {
        return;
    }
    let at = i32::from(capability) + bindings::PCI_MSIX_FLAGS as i32;
    let enable = bindings::PCI_MSIX_FLAGS_ENABLE as u16;
    let mut control = 0;
    // SAFETY: The device is valid by its type, `control` for the read. The lock of the device,
    // which `Core` stands for, keeps others from changing whether MSI-X is enabled: it is as before
    // afterwards.
    unsafe {
        bindings::pci_read_config_word(pdev, at, &mut control);
        if control & enable != 0 {
            bindings::pci_write_config_word(pdev, at, control & !enable);
            bindings::pci_write_config_word(pdev, at, control);
        }
    }
}

/// A copy of the configuration space of a device. The one of [`save_state`] is replaced by each
/// reset of the PCI core, also of a device whose configuration is lost.
pub(crate) struct SavedConfig(NonNull<bindings::pci_saved_state>);

// SAFETY: The copy is memory that any thread may read and free.
unsafe impl Send for SavedConfig {}
// SAFETY: The copy is not changed.
unsafe impl Sync for SavedConfig {}

impl SavedConfig {
    /// Saves the configuration space as [`save_state`], and copies it. `ENOMEM` without memory.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        save_state(pdev)?;
        // SAFETY: The device is valid by its type, and its state is saved. The lock of the device,
        // which `Core` stands for, keeps other threads from saving.
        let copy = unsafe { bindings::pci_store_saved_state(raw(pdev)) };
        NonNull::new(copy).map(Self).ok_or(ENOMEM)
    }

    /// Restores the configuration space of `pdev`, of which this is the copy. `EINVAL` if it has
    /// other capabilities.
    pub(crate) fn restore(&self, pdev: &pci::Device<Core<'_>>) -> Result {
        // SAFETY: The device is valid by its type, the copy by that of `self`: it is only read. The
        // lock of the device, which `Core` stands for, keeps other threads from saving.
        to_result(unsafe { bindings::pci_load_saved_state(raw(pdev), self.0.as_ptr()) })?;
        restore_state(pdev);
        Ok(())
    }
}

impl Drop for SavedConfig {
    fn drop(&mut self) {
        // SAFETY: `pci_store_saved_state()` allocated the copy, which nothing refers to any more.
        unsafe { bindings::kfree(self.0.as_ptr().cast()) };
    }
}

/// Unmaps an expansion ROM on drop.
struct UnmapRom<'a>(&'a pci::Device, *mut core::ffi::c_void);

impl Drop for UnmapRom<'_> {
    fn drop(&mut self) {
        // SAFETY: The ROM was mapped in `read_rom`, which does not give this out.
        unsafe { bindings::pci_unmap_rom(raw(self.0), self.1) };
    }
}

/// Returns the contents of the expansion ROM of a device. `ENOENT` if it has none that can be read.
pub(crate) fn read_rom(pdev: &pci::Device<Core<'_>>) -> Result<KVVec<u8>> {
    /// `PCI_ROM_RESOURCE`.
    const ROM: u32 = 6;
    if pdev.resource_len(ROM)? == 0 {
        return Err(ENOENT);
    }
    let mut size = 0;
    // SAFETY: The device is valid by its type. The mapping is our own: the file `rom` in sysfs,
    // which does not take the lock of the device, may disable the ROM meanwhile, which then reads
    // as all ones.
    let rom = unsafe { bindings::pci_map_rom(raw(pdev), &mut size) };
    if rom.is_null() {
        return Err(ENOENT);
    }
    let _unmap = UnmapRom(pdev, rom);
    let mut image = KVVec::<u8>::zeroed(size, GFP_KERNEL)?;
    // SAFETY: `pci_map_rom()` mapped at least `size` bytes; `image` is normal memory of that size.
    unsafe { bindings::memcpy_fromio(image.as_mut_ptr().cast(), rom.cast(), size) };
    Ok(image)
}

/// Returns the PCI domain of a device.
pub(crate) fn domain(pdev: &pci::Device) -> u32 {
    // SAFETY: A device has a bus for as long as it exists.
    let domain = unsafe { ours::rkfd_helper_pci_domain_nr((*raw(pdev)).bus) };
    domain as u32
}

/// The PCIe link between a card and the platform, as both ends support it at best.
pub(crate) struct PcieLink {
    /// PCIe generation that both ends support.
    pub(crate) generation: u32,
    /// Lanes that both ends have.
    pub(crate) lanes: u32,
    /// Bandwidth of the platform's end in MB/s: lanes times transfer rate, encoding not deducted.
    pub(crate) mbytes: u32,
}

/// Returns the link of a card, where bridges of the card itself do not count. Its speed is the
/// current one on platforms that do not change it at run time. Unknown values are those that
/// `amdgpu_device_get_pcie_info()` assumes.
pub(crate) fn link(pdev: &pci::Device) -> PcieLink {
    /// `PCIE_LNK_WIDTH_UNKNOWN`.
    const UNKNOWN_WIDTH: u32 = 0xff;
    const ASSUMED_LANES: u32 = 16;
    /// Generation of the platform, and of a card.
    const ASSUMED: (u32, u32) = (2, 3);
    /// Mbit/s of a lane, by generation.
    const RATES: [u32; 6] = [2500, 5000, 8000, 16000, 32000, 64000];

    let ends = ends(pdev);
    let (mut speed, mut width) = (bindings::pci_bus_speed_PCI_SPEED_UNKNOWN, UNKNOWN_WIDTH);
    // SAFETY: The device is valid by its type.
    if unsafe { ours::rkfd_helper_pcie_speed_is_fixed(raw(pdev)) } {
        let null = core::ptr::null_mut();
        // SAFETY: The device is valid, and so are both results; the limiting device is optional.
        unsafe { bindings::pcie_bandwidth_available(raw(pdev), null, &mut speed, &mut width) };
    } else if let Some(port) = ends.platform {
        (speed, width) = best(port);
    }
    let generation = |speed, assumed| match speed {
        bindings::pci_bus_speed_PCIE_SPEED_2_5GT => 1,
        bindings::pci_bus_speed_PCIE_SPEED_5_0GT => 2,
        bindings::pci_bus_speed_PCIE_SPEED_8_0GT => 3,
        bindings::pci_bus_speed_PCIE_SPEED_16_0GT => 4,
        bindings::pci_bus_speed_PCIE_SPEED_32_0GT => 5,
        bindings::pci_bus_speed_PCIE_SPEED_64_0GT => 6,
        _ => assumed,
    };
    let lanes = |width| match width {
        UNKNOWN_WIDTH | 0 => ASSUMED_LANES,
        lanes => lanes,
    };
    let card = best(ends.card);
    let platform = (generation(speed, ASSUMED.0), lanes(width));
    PcieLink {
        generation: platform.0.min(generation(card.0, ASSUMED.1)),
        lanes: platform.1.min(lanes(card.1)),
        mbytes: platform.1 * RATES[platform.0 as usize - 1] / 8,
    }
}

/// The two ends of a card's link.
struct Ends {
    /// The card, or its outermost bridge.
    card: *mut bindings::pci_dev,
    /// The platform's port; `None` on a root bus.
    platform: Option<*mut bindings::pci_dev>,
}

fn ends(pdev: &pci::Device) -> Ends {
    let mut card = raw(pdev);
    loop {
        // SAFETY: A device has a bus for as long as it exists; the bus below a bridge has that
        // bridge as long, and a root bus has NULL.
        let bridge = unsafe { (*(*card).bus).self_ };
        // SAFETY: The bridge is not NULL here, and exists as long as the device below it.
        if bridge.is_null() || unsafe { (*bridge).vendor } != pdev.vendor_id().as_raw() {
            return Ends {
                card,
                platform: (!bridge.is_null()).then_some(bridge),
            };
        }
        card = bridge;
    }
}

/// Returns the highest speed and width that an end supports.
fn best(end: *mut bindings::pci_dev) -> (bindings::pci_bus_speed, bindings::pcie_link_width) {
    // SAFETY: The argument is from `ends`: a device or a bridge above it, valid as long as the
    // device. The functions only read its configuration.
    unsafe {
        (
            bindings::pcie_get_speed_cap(end),
            bindings::pcie_get_width_cap(end),
        )
    }
}

fn capability(pdev: &pci::Device, at: u32) -> u32 {
    let mut value = 0;
    // SAFETY: The device is valid by its type, and so is the result, which stays 0 on failure.
    unsafe { bindings::pcie_capability_read_dword(raw(pdev), at as i32, &mut value) };
    value
}

/// Enables AtomicOp requests of the device to system memory, 32 and 64 bits wide. Returns whether
/// the path to the root complex supports both.
pub(crate) fn enable_atomics(pdev: &pci::Device<Core<'_>>) -> bool {
    let sizes = bindings::PCI_EXP_DEVCAP2_ATOMIC_COMP32 | bindings::PCI_EXP_DEVCAP2_ATOMIC_COMP64;
    // SAFETY: The device is valid by its type, and the bridges above it exist as long: their
    // capabilities are only read. The function changes device control 2 of the device; the device
    // lock, which a `Core` context holds, serialises the changes of this driver.
    unsafe { bindings::pci_enable_atomic_ops_to_root(raw(pdev), sizes) == 0 }
}

/// Returns whether the device completes atomic operations of 32 or 64 bits.
pub(crate) fn completes_atomics(pdev: &pci::Device) -> bool {
    let any = bindings::PCI_EXP_DEVCAP2_ATOMIC_COMP32 | bindings::PCI_EXP_DEVCAP2_ATOMIC_COMP64;
    capability(pdev, bindings::PCI_EXP_DEVCAP2) & any != 0
}
