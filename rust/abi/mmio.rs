// SPDX-License-Identifier: GPL-2.0 OR MIT

//! PCI ids, BARs, indirect register access, and the page through which user space flushes HDP.
//!
//! Sources: `amdgpu/amdgpu_device.c`, `amdgpu/amdgpu_reg_access.c`, `amdgpu/nbio_v7_9.c`,
//! `amdgpu/nbif_v6_3_1.c`, `amdgpu/soc15.c`, `include/uapi/linux/kfd_ioctl.h` (`enum
//! kfd_mmio_remap`).

/// PCI device id of MI300X.
pub const DEVICE_MI300X: u32 = 0x74a1;
/// PCI device id of MI308X.
pub const DEVICE_MI308X: u32 = 0x74a2;
/// PCI device id of MI325X.
pub const DEVICE_MI325X: u32 = 0x74a5;
/// PCI device id of Radeon RX 9070 and 9070 XT (Navi 48).
pub const DEVICE_RX9070: u32 = 0x7550;

/// VRAM BAR: 64-bit, prefetchable.
pub const BAR_VRAM: u32 = 0;
/// Doorbell BAR: 64-bit, prefetchable.
pub const BAR_DOORBELL: u32 = 2;
/// Register BAR.
pub const BAR_REGISTER: u32 = 5;

/// Byte offset of the page with the remapped HDP flush registers in the register BAR
/// (`MMIO_REG_HOLE_OFFSET` of `nbio_v7_9.c`).
pub const REMAP_OFFSET: u32 = 0x1a000;
/// The same for NBIF 6.3.1: the last page of the 512 KiB BAR (`MMIO_REG_HOLE_OFFSET` of
/// `nbif_v6_3_1.c`).
pub const REMAP_OFFSET_NBIF_6_3_1: u32 = 0x7f000;
/// Size of that page, in bytes.
pub const REMAP_SIZE: u32 = 4096;
/// Byte offset in that page: HDP memory flush (`KFD_MMIO_REMAP_HDP_MEM_FLUSH_CNTL`).
pub const REMAP_HDP_MEM_FLUSH_CNTL: u32 = 0;
/// Byte offset in that page: HDP register flush (`KFD_MMIO_REMAP_HDP_REG_FLUSH_CNTL`).
pub const REMAP_HDP_REG_FLUSH_CNTL: u32 = 4;

/// Indirect SMN access, index register, low half: dword address. The index is a **byte** address in
/// SMN.
pub const PCIE_INDEX2: u32 = 0x0e;
/// Indirect SMN access, data register: dword address.
pub const PCIE_DATA2: u32 = 0x0f;
/// Indirect SMN access, index register, high half: dword address.
pub const PCIE_INDEX2_HI: u32 = 0x11;

/// Indirect VRAM access, index register: dword address. Takes bits 30:0 of the byte address; bit 31
/// must be set.
pub const MM_INDEX: u32 = 0x00;
/// Indirect VRAM access, data register: dword address.
pub const MM_DATA: u32 = 0x01;
/// Indirect VRAM access, index register, high half (byte address >> 31): dword address.
pub const MM_INDEX_HI: u32 = 0x06;

/// VRAM size in MiB, readable before IP discovery: dword address (`mmRCC_CONFIG_MEMSIZE`).
pub const RCC_CONFIG_MEMSIZE: u32 = 0xde3;
/// DRIVER_SCRATCH_0 to 2: dword addresses. Low and high half of the discovery table's offset in
/// VRAM and its size, if the table is not at the end of VRAM.
pub const DRIVER_SCRATCH: [u32; 3] = [0x94, 0x95, 0x96];
/// PSP mailbox with the boot-finished flag: dword address (`mmMP0_SMN_C2PMSG_33`).
pub const MP0_C2PMSG_33: u32 = 0x16061;
/// Boot-finished flag in that mailbox.
pub const MP0_C2PMSG_33_BOOT_DONE: u32 = 1 << 31;
/// SR-IOV state: dword address (`mmRCC_IOV_FUNC_IDENTIFIER`); bit 0 virtual function, bit 31 IOV.
pub const RCC_IOV_FUNC_IDENTIFIER: u32 = 0xde5;
