// SPDX-License-Identifier: GPL-2.0

//! The properties of a topology node: computed once from a GPU or a NUMA node, then printed, with
//! the CPU's clock of that moment.
//!
//! Names, order and units of the lines are those of the C driver's `kfd_topology.c` (`node_show`,
//! `mem_show`, `iolink_show`, `kfd_cache_show`), the values those of its virtual CRAT
//! (`kfd_crat.c`). User space parses them as `name decimal` up to the first line of another form.

use core::fmt;
use kernel::prelude::*;

use super::cache::Cache;
use crate::{
    dqm::SdmaEngines,
    kapi::{cpufreq, drm},
    uapi,
};

/// Heap type of a memory bank (`HSA_MEM_HEAP_TYPE_*` of `kfd_topology.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Heap {
    /// Memory of a NUMA node.
    System = 0,
    /// VRAM, all of it accessible by the CPU.
    FbPublic = 1,
    /// VRAM that the CPU can access in part.
    FbPrivate = 2,
}

/// One bank of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bank {
    /// Heap type.
    pub(crate) heap: Heap,
    /// Bytes.
    pub(crate) size: u64,
    /// Bits of the interface, 0 when unknown.
    pub(crate) width: u32,
    /// MHz, 0 when unknown.
    pub(crate) clock_max: u32,
}

impl fmt::Display for Bank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "heap_type {}", self.heap as u32)?;
        writeln!(f, "size_in_bytes {}", self.size)?;
        writeln!(f, "flags 0")?;
        writeln!(f, "width {}", self.width)?;
        writeln!(f, "mem_clk_max {}", self.clock_max)
    }
}

/// Flags of a link, `CRAT_IOLINK_FLAGS_*` (`kfd_crat.h`).
pub(crate) mod link_flags {
    /// The entry is valid.
    pub(crate) const ENABLED: u32 = 1 << 0;
    /// Writes are visible to the other side only after a flush.
    pub(crate) const NON_COHERENT: u32 = 1 << 1;
    /// No 32-bit atomics.
    pub(crate) const NO_ATOMICS_32: u32 = 1 << 2;
    /// No 64-bit atomics.
    pub(crate) const NO_ATOMICS_64: u32 = 1 << 3;
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// `HSA_IOLINK_TYPE_*`.
    kind: u32,
    from: u32,
    to: u32,
    /// NUMA distance.
    weight: u32,
    /// Minimum in MB/s, 0 when unknown.
    min_bandwidth: u32,
    /// Maximum in MB/s, 0 when unknown.
    bandwidth: u32,
    /// [`link_flags`].
    flags: u32,
    /// Bitmap of the recommended SDMA engines.
    pub(crate) sdma_engines: u32,
}

impl Link {
    /// Distance of a PCI Express link (`kfd_fill_gpu_direct_io_link_to_cpu`).
    const PCIE_WEIGHT: u32 = 20;

    /// Returns a PCI Express link of `bandwidth` MB/s.
    pub(crate) fn pcie(from: u32, to: u32, bandwidth: u32, flags: u32) -> Self {
        Self {
            kind: uapi::HSA_IOLINK_TYPE_PCIEXPRESS,
            from,
            to,
            weight: Self::PCIE_WEIGHT,
            min_bandwidth: 0,
            bandwidth,
            flags,
            sdma_engines: 0,
        }
    }

    /// Returns the link between two partitions of a card (`kfd_fill_gpu_xgmi_link_to_gpu`).
    pub(crate) fn between_partitions(from: u32, to: u32, engines: SdmaEngines) -> Self {
        /// `KFD_CRAT_INTRA_SOCKET_WEIGHT`.
        const WEIGHT: u32 = 13;
        const BANDWIDTH: u32 = 819_200;
        Self {
            kind: uapi::HSA_IOLINK_TYPE_XGMI,
            from,
            to,
            weight: WEIGHT,
            min_bandwidth: BANDWIDTH,
            bandwidth: BANDWIDTH,
            flags: link_flags::ENABLED,
            // `kfd_set_recommended_sdma_engines`.
            sdma_engines: match engines.xgmi_mask() {
                0 => engines.pcie_mask(),
                mask => mask,
            },
        }
    }

    /// Returns the link between the GPU of this PCI Express link and a NUMA node that is `distance`
    /// from its NUMA node (`kfd_create_indirect_link_prop`).
    pub(crate) fn beyond_cpu(&self, from: u32, to: u32, distance: u32) -> Self {
        Self {
            from,
            to,
            weight: self.weight + distance,
            // That of the link between the NUMA nodes is unknown.
            bandwidth: 0,
            sdma_engines: 0,
            ..*self
        }
    }

    /// Returns the link between two NUMA nodes, of which only the distance is known.
    pub(crate) fn between_cpus(from: u32, to: u32, distance: u32) -> Self {
        Self {
            kind: if crate::kapi::cpufeature::is_amd() {
                uapi::HSA_IOLINK_TYPE_HYPERTRANSPORT
            } else {
                uapi::HSA_IOLINK_TYPE_QPI_1_1
            },
            from,
            to,
            weight: distance,
            min_bandwidth: 0,
            bandwidth: 0,
            flags: 0,
            sdma_engines: 0,
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "type {}", self.kind)?;
        writeln!(f, "version_major 0")?;
        writeln!(f, "version_minor 0")?;
        writeln!(f, "node_from {}", self.from)?;
        writeln!(f, "node_to {}", self.to)?;
        writeln!(f, "weight {}", self.weight)?;
        writeln!(f, "min_latency 0")?;
        writeln!(f, "max_latency 0")?;
        // The minimum of a PCI Express link is unknown. The C driver prints 0, too: it reads the
        // lowest link width from the capabilities of the card, but only those of the slot have it.
        writeln!(f, "min_bandwidth {}", self.min_bandwidth)?;
        writeln!(f, "max_bandwidth {}", self.bandwidth)?;
        writeln!(f, "recommended_transfer_size 0")?;
        writeln!(f, "recommended_sdma_engine_id_mask {}", self.sdma_engines)?;
        writeln!(f, "flags {}", self.flags)
    }
}

/// Lines of `properties` of GPUs only.
#[derive(Clone, Debug, Default)]
pub(crate) struct GpuLines {
    /// Maximum clock of the GPU in MHz.
    pub(crate) max_engine_clk_fcompute: u32,
    /// Version of the MEC firmware.
    pub(crate) fw_version: u32,
    /// `HSA_CAP_*` of `linux/kfd_sysfs.h`.
    pub(crate) capability: u32,
    /// `HSA_CAP2_*` of `linux/kfd_sysfs.h`.
    pub(crate) capability2: u32,
    /// `HSA_DBG_*` of `linux/kfd_sysfs.h`.
    pub(crate) debug_prop: u32,
    /// Version of the SDMA firmware.
    pub(crate) sdma_fw_version: u32,
    /// Serial number.
    pub(crate) unique_id: u64,
    /// Number of XCCs.
    pub(crate) num_xcc: u32,
}

/// Lines of `properties` of all nodes; 0 where a line does not apply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    /// Processors of a NUMA node.
    pub(crate) cpu_cores_count: u32,
    /// SIMDs of all compute units. User space takes a node with SIMDs for a GPU.
    pub(crate) simd_count: u32,
    /// Lowest APIC id of the node.
    pub(crate) cpu_core_id_base: u32,
    /// Id of the first compute unit, unique among all GPUs.
    pub(crate) simd_id_base: u32,
    /// Waves of a SIMD.
    pub(crate) max_waves_per_simd: u32,
    /// LDS of a compute unit in KiB.
    pub(crate) lds_size_in_kb: u32,
    /// Global wave sync entries that user space may allocate.
    pub(crate) num_gws: u32,
    /// Lanes of a wave.
    pub(crate) wave_front_size: u32,
    /// Shader arrays of all XCCs.
    pub(crate) array_count: u32,
    /// Shader arrays of a shader engine.
    pub(crate) simd_arrays_per_engine: u32,
    /// Compute units of a shader array, including inactive ones.
    pub(crate) cu_per_simd_array: u32,
    /// SIMDs of a compute unit.
    pub(crate) simd_per_cu: u32,
    /// Waves of a compute unit that may use scratch at once.
    pub(crate) max_slots_scratch_cu: u32,
    /// `major * 10000 + minor * 100 + stepping`.
    pub(crate) gfx_target_version: u32,
    /// PCI vendor id.
    pub(crate) vendor_id: u32,
    /// PCI device id.
    pub(crate) device_id: u32,
    /// PCI bus, device and function.
    pub(crate) location_id: u32,
    /// PCI domain.
    pub(crate) domain: u32,
    /// Minor number of the render node.
    pub(crate) drm_render_minor: u32,
    /// Id of the xGMI hive, or of the partitions of a card.
    pub(crate) hive_id: u64,
    /// SDMA engines for PCIe.
    pub(crate) num_sdma_engines: u32,
    /// SDMA engines for xGMI.
    pub(crate) num_sdma_xgmi_engines: u32,
    /// User queues of an SDMA engine.
    pub(crate) num_sdma_queues_per_engine: u32,
    /// HQD slots for compute queues.
    pub(crate) num_cp_queues: u32,
    /// CWSR area of a queue for one XCC, in bytes.
    pub(crate) cwsr_size: u32,
    /// Control stack within the CWSR area, in bytes.
    pub(crate) ctl_stack_size: u32,
}

/// One node.
pub(crate) struct Node {
    /// 0 for a NUMA node.
    pub(crate) gpu_id: u32,
    /// Device name as in the C driver; empty for a NUMA node.
    pub(crate) name: &'static str,
    /// Lines of `properties`.
    pub(crate) lines: Lines,
    /// Further lines of a GPU.
    pub(crate) gpu_lines: Option<GpuLines>,
    /// Memory.
    pub(crate) banks: KVec<Bank>,
    /// Caches of a GPU.
    pub(crate) caches: KVec<Cache>,
    /// Links to other nodes.
    pub(crate) io_links: KVec<Link>,
    /// Links by way of another NUMA node.
    pub(crate) p2p_links: KVec<Link>,
}

impl Node {
    /// Checks that the current task may use the node: `EPERM` if its device cgroup denies the
    /// render node.
    pub(crate) fn check_permission(&self) -> Result {
        match self.gpu_id {
            0 => Ok(()),
            _ => drm::check_render_node(self.lines.drm_render_minor),
        }
    }

    /// Returns the contents of the file `properties`.
    pub(crate) fn properties(&self) -> Properties<'_> {
        Properties(self)
    }
}

/// Prints the file `properties` of a node.
pub(crate) struct Properties<'a>(&'a Node);

impl fmt::Display for Properties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.0;
        let lines = &node.lines;
        for (name, value) in [
            ("cpu_cores_count", lines.cpu_cores_count),
            ("simd_count", lines.simd_count),
            ("mem_banks_count", count(node.banks.len())),
            ("caches_count", count(node.caches.len())),
            ("io_links_count", count(node.io_links.len())),
            ("p2p_links_count", count(node.p2p_links.len())),
            ("cpu_core_id_base", lines.cpu_core_id_base),
            ("simd_id_base", lines.simd_id_base),
            ("max_waves_per_simd", lines.max_waves_per_simd),
            ("lds_size_in_kb", lines.lds_size_in_kb),
            ("gds_size_in_kb", 0),
            ("num_gws", lines.num_gws),
            ("wave_front_size", lines.wave_front_size),
            ("array_count", lines.array_count),
            ("simd_arrays_per_engine", lines.simd_arrays_per_engine),
            ("cu_per_simd_array", lines.cu_per_simd_array),
            ("simd_per_cu", lines.simd_per_cu),
            ("max_slots_scratch_cu", lines.max_slots_scratch_cu),
            ("gfx_target_version", lines.gfx_target_version),
            ("vendor_id", lines.vendor_id),
            ("device_id", lines.device_id),
            ("location_id", lines.location_id),
            ("domain", lines.domain),
            ("drm_render_minor", lines.drm_render_minor),
        ] {
            writeln!(f, "{name} {value}")?;
        }
        writeln!(f, "hive_id {}", lines.hive_id)?;
        for (name, value) in [
            ("num_sdma_engines", lines.num_sdma_engines),
            ("num_sdma_xgmi_engines", lines.num_sdma_xgmi_engines),
            (
                "num_sdma_queues_per_engine",
                lines.num_sdma_queues_per_engine,
            ),
            ("num_cp_queues", lines.num_cp_queues),
            ("cwsr_size", lines.cwsr_size),
            ("ctl_stack_size", lines.ctl_stack_size),
        ] {
            writeln!(f, "{name} {value}")?;
        }
        if let Some(gpu) = &node.gpu_lines {
            writeln!(f, "max_engine_clk_fcompute {}", gpu.max_engine_clk_fcompute)?;
            // Always 0 in the C driver; sizes are in the banks.
            writeln!(f, "local_mem_size 0")?;
            writeln!(f, "fw_version {}", gpu.fw_version)?;
            writeln!(f, "capability {}", gpu.capability)?;
            writeln!(f, "capability2 {}", gpu.capability2)?;
            writeln!(f, "debug_prop {}", gpu.debug_prop)?;
            writeln!(f, "sdma_fw_version {}", gpu.sdma_fw_version)?;
            writeln!(f, "unique_id {}", gpu.unique_id)?;
            writeln!(f, "num_xcc {}", gpu.num_xcc)?;
        }
        // A policy of cpufreq may come or change later.
        writeln!(f, "max_engine_clk_ccompute {}", cpufreq::cpu_max_mhz())
    }
}

/// Returns a length as `u32`: no list has more than a few hundred entries.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
