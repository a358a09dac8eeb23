// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Data that differs between the versions of the engines: SDMA 4.4.2, whose registers are in a
//! block of their own, and SDMA 7, whose registers are in the GC block.
//!
//! The rest of the engine uses the register names of SDMA 4.4.2; [`Layout`] translates them. The
//! fields in use are at the same position in both versions; a test checks that.

use gpu_regs::{gc_12_0_0 as gc, sdma_4_4_2 as regs, Reg};
use rkfd_abi::doorbell::{layout1, navi10};
use rkfd_abi::ih::{client, gfx12, soc21, source};
use rkfd_abi::mqd::{v12_sdma, v9_sdma};
use rkfd_abi::sdma::{self, v7, Packet, RLC_REG_STRIDE};

use super::bank::ContextId;
use crate::engines::gmc::Hub;
use crate::engines::ih::{aid_node, Entry};
use crate::regs::RegId;

/// Registers per context.
const BLOCK: usize = RLC_REG_STRIDE as usize;
/// First register of the first context, in both versions.
const FIRST: u32 = regs::regSDMA_GFX_RB_CNTL.off;
/// Position of an engine's registers that are in another segment.
const HYP: u32 = 0x380;
/// No such register.
const NONE: u8 = 0xff;
/// Engines of SDMA 4.4.2 per AID.
pub const PER_AID: u8 = client::SDMA.len() as u8;
/// The ring id of an interrupt also contains the engine.
const ENGINE_SHIFT: u8 = v7::RING_ID_ENGINE.shift;

/// Versions of the engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// SDMA 4.4.2.
    V4,
    /// SDMA 7.0.
    V7,
}

/// Interrupt sources.
#[derive(Debug, Clone, Copy)]
pub struct Sources {
    /// TRAP packet.
    pub trap: u32,
    /// A doorbell of a width other than 64 bits.
    pub doorbell_invalid: u32,
    /// A protected register access.
    pub register: u32,
    /// Poll timeout.
    pub poll_timeout: u32,
}

/// Offsets in the MQD that the scheduler uses, in dwords.
#[derive(Debug, Clone, Copy)]
pub struct Mqd {
    /// Size in dwords.
    pub dwords: usize,
    /// Ring control.
    pub rb_cntl: usize,
    /// Ring address, low half and high half.
    pub rb_base: [usize; 2],
    /// Doorbell offset.
    pub doorbell_offset: usize,
    /// Engine.
    pub engine: usize,
    /// Queue on the engine.
    pub queue: usize,
}

/// See the module documentation.
pub struct Layout {
    /// Which version.
    pub version: Version,
    /// Packets.
    pub packets: &'static [Packet],
    /// Names of packets.
    pub opcode_name: fn(u8) -> Option<&'static str>,
    /// Interrupt sources.
    pub sources: Sources,
    /// Bits of `SDMA_CNTL` required for correct packet execution.
    pub control_for_packets: u32,
    /// Bits of `SDMA_CNTL` required for user queues.
    pub control_for_users: u32,
    /// Bits of `SDMA_CNTL` that enable the interrupt of an invalid doorbell.
    pub control_doorbell: u32,
    /// Bits of `SDMA_CNTL` that enable the interrupt of a protected register access.
    pub control_register: u32,
    /// Halt bits of the engine's control register.
    pub halts: u32,
    /// `STATUS_REG` of an idle engine.
    pub idle_status: u32,
    /// Registers that are not 0 after reset.
    pub power_on: &'static [(Reg, u32)],
    /// The same for a warm card.
    pub warm: &'static [(Reg, u32)],
    /// Address register of the microcode port, if any.
    pub port_address: Option<u32>,
    /// Data register of the microcode port.
    pub port_data: Option<u32>,
    /// MQD layout.
    pub mqd: Mqd,
    /// MQD dwords and the registers that they are the image of.
    pub image: &'static [(usize, Reg)],
    /// Context registers: SDMA 4.4.2 offset to this version's.
    here: [u8; BLOCK],
    /// The reverse.
    there: [u8; BLOCK],
    /// Engine registers: SDMA 4.4.2 name, offset in this version.
    engine: &'static [(Reg, u32)],
    /// First doorbell of the engines, and distance between engines.
    doorbells: [u32; 2],
}

impl Layout {
    /// Returns the layout of engines of a version.
    pub fn of(version: [u8; 3]) -> &'static Self {
        match version[0] {
            0..=6 => &V4,
            _ => &V7,
        }
    }

    /// Returns the offset of an engine's register, in dwords from its first.
    pub fn local(&self, instance: u8, id: RegId) -> u32 {
        let n = u32::from(instance);
        match (self.version, id.seg) {
            (Version::V4, _) => id.off,
            (Version::V7, 0) => id.off.wrapping_sub(n * v7::ENGINE_REG_STRIDE),
            (Version::V7, _) => HYP
                .wrapping_add(id.off)
                .wrapping_sub(v7::HYP_REGS.start() + n * v7::HYP_REG_STRIDE),
        }
    }

    /// Returns the position of a context's registers among the contexts.
    fn place(&self, id: ContextId) -> u32 {
        match self.version {
            Version::V4 => id.0.into(),
            Version::V7 => id.as_rlc().unwrap_or(0).into(),
        }
    }

    /// Returns the offset of a context register. `None`: it does not exist.
    pub fn of_context(&self, id: ContextId, reg: Reg) -> Option<usize> {
        let within = self.here[(reg.off - FIRST) as usize];
        let at = FIRST + self.place(id) * RLC_REG_STRIDE + u32::from(within);
        (within != NONE).then_some(at as usize)
    }

    /// Returns the offset of an engine register. `None`: it does not exist.
    pub fn of_engine(&self, reg: Reg) -> Option<usize> {
        let found = self.engine.iter().find(|(r, _)| r.off == reg.off);
        found.map(|(_, at)| *at as usize)
    }

    /// Returns all contexts.
    pub fn contexts(&self) -> impl Iterator<Item = ContextId> {
        let all = self.version == Version::V4;
        ContextId::every()
            .filter(move |id| all || *id != ContextId::PAGE && *id != ContextId::rlc(0))
    }

    /// Returns the context of a register, and the register's SDMA 4.4.2 offset, if it has one.
    pub fn context_of(&self, local: u32) -> Option<(ContextId, Option<u32>)> {
        self.contexts().find_map(|id| {
            let within = local.wrapping_sub(FIRST + self.place(id) * RLC_REG_STRIDE);
            let there = *self.there.get(within as usize)?;
            Some((id, (there != NONE).then(|| FIRST + u32::from(there))))
        })
    }

    /// Returns whether RLC queue `rlc` exists.
    pub fn has_rlc(&self, rlc: u8) -> bool {
        self.contexts().any(|id| id == ContextId::rlc(rlc))
    }

    /// Returns the engine that a doorbell (qword index in a page) is routed to.
    pub fn engine_of(&self, local: u32) -> Option<usize> {
        let [first, stride] = self.doorbells;
        local.checked_sub(first).map(|n| (n / stride) as usize)
    }

    /// Returns the hub that translates an engine's addresses.
    pub fn hub(&self, engine: u8) -> Hub {
        match self.version {
            Version::V4 => Hub::Mm(engine / PER_AID),
            Version::V7 => Hub::Gfx(0),
        }
    }

    /// Returns the client id of an engine in the fault status register.
    pub fn cid(&self, engine: u8) -> u16 {
        match self.version {
            Version::V4 => 256 + u16::from(engine % PER_AID),
            Version::V7 => 13 + u16::from(engine),
        }
    }

    /// Returns the interrupt entry of an engine.
    pub fn entry(&self, n: u8, id: ContextId, vmid: u8, source: u32, ctx: u32) -> Entry {
        let (client_id, ring_id, node_id) = match self.version {
            Version::V4 => (
                client::SDMA[usize::from(n % PER_AID)],
                id.0,
                aid_node(n / PER_AID),
            ),
            Version::V7 => (soc21::GFX, n << ENGINE_SHIFT | self.place(id) as u8, 0),
        };
        Entry {
            client_id: client_id as u8,
            source_id: source as u8,
            ring_id,
            vmid,
            mm_hub: self.version == Version::V4,
            node_id,
            ctx: [ctx, 0, 0, 0],
        }
    }
}

/// Returns a translation table of context registers.
const fn table(pairs: &[(Reg, u32)], back: bool) -> [u8; BLOCK] {
    let mut out = [NONE; BLOCK];
    let mut n = 0;
    while n < pairs.len() {
        let (theirs, ours) = (pairs[n].0.off - FIRST, pairs[n].1 - FIRST);
        match back {
            false => out[theirs as usize] = ours as u8,
            true => out[ours as usize] = theirs as u8,
        }
        n += 1;
    }
    out
}

const fn identity() -> [u8; BLOCK] {
    let mut out = [0; BLOCK];
    let mut n = 0;
    while n < BLOCK {
        out[n] = n as u8;
        n += 1;
    }
    out
}

static V4: Layout = Layout {
    version: Version::V4,
    packets: sdma::PACKETS,
    opcode_name: sdma::opcode_name,
    sources: Sources {
        trap: source::SDMA_TRAP,
        doorbell_invalid: source::SDMA_DOORBELL_INVALID,
        register: source::SDMA_SRBMWRITE,
        poll_timeout: source::SDMA_POLL_TIMEOUT,
    },
    control_for_packets: regs::SDMA_CNTL__UTC_L1_ENABLE.mask,
    control_for_users: regs::SDMA_CNTL__AUTO_CTXSW_ENABLE.mask,
    control_doorbell: regs::SDMA_CNTL__INVALID_DOORBELL_INT_ENABLE.mask,
    control_register: regs::SDMA_CNTL__REG_WRITE_PROTECT_INT_ENABLE.mask,
    halts: regs::SDMA_F32_CNTL__HALT.mask,
    idle_status: 0x46de_e557,
    // `mmSDMA0_F32_CNTL_DEFAULT` of SDMA 4.0. On a warm card the previous driver left the engines
    // running.
    power_on: &[(regs::regSDMA_F32_CNTL, regs::SDMA_F32_CNTL__HALT.mask)],
    warm: &[],
    port_address: Some(regs::regSDMA_UCODE_ADDR.off),
    port_data: Some(regs::regSDMA_UCODE_DATA.off),
    mqd: Mqd {
        dwords: v9_sdma::SdmaMqd::DWORDS,
        rb_cntl: v9_sdma::dw::sdmax_rlcx_rb_cntl,
        rb_base: [
            v9_sdma::dw::sdmax_rlcx_rb_base,
            v9_sdma::dw::sdmax_rlcx_rb_base_hi,
        ],
        doorbell_offset: v9_sdma::dw::sdmax_rlcx_doorbell_offset,
        engine: v9_sdma::dw::sdma_engine_id,
        queue: v9_sdma::dw::sdma_queue_id,
    },
    image: IMAGE_V4,
    here: identity(),
    there: identity(),
    engine: &[
        (regs::regSDMA_CNTL, regs::regSDMA_CNTL.off),
        (regs::regSDMA_F32_CNTL, regs::regSDMA_F32_CNTL.off),
        (regs::regSDMA_STATUS_REG, regs::regSDMA_STATUS_REG.off),
    ],
    doorbells: [layout1::SDMA_ENGINE_START, layout1::SDMA_ENGINE_STRIDE],
};

static V7: Layout = Layout {
    version: Version::V7,
    packets: v7::PACKETS,
    opcode_name: v7::opcode_name,
    sources: Sources {
        trap: gfx12::SDMA_TRAP,
        doorbell_invalid: gfx12::SDMA_DOORBELL_INVALID,
        register: gfx12::SDMA_SRBMWRITE,
        poll_timeout: gfx12::SDMA_POLL_TIMEOUT,
    },
    control_for_packets: 0,
    control_for_users: 0,
    control_doorbell: 0,
    control_register: 0,
    halts: gc::SDMA0_MCU_CNTL__HALT.mask | gc::SDMA0_MCU_CNTL__RESET.mask,
    idle_status: 0x4e1e_e557,
    // The microcontroller waits for the driver.
    power_on: &[(regs::regSDMA_F32_CNTL, gc::SDMA0_MCU_CNTL__HALT.mask)],
    warm: &[(regs::regSDMA_F32_CNTL, gc::SDMA0_MCU_CNTL__HALT.mask)],
    port_address: None,
    port_data: None,
    mqd: Mqd {
        dwords: v12_sdma::SdmaMqd::DWORDS,
        rb_cntl: v12_sdma::dw::sdmax_rlcx_rb_cntl,
        rb_base: [
            v12_sdma::dw::sdmax_rlcx_rb_base,
            v12_sdma::dw::sdmax_rlcx_rb_base_hi,
        ],
        doorbell_offset: v12_sdma::dw::sdmax_rlcx_doorbell_offset,
        engine: v12_sdma::dw::sdma_engine_id,
        queue: v12_sdma::dw::sdma_queue_id,
    },
    image: IMAGE_V7,
    here: table(CONTEXT_V7, false),
    there: table(CONTEXT_V7, true),
    engine: &[
        (regs::regSDMA_CNTL, gc::regSDMA0_CNTL.off),
        (
            regs::regSDMA_F32_CNTL,
            HYP + gc::regSDMA0_MCU_CNTL.off - *v7::HYP_REGS.start(),
        ),
        (regs::regSDMA_STATUS_REG, gc::regSDMA0_STATUS_REG.off),
    ],
    doorbells: [navi10::SDMA_ENGINE0, navi10::SDMA_ENGINE_STRIDE],
};

/// Context registers of SDMA 7.
const CONTEXT_V7: &[(Reg, u32)] = {
    use gc::*;
    use regs::*;
    &[
        (regSDMA_GFX_RB_CNTL, regSDMA0_QUEUE0_RB_CNTL.off),
        (regSDMA_GFX_RB_BASE, regSDMA0_QUEUE0_RB_BASE.off),
        (regSDMA_GFX_RB_BASE_HI, regSDMA0_QUEUE0_RB_BASE_HI.off),
        (regSDMA_GFX_RB_RPTR, regSDMA0_QUEUE0_RB_RPTR.off),
        (regSDMA_GFX_RB_RPTR_HI, regSDMA0_QUEUE0_RB_RPTR_HI.off),
        (regSDMA_GFX_RB_WPTR, regSDMA0_QUEUE0_RB_WPTR.off),
        (regSDMA_GFX_RB_WPTR_HI, regSDMA0_QUEUE0_RB_WPTR_HI.off),
        (
            regSDMA_GFX_RB_RPTR_ADDR_LO,
            regSDMA0_QUEUE0_RB_RPTR_ADDR_LO.off,
        ),
        (
            regSDMA_GFX_RB_RPTR_ADDR_HI,
            regSDMA0_QUEUE0_RB_RPTR_ADDR_HI.off,
        ),
        (regSDMA_GFX_IB_CNTL, regSDMA0_QUEUE0_IB_CNTL.off),
        (regSDMA_GFX_IB_RPTR, regSDMA0_QUEUE0_IB_RPTR.off),
        (regSDMA_GFX_IB_OFFSET, regSDMA0_QUEUE0_IB_OFFSET.off),
        (regSDMA_GFX_IB_BASE_LO, regSDMA0_QUEUE0_IB_BASE_LO.off),
        (regSDMA_GFX_IB_BASE_HI, regSDMA0_QUEUE0_IB_BASE_HI.off),
        (regSDMA_GFX_IB_SIZE, regSDMA0_QUEUE0_IB_SIZE.off),
        (regSDMA_GFX_DOORBELL, regSDMA0_QUEUE0_DOORBELL.off),
        (regSDMA_GFX_DOORBELL_LOG, regSDMA0_QUEUE0_DOORBELL_LOG.off),
        (
            regSDMA_GFX_DOORBELL_OFFSET,
            regSDMA0_QUEUE0_DOORBELL_OFFSET.off,
        ),
        (regSDMA_GFX_CSA_ADDR_LO, regSDMA0_QUEUE0_CSA_ADDR_LO.off),
        (regSDMA_GFX_CSA_ADDR_HI, regSDMA0_QUEUE0_CSA_ADDR_HI.off),
        (regSDMA_GFX_IB_SUB_REMAIN, regSDMA0_QUEUE0_IB_SUB_REMAIN.off),
        (regSDMA_GFX_PREEMPT, regSDMA0_QUEUE0_PREEMPT.off),
        (regSDMA_GFX_DUMMY_REG, regSDMA0_QUEUE0_DUMMY_REG.off),
        (
            regSDMA_GFX_RB_WPTR_POLL_ADDR_LO,
            regSDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO.off,
        ),
        (
            regSDMA_GFX_RB_WPTR_POLL_ADDR_HI,
            regSDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI.off,
        ),
        (regSDMA_GFX_RB_AQL_CNTL, regSDMA0_QUEUE0_RB_AQL_CNTL.off),
        (
            regSDMA_GFX_MINOR_PTR_UPDATE,
            regSDMA0_QUEUE0_MINOR_PTR_UPDATE.off,
        ),
        (regSDMA_GFX_MIDCMD_CNTL, regSDMA0_QUEUE0_MIDCMD_CNTL.off),
        (regSDMA_GFX_MIDCMD_DATA0, regSDMA0_QUEUE0_MIDCMD_DATA0.off),
        (regSDMA_GFX_MIDCMD_DATA1, regSDMA0_QUEUE0_MIDCMD_DATA1.off),
        (
            regSDMA_GFX_CONTEXT_STATUS,
            regSDMA0_QUEUE0_CONTEXT_STATUS.off,
        ),
    ]
};

macro_rules! image {
    ($mqd:ident: $($dw:ident = $reg:ident),* $(,)?) => {
        &[$(($mqd::dw::$dw, regs::$reg)),*]
    };
}

const IMAGE_V4: &[(usize, Reg)] = image! { v9_sdma:
    sdmax_rlcx_rb_cntl = regSDMA_GFX_RB_CNTL,
    sdmax_rlcx_rb_base = regSDMA_GFX_RB_BASE,
    sdmax_rlcx_rb_base_hi = regSDMA_GFX_RB_BASE_HI,
    sdmax_rlcx_rb_rptr = regSDMA_GFX_RB_RPTR,
    sdmax_rlcx_rb_rptr_hi = regSDMA_GFX_RB_RPTR_HI,
    sdmax_rlcx_rb_wptr = regSDMA_GFX_RB_WPTR,
    sdmax_rlcx_rb_wptr_hi = regSDMA_GFX_RB_WPTR_HI,
    sdmax_rlcx_rb_wptr_poll_cntl = regSDMA_GFX_RB_WPTR_POLL_CNTL,
    sdmax_rlcx_rb_rptr_addr_hi = regSDMA_GFX_RB_RPTR_ADDR_HI,
    sdmax_rlcx_rb_rptr_addr_lo = regSDMA_GFX_RB_RPTR_ADDR_LO,
    sdmax_rlcx_ib_cntl = regSDMA_GFX_IB_CNTL,
    sdmax_rlcx_ib_rptr = regSDMA_GFX_IB_RPTR,
    sdmax_rlcx_ib_offset = regSDMA_GFX_IB_OFFSET,
    sdmax_rlcx_ib_base_lo = regSDMA_GFX_IB_BASE_LO,
    sdmax_rlcx_ib_base_hi = regSDMA_GFX_IB_BASE_HI,
    sdmax_rlcx_ib_size = regSDMA_GFX_IB_SIZE,
    sdmax_rlcx_skip_cntl = regSDMA_GFX_SKIP_CNTL,
    sdmax_rlcx_doorbell = regSDMA_GFX_DOORBELL,
    sdmax_rlcx_watermark = regSDMA_GFX_WATERMARK,
    sdmax_rlcx_doorbell_offset = regSDMA_GFX_DOORBELL_OFFSET,
    sdmax_rlcx_csa_addr_lo = regSDMA_GFX_CSA_ADDR_LO,
    sdmax_rlcx_csa_addr_hi = regSDMA_GFX_CSA_ADDR_HI,
    sdmax_rlcx_ib_sub_remain = regSDMA_GFX_IB_SUB_REMAIN,
    sdmax_rlcx_preempt = regSDMA_GFX_PREEMPT,
    sdmax_rlcx_dummy_reg = regSDMA_GFX_DUMMY_REG,
    sdmax_rlcx_rb_wptr_poll_addr_hi = regSDMA_GFX_RB_WPTR_POLL_ADDR_HI,
    sdmax_rlcx_rb_wptr_poll_addr_lo = regSDMA_GFX_RB_WPTR_POLL_ADDR_LO,
    sdmax_rlcx_rb_aql_cntl = regSDMA_GFX_RB_AQL_CNTL,
    sdmax_rlcx_minor_ptr_update = regSDMA_GFX_MINOR_PTR_UPDATE,
    sdmax_rlcx_midcmd_data0 = regSDMA_GFX_MIDCMD_DATA0,
    sdmax_rlcx_midcmd_data1 = regSDMA_GFX_MIDCMD_DATA1,
    sdmax_rlcx_midcmd_cntl = regSDMA_GFX_MIDCMD_CNTL,
    sdmax_rlcx_context_status = regSDMA_GFX_CONTEXT_STATUS,
};

const IMAGE_V7: &[(usize, Reg)] = image! { v12_sdma:
    sdmax_rlcx_rb_cntl = regSDMA_GFX_RB_CNTL,
    sdmax_rlcx_rb_base = regSDMA_GFX_RB_BASE,
    sdmax_rlcx_rb_base_hi = regSDMA_GFX_RB_BASE_HI,
    sdmax_rlcx_rb_rptr = regSDMA_GFX_RB_RPTR,
    sdmax_rlcx_rb_rptr_hi = regSDMA_GFX_RB_RPTR_HI,
    sdmax_rlcx_rb_wptr = regSDMA_GFX_RB_WPTR,
    sdmax_rlcx_rb_wptr_hi = regSDMA_GFX_RB_WPTR_HI,
    sdmax_rlcx_rb_rptr_addr_lo = regSDMA_GFX_RB_RPTR_ADDR_LO,
    sdmax_rlcx_rb_rptr_addr_hi = regSDMA_GFX_RB_RPTR_ADDR_HI,
    sdmax_rlcx_ib_cntl = regSDMA_GFX_IB_CNTL,
    sdmax_rlcx_ib_rptr = regSDMA_GFX_IB_RPTR,
    sdmax_rlcx_ib_offset = regSDMA_GFX_IB_OFFSET,
    sdmax_rlcx_ib_base_lo = regSDMA_GFX_IB_BASE_LO,
    sdmax_rlcx_ib_base_hi = regSDMA_GFX_IB_BASE_HI,
    sdmax_rlcx_ib_size = regSDMA_GFX_IB_SIZE,
    sdmax_rlcx_doorbell = regSDMA_GFX_DOORBELL,
    sdmax_rlcx_doorbell_offset = regSDMA_GFX_DOORBELL_OFFSET,
    sdmax_rlcx_csa_addr_lo = regSDMA_GFX_CSA_ADDR_LO,
    sdmax_rlcx_csa_addr_hi = regSDMA_GFX_CSA_ADDR_HI,
    sdmax_rlcx_ib_sub_remain = regSDMA_GFX_IB_SUB_REMAIN,
    sdmax_rlcx_preempt = regSDMA_GFX_PREEMPT,
    sdmax_rlcx_dummy_reg = regSDMA_GFX_DUMMY_REG,
    sdmax_rlcx_rb_wptr_poll_addr_lo = regSDMA_GFX_RB_WPTR_POLL_ADDR_LO,
    sdmax_rlcx_rb_wptr_poll_addr_hi = regSDMA_GFX_RB_WPTR_POLL_ADDR_HI,
    sdmax_rlcx_rb_aql_cntl = regSDMA_GFX_RB_AQL_CNTL,
    sdmax_rlcx_minor_ptr_update = regSDMA_GFX_MINOR_PTR_UPDATE,
    sdmax_rlcx_midcmd_cntl = regSDMA_GFX_MIDCMD_CNTL,
    sdmax_rlcx_midcmd_data0 = regSDMA_GFX_MIDCMD_DATA0,
    sdmax_rlcx_midcmd_data1 = regSDMA_GFX_MIDCMD_DATA1,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_match_on_both_generations() {
        use gc::*;
        use regs::*;
        for (a, b) in [
            (SDMA_GFX_RB_CNTL__RB_ENABLE, SDMA0_QUEUE0_RB_CNTL__RB_ENABLE),
            (SDMA_GFX_RB_CNTL__RB_SIZE, SDMA0_QUEUE0_RB_CNTL__RB_SIZE),
            (SDMA_GFX_RB_CNTL__RB_PRIV, SDMA0_QUEUE0_RB_CNTL__RB_PRIV),
            (SDMA_GFX_RB_CNTL__RB_VMID, SDMA0_QUEUE0_RB_CNTL__RB_VMID),
            (
                SDMA_GFX_RB_CNTL__RB_SWAP_ENABLE,
                SDMA0_QUEUE0_RB_CNTL__RB_SWAP_ENABLE,
            ),
            (
                SDMA_GFX_RB_CNTL__RPTR_WRITEBACK_ENABLE,
                SDMA0_QUEUE0_RB_CNTL__RPTR_WRITEBACK_ENABLE,
            ),
            (
                SDMA_GFX_RB_CNTL__RPTR_WRITEBACK_SWAP_ENABLE,
                SDMA0_QUEUE0_RB_CNTL__RPTR_WRITEBACK_SWAP_ENABLE,
            ),
            (SDMA_GFX_IB_CNTL__IB_ENABLE, SDMA0_QUEUE0_IB_CNTL__IB_ENABLE),
            (SDMA_GFX_IB_OFFSET__OFFSET, SDMA0_QUEUE0_IB_OFFSET__OFFSET),
            (SDMA_GFX_DOORBELL__ENABLE, SDMA0_QUEUE0_DOORBELL__ENABLE),
            (SDMA_GFX_DOORBELL__CAPTURED, SDMA0_QUEUE0_DOORBELL__CAPTURED),
            (
                SDMA_GFX_DOORBELL_OFFSET__OFFSET,
                SDMA0_QUEUE0_DOORBELL_OFFSET__OFFSET,
            ),
            (
                SDMA_GFX_CONTEXT_STATUS__SELECTED,
                SDMA0_QUEUE0_CONTEXT_STATUS__SELECTED,
            ),
            (
                SDMA_GFX_CONTEXT_STATUS__IDLE,
                SDMA0_QUEUE0_CONTEXT_STATUS__IDLE,
            ),
            (
                SDMA_GFX_CONTEXT_STATUS__EXCEPTION,
                SDMA0_QUEUE0_CONTEXT_STATUS__EXCEPTION,
            ),
            (
                SDMA_GFX_MIDCMD_CNTL__DATA_VALID,
                SDMA0_QUEUE0_MIDCMD_CNTL__DATA_VALID,
            ),
            (
                SDMA_GFX_RB_AQL_CNTL__AQL_ENABLE,
                SDMA0_QUEUE0_RB_AQL_CNTL__AQL_ENABLE,
            ),
            (SDMA_CNTL__TRAP_ENABLE, SDMA0_CNTL__TRAP_ENABLE),
            (SDMA_STATUS_REG__IDLE, SDMA0_STATUS_REG__IDLE),
        ] {
            assert_eq!(a, b);
        }
        let done = SDMA0_STATUS_REG__UCODE_INIT_DONE.mask | SDMA0_STATUS_REG__IDLE.mask;
        assert_eq!(V7.idle_status & done, done);
    }

    #[test]
    fn mqd_image_follows_register_order() {
        for (dw, reg) in V7.image {
            let at = V7.of_context(ContextId::GFX, *reg);
            assert_eq!(at, Some(FIRST as usize + dw), "{}", reg.name);
        }
    }

    #[test]
    fn registers_match_on_both_engines() {
        let cases: [(Reg, Reg, Option<ContextId>); 4] = [
            (gc::regSDMA0_CNTL, gc::regSDMA1_CNTL, None),
            (gc::regSDMA0_MCU_CNTL, gc::regSDMA1_MCU_CNTL, None),
            (
                gc::regSDMA0_QUEUE0_RB_CNTL,
                gc::regSDMA1_QUEUE0_RB_CNTL,
                Some(ContextId::GFX),
            ),
            (
                gc::regSDMA0_QUEUE7_DOORBELL,
                gc::regSDMA1_QUEUE7_DOORBELL,
                Some(ContextId::rlc(7)),
            ),
        ];
        for (first, second, id) in cases {
            let at = V7.local(0, first.into());
            assert_eq!(V7.local(1, second.into()), at, "{}", first.name);
            assert_eq!(V7.context_of(at).map(|c| c.0), id, "{}", first.name);
            assert!(at < 0x400);
        }
        assert_eq!(
            V7.of_engine(regs::regSDMA_F32_CNTL),
            Some(V7.local(1, gc::regSDMA1_MCU_CNTL.into()) as usize)
        );
        assert_eq!(V4.contexts().count(), 10);
        assert_eq!(V7.contexts().count(), 8);
        assert!(!V7.has_rlc(0) && V7.has_rlc(7) && V4.has_rlc(0));
    }

    #[test]
    fn interrupts_name_engine_and_queue() {
        let entry = V7.entry(1, ContextId::rlc(3), 9, gfx12::SDMA_TRAP, 5);
        assert_eq!((entry.client_id, entry.source_id), (0x0a, 49));
        assert_eq!((entry.ring_id, entry.mm_hub), (0x13, false));
        let entry = V4.entry(5, ContextId::rlc(3), 9, source::SDMA_TRAP, 5);
        assert_eq!((entry.client_id, entry.ring_id, entry.node_id), (9, 5, 4));
        // Clients are those of an AID, whose node id differs.
        for n in 0..16 {
            let entry = V4.entry(n, ContextId::rlc(0), 9, source::SDMA_TRAP, 5);
            let client = [0x08, 0x09, 0x01, 0x04][usize::from(n % 4)];
            assert_eq!((entry.client_id, entry.node_id), (client, n / 4 * 4), "{n}");
        }
    }
}
