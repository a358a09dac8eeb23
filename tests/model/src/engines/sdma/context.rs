// SPDX-License-Identifier: GPL-2.0 OR MIT

//! An enabled ring: configuration, pointers, execution state.

use gpu_regs::sdma_4_4_2 as regs;
use rkfd_abi::bits::join;

use super::bank::{Bank, ContextId};
use super::error::ConfigError;
use crate::engines::gmc::{Gmc, Hub, VmFault};

/// Configuration of a ring in its registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// First byte.
    pub base: u64,
    /// Size in bytes.
    pub size: u64,
    /// VMID of the ring and of addresses in its packets.
    pub vmid: u8,
    /// Address for read pointer reports.
    pub rptr_report: Option<u64>,
    /// Address of the write pointer in memory.
    pub wptr_poll: Option<u64>,
    /// Whether its packets may access registers.
    pub privileged: bool,
    /// Hub that translates its addresses.
    pub hub: Hub,
}

impl Config {
    /// Reads the configuration from a bank. Fails if it is invalid.
    pub fn from_bank(bank: &Bank, id: ContextId, hub: Hub) -> Result<Self, ConfigError> {
        use regs::*;
        let control = bank.of(id, regSDMA_GFX_RB_CNTL);
        let base = join(
            bank.of(id, regSDMA_GFX_RB_BASE),
            bank.of(id, regSDMA_GFX_RB_BASE_HI),
        ) << 8;
        let log = SDMA_GFX_RB_CNTL__RB_SIZE.get(control);
        if base == 0 {
            return Err(ConfigError::NoRing);
        }
        if !(6..=29).contains(&log) {
            return Err(ConfigError::RingSize { log });
        }
        if SDMA_GFX_RB_CNTL__RB_SWAP_ENABLE.is_set(control)
            || SDMA_GFX_RB_CNTL__RPTR_WRITEBACK_SWAP_ENABLE.is_set(control)
        {
            return Err(ConfigError::Swap);
        }
        if bank.of(id, regSDMA_GFX_RB_AQL_CNTL) & 1 != 0 {
            return Err(ConfigError::Aql);
        }
        let report = bank.wide(id, regSDMA_GFX_RB_RPTR_ADDR_LO, regSDMA_GFX_RB_RPTR_ADDR_HI) & !3;
        let writes_back = SDMA_GFX_RB_CNTL__RPTR_WRITEBACK_ENABLE.is_set(control);
        let polls = bank.polls_wptr(id);
        let poll_at = bank.wide(
            id,
            regSDMA_GFX_RB_WPTR_POLL_ADDR_LO,
            regSDMA_GFX_RB_WPTR_POLL_ADDR_HI,
        ) & !3;
        let vmid = SDMA_GFX_RB_CNTL__RB_VMID.get(control) as u8;
        Ok(Self {
            base,
            size: 4 << log,
            vmid,
            rptr_report: (writes_back && report != 0).then_some(report),
            wptr_poll: (polls && poll_at != 0).then_some(poll_at),
            privileged: vmid == 0 || SDMA_GFX_RB_CNTL__RB_PRIV.is_set(control),
            hub,
        })
    }
}

/// An IB being executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ib {
    /// First byte.
    pub base: u64,
    /// Size in dwords.
    pub size: u64,
    /// Next dword.
    pub pos: u64,
    /// VMID of the IB and of addresses in its packets.
    pub vmid: u8,
}

/// Reason why a context is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// It runs.
    No,
    /// A bad packet.
    BadPacket,
    /// A fault without a default page.
    Fault,
    /// Invalid pointers.
    Pointers,
}

/// An acknowledgement of an invalidation engine that a request of the ring has not cleared yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// Dword address of the ACK register.
    pub ack: u32,
    /// Its value before the request.
    pub value: u32,
}

/// State of an enabled context. Pointers are in bytes, never wrapped.
#[derive(Debug, Clone)]
pub struct Context {
    /// Which context.
    pub id: ContextId,
    /// Number of the start (see [`Bank::start_of`]).
    pub start: u32,
    /// Configuration when it started.
    pub config: Config,
    /// PASID, for the event log.
    pub pasid: u16,
    /// Read pointer: first byte not fetched.
    pub rptr: u64,
    /// Write pointer.
    pub wptr: u64,
    /// Last reported read pointer.
    pub reported: u64,
    /// Entered IB.
    pub ib: Option<Ib>,
    /// Progress of the current packet, in units of the packet.
    pub progress: u64,
    /// Number of polls of the current packet.
    pub looks: u32,
    /// Whether it is stopped.
    pub halt: Halt,
    /// VMID of the last IB since the last trap: the owner of the current job.
    pub job: u8,
    /// Set from an invalidation request to the next register access (SDMA 7).
    pub stale: Option<Stale>,
}

impl Context {
    /// Returns a context that its registers just enabled.
    pub fn new(id: ContextId, bank: &Bank, pasid: u16, hub: Hub) -> Result<Self, ConfigError> {
        use regs::*;
        let config = Config::from_bank(bank, id, hub)?;
        let mut context = Self {
            id,
            start: bank.start_of(id),
            config,
            pasid,
            rptr: bank.rptr(id),
            wptr: bank.wptr(id),
            reported: bank.rptr(id),
            ib: None,
            progress: 0,
            looks: 0,
            halt: Halt::No,
            job: 0,
            stale: None,
        };
        if !id.is_kernel() {
            // A queue that was preempted inside an IB resumes there.
            let size = bank.of(id, regSDMA_GFX_IB_SIZE);
            let base = bank.wide(id, regSDMA_GFX_IB_BASE_LO, regSDMA_GFX_IB_BASE_HI);
            if size != 0 {
                context.ib = Some(Ib {
                    base,
                    size: size.into(),
                    pos: SDMA_GFX_IB_OFFSET__OFFSET
                        .get(bank.of(id, regSDMA_GFX_IB_OFFSET))
                        .into(),
                    vmid: config.vmid,
                });
            }
            let control = bank.of(id, regSDMA_GFX_MIDCMD_CNTL);
            if SDMA_GFX_MIDCMD_CNTL__DATA_VALID.is_set(control) {
                context.progress =
                    bank.wide(id, regSDMA_GFX_MIDCMD_DATA0, regSDMA_GFX_MIDCMD_DATA1);
            }
        }
        Ok(context)
    }

    /// Saves the state for a later start in the registers.
    pub fn save(&self, bank: &mut Bank) {
        use regs::*;
        let id = self.id;
        let ib = self.ib.unwrap_or(Ib {
            base: 0,
            size: 0,
            pos: 0,
            vmid: 0,
        });
        bank.put_wide(id, regSDMA_GFX_IB_BASE_LO, regSDMA_GFX_IB_BASE_HI, ib.base);
        bank.put(id, regSDMA_GFX_IB_SIZE, ib.size as u32);
        let offset = SDMA_GFX_IB_OFFSET__OFFSET.put(ib.pos as u32);
        bank.put(id, regSDMA_GFX_IB_OFFSET, offset);
        bank.put(id, regSDMA_GFX_IB_RPTR, offset);
        let (lo, hi) = (regSDMA_GFX_MIDCMD_DATA0, regSDMA_GFX_MIDCMD_DATA1);
        bank.put_wide(id, lo, hi, self.progress);
        let valid = SDMA_GFX_MIDCMD_CNTL__DATA_VALID.put((self.progress != 0).into());
        bank.put(id, regSDMA_GFX_MIDCMD_CNTL, valid);
        bank.publish(id, self.rptr, false, false);
    }

    /// Returns whether the context has work.
    pub fn has_work(&self) -> bool {
        self.ib.is_some() || self.rptr != self.wptr
    }

    /// Returns whether it is inside a packet or an IB.
    pub fn is_inside(&self) -> bool {
        self.ib.is_some() || self.progress != 0 || self.looks != 0
    }

    /// Returns the VMID of addresses in the current packet.
    pub fn vmid(&self) -> u8 {
        self.ib.map_or(self.config.vmid, |ib| ib.vmid)
    }

    /// Returns whether the current packet may access registers.
    pub fn privileged(&self) -> bool {
        self.config.privileged && self.ib.is_none_or(|ib| ib.vmid == 0)
    }

    /// Returns the number of available dwords from the current packet on.
    pub fn available(&self) -> u64 {
        match &self.ib {
            Some(ib) => ib.size - ib.pos,
            None => (self.wptr - self.rptr) / 4,
        }
    }

    /// Reads `out.len()` dwords, `skip` dwords after the start of the current packet. The caller
    /// has checked that they are available.
    pub fn fetch(&self, gmc: &Gmc, skip: u64, out: &mut [u32]) -> Result<(), VmFault> {
        // A packet fits; only the data of WRITE does not.
        let mut small = [0; 64];
        let mut large = Vec::new();
        let len = out.len() * 4;
        let bytes = match small.get_mut(..len) {
            Some(bytes) => bytes,
            None => {
                large.resize(len, 0);
                &mut large[..]
            }
        };
        match &self.ib {
            Some(ib) => {
                let at = ib.base.wrapping_add((ib.pos + skip) * 4);
                gmc.vm_read(self.config.hub, ib.vmid, at, bytes)?;
            }
            None => {
                let at = (self.rptr + skip * 4) & (self.config.size - 1);
                let first = bytes.len().min((self.config.size - at) as usize);
                let (head, tail) = bytes.split_at_mut(first);
                let (vmid, base) = (self.config.vmid, self.config.base);
                gmc.vm_read(self.config.hub, vmid, base.wrapping_add(at), head)?;
                gmc.vm_read(self.config.hub, vmid, base, tail)?;
            }
        }
        for (word, chunk) in out.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        }
        Ok(())
    }

    /// Completes the current packet: advances by `dwords`.
    pub fn advance(&mut self, dwords: u64) {
        self.progress = 0;
        self.looks = 0;
        match &mut self.ib {
            Some(ib) => {
                ib.pos = (ib.pos + dwords).min(ib.size);
                if ib.pos == ib.size {
                    self.ib = None;
                }
            }
            None => self.rptr = (self.rptr + dwords * 4).min(self.wptr),
        }
    }
}
