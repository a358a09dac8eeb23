// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Chip descriptions: the data that differs between cards.

use crate::regs::Ip;

pub mod mi300x;
pub mod mi308x;
pub mod mi325x;
pub mod rx9070;

/// XCCs on an AID.
pub const XCCS_PER_AID: u8 = 2;

/// Generation of the engines, for behaviour that differs in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Generation {
    /// GC 9.4.3 and its companion blocks: CPSCH, queues come by runlist.
    Gfx9,
    /// GC 12.0 and its companion blocks: queues come through MES.
    Gfx12,
}

/// One instance of an IP block, as the discovery table lists it.
#[derive(Debug, Clone, Copy)]
pub struct IpInstance {
    /// IP block.
    pub ip: Ip,
    /// Instance number.
    pub instance: u8,
    /// Version: major, minor, revision.
    pub version: [u8; 3],
    /// Register segment bases, in dwords.
    pub bases: &'static [u32],
}

/// Shader core layout and caches, the content of the discovery GC table.
#[derive(Debug, Clone, Copy)]
pub struct GcInfo {
    /// Shader engines.
    pub num_se: u32,
    /// Shader arrays in an engine.
    pub sh_per_se: u32,
    /// Compute units in an array, before harvesting.
    pub cu_per_sh: u32,
    /// CUs that are harvested together: 2 where they form a workgroup processor.
    pub cus_per_unit: u32,
    /// Inactive units by XCC (an XCC without an entry has those of the first): one mask for each
    /// (se, sh), SE-major.
    pub inactive: &'static [&'static [u32]],
    /// Render back ends per engine.
    pub rb_per_se: u32,
    /// L2 channels.
    pub tccs: u32,
    /// Vector registers of a SIMD lane.
    pub gprs: u32,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// Wave slots of a SIMD.
    pub waves_per_simd: u32,
    /// Scratch slots of a CU.
    pub scratch_slots_per_cu: u32,
    /// LDS of a CU in KiB.
    pub lds_kib: u32,
    /// Vector L1 data cache of a CU in KiB.
    pub tcp_kib: u32,
    /// CUs that share an instruction and a scalar cache.
    pub cu_per_sqc: u32,
    /// Instruction cache in KiB.
    pub sqc_inst_kib: u32,
    /// Scalar data cache in KiB.
    pub sqc_data_kib: u32,
    /// First-level cache shared by a shader array, in KiB; 0 if there is none.
    pub gl1_kib: u32,
    /// L2 of the XCC in KiB.
    pub tcc_kib: u32,
    /// Memory attached last level cache (MALL) of each UMC in KiB.
    pub mall_kib: u32,
    /// Ports to the data fabric.
    pub sdp_interfaces: u32,
}

/// A compute unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cu {
    /// Shader engine.
    pub se: u32,
    /// Shader array of the engine.
    pub sh: u32,
    /// Number in the array, harvested ones counted.
    pub cu: u32,
    /// Number in the array, harvested ones not counted: its bit in a CU mask.
    pub bit: u32,
}

impl GcInfo {
    /// Returns the masks of inactive units of an XCC.
    pub fn inactive(&self, xcc: u8) -> &'static [u32] {
        let own = self.inactive.get(usize::from(xcc));
        own.or(self.inactive.first()).copied().unwrap_or(&[])
    }

    /// Returns the active CUs of an XCC.
    pub fn cus(&self, xcc: u8) -> Vec<Cu> {
        let mut cus = Vec::new();
        for (array, inactive) in (0..).zip(self.inactive(xcc)) {
            let present = |cu: &u32| inactive >> (cu / self.cus_per_unit) & 1 == 0;
            for (bit, cu) in (0..).zip((0..self.cu_per_sh).filter(present)) {
                let (se, sh) = (array / self.sh_per_se, array % self.sh_per_se);
                cus.push(Cu { se, sh, cu, bit });
            }
        }
        cus
    }
}

/// A card model.
#[derive(Debug, Clone, Copy)]
pub struct Chip {
    /// Name on the command line.
    pub name: &'static str,
    /// Generation of its engines.
    pub generation: Generation,
    /// PCI vendor, device, subsystem vendor, subsystem device.
    pub pci_ids: [u16; 4],
    /// PCI base class, subclass and programming interface.
    pub pci_class: u32,
    /// PCI revision id.
    pub pci_revision: u8,
    /// Revision that the NBIO straps report.
    pub rev_id: u8,
    /// Bytes of the register BAR; registers beyond it are reached by index and data.
    pub register_bar: u64,
    /// All IP blocks.
    pub ips: &'static [IpInstance],
    /// Instances among them that are fused off, as the discovery table lists them.
    pub harvested: &'static [(Ip, u8)],
    /// Shader core layout of an XCC.
    pub gc: GcInfo,
    /// Product name in the FRU EEPROM of the board; `None` for a board without one.
    pub product: Option<&'static str>,
    /// Default size of video memory, in bytes.
    pub default_vram: u64,
    /// `FB_LOCATION_BASE`: first memory-controller address of VRAM, in units of 16 MiB.
    pub fb_location: u32,
}

impl Chip {
    /// Returns the chip called `name`.
    pub fn by_name(name: &str) -> Option<&'static Chip> {
        Self::all().iter().copied().find(|c| c.name == name)
    }

    /// Returns all chips.
    pub fn all() -> &'static [&'static Chip] {
        &[
            &mi300x::CHIP,
            &mi300x::ONE_XCC,
            &mi308x::CHIP,
            &mi325x::CHIP,
            &rx9070::CHIP,
        ]
    }

    /// Returns the instance numbers of `ip` that are not fused off, in ascending order.
    pub fn instances(&self, ip: Ip) -> impl Iterator<Item = u8> + '_ {
        (0..self.span(ip)).filter(move |n| self.base(ip, *n, 0).is_some() && self.has(ip, *n))
    }

    /// Returns whether an instance of `ip` is not fused off.
    pub fn has(&self, ip: Ip, instance: u8) -> bool {
        !self.harvested.contains(&(ip, instance))
    }

    /// Returns whether the card has that AID.
    pub fn has_aid(&self, aid: u8) -> bool {
        self.has(Ip::Nbif, aid) && self.base(Ip::Nbif, aid, 0).is_some()
    }

    /// Returns one more than the highest instance number of `ip`.
    pub fn span(&self, ip: Ip) -> u8 {
        let instances = self.ips.iter().filter(|i| i.ip == ip);
        instances.map(|i| i.instance + 1).max().unwrap_or(0)
    }

    /// Returns the register segment base of instance `instance` of `ip`, in dwords.
    pub fn base(&self, ip: Ip, instance: u8, seg: u8) -> Option<u32> {
        self.ips
            .iter()
            .find(|i| i.ip == ip && i.instance == instance)
            .and_then(|i| i.bases.get(usize::from(seg)).copied())
    }
}
