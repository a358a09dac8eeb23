// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The BARs, the ways to a register, and the page that user space flushes HDP through.
//!
//! Sources: `amdgpu/amdgpu_device.c`, `amdgpu/amdgpu_reg_access.c`, `amdgpu/nbio_v7_9.c`,
//! `amdgpu/nbif_v6_3_1.c`, `amdgpu/soc15.c`, `include/uapi/linux/kfd_ioctl.h` (`enum kfd_mmio_remap`).

/// PCI vendor of AMD/ATI.
pub const VENDOR_AMD: u16 = 0x1002;
/// MI300X.
pub const DEVICE_MI300X: u16 = 0x74a1;
/// MI308X.
pub const DEVICE_MI308X: u16 = 0x74a2;
/// Radeon RX 9070 and 9070 XT (Navi 48).
pub const DEVICE_RX9070: u16 = 0x7550;
/// PCI class of a processing accelerator (base class and subclass).
pub const CLASS_ACCELERATOR: u16 = 0x1200;

/// BAR of the VRAM, 64 bits, prefetchable.
pub const BAR_VRAM: u32 = 0;
/// BAR of the doorbells, 64 bits, prefetchable.
pub const BAR_DOORBELL: u32 = 2;
/// BAR of the registers.
pub const BAR_REGISTER: u32 = 5;

/// Byte offset in the register BAR of the page with the remapped HDP flush registers
/// (`MMIO_REG_HOLE_OFFSET` of `nbio_v7_9.c`).
pub const REMAP_OFFSET: u32 = 0x1a000;
/// The same on a card with NBIF 6.3.1 (`MMIO_REG_HOLE_OFFSET` of `nbif_v6_3_1.c`): the last page of
/// its 512 KiB.
pub const REMAP_OFFSET_NBIF_6_3_1: u32 = 0x7f000;
/// Bytes of that page.
pub const REMAP_SIZE: u32 = 4096;
/// Byte in that page: flush of HDP's memory path.
pub const REMAP_HDP_MEM_FLUSH_CNTL: u32 = 0;
/// Byte in that page: flush of HDP's register path.
pub const REMAP_HDP_REG_FLUSH_CNTL: u32 = 4;

/// Register behind which all of SMN is reached: dword address of the index, low half (a **byte**
/// address in SMN is written there).
pub const PCIE_INDEX2: u32 = 0x0e;
/// Dword address of the data register.
pub const PCIE_DATA2: u32 = 0x0f;
/// Dword address of the index, high half.
pub const PCIE_INDEX2_HI: u32 = 0x11;

/// Indirect VRAM access: dword address of the index; bit 31 must be set, bits 30:0 of the byte
/// address go there.
pub const MM_INDEX: u32 = 0x00;
/// Dword address of the data register.
pub const MM_DATA: u32 = 0x01;
/// Dword address of the index's high half: byte address >> 31.
pub const MM_INDEX_HI: u32 = 0x06;

/// VRAM size in MiB before discovery was read: dword address (`mmRCC_CONFIG_MEMSIZE`).
pub const RCC_CONFIG_MEMSIZE: u32 = 0xde3;
/// DRIVER_SCRATCH_0 to 2: dword addresses; low and high half of the discovery table's offset in
/// VRAM and its size, when the table is not at the end of VRAM.
pub const DRIVER_SCRATCH: [u32; 3] = [0x94, 0x95, 0x96];
/// PSP mailbox that says that boot has finished: dword address (`mmMP0_SMN_C2PMSG_33`).
pub const MP0_C2PMSG_33: u32 = 0x16061;
/// Bit of that mailbox.
pub const MP0_C2PMSG_33_BOOT_DONE: u32 = 1 << 31;
/// Virtualisation: dword address (`mmRCC_IOV_FUNC_IDENTIFIER`); bit 0 virtual function, bit 31 IOV.
pub const RCC_IOV_FUNC_IDENTIFIER: u32 = 0xde5;
