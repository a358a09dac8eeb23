// SPDX-License-Identifier: GPL-2.0

//! `compute_partition_config` of a card in sysfs: the resources of a partition in a compute
//! partition mode, whether or not the mode is set (`amdgpu_xcp.c`,
//! `aqua_vanjaram_get_xcp_res_info`).

use core::fmt::Write;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

use crate::{
    asic::partition::{ComputePartition, NpsMode, NpsModes},
    gpu::Gpu,
    kapi::kobject::{Dir, File, Parent, Text},
};

/// A kind of engines that partitions have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resource {
    Xcc,
    Sdma,
    /// Video decoders (VCN).
    Decoder,
    /// JPEG decoders: a part of each VCN.
    Jpeg,
}

impl Resource {
    const ALL: [Self; 4] = [Self::Xcc, Self::Sdma, Self::Decoder, Self::Jpeg];

    fn name(self) -> &'static CStr {
        match self {
            Self::Xcc => c"xcc",
            Self::Sdma => c"dma",
            Self::Decoder => c"dec",
            Self::Jpeg => c"jpeg",
        }
    }
}

/// The engines of a kind in a partition.
#[derive(Clone, Copy, Default)]
struct Engines {
    /// Their number.
    instances: u32,
    /// Partitions that share each of them.
    sharers: u32,
}

/// The mode that user space has selected.
#[pin_data]
struct Selected {
    gpu: Arc<Gpu>,
    #[pin]
    mode: Mutex<ComputePartition>,
}

impl Selected {
    /// Selects the mode with whose name `text` starts. `EINVAL` for an unknown mode, or one that
    /// the card never has.
    fn store(&self, text: &[u8]) -> Result {
        let mode = ComputePartition::parse(text)
            .filter(|mode| mode.is_supported(self.gpu.xccs()))
            .ok_or(EINVAL)?;
        *self.mode.lock() = mode;
        Ok(())
    }

    /// Returns the engines of a partition of the selected mode.
    fn engines(&self, resource: Resource) -> Engines {
        let (gpu, mode) = (&self.gpu, *self.mode.lock());
        let all = match resource {
            Resource::Xcc => gpu.xccs().count(),
            Resource::Sdma => gpu.config().num_sdma,
            Resource::Decoder | Resource::Jpeg => gpu.config().num_vcn,
        };
        let partitions = mode.partitions(gpu.xccs().count());
        let mut engines = if all == 0 {
            Engines::default()
        } else if all < partitions {
            Engines {
                instances: 1,
                sharers: partitions / all,
            }
        } else {
            Engines {
                instances: all / partitions,
                sharers: 1,
            }
        };
        if resource == Resource::Jpeg {
            // The number of rings, of which this driver has none.
            engines.instances = 0;
        }
        engines
    }

    /// Prints the NPS modes in which the card can have the selected mode.
    fn show_nps_modes(&self, modes: &NpsModes, out: &mut Text<'_>) -> Result {
        let selected = *self.mode.lock();
        let both = NpsMode::ALL
            .into_iter()
            .filter(|nps| modes.supports(*nps) && selected.is_compatible(*nps));
        let mut separator = "";
        for nps in both {
            write!(out, "{separator}NPS{}", nps.number())?;
            separator = ", ";
        }
        end_list(separator, out)
    }
}

/// Ends a line with a list of names. `separator` is empty if there were none.
fn end_list(separator: &str, out: &mut Text<'_>) -> Result {
    if separator.is_empty() {
        write!(out, "Not supported")?;
    }
    Ok(writeln!(out)?)
}

/// Prints the modes for which `filter` returns true.
pub(super) fn show_modes(out: &mut Text<'_>, filter: impl Fn(ComputePartition) -> bool) -> Result {
    let mut separator = "";
    for mode in ComputePartition::ALL
        .into_iter()
        .filter(|mode| filter(*mode))
    {
        write!(out, "{separator}{}", mode.name())?;
        separator = ", ";
    }
    end_list(separator, out)
}

/// Returns a file, readable by root, that shows a number of the engines of a kind.
fn number(
    name: &CStr,
    selected: &Arc<Selected>,
    resource: Resource,
    number: fn(Engines) -> u32,
) -> Result<File> {
    let selected = selected.clone();
    let show =
        move |out: &mut Text<'_>| Ok(writeln!(out, "{}", number(selected.engines(resource)))?);
    Ok(File::new(name, show)?.for_root())
}

/// The directory. Dropping it removes it and waits for the users of its files.
pub(super) struct Folder {
    // Field order: children first.
    _resources: KVec<Dir>,
    _top: Dir,
}

impl Folder {
    /// Creates the directory of a card with these NPS modes, with `mode` selected. `ENOMEM` without
    /// memory.
    pub(super) fn new(gpu: &Arc<Gpu>, modes: NpsModes, mode: ComputePartition) -> Result<Self> {
        let selected = Arc::pin_init(
            pin_init!(Selected {
                gpu: gpu.clone(),
                mode <- new_mutex!(mode, "rkfd_partition_config"),
            }),
            GFP_KERNEL,
        )?;
        let mut files = KVec::with_capacity(3, GFP_KERNEL)?;
        let shown = gpu.clone();
        files.push(
            File::new(c"supported_xcp_configs", move |out: &mut Text<'_>| {
                show_modes(out, |mode| mode.is_supported(shown.xccs()))
            })?,
            GFP_KERNEL,
        )?;
        let (reader, writer) = (selected.clone(), selected.clone());
        let file = File::new(c"xcp_config", move |out: &mut Text<'_>| {
            Ok(writeln!(out, "{}", reader.mode.lock().name())?)
        })?;
        files.push(
            file.writable(move |text: &[u8]| writer.store(text))?,
            GFP_KERNEL,
        )?;
        let reader = selected.clone();
        files.push(
            File::new(c"supported_nps_configs", move |out: &mut Text<'_>| {
                reader.show_nps_modes(&modes, out)
            })?,
            GFP_KERNEL,
        )?;
        let top = Dir::new(
            &Parent::Device(gpu.dev()),
            c"compute_partition_config",
            files,
        )?;
        let mut resources = KVec::with_capacity(Resource::ALL.len(), GFP_KERNEL)?;
        for resource in Resource::ALL {
            let mut files = KVec::with_capacity(2, GFP_KERNEL)?;
            files.push(
                number(c"num_inst", &selected, resource, |engines| {
                    engines.instances
                })?,
                GFP_KERNEL,
            )?;
            files.push(
                number(c"num_shared", &selected, resource, |engines| {
                    engines.sharers
                })?,
                GFP_KERNEL,
            )?;
            let dir = Dir::new(&Parent::Dir(&top), resource.name(), files)?;
            resources.push(dir, GFP_KERNEL)?;
        }
        Ok(Self {
            _resources: resources,
            _top: top,
        })
    }
}
