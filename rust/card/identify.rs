// SPDX-License-Identifier: GPL-2.0

//! Steps that identify a card at probe. Each prints a message for what it refuses.

use kernel::{device::Core, pci, prelude::*};

use crate::{
    asic::{
        config::{Config, PciInfo},
        discovery::Discovery,
        mmio::Mmio,
        partition::NpsModes,
        vbios::Vbios,
    },
    hw::{self, Generation},
    kapi,
};

/// Returns the generation of a card. `ENODEV` if its GC version is not supported.
pub(super) fn generation(
    pdev: &pci::Device<Core<'_>>,
    found: &Discovery,
) -> Result<&'static Generation> {
    let version = found.gc_version();
    version
        .ok_or(ENODEV)
        .and_then(hw::select)
        .inspect_err(|_| match version {
            Some(v) => dev_err!(pdev, "GC version {v} is not supported\n"),
            None => dev_err!(pdev, "no GC in the IP discovery table\n"),
        })
}

/// Returns the ids of the PCI function.
pub(super) fn pci_info(pdev: &pci::Device<Core<'_>>) -> PciInfo {
    PciInfo {
        domain: kapi::pci::domain(pdev),
        bdf: pdev.dev_id(),
        vendor: pdev.vendor_id().as_raw(),
        device: pdev.device_id(),
        subsystem_vendor: pdev.subsystem_vendor_id(),
        subsystem: pdev.subsystem_device_id(),
        revision: pdev.revision_id(),
    }
}

/// Returns the revision of the silicon. `ENODEV` if it is not supported.
pub(super) fn revision(
    pdev: &pci::Device<Core<'_>>,
    generation: &Generation,
    mmio: &Mmio,
) -> Result<u32> {
    let rev = generation.nbio.rev_id(mmio)?;
    if rev < generation.caps.first_rev {
        dev_err!(pdev, "revision {rev} of the silicon is not supported\n");
        return Err(ENODEV);
    }
    Ok(rev)
}

/// Enables PCI Express atomics; returns whether the platform has them. `ENODEV` if the MEC firmware
/// needs them.
pub(super) fn enable_atomics(
    pdev: &pci::Device<Core<'_>>,
    generation: &Generation,
    config: &Config,
) -> Result<bool> {
    if kapi::pci::enable_atomics(pdev) {
        return Ok(true);
    }
    let needed = generation.caps.no_atomic_mec_fw;
    if config.mec_fw < needed {
        dev_err!(
            pdev,
            "the platform has no PCI Express atomics, which MEC firmware {} needs: install version {needed} or later\n",
            config.mec_fw
        );
        return Err(ENODEV);
    }
    dev_info!(
        pdev,
        "PCI Express atomics are not supported by the platform\n"
    );
    Ok(false)
}

/// Returns the memory partition modes, after a `reset` of the card if another mode was requested;
/// `None` for a card without partitions.
pub(super) fn nps_modes(
    pdev: &pci::Device<Core<'_>>,
    generation: &Generation,
    mmio: &Mmio,
    reset: impl FnOnce() -> Result,
) -> Result<Option<NpsModes>> {
    let modes = generation.nbio.nps_modes(mmio)?;
    if modes.as_ref().is_none_or(|modes| !modes.requested) {
        return Ok(modes);
    }
    dev_info!(
        pdev,
        "resetting the card to switch its memory partition mode\n"
    );
    reset()?;
    generation.nbio.nps_modes(mmio)
}

/// Returns the VBIOS, if the card has one, and the bytes at the end of VRAM that are reserved.
pub(super) fn vbios(
    pdev: &pci::Device<Core<'_>>,
    generation: &Generation,
    mmio: &Mmio,
) -> (Option<Vbios>, u64) {
    let Some(vbios) = Vbios::read(pdev, |out| generation.nbio.read_rom(mmio, out)) else {
        return (None, generation.caps.reserved_vram);
    };
    if vbios.trains_memory() {
        dev_warn!(
            pdev.as_ref(),
            "the VBIOS requires memory training by the driver, which is not supported: the card may not work after a reset or suspend\n"
        );
    }
    let reserved = vbios.reserved();
    (Some(vbios), reserved)
}
