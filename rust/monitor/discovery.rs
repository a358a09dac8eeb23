// SPDX-License-Identifier: GPL-2.0

//! `ip_discovery` of a card in sysfs: the IP blocks that its discovery table lists, as
//! `die/DIE/ID/INSTANCE/` with versions and base addresses, and links to `ID` by name
//! (`amdgpu_discovery.c`).

use core::fmt::Write;

use kernel::{prelude::*, str::CString, sync::Arc};
use rkfd_abi::discovery::hwid;

use crate::{
    asic::discovery::Listed,
    gpu::Gpu,
    kapi::kobject::{Dir, File, Parent, Text},
};

/// The directories. Dropping it removes them.
pub(super) struct Tree {
    // Field order: children are removed first.
    _instances: KVec<Dir>,
    _blocks: KVec<Dir>,
    _dies: KVec<Dir>,
    _die: Dir,
    _top: Dir,
}

impl Tree {
    /// Creates the directories of a card. Of several entries of a block with one number the first
    /// has a directory, as in the C driver, and the others are reported. `ENOMEM` without memory.
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let top = Dir::new(&Parent::Device(gpu.dev()), c"ip_discovery", KVec::new())?;
        let die = Dir::new(&Parent::Dir(&top), c"die", KVec::new())?;
        let (mut dies, mut blocks, mut instances) = (KVec::new(), KVec::new(), KVec::new());
        let listed = gpu.listed();
        for number in 0..listed.last().map_or(0, |last| last.die + 1) {
            let of_die = || listed.iter().filter(|ip| ip.die == number);
            let count = of_die().count();
            let mut files = KVec::new();
            files.push(fact(c"num_ips", count)?, GFP_KERNEL)?;
            let dir = Dir::new(&Parent::Dir(&die), &numbered(number)?, files)?;
            let mut last = None;
            while let Some(id) = of_die()
                .map(|ip| ip.instance.hw_id)
                .filter(|id| last.is_none_or(|last| *id > last))
                .min()
            {
                last = Some(id);
                let block = Dir::new(&Parent::Dir(&dir), &numbered(id)?, KVec::new())?;
                if let Some((_, name)) = hwid::NAMES.iter().find(|(known, _)| *known == id) {
                    dir.link(name, &block)?;
                }
                for ip in of_die().filter(|ip| ip.instance.hw_id == id) {
                    // The name is taken: sysfs would warn, with a stack trace.
                    if ip.repeated {
                        continue;
                    }
                    let name = numbered(ip.instance.inst)?;
                    let dir = Dir::new(&Parent::Dir(&block), &name, files_of(ip)?)?;
                    instances.push(dir, GFP_KERNEL)?;
                }
                blocks.push(block, GFP_KERNEL)?;
            }
            dies.push(dir, GFP_KERNEL)?;
        }
        let mut repeated = listed.iter().filter(|ip| ip.repeated);
        if let Some(first) = repeated.next() {
            dev_warn!(
                gpu.dev(),
                "{} entries of the IP discovery table repeat others, the first is instance {} of block {} on die {}: not in sysfs\n",
                1 + repeated.count(),
                first.instance.inst,
                first.instance.hw_id,
                first.die
            );
        }
        Ok(Self {
            _instances: instances,
            _blocks: blocks,
            _dies: dies,
            _die: die,
            _top: top,
        })
    }
}

/// Returns a directory name. `ENOMEM` without memory.
fn numbered(number: impl Into<u32>) -> Result<CString> {
    CString::try_from_fmt(fmt!("{}", number.into()))
}

/// Makes a file with a number. `ENOMEM` without memory.
fn fact(name: &CStr, value: usize) -> Result<File> {
    File::new(name, move |out: &mut Text<'_>| {
        Ok(writeln!(out, "{value}")?)
    })
}

/// Makes the files of an instance. `ENOMEM` without memory.
fn files_of(ip: &Listed) -> Result<KVec<File>> {
    let instance = ip.instance.clone();
    // The C driver has a mask of instances that work for these blocks only
    // (`amdgpu_discovery_get_harvest_info`).
    let harvested =
        u8::from(ip.harvested && matches!(instance.hw_id, hwid::GC | hwid::SDMA0 | hwid::VCN));
    let mut files = KVec::new();
    for (name, value) in [
        (c"hw_id", usize::from(instance.hw_id)),
        (c"num_instance", usize::from(instance.inst)),
        (c"major", usize::from(instance.version.major)),
        (c"minor", usize::from(instance.version.minor)),
        (c"revision", usize::from(instance.version.rev)),
        (c"num_base_addresses", usize::from(instance.num_bases)),
    ] {
        files.push(fact(name, value)?, GFP_KERNEL)?;
    }
    let harvest = File::new(c"harvest", move |out: &mut Text<'_>| {
        Ok(writeln!(out, "{harvested:#X}")?)
    })?;
    files.push(harvest, GFP_KERNEL)?;
    let bases = File::new(c"base_addr", move |out: &mut Text<'_>| {
        for base in instance.bases.iter().take(instance.num_bases.into()) {
            writeln!(out, "0x{base:08X}")?;
        }
        Ok(())
    })?;
    files.push(bases, GFP_KERNEL)?;
    Ok(files)
}
