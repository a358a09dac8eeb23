// SPDX-License-Identifier: GPL-2.0

//! Distribution of a CU mask over XCCs and shader engines (`mqd_symmetrically_map_cu_mask()`).

use kernel::{
    num::casts::u32_as_usize,
    prelude::*, //
};

use crate::{
    asic::{config::Config, xcc::Xcc},
    node::Node,
};

/// Bits of a shader array in the mask word of its shader engine.
const BITS_PER_ARRAY: u32 = 16;

/// Returns whether the mask selects all or no CUs of each group of `group` (the CUs of a WGP).
fn has_whole_groups(mask: &[u32], group: u32) -> bool {
    let all = (1u32 << group) - 1;
    mask.iter().all(|word| {
        (0..u32::BITS)
            .step_by(u32_as_usize(group))
            .all(|bit| [0, all].contains(&(word >> bit & all)))
    })
}

/// Distributes a CU mask over XCCs, then over shader engines and arrays, so that neighbouring bits
/// select CUs of different engines.
///
/// Returns one word per shader engine for each XCC; bits beyond the existing CUs have no meaning.
/// `EINVAL` if the mask splits a WGP.
pub(super) fn distribute(node: &Node, mask: &[u32]) -> Result<KVec<KVec<u32>>> {
    let config = node.gpu().config();
    let xccs = node.xccs();
    let group = node.gpu().generation().caps.cu_group;
    if group > 1 && !has_whole_groups(mask, group) {
        return Err(EINVAL);
    }
    let cus = node.cu_count();
    let mut out = KVec::with_capacity(xccs.len(), GFP_KERNEL)?;
    for (index, xcc) in (0u32..).zip(xccs.iter()) {
        let words = distribute_xcc(config, group, (mask, cus), *xcc, index, xccs.count())?;
        out.push(words, GFP_KERNEL)?;
    }
    Ok(out)
}

/// Returns the mask words of the XCC `xcc`, the `index`th of `xccs` of its node, which takes every
/// `xccs`th bit (or group of bits). Of the mask, `cus` bits count.
fn distribute_xcc(
    config: &Config,
    group: u32,
    (mask, cus): (&[u32], u32),
    xcc: Xcc,
    index: u32,
    xccs: u32,
) -> Result<KVec<u32>> {
    let mut words = KVec::<u32>::zeroed(u32_as_usize(config.num_se), GFP_KERNEL)?;
    // A mask that long names all CUs.
    let words_given = u32::try_from(mask.len()).unwrap_or(u32::MAX);
    let count = words_given.saturating_mul(u32::BITS).min(cus);
    let all = (1u32 << group) - 1;
    let mut bit = index;
    for cu in (0..BITS_PER_ARRAY).step_by(u32_as_usize(group)) {
        for array in 0..config.sh_per_se {
            for (engine, word) in (0..config.num_se).zip(words.iter_mut()) {
                let at =
                    (u32::from(xcc.logical) * config.num_se + engine) * config.sh_per_se + array;
                let active = config
                    .core()
                    .cu_bitmap
                    .get(u32_as_usize(at))
                    .map_or(0, |b| b.count_ones());
                // Disabled CUs are the high bits of an array's mask, wherever they are on
                // silicon.
                if cu >= active {
                    continue;
                }
                if bit >= count {
                    return Ok(words);
                }
                let chosen = mask
                    .get(u32_as_usize(bit / u32::BITS))
                    .copied()
                    .unwrap_or(0);
                *word |= (chosen >> (bit % u32::BITS) & all) << (cu + array * BITS_PER_ARRAY);
                bit += xccs * group;
            }
        }
    }
    Ok(words)
}
