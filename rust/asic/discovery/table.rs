// SPDX-License-Identifier: GPL-2.0

//! Parser of the discovery table. It uses no hardware: `tests/logic` checks it.

use kernel::{fmt, prelude::*};

use rkfd_abi::discovery::{self as d, hwid};

use crate::asic::{
    bytes::array_at,
    caps::Caps,
    config::{Caches, Config},
    instance::{Instance, Version, MAX_SEGMENTS},
};

/// Maximum number of memory partitions (`AMDGPU_MAX_MEM_RANGES`, `amdgpu_gmc.h`).
const MAX_MEMORY_PARTITIONS: u32 = 8;
/// Maximum number of instances.
const MAX_INSTANCES: usize = 512;
/// Maximum number of waves of a SIMD, more than any has.
const MAX_WAVES: u32 = 64;
/// Maximum number of shader arrays of a shader engine: a CU mask has 16 bits for each.
const MAX_SH: u32 = 2;
/// Numbers of GC instances are below this: masks of XCCs have 16 bits.
const GC_NUMBERS: u8 = 16;
/// Numbers of SDMA instances are below this: masks of engines have 32 bits.
const SDMA_NUMBERS: u8 = 32;
/// Maximum size of LDS, whose bytes are a number of 32 bits.
const MAX_LDS_KIB: u32 = u32::MAX / 1024;

/// An instance as the table lists it.
pub(crate) struct Listed {
    /// Number of its die.
    pub(crate) die: u16,
    /// The instance.
    pub(crate) instance: Instance,
    /// It is in the harvest table.
    pub(crate) harvested: bool,
    /// An earlier entry of the die has the same id and number.
    pub(crate) repeated: bool,
}

/// Contents of the discovery table.
pub(crate) struct Discovery {
    /// Instances of all blocks, in the order of the table.
    pub(crate) listed: KVec<Listed>,
    /// GC instance 0, which may be harvested.
    pub(crate) gc0: Instance,
    /// Bytes of VRAM.
    pub(crate) vram_size: u64,
    gc: GcInfo,
    /// Bytes of the memory attached last level cache, or the error in its table.
    mall: Result<u64, Bad>,
}

/// Contents of the GC table.
#[derive(Default)]
struct GcInfo {
    num_se: u32,
    cu_per_sh: u32,
    sh_per_se: u32,
    wave_size: u32,
    waves_per_simd: u32,
    scratch_slots_per_cu: u32,
    lds_kib: u32,
    tccs: u32,
    vgprs: u32,
    caches: Caches,
}

/// Error in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// Field outside of the table.
    Bounds(&'static str),
    /// Table or instance that is not there.
    Missing(&'static str),
    /// Bad signature or id.
    Signature(&'static str, u32),
    /// Bad checksum.
    Checksum(&'static str, u16, u16),
    /// Unknown version.
    Version(&'static str, u16, u16),
    /// Invalid value.
    Value(&'static str, u32),
    /// Out of memory.
    Memory,
}

impl From<kernel::alloc::AllocError> for Bad {
    fn from(_: kernel::alloc::AllocError) -> Self {
        Bad::Memory
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Bad::Bounds(what) => f.write_fmt(fmt!("{what} lies outside the table")),
            Bad::Missing(what) => f.write_fmt(fmt!("{what} is missing")),
            Bad::Signature(what, found) => {
                f.write_fmt(fmt!("bad signature {found:#010x} of {what}"))
            }
            Bad::Checksum(what, expected, found) => f.write_fmt(fmt!(
                "checksum of {what} is {found:#06x}, must be {expected:#06x}"
            )),
            Bad::Version(what, major, minor) => {
                f.write_fmt(fmt!("{what} has unknown version {major}.{minor}"))
            }
            Bad::Value(what, found) => f.write_fmt(fmt!("{what} is {found}")),
            Bad::Memory => f.write_fmt(fmt!("no memory")),
        }
    }
}

impl Bad {
    /// Returns `ENOMEM` or `EINVAL`.
    pub(super) fn errno(&self) -> Error {
        match self {
            Bad::Memory => ENOMEM,
            _ => EINVAL,
        }
    }
}

/// Bounds-checked access to the table.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn array<const N: usize>(self, at: usize, what: &'static str) -> Result<[u8; N], Bad> {
        array_at(self.0, at).ok_or(Bad::Bounds(what))
    }

    fn u8(self, at: usize, what: &'static str) -> Result<u8, Bad> {
        Ok(self.array::<1>(at, what)?[0])
    }

    fn u16(self, at: usize, what: &'static str) -> Result<u16, Bad> {
        Ok(u16::from_le_bytes(self.array(at, what)?))
    }

    fn u32(self, at: usize, what: &'static str) -> Result<u32, Bad> {
        Ok(u32::from_le_bytes(self.array(at, what)?))
    }

    fn u64(self, at: usize, what: &'static str) -> Result<u64, Bad> {
        Ok(u64::from_le_bytes(self.array(at, what)?))
    }

    fn range(self, at: usize, len: usize, what: &'static str) -> Result<Self, Bad> {
        at.checked_add(len)
            .and_then(|end| self.0.get(at..end))
            .map(Bytes)
            .ok_or(Bad::Bounds(what))
    }

    fn sum(self) -> u16 {
        self.0
            .iter()
            .fold(0u16, |sum, b| sum.wrapping_add(u16::from(*b)))
    }
}

/// Memory partitions as the table lists them.
pub(crate) struct MemoryTable {
    /// NPS mode.
    pub(crate) mode: u32,
    /// First and last address of each, with the offset of VRAM in the frame buffer.
    pub(crate) ranges: KVec<(u64, u64)>,
}

impl MemoryTable {
    /// Returns the memory partitions of a table; `None` if it does not list any.
    pub(super) fn parse(raw: &[u8]) -> Result<Option<Self>, Bad> {
        use d::nps_info as h;
        let what = "NPS table";
        let Some(nps) = table(Bytes(raw), d::table::NPS_INFO, what)? else {
            return Ok(None);
        };
        let id = nps.u32(h::TABLE_ID, what)?;
        if id != d::NPS_INFO_TABLE_ID {
            return Err(Bad::Signature("the NPS table", id));
        }
        let major = nps.u16(h::VERSION_MAJOR, what)?;
        if major != 1 {
            let minor = nps.u16(h::VERSION_MINOR, what)?;
            return Err(Bad::Version("the NPS table", major, minor));
        }
        let count = nps.u32(h::COUNT, what)?;
        if count > MAX_MEMORY_PARTITIONS {
            return Err(Bad::Value("the number of memory partitions", count));
        }
        let mut ranges = KVec::new();
        for i in 0..count as usize {
            let at = h::INSTANCE_INFO + i * h::range::SIZE;
            let range = (
                nps.u64(at + h::range::BASE_ADDRESS, what)?,
                nps.u64(at + h::range::LIMIT_ADDRESS, what)?,
            );
            ranges.push(range, GFP_KERNEL)?;
        }
        Ok(Some(Self {
            mode: nps.u32(h::NPS_TYPE, what)?,
            ranges,
        }))
    }
}

/// A table as the header lists it.
struct Place {
    /// Bytes from the start of the binary.
    offset: usize,
    checksum: u16,
}

/// Returns the place of table `n`; `None` when absent.
fn place(all: Bytes<'_>, n: usize, what: &'static str) -> Result<Option<Place>, Bad> {
    let major = all.u16(d::binary_header::VERSION_MAJOR, "version")?;
    let list = match major {
        0 | 1 => d::binary_header::TABLE_LIST,
        2 => {
            if n >= usize::from(all.u16(d::binary_header_v2::NUM_TABLES, "number of tables")?) {
                return Ok(None);
            }
            d::binary_header_v2::TABLE_LIST
        }
        _ => {
            let minor = all.u16(d::binary_header::VERSION_MINOR, "version")?;
            return Err(Bad::Version("binary", major, minor));
        }
    };
    let info = list + n * d::table_info::SIZE;
    let offset = usize::from(all.u16(info + d::table_info::OFFSET, what)?);
    if offset == 0 {
        return Ok(None);
    }
    Ok(Some(Place {
        offset,
        checksum: all.u16(info + d::table_info::CHECKSUM, what)?,
    }))
}

/// Returns the size of table `n` at `offset` as the C driver does, which does not use that of the
/// binary's header: from the table (`amdgpu_discovery_table_check`,
/// `amdgpu_discovery_verify_npsinfo`).
fn table_size(all: Bytes<'_>, n: usize, offset: usize, what: &'static str) -> Result<usize, Bad> {
    Ok(match n {
        d::table::IP_DISCOVERY => all
            .u16(offset + d::ip_discovery_header::TABLE_SIZE, what)?
            .into(),
        // The low half.
        d::table::GC => all
            .u16(offset + d::gpu_info_header::TABLE_SIZE, what)?
            .into(),
        d::table::NPS_INFO => {
            usize::try_from(all.u32(offset + d::nps_info::SIZE_BYTES, what)?).unwrap_or(usize::MAX)
        }
        _ => d::harvest_table::SIZE,
    })
}

/// Returns table `n` of the binary, with its checksum verified; `None` when absent.
fn table<'a>(all: Bytes<'a>, n: usize, what: &'static str) -> Result<Option<Bytes<'a>>, Bad> {
    let Some(place) = place(all, n, what)? else {
        return Ok(None);
    };
    let size = table_size(all, n, place.offset, what)?;
    let bytes = all.range(place.offset, size, what)?;
    if bytes.sum() != place.checksum {
        return Err(Bad::Checksum(what, place.checksum, bytes.sum()));
    }
    Ok(Some(bytes))
}

fn parse_ips(all: Bytes<'_>, ips: Bytes<'_>) -> Result<KVec<Listed>, Bad> {
    use d::{die_header, die_info, ip_discovery_header as h};
    let signature = ips.u32(h::SIGNATURE, "IP table")?;
    if signature != d::DISCOVERY_TABLE_SIGNATURE {
        return Err(Bad::Signature("the IP table", signature));
    }
    let version = ips.u16(h::VERSION, "IP table")?;
    if version != 3 && version != 4 {
        return Err(Bad::Version("the IP table", version, 0));
    }
    let wide = version == 4 && ips.u8(h::FLAGS, "IP table")? & h::FLAG_BASE_ADDR_64_BIT != 0;
    let dies = usize::from(ips.u16(h::NUM_DIES, "IP table")?);
    if dies == 0 || dies > h::MAX_DIES {
        return Err(Bad::Value("the number of dies", dies as u32));
    }
    let mut out: KVec<Listed> = KVec::new();
    for die in 0..dies {
        let info = h::DIE_INFO + die * die_info::SIZE;
        let mut at = usize::from(ips.u16(info + die_info::DIE_OFFSET, "die list")?);
        let id = all.u16(at + die_header::DIE_ID, "die")?;
        if usize::from(id) != die {
            return Err(Bad::Value("the id of a die", id.into()));
        }
        let count = all.u16(at + die_header::NUM_IPS, "die")?;
        at += die_header::SIZE;
        for _ in 0..count {
            let (instance, len) = parse_ip(all, at, wide)?;
            at += len;
            let limit = match instance.hw_id {
                hwid::GC => Some(GC_NUMBERS),
                hwid::SDMA0 => Some(SDMA_NUMBERS),
                _ => None,
            };
            if limit.is_some_and(|limit| instance.inst >= limit) {
                return Err(Bad::Value(
                    "the number of an instance",
                    instance.inst.into(),
                ));
            }
            if out.len() == MAX_INSTANCES {
                return Err(Bad::Value("the number of instances", out.len() as u32));
            }
            let repeated = out.iter().any(|earlier| {
                let other = &earlier.instance;
                (earlier.die, other.hw_id, other.inst) == (id, instance.hw_id, instance.inst)
            });
            let listed = Listed {
                die: id,
                instance,
                harvested: false,
                repeated,
            };
            out.push(listed, GFP_KERNEL)?;
        }
    }
    Ok(out)
}

/// Parses an IP entry; returns it and its length in bytes.
fn parse_ip(all: Bytes<'_>, at: usize, wide: bool) -> Result<(Instance, usize), Bad> {
    use d::ip_v3 as ip;
    let what = "IP entry";
    let num = all.u8(at + ip::NUM_BASE_ADDRESS, what)?;
    let step = if wide { 8 } else { 4 };
    let len = ip::SIZE + usize::from(num) * step;
    let entry = all.range(at, len, what)?;
    let mut bases = [0; MAX_SEGMENTS];
    for (i, base) in bases.iter_mut().take(usize::from(num)).enumerate() {
        *base = entry.u32(ip::BASE_ADDRESS + i * step, what)?;
        if wide {
            // Bits 31:30 are not part of the register offset.
            *base &= 0x3fff_ffff;
        }
    }
    let instance = Instance {
        hw_id: entry.u16(ip::HW_ID, what)?,
        inst: entry.u8(ip::INSTANCE_NUMBER, what)?,
        version: Version::new(
            entry.u8(ip::MAJOR, what)?,
            entry.u8(ip::MINOR, what)?,
            entry.u8(ip::REVISION, what)?,
        ),
        // No block that the driver uses has more.
        num_bases: num.min(MAX_SEGMENTS as u8),
        bases,
    };
    Ok((instance, len))
}

/// Marks the instances of the harvest table. Returns its number of UMCs, of which the C driver
/// counts those with a number below 32 (`amdgpu_discovery_read_from_harvest_table`).
fn mark_harvested(harvest: Bytes<'_>, listed: &mut [Listed]) -> Result<usize, Bad> {
    use d::harvest_table as h;
    let signature = harvest.u32(h::SIGNATURE, "harvest table")?;
    if signature != d::HARVEST_TABLE_SIGNATURE {
        return Err(Bad::Signature("the harvest table", signature));
    }
    let mut umcs = 0;
    for i in 0..h::ENTRIES {
        let at = h::LIST + i * h::ENTRY_SIZE;
        let entry = harvest.range(at, h::ENTRY_SIZE, "harvest table")?;
        let hw_id = entry.u16(0, "harvest table")?;
        if hw_id == 0 {
            break;
        }
        let inst = entry.u8(2, "harvest table")?;
        umcs += usize::from(hw_id == hwid::UMC && inst < 32);
        for ip in listed.iter_mut() {
            ip.harvested |= ip.instance.hw_id == hw_id && ip.instance.inst == inst;
        }
    }
    Ok(umcs)
}

/// Returns the bytes of the memory attached last level cache of `umcs` memory controllers, 0
/// without a table. As in the C driver (`amdgpu_discovery_get_mall_info`), which verifies only the
/// version of this table.
fn parse_mall(all: Bytes<'_>, umcs: usize) -> Result<u64, Bad> {
    use d::mall_info as h;
    let what = "MALL table";
    let Some(place) = place(all, d::table::MALL_INFO, what)? else {
        return Ok(0);
    };
    let get = |at| all.u32(place.offset + at, what);
    let each = || get(h::SIZE_PER_UMC).map(u64::from);
    match all.u16(place.offset + h::VERSION_MAJOR, what)? {
        1 => {
            let (each, double, half) = (each()?, get(h::M_S_PRESENT)?, get(h::M_HALF_USE)?);
            let has = |mask: u32, umc: u32| mask.checked_shr(umc).is_some_and(|bits| bits & 1 != 0);
            let size = |umc| match umc {
                _ if has(double, umc) => each * 2,
                _ if has(half, umc) => each / 2,
                _ => each,
            };
            Ok((0..umcs as u32).map(size).sum())
        }
        2 => Ok(each()? * umcs as u64),
        major => {
            let minor = all.u16(place.offset + h::VERSION_MINOR, what)?;
            Err(Bad::Version("the MALL table", major, minor))
        }
    }
}

fn parse_gc(gc: Bytes<'_>) -> Result<GcInfo, Bad> {
    use d::gpu_info_header as h;
    let id = gc.u32(h::TABLE_ID, "GC table")?;
    if id != d::GC_TABLE_ID {
        return Err(Bad::Signature("the GC table", id));
    }
    let major = gc.u16(h::VERSION_MAJOR, "GC table")?;
    let minor = gc.u16(h::VERSION_MINOR, "GC table")?;
    let info = match major {
        1 => parse_gc_v1(gc, minor)?,
        2 => parse_gc_v2(gc, minor)?,
        _ => return Err(Bad::Version("the GC table", major, minor)),
    };
    // Limits of the registers and masks that these numbers index, and of computations with them.
    for (what, value, limits) in [
        ("the number of shader engines", info.num_se, 1..=4),
        ("the number of shader arrays", info.sh_per_se, 1..=MAX_SH),
        (
            "the number of CUs of a shader array",
            info.cu_per_sh,
            1..=16,
        ),
        (
            "the number of waves of a SIMD",
            info.waves_per_simd,
            0..=MAX_WAVES,
        ),
        ("the size of LDS in KiB", info.lds_kib, 0..=MAX_LDS_KIB),
    ] {
        if !limits.contains(&value) {
            return Err(Bad::Value(what, value));
        }
    }
    Ok(info)
}

/// Parses a table that counts WGPs of two CUs.
fn parse_gc_v1(gc: Bytes<'_>, minor: u16) -> Result<GcInfo, Bad> {
    use d::gc_info_v1 as v1;
    let get = |at| gc.u32(at, "GC table");
    let wgps = get(v1::NUM_WGP0_PER_SA)?.saturating_add(get(v1::NUM_WGP1_PER_SA)?);
    let mut info = GcInfo {
        num_se: get(v1::NUM_SE)?,
        cu_per_sh: wgps.saturating_mul(2),
        sh_per_se: get(v1::NUM_SA_PER_SE)?,
        wave_size: get(v1::WAVE_SIZE)?,
        waves_per_simd: get(v1::MAX_WAVES_PER_SIMD)?,
        scratch_slots_per_cu: get(v1::MAX_SCRATCH_SLOTS_PER_CU)?,
        lds_kib: get(v1::LDS_SIZE)?,
        tccs: get(v1::NUM_GL2C)?,
        vgprs: get(v1::NUM_GPRS)?,
        caches: Caches::default(),
    };
    if minor >= 2 {
        info.caches = Caches {
            tcp_kib: get(v1::TCP_L1_SIZE)?,
            sqc_inst_kib: get(v1::L1_INSTRUCTION_CACHE_SIZE_PER_SQC)?,
            sqc_data_kib: get(v1::L1_DATA_CACHE_SIZE_PER_SQC)?,
            cu_per_sqc: get(v1::NUM_SQC_PER_WGP)?.saturating_mul(2),
            sqc_per_wgp: get(v1::NUM_SQC_PER_WGP)?,
            gl1_kib: get(v1::GL1C_PER_SA)?.saturating_mul(get(v1::GL1C_SIZE_PER_INSTANCE)?),
            tcc_kib: get(v1::GL2C_PER_GPU)?,
            tcc_channels: info.tccs,
            ..Caches::default()
        };
    }
    if minor >= 3 {
        info.caches.tcp_line = get(v1::TCP_CACHE_LINE_SIZE)?;
        info.caches.sqc_inst_line = get(v1::INSTRUCTION_CACHE_LINE_SIZE)?;
        info.caches.sqc_data_line = get(v1::SCALAR_DATA_CACHE_LINE_SIZE)?;
        info.caches.tcc_line = get(v1::TCC_CACHE_LINE_SIZE)?;
    }
    Ok(info)
}

/// Parses a table that counts CUs.
fn parse_gc_v2(gc: Bytes<'_>, minor: u16) -> Result<GcInfo, Bad> {
    use d::gc_info_v2 as v2;
    let get = |at| gc.u32(at, "GC table");
    let mut info = GcInfo {
        num_se: get(v2::NUM_SE)?,
        cu_per_sh: get(v2::NUM_CU_PER_SH)?,
        sh_per_se: get(v2::NUM_SH_PER_SE)?,
        wave_size: get(v2::WAVE_SIZE)?,
        waves_per_simd: get(v2::MAX_WAVES_PER_SIMD)?,
        scratch_slots_per_cu: get(v2::MAX_SCRATCH_SLOTS_PER_CU)?,
        lds_kib: get(v2::LDS_SIZE)?,
        tccs: get(v2::NUM_TCCS)?,
        vgprs: get(v2::NUM_GPRS)?,
        caches: Caches::default(),
    };
    if minor >= 1 {
        info.caches = Caches {
            tcp_kib: get(v2::TCP_SIZE_PER_CU)?,
            sqc_inst_kib: get(v2::INSTRUCTION_CACHE_SIZE_PER_SQC)?,
            sqc_data_kib: get(v2::SCALAR_DATA_CACHE_SIZE_PER_SQC)?,
            cu_per_sqc: get(v2::NUM_CU_PER_SQC)?,
            tcc_kib: get(v2::TCC_SIZE)?,
            tcc_channels: info.tccs,
            ..Caches::default()
        };
    }
    Ok(info)
}

impl Discovery {
    /// Returns the contents of a table of a device with `vram_size` bytes of VRAM.
    pub(super) fn parse(raw: &[u8], vram_size: u64) -> Result<Self, Bad> {
        use d::binary_header as h;
        let raw = Bytes(raw);
        let signature = raw.u32(h::SIGNATURE, "header")?;
        if signature != d::BINARY_SIGNATURE {
            return Err(Bad::Signature("the table", signature));
        }
        let size = usize::from(raw.u16(h::BINARY_SIZE, "header")?);
        let expected = raw.u16(h::BINARY_CHECKSUM, "header")?;
        let sum = raw
            .range(0, size, "end")?
            .range(
                h::BINARY_SIZE,
                size.saturating_sub(h::BINARY_SIZE),
                "header",
            )?
            .sum();
        if sum != expected {
            return Err(Bad::Checksum("the table", expected, sum));
        }

        // As in the C driver, tables may lie beyond the size in the header.
        let all = raw;
        let ips =
            table(all, d::table::IP_DISCOVERY, "IP table")?.ok_or(Bad::Missing("IP table"))?;
        let mut listed = parse_ips(all, ips)?;
        let gc0 = listed
            .iter()
            .map(|ip| &ip.instance)
            .rfind(|i| i.hw_id == hwid::GC && i.inst == 0);
        let gc0 = gc0.cloned().ok_or(Bad::Missing("GC instance 0"))?;
        let umcs = listed.iter().filter(|ip| ip.instance.hw_id == hwid::UMC);
        let mut umcs = umcs.count();
        if let Some(harvest) = table(all, d::table::HARVEST_INFO, "harvest table")? {
            let harvested = mark_harvested(harvest, &mut listed)?;
            if harvested < umcs {
                umcs -= harvested;
            }
        }
        let gc = table(all, d::table::GC, "GC table")?.ok_or(Bad::Missing("GC table"))?;
        Ok(Self {
            listed,
            gc0,
            vram_size,
            gc: parse_gc(gc)?,
            mall: parse_mall(all, umcs),
        })
    }

    /// Returns the error in the MALL table, without which the card has no L3 in the topology.
    pub(super) fn mall_error(&self) -> Option<Bad> {
        self.mall.err()
    }

    /// Returns the instances of all blocks, without harvested ones.
    fn working(&self) -> impl Iterator<Item = &Instance> {
        self.listed
            .iter()
            .filter(|ip| !ip.harvested)
            .map(|ip| &ip.instance)
    }

    /// Returns a copy of the instances without harvested ones. `ENOMEM` without memory.
    pub(crate) fn instances(&self) -> Result<KVec<Instance>> {
        let mut instances = KVec::new();
        for instance in self.working() {
            instances.push(instance.clone(), GFP_KERNEL)?;
        }
        Ok(instances)
    }

    /// Returns the version of the first working instance of a block; of entries with its number
    /// that of the last.
    fn version(&self, hw_id: u16) -> Option<Version> {
        let all = || self.working().filter(|i| i.hw_id == hw_id);
        let first = all().next()?;
        let last = all().filter(|i| i.inst == first.inst).last();
        last.map(|i| i.version)
    }

    fn count(&self, hw_id: u16) -> u32 {
        self.working().filter(|i| i.hw_id == hw_id).count() as u32
    }

    /// Returns the GC version.
    pub(crate) fn gc_version(&self) -> Option<Version> {
        self.version(hwid::GC)
    }

    /// Returns the configuration as far as the table has it.
    pub(crate) fn config(&self, caps: &Caps) -> Config {
        let num_sdma = [hwid::SDMA0, hwid::SDMA1, hwid::SDMA2, hwid::SDMA3]
            .iter()
            .map(|id| self.count(*id))
            .sum();
        let gc = &self.gc;
        Config {
            gc: self.version(hwid::GC).unwrap_or_default(),
            sdma: self.version(hwid::SDMA0).unwrap_or_default(),
            gfx_target_version: caps.gfx_target_version,
            num_se: gc.num_se,
            sh_per_se: gc.sh_per_se,
            cu_per_sh: gc.cu_per_sh,
            simd_per_cu: caps.simd_per_cu,
            wave_size: gc.wave_size,
            waves_per_simd: gc.waves_per_simd,
            scratch_slots_per_cu: gc.scratch_slots_per_cu,
            lds_bytes: gc.lds_kib * 1024,
            vgprs: gc.vgprs,
            caches: Caches {
                mall_kib: u32::try_from(self.mall.unwrap_or(0) / 1024).unwrap_or(u32::MAX),
                ..gc.caches
            },
            num_sdma,
            num_vcn: self.count(hwid::VCN),
            sdma_queues_per_engine: caps.sdma_queues_per_engine,
            num_cp_queues: caps.pipes_per_mec
                * (caps.queues_per_pipe - caps.kernel_queues_per_pipe),
            num_gws: caps.num_gws,
            ..Config::default()
        }
    }
}
