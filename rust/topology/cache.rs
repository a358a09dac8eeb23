// SPDX-License-Identifier: GPL-2.0

//! The caches of a GPU: one entry for each cache with an active compute unit, with a bitmap of the
//! compute units that share it.
//!
//! Types and line sizes follow `kfd_fill_gpu_cache_info_from_gfx_config` and its `_v2`
//! (`kfd_crat.c`), the walk over compute units `kfd_fill_cache_non_crat_info` (`kfd_topology.c`).
//! The L3 belongs to the memory controllers: a node has that of one memory partition
//! (`fill_in_l2_l3_pcache`).

use core::fmt;
use kernel::{kvec, num::casts::u32_as_usize, prelude::*};

use crate::asic::{config::Config, partition::NpsMode, xcc::XccList};

/// `HSA_CACHE_TYPE_*` of `kfd_topology.h`.
mod kind {
    pub(super) const DATA: u32 = 1 << 0;
    pub(super) const INSTRUCTION: u32 = 1 << 1;
    pub(super) const HSACU: u32 = 1 << 3;
}

/// Bits of one word of the sibling map, which holds the compute units of one shader array.
const MAP_BITS: u32 = 32;

/// One cache.
pub(crate) struct Cache {
    processor_id_low: u32,
    level: u32,
    size_kib: u32,
    /// Cache line in bytes.
    line: u32,
    /// `HSA_CACHE_TYPE_*`.
    kind: u32,
    /// A word for each listed shader array.
    siblings: KVec<u32>,
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "processor_id_low {}", self.processor_id_low)?;
        writeln!(f, "level {}", self.level)?;
        writeln!(f, "size {}", self.size_kib)?;
        writeln!(f, "cache_line_size {}", self.line)?;
        writeln!(f, "cache_lines_per_tag 0")?;
        writeln!(f, "association 0")?;
        writeln!(f, "latency 0")?;
        writeln!(f, "type {}", self.kind)?;
        write!(f, "sibling_map ")?;
        let bits = self.siblings.len() * MAP_BITS as usize;
        for bit in 0..bits {
            let word = self.siblings[bit / MAP_BITS as usize];
            let end = if bit + 1 == bits { "\n" } else { "," };
            write!(f, "{}{end}", (word >> (bit % MAP_BITS as usize)) & 1)?;
        }
        Ok(())
    }
}

/// One type of cache of a GPU.
struct CacheType {
    level: u32,
    size_kib: u32,
    line: u32,
    kind: u32,
    /// Compute units that share one.
    shared_by: u32,
}

/// Line sizes in bytes where the discovery table has none (`kfd_crat.c`).
const VECTOR_LINE: u32 = 128;
const SCALAR_LINE: u32 = 64;
const MALL_LINE: u32 = 64;

fn or(value: u32, default: u32) -> u32 {
    if value == 0 {
        default
    } else {
        value
    }
}

fn cache_types(config: &Config, nps: Option<NpsMode>) -> [CacheType; 6] {
    let c = &config.caches;
    let data = kind::DATA | kind::HSACU;
    let per_sqc = c.cu_per_sqc.max(1);
    [
        CacheType {
            level: 1,
            size_kib: c.tcp_kib,
            line: or(c.tcp_line, VECTOR_LINE),
            kind: data,
            shared_by: 1,
        },
        CacheType {
            level: 1,
            size_kib: c.sqc_inst_kib,
            line: or(c.sqc_inst_line, SCALAR_LINE),
            kind: kind::INSTRUCTION | kind::HSACU,
            shared_by: per_sqc,
        },
        CacheType {
            level: 1,
            size_kib: c.sqc_data_kib,
            line: or(c.sqc_data_line, SCALAR_LINE),
            kind: data,
            shared_by: per_sqc,
        },
        CacheType {
            level: 1,
            size_kib: c.gl1_kib,
            line: VECTOR_LINE,
            kind: data,
            shared_by: config.cu_per_sh,
        },
        CacheType {
            level: 2,
            size_kib: c.tcc_kib,
            line: or(c.tcc_line, VECTOR_LINE),
            kind: data,
            shared_by: config.cu_per_sh,
        },
        CacheType {
            level: 3,
            size_kib: c.mall_kib / nps.map_or(1, NpsMode::number),
            line: MALL_LINE,
            kind: data,
            shared_by: config.cu_per_sh,
        },
    ]
}

/// Returns a mask of the low `bits` bits.
fn low_mask(bits: u32) -> u32 {
    if bits >= MAP_BITS {
        u32::MAX
    } else {
        (1 << bits) - 1
    }
}

/// Returns the caches of a node with these XCCs, whose first compute unit has the id `first_cu`, of
/// a card in memory partition mode `nps`, if it has partitions.
pub(crate) fn list(
    config: &Config,
    xccs: &XccList,
    first_cu: u32,
    nps: Option<NpsMode>,
) -> Result<KVec<Cache>> {
    let arrays = u32_as_usize(config.num_se * config.sh_per_se);
    let bitmap = config
        .core()
        .cu_bitmap
        .get(usize::from(xccs.first().logical) * arrays..)
        .and_then(|rest| rest.get(..xccs.len() * arrays))
        .ok_or(EINVAL)?;
    let mut all = KVec::new();
    for cache_type in cache_types(config, nps) {
        if cache_type.size_kib == 0 {
            continue;
        }
        if cache_type.level == 1 {
            list_level_1(config, bitmap, &cache_type, first_cu, &mut all)?;
        } else if let Some(cache) = whole_gpu(bitmap, &cache_type, first_cu)? {
            all.push(cache, GFP_KERNEL)?;
        }
    }
    Ok(all)
}

/// Appends a cache for each group of compute units of a shader array with an active one.
fn list_level_1(
    config: &Config,
    cu_bitmap: &[u32],
    cache_type: &CacheType,
    first_cu: u32,
    all: &mut KVec<Cache>,
) -> Result {
    let mut cu = first_cu;
    for &bitmap in cu_bitmap {
        let mut block = 0;
        while block < config.cu_per_sh {
            let group = (bitmap >> block) & low_mask(cache_type.shared_by);
            if group != 0 {
                let first = group.trailing_zeros();
                all.push(
                    Cache {
                        processor_id_low: cu.wrapping_add(first),
                        level: cache_type.level,
                        size_kib: cache_type.size_kib,
                        line: cache_type.line,
                        kind: cache_type.kind,
                        siblings: kvec![group >> first]?,
                    },
                    GFP_KERNEL,
                )?;
            }
            cu = cu.wrapping_add(cache_type.shared_by.min(config.cu_per_sh - block));
            block += cache_type.shared_by;
        }
    }
    Ok(())
}

/// Returns the cache that all compute units share. The first active shader array gives the
/// processor id. From the second array on, the C driver lists the map of the array before it; user
/// space relies on neither.
fn whole_gpu(cu_bitmap: &[u32], cache_type: &CacheType, first_cu: u32) -> Result<Option<Cache>> {
    let mask = low_mask(cache_type.shared_by);
    let Some(&first_map) = cu_bitmap.iter().find(|map| **map & mask != 0) else {
        return Ok(None);
    };
    let mut map = first_map & mask;
    let first = map.trailing_zeros();
    map >>= first;
    let mut siblings = KVec::with_capacity(cu_bitmap.len(), GFP_KERNEL)?;
    for bitmap in cu_bitmap {
        siblings.push(map, GFP_KERNEL)?;
        map = bitmap & mask;
    }
    Ok(Some(Cache {
        processor_id_low: first_cu.wrapping_add(first),
        level: cache_type.level,
        size_kib: cache_type.size_kib,
        line: cache_type.line,
        kind: cache_type.kind,
        siblings,
    }))
}
