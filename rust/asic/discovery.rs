// SPDX-License-Identifier: GPL-2.0

//! IP discovery: IP blocks, their versions and base addresses.
//!
//! Firmware puts the table into VRAM. It is not trusted: offsets, sizes and checksums are verified;
//! a bad table fails the probe with one message.

use kernel::{
    io::poll::read_poll_timeout,
    num::casts::u32_as_usize,
    pci,
    prelude::*,
    sizes::SZ_1M,
    time::Delta, //
};

use rkfd_abi::{bits::join, discovery as d, mmio as abi};

use super::mmio::{EarlyMmio, Mmio};
use crate::kapi::iomem::WcBar;

mod table;

use table::Bad;
pub(crate) use table::{Discovery, Listed, MemoryTable};

/// Timeout of the firmware boot in ms.
const BOOT_TIMEOUT_MS: i64 = 2000;
/// Limit of the size of the table.
const MAX_SIZE: usize = SZ_1M;

/// Reads the table of a device. `ENODEV` when firmware does not boot, `EINVAL` for a bad table,
/// `ENOMEM`.
pub(crate) fn read(pdev: &pci::Device, mmio: &EarlyMmio, bar: &WcBar) -> Result<Discovery> {
    let booted = read_poll_timeout(
        || mmio.read(abi::MP0_C2PMSG_33),
        |v| v & abi::MP0_C2PMSG_33_BOOT_DONE != 0,
        Delta::from_millis(1),
        Delta::from_millis(BOOT_TIMEOUT_MS),
    );
    match booted {
        // The table may be there (`amdgpu_discovery_get_tmr_info`).
        Err(e) if e == ETIMEDOUT => dev_warn!(
            pdev,
            "firmware has not finished its boot within {BOOT_TIMEOUT_MS} ms\n"
        ),
        other => drop(other?),
    }
    let mib = mmio.read(abi::RCC_CONFIG_MEMSIZE)?;
    if mib == 0 || mib == !0 {
        dev_err!(pdev, "invalid RCC_CONFIG_MEMSIZE {mib:#x}\n");
        return Err(ENXIO);
    }
    let vram_size = u64::from(mib) * SZ_1M as u64;
    let raw = read_raw(pdev, |reg| mmio.read(reg), bar, vram_size)?;
    let found = Discovery::parse(&raw, vram_size).map_err(|bad| {
        dev_err!(pdev, "IP discovery: {bad}\n");
        bad.errno()
    })?;
    if let Some(bad) = found.mall_error() {
        dev_err!(pdev, "IP discovery: {bad}; the L3 cache is not listed\n");
    }
    Ok(found)
}

/// Reads the table: near the end of VRAM, or where the scratch registers say if its signature is
/// not there (`amdgpu_discovery_get_tmr_info`). `ENODEV` beyond the BAR, with a message.
fn read_raw(
    pdev: &pci::Device,
    register: impl Fn(u32) -> Result<u32>,
    bar: &WcBar,
    vram_size: u64,
) -> Result<KVVec<u8>> {
    let usual = vram_size - d::TMR_OFFSET;
    let raw = read_at(pdev, bar, usual, d::TMR_SIZE)?;
    if raw.starts_with(&d::BINARY_SIGNATURE.to_le_bytes()) {
        return Ok(raw);
    }
    let [low, high, size] = abi::DRIVER_SCRATCH;
    match register(size)? {
        0 => Ok(raw),
        size => {
            let offset = join(register(low)?, register(high)?);
            read_at(pdev, bar, offset, u32_as_usize(size))
        }
    }
}

/// Reads `size` bytes of VRAM. Errors as [`read_raw`], `EINVAL` if the table is too large.
fn read_at(pdev: &pci::Device, bar: &WcBar, offset: u64, size: usize) -> Result<KVVec<u8>> {
    if size > MAX_SIZE {
        dev_err!(pdev, "IP discovery: table size {size} exceeds {MAX_SIZE}\n");
        return Err(EINVAL);
    }
    let end = offset.saturating_add(size as u64);
    if end > bar.size() as u64 {
        dev_err!(
            pdev,
            "the VRAM BAR ({} MiB) does not reach the discovery table; enable resizable BARs\n",
            bar.size() / SZ_1M
        );
        return Err(ENODEV);
    }
    let mut raw = KVVec::<u8>::zeroed(size, GFP_KERNEL)?;
    bar.read(usize::try_from(offset)?, &mut raw)?;
    Ok(raw)
}

/// Reads the memory partitions of a device with `vram_size` bytes of VRAM: also after a reset that
/// changed them. `None`, with a message if it is an error, without a valid table. `ENOMEM`.
pub(crate) fn read_memory(
    pdev: &pci::Device,
    mmio: &Mmio,
    bar: &WcBar,
    vram_size: u64,
) -> Result<Option<MemoryTable>> {
    let raw = read_raw(pdev, |reg| mmio.read(reg), bar, vram_size)?;
    match MemoryTable::parse(&raw) {
        Ok(found) => Ok(found),
        Err(Bad::Memory) => Err(ENOMEM),
        Err(bad) => {
            dev_err!(pdev, "IP discovery: {bad}\n");
            Ok(None)
        }
    }
}
