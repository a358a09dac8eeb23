// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Bulk transfer packets. They are executed in parts, so that an engine checks its registers and
//! its other contexts in between; `Context::progress` counts completed units.

use rkfd_abi::bits::join;
use rkfd_abi::sdma::{self, v7};

use super::context::Context;
use super::engine::{Engine, Outcome};
use super::error::PacketError;
use super::exec::address;
use super::layout::Version;
use crate::engines::gmc::{Access, FaultKind, VmFault};

/// Bytes per part.
const PART: u64 = 2 << 20;
/// Bytes per write of data that a packet contains or generates.
const PIECE: u64 = 64 << 10;

impl Engine<'_> {
    /// Executes COPY linear, with or without broadcast.
    pub(super) fn copy(
        &mut self,
        context: &mut Context,
        words: &[u32],
    ) -> Result<Outcome, VmFault> {
        use sdma::copy_broadcast as b;
        use sdma::copy_linear as p;
        let broadcast = p::BROADCAST.get(words) != 0;
        if p::ENCRYPT.get(words) != 0 || p::TMZ.get(words) != 0 {
            return Ok(Outcome::Bad(PacketError::CopyEncrypted));
        }
        let swaps = b::DST2_SW.field.mask | b::DST1_SW.field.mask | b::SRC_SW.field.mask;
        if words[b::SRC_SW.dw] & swaps != 0 {
            return Ok(Outcome::Bad(PacketError::CopySwap));
        }
        if self.layout.version == Version::V7 {
            if v7::copy_linear::BACKWARDS.get(words) != 0 && !broadcast {
                return Ok(Outcome::Bad(PacketError::CopyBackwards));
            }
            if v7::copy_linear::CPV.get(words) != 0 {
                use v7::copy_linear_cpv as c;
                let compressed = c::DCC_READ_CM.field.mask | c::DCC_WRITE_CM.field.mask;
                if broadcast || words[c::DCC_READ_CM.dw] & compressed != 0 {
                    return Ok(Outcome::Bad(PacketError::CopyCompressed));
                }
            }
        }
        let total = u64::from(p::COUNT.get(words)) + 1;
        let src = address(words, p::SRC_ADDR_LO, p::SRC_ADDR_HI);
        let dst = address(words, p::DST_ADDR_LO, p::DST_ADDR_HI);
        let vmid = context.vmid();
        let first = context.progress == 0;
        if first && Self::in_job(context) && self.gpu.knobs.sdma_copy_fault.reach() {
            return Err(VmFault {
                hub: self.hub(),
                vmid,
                va: dst,
                access: Access::Write,
                kind: FaultKind::NotPresent,
                retry: false,
            });
        }
        if first && !context.id.is_kernel() {
            if self.gpu.knobs.sdma_poison.reach() {
                self.poison(context);
                return Ok(Outcome::Hang);
            }
            if self.gpu.knobs.sdma_stall.reach() {
                return Ok(Outcome::Hang);
            }
        }
        let second = broadcast.then(|| address(words, b::DST2_ADDR_LO, b::DST2_ADDR_HI));
        let until = total.min(context.progress + PART);
        while context.progress < until {
            let at = context.progress;
            let count = self.gpu.gmc.vm_copy_some(
                self.hub(),
                vmid,
                src.wrapping_add(at),
                dst.wrapping_add(at),
                until - at,
            )?;
            if let Some(second) = second {
                self.copy_all(vmid, src.wrapping_add(at), second.wrapping_add(at), count)?;
            }
            context.progress += count;
        }
        Ok(match context.progress == total {
            false => Outcome::More,
            true => Outcome::Next(self.length(words)),
        })
    }

    fn copy_all(&self, vmid: u8, src: u64, dst: u64, len: u64) -> Result<(), VmFault> {
        let mut done = 0;
        while done < len {
            done += self.gpu.gmc.vm_copy_some(
                self.hub(),
                vmid,
                src.wrapping_add(done),
                dst.wrapping_add(done),
                len - done,
            )?;
        }
        Ok(())
    }

    /// Executes COPY of a box between linear volumes; progress counts rows.
    pub(super) fn copy_window(
        &mut self,
        context: &mut Context,
        words: &[u32],
    ) -> Result<Outcome, VmFault> {
        use sdma::copy_subwin as p;
        let element = p::ELEMENTSIZE.get(words);
        if element > 4 {
            return Ok(Outcome::Bad(PacketError::WindowElementSize));
        }
        let is_v7 = self.layout.version == Version::V7;
        let swaps = p::SRC_SW.get(words) | p::DST_SW.get(words) != 0;
        if p::TMZ.get(words) != 0 || (!is_v7 && swaps) {
            return Ok(Outcome::Bad(PacketError::WindowMode));
        }
        macro_rules! get {
            ($field:ident) => {
                u64::from(match is_v7 {
                    true => v7::copy_subwin::$field.get(words),
                    false => p::$field.get(words),
                })
            };
        }
        let (width, height, depth) = (get!(RECT_X) + 1, get!(RECT_Y) + 1, get!(RECT_Z) + 1);
        let src = address(words, p::SRC_ADDR_LO, p::SRC_ADDR_HI);
        let dst = address(words, p::DST_ADDR_LO, p::DST_ADDR_HI);
        let (src_x, src_y, src_z) = (get!(SRC_X), get!(SRC_Y), get!(SRC_Z));
        let (dst_x, dst_y, dst_z) = (get!(DST_X), get!(DST_Y), get!(DST_Z));
        let (src_pitch, src_slice) = (get!(SRC_PITCH) + 1, get!(SRC_SLICE_PITCH) + 1);
        let (dst_pitch, dst_slice) = (get!(DST_PITCH) + 1, get!(DST_SLICE_PITCH) + 1);
        let bytes = width << element;
        let rows = height * depth;
        let until = rows.min(context.progress + (PART / bytes).max(1));
        while context.progress < until {
            let (y, z) = (context.progress % height, context.progress / height);
            let from = src_x + (src_y + y) * src_pitch + (src_z + z) * src_slice;
            let to = dst_x + (dst_y + y) * dst_pitch + (dst_z + z) * dst_slice;
            self.copy_all(
                context.vmid(),
                src.wrapping_add(from << element),
                dst.wrapping_add(to << element),
                bytes,
            )?;
            context.progress += 1;
        }
        Ok(match context.progress == rows {
            true => Outcome::Next(p::DWORDS as u64),
            false => Outcome::More,
        })
    }

    /// Executes CONST_FILL.
    pub(super) fn fill(
        &mut self,
        context: &mut Context,
        words: &[u32],
    ) -> Result<Outcome, VmFault> {
        use sdma::const_fill as p;
        // On SDMA 7 the low bit only allows compression.
        let swaps = match self.layout.version {
            Version::V4 => p::SW.field.mask,
            Version::V7 => p::SW.field.mask & !v7::const_fill::COMPRESS.mask,
        };
        if words[p::SW.dw] & swaps != 0 {
            return Ok(Outcome::Bad(PacketError::FillSwap));
        }
        let data = p::SRC_DATA.get(words).to_le_bytes();
        let count = u64::from(p::COUNT.get(words));
        let unit: u64 = match p::FILLSIZE.get(words) {
            p::FILLSIZE_BYTE => 1,
            p::FILLSIZE_DWORD => 4,
            _ => return Ok(Outcome::Bad(PacketError::FillSize)),
        };
        let total = (count & !(unit - 1)) + unit;
        let mut dst = address(words, p::DST_ADDR_LO, p::DST_ADDR_HI);
        if context.progress == 0 {
            dst = self.aligned(context, words, dst, unit);
        }
        let dst = dst & !(unit - 1);
        let word = if unit == 1 { [data[0]; 4] } else { data };
        let until = total.min(context.progress + PART);
        while context.progress < until {
            context.progress += self.gpu.gmc.vm_fill_some(
                self.hub(),
                context.vmid(),
                dst.wrapping_add(context.progress),
                until - context.progress,
                word,
            )?;
        }
        Ok(match context.progress == total {
            true => Outcome::Next(p::DWORDS as u64),
            false => Outcome::More,
        })
    }

    /// Executes WRITE linear: the packet's own dwords.
    pub(super) fn write(
        &mut self,
        context: &mut Context,
        words: &[u32],
    ) -> Result<Outcome, VmFault> {
        use sdma::write as p;
        if p::ENCRYPT.get(words) | p::TMZ.get(words) | p::SW.get(words) != 0 {
            return Ok(Outcome::Bad(PacketError::WriteMode));
        }
        let payload = p::DWORDS as u64 - 1;
        let total = u64::from(p::COUNT.get(words)) + 1;
        let mut dst = address(words, p::DST_ADDR_LO, p::DST_ADDR_HI);
        if context.progress == 0 {
            dst = self.aligned(context, words, dst, 4);
        }
        let dst = dst & !3;
        let until = total.min(context.progress + PART / 4);
        while context.progress < until {
            let at = context.progress;
            let mut data = vec![0; (until - at).min(PIECE / 4) as usize];
            context.fetch(&self.gpu.gmc, payload + at, &mut data)?;
            let bytes: Vec<u8> = data.iter().flat_map(|w| w.to_le_bytes()).collect();
            let to = dst.wrapping_add(at * 4);
            self.gpu
                .gmc
                .vm_write(self.hub(), context.vmid(), to, &bytes)?;
            context.progress += data.len() as u64;
        }
        Ok(match context.progress == total {
            true => Outcome::Next(payload + total),
            false => Outcome::More,
        })
    }

    /// Executes PTEPDE: writes page-table entries for consecutive pages.
    pub(super) fn generate_entries(
        &mut self,
        context: &mut Context,
        words: &[u32],
    ) -> Result<Outcome, VmFault> {
        use sdma::ptepde_gen as p;
        let wide = |lo: rkfd_abi::bits::DwField, hi: rkfd_abi::bits::DwField| {
            join(lo.get(words), hi.get(words))
        };
        let mask = wide(p::MASK_DW0, p::MASK_DW1);
        let init = wide(p::INIT_DW0, p::INIT_DW1);
        let incr = wide(p::INCR_DW0, p::INCR_DW1);
        let total = u64::from(p::COUNT.get(words)) + 1;
        let mut dst = wide(p::DST_ADDR_LO, p::DST_ADDR_HI);
        if context.progress == 0 {
            dst = self.aligned(context, words, dst, 8);
        }
        let dst = dst & !7;
        let until = total.min(context.progress + PART / 8);
        while context.progress < until {
            let at = context.progress;
            let count = (until - at).min(PIECE / 8);
            let bytes: Vec<u8> = (at..at + count)
                .flat_map(|n| (init.wrapping_add(n.wrapping_mul(incr)) | mask).to_le_bytes())
                .collect();
            let to = dst.wrapping_add(at * 8);
            self.gpu
                .gmc
                .vm_write(self.hub(), context.vmid(), to, &bytes)?;
            context.progress += count;
        }
        Ok(match context.progress == total {
            true => Outcome::Next(p::DWORDS as u64),
            false => Outcome::More,
        })
    }
}
