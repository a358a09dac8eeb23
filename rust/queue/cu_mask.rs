// SPDX-License-Identifier: GPL-2.0

//! From the compute units that user space counts to those of shader engines.

use kernel::prelude::*;

use crate::{asic::config::Config, gpu::Gpu};

/// Shader arrays share a mask word of their engine, 16 bits each.
const BITS_PER_ARRAY: u32 = 16;

/// CUs that only work together are in it together.
fn has_whole_groups(mask: &[u32], group: u32) -> bool {
    let all = (1u32 << group) - 1;
    mask.iter().all(|word| {
        (0..u32::BITS)
            .step_by(group as usize)
            .all(|bit| [0, all].contains(&(word >> bit & all)))
    })
}

/// Spreads a mask over XCCs, then over the compute units of shader engines and arrays, so that
/// neighbouring bits are in different engines. The result has one word per shader engine for each
/// XCC; bits beyond the units that there are have no meaning. `EINVAL` if the mask has only some of
/// CUs that work together.
pub(super) fn spread(gpu: &Gpu, mask: &[u32]) -> Result<KVec<KVec<u32>>> {
    let config = gpu.config();
    let group = gpu.generation().caps.cu_group;
    if group > 1 && !has_whole_groups(mask, group) {
        return Err(EINVAL);
    }
    let mut out = KVec::with_capacity(config.num_xcc as usize, GFP_KERNEL)?;
    for xcc in 0..config.num_xcc {
        out.push(spread_xcc(config, group, mask, xcc)?, GFP_KERNEL)?;
    }
    Ok(out)
}

fn spread_xcc(config: &Config, group: u32, mask: &[u32], xcc: u32) -> Result<KVec<u32>> {
    let mut words = KVec::from_elem(0u32, config.num_se as usize, GFP_KERNEL)?;
    let count = (mask.len() as u32 * u32::BITS).min(config.cu_total);
    let all = (1u32 << group) - 1;
    let mut bit = xcc;
    for cu in (0..BITS_PER_ARRAY).step_by(group as usize) {
        for array in 0..config.sh_per_se {
            for (engine, word) in words.iter_mut().enumerate() {
                let at = (xcc * config.num_se + engine as u32) * config.sh_per_se + array;
                let active = config
                    .cu_bitmap
                    .get(at as usize)
                    .map_or(0, |b| b.count_ones());
                // Disabled units are the high ones of an array, whichever they are on silicon.
                if cu >= active {
                    continue;
                }
                if bit >= count {
                    return Ok(words);
                }
                let chosen = mask.get((bit / u32::BITS) as usize).copied().unwrap_or(0);
                *word |= (chosen >> (bit % u32::BITS) & all) << (cu + array * BITS_PER_ARRAY);
                bit += config.num_xcc * group;
            }
        }
    }
    Ok(words)
}
